//! The settings of a turn: what one request says about the model beside the conversation.
//!
//! A client that keeps its own conversation sends instructions, tools, sampling and an output format with every request.
//! They hold for the turn that answers it and for no other, so they are stored with the turn: the process that asks the
//! model again after a crash must ask for the same. Tools that come with a request are run by its client. A call of one
//! ends the turn, because the client holds the loop.

use crate::prompt::{BadSampling, Effort, OutputFormat, Sampling, ToolChoice, ToolSpec};

/// How many tools a request may bring.
pub const TURN_TOOLS_LEN_MAX: usize = 512;
/// How many bytes instructions, tools and output format may have together. They are stored with every commit of the turn.
pub const TURN_SETTINGS_BYTES_MAX: usize = 1024 * 1024;

/// What one request says about the model beside the conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnSettings {
    /// Instructions, sent behind those of the agent.
    pub instructions: Vec<String>,
    /// Tools that the client runs. A call of one ends the turn.
    pub tools: Vec<ToolSpec>,
    /// What the model may do with the tools.
    pub tool_choice: ToolChoice,
    /// Whether the model may call several tools in one answer; the model's default if left out.
    pub parallel_calls: Option<bool>,
    /// The most tokens of the answer.
    pub output_tokens_max: Option<u32>,
    /// How hard the model should think; the agent's effort if left out.
    pub effort: Option<Effort>,
    /// How the model picks its words, and what ends its answer. What is left out is the agent's.
    pub sampling: Sampling,
    /// The form the answer must have.
    pub format: OutputFormat,
}

/// Settings that no turn can have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadTurnSettings {
    /// They are too many.
    #[error("`tools` has {0} tools; a request may have {TURN_TOOLS_LEN_MAX}")]
    Tools(usize),
    /// They are too long.
    #[error("instructions, tools and output format have {0} bytes; they may have {TURN_SETTINGS_BYTES_MAX} together")]
    Bytes(usize),
    /// Two of one name.
    #[error("`tools` has two tools that are called `{0}`")]
    SameName(String),
    /// A value that no provider takes.
    #[error(transparent)]
    Sampling(#[from] BadSampling),
}

impl TurnSettings {
    /// Refuses what no turn can have.
    ///
    /// # Errors
    /// The first bound that is exceeded.
    pub fn check(&self) -> Result<(), BadTurnSettings> {
        if self.tools.len() > TURN_TOOLS_LEN_MAX {
            return Err(BadTurnSettings::Tools(self.tools.len()));
        }
        let bytes = self.bytes();
        if bytes > TURN_SETTINGS_BYTES_MAX {
            return Err(BadTurnSettings::Bytes(bytes));
        }
        let mut names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        names.sort_unstable();
        if let Some(same) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(BadTurnSettings::SameName(same[0].into()));
        }
        Ok(self.sampling.check()?)
    }

    /// Whether its client runs the tool of this name.
    #[must_use]
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    fn bytes(&self) -> usize {
        let tool = |tool: &ToolSpec| {
            let own = tool.provider_defined.as_ref().map_or(0, |own| own.to_string().len());
            tool.name.len() + tool.description.len() + tool.input_schema.to_string().len() + own
        };
        let tools: usize = self.tools.iter().map(tool).sum();
        self.instructions.iter().map(String::len).sum::<usize>() + tools + self.format.bytes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> ToolSpec {
        ToolSpec::new(name, "Looks.", json!({"type": "object"}))
    }

    #[test]
    fn more_than_a_turn_may_have_is_refused_by_name() {
        let refused = |settings: TurnSettings| settings.check().unwrap_err().to_string();
        let tools = (0..=TURN_TOOLS_LEN_MAX).map(|number| tool(&format!("t{number}"))).collect();
        assert!(refused(TurnSettings { tools, ..TurnSettings::default() }).contains("513 tools"));
        let instructions = vec!["x".repeat(TURN_SETTINGS_BYTES_MAX), "y".into()];
        assert!(refused(TurnSettings { instructions, ..TurnSettings::default() }).contains("1048577 bytes"));
        let tools = vec![tool("a"), tool("b"), tool("a")];
        assert!(refused(TurnSettings { tools, ..TurnSettings::default() }).contains("called `a`"));
        let sampling = Sampling { temperature: Some(3.0), ..Sampling::default() };
        assert!(refused(TurnSettings { sampling, ..TurnSettings::default() }).contains("`temperature` is 3"));
        assert_eq!(TurnSettings { tools: vec![tool("a")], ..TurnSettings::default() }.check(), Ok(()));
    }
}
