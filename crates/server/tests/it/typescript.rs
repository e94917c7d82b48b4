//! The files that the TypeScript client takes from the server: the types of the wire, and what a fold must give.
//!
//! Both are written by `UPDATE_EXPECT=1 cargo nextest run -p everturn-server -E 'test(typescript)'`. A file that is not what
//! the server says fails here, so that the client cannot go on with old shapes.

use std::fmt::Write as _;

use everturn_server::openapi;
use expect_test::expect_file;
use serde_json::{Map, Value};

/// The shapes of the OpenAPI document, as TypeScript.
#[test]
fn types_of_the_wire_are_those_of_the_document() {
    let document = serde_json::to_value(openapi()).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut types = String::from(
        "// The shapes of the HTTP API. Written by the test `typescript` of crates/server from the OpenAPI document: do not edit.\n",
    );
    // An event of many chats is one of a single chat with two more fields; the client has them apart.
    for (name, schema) in schemas.iter().filter(|(name, _)| !name.ends_with("Told")) {
        let text = schema["description"].as_str().unwrap_or_default();
        write!(types, "\n/** {} */\nexport type {name} = {};\n", comment(text), type_of(schema)).unwrap();
    }
    expect_file!["../../../../web/client/src/wire.ts"].assert_eq(&types);
}

fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap().to_owned();
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    if let Some(choices) = schema["oneOf"].as_array().or_else(|| schema["allOf"].as_array()) {
        let with = if schema["oneOf"].is_array() { " | " } else { " & " };
        return choices.iter().map(type_of).collect::<Vec<_>>().join(with);
    }
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(|kind| of_kind(kind, schema)).collect::<Vec<_>>().join(" | "),
        kind => of_kind(kind, schema),
    }
}

fn of_kind(kind: &Value, schema: &Value) -> String {
    match kind.as_str() {
        Some("integer" | "number") => "number".into(),
        Some("string") => "string".into(),
        Some("boolean") => "boolean".into(),
        Some("null") => "null".into(),
        Some("array") => format!("Array<{}>", type_of(&schema["items"])),
        Some("object") => object(schema),
        _ => "unknown".into(),
    }
}

fn object(schema: &Value) -> String {
    let none = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&none);
    match &schema["additionalProperties"] {
        Value::Object(_) => return format!("Record<string, {}>", type_of(&schema["additionalProperties"])),
        // A schema without fields that refuses nothing is any JSON value.
        Value::Null if fields.is_empty() => return "unknown".into(),
        _ if fields.is_empty() => return "Record<string, never>".into(),
        _ => {}
    }
    let needed: Vec<&Value> = schema["required"].as_array().map(|names| names.iter().collect()).unwrap_or_default();
    let mut text = String::from("{\n");
    for (name, field) in fields {
        let is_needed = needed.iter().any(|each| *each == name);
        let described = field["description"].as_str().or_else(|| field["oneOf"][0]["description"].as_str());
        if let Some(described) = described {
            writeln!(text, "  /** {} */", comment(described)).unwrap();
        }
        writeln!(text, "  {name}{}: {};", if is_needed { "" } else { "?" }, type_of(field)).unwrap();
    }
    text + "}"
}

/// A description as the inside of a comment: on one line, and without its end.
fn comment(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("*/", "* /")
}
