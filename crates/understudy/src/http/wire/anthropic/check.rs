//! What Anthropic refuses in a request, and in which words.

mod blocks;
mod options;
mod pairs;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::super::{Checked, refuse};

/// Everything a request may hold at its top.
const FIELDS: [&str; 20] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "service_tier",
    "output_config",
    "container",
    "context_management",
    "mcp_servers",
    "cache_control",
    "inference_geo",
];
/// How many cache markers a request may have.
const MARKS_MAX: usize = 4;
/// Models that do not go on from an assistant message.
const NO_PREFILL: [&str; 7] = [
    "claude-opus-4-6",
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-sonnet-4-6",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-haiku-5",
];

pub(in crate::http) fn check(body: &Map<String, Value>) -> Checked {
    if let Some(field) = body.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return refuse(format!("{field}: Extra inputs are not permitted"));
    }
    for field in ["model", "messages", "max_tokens"] {
        if !body.contains_key(field) {
            return refuse(format!("{field}: Field required"));
        }
    }
    let Some(model) = body["model"].as_str() else { return refuse("model: Input should be a valid string") };
    match body["max_tokens"].as_i64() {
        None => return refuse("max_tokens: Input should be a valid integer"),
        Some(tokens) if tokens < 1 => return refuse("max_tokens: Input should be greater than or equal to 1"),
        Some(_) => {}
    }
    let Some(messages) = body["messages"].as_array() else { return refuse("messages: Input should be a valid list") };
    if messages.is_empty() {
        return refuse("messages: at least one message is required");
    }
    for (at, message) in messages.iter().enumerate() {
        blocks::message(message, at, at + 1 == messages.len())?;
    }
    if messages[0]["role"] != "user" {
        return refuse("messages: first message must use the \"user\" role");
    }
    pairs::check(messages)?;
    options::check(body, messages)?;
    ends(model, body, messages)?;
    marks(body)
}

/// How a request may end.
fn ends(model: &str, body: &Map<String, Value>, messages: &[Value]) -> Checked {
    let Some(last) = messages.last().filter(|last| last["role"] == "assistant") else { return Ok(()) };
    if last["content"].as_array().and_then(|blocks| blocks.last()).is_some_and(pairs::is_hosted) {
        return Ok(()); // An answer that paused is gone on with.
    }
    if NO_PREFILL.iter().any(|name| model.starts_with(name)) {
        return refuse(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        );
    }
    if options::thinks(body) {
        return refuse(
            "When `thinking` is enabled, a final `assistant` message must start with a thinking block; prefilling the response is not supported",
        );
    }
    let text = match &last["content"] {
        Value::Array(blocks) => blocks.last().and_then(|block| block["text"].as_str()),
        content => content.as_str(),
    };
    if text.is_some_and(|text| text.ends_with(char::is_whitespace)) {
        return refuse("messages: final assistant content cannot end with trailing whitespace");
    }
    Ok(())
}

fn marks(body: &Map<String, Value>) -> Checked {
    let found = body.values().map(count_marks).sum::<usize>();
    if found > MARKS_MAX {
        let words = "A maximum of 4 blocks with cache_control may be provided.";
        return refuse(format!("{words} Found {found}."));
    }
    Ok(())
}

fn count_marks(value: &Value) -> usize {
    match value {
        Value::Object(map) => {
            // An input or a schema may have a field of that name; it is no marker.
            let inner =
                map.iter().filter(|(key, _)| !matches!(key.as_str(), "input" | "input_schema" | "cache_control"));
            usize::from(map.get("cache_control").is_some_and(|mark| !mark.is_null()))
                + inner.map(|(_, value)| count_marks(value)).sum::<usize>()
        }
        Value::Array(values) => values.iter().map(count_marks).sum(),
        _ => 0,
    }
}
