//! What failures of this wire mean, each by where it was seen: the status, the stream, the way back.

use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::ids::Timestamp;
use serde_json::{Value, json};

use super::super::classify;
use crate::classify::Evidence;

fn told(error: &ProviderError) -> (ErrorKind, Retry, Cause) {
    (error.kind, error.retry, error.cause)
}

fn refused(status: u16, kind: &str, code: Value, message: &str) -> ProviderError {
    let body = json!({"error": {"type": kind, "code": code, "param": null, "message": message}}).to_string();
    crate::classify::classify(&Evidence::of_response("openai", status, |_| None, body.as_bytes(), Timestamp(0)))
}

/// Status × code × message, as the provider answers a request.
const REFUSALS: &[(u16, &str, &str, ErrorKind, Retry)] = &[
    (401, "invalid_api_key", "Incorrect API key provided.", ErrorKind::Auth, Retry::Never),
    (401, "", "You must be a member of an organization to use the API.", ErrorKind::Auth, Retry::Never),
    (403, "unsupported_country_region_territory", "Country not supported", ErrorKind::Auth, Retry::Never),
    (404, "model_not_found", "The model `gpt-9` does not exist.", ErrorKind::Config, Retry::Never),
    (400, "unsupported_parameter", "Unsupported parameter: 'temperature'", ErrorKind::Config, Retry::Never),
    (400, "unsupported_value", "'max' is not supported", ErrorKind::Config, Retry::Never),
    (400, "context_length_exceeded", "Your input is too long.", ErrorKind::ContextFull, Retry::Never),
    (400, "", "Your input exceeds the context window of this model.", ErrorKind::ContextFull, Retry::Never),
    (400, "previous_response_not_found", "Previous response not found.", ErrorKind::ChainBroken, Retry::Once),
    (404, "", "Previous response with id 'resp_1' not found.", ErrorKind::ChainBroken, Retry::Once),
    (400, "", "No tool output found for function call call_1.", ErrorKind::Generic, Retry::Never),
    (
        400,
        "",
        "Item 'fc_1' was provided without its required 'reasoning' item: 'rs_1'.",
        ErrorKind::Generic,
        Retry::Never,
    ),
    (400, "", "Item 'rs_1' was provided without its required following item.", ErrorKind::Generic, Retry::Never),
    (
        400,
        "invalid_encrypted_content",
        "The encrypted content could not be verified.",
        ErrorKind::Generic,
        Retry::Never,
    ),
    (
        400,
        "invalid_prompt",
        "Invalid prompt: your prompt was flagged by our usage policy.",
        ErrorKind::ContentFilter,
        Retry::Never,
    ),
    (
        429,
        "rate_limit_exceeded",
        "Rate limit reached for gpt-5.4 on requests per min.",
        ErrorKind::RateLimit,
        Retry::Backoff,
    ),
    (
        429,
        "rate_limit_exceeded",
        "Request too large for gpt-5.4 on tokens per min.",
        ErrorKind::ContextFull,
        Retry::Never,
    ),
    (429, "insufficient_quota", "You exceeded your current quota.", ErrorKind::UsageLimit, Retry::Never),
    (500, "", "The server had an error while processing your request.", ErrorKind::Generic, Retry::Backoff),
    (503, "", "That model is currently overloaded with other requests.", ErrorKind::Overloaded, Retry::Backoff),
    (503, "slow_down", "Slow down.", ErrorKind::Overloaded, Retry::Backoff),
];

#[test]
fn refusals() {
    for &(status, code, message, kind, retry) in REFUSALS {
        let code = if code.is_empty() { Value::Null } else { code.into() };
        let error = refused(status, "invalid_request_error", code, message);
        assert_eq!(told(&error), (kind, retry, Cause::Refused), "{status} {message}");
    }
}

