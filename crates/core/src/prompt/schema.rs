//! Tools, as they are described to a model.
//!
//! Schemas come from Rust types, from MCP servers and from clients, and each source has its habits: null properties,
//! lists of types, a choice at the top. Providers refuse such a schema, and with it the whole request. So a schema is
//! brought into one form when a tool is made, and that form is what all wires understand; Gemini, which knows only a
//! part of JSON Schema, gets [`gemini_schema`].

mod gemini;
#[cfg(test)]
mod tests;

pub use gemini::gemini_schema;

use serde_json::{Map, Value, json};

use super::entry::json_bytes;

/// A tool a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What its input looks like, in normal form.
    pub input_schema: Value,
    /// The provider's own definition, for a tool the provider defines; sent in place of the rest.
    pub provider_defined: Option<Value>,
}

impl ToolSpec {
    /// A tool of ours.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        let input_schema = normal_schema(&input_schema);
        Self { name: name.into(), description: description.into(), input_schema, provider_defined: None }
    }

    /// A tool the provider defines, and perhaps runs.
    pub fn provider_defined(name: impl Into<String>, definition: Value) -> Self {
        Self { provider_defined: Some(definition), ..Self::new(name, "", Value::Null) }
    }

    /// Size of the description in a request, about.
    pub(super) fn bytes(&self) -> usize {
        let own = self.provider_defined.as_ref().map_or(0, json_bytes);
        self.name.len() + self.description.len() + json_bytes(&self.input_schema) + own
    }
}

/// How many schemas at most are looked at to make one of a choice. References let a small one go round in circles.
const SCHEMAS_MAX: usize = 256;

/// Keywords that hold a map of schemas, a list of schemas, a schema.
const MAPS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const SINGLES: [&str; 8] = ["items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"];

/// A tool's input schema in the form all wires take: an object at the top without a choice beside it, properties never
/// null, `required` only where something is, one type a schema, and arrays that say what is in them. Doing it twice
/// changes nothing.
#[must_use]
pub fn normal_schema(schema: &Value) -> Value {
    let mut top = match normal(schema) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let root = Value::Object(top.clone());
    let mut left = SCHEMAS_MAX;
    lift(&mut top, &root, &mut left);
    top.insert("type".into(), "object".into());
    if !top.get("properties").is_some_and(Value::is_object) {
        top.insert("properties".into(), json!({}));
    }
    Value::Object(top)
}

/// The schema that a reference such as `#/$defs/Place` names.
fn resolve(root: &Value, name: &Value) -> Option<Value> {
    root.pointer(name.as_str()?.strip_prefix('#')?).cloned()
}

fn normal(schema: &Value) -> Value {
    let mut map = match schema {
        Value::Object(map) => map.clone(),
        Value::Bool(_) => return schema.clone(),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => return json!({}),
    };
    for key in MAPS {
        match map.get_mut(key) {
            Some(Value::Object(schemas)) => schemas.values_mut().for_each(|schema| *schema = normal(schema)),
            Some(other) => *other = json!({}),
            None => {}
        }
    }
    for key in LISTS {
        match map.get_mut(key) {
            Some(Value::Array(schemas)) if !schemas.is_empty() => {
                schemas.iter_mut().for_each(|schema| *schema = normal(schema));
            }
            Some(_) => drop(map.remove(key)),
            None => {}
        }
    }
    for key in SINGLES {
        match map.get_mut(key) {
            Some(Value::Array(schemas)) if key == "items" && !schemas.is_empty() => {
                let one_of_them = json!({ "anyOf": schemas });
                map.insert(key.into(), normal(&one_of_them));
            }
            Some(Value::Null) => drop(map.remove(key)),
            Some(schema) => *schema = normal(schema),
            None => {}
        }
    }
    normal_required(&mut map);
    split_types(&mut map);
    if map.get("type").is_some_and(|name| name == "array") && !map.contains_key("prefixItems") {
        map.entry("items").or_insert_with(|| json!({}));
    }
    Value::Object(map)
}

fn normal_required(map: &mut Map<String, Value>) {
    let Some(required) = map.remove("required") else { return };
    let mut names: Vec<Value> = Vec::new();
    for name in required.as_array().into_iter().flatten().filter(|name| name.is_string()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if !names.is_empty() {
        map.insert("required".into(), Value::Array(names));
    }
}

/// Turns a list of types into a choice of schemas with one type each.
fn split_types(map: &mut Map<String, Value>) {
    const OF_ARRAYS: [&str; 2] = ["items", "prefixItems"];
    const OF_OBJECTS: [&str; 3] = ["properties", "required", "additionalProperties"];
    let names: Vec<Value> = match map.get("type") {
        Some(Value::Array(names)) => names.iter().filter(|name| name.is_string()).cloned().collect(),
        Some(Value::String(_)) | None => return,
        Some(_) => Vec::new(),
    };
    map.remove("type");
    if let [name] = names.as_slice() {
        map.insert("type".into(), name.clone());
        return;
    }
    let mut branches: Vec<Value> = Vec::new();
    for name in names {
        let mut branch = Map::from_iter([("type".to_string(), name.clone())]);
        let own: &[&str] = match name.as_str() {
            Some("array") => &OF_ARRAYS,
            Some("object") => &OF_OBJECTS,
            _ => &[],
        };
        own.iter().for_each(|key| branch.extend(map.remove(*key).map(|value| ((*key).to_string(), value))));
        branches.push(normal(&Value::Object(branch)));
    }
    match (branches.is_empty(), map.contains_key("anyOf")) {
        (true, _) => {}
        (false, false) => drop(map.insert("anyOf".into(), Value::Array(branches))),
        (false, true) => {
            if let Value::Array(all) = map.entry("allOf").or_insert_with(|| json!([])) {
                all.push(json!({ "anyOf": branches }));
            }
        }
    }
}

/// Takes references and choices at the top apart: every property any branch knows is allowed, and only what all demand
/// is required. The tool checks its input against its own schema anyway; the model merely sees a looser one.
fn lift(top: &mut Map<String, Value>, root: &Value, left: &mut usize) {
    if let Some(name) = top.remove("$ref") {
        add_branch(top, resolve(root, &name), Demands::Kept, root, left);
    }
    for (key, demands) in [("allOf", Demands::Kept), ("anyOf", Demands::Dropped), ("oneOf", Demands::Dropped)] {
        if let Some(Value::Array(branches)) = top.remove(key) {
            branches.into_iter().for_each(|branch| add_branch(top, Some(branch), demands, root, left));
        }
    }
    ["not", "enum", "const", "if", "then", "else"].iter().for_each(|key| drop(top.remove(*key)));
    normal_required(top);
}

/// Whether what a branch requires is required of all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demands {
    Kept,
    Dropped,
}

fn add_branch(top: &mut Map<String, Value>, branch: Option<Value>, demands: Demands, root: &Value, left: &mut usize) {
    let (Some(Value::Object(mut branch)), Some(fewer)) = (branch, left.checked_sub(1)) else { return };
    *left = fewer;
    lift(&mut branch, root, left);
    if let Some(Value::Object(more)) = branch.remove("properties")
        && let Value::Object(mine) = top.entry("properties").or_insert_with(|| json!({}))
    {
        for (name, schema) in more {
            mine.entry(name).or_insert(schema);
        }
    }
    if demands == Demands::Kept
        && let Some(Value::Array(more)) = branch.remove("required")
        && let Value::Array(mine) = top.entry("required").or_insert_with(|| json!([]))
    {
        mine.extend(more);
    }
    if let Some(text @ Value::String(_)) = branch.remove("description") {
        top.entry("description").or_insert(text);
    }
}
