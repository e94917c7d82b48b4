//! Agents, as the file says them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use everturn::core::prompt::ToolSpec;
use everturn::{Agent, Toolbox};
use serde::Deserialize;
use serde_json::{Value, json};

use super::habits::{Habits, Percent, Word};
use super::money::Money;
use super::turns::Turns;

/// An agent by name.
#[derive(Deserialize, Debug, Default, Clone, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub model: String,
    #[serde(default)]
    pub fallbacks: Vec<String>,
    pub system: Option<String>,
    pub steps_max: Option<u32>,
    pub turn_minutes_max: Option<u64>,
    pub turn_tokens_max: Option<u64>,
    pub turn_cost_max: Option<Money>,
    pub same_call_max: Option<u32>,
    pub background: Option<bool>,
    pub effort: Option<Word>,
    pub compaction_percent: Option<Percent>,
    #[serde(default)]
    pub tools: Tools,
}

/// Tools by name.
pub type Tools = BTreeMap<String, ClientTool>;

/// A tool that clients run: a turn that calls it rests until one of them brings the result.
#[derive(Deserialize, Debug, Default, Clone, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ClientTool {
    pub description: String,
    /// What its input looks like, as a JSON schema; anything if left out.
    pub input: Option<Value>,
    /// The same in a file, in JSON; beside the configuration unless its path is absolute.
    pub input_file: Option<PathBuf>,
    /// In how many replies in a row it may be called with the same input and come to the same; the agent's if left out.
    pub same_call_max: Option<u32>,
}

impl Profile {
    /// The agent it describes.
    pub fn agent(&self) -> anyhow::Result<Agent> {
        let mut agent = Agent::new(self.model.parse()?);
        for model in &self.fallbacks {
            agent = agent.or(model.parse()?);
        }
        agent.system.extend(self.system.clone());
        equip(&mut agent, &self.tools)?;
        Ok(self.habits().of(self.turns().of(agent)))
    }

    /// How it asks its models.
    pub const fn habits(&self) -> Habits {
        Habits { background: self.background, effort: self.effort, compaction_percent: self.compaction_percent }
    }

    /// How far its turns may go.
    pub const fn turns(&self) -> Turns {
        Turns {
            steps_max: self.steps_max,
            minutes_max: self.turn_minutes_max,
            tokens_max: self.turn_tokens_max,
            cost_max: self.turn_cost_max,
            same_call_max: self.same_call_max,
        }
    }
}

/// Declares these tools to an agent.
pub fn equip(agent: &mut Agent, tools: &Tools) -> anyhow::Result<()> {
    for (name, tool) in tools {
        let spec = tool.spec(name);
        Toolbox::check(&spec)?;
        agent.toolbox.add_client(spec)?;
        let bound = tool.same_call_max.map(|max| (name.clone(), max));
        agent.limits.same_call_max_by_tool.extend(bound);
    }
    Ok(())
}

impl ClientTool {
    fn spec(&self, name: &str) -> ToolSpec {
        let anything = || json!({"type": "object"});
        ToolSpec::new(name, &self.description, self.input.clone().unwrap_or_else(anything))
    }

    /// Reads the schema from its file, if it is in one, and sees whether the tool can be had.
    pub fn settle(&mut self, name: &str, beside: &Path) -> anyhow::Result<()> {
        if let Some(file) = &self.input_file {
            if self.input.is_some() {
                bail!("the input of the tool `{name}` is told twice: by `input` and by `input_file`");
            }
            let path = beside.join(file);
            let told = || format!("the input of the tool `{name}`, {}", path.display());
            let text = std::fs::read_to_string(&path).with_context(told)?;
            self.input = Some(serde_json::from_str(&text).with_context(told)?);
        }
        if let Some(input) = &self.input {
            if !input.is_object() {
                bail!("the input of the tool `{name}` is not a JSON schema: it is no table");
            }
            // As it is written: what providers are sent has been made to fit them.
            if let Err(error) = jsonschema::validator_for(input) {
                bail!("the input of the tool `{name}` is not a JSON schema: {error}");
            }
        }
        Ok(Toolbox::check(&self.spec(name))?)
    }
}
