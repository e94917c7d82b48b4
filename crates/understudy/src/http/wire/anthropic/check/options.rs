//! What may be asked for together.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::super::{Checked, is_plain, refuse, texts};

/// The least a model may be given to think.
const BUDGET_MIN: i64 = 1024;

/// Whether the model is asked to think.
pub(super) fn thinks(body: &Map<String, Value>) -> bool {
    matches!(kind(body.get("thinking")), "enabled" | "adaptive")
}

fn kind(value: Option<&Value>) -> &str {
    value.and_then(|value| value["type"].as_str()).unwrap_or_default()
}

pub(super) fn check(body: &Map<String, Value>, messages: &[Value]) -> Checked {
    system(body.get("system"))?;
    tools(body, messages)?;
    choice(body)?;
    thinking(body, messages)?;
    sampling(body)?;
    match body.get("stream") {
        None | Some(Value::Bool(_)) => Ok(()),
        Some(_) => refuse("stream: Input should be a valid boolean"),
    }
}

/// How the names of models begin that take no sampling parameters.
const WITHOUT_SAMPLING: [&str; 7] = [
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-haiku-5",
    "claude-fable-5",
    "claude-mythos-5",
];

fn sampling(body: &Map<String, Value>) -> Checked {
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
    let set = ["temperature", "top_p", "top_k"].into_iter().find(|name| body.contains_key(*name));
    if let Some(name) = set.filter(|_| WITHOUT_SAMPLING.iter().any(|begin| model.starts_with(begin))) {
        return refuse(format!("`{name}` is deprecated for this model."));
    }
    for name in ["temperature", "top_p"] {
        match body.get(name).map(Value::as_f64) {
            Some(Some(value)) if (0.0..=1.0).contains(&value) => {}
            Some(_) => return refuse(format!("{name}: range: 0..1")),
            None => {}
        }
    }
    if body.contains_key("temperature") && body.contains_key("top_p") {
        return refuse("`temperature` and `top_p` cannot both be specified for this model. Please use only one.");
    }
    let stops = body.get("stop_sequences").and_then(Value::as_array).into_iter().flatten();
    match stops.filter_map(Value::as_str).find(|stop| stop.trim().is_empty()) {
        Some(_) => refuse("stop_sequences: each stop sequence must contain non-whitespace"),
        None => Ok(()),
    }
}

fn system(system: Option<&Value>) -> Checked {
    match system {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(blocks)) => blocks.iter().enumerate().try_for_each(|(at, block)| {
            if block["type"] != "text" {
                return refuse(format!(
                    "system.{at}: Input tag found using 'type' does not match any of the expected tags: 'text'"
                ));
            }
            if block["text"].as_str().unwrap_or_default().trim().is_empty() {
                return refuse("system: text content blocks must be non-empty");
            }
            Ok(())
        }),
        Some(_) => refuse("system: Input should be a valid list"),
    }
}

fn tools(body: &Map<String, Value>, messages: &[Value]) -> Checked {
    let tools = match body.get("tools") {
        None => &[][..],
        Some(Value::Array(tools)) => tools,
        Some(_) => return refuse("tools: Input should be a valid list"),
    };
    let mut names = BTreeSet::new();
    for (at, tool) in tools.iter().enumerate() {
        let Some(name) = tool["name"].as_str() else { return refuse(format!("tools.{at}.name: Field required")) };
        if !names.insert(name) {
            return refuse("tools: Tool names must be unique.");
        }
        if tool.get("type").is_some_and(|kind| kind != "custom") {
            continue; // The provider defines it.
        }
        if !is_plain(name, 128) {
            return refuse(format!("tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"));
        }
        let schema = &tool["input_schema"];
        if schema.is_null() {
            return refuse(format!("tools.{at}.custom.input_schema: Field required"));
        }
        if schema["type"] != "object" {
            return refuse(format!("tools.{at}.custom.input_schema.type: Input should be 'object'"));
        }
        if let Some(key) = ["oneOf", "allOf", "anyOf"].iter().find(|key| schema.get(**key).is_some()) {
            return refuse(format!(
                "tools.{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level ({key})"
            ));
        }
    }
    let blocks = messages.iter().flat_map(|message| message["content"].as_array().into_iter().flatten());
    let mut kinds = blocks.map(|block| &block["type"]);
    if tools.is_empty() && kinds.any(|kind| kind == "tool_use" || kind == "tool_result") {
        return refuse("Requests which include `tool_use` or `tool_result` blocks must define tools");
    }
    Ok(())
}

