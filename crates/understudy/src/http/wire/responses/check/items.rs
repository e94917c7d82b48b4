//! What the input may hold, and what must come with what.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::super::openai::{invalid_type, invalid_value, missing, text, too_long, tool_name};
use super::super::super::{Checked, EarlierResponse, WireRefusal};

/// The kinds of item and how their ids begin.
const KINDS: [(&str, &str); 13] = [
    ("message", "msg"),
    ("function_call", "fc"),
    ("function_call_output", "fc"),
    ("reasoning", "rs"),
    ("web_search_call", "ws"),
    ("item_reference", ""),
    ("file_search_call", "fs"),
    ("code_interpreter_call", "ci"),
    ("image_generation_call", "ig"),
    ("computer_call", "cu"),
    ("computer_call_output", "cu"),
    ("mcp_call", "mcp"),
    ("compaction", "cmp"),
];
/// The longest id of a call.
const CALL_ID_MAX: usize = 64;

pub(super) fn check(input: &[Value], is_stored: bool, chained: Option<&EarlierResponse>) -> Checked {
    let mut ids = BTreeSet::new();
    for (at, item) in input.iter().enumerate() {
        let place = format!("input[{at}]");
        one(item, &place, is_stored)?;
        if let Some(id) = item["id"].as_str()
            && !ids.insert(id)
        {
            let words =
                format!("Duplicate item found with id {id}. Remove duplicate items from your input and try again.");
            return Err(WireRefusal::new(400, words).about("input"));
        }
    }
    pairs(input, chained)?;
    follows(input)
}

fn one(item: &Value, place: &str, is_stored: bool) -> Checked {
    let kind = match item.get("type") {
        None => "message",
        Some(kind) => kind.as_str().unwrap_or_default(),
    };
    let Some((_, prefix)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        return Err(invalid_value(place, kind, &names));
    };
    match item.get("id") {
        None | Some(Value::Null) => {}
        Some(Value::String(id)) if id.starts_with(prefix) => {}
        Some(id) => {
            let param = format!("{place}.id");
            let id = id.as_str().unwrap_or_default();
            let words = format!("Invalid '{param}': '{id}'. Expected an ID that begins with '{prefix}'.");
            return Err(WireRefusal::new(400, words).about(param).coded("invalid_value"));
        }
    }
    match kind {
        "message" => message(item, place),
        "function_call" => {
            call_id(item, place)?;
            tool_name(text(item, place, "name")?, &format!("{place}.name"))?;
            text(item, place, "arguments").map(|_| ())
        }
        "function_call_output" => {
            call_id(item, place)?;
            match &item["output"] {
                Value::String(_) | Value::Array(_) => Ok(()),
                Value::Null => Err(missing(&format!("{place}.output"))),
                other => Err(invalid_type(&format!("{place}.output"), "one of a string or array of objects", other)),
            }
        }
        "reasoning" => reasoning(item, place, is_stored),
        "item_reference" => {
            let id = text(item, place, "id")?;
            if is_stored { Ok(()) } else { Err(not_kept(id)) }
        }
        _ => Ok(()),
    }
}

fn message(item: &Value, place: &str) -> Checked {
    const ROLES: [&str; 4] = ["assistant", "system", "developer", "user"];
    let role = text(item, place, "role")?;
    if !ROLES.contains(&role) {
        return Err(invalid_value(&format!("{place}.role"), role, &ROLES));
    }
    let parts = match &item["content"] {
        Value::String(_) => return Ok(()),
        Value::Array(parts) => parts,
        Value::Null => return Err(missing(&format!("{place}.content"))),
        other => return Err(invalid_type(&format!("{place}.content"), "one of a string or array of objects", other)),
    };
    let takes: &[&str] = match role {
        "assistant" => &["output_text", "refusal"],
        _ => &["input_text", "input_image", "input_file", "input_audio"],
    };
    for (at, part) in parts.iter().enumerate() {
        let place = format!("{place}.content[{at}]");
        let kind = text(part, &place, "type")?;
        if !takes.contains(&kind) {
            return Err(invalid_value(&place, kind, takes));
        }
        if kind.ends_with("_text") {
            text(part, &place, "text")?;
        }
    }
    Ok(())
}

