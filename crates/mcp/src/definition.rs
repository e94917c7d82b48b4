//! A tool as its server describes it, and how its calls are treated.

use std::time::Duration;

use everturn::core::chat::Effect;
use everturn::core::prompt::ToolSpec;
use everturn::{Approval, Beside, Policy};
use rmcp::model;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::config::{Permission, ServerConfig, Side, Trust};
use crate::names::{hex, offered_name};

/// Longest description that is shown to a model.
const DESCRIPTION_BYTES_MAX: usize = 4 * 1024;
/// Largest schema of an input.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// The server's own name for it.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does, for the model.
    pub description: String,
    /// JSON schema of its input.
    pub input: Value,
    /// JSON schema of its structured output.
    pub output: Option<Value>,
    /// What the server says about it.
    pub hints: Hints,
}

/// What a server says about a tool. Believed only if the operator trusts the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy something.
    pub destructive: Option<bool>,
    /// Running it twice has the effect of running it once.
    pub idempotent: Option<bool>,
    /// It reaches things outside, such as the web.
    pub open_world: Option<bool>,
}

impl ToolDefinition {
    /// The definition in a server's list, or why it cannot be used.
    pub(crate) fn of(tool: model::Tool) -> Result<Self, String> {
        let input = Value::Object(tool.input_schema.as_ref().clone());
        let bytes = input.to_string().len();
        if bytes > SCHEMA_BYTES_MAX {
            return Err(format!("its input schema has {bytes} bytes; at most {SCHEMA_BYTES_MAX} are taken"));
        }
        let annotations = tool.annotations.unwrap_or_default();
        Ok(Self {
            name: tool.name.into_owned(),
            title: tool.title.or(annotations.title),
            description: tool.description.map(std::borrow::Cow::into_owned).unwrap_or_default(),
            input,
            output: tool.output_schema.map(|schema| Value::Object(schema.as_ref().clone())),
            hints: Hints {
                read_only: annotations.read_only_hint,
                destructive: annotations.destructive_hint,
                idempotent: annotations.idempotent_hint,
                open_world: annotations.open_world_hint,
            },
        })
    }

    /// SHA-256 of everything a person relies on when allowing the tool: name, description, schemas and hints.
    #[must_use]
    pub fn hash(&self) -> String {
        let Hints { read_only, destructive, idempotent, open_world } = self.hints;
        let hints = serde_json::json!([read_only, destructive, idempotent, open_world]);
        let all = serde_json::json!([self.name, self.title, self.description, self.input, self.output, hints]);
        hex(&Sha256::digest(all.to_string()))
    }

    /// The tool as a model is told of it.
    pub(crate) fn spec(&self, server: &str) -> ToolSpec {
        let description = match (self.description.trim(), &self.title) {
            ("", Some(title)) => title.clone(),
            ("", None) => format!("The tool {} of the server {server}.", self.name),
            (described, _) => cut(described, DESCRIPTION_BYTES_MAX),
        };
        ToolSpec::new(offered_name(server, &self.name), description, self.input.clone())
    }

    /// How calls are treated: as the operator says, else as hints of a trusted server say, else with the most care.
    pub(crate) fn policy(&self, config: &ServerConfig) -> Policy {
        let Hints { read_only, destructive, idempotent, open_world } = self.hints;
        let is_trusted = config.trust == Trust::Trusted;
        let reads = is_trusted && read_only == Some(true) && destructive != Some(true);
        let contradicts = read_only == Some(true) && destructive == Some(true);
        let repeats = is_trusted && idempotent == Some(true) && !contradicts;
        let is_harmless = destructive == Some(false) && open_world == Some(false);
        let asks = if destructive == Some(true) { Approval::EachTime } else { Approval::Needed };
        let hinted = match (reads, repeats) {
            (true, _) => (Effect::Read, Approval::NotNeeded),
            (false, true) if is_harmless => (Effect::Idempotent, Approval::NotNeeded),
            (false, true) => (Effect::Idempotent, asks),
            (false, false) => (Effect::Once, asks),
        };
        let told = config.tools.get(&self.name);
        let effect = told.and_then(|told| told.effect).map_or(hinted.0, Effect::from);
        let approval = match told.and_then(|told| told.permission) {
            Some(Permission::Allow) => Approval::NotNeeded,
            Some(Permission::Ask) => Approval::Needed,
            None => hinted.1,
        };
        let beside = match (config.side, effect) {
            (Side::Parallel, _) | (Side::Serial, Effect::Read) => Beside::Any,
            (Side::Serial, Effect::Idempotent | Effect::Once) => Beside::Serial,
        };
        let time_max: Option<Duration> = config.call_max;
        Policy { effect, beside, approval, time_max, ..Policy::default() }
    }
}

/// As much of a text as fits, with a mark where it was cut.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.into();
    }
    let end = (0..=bytes_max - '…'.len_utf8()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}