/// A rule about items that stand beside each other is ours to keep: its text is not for people.
#[test]
fn a_misshapen_prompt_does_not_quote_ids() {
    for message in [
        "No tool output found for function call call_1.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
    ] {
        let error = refused(400, "invalid_request_error", json!(null), message);
        assert!(!error.detail.contains("_1"), "{}", error.detail);
    }
}

/// Errors in a stream, without a status: as an event, bare and wrapped, and as the end of a response.
#[test]
fn failures_in_a_stream() {
    let cases = [
        ("server_error", "The model failed.", ErrorKind::Generic, Retry::Backoff),
        ("rate_limit_exceeded", "Rate limit reached.", ErrorKind::RateLimit, Retry::Backoff),
        ("insufficient_quota", "No money.", ErrorKind::UsageLimit, Retry::Never),
        ("context_length_exceeded", "Your input exceeds the context window.", ErrorKind::ContextFull, Retry::Never),
        ("invalid_prompt", "Invalid prompt.", ErrorKind::Generic, Retry::Never),
        ("invalid_prompt", "Your prompt was flagged.", ErrorKind::ContentFilter, Retry::Never),
        ("image_content_policy_violation", "No.", ErrorKind::ContentFilter, Retry::Never),
        ("bio_policy", "No.", ErrorKind::ContentFilter, Retry::Never),
        ("misalignment_policy_violation", "No.", ErrorKind::ContentFilter, Retry::Never),
        ("invalid_base64_image", "Bad image.", ErrorKind::Generic, Retry::Never),
        ("failed_to_download_image", "Gone.", ErrorKind::Generic, Retry::Never),
        ("vector_store_timeout", "Too slow.", ErrorKind::Generic, Retry::Backoff),
        ("something_new", "What?", ErrorKind::Generic, Retry::Backoff),
        ("", "", ErrorKind::Generic, Retry::Backoff),
    ];
    for (code, message, kind, retry) in cases {
        let error = json!({"code": code, "message": message});
        let bare = json!({"type": "error", "code": code, "message": message, "param": null, "sequence_number": 7});
        let wrapped = json!({"type": "error", "sequence_number": 7, "error": error});
        for event in [bare, wrapped] {
            let error = classify::event("openai", &event);
            assert_eq!(told(&error), (kind, retry, Cause::ServerError), "{event}");
        }
        let failed =
            json!({"type": "response.failed", "response": {"id": "resp_1", "status": "failed", "error": error}});
        let error = classify::failed("openai", &failed.to_string());
        assert_eq!(told(&error), (kind, retry, Cause::ErrorFinish), "{failed}");
        assert_eq!(error.detail, message);
    }
    assert_eq!(
        told(&classify::event("openai", &"nonsense".into())),
        (ErrorKind::Generic, Retry::Backoff, Cause::ServerError)
    );
}

/// A policy's name is what helps a person along.
#[test]
fn a_policy_is_named() {
    let event = json!({"type": "error", "code": "bio_policy", "message": "This touches on biology."});
    let error = classify::event("openai", &event);
    assert_eq!((error.subject.as_deref(), error.detail.as_str()), (Some("bio_policy"), "This touches on biology."));
}

/// A generation that is gone leads to the next rung; a key that is wrong or a server that is down says what it says.
#[test]
fn the_way_back() {
    let gone = (ErrorKind::Truncated, Retry::Backoff, Cause::ErrorFinish);
    for (status, message) in
        [(404, "Response with id 'resp_1' not found."), (400, "Cannot stream this response."), (410, "")]
    {
        let error = classify::not_resumed(refused(status, "invalid_request_error", json!(null), message));
        assert_eq!((told(&error), error.status), (gone, Some(status)), "{status}");
        assert!(error.is_broken_stream());
    }
    let down = classify::not_resumed(refused(503, "", json!(null), ""));
    assert_eq!(told(&down), (ErrorKind::Timeout, Retry::Backoff, Cause::Refused));
    let key = classify::not_resumed(refused(401, "", json!(null), ""));
    assert_eq!(told(&key), (ErrorKind::Auth, Retry::Never, Cause::Refused));
}
