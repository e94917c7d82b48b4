//! What Chat Completions refuses in a request, and in which words.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::openai::{
    empty_array, invalid_type, invalid_value, known, missing, sampling, schema, text, tool_name,
};
use super::super::{Checked, WireRefusal, refuse};

/// Everything a request may hold at its top. What compatibles take besides is taken too.
const FIELDS: [&str; 41] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "n",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "user",
    "seed",
    "response_format",
    "reasoning_effort",
    "metadata",
    "store",
    "service_tier",
    "modalities",
    "audio",
    "prediction",
    "verbosity",
    "web_search_options",
    "prompt_cache_key",
    "safety_identifier",
    "functions",
    "function_call",
    "prompt_cache_retention",
    "reasoning",
    "provider",
    "models",
    "chat_template_kwargs",
    "think",
    "usage",
];
/// How many tools there may be.
const TOOLS_MAX: usize = 128;

pub(in crate::http) fn check(body: &Map<String, Value>) -> Checked {
    known(body, &FIELDS)?;
    for field in ["model", "messages"] {
        if !body.contains_key(field) {
            return Err(missing(field));
        }
    }
    let Some(messages) = body["messages"].as_array() else {
        return Err(invalid_type("messages", "an array of objects", &body["messages"]));
    };
    if messages.is_empty() {
        return Err(empty_array("messages"));
    }
    for (at, one) in messages.iter().enumerate() {
        message(one, &format!("messages[{at}]"))?;
    }
    pairs(messages)?;
    tools(body)?;
    options(body)
}

fn message(message: &Value, place: &str) -> Checked {
    const ROLES: [&str; 6] = ["system", "assistant", "user", "function", "tool", "developer"];
    let role = text(message, place, "role")?;
    if !ROLES.contains(&role) {
        return Err(invalid_value(&format!("{place}.role"), role, &ROLES));
    }
    let content = &message["content"];
    match (role, content) {
        ("assistant", Value::Null) if message.get("tool_calls").is_some() || message.get("refusal").is_some() => {}
        (_, Value::Null) => {
            let param = format!("{place}.content");
            let words = "Invalid value for 'content': expected a string, got null.";
            return Err(WireRefusal::new(400, words).about(param));
        }
        (_, Value::String(_)) => {}
        (_, Value::Array(parts)) => parts
            .iter()
            .enumerate()
            .try_for_each(|(at, part)| content_part(part, role, &format!("{place}.content[{at}]")))?,
        (_, other) => {
            return Err(invalid_type(&format!("{place}.content"), "one of a string or array of objects", other));
        }
    }
    if role == "tool" {
        text(message, place, "tool_call_id")?;
    }
    match (message.get("tool_calls"), role) {
        (None, _) => Ok(()),
        (Some(Value::Array(calls)), "assistant") if calls.is_empty() => {
            Err(empty_array(&format!("{place}.tool_calls")))
        }
        (Some(Value::Array(calls)), "assistant") => {
            calls.iter().enumerate().try_for_each(|(at, one)| call(one, &format!("{place}.tool_calls[{at}]")))
        }
        (Some(other), "assistant") => Err(invalid_type(&format!("{place}.tool_calls"), "an array of objects", other)),
        (Some(_), _) => {
            let param = format!("{place}.tool_calls");
            Err(WireRefusal::new(400, format!("Unknown parameter: '{param}'.")).about(param).coded("unknown_parameter"))
        }
    }
}

fn content_part(part: &Value, role: &str, place: &str) -> Checked {
    let kind = text(part, place, "type")?;
    let takes: &[&str] = match role {
        "user" => &["text", "image_url", "input_audio", "refusal", "audio", "file"],
        "assistant" => &["text", "refusal"],
        _ => &["text"],
    };
    if !takes.contains(&kind) {
        return Err(invalid_value(&format!("{place}.type"), kind, takes));
    }
    match kind {
        "text" => text(part, place, "text").map(|_| ()),
        "image_url" => text(&part["image_url"], &format!("{place}.image_url"), "url").map(|_| ()),
        _ => Ok(()),
    }
}

fn call(call: &Value, place: &str) -> Checked {
    let id = text(call, place, "id")?;
    if id.is_empty() {
        return Err(WireRefusal::new(400, format!("Invalid '{place}.id': empty string.")).about(format!("{place}.id")));
    }
    let kind = text(call, place, "type")?;
    if kind != "function" {
        return Err(invalid_value(&format!("{place}.type"), kind, &["function"]));
    }
    let inner = format!("{place}.function");
    if !call["function"].is_object() {
        return Err(missing(&inner));
    }
    tool_name(text(&call["function"], &inner, "name")?, &format!("{inner}.name"))?;
    text(&call["function"], &inner, "arguments").map(|_| ())
}

