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
const REFUSALS: &[(&str, u16, &str, Kind, Retry)] = &[
    (
        "openai",
        400,
        r#"{"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"This model's maximum context length is 8192 tokens."}}"#,
        Kind::ContextFull,
        Retry::Never,
    ),
    (
        "openai",
        400,
        r#"{"error":{"type":"invalid_request_error","code":"unsupported_parameter","message":"Use 'max_completion_tokens' instead."}}"#,
        Kind::Config,
        Retry::Never,
    ),
    (
        "openai",
        401,
        r#"{"error":{"type":"invalid_request_error","code":"invalid_api_key","message":"Incorrect API key"}}"#,
        Kind::Auth,
        Retry::Never,
    ),
    (
        "openai",
        429,
        r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your current quota"}}"#,
        Kind::UsageLimit,
        Retry::Never,
    ),
    (
        "openai",
        429,
        r#"{"error":{"type":"requests","code":"rate_limit_exceeded","message":"Rate limit reached"}}"#,
        Kind::RateLimit,
        Retry::Backoff,
    ),
    (
        "ollama",
        404,
        r#"{"error":{"message":"model 'qwen9' not found","type":"not_found_error","param":null,"code":null}}"#,
        Kind::Config,
        Retry::Never,
    ),
    ("ollama", 404, r#"{"error":"model 'qwen9' not found"}"#, Kind::Config, Retry::Never),
    (
        "ollama",
        500,
        r#"{"error":{"message":"llama runner process has terminated","type":"api_error"}}"#,
        Kind::Generic,
        Retry::Backoff,
    ),
    (
        "ollama",
        400,
        r#"{"error":{"message":"registry.ollama.ai/library/x does not support tools","type":"invalid_request_error"}}"#,
        Kind::Generic,
        Retry::Never,
    ),
    (
        "vllm",
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}"#,
        Kind::ContextFull,
        Retry::Never,
    ),
    (
        "vllm",
        404,
        r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","code":404}"#,
        Kind::Config,
        Retry::Never,
    ),
    (
        "vllm",
        400,
        r#"{"error":{"message":"Unknown field","type":"BadRequestError","code":400}}"#,
        Kind::Generic,
        Retry::Never,
    ),
    (
        "llamacpp",
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":4096}}"#,
        Kind::ContextFull,
        Retry::Never,
    ),
    (
        "llamacpp",
        503,
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        Kind::Timeout,
        Retry::Backoff,
    ),
    (
        "llamacpp",
        500,
        r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
        Kind::Generic,
        Retry::Backoff,
    ),
    ("openrouter", 402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, Kind::UsageLimit, Retry::Never),
    (
        "openrouter",
        403,
        r#"{"error":{"code":403,"message":"Flagged","metadata":{"reasons":["violence"],"flagged_input":"…"}}}"#,
        Kind::ContentFilter,
        Retry::Never,
    ),
    (
        "openrouter",
        429,
        r#"{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"rate-limited upstream","provider_name":"x"}}}"#,
        Kind::RateLimit,
        Retry::Backoff,
    ),
    ("openrouter", 502, r#"{"error":{"code":502,"message":"Provider returned error"}}"#, Kind::Timeout, Retry::Backoff),
    (
        "litellm",
        400,
        r#"{"error":{"message":"litellm.ContextWindowExceededError: prompt is too long: 9 tokens > 8 maximum","type":null,"param":null,"code":"400"}}"#,
        Kind::ContextFull,
        Retry::Never,
    ),
    (
        "litellm",
        400,
        r#"{"error":{"message":"Budget has been exceeded! Current cost: 1.0","type":"budget_exceeded","param":null,"code":"400"}}"#,
        Kind::UsageLimit,
        Retry::Never,
    ),
    (
        "litellm",
        401,
        r#"{"error":{"message":"Authentication Error","type":"auth_error","param":"None","code":"401"}}"#,
        Kind::Auth,
        Retry::Never,
    ),
    (
        "deepseek",
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#,
        Kind::UsageLimit,
        Retry::Never,
    ),
    ("x", 200, "<html>a page instead of an answer</html>", Kind::Malformed, Retry::Backoff),
];

#[test]
fn refusals() {
    for &(provider, status, body, kind, retry) in REFUSALS {
        let evidence = Evidence::of_response(provider, status, |_| None, body.as_bytes(), Timestamp(0));
        let error = classify(&evidence);
        assert_eq!((error.kind, error.retry), (kind, retry), "{provider} {status} {body}");
    }
}

/// The same in a stream, after something was said.
const IN_STREAM: &[(&str, Kind, Retry)] = &[
    (r#"{"error":"model runner has unexpectedly stopped"}"#, Kind::Generic, Retry::Backoff),
    (r#"{"error":{"message":"out of memory","type":"api_error"}}"#, Kind::Generic, Retry::Backoff),
    (r#"{"error":{"message":"slow down","type":"None","param":"None","code":"429"}}"#, Kind::RateLimit, Retry::Backoff),
    (r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#, Kind::Timeout, Retry::Backoff),
    (
        r#"{"object":"error","message":"EngineCore died","type":"InternalServerError","code":500}"#,
        Kind::Generic,
        Retry::Backoff,
    ),
    (
        r#"{"error":{"message":"EngineCore died","type":"InternalServerError","code":500}}"#,
        Kind::Generic,
        Retry::Backoff,
    ),
    (
        r#"{"error":{"message":"The server is currently overloaded","type":"server_error","code":null}}"#,
        Kind::Overloaded,
        Retry::Backoff,
    ),
    (
        r#"{"error":{"message":"no","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        Kind::UsageLimit,
        Retry::Never,
    ),
    (
        r#"{"object":"chat.completion.chunk","choices":[],"error":{"code":502,"message":"Provider disconnected"}}"#,
        Kind::Timeout,
        Retry::Backoff,
    ),
];

#[test]
fn errors_in_a_stream() {
    let said = json!({"choices": [{"delta": {"content": "Once"}}]});
    for &(event, kind, retry) in IN_STREAM {
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
