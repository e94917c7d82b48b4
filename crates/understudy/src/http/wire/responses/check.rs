//! What Responses refuses in a request, and in which words.

mod items;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::super::openai::{invalid_type, invalid_value, known, missing, sampling, schema, text, tool_name};
use super::super::{Checked, EarlierResponse, WireRefusal};

/// Everything a request may hold at its top.
const FIELDS: [&str; 29] = [
    "model",
    "input",
    "instructions",
    "stream",
    "stream_options",
    "store",
    "background",
    "previous_response_id",
    "conversation",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "max_tool_calls",
    "reasoning",
    "include",
    "text",
    "temperature",
    "top_p",
    "top_logprobs",
    "truncation",
    "metadata",
    "user",
    "service_tier",
    "safety_identifier",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "context_management",
];
/// What may be included.
const INCLUDES: [&str; 8] = [
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
];
/// How hard a model may be asked to think.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
/// The least output there may be.
const OUTPUT_MIN: i64 = 16;

pub(in crate::http) fn check(body: &Map<String, Value>, kept: &dyn Fn(&str) -> Option<EarlierResponse>) -> Checked {
    known(body, &FIELDS)?;
    if !body.contains_key("model") {
        return Err(missing("model"));
    }
    let chained = match body.get("previous_response_id") {
        None | Some(Value::Null) => None,
        Some(id) => Some(chain(id, kept)?),
    };
    match body.get("input") {
        None | Some(Value::Null) => return Err(missing("input")),
        Some(Value::String(_)) => items::check(&[], is_stored(body), chained.as_ref())?,
        Some(Value::Array(input)) => items::check(input, is_stored(body), chained.as_ref())?,
        Some(other) => return Err(invalid_type("input", "one of a string or array of input items", other)),
    }
    if body.get("background") == Some(&Value::Bool(true)) && !is_stored(body) {
        let words = "Background mode requires `store` to be true.";
        return Err(WireRefusal::new(400, words).about("background").coded("invalid_value"));
    }
    tools(body)?;
    options(body)
}

fn is_stored(body: &Map<String, Value>) -> bool {
    body.get("store") != Some(&Value::Bool(false))
}

fn chain(id: &Value, kept: &dyn Fn(&str) -> Option<EarlierResponse>) -> Result<EarlierResponse, WireRefusal> {
    let param = "previous_response_id";
    let Some(id) = id.as_str() else { return Err(invalid_type(param, "a string", id)) };
    if !id.starts_with("resp") {
        let words = format!("Invalid '{param}': '{id}'. Expected an ID that begins with 'resp'.");
        return Err(WireRefusal::new(400, words).about(param).coded("invalid_value"));
    }
    kept(id).ok_or_else(|| {
        let words = format!("Previous response with id '{id}' not found.");
        WireRefusal::new(400, words).about(param).coded("previous_response_not_found")
    })
}

fn tools(body: &Map<String, Value>) -> Checked {
    let tools = match body.get("tools") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(tools)) => tools,
        Some(other) => return Err(invalid_type("tools", "an array of objects", other)),
    };
    for (at, tool) in tools.iter().enumerate() {
        let place = format!("tools[{at}]");
        if text(tool, &place, "type")? != "function" {
            continue;
        }
        let name = text(tool, &place, "name")?;
        tool_name(name, &format!("{place}.name"))?;
        schema(tool.get("parameters"), name, &format!("{place}.parameters"))?;
    }
    match body.get("tool_choice") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(choice)) if matches!(choice.as_str(), "none" | "auto" | "required") => Ok(()),
        Some(Value::Object(choice)) => {
            let kind = choice.get("type").and_then(Value::as_str).unwrap_or_default();
            let name = choice.get("name").unwrap_or(&Value::Null);
            let offered = |tool: &Value| tool["type"] == *kind && (kind != "function" || tool["name"] == *name);
            if kind == "allowed_tools" || tools.iter().any(offered) {
                return Ok(());
            }
            let words = format!("Tool choice '{kind}' not found in 'tools' parameter.");
            Err(WireRefusal::new(400, words).about("tool_choice"))
        }
        Some(other) => Err(invalid_value("tool_choice", &other.to_string(), &["none", "auto", "required"])),
    }
}

fn options(body: &Map<String, Value>) -> Checked {
    if let Some(tokens) = body.get("max_output_tokens").and_then(Value::as_i64)
        && tokens < OUTPUT_MIN
    {
        let words = format!(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {OUTPUT_MIN}, but got \
             {tokens} instead."
        );
        return Err(WireRefusal::new(400, words).about("max_output_tokens").coded("integer_below_min_value"));
    }
    for (at, include) in body.get("include").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let include = include.as_str().unwrap_or_default();
        if !INCLUDES.contains(&include) {
            return Err(invalid_value(&format!("include[{at}]"), include, &INCLUDES));
        }
    }
    let effort = body.get("reasoning").and_then(|reasoning| reasoning["effort"].as_str());
    match effort.filter(|effort| !EFFORTS.contains(effort)) {
        Some(effort) => Err(invalid_value("reasoning.effort", effort, &EFFORTS)),
        None => sampling(body, effort),
    }
}
