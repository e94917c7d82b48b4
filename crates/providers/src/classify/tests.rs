use serde_json::json;

use super::*;

mod body;
mod order;
mod transport;

const NOW: Timestamp = Timestamp(784_111_770_000); // 1994-11-06 08:49:30 UTC

/// The error that a response with this status and body becomes.
fn answer(provider: &str, status: u16, body: &str) -> ProviderError {
    classify(&Evidence::of_response(provider, status, |_| None, body.as_bytes(), NOW))
}

/// The error that an event in a stream becomes.
fn event(provider: &str, event: serde_json::Value) -> ProviderError {
    classify(&Evidence::of_event(provider, &event))
}

/// What can be asserted of most errors.
fn told(error: &ProviderError) -> (ErrorKind, Retry) {
    (error.kind, error.retry)
}

/// An error as OpenAI and most others write it.
fn openai(code: &str, name: &str, message: &str) -> String {
    json!({"error": {"code": code, "type": name, "message": message}}).to_string()
}

/// CE18: a Retry-After is taken from the headers, milliseconds first; a body's delay where there is none.
#[test]
fn a_wait_is_taken_from_headers_and_body() {
    let headers = |name: &str| match name {
        "retry-after-ms" => Some("1500"),
        "retry-after" => Some("9"),
        "x-request-id" => Some("req_1"),
        _ => None,
    };
    let error = classify(&Evidence::of_response("openai", 429, headers, b"", NOW));
    assert_eq!(told(&error), (ErrorKind::RateLimit, Retry::After(Duration::from_millis(1_500))));
    assert_eq!((error.status, error.request_id.as_deref()), (Some(429), Some("req_1")));

    let date = |name: &str| (name == "retry-after").then_some("Sun, 06 Nov 1994 08:49:37 GMT");
    let error = classify(&Evidence::of_response("anthropic", 529, date, b"", NOW));
    assert_eq!(told(&error), (ErrorKind::Overloaded, Retry::After(Duration::from_secs(7))));

    let nonsense = |name: &str| (name == "retry-after").then_some("soon");
    let error = classify(&Evidence::of_response("openai", 503, nonsense, b"", NOW));
    assert_eq!(error.retry, Retry::Backoff);

    let google = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}});
    assert_eq!(answer("google", 429, &google.to_string()).retry, Retry::After(Duration::from_millis(34_500)));
    let header = |name: &str| (name == "retry-after").then_some("60");
    let both = classify(&Evidence::of_response("google", 429, header, google.to_string().as_bytes(), NOW));
    assert_eq!(both.retry, Retry::After(Duration::from_secs(60)), "the header speaks for the whole key");
    for delay in ["-3s", "NaNs", "1e999s", "soon", ""] {
        let google = json!({"error": {"code": 429, "details": [{"retryDelay": delay}]}});
        assert_eq!(answer("google", 429, &google.to_string()).retry, Retry::Backoff, "{delay}");
    }
}

/// CE18: what must not be retried is not, whatever the headers say.
#[test]
fn a_wait_does_not_make_a_permanent_error_transient() {
    let headers = |name: &str| (name == "retry-after").then_some("5");
    for status in [400, 401, 402, 403, 404, 413] {
        let error = classify(&Evidence::of_response("openai", status, headers, b"", NOW));
        assert_eq!(error.retry, Retry::Never, "{status}");
    }
}

/// CE20, P4: a refused key names the variable it was read from, keeps the provider's words, and never shows the key.
#[test]
fn a_refused_key_names_its_variable() {
    let body =
        openai("invalid_api_key", "invalid_request_error", "Incorrect API key provided: sk-proj-abcdefghijklmnop.");
    let evidence = Evidence {
        key_variable: Some("OPENAI_API_KEY".into()),
        ..Evidence::of_response("openai", 401, |_| None, body.as_bytes(), NOW)
    };
    let error = classify(&evidence);
    assert!(error.to_string().contains("OPENAI_API_KEY"), "{error}");
    assert_eq!(error.detail, "Incorrect API key provided: [key]");
    let other = Evidence { status: Some(500), said: ErrorText::default(), ..evidence };
    assert_eq!(classify(&other).subject, None, "the variable explains nothing else");
}

/// CE01, CE23: the provider is the one that was asked; no text names another.
#[test]
fn the_provider_is_never_guessed() {
    let body = openai("", "overloaded_error", "Anthropic's Claude on Bedrock is overloaded");
    assert_eq!(answer("", 529, &body).provider, "");
    assert!(answer("", 529, &body).to_string().starts_with("The AI provider"));
    assert!(answer("anthropic", 529, &body).to_string().starts_with("Anthropic"));
}

/// CE14, CE23: the status is the response's, or the one in the body's own field; never a number found in text.
#[test]
fn a_status_is_never_read_out_of_text() {
    for text in ["status 503", "HTTP 429", "error 401 at host:500", "stream ID 529; received from peer"] {
        let error = event("openai", json!({"error": {"message": text}}));
        assert_eq!((error.status, told(&error)), (None, (ErrorKind::Generic, Retry::Backoff)), "{text}");
        let error = answer("openai", 400, &openai("", "invalid_request_error", text));
        assert_eq!((error.status, told(&error)), (Some(400), (ErrorKind::Generic, Retry::Never)), "{text}");
    }
}

proptest::proptest! {
    /// P8, P16: any bytes with any status make an error: bounded, and never a retry of what the status forbids.
    #[test]
    fn any_body_makes_a_bounded_error(
        status in 100_u16..700, body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400),
    ) {
        let error = classify(&Evidence::of_response("openai", status, |_| None, &body, NOW));
        proptest::prop_assert!(error.detail.chars().count() <= everturn_core::error::DETAIL_CHARS_MAX);
        proptest::prop_assert_eq!(error.status, Some(status));
        if status == 401 {
            proptest::prop_assert_eq!(error.retry, Retry::Never);
        }
    }
}
