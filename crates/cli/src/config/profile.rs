//! Agents in the configuration file.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use everturn::core::prompt::{Sampling, ToolSpec};
use everturn::{Agent, Toolbox};
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent_options::{AgentOptions, Percent, Word};
use super::bounds::AgentBounds;
use super::money::Money;
use super::permissions::PermissionTable;
use super::sampling::OUTPUT_TOKENS_MIN;
use super::turns::Turns;
use super::workspace::{LongCommandsUse, NetworkUse};

/// An agent's entry.
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
    pub sub_agents_max: Option<NonZeroU32>,
    pub sub_agents_at_once_max: Option<NonZeroU32>,
    pub sub_agents_depth_max: Option<NonZeroU32>,
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
    /// MCP servers whose tools it has.
    pub mcp: Option<Vec<String>>,
    #[serde(default)]
    pub tools: Tools,
    /// The name of the workspace that its tools work in.
    pub workspace: Option<String>,
    /// The tools of the workspace that it has; all if left out.
    pub workspace_tools: Option<Vec<String>>,
    /// Whether its commands may use the network.
    pub network: Option<NetworkUse>,
    /// Files of the workspace with instructions.
    pub instructions: Option<Vec<String>>,
    /// Directories of skills; relative paths start at the configuration file.
    #[serde(default)]
    pub skills: Vec<PathBuf>,
    /// What it is good for, for agents that may ask it.
    pub description: Option<String>,
    /// Agents that it may give tasks to.
    #[serde(default)]
    pub may_ask: Vec<String>,
    #[serde(default)]
    pub permissions: PermissionTable,
    /// Whether its background jobs outlive a restart of the server.
    pub keep_jobs: Option<bool>,
    /// What becomes of its commands that take longer than their calls wait.
    pub long_commands: Option<LongCommandsUse>,
}

/// Tools by name.
pub type Tools = BTreeMap<String, ClientTool>;

/// A tool that clients run: a turn that calls it waits until a client sends the result.
#[derive(Deserialize, Debug, Default, Clone, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ClientTool {
    pub description: String,
    /// JSON schema of its input; any input if left out.
    pub input: Option<Value>,
    /// JSON file with that schema; a relative path starts at the configuration file.
    pub input_file: Option<PathBuf>,
    /// Limit of consecutive replies that call it with the same input and get the same result; the agent's if
    /// left out.
    pub same_call_max: Option<u32>,
}

impl Profile {
    /// The agent that the entry describes.
    pub fn agent(&self) -> anyhow::Result<Agent> {
        let mut agent = Agent::new(self.model.parse()?);
        for model in &self.fallbacks {
            agent = agent.or(model.parse()?);
        }
        self.dress(agent)
    }

    /// Applies everything of the entry but the models to an agent.
    pub fn dress(&self, mut agent: Agent) -> anyhow::Result<Agent> {
        agent.system.extend(self.system.clone());
        equip(&mut agent, &self.tools)?;
        agent.output_tokens_max = self.output_tokens_max;
        agent.permissions = self.permissions.rules()?;
        let agent = agent.sampling(self.sampling())?;
        Ok(self.agent_options().of(self.turns().of(self.bounds().of(agent))))
    }

    /// Reads the schema files of its tools, and refuses values that no provider accepts.
    pub fn settle(&mut self, beside: &Path) -> anyhow::Result<()> {
        for (name, tool) in &mut self.tools {
            tool.settle(name, beside)?;
        }
        for directory in &mut self.skills {
            *directory = beside.join(&directory);
        }
        self.sampling().check()?;
        match self.output_tokens_max {
            Some(few @ ..OUTPUT_TOKENS_MIN) => {
                bail!("`output_tokens_max` is {few}; it must be {OUTPUT_TOKENS_MIN} or more")
            }
            _ => Ok(()),
        }
    }

    /// Files of the workspace with instructions, set or not.
    pub fn instruction_files(&self) -> Vec<String> {
        self.instructions.clone().unwrap_or_else(|| vec!["AGENTS.md".into()])
    }

    /// Sampling parameters and stop sequences.
    pub fn sampling(&self) -> Sampling {
        let Self { temperature, top_p, top_k, seed, .. } = *self;
        Sampling { temperature, top_p, top_k, seed, stop: self.stop.clone() }
    }

    /// Timeouts and concurrency limits.
    pub const fn bounds(&self) -> AgentBounds {
        AgentBounds {
            open_seconds_max: self.open_seconds_max,
            silence_seconds_max: self.silence_seconds_max,
            tool_seconds_max: self.tool_seconds_max,
            awaiting_minutes_max: self.awaiting_minutes_max,
            attempts_max: self.attempts_max,
            tools_at_once_max: self.tools_at_once_max,
            sub_agents_max: self.sub_agents_max,
            sub_agents_at_once_max: self.sub_agents_at_once_max,
            sub_agents_depth_max: self.sub_agents_depth_max,
            queue_len_max: self.queue_len_max,
        }
    }

    /// Request options.
    pub const fn agent_options(&self) -> AgentOptions {
        AgentOptions { background: self.background, effort: self.effort, compaction_percent: self.compaction_percent }
    }

    /// Limits of a turn.
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

    /// Reads the schema from its file, if it has one, and validates the tool.
    pub fn settle(&mut self, name: &str, beside: &Path) -> anyhow::Result<()> {
        if let Some(file) = &self.input_file {
            if self.input.is_some() {
                bail!("the tool `{name}` has both `input` and `input_file`: keep one");
            }
            let path = beside.join(file);
            let told = || format!("the input of the tool `{name}`, {}", path.display());
            let text = std::fs::read_to_string(&path).with_context(told)?;
            self.input = Some(serde_json::from_str(&text).with_context(told)?);
        }
        if let Some(input) = &self.input {
            if !input.is_object() {
                bail!("the input of the tool `{name}` is not a JSON schema: it must be a table");
            }
            // Validated as written: requests carry a version adapted to the provider.
            if let Err(error) = jsonschema::validator_for(input) {
                bail!("the input of the tool `{name}` is not a JSON schema: {error}");
            }
        }
        Ok(Toolbox::check(&self.spec(name))?)
    }
}
