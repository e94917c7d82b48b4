//! How OpenAI says no, on both of its wires.

use serde_json::{Map, Value, json};

use super::{WireRefusal, is_plain};

/// The type and code of an error with this status.
pub(in crate::http) const fn kind(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        403 => ("invalid_request_error", Some("unsupported_country_region_territory")),
        404 => ("invalid_request_error", Some("model_not_found")),
        413 => ("invalid_request_error", Some("context_length_exceeded")),
        429 => ("requests", Some("rate_limit_exceeded")),
        503 | 529 => ("server_error", Some("server_is_overloaded")),
        500..=599 => ("server_error", None),
        _ => ("invalid_request_error", None),
    }
}

pub(in crate::http) fn body(refusal: &WireRefusal) -> Value {
    let (kind, code) = kind(refusal.status);
    json!({"error": {
        "message": refusal.message, "type": refusal.kind.unwrap_or(kind), "param": refusal.param,
        "code": refusal.code.or(code),
    }})
}

/// What it says when it has nothing special to say.
pub(in crate::http) const fn words(status: u16) -> &'static str {
    match status {
        401 => "Incorrect API key provided.",
        404 => "The model does not exist or you do not have access to it.",
        413 => "Your input exceeds the context window of this model. Please adjust your input and try again.",
        429 => "Rate limit reached. Please try again later.",
        503 | 529 => "Our servers are currently overloaded. Please try again later.",
        500..=599 => "The server had an error while processing your request. Sorry about that!",
        _ => "Invalid request.",
    }
}

pub(in crate::http) fn missing(param: &str) -> WireRefusal {
    let refusal = WireRefusal::new(400, format!("Missing required parameter: '{param}'."));
    refusal.about(param).coded("missing_required_parameter")
}

pub(super) fn invalid_type(param: &str, expected: &str, got: &Value) -> WireRefusal {
    let got = match got {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let refusal =
        WireRefusal::new(400, format!("Invalid type for '{param}': expected {expected}, but got {got} instead."));
    refusal.about(param).coded("invalid_type")
}

pub(super) fn invalid_value(param: &str, value: &str, supported: &[&str]) -> WireRefusal {
    let (last, others) = supported.split_last().unwrap_or((&"", &[]));
    let others: Vec<String> = others.iter().map(|one| format!("'{one}'")).collect();
    let and = if others.is_empty() { String::new() } else { format!("{}, and ", others.join(", ")) };
    let refusal = WireRefusal::new(400, format!("Invalid value: '{value}'. Supported values are: {and}'{last}'."));
    refusal.about(param).coded("invalid_value")
}

/// Parameters that models which reason refuse.
const SAMPLING: [&str; 2] = ["temperature", "top_p"];

/// Refuses parameters outside their range, and those that a model which reasons with this effort does not take.
pub(super) fn sampling(body: &Map<String, Value>, effort: Option<&str>) -> Result<(), WireRefusal> {
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
    let reasons = is_reasoning(model) && effort != Some("none");
    for name in SAMPLING.into_iter().chain(["stop"]).filter(|name| body.contains_key(*name)) {
        if reasons || (name == "stop" && is_reasoning(model)) {
            let words = format!("Unsupported parameter: '{name}' is not supported with this model.");
            return Err(WireRefusal::new(400, words).about(name).coded("unsupported_parameter"));
        }
    }
    for (name, highest) in [("temperature", 2.0), ("top_p", 1.0)] {
        if body.get(name).is_some_and(|value| !value.as_f64().is_some_and(|value| (0.0..=highest).contains(&value))) {
            let words = format!("Invalid '{name}': expected a decimal from 0 to {highest}.");
            return Err(WireRefusal::new(400, words).about(name).coded("decimal_above_max_value"));
        }
    }
    match body.get("stop").and_then(Value::as_array).map(Vec::len) {
        Some(len) if len > STOPS_MAX => Err(too_long("stop", STOPS_MAX, len)),
        _ => Ok(()),
    }
}

/// How many stop sequences there may be.
const STOPS_MAX: usize = 4;

fn is_reasoning(model: &str) -> bool {
    ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|begin| model.starts_with(begin)) && !model.contains("-chat")
}

pub(super) fn empty_array(param: &str) -> WireRefusal {
    let refusal = WireRefusal::new(
        400,
        format!(
            "Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead."
        ),
    );
    refusal.about(param).coded("empty_array")
}

pub(super) fn too_long(param: &str, max: usize, len: usize) -> WireRefusal {
    let refusal = WireRefusal::new(
        400,
        format!(
            "Invalid '{param}': string too long. Expected a string with maximum length {max}, but got a string with \
             length {len} instead."
        ),
    );
    refusal.about(param).coded("string_above_max_length")
}

/// Refuses unknown parameters.
pub(super) fn known(body: &serde_json::Map<String, Value>, known: &[&str]) -> super::Checked {
    match body.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(WireRefusal::new(400, format!("Unknown parameter: '{key}'."))
            .about(key.as_str())
            .coded("unknown_parameter")),
        None => Ok(()),
    }
}

/// The text at `place[key]`, which must be there.
pub(super) fn text<'a>(value: &'a Value, place: &str, key: &str) -> Result<&'a str, WireRefusal> {
    let param = format!("{place}.{key}");
    match value.get(key) {
        None | Some(Value::Null) => Err(missing(&param)),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(invalid_type(&param, "a string", other)),
    }
}

/// Refuses a tool's name that is not one.
pub(super) fn tool_name(name: &str, param: &str) -> super::Checked {
    if name.len() > 64 {
        return Err(too_long(param, 64, name.len()));
    }
    if !is_plain(name, 64) {
        let message = format!(
            "Invalid '{param}': string does not match pattern. Expected a string that matches the pattern \
             '^[a-zA-Z0-9_-]+$'."
        );
        return Err(WireRefusal::new(400, message).about(param).coded("invalid_value"));
    }
    Ok(())
}

/// Refuses parameters of a function that are no schema of an object.
pub(super) fn schema(schema: Option<&Value>, name: &str, param: &str) -> super::Checked {
    let kind = match schema {
        None | Some(Value::Null) => return Ok(()),
        Some(schema) => schema["type"].as_str().unwrap_or("None"),
    };
    if kind == "object" {
        return Ok(());
    }
    let message = format!(
        "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
    );
    Err(WireRefusal::new(400, message).about(param).coded("invalid_function_parameters"))
}
