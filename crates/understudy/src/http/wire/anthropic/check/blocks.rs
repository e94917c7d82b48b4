//! What messages may hold.

use serde_json::Value;

use super::super::super::{Checked, is_plain, refuse};

/// The kinds of block that each role may send.
const USER: [&str; 5] = ["text", "image", "document", "tool_result", "search_result"];
const ASSISTANT: [&str; 5] = ["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"];

pub(super) fn message(message: &Value, at: usize, is_last: bool) -> Checked {
    let role = message["role"].as_str().unwrap_or_default();
    if !matches!(role, "user" | "assistant") {
        return refuse(format!("messages.{at}.role: Input should be 'user' or 'assistant'"));
    }
    match &message["content"] {
        Value::String(text) if text.is_empty() && !(is_last && role == "assistant") => refuse(format!(
            "messages.{at}: all messages must have non-empty content except for the optional final assistant message"
        )),
        Value::String(_) => Ok(()),
        Value::Array(blocks) if blocks.is_empty() && !(is_last && role == "assistant") => refuse(format!(
            "messages.{at}: all messages must have non-empty content except for the optional final assistant message"
        )),
        Value::Array(blocks) => blocks
            .iter()
            .enumerate()
            .try_for_each(|(place, one)| block(one, &format!("messages.{at}.content.{place}"), role)),
        _ => refuse(format!("messages.{at}.content: Field required")),
    }
}

fn block(block: &Value, place: &str, role: &str) -> Checked {
    let Some(kind) = block["type"].as_str() else { return refuse(format!("{place}.type: Field required")) };
    let is_hosted_result = kind.ends_with("_tool_result");
    let takes = match role {
        "user" => USER.contains(&kind),
        _ => ASSISTANT.contains(&kind) || is_hosted_result,
    };
    if !takes {
        return refuse(format!(
            "{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        ));
    }
    match kind {
        "text" => text(block, place),
        "thinking" => {
            string(block, place, "thinking")?;
            let signature = string(block, place, "signature")?;
            // A signature is opaque, but never empty and never prose.
            if signature.is_empty() || signature.contains(char::is_whitespace) {
                return refuse(format!("{place}: Invalid `signature` in `thinking` block"));
            }
            Ok(())
        }
        "redacted_thinking" => string(block, place, "data").and_then(|data| match data {
            "" => refuse(format!("{place}: Invalid `data` in `redacted_thinking` block")),
            _ => Ok(()),
        }),
        "tool_use" | "server_tool_use" => call(block, place, kind),
        "tool_result" => result(block, place),
        "image" | "document" if !block["source"].is_object() => {
            refuse(format!("{place}.{kind}.source: Field required"))
        }
        _ if is_hosted_result => string(block, place, "tool_use_id").map(|_| ()),
        _ => Ok(()),
    }
}

fn text(block: &Value, place: &str) -> Checked {
    let text = string(block, place, "text")?;
    if text.is_empty() {
        return refuse("messages: text content blocks must be non-empty");
    }
    if text.trim().is_empty() {
        return refuse("messages: text content blocks must contain non-whitespace text");
    }
    Ok(())
}

fn call(block: &Value, place: &str, kind: &str) -> Checked {
    let id = string(block, place, "id")?;
    let pattern = if kind == "tool_use" { "^[a-zA-Z0-9_-]+$" } else { "^srvtoolu_[a-zA-Z0-9_]+$" };
    let fits = match kind {
        "tool_use" => is_plain(id, usize::MAX),
        _ => id.strip_prefix("srvtoolu_").is_some_and(|rest| is_plain(rest, usize::MAX) && !rest.contains('-')),
    };
    if !fits {
        return refuse(format!("{place}.{kind}.id: String should match pattern '{pattern}'"));
    }
    let name = string(block, place, "name")?;
    if !is_plain(name, 128) {
        return refuse(format!("{place}.{kind}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"));
    }
    match &block["input"] {
        Value::Object(_) => Ok(()),
        Value::Null => refuse(format!("{place}.{kind}.input: Field required")),
        _ => refuse(format!("{place}.{kind}.input: Input should be a valid dictionary")),
    }
}

fn result(block: &Value, place: &str) -> Checked {
    string(block, place, "tool_use_id")?;
    match &block["content"] {
        Value::Null | Value::String(_) => Ok(()),
        Value::Array(parts) => parts.iter().enumerate().try_for_each(|(at, part)| match part["type"].as_str() {
            Some("text") => text(part, &format!("{place}.tool_result.content.{at}")),
            Some("image" | "document" | "search_result" | "tool_reference") => Ok(()),
            _ => refuse(format!(
                "{place}.tool_result.content.{at}: Input tag found using 'type' does not match any of the expected tags"
            )),
        }),
        _ => refuse(format!("{place}.tool_result.content: Input should be a valid list")),
    }
}

fn string<'a>(block: &'a Value, place: &str, key: &str) -> Result<&'a str, super::super::super::WireRefusal> {
    let kind = block["type"].as_str().unwrap_or_default();
    let refusal = |why: &str| super::super::super::WireRefusal::new(400, format!("{place}.{kind}.{key}: {why}"));
    match &block[key] {
        Value::String(text) => Ok(text),
        Value::Null => Err(refusal("Field required")),
        _ => Err(refusal("Input should be a valid string")),
    }
}