/// Tool messages answer the calls right before them, all of them, and nothing else.
fn pairs(messages: &[Value]) -> Checked {
    let mut open: Vec<&str> = Vec::new();
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    for (at, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !open.contains(&id) && !answered.contains(id) {
                let words = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
                return Err(WireRefusal::new(400, words).about(format!("messages.[{at}].role")));
            }
            if !answered.insert(id) {
                let words = format!("Duplicate value for 'tool_call_id' of '{id}' in message[{at}].");
                return Err(WireRefusal::new(400, words).about(format!("messages.[{at}].tool_call_id")));
            }
            open.retain(|one| *one != id);
            continue;
        }
        unanswered(&open, at)?;
        answered.clear();
        open = message["tool_calls"].as_array().into_iter().flatten().filter_map(|call| call["id"].as_str()).collect();
        let unique: BTreeSet<&str> = open.iter().copied().collect();
        if unique.len() < open.len() {
            return refuse(format!("Duplicate value for 'tool_calls[].id' in message[{at}]."));
        }
    }
    unanswered(&open, messages.len())
}

fn unanswered(open: &[&str], at: usize) -> Checked {
    if open.is_empty() {
        return Ok(());
    }
    let words = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The \
         following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    Err(WireRefusal::new(400, words).about(format!("messages.[{at}].role")))
}

fn tools(body: &Map<String, Value>) -> Checked {
    let tools = match body.get("tools") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(tools)) if tools.is_empty() => return Err(empty_array("tools")),
        Some(Value::Array(tools)) => tools,
        Some(other) => return Err(invalid_type("tools", "an array of objects", other)),
    };
    if tools.len() > TOOLS_MAX {
        let words = format!(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length {} instead.",
            tools.len()
        );
        return Err(WireRefusal::new(400, words).about("tools").coded("array_above_max_length"));
    }
    for (at, tool) in tools.iter().enumerate() {
        let place = format!("tools[{at}]");
        if text(tool, &place, "type")? != "function" {
            continue;
        }
        let inner = format!("{place}.function");
        if !tool["function"].is_object() {
            return Err(missing(&inner));
        }
        let name = text(&tool["function"], &inner, "name")?;
        tool_name(name, &format!("{inner}.name"))?;
        schema(tool["function"].get("parameters"), name, &format!("{inner}.parameters"))?;
    }
    let choice = body.get("tool_choice").filter(|choice| !choice.is_null());
    match choice {
        None => Ok(()),
        Some(_) if tools.is_empty() => Err(WireRefusal::new(
            400,
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
        )
        .about("tool_choice")),
        Some(Value::String(choice)) if matches!(choice.as_str(), "none" | "auto" | "required") => Ok(()),
        Some(Value::Object(choice)) => {
            let name = choice.get("function").map_or(&Value::Null, |function| &function["name"]);
            if tools.iter().any(|tool| tool["function"]["name"] == *name) {
                return Ok(());
            }
            let words =
                "Invalid value for 'tool_choice': 'tool_choice.function.name' is not one of the provided tools.";
            Err(WireRefusal::new(400, words).about("tool_choice"))
        }
        Some(other) => Err(invalid_value("tool_choice", &other.to_string(), &["none", "auto", "required"])),
    }
}

fn options(body: &Map<String, Value>) -> Checked {
    if body.get("stream_options").is_some_and(|options| !options.is_null())
        && body.get("stream") != Some(&Value::Bool(true))
    {
        let words = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(WireRefusal::new(400, words).about("stream_options"));
    }
    if body.contains_key("max_tokens") && body.contains_key("max_completion_tokens") {
        return refuse("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.");
    }
    for field in ["max_tokens", "max_completion_tokens"] {
        if let Some(tokens) = body.get(field).and_then(Value::as_i64)
            && tokens < 1
        {
            let words = format!(
                "Invalid '{field}': integer below minimum value. Expected a value >= 1, but got {tokens} instead."
            );
            return Err(WireRefusal::new(400, words).about(field).coded("integer_below_min_value"));
        }
    }
    sampling(body, body.get("reasoning_effort").and_then(Value::as_str))
}
