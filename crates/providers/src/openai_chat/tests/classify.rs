//! What failures of this wire mean, in the shapes of the servers that speak it.

use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::ids::Timestamp;
use serde_json::{Value, json};

use super::super::Completions;
use crate::classify::{Evidence, classify};
use crate::tests::cuts::told;

fn summary(error: &ProviderError) -> (ErrorKind, Retry, Cause) {
    (error.kind, error.retry, error.cause)
}

/// Status × type × code × body, as servers answer a request.
const REFUSALS: &[(&str, u16, &str, ErrorKind, Retry)] = &[
    (
        "openai",
        400,
        r#"{"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"This model's maximum context length is 8192 tokens."}}"#,
        ErrorKind::ContextFull,
        Retry::Never,
    ),
    (
        "openai",
        400,
        r#"{"error":{"type":"invalid_request_error","code":"unsupported_parameter","message":"Use 'max_completion_tokens' instead."}}"#,
        ErrorKind::Config,
        Retry::Never,
    ),
    (
        "openai",
        401,
        r#"{"error":{"type":"invalid_request_error","code":"invalid_api_key","message":"Incorrect API key"}}"#,
        ErrorKind::Auth,
        Retry::Never,
    ),
    (
        "openai",
        429,
        r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your current quota"}}"#,
        ErrorKind::UsageLimit,
        Retry::Never,
    ),
    (
        "openai",
        429,
        r#"{"error":{"type":"requests","code":"rate_limit_exceeded","message":"Rate limit reached"}}"#,
        ErrorKind::RateLimit,
        Retry::Backoff,
    ),
    (
        "ollama",
        404,
        r#"{"error":{"message":"model 'qwen9' not found","type":"not_found_error","param":null,"code":null}}"#,
        ErrorKind::Config,
        Retry::Never,
    ),
    ("ollama", 404, r#"{"error":"model 'qwen9' not found"}"#, ErrorKind::Config, Retry::Never),
    (
        "ollama",
        500,
        r#"{"error":{"message":"llama runner process has terminated","type":"api_error"}}"#,
        ErrorKind::Generic,
        Retry::Backoff,
    ),
    (
        "ollama",
        400,
        r#"{"error":{"message":"registry.ollama.ai/library/x does not support tools","type":"invalid_request_error"}}"#,
        ErrorKind::Generic,
        Retry::Never,
    ),
    (
        "vllm",
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}"#,
        ErrorKind::ContextFull,
        Retry::Never,
    ),
    (
        "vllm",
        404,
        r#"{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","code":404}"#,
        ErrorKind::Config,
        Retry::Never,
    ),
    (
        "vllm",
        400,
        r#"{"error":{"message":"Unknown field","type":"BadRequestError","code":400}}"#,
        ErrorKind::Generic,
        Retry::Never,
    ),
    (
        "llamacpp",
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":4096}}"#,
        ErrorKind::ContextFull,
        Retry::Never,
    ),
    (
        "llamacpp",
        503,
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        ErrorKind::Timeout,
        Retry::Backoff,
    ),
    (
        "llamacpp",
        500,
        r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
        ErrorKind::Generic,
        Retry::Backoff,
    ),
    (
        "openrouter",
        402,
        r#"{"error":{"code":402,"message":"Insufficient credits"}}"#,
        ErrorKind::UsageLimit,
        Retry::Never,
    ),
    (
        "openrouter",
        403,
        r#"{"error":{"code":403,"message":"Flagged","metadata":{"reasons":["violence"],"flagged_input":"…"}}}"#,
        ErrorKind::ContentFilter,
        Retry::Never,
    ),
    (
        "openrouter",
        429,
        r#"{"error":{"code":429,"message":"Provider returned error","metadata":{"raw":"rate-limited upstream","provider_name":"x"}}}"#,
        ErrorKind::RateLimit,
        Retry::Backoff,
    ),
    (
        "openrouter",
        502,
        r#"{"error":{"code":502,"message":"Provider returned error"}}"#,
        ErrorKind::Timeout,
        Retry::Backoff,
    ),
    (
        "litellm",
        400,
        r#"{"error":{"message":"litellm.ContextWindowExceededError: prompt is too long: 9 tokens > 8 maximum","type":null,"param":null,"code":"400"}}"#,
        ErrorKind::ContextFull,
        Retry::Never,
    ),
    (
        "litellm",
        400,
        r#"{"error":{"message":"Budget has been exceeded! Current cost: 1.0","type":"budget_exceeded","param":null,"code":"400"}}"#,
        ErrorKind::UsageLimit,
        Retry::Never,
    ),
    (
        "litellm",
        401,
        r#"{"error":{"message":"Authentication Error","type":"auth_error","param":"None","code":"401"}}"#,
        ErrorKind::Auth,
        Retry::Never,
    ),
    (
        "deepseek",
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#,
        ErrorKind::UsageLimit,
        Retry::Never,
    ),
    ("x", 200, "<html>a page instead of an answer</html>", ErrorKind::Malformed, Retry::Backoff),
];

