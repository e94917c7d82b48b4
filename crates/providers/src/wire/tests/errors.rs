//! Errors in a stream in shapes that are not the wire's own, on every wire.

use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};

use crate::anthropic::Messages;
use crate::gemini::GenerateContent;
use crate::gemini::Interaction;
use crate::openai_chat::Completions;
use crate::openai_responses::{ResponseRetention, Responses};
use crate::tests::cuts::told;

/// What each wire makes of an event behind the beginning of an answer.
fn errors(event: &str) -> [(&'static str, ProviderError); 5] {
    let read = |begin: &str| format!("data: {begin}\n\n{event}\n\n");
    let anthropic = read(r#"{"type":"message_start","message":{"id":"m"}}"#);
    let responses = read(r#"{"type":"response.created","response":{"id":"r","error":null},"error":null}"#);
    let chat = read(r#"{"choices":[{"delta":{"content":"Hi"}}],"error":null}"#);
    let gemini = read(r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}"#);
    let interactions = read(r#"{"event_type":"interaction.created","interaction":{"id":"i"}}"#);
    [
        ("anthropic", told([anthropic.as_bytes()], Messages::new("gateway"))),
        ("openai_responses", told([responses.as_bytes()], Responses::new("gateway", ResponseRetention::Nothing))),
        ("openai_chat", told([chat.as_bytes()], Completions::new("gateway"))),
        ("gemini", told([gemini.as_bytes()], GenerateContent::new("gateway"))),
        ("interactions", told([interactions.as_bytes()], Interaction::new("gateway"))),
    ]
    .map(|(wire, told)| (wire, told.end.expect_err(wire)))
}

#[test]
fn errors_are_read_in_any_shape() {
    let table = [
        // LiteLLM, vLLM, SGLang, llama.cpp, Ollama.
        (
            r#"data: {"error":{"message":"No such thing.","type":null,"param":null,"code":"400"}}"#,
            ErrorKind::Generic,
            false,
        ),
        (r#"data: {"error":{"message":"No such thing.","type":"invalid_request_error"}}"#, ErrorKind::Generic, false),
        (r#"data: {"error":{"message":"No such thing.","code":"invalid_request_error"}}"#, ErrorKind::Generic, false),
        (r#"data: {"error":{"code":500,"message":"No such thing.","type":"server_error"}}"#, ErrorKind::Generic, true),
        (
            r#"data: {"object":"error","message":"No such thing.","type":"BadRequestError","code":400}"#,
            ErrorKind::Generic,
            false,
        ),
        (r#"data: {"error":"No such thing."}"#, ErrorKind::Generic, true),
        (r#"error: {"code":401,"message":"No such thing.","type":"authentication_error"}"#, ErrorKind::Auth, false),
        // Under the name of an error, whatever its data is.
        ("event: error\ndata: {\"error\":{\"message\":\"No such thing.\",\"code\":429}}", ErrorKind::RateLimit, true),
        (
            "event: error\ndata: {\"type\":\"invalid_request_error\",\"message\":\"No such thing.\"}",
            ErrorKind::Generic,
            false,
        ),
        (
            "event: error\ndata: {\"type\":\"overloaded_error\",\"message\":\"No such thing.\"}",
            ErrorKind::Overloaded,
            true,
        ),
        ("event: error\ndata: {\"detail\":\"No such thing.\",\"status\":400}", ErrorKind::Generic, false),
        (
            "event: error\ndata: {\"detail\":{\"error\":{\"message\":\"No such thing.\",\"code\":404}}}",
            ErrorKind::Config,
            false,
        ),
        ("event: error\ndata: No such thing.", ErrorKind::Generic, true),
        // Google's, Anthropic's and OpenAI's, through a gateway that speaks another wire.
        (
            r#"data: [{"error":{"code":503,"message":"No such thing.","status":"UNAVAILABLE"}}]"#,
            ErrorKind::Timeout,
            true,
        ),
        (
            r#"data: {"type":"error","error":{"type":"permission_error","message":"No such thing."}}"#,
            ErrorKind::Auth,
            false,
        ),
        (r#"data: {"type":"error","code":"invalid_api_key","message":"No such thing."}"#, ErrorKind::Auth, false),
    ];
    for (event, kind, is_retried) in table {
        for (wire, error) in errors(event) {
            assert_eq!((error.kind, error.retry != Retry::Never), (kind, is_retried), "{wire}: {event}");
            assert_eq!((error.detail.as_str(), error.cause), ("No such thing.", Cause::ServerError), "{wire}: {event}");
        }
    }
}

/// What says nothing is no error, nor is one that an answer quotes.
#[test]
fn the_word_error_is_no_error() {
    let quoted = r#"{"choices":[{"delta":{"content":"{\"error\": \"x\"}"},"finish_reason":"stop"}],"error":{}}"#;
    let bytes = format!("data: {quoted}\n\ndata: [DONE]\n\n");
    assert_eq!(told([bytes.as_bytes()], Completions::new("gateway")).end, Ok(()));
}
