//! Agents, as the file says them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use everturn::core::prompt::{Sampling, ToolSpec};
use everturn::{Agent, Toolbox};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bounds::AgentBounds;
use super::habits::{Habits, Percent, Word};
use super::money::Money;
use super::sampling::OUTPUT_TOKENS_MIN;
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
    pub open_seconds_max: Option<NonZeroU32>,
    pub silence_seconds_max: Option<NonZeroU32>,
    pub tool_seconds_max: Option<NonZeroU32>,
    pub awaiting_minutes_max: Option<NonZeroU32>,
    pub attempts_max: Option<NonZeroU32>,
    pub tools_at_once_max: Option<NonZeroU32>,
    pub queue_len_max: Option<NonZeroU32>,
    pub background: Option<bool>,
    pub effort: Option<Word>,
    pub compaction_percent: Option<Percent>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<u32>,
    pub seed: Option<i32>,
    #[serde(default)]
    pub stop: Vec<String>,
    pub output_tokens_max: Option<u32>,
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
        self.dress(agent)
    }

    /// An agent with everything of it but its models.
    pub fn dress(&self, mut agent: Agent) -> anyhow::Result<Agent> {
        agent.system.extend(self.system.clone());
        equip(&mut agent, &self.tools)?;
        agent.output_tokens_max = self.output_tokens_max;
        let agent = agent.sampling(self.sampling())?;
        Ok(self.habits().of(self.turns().of(self.bounds().of(agent))))
    }

    /// Reads what its tools keep in files of their own, and refuses what no model could be sent.
    pub fn settle(&mut self, beside: &Path) -> anyhow::Result<()> {
        for (name, tool) in &mut self.tools {
            tool.settle(name, beside)?;
        }
        self.sampling().check()?;
        match self.output_tokens_max {
            Some(few @ ..OUTPUT_TOKENS_MIN) => {
                bail!("`output_tokens_max` is {few}; it has to be {OUTPUT_TOKENS_MIN} or more")
            }
            _ => Ok(()),
        }
    }

    /// How its models pick their words, and what ends their answers.
    pub fn sampling(&self) -> Sampling {
        let Self { temperature, top_p, top_k, seed, .. } = *self;
        Sampling { temperature, top_p, top_k, seed, stop: self.stop.clone() }
    }

    /// How long it waits, and how much it does at once.
    pub const fn bounds(&self) -> AgentBounds {
        AgentBounds {
            open_seconds_max: self.open_seconds_max,
            silence_seconds_max: self.silence_seconds_max,
            tool_seconds_max: self.tool_seconds_max,
            awaiting_minutes_max: self.awaiting_minutes_max,
            attempts_max: self.attempts_max,
            tools_at_once_max: self.tools_at_once_max,
            queue_len_max: self.queue_len_max,
        }
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
