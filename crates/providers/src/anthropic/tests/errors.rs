use everturn_core::error::{Cause, ErrorKind, Retry};
use everturn_core::ids::Timestamp;
use everturn_core::message::Stop;
use serde_json::{Value, json};

use crate::anthropic::classify::{StopMeaning, ending, of_event};
use crate::classify::{Evidence, classify};

/// The errors of the API, as its documents list them, and what becomes of each.
#[test]
fn every_documented_error_has_its_kind() {
    let table = [
        (400, "invalid_request_error", "messages: at least one message is required", ErrorKind::Generic, Retry::Never),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 208310 tokens > 200000 maximum",
            ErrorKind::ContextFull,
            Retry::Never,
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
            ErrorKind::ContextFull,
            Retry::Never,
        ),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the API",
            ErrorKind::UsageLimit,
            Retry::Never,
        ),
        (401, "authentication_error", "invalid x-api-key", ErrorKind::Auth, Retry::Never),
        (402, "billing_error", "There is a problem with your billing", ErrorKind::UsageLimit, Retry::Never),
        (403, "permission_error", "Your key may not use this", ErrorKind::Auth, Retry::Never),
        (404, "not_found_error", "model: claude-nope", ErrorKind::Config, Retry::Never),
        (413, "request_too_large", "Request exceeds the maximum size", ErrorKind::ContextFull, Retry::Never),
        (429, "rate_limit_error", "Number of requests has exceeded your limit", ErrorKind::RateLimit, Retry::Backoff),
        (500, "api_error", "Internal server error", ErrorKind::Generic, Retry::Backoff),
        (504, "timeout_error", "The request timed out", ErrorKind::Timeout, Retry::Backoff),
        (529, "overloaded_error", "Overloaded", ErrorKind::Overloaded, Retry::Backoff),
    ];
    for (status, name, message, kind, retry) in table {
        let body = json!({"type": "error", "error": {"type": name, "message": message}, "request_id": "req_1"});
        let header = |name: &str| (name == "request-id").then_some("req_1");
        let body = body.to_string();
        let evidence = Evidence::of_response("anthropic", status, header, body.as_bytes(), Timestamp(0));
        let error = classify(&evidence);
        assert_eq!((error.kind, error.retry), (kind, retry), "{status} {name}: {message}");
        assert_eq!((error.status, error.request_id.as_deref()), (Some(status), Some("req_1")));
        assert_eq!(error.detail, message);
    }
}

/// Errors in the middle of a stream, without a status: a server error can be recovered.
#[test]
fn errors_in_a_stream_are_known_by_name() {
    let table = [
        ("overloaded_error", ErrorKind::Overloaded, Retry::Backoff, true),
        ("api_error", ErrorKind::Generic, Retry::Backoff, true),
        ("rate_limit_error", ErrorKind::RateLimit, Retry::Backoff, true),
        ("timeout_error", ErrorKind::Timeout, Retry::Backoff, true),
        ("invalid_request_error", ErrorKind::Generic, Retry::Never, false),
        ("authentication_error", ErrorKind::Auth, Retry::Never, false),
        ("unheard_of_error", ErrorKind::Generic, Retry::Backoff, true),
    ];
    for (name, kind, retry, carried) in table {
        let event = json!({"type": "error", "error": {"type": name, "message": "x"}, "request_id": "req_2"});
        let error = of_event("anthropic", &event);
        assert_eq!((error.kind, error.retry, error.cause), (kind, retry, Cause::ServerError), "{name}");
        assert_eq!((error.is_broken_stream(), error.request_id.as_deref()), (carried, Some("req_2")), "{name}");
    }
    for odd in [json!({"type": "error"}), json!({"type": "error", "error": "x"}), Value::Null] {
        assert_eq!(of_event("anthropic", &odd).kind, ErrorKind::Generic);
    }
}

/// P28: every stop reason is decided, unknown ones too.
#[test]
fn every_stop_reason_is_decided() {
    let filtered = |category: &str, detail: &str| Stop::Filtered { category: category.into(), detail: detail.into() };
    let table = [
        ("end_turn", StopMeaning::Over(Stop::End)),
        ("stop_sequence", StopMeaning::Over(Stop::End)),
        ("tool_use", StopMeaning::Over(Stop::ToolUse)),
        ("max_tokens", StopMeaning::Over(Stop::Length)),
        ("model_context_window_exceeded", StopMeaning::Over(Stop::Length)),
        ("refusal", StopMeaning::Over(filtered("", ""))),
        ("pause_turn", StopMeaning::Paused),
        ("compaction", StopMeaning::Over(Stop::End)),
        ("", StopMeaning::Over(Stop::End)),
    ];
    for (reason, expected) in table {
        assert_eq!(ending(reason, None), expected, "{reason}");
    }
    let details = json!({"type": "refusal", "category": "bio", "explanation": "no"});
    assert_eq!(ending("refusal", Some(&details)), StopMeaning::Over(filtered("bio", "no")));
    let nulls = json!({"type": "refusal", "category": null, "explanation": null});
    assert_eq!(ending("refusal", Some(&nulls)), StopMeaning::Over(filtered("", "")));
}
