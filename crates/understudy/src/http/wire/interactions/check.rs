//! What Interactions refuse in a request.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::{Checked, WireRefusal, is_base64, refuse};

/// Everything a request to a model may hold at its top.
const FIELDS: [&str; 20] = [
    "model",
    "input",
    "stream",
    "background",
    "store",
    "system_instruction",
    "tools",
    "generation_config",
    "previous_interaction_id",
    "cached_content",
    "continuation_token",
    "environment",
    "labels",
    "response_format",
    "response_mime_type",
    "response_modalities",
    "safety_settings",
    "service_tier",
    "webhook_config",
    "api_version",
];
const CONFIG: [&str; 12] = [
    "image_config",
    "max_output_tokens",
    "seed",
    "speech_config",
    "stop_sequences",
    "temperature",
    "thinking_level",
    "thinking_summaries",
    "tool_choice",
    "top_p",
    "transcription_config",
    "video_config",
];
const MODES: [&str; 4] = ["auto", "any", "none", "validated"];
/// Signatures that stand for none, as documented.
const SENTINELS: [&str; 2] = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

/// Refuses what Google would. `kept` says whether an interaction is known.
pub(in crate::http) fn check(body: &Map<String, Value>, kept: &dyn Fn(&str) -> bool) -> Checked {
    if let Some(name) = body.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return unknown(name, "the request");
    }
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
    if model.is_empty() {
        return refuse("model is required.");
    }
    if body.get("background") == Some(&true.into()) && body.get("store") == Some(&false.into()) {
        return refuse("background=true requires store=true.");
    }
    let earlier = body.get("previous_interaction_id").and_then(Value::as_str);
    if let Some(id) = earlier.filter(|id| !kept(id)) {
        return Err(WireRefusal::new(404, format!("Previous interaction {id} not found.")));
    }
    match body.get("input") {
        Some(Value::String(text)) if !text.is_empty() => {}
        Some(one @ Value::Object(_)) => content(one)?,
        Some(Value::Array(list)) if !list.is_empty() => input(list, model, earlier.is_some())?,
        _ => return refuse("input is required."),
    }
    let names = tools(body.get("tools"))?;
    config(body.get("generation_config"), &names)
}

fn unknown(name: &str, place: &str) -> Checked {
    refuse(format!("Unknown parameter '{name}' in {place}."))
}

/// Steps, or the pieces of one thing a person says.
fn input(list: &[Value], model: &str, goes_on: bool) -> Checked {
    let is_content =
        |one: &Value| ["text", "image", "audio", "video", "document"].iter().any(|kind| one["type"] == *kind);
    if list.iter().all(is_content) {
        return list.iter().try_for_each(content);
    }
    list.iter().try_for_each(step)?;
    pairs(list, goes_on)?;
    if model.contains("gemini-3") { signed(list) } else { Ok(()) }
}

fn content(one: &Value) -> Checked {
    match one["type"].as_str().unwrap_or_default() {
        "text" if one["text"].is_string() => Ok(()),
        "text" => refuse("text content must have text."),
        "image" | "audio" | "video" | "document" => {
            let data = one["data"].as_str();
            if one["mime_type"].as_str().is_none() || data.is_some_and(|data| !is_base64(data)) {
                return refuse("Invalid media content: mime_type and base64 data are required.");
            }
            if data.is_none() && !one["uri"].is_string() {
                return refuse("Media content needs data or a uri.");
            }
            Ok(())
        }
        other => refuse(format!("Unknown content type '{other}'.")),
    }
}

/// The fields of each kind of step, besides its type.
fn fields(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "user_input" => &["content"],
        "model_output" => &["content", "error"],
        "thought" => &["signature", "summary"],
        "function_call" => &["id", "name", "arguments"],
        "function_result" => &["call_id", "name", "result", "is_error"],
        _ if kind.ends_with("_call") => &["id", "arguments", "signature", "search_type"],
        _ if kind.ends_with("_result") => &["call_id", "result", "signature", "is_error"],
        _ => return None,
    })
}

