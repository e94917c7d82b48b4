//! The form an answer must have.

use serde_json::Value;

/// The form an answer must have.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum OutputFormat {
    /// Any text.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that fits a schema.
    Schema(AnswerSchema),
}

/// The JSON schema of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerSchema {
    /// What it is called. Some wires demand a name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The schema.
    pub schema: Value,
    /// Whether the answer must fit to the letter, where the provider tells the two apart.
    pub strict: Option<bool>,
}

impl OutputFormat {
    /// Bytes it adds to a request, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text | Self::JsonObject => 0,
            Self::Schema(AnswerSchema { name, description, schema, .. }) => {
                name.len() + description.as_ref().map_or(0, String::len) + schema.to_string().len()
            }
        }
    }
}
