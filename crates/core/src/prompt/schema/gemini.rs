//! The part of JSON Schema that Gemini knows.
//!
//! Its schemas are those of OpenAPI 3.0 and it refuses keywords it has not heard of, references, and anything beside a
//! choice. What it cannot say is left out or said more loosely, never more strictly: a call it makes by the loose
//! schema is still checked against the true one.

use serde_json::{Map, Value, json};

use super::{normal_schema, resolve};

/// How many schemas one schema may unfold into. References let a small one describe a tree without end.
const SCHEMAS_MAX: usize = 2_000;

const PLAIN: [&str; 9] = [
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minProperties",
    "maxProperties",
    "pattern",
];
const FORMATS: [&str; 6] = ["date-time", "enum", "float", "double", "int32", "int64"];

/// A tool's input schema for Gemini; none for a tool without input, which must not have one there.
#[must_use]
pub fn gemini_schema(schema: &Value) -> Option<Value> {
    let root = normal_schema(schema);
    let mut unfolding = Unfolding { root: &root, within: Vec::new(), left: SCHEMAS_MAX };
    let converted = unfolding.convert(&root);
    converted.contains_key("properties").then_some(Value::Object(converted))
}

struct Unfolding<'a> {
    root: &'a Value,
    /// The references being followed, outermost first.
    within: Vec<String>,
    /// How many schemas may still be made.
    left: usize,
}

impl Unfolding<'_> {
    fn convert(&mut self, schema: &Value) -> Map<String, Value> {
        let Value::Object(map) = schema else { return typed("string") };
        let Some(left) = self.left.checked_sub(1) else { return typed("object") };
        self.left = left;
        if let Some(name) = map.get("$ref") {
            let mut found = self.follow(name, typed("object"), Self::convert);
            describe(&mut found, map);
            return found;
        }
        let map = &self.joined(map);
        if let Some(branches) = map.get("anyOf").or_else(|| map.get("oneOf")).and_then(Value::as_array) {
            return self.choice(branches, map);
        }
        let mut out = plain(map);
        match type_of(map) {
            "null" => out.extend([("type".into(), json!("string")), ("nullable".into(), json!(true))]),
            "string" => out.extend(words_of(map).map(|words| ("enum".into(), words))),
            "array" => {
                let items = map.get("prefixItems").or_else(|| map.get("items")).unwrap_or(&Value::Null);
                let items = items.as_array().and_then(|items| items.first()).unwrap_or(items);
                out.insert("items".into(), Value::Object(self.convert(items)));
            }
            "object" => self.members(map, &mut out),
            _ => {}
        }
        out
    }

    /// What `then` makes of the schema that `name` refers to; `otherwise` if there is none, or we came from there.
    fn follow<T>(&mut self, name: &Value, otherwise: T, then: impl FnOnce(&mut Self, &Value) -> T) -> T {
        let Some(path) = name.as_str().filter(|path| !self.within.iter().any(|open| open == path)) else {
            return otherwise;
        };
        let Some(found) = resolve(self.root, name) else { return otherwise };
        self.within.push(path.into());
        let made = then(self, &found);
        self.within.pop();
        made
    }

    fn members(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>) {
        let Some(properties) = map.get("properties").and_then(Value::as_object).filter(|map| !map.is_empty()) else {
            return;
        };
        let converted = properties.iter().map(|(name, schema)| (name.clone(), Value::Object(self.convert(schema))));
        out.insert("properties".into(), converted.collect());
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        let known = required.filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name)));
        let known: Vec<Value> = known.cloned().collect();
        if !known.is_empty() {
            out.insert("required".into(), known.into());
        }
    }

    /// A schema together with everything it says it must also be.
    fn joined(&mut self, map: &Map<String, Value>) -> Map<String, Value> {
        let mut all = map.clone();
        let Some(Value::Array(branches)) = all.remove("allOf") else { return all };
        for branch in branches {
            let Some(left) = self.left.checked_sub(1) else { break };
            self.left = left;
            let more = match (branch.get("$ref"), &branch) {
                (Some(name), _) => self.follow(name, Map::new(), |this, found| match found {
                    Value::Object(found) => this.joined(found),
                    _ => Map::new(),
                }),
                (None, Value::Object(branch)) => self.joined(branch),
                (None, _) => Map::new(),
            };
            add(&mut all, more);
        }
        all
    }

    /// A choice stands alone in Gemini: what else was said moves into each branch.
    fn choice(&mut self, branches: &[Value], map: &Map<String, Value>) -> Map<String, Value> {
        let is_null = |branch: &&Value| branch.get("type").is_some_and(|name| name == "null");
        let nullable = branches.iter().any(|branch| is_null(&branch));
        let others = branches.iter().filter(|branch| !is_null(branch));
        let mut converted: Vec<Map<String, Value>> = others.map(|branch| self.convert(branch)).collect();
        for branch in converted.iter_mut().filter(|branch| !branch.contains_key("anyOf")) {
            if !branch.contains_key("description") {
                describe(branch, map);
            }
            if nullable {
                branch.insert("nullable".into(), true.into());
            }
        }
        match converted.len() {
            0 => typed("string"),
            1 => converted.remove(0),
            _ => Map::from_iter([("anyOf".to_string(), converted.into_iter().map(Value::Object).collect())]),
        }
    }
}

fn typed(name: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_string(), name.into())])
}

fn describe(out: &mut Map<String, Value>, map: &Map<String, Value>) {
    if let Some(text @ Value::String(_)) = map.get("description") {
        out.insert("description".into(), text.clone());
    }
}

/// Type, description and the limits that mean the same everywhere.
fn plain(map: &Map<String, Value>) -> Map<String, Value> {
    let mut out = typed(type_of(map));
    describe(&mut out, map);
    for key in PLAIN {
        if let Some(value @ (Value::Number(_) | Value::String(_))) = map.get(key) {
            out.insert(key.into(), value.clone());
        }
    }
    if let Some(Value::String(format)) = map.get("format")
        && FORMATS.contains(&format.as_str())
    {
        out.insert("format".into(), format.as_str().into());
    }
    out
}

fn type_of(map: &Map<String, Value>) -> &str {
    const KNOWN: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
    match map.get("type").and_then(Value::as_str) {
        Some(name) if KNOWN.contains(&name) => name,
        _ if map.contains_key("properties") => "object",
        _ if map.contains_key("items") || map.contains_key("prefixItems") => "array",
        _ => match map.get("enum").and_then(|values| values.get(0)).or_else(|| map.get("const")) {
            Some(Value::Bool(_)) => "boolean",
            Some(Value::Number(_)) => "number",
            _ => "string",
        },
    }
}

/// The words a string may be; other types cannot be restricted this way.
fn words_of(map: &Map<String, Value>) -> Option<Value> {
    let one = map.get("const").map(|word| vec![word.clone()]);
    let words = one.or_else(|| map.get("enum")?.as_array().cloned())?;
    let usable = !words.is_empty() && words.iter().all(|word| word.as_str().is_some_and(|word| !word.is_empty()));
    usable.then_some(Value::Array(words))
}

/// Adds what `more` says to what `all` says; where both speak of the same thing, the first is heard.
fn add(all: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        match (all.get_mut(&key), value) {
            (Some(Value::Object(mine)), Value::Object(more)) => {
                for (name, schema) in more {
                    mine.entry(name).or_insert(schema);
                }
            }
            (Some(Value::Array(mine)), Value::Array(more)) if key == "required" => mine.extend(more),
            (Some(_), _) => {}
            (None, value) => drop(all.insert(key, value)),
        }
    }
}
