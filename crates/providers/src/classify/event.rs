//! Errors among the events of a stream.
//!
//! A stream that has begun cannot change its status, so errors come as events; and servers that imitate a wire send them
//! in whatever shape their framework has: under the event name `error` with any data, as `{"error": …}` without the wire's
//! own `type`, as `{"object": "error"}`, in a list of one. Taken for an unknown event, such an error would be lost, and a
//! request that was refused for good would be sent again.

use memchr::memmem;
use serde_json::Value;

use crate::sse::SseEvent;

/// The error that an event tells of, in whatever shape: JSON, or a text.
#[must_use]
pub fn error_in(event: &SseEvent<'_>) -> Option<Value> {
    let is_named = event.name.trim().eq_ignore_ascii_case("error");
    // Within a JSON string the quotes would be escaped, so events of text are not read twice.
    if !is_named && memmem::find(event.data.as_bytes(), b"\"error\"").is_none() {
        return None;
    }
    match serde_json::from_str::<Value>(event.data) {
        Ok(json) => {
            let json = match json {
                Value::Array(mut list) if list.len() == 1 => list.remove(0), // Google's, without `alt=sse`.
                json => json,
            };
            (is_named || tells_of_error(&json)).then_some(json)
        }
        Err(_) => is_named.then(|| event.data.trim().into()),
    }
}

fn tells_of_error(json: &Value) -> bool {
    let is_error = |key: &str| json[key].as_str() == Some("error");
    let says = match &json["error"] {
        Value::Null => false,
        Value::Bool(is_error) => *is_error,
        Value::String(text) => !text.trim().is_empty(),
        Value::Object(error) => !error.is_empty(),
        Value::Number(_) | Value::Array(_) => true,
    };
    says || is_error("type") || is_error("event_type") || is_error("object")
}