#[test]
fn refusals() {
    for &(provider, status, body, kind, retry) in REFUSALS {
        let evidence = Evidence::of_response(provider, status, |_| None, body.as_bytes(), Timestamp(0));
        let error = classify(&evidence);
        assert_eq!((error.kind, error.retry), (kind, retry), "{provider} {status} {body}");
    }
}

/// Errors in a stream, after some output.
const IN_STREAM: &[(&str, ErrorKind, Retry)] = &[
    (r#"{"error":"model runner has unexpectedly stopped"}"#, ErrorKind::Generic, Retry::Backoff),
    (r#"{"error":{"message":"out of memory","type":"api_error"}}"#, ErrorKind::Generic, Retry::Backoff),
    (
        r#"{"error":{"message":"slow down","type":"None","param":"None","code":"429"}}"#,
        ErrorKind::RateLimit,
        Retry::Backoff,
    ),
    (
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        ErrorKind::Timeout,
        Retry::Backoff,
    ),
    (
        r#"{"object":"error","message":"EngineCore died","type":"InternalServerError","code":500}"#,
        ErrorKind::Generic,
        Retry::Backoff,
    ),
    (
        r#"{"error":{"message":"EngineCore died","type":"InternalServerError","code":500}}"#,
        ErrorKind::Generic,
        Retry::Backoff,
    ),
    (
        r#"{"error":{"message":"The server is currently overloaded","type":"server_error","code":null}}"#,
        ErrorKind::Overloaded,
        Retry::Backoff,
    ),
    (
        r#"{"error":{"message":"no","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        ErrorKind::UsageLimit,
        Retry::Never,
    ),
    (
        r#"{"object":"chat.completion.chunk","choices":[],"error":{"code":502,"message":"Provider disconnected"}}"#,
        ErrorKind::Timeout,
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
    assert_eq!(
        (summary(&error), error.detail.as_str()),
        ((ErrorKind::Generic, Retry::Backoff, Cause::ServerError), "boom")
    );
}

/// A finish reason may be an error, with or without a word about it.
#[test]
fn reasons_that_are_errors() {
    let cases = [
        ("error", Value::Null, ErrorKind::Generic),
        ("network_error", Value::Null, ErrorKind::Timeout),
        ("insufficient_system_resource", Value::Null, ErrorKind::Overloaded),
        ("abort", Value::Null, ErrorKind::Generic),
        ("ERROR", Value::Null, ErrorKind::Generic),
        ("error", json!({"code": 429, "message": "busy"}), ErrorKind::RateLimit),
        ("stop", json!({"code": 503, "message": "gone"}), ErrorKind::Timeout),
    ];
    for (reason, error, kind) in cases {
        let chunk = json!({"choices": [{"delta": {"content": ""}, "finish_reason": reason}], "error": error});
        let read = told([format!("data: {chunk}\n\n").as_bytes()], Completions::new("x"));
        let error = read.end.unwrap_err();
        assert_eq!(summary(&error), (kind, Retry::Backoff, Cause::ErrorFinish), "{chunk}");
        assert!(error.is_broken_stream());
    }
}
