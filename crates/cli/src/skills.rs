//! Gives agents the tool that reads skills.

use anyhow::Context as _;
use everturn::Agent;
use everturn_tools::Skills;

use crate::config::Profile;

/// The name of the tool.
pub const TOOL: &str = "skill";

/// The agent with the skills of its profile. Skills that cannot be used are told of in the log.
pub fn equip(agent: Agent, profile: &Profile) -> anyhow::Result<Agent> {
    if profile.skills.is_empty() {
        return Ok(agent);
    }
    let skills = Skills::read(&profile.skills).context("the directories in `skills`")?;
    for left_out in skills.left_out() {
        tracing::warn!("skill left out: {left_out}");
    }
    match skills.tool() {
        Some(tool) => Ok(agent.tool(tool)?),
        None => Ok(agent),
    }
}