fn reasoning(item: &Value, place: &str, is_stored: bool) -> Checked {
    // One that is there in full needs no name.
    let id = match item.get("encrypted_content") {
        Some(Value::String(_)) if item.get("id").is_none() => "",
        _ => text(item, place, "id")?,
    };
    let Some(summary) = item["summary"].as_array() else { return Err(missing(&format!("{place}.summary"))) };
    for (at, part) in summary.iter().enumerate() {
        let place = format!("{place}.summary[{at}]");
        if text(part, &place, "type")? != "summary_text" {
            return Err(invalid_value(&place, part["type"].as_str().unwrap_or_default(), &["summary_text"]));
        }
        text(part, &place, "text")?;
    }
    match item.get("encrypted_content") {
        Some(Value::String(content)) if content.is_empty() || content.contains(char::is_whitespace) => {
            let words = format!("The encrypted content for item {id} could not be verified.");
            Err(WireRefusal::new(400, words).coded("invalid_encrypted_content"))
        }
        Some(Value::String(_)) => Ok(()),
        _ if is_stored => Ok(()),
        _ => Err(not_kept(id)),
    }
}

fn not_kept(id: &str) -> WireRefusal {
    let words = format!(
        "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again with `store` set \
         to true, or remove this item from your input."
    );
    WireRefusal { kind: Some("invalid_request_error"), ..WireRefusal::new(404, words).about("input") }
}

fn call_id<'a>(item: &'a Value, place: &str) -> Result<&'a str, WireRefusal> {
    let id = text(item, place, "call_id")?;
    let param = format!("{place}.call_id");
    if id.len() > CALL_ID_MAX {
        return Err(too_long(&param, CALL_ID_MAX, id.len()));
    }
    if id.is_empty() {
        let words = format!(
            "Invalid '{param}': empty string. Expected a string with minimum length 1, but got an empty string instead."
        );
        return Err(WireRefusal::new(400, words).about(param).coded("empty_string"));
    }
    Ok(id)
}

/// Every call has an output after it and every output a call before it, here or in the response this builds upon.
fn pairs(input: &[Value], chained: Option<&EarlierResponse>) -> Checked {
    let mut open: Vec<&str> = chained.into_iter().flat_map(|kept| kept.calls.iter().map(String::as_str)).collect();
    let mut answered = BTreeSet::new();
    for item in input {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call") => open.push(id),
            Some("function_call_output") if open.contains(&id) => {
                open.retain(|one| *one != id);
                answered.insert(id);
            }
            Some("function_call_output") if !answered.contains(id) => {
                let words = format!("No tool call found for function call output with call_id {id}.");
                return Err(WireRefusal::new(400, words).about("input"));
            }
            _ => {}
        }
    }
    match open.first() {
        Some(id) => Err(WireRefusal::new(400, format!("No tool output found for function call {id}.")).about("input")),
        None => Ok(()),
    }
}

/// Reasoning is followed by what it led to.
fn follows(input: &[Value]) -> Checked {
    for (at, item) in input.iter().enumerate().filter(|(_, item)| item["type"] == "reasoning") {
        let next = input.get(at + 1);
        let own = next.is_some_and(|next| {
            let is_answer = next["role"] == "assistant";
            let kind = next["type"].as_str().unwrap_or("message");
            is_answer || !matches!(kind, "message" | "function_call_output")
        });
        if !own {
            let id = item["id"].as_str().unwrap_or_default();
            let words = format!("Item '{id}' of type 'reasoning' was provided without its required following item.");
            return Err(WireRefusal::new(400, words).about("input"));
        }
    }
    Ok(())
}