fn step(step: &Value) -> Checked {
    let kind = step["type"].as_str().unwrap_or_default();
    let Some(known) = fields(kind) else { return refuse(format!("Unknown step type '{kind}'.")) };
    let mut names = step.as_object().into_iter().flat_map(Map::keys);
    if let Some(name) = names.find(|name| *name != "type" && !known.contains(&name.as_str())) {
        return unknown(name, &format!("a step of type '{kind}'"));
    }
    let is_empty = |key: &str| step[key].as_str().unwrap_or_default().is_empty();
    match kind {
        "user_input" | "model_output" => {
            let said = step["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            if said.is_empty() {
                return refuse(format!("A step of type '{kind}' must have content."));
            }
            said.iter().try_for_each(content)
        }
        "thought" => match step["signature"].as_str() {
            Some(seal) if !seal.is_empty() && (is_base64(seal) || SENTINELS.contains(&seal)) => Ok(()),
            _ => refuse("A thought must carry its signature."),
        },
        "function_call" if is_empty("id") || is_empty("name") => refuse("A function_call must have an id and a name."),
        "function_call" if !step["arguments"].is_object() => refuse("The arguments of a function_call are an object."),
        "function_result" if is_empty("call_id") => refuse("A function_result must have a call_id."),
        "function_result" if step["result"].is_null() => refuse("A function_result must have a result."),
        _ => Ok(()),
    }
}

/// Every call has one result before anybody says more, and every result a call.
fn pairs(steps: &[Value], goes_on: bool) -> Checked {
    let mut open: Vec<&str> = Vec::new();
    for step in steps {
        match step["type"].as_str().unwrap_or_default() {
            "function_call" => open.push(step["id"].as_str().unwrap_or_default()),
            "function_result" => {
                let id = step["call_id"].as_str().unwrap_or_default();
                match open.iter().position(|own| *own == id) {
                    Some(at) => drop(open.remove(at)),
                    None if goes_on => {}
                    None => return refuse(format!("No function_call with id '{id}' waits for a function_result.")),
                }
            }
            "user_input" | "model_output" if !open.is_empty() => break,
            _ => {}
        }
    }
    match open.first() {
        Some(id) => refuse(format!("function_call '{id}' has no function_result.")),
        None => Ok(()),
    }
}

/// Models that sign their calls want a signed thought before the first call of each reply of the current turn.
fn signed(steps: &[Value]) -> Checked {
    let from = steps.iter().rposition(|step| step["type"] == "user_input").unwrap_or(0);
    let mut is_signed = false;
    for step in &steps[from..] {
        match step["type"].as_str().unwrap_or_default() {
            "thought" => is_signed = true,
            "function_result" => is_signed = false,
            "function_call" if !is_signed => {
                return refuse(format!(
                    "function_call {} is missing a thought with a signature before it.",
                    step["name"]
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn tools(tools: Option<&Value>) -> Result<BTreeSet<&str>, WireRefusal> {
    let mut names = BTreeSet::new();
    for tool in tools.and_then(Value::as_array).into_iter().flatten() {
        let kind = tool["type"].as_str().unwrap_or_default();
        if kind.is_empty() {
            return Err(WireRefusal::new(400, "A tool must have a type."));
        }
        if kind != "function" {
            continue;
        }
        let name = tool["name"].as_str().unwrap_or_default();
        let is_name = name.len() <= 64
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c));
        if !is_name || !tool["parameters"].is_object() {
            return Err(WireRefusal::new(400, format!("Invalid function declaration '{name}'.")));
        }
        if !names.insert(name) {
            return Err(WireRefusal::new(400, format!("Duplicate function declaration found: {name}")));
        }
    }
    Ok(names)
}

fn config(config: Option<&Value>, names: &BTreeSet<&str>) -> Checked {
    let Some(config) = config else { return Ok(()) };
    if let Some(name) = config.as_object().and_then(|all| all.keys().find(|key| !CONFIG.contains(&key.as_str()))) {
        return unknown(name, "generation_config");
    }
    let is_one_of = |key: &str, words: &[&str]| config[key].is_null() || words.iter().any(|word| config[key] == *word);
    if !is_one_of("thinking_level", &["minimal", "low", "medium", "high"])
        || !is_one_of("thinking_summaries", &["auto", "none"])
    {
        return refuse("Invalid thinking configuration.");
    }
    if config["max_output_tokens"].as_i64().is_some_and(|tokens| tokens < 1) {
        return refuse("max_output_tokens must be at least 1.");
    }
    let choice = &config["tool_choice"];
    if choice.is_null() || MODES.iter().any(|mode| choice == mode) {
        return Ok(());
    }
    let allowed = choice["allowed_tools"]["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    match allowed.iter().find(|name| !name.as_str().is_some_and(|name| names.contains(name))) {
        Some(name) => refuse(format!("tool_choice allows {name}, which is not declared.")),
        None if allowed.is_empty() => refuse("Invalid tool_choice."),
        None => Ok(()),
    }
}
