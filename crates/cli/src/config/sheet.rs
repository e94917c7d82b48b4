//! The effective configuration as entries, printed in the format of the file or as JSON.
//!
//! Both forms are made from the same entries, so that what scripts read is what people see.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Origin;

/// Entries in the order in which they are printed.
#[derive(Default)]
pub struct ConfigSheet {
    entries: Vec<Entry>,
}

enum Entry {
    /// The head of a table: its path, and where it comes from.
    Table(Vec<String>, String),
    /// A value, in the format of the file, with its origin. In a table that is the table's.
    Value {
        name: String,
        toml: String,
        origin: Option<String>,
    },
    /// A value that the file does not hold in this form: the text for people, and the value.
    Derived {
        text: String,
        name: String,
        value: Value,
    },
    /// An environment variable, and what is said of it.
    Variable(String, String),
    Warning(String),
}

impl ConfigSheet {
    /// A value with its origin.
    pub fn line(&mut self, name: &str, value: impl Serialize, origin: &Origin) {
        self.toml(name, toml(&json!(value)), origin);
    }

    /// A value that is in the format of the file already.
    pub fn toml(&mut self, name: &str, toml: String, origin: &Origin) {
        self.entries.push(Entry::Value { name: name.into(), toml, origin: Some(origin.to_string()) });
    }

    /// A value whose origin is a remark.
    pub fn remarked(&mut self, name: &str, value: impl Serialize, remark: String) {
        self.entries.push(Entry::Value { name: name.into(), toml: toml(&json!(value)), origin: Some(remark) });
    }

    /// The head of a table.
    pub fn table(&mut self, path: &[&str], origin: &Origin) {
        let path = path.iter().map(|name| (*name).to_owned()).collect();
        self.entries.push(Entry::Table(path, origin.to_string()));
    }

    /// A value of the table before it.
    pub fn field(&mut self, name: &str, value: impl Serialize) {
        self.entries.push(Entry::Value { name: name.into(), toml: toml(&json!(value)), origin: None });
    }

    /// A number of the table before it, as it is printed.
    pub fn number(&mut self, name: &str, value: impl ToString) {
        self.entries.push(Entry::Value { name: name.into(), toml: value.to_string(), origin: None });
    }

    /// A value that people are shown as a remark.
    pub fn derived(&mut self, name: &str, text: &str, value: Value) {
        self.entries.push(Entry::Derived { text: text.into(), name: name.into(), value });
    }

    /// What is said of an environment variable.
    pub fn variable(&mut self, name: &str, said: impl Into<String>) {
        self.entries.push(Entry::Variable(name.into(), said.into()));
    }

    /// A warning.
    pub fn warning(&mut self, text: impl Into<String>) {
        self.entries.push(Entry::Warning(text.into()));
    }

    /// The entries in the format of the configuration file, each with the origin of its value.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let line = match entry {
                Entry::Table(path, origin) => {
                    let path: Vec<String> = path.iter().map(|name| key(name)).collect();
                    format!("\n[{}]  # {origin}", path.join("."))
                }
                Entry::Value { name, toml, origin: Some(origin) } => format!("{name} = {toml}  # {origin}"),
                Entry::Value { name, toml, origin: None } => format!("{name} = {toml}"),
                Entry::Derived { text, name, .. } => format!("# {name}: {text}"),
                Entry::Variable(name, said) => format!("# {name}: {said}"),
                Entry::Warning(warning) => format!("# warning: {warning}"),
            };
            let _ = writeln!(text, "{line}"); // Writing to a string cannot fail.
        }
        text
    }

    /// The entries as JSON: tables are objects, a value is `{"value": …, "origin": …}`.
    pub fn json(&self) -> Value {
        let mut all = Map::new();
        let mut environment = Map::new();
        let mut warnings = Vec::new();
        let mut table: (&[String], &str) = (&[], "default");
        for entry in &self.entries {
            match entry {
                Entry::Table(path, origin) => {
                    table = (path, origin);
                    within(&mut all, path);
                }
                Entry::Value { name, toml, origin } => {
                    let origin = origin.as_deref().unwrap_or(table.1);
                    let value = json!({"value": parsed(toml), "origin": origin});
                    within(&mut all, table.0).insert(name.clone(), value);
                }
                Entry::Derived { name, value, .. } => {
                    let value = json!({"value": value, "origin": table.1});
                    within(&mut all, table.0).insert(name.clone(), value);
                }
                Entry::Variable(name, said) => drop(environment.insert(name.clone(), json!(said))),
                Entry::Warning(warning) => warnings.push(warning),
            }
        }
        all.insert("warnings".into(), json!(warnings));
        all.insert("environment".into(), Value::Object(environment));
        Value::Object(all)
    }
}

/// The object of a table, made if there is none yet.
fn within<'a>(all: &'a mut Map<String, Value>, path: &[String]) -> &'a mut Map<String, Value> {
    path.iter().fold(all, |object, name| {
        let below = object.entry(name.clone()).or_insert_with(|| json!({}));
        if !below.is_object() {
            *below = json!({});
        }
        below.as_object_mut().expect("it was just made an object")
    })
}

/// A value as the file would hold it. What JSON writes for texts and numbers is TOML too.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(values) => format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", ")),
        value => value.to_string(),
    }
}

/// A value of the file as JSON.
fn parsed(toml: &str) -> Value {
    let table: Result<Map<String, Value>, _> = toml::from_str(&format!("value = {toml}"));
    table.ok().and_then(|mut table| table.remove("value")).unwrap_or_else(|| json!(toml))
}

/// A TOML key, quoted if needed.
fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if is_bare { name.into() } else { json!(name).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Odd texts come through both forms as they are.
    #[test]
    fn both_forms_hold_the_same_values() {
        let mut sheet = ConfigSheet::default();
        sheet.line("data", "/a \"b\"\u{1b}\n", &Origin::Flag("--data"));
        sheet.line("hosts", ["x", "y"], &Origin::Default);
        sheet.toml("cost", "2.5".into(), &Origin::Variable("COST"));
        sheet.table(&["owners", "alice smith"], &Origin::Flag("file"));
        sheet.field("model", "a/b");
        sheet.warning("careful");
        sheet.variable("KEY", "set");
        let text = "data = \"/a \\\"b\\\"\\u001b\\n\"  # --data\nhosts = [\"x\", \"y\"]  # default\n\
                    cost = 2.5  # COST\n\n[owners.\"alice smith\"]  # file\nmodel = \"a/b\"\n\
                    # warning: careful\n# KEY: set\n";
        assert_eq!(sheet.text(), text);
        let expected = json!({
            "data": {"value": "/a \"b\"\u{1b}\n", "origin": "--data"},
            "hosts": {"value": ["x", "y"], "origin": "default"},
            "cost": {"value": 2.5, "origin": "COST"},
            "owners": {"alice smith": {"model": {"value": "a/b", "origin": "file"}}},
            "warnings": ["careful"],
            "environment": {"KEY": "set"},
        });
        assert_eq!(sheet.json(), expected);
    }
}
