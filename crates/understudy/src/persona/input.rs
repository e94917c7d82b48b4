//! Input that a tool would accept, made from its schema.

use serde_json::{Map, Value, json};

/// How deep a schema is followed.
const DEPTH_MAX: usize = 6;
/// The most bytes of the person's words put into a field.
const WORDS_BYTES_MAX: usize = 120;

/// An object that fits `schema`, with the person's words where text is wanted.
pub(super) fn plausible(schema: &Value, words: &str) -> Value {
    match value("", schema, words, DEPTH_MAX) {
        Value::Object(object) => Value::Object(object),
        _ => json!({}),
    }
}

fn value(field: &str, schema: &Value, words: &str, depth: usize) -> Value {
    for given in ["const", "default"] {
        if let Some(value) = schema.get(given).filter(|value| !value.is_null()) {
            return value.clone();
        }
    }
    if let Some(first) = ["enum", "examples"].iter().find_map(|key| schema.get(*key)?.get(0)) {
        return first.clone();
    }
    if depth == 0 {
        return Value::Null;
    }
    if let Some(choice) = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(*key)?.get(0)) {
        return value(field, choice, words, depth - 1);
    }
    match kind(schema).as_str() {
        "string" => json!(string(field, schema, words)),
        "integer" => json!(schema.get("minimum").and_then(Value::as_i64).unwrap_or(1)),
        "number" => json!(schema.get("minimum").and_then(Value::as_f64).unwrap_or(1.0)),
        "boolean" => json!(true),
        "array" => {
            let one = schema.get("items").map(|items| value(field, items, words, depth - 1));
            json!(one.into_iter().collect::<Vec<_>>())
        }
        "null" => Value::Null,
        _ => object(schema, words, depth),
    }
}

/// Gemini writes types in capitals; some schemas name several.
fn kind(schema: &Value) -> String {
    let kind = schema.get("type");
    let first = kind.and_then(Value::as_array).and_then(|kinds| kinds.first());
    first.or(kind).and_then(Value::as_str).unwrap_or("object").to_lowercase()
}

fn string(field: &str, schema: &Value, words: &str) -> String {
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    match (format, field.to_lowercase().as_str()) {
        ("uri" | "url", _) | (_, "url" | "uri" | "link") => "https://example.com/".into(),
        ("date", _) => "2026-01-01".into(),
        ("date-time", _) => "2026-01-01T00:00:00Z".into(),
        (_, "path" | "file" | "filename" | "file_path") => "README.md".into(),
        _ if words.trim().is_empty() => "understudy".into(),
        _ => words[..words.floor_char_boundary(WORDS_BYTES_MAX)].trim().into(),
    }
}

/// What is required; if nothing is, nothing.
fn object(schema: &Value, words: &str, depth: usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let fields = required.map(|name| {
        let schema = schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&Value::Null);
        (name.to_string(), value(name, schema, words, depth - 1))
    });
    Value::Object(fields.collect::<Map<_, _>>())
}
