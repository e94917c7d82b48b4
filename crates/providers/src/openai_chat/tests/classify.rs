//! What failures of this wire mean, in the shapes of the servers that speak it.

use everturn_core::error::{Cause, Kind, ProviderError, Retry};
use everturn_core::ids::Timestamp;
use serde_json::{Value, json};

use super::super::Completions;
use crate::classify::{Evidence, classify};
use crate::wire::cuts::told;

fn summary(error: &ProviderError) -> (Kind, Retry, Cause) {
    (error.kind, error.retry, error.cause)
}

/// Status × type × code × body, as servers answer a request.
#[test]
fn refusals() {
    let openai = |kind: &str, code: Value, message: &str| json!({"error": {"type": kind, "code": code, "message": message}});
    let cases = [
        // OpenAI
        ("openai", 400, openai("invalid_request_error", json!("context_length_exceeded"), "This model's maximum context length is 8192 tokens."), Kind::ContextFull, Retry::Never),
        ("openai", 400, openai("invalid_request_error", json!("unsupported_parameter"), "Use 'max_completion_tokens' instead."), Kind::Config, Retry::Never),
        ("openai", 401, openai("invalid_request_error", json!("invalid_api_key"), "Incorrect API key"), Kind::Auth, Retry::Never),
        ("openai", 429, openai("insufficient_quota", json!("insufficient_quota"), "You exceeded your current quota"), Kind::UsageLimit, Retry::Never),
        ("openai", 429, openai("requests", json!("rate_limit_exceeded"), "Rate limit reached"), Kind::RateLimit, Retry::Backoff),
        // Ollama
        ("ollama", 404, json!({"error": {"message": "model 'qwen9' not found", "type": "not_found_error", "param": null, "code": null}}), Kind::Config, Retry::Never),
        ("ollama", 404, json!({"error": "model 'qwen9' not found"}), Kind::Config, Retry::Never),
        ("ollama", 500, json!({"error": {"message": "llama runner process has terminated", "type": "api_error"}}), Kind::Generic, Retry::Backoff),
        ("ollama", 400, json!({"error": {"message": "registry.ollama.ai/library/x does not support tools", "type": "api_error"}}), Kind::Generic, Retry::Backoff),
        // vLLM
        ("vllm", 400, json!({"object": "error", "message": "This model's maximum context length is 4096 tokens.", "type": "BadRequestError", "param": null, "code": 400}), Kind::ContextFull, Retry::Never),
        ("vllm", 404, json!({"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404}), Kind::Config, Retry::Never),
        ("vllm", 400, json!({"error": {"message": "Unknown field", "type": "BadRequestError", "code": 400}}), Kind::Generic, Retry::Never),
        // llama.cpp
        ("llamacpp", 400, json!({"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 4096}}), Kind::ContextFull, Retry::Never),
        ("llamacpp", 503, json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}), Kind::Timeout, Retry::Backoff),
        ("llamacpp", 500, json!({"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}), Kind::Generic, Retry::Backoff),
        // OpenRouter
        ("openrouter", 402, json!({"error": {"code": 402, "message": "Insufficient credits"}}), Kind::UsageLimit, Retry::Never),
        ("openrouter", 403, json!({"error": {"code": 403, "message": "Flagged", "metadata": {"reasons": ["violence"], "flagged_input": "…"}}}), Kind::ContentFilter, Retry::Never),
        ("openrouter", 429, json!({"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "rate-limited upstream", "provider_name": "x"}}}), Kind::RateLimit, Retry::Backoff),
        ("openrouter", 502, json!({"error": {"code": 502, "message": "Provider returned error"}}), Kind::Timeout, Retry::Backoff),
        // LiteLLM
        ("litellm", 400, json!({"error": {"message": "litellm.ContextWindowExceededError: prompt is too long: 9 tokens > 8 maximum", "type": null, "param": null, "code": "400"}}), Kind::ContextFull, Retry::Never),
        ("litellm", 400, json!({"error": {"message": "Budget has been exceeded! Current cost: 1.0, Max budget: 0.5", "type": "budget_exceeded", "param": null, "code": "400"}}), Kind::UsageLimit, Retry::Never),
        ("litellm", 401, json!({"error": {"message": "Authentication Error", "type": "auth_error", "param": "None", "code": "401"}}), Kind::Auth, Retry::Never),
        // DeepSeek
        ("deepseek", 402, json!({"error": {"message": "Insufficient Balance", "type": "unknown_error", "param": null, "code": "invalid_request_error"}}), Kind::UsageLimit, Retry::Never),
        // A page instead of an answer
        ("x", 200, json!("<html>"), Kind::Malformed, Retry::Backoff),
    ];
    for (provider, status, body, kind, retry) in cases {
        let evidence = Evidence::of_response(provider, status, |_| None, body.to_string().as_bytes(), Timestamp(0));
        let error = classify(&evidence);
        assert_eq!((error.kind, error.retry), (kind, retry), "{provider} {status} {body}");
    }
}

/// The same in a stream, after something was said.
#[test]
fn errors_in_a_stream() {
    let cases = [
        (json!({"error": "model runner has unexpectedly stopped"}), (Kind::Generic, Retry::Backoff)),
        (json!({"error": {"message": "out of memory", "type": "api_error"}}), (Kind::Generic, Retry::Backoff)),
        (json!({"error": {"message": "slow down", "type": "None", "param": "None", "code": "429"}}), (Kind::RateLimit, Retry::Backoff)),
        (json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}), (Kind::Timeout, Retry::Backoff)),
        (json!({"object": "error", "message": "EngineCore died", "type": "InternalServerError", "code": 500}), (Kind::Generic, Retry::Backoff)),
        (json!({"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}), (Kind::Generic, Retry::Backoff)),
        (json!({"error": {"message": "The server is currently overloaded", "type": "server_error", "code": null}}), (Kind::Overloaded, Retry::Backoff)),
        (json!({"error": {"message": "no", "type": "insufficient_quota", "code": "insufficient_quota"}}), (Kind::UsageLimit, Retry::Never)),
        (json!({"id": "gen-1", "object": "chat.completion.chunk", "model": "x", "choices": [], "error": {"code": 502, "message": "Provider disconnected"}}), (Kind::Timeout, Retry::Backoff)),
    ];
    let said = json!({"choices": [{"delta": {"content": "Once"}}]});
    for (event, (kind, retry)) in cases {
        for head in ["", "event: error\n"] {
            let bytes = format!("data: {said}\n\n{head}data: {event}\n\n");
            let read = told([bytes.as_bytes()], Completions::new("x"));
            assert_eq!(read.frames.len(), 1);
            assert_eq!(summary(&read.end.unwrap_err()), (kind, retry, Cause::ServerError), "{event}");
        }
    }
    let bare = format!("data: {said}\n\nevent: error\ndata: {{\"message\":\"boom\",\"code\":500}}\n\n");
    let error = told([bare.as_bytes()], Completions::new("x")).end.unwrap_err();
    assert_eq!((summary(&error), error.detail.as_str()), ((Kind::Generic, Retry::Backoff, Cause::ServerError), "boom"));
}

/// A finish reason may be an error, with or without a word about it.
#[test]
fn reasons_that_are_errors() {
    let cases = [
        ("error", Value::Null, Kind::Generic),
        ("network_error", Value::Null, Kind::Timeout),
        ("insufficient_system_resource", Value::Null, Kind::Overloaded),
        ("abort", Value::Null, Kind::Generic),
        ("ERROR", Value::Null, Kind::Generic),
        ("error", json!({"code": 429, "message": "busy"}), Kind::RateLimit),
        ("stop", json!({"code": 503, "message": "gone"}), Kind::Timeout),
    ];
    for (reason, error, kind) in cases {
        let chunk = json!({"choices": [{"delta": {"content": ""}, "finish_reason": reason}], "error": error});
        let read = told([format!("data: {chunk}\n\n").as_bytes()], Completions::new("x"));
        let error = read.end.unwrap_err();
        assert_eq!(summary(&error), (kind, Retry::Backoff, Cause::ErrorFinish), "{chunk}");
        assert!(error.is_broken_stream());
    }
}
