//! Events as they go over the wire.

use serde_json::Value;

/// An event with a name: Anthropic and OpenAI Responses.
pub(super) fn named(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or("unknown"))
}

/// An event without a name: OpenAI Chat Completions.
pub(super) fn plain(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// An event without a name, with line ends as Google sends them.
pub(super) fn crlf(data: &Value) -> String {
    format!("data: {data}\r\n\r\n")
}

/// A line that says nothing.
pub(super) fn comment(text: &str) -> String {
    format!(": {text}\n\n")
}
