//! The setup of a chat: instructions, client tools and metadata, given at creation.
//!
//! An agent is the operator's, and one agent serves many chats. What differs from chat to chat, such as the
//! user's name or the tools of their client, belongs to the chat: it is stored with it, bounded, and never
//! changes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::prompt::ToolSpec;

/// The longest instructions, in bytes.
pub const INSTRUCTIONS_BYTES_MAX: usize = 16 * 1024;
/// How many tools a chat may bring.
pub const TOOLS_LEN_MAX: usize = 32;
/// How many bytes they may have together: names, descriptions and schemas. They are stored with every commit.
pub const TOOLS_BYTES_MAX: usize = 32 * 1024;
/// How many pairs of metadata a chat may have.
pub const METADATA_LEN_MAX: usize = 16;
/// The longest key of metadata, in bytes.
pub const METADATA_KEY_BYTES_MAX: usize = 64;
/// The longest value of metadata, in bytes.
pub const METADATA_VALUE_BYTES_MAX: usize = 512;

/// What a chat has of its own beside its agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Setup {
    /// Sent to the model behind the agent's instructions.
    pub instructions: String,
    /// Tools that its clients run, beside the agent's.
    pub tools: Vec<ToolSpec>,
    /// What clients note about it. The engine stores it and never reads it.
    pub metadata: BTreeMap<String, String>,
}

/// Something that a chat cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSetup {
    /// They are too long.
    #[error("`instructions` has {0} bytes; it may have {INSTRUCTIONS_BYTES_MAX}")]
    Instructions(usize),
    /// They are too many.
    #[error("`tools` has {0} tools; it may have {TOOLS_LEN_MAX}")]
    Tools(usize),
    /// They are too long.
    #[error("`tools` has {0} bytes; names, descriptions and inputs may have {TOOLS_BYTES_MAX} together")]
    ToolBytes(usize),
    /// Two of one name.
    #[error("`tools` has two tools that are called `{0}`")]
    SameName(String),
    /// One that the agent has.
    #[error("`tools` has `{0}`, and the agent has a tool of that name: give it another")]
    AgentHas(String),
    /// An input that is no schema.
    #[error("the `input` of the tool `{0}` is not a JSON schema of an object")]
    Input(String),
    /// One that no model could be offered.
    #[error("{0}")]
    NotOfferable(String),
    /// It is too much.
    #[error("`metadata` has {0} pairs; it may have {METADATA_LEN_MAX}")]
    Metadata(usize),
    /// A key that is none, or too long.
    #[error("`metadata` has the key {0:?}; each needs 1 to {METADATA_KEY_BYTES_MAX} bytes")]
    Key(String),
    /// A value that is too long.
    #[error("`metadata` has a value of {1} bytes at `{0}`; it may have {METADATA_VALUE_BYTES_MAX}")]
    Value(String, usize),
}

impl Setup {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses more than a chat may have.
    ///
    /// # Errors
    /// The first bound that is exceeded.
    pub fn check(&self) -> Result<(), BadSetup> {
        let Self { instructions, tools, metadata } = self;
        if instructions.len() > INSTRUCTIONS_BYTES_MAX {
            return Err(BadSetup::Instructions(instructions.len()));
        }
        if tools.len() > TOOLS_LEN_MAX {
            return Err(BadSetup::Tools(tools.len()));
        }
        let bytes = tools.iter().map(bytes_of).sum();
        if bytes > TOOLS_BYTES_MAX {
            return Err(BadSetup::ToolBytes(bytes));
        }
        for (at, tool) in tools.iter().enumerate() {
            if tools[..at].iter().any(|earlier| earlier.name == tool.name) {
                return Err(BadSetup::SameName(tool.name.clone()));
            }
        }
        if metadata.len() > METADATA_LEN_MAX {
            return Err(BadSetup::Metadata(metadata.len()));
        }
        for (key, value) in metadata {
            if key.is_empty() || key.len() > METADATA_KEY_BYTES_MAX {
                return Err(BadSetup::Key(key.chars().take(METADATA_KEY_BYTES_MAX).collect()));
            }
            if value.len() > METADATA_VALUE_BYTES_MAX {
                return Err(BadSetup::Value(key.clone(), value.len()));
            }
        }
        Ok(())
    }

    /// All of it as one value, the same for the same setup.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let tool = |tool: &ToolSpec| serde_json::json!([tool.name, tool.description, tool.input_schema]);
        serde_json::json!([self.instructions, self.tools.iter().map(tool).collect::<Vec<_>>(), self.metadata])
    }
}

fn bytes_of(tool: &ToolSpec) -> usize {
    tool.name.len() + tool.description.len() + tool.input_schema.to_string().len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> ToolSpec {
        ToolSpec::new(name, "Looks.", json!({"type": "object"}))
    }

    #[test]
    fn more_than_a_chat_may_have_is_refused_by_name() {
        let refused = |setup: Setup| setup.check().unwrap_err().to_string();
        let good = Setup {
            instructions: "x".repeat(INSTRUCTIONS_BYTES_MAX),
            tools: (0..TOOLS_LEN_MAX).map(|number| tool(&format!("t{number}"))).collect(),
            metadata: (0..METADATA_LEN_MAX)
                .map(|key| (format!("k{key}"), "v".repeat(METADATA_VALUE_BYTES_MAX)))
                .collect(),
        };
        assert_eq!(good.check(), Ok(()));
        assert!(Setup::default().is_empty() && !good.is_empty());
        let with = |change: fn(&mut Setup)| {
            let mut setup = good.clone();
            change(&mut setup);
            refused(setup)
        };
        assert!(with(|setup| setup.instructions.push('x')).contains("`instructions` has 16385 bytes"));
        assert!(with(|setup| setup.tools.push(tool("more"))).contains("33 tools"));
        assert!(with(|setup| setup.tools[0].description = "x".repeat(TOOLS_BYTES_MAX)).contains("bytes; names"));
        assert!(with(|setup| setup.tools[0] = setup.tools[1].clone()).contains("called `t1`"));
        assert!(with(|setup| drop(setup.metadata.insert("more".into(), String::new()))).contains("17 pairs"));
        let pair = |key: &str, len| Setup { metadata: [(key.into(), "v".repeat(len))].into(), ..Setup::default() };
        assert!(refused(pair("", 1)).contains("each needs 1 to 64 bytes"));
        assert!(refused(pair(&"k".repeat(65), 1)).contains("64"));
        assert!(refused(pair("k", 513)).contains("513 bytes at `k`"));
    }
}
