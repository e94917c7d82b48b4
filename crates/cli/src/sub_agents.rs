//! Gives agents the tools that ask other agents.

use std::path::Path;

use everturn::{Agent, SubAgent};

use crate::config::{Config, Profile};
use crate::workspaces::agent_in;

/// The name of the tool that asks an agent.
pub fn tool_name(agent: &str) -> String {
    format!("ask_{agent}")
}

/// The agent with a tool for each agent that it may ask. In the directory of `--workspace` it asks those that work there.
pub fn equip(mut agent: Agent, config: &Config, profile: &Profile, directory: Option<&Path>) -> anyhow::Result<Agent> {
    for name in &profile.may_ask {
        let asked = directory.map_or_else(|| name.clone(), |directory| agent_in(name, directory));
        let described = &config.agents.get(name).unwrap_or(&config.usual).description;
        let usual = || format!("Gives a task to the agent `{name}` and returns its answer.");
        let description = described.clone().unwrap_or_else(usual);
        agent = agent.tool(SubAgent::new(asked, description).called(tool_name(name)))?;
    }
    Ok(agent)
}