fn choice(body: &Map<String, Value>) -> Checked {
    let Some(choice) = body.get("tool_choice") else { return Ok(()) };
    let tools = body.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let kind = choice["type"].as_str().unwrap_or_default();
    if !matches!(kind, "auto" | "any" | "tool" | "none") {
        return refuse(
            "tool_choice: Input tag found using 'type' does not match any of the expected tags: 'auto', 'any', 'tool', 'none'",
        );
    }
    if tools.is_empty() {
        return refuse("tool_choice: tool_choice may only be specified while providing tools");
    }
    if kind == "tool" && !tools.iter().any(|tool| tool["name"] == choice["name"]) {
        return refuse(format!("Tool '{}' not found in provided tools", choice["name"].as_str().unwrap_or_default()));
    }
    if thinks(body) && matches!(kind, "any" | "tool") {
        return refuse("Thinking may not be enabled when tool_choice forces tool use.");
    }
    Ok(())
}

fn thinking(body: &Map<String, Value>, messages: &[Value]) -> Checked {
    let Some(thinking) = body.get("thinking") else { return Ok(()) };
    let kind = kind(Some(thinking));
    if !matches!(kind, "enabled" | "disabled" | "adaptive") {
        return refuse(
            "thinking: Input tag found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'",
        );
    }
    if kind == "disabled" {
        return Ok(());
    }
    if body.get("temperature").is_some_and(|heat| heat.as_f64() != Some(1.0)) {
        return refuse("`temperature` may only be set to 1 when thinking is enabled.");
    }
    if body.contains_key("top_k") {
        return refuse("`top_k` must be unset when thinking is enabled.");
    }
    if kind == "adaptive" {
        return Ok(());
    }
    let Some(budget) = thinking["budget_tokens"].as_i64() else {
        return refuse("thinking.enabled.budget_tokens: Field required");
    };
    if budget < BUDGET_MIN {
        return refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024");
    }
    if body["max_tokens"].as_i64().is_some_and(|tokens| tokens <= budget) {
        return refuse("`max_tokens` must be greater than `thinking.budget_tokens`.");
    }
    leads(messages)
}

/// With a fixed budget, the tool loop that is still going on must begin with a thought.
fn leads(messages: &[Value]) -> Checked {
    let is_results = |message: &Value| {
        message["role"] == "user"
            && message["content"].as_array().is_some_and(|blocks| blocks.iter().any(|one| one["type"] == "tool_result"))
    };
    let person = |message: &&Value| {
        let message = *message;
        message["role"] == "user" && !is_results(message) && !texts(&message["content"]).is_empty()
    };
    let in_loop: Vec<&Value> = messages.iter().rev().take_while(|message| !person(message)).collect();
    let first = in_loop.iter().rev().enumerate().find(|(_, message)| message["role"] == "assistant");
    let Some((at, first)) = first else { return Ok(()) };
    let found = first["content"][0]["type"].as_str().unwrap_or("text");
    if matches!(found, "thinking" | "redacted_thinking") {
        return Ok(());
    }
    let at = messages.len() - in_loop.len() + at;
    refuse(format!(
        "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{found}`. When `thinking` \
         is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of \
         `tool_use` and `tool_result` blocks)."
    ))
}
