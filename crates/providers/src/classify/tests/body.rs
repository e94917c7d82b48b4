use serde_json::json;

use super::*;

fn read(body: &str) -> ErrorText {
    ErrorText::read(body.as_bytes())
}

/// CE19: the message nearest to the cause, in every wrapping that is known.
#[test]
fn the_message_is_found_in_its_wrapping() {
    let cases = [
        // Nested wins over what stands beside it.
        (r#"{"error":{"message":"inner"},"message":"outer"}"#, "inner"),
        (r#"{"message":"top"}"#, "top"),
        (r#"{"Message":"amazon"}"#, "amazon"),
        // An `error` that is no object leaves the top level alone, or is the message itself.
        (r#"{"error":"short","message":"top"}"#, "top"),
        (r#"{"error":true,"message":"top"}"#, "top"),
        (r#"{"error":"model 'x' not found"}"#, "model 'x' not found"),
        (r#"{"error":{"message":"  "},"message":"top"}"#, "top"),
        // A list of one, a text within a text, a gateway's copy of what the provider said.
        (r#"[{"error":{"message":"listed"}}]"#, "listed"),
        (r#"{"error":{"message":"{\n \"error\": {\"message\": \"within\"}}\n"}}"#, "within"),
        (
            r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"raw\"}}"}}}"#,
            "raw",
        ),
        (r#"{"type":"response.failed","response":{"error":{"message":"failed"}}}"#, "failed"),
        // Plain text: its first line with anything on it.
        ("no healthy upstream", "no healthy upstream"),
        ("\r\n\n  first line \nsecond line", "first line"),
        ("\u{feff}{\"message\":\"marked\"}", "marked"),
        ("\"a JSON text\"", "a JSON text"),
        // No message at all.
        ("", ""),
        (" \n\t", ""),
        ("{}", ""),
        ("null", ""),
        (r#"{"error":{}}"#, ""),
        (r#"{"error":{"message":17}}"#, ""),
        (r#"{"error":{"message":"cut o"#, ""),
    ];
    for (body, message) in cases {
        assert_eq!(read(body).message, message, "{body}");
    }
}

/// CE05, CE19: a page is no message.
#[test]
fn a_page_of_html_says_nothing() {
    for page in ["<html><body>502 Bad Gateway</body></html>", "\n <!DOCTYPE html>\n<p>prompt is too long", "<?xml?>"] {
        assert_eq!(read(page), ErrorText::default());
        let error = answer("anthropic", 502, page);
        assert_eq!((told(&error), error.detail.as_str()), ((ErrorKind::Timeout, Retry::Backoff), ""));
    }
}

/// CE19: names, codes and statuses, in the fields of each provider.
#[test]
fn names_and_codes_are_found_in_their_fields() {
    let said = |body: serde_json::Value| {
        let said = ErrorText::of_json(&body);
        (said.name, said.code, said.status)
    };
    let told = |name: &str, code: &str, status| (name.to_owned(), code.to_owned(), status);
    assert_eq!(
        said(json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})),
        told("overloaded_error", "", None)
    );
    assert_eq!(
        said(json!({"error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow"}})),
        told("tokens", "rate_limit_exceeded", None)
    );
    assert_eq!(
        said(json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}})),
        told("INVALID_ARGUMENT", "API_KEY_INVALID", Some(400))
    );
    assert_eq!(
        said(json!({"__type": "com.amazon.coral.service#ThrottlingException", "message": "slow"})),
        told("ThrottlingException", "", None)
    );
    assert_eq!(said(json!({"error": {"code": "429", "message": "slow"}})), told("", "429", Some(429)), "Azure");
    assert_eq!(said(json!({"error": {"code": 502, "message": "down"}})), told("", "", Some(502)), "OpenRouter");
    assert_eq!(said(json!({"error": {"code": 7, "message": "odd"}})), told("", "", None), "a status is 400 to 599");
    assert_eq!(
        said(json!({"error": {"code": 400, "metadata": {"error_type": "context_length_exceeded"}}})),
        told("", "context_length_exceeded", Some(400))
    );
}

/// P10: no more than 64 KiB is read, however long the body is; what is cut there is no JSON any more.
#[test]
fn a_body_is_read_to_a_bound() {
    let padded = |len: usize| format!(r#"{{"error":{{"message":"late","pad":"{}"}}}}"#, "x".repeat(len));
    assert_eq!(read(&padded(60_000)).message, "late");
    assert_eq!(read(&padded(70_000)).message, "");
    let long = "word ".repeat(1_000_000);
    assert!(read(&long).message.len() <= BODY_BYTES_MAX);
}

/// P16: depth does not matter, in JSON or in texts within texts.
#[test]
fn depth_is_bounded() {
    let deep = "[".repeat(50_000) + &"]".repeat(50_000);
    assert_eq!(read(&deep), ErrorText::default());
    let mut nested = json!({"message": "innermost"});
    for _ in 0..20 {
        nested = json!({ "error": nested });
    }
    assert_eq!(ErrorText::of_json(&nested), ErrorText::default());
    let mut text = json!({"message": "innermost"}).to_string();
    for _ in 0..6 {
        text = json!({ "message": text }).to_string();
    }
    assert!(read(&text).message.starts_with('{'), "left closed after a few");
}

/// CE19: Amazon names the exception in a header.
#[test]
fn amazon_names_the_exception_in_a_header() {
    let header = |name: &str| (name == "x-amzn-errortype").then_some("ThrottlingException:http://internal.amazon.com/");
    let error = classify(&Evidence::of_response("bedrock", 400, header, br#"{"message":"Too many tokens"}"#, NOW));
    assert_eq!((told(&error), error.detail.as_str()), ((ErrorKind::RateLimit, Retry::Backoff), "Too many tokens"));
}

/// CE19, CE21, P10: what is kept of a message is one clean line.
#[test]
fn details_are_cleaned() {
    let body = openai("", "", "call\nhttps://me:pw@host/v1?key=1 failed\u{1b}[31m");
    assert_eq!(answer("openai", 500, &body).detail, "call https://host/v1 failed [31m");
    assert_eq!(answer("openai", 500, &openai("", "", &"x".repeat(9_000))).detail.chars().count(), 500);
}
