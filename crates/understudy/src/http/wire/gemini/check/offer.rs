//! Tools and options.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::super::{Checked, refuse};
use super::super::field;
use super::unknown;

/// What of JSON Schema a declaration may say.
const KEYWORDS: [&str; 24] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
    "property_ordering",
    "any_of",
];
/// How many stop sequences there may be.
const STOPS_MAX: usize = 5;
/// The longest name of a function.
const NAME_MAX: usize = 64;

pub(super) fn check(body: &Map<String, Value>) -> Checked {
    let mut names = BTreeSet::new();
    for (at, tool) in body.get("tools").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let declared = field(tool, "functionDeclarations", "function_declarations").and_then(Value::as_array);
        for (number, function) in declared.into_iter().flatten().enumerate() {
            let place = format!("tools[{at}].function_declarations[{number}]");
            let name = function["name"].as_str().unwrap_or_default();
            if !is_name(name) {
                return refuse(format!(
                    "* GenerateContentRequest.{place}.name: Invalid function name. Must start with a letter or an \
                     underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes \
                     (-), with a maximum length of {NAME_MAX}.\n"
                ));
            }
            if !names.insert(name) {
                return refuse(format!("Duplicate function declaration found: {name}"));
            }
            if let Some(parameters) = function.get("parameters") {
                schema(parameters, &format!("{place}.parameters"))?;
            }
        }
    }
    config(body, &names)
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_MAX
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c))
}

fn schema(schema: &Value, place: &str) -> Checked {
    let Some(fields) = schema.as_object() else {
        return refuse(format!(
            "Invalid value at '{place}' (type.googleapis.com/google.ai.generativelanguage.v1beta.Schema)"
        ));
    };
    if let Some(name) = fields.keys().find(|key| !KEYWORDS.contains(&key.as_str())) {
        return unknown(name, place);
    }
    if fields.get("type").is_some_and(|kind| !kind.is_string()) {
        return refuse(format!("Proto field is not repeating, cannot start list at '{place}.type'"));
    }
    let kind = schema["type"].as_str().unwrap_or_default().to_lowercase();
    if kind == "array" && !fields.contains_key("items") {
        return refuse(format!("* GenerateContentRequest.{place}.items: missing field.\n"));
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    for required in fields.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !properties.is_some_and(|all| required.as_str().is_some_and(|name| all.contains_key(name))) {
            return refuse(format!("* GenerateContentRequest.{place}.required[0]: property is not defined\n"));
        }
    }
    for (name, inner) in properties.into_iter().flatten() {
        self::schema(inner, &format!("{place}.properties[{name}]"))?;
    }
    if let Some(items) = fields.get("items") {
        self::schema(items, &format!("{place}.items"))?;
    }
    let choices = field(schema, "anyOf", "any_of").and_then(Value::as_array);
    choices.into_iter().flatten().try_for_each(|inner| self::schema(inner, &format!("{place}.any_of")))
}

fn config(body: &Map<String, Value>, names: &BTreeSet<&str>) -> Checked {
    let body = Value::Object(body.clone());
    if let Some(config) = field(&body, "generationConfig", "generation_config") {
        if let Some(tokens) = field(config, "maxOutputTokens", "max_output_tokens").and_then(Value::as_i64)
            && tokens < 1
        {
            return refuse(format!(
                "Unable to submit request because it has a maxOutputTokens value of {tokens} but the supported range is from 1 (inclusive)."
            ));
        }
        let stops = field(config, "stopSequences", "stop_sequences").and_then(Value::as_array);
        if stops.is_some_and(|stops| stops.len() > STOPS_MAX) {
            return refuse(format!("* GenerateContentRequest.generation_config.stop_sequences: at most {STOPS_MAX}\n"));
        }
        if config["temperature"].as_f64().is_some_and(|heat| !(0.0..=2.0).contains(&heat)) {
            return refuse(
                "* GenerateContentRequest.generation_config.temperature: must be in the range [0.0, 2.0].\n",
            );
        }
        let thinking = field(config, "thinkingConfig", "thinking_config").unwrap_or(&Value::Null);
        let budget = field(thinking, "thinkingBudget", "thinking_budget");
        if budget.is_some() && field(thinking, "thinkingLevel", "thinking_level").is_some() {
            return refuse("You can only set only one of thinking budget and thinking level.");
        }
    }
    let config = field(&body, "toolConfig", "tool_config").unwrap_or(&Value::Null);
    let calling = field(config, "functionCallingConfig", "function_calling_config").unwrap_or(&Value::Null);
    let allowed = field(calling, "allowedFunctionNames", "allowed_function_names").and_then(Value::as_array);
    if allowed.is_some() && calling["mode"] != "ANY" && calling["mode"] != "VALIDATED" {
        return refuse("Function calling config: allowed_function_names should only be set when the mode is ANY.");
    }
    match allowed.into_iter().flatten().find(|name| !name.as_str().is_some_and(|name| names.contains(name))) {
        Some(name) => refuse(format!("Function calling config: allowed function {name} is not declared.")),
        None => Ok(()),
    }
}
