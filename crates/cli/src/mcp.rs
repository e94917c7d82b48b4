//! MCP servers of the daemon and of `everturn mcp`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use everturn::core::chat::Effect;
use everturn::{Agent, Approval};
use everturn_mcp::{McpOptions, McpServers, ServerConfig, ServerState, ServerStatus};
use everturn_server::wire::{McpServer, McpState, McpTool, ToolEffect};
use everturn_tools::Recall;

use crate::config::{AGENT, Config};

/// When servers are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// When they are called, and now if their tools are unknown.
    ToLearn,
    /// When they are called.
    WhenCalled,
}

/// The configured servers. They keep their lists of tools in the data directory.
pub fn servers(config: &Config, data: &Path, starts: Starts) -> anyhow::Result<McpServers> {
    let options = McpOptions::new(directory(data));
    let configs = config.mcp.servers(|name| std::env::var(name).ok())?;
    check_names(config, &configs)?;
    Ok(match starts {
        Starts::ToLearn => McpServers::start(configs, options),
        Starts::WhenCalled => McpServers::new(configs, options),
    })
}

/// Where servers keep their lists of tools, and their logins.
pub fn directory(data: &Path) -> PathBuf {
    data.join("mcp")
}

/// Refuses agents that name a server which is not configured.
fn check_names(config: &Config, servers: &[ServerConfig]) -> anyhow::Result<()> {
    let agents = config.agents.iter().map(|(name, profile)| (name.as_str(), &profile.mcp));
    for (agent, named) in agents.chain([(AGENT, &config.usual.mcp)]) {
        let is_known = |name: &String| servers.iter().any(|server| server.name() == name);
        if let Some(name) = named.iter().flatten().find(|name| !is_known(name)) {
            bail!("the agent `{agent}` uses the MCP server `{name}`, which is not in [mcpServers]");
        }
    }
    Ok(())
}

/// Gives an agent the tools of the servers that it names. The default agent has all if it names none.
pub fn equip(agent: Agent, servers: &McpServers, named: Option<&[String]>, usual: Usual) -> anyhow::Result<Agent> {
    let names: Vec<String> = match (named, usual) {
        (Some(named), _) => named.to_vec(),
        (None, Usual::All) => servers.statuses().into_iter().map(|status| status.name).collect(),
        (None, Usual::None) => Vec::new(),
    };
    if names.is_empty() {
        return Ok(agent);
    }
    let mut agent = agent.live_tools(servers.toolbox(&names)?).tool(Recall)?;
    agent.system.extend(servers.instructions(&names));
    agent.hook = Some(Arc::new(servers.hook(&names)?));
    Ok(agent)
}

/// Which servers an agent has that names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usual {
    All,
    None,
}

/// A server as the API and `everturn mcp` show it.
pub fn shown(status: ServerStatus) -> McpServer {
    let ServerStatus { name, what, state, reason, known, tools, refused } = status;
    let (state, rests_seconds) = match state {
        ServerState::Configured => (McpState::Configured, None),
        ServerState::Known => (McpState::Known, None),
        ServerState::Started => (McpState::Started, None),
        ServerState::InUse => (McpState::InUse, None),
        ServerState::NeedsLogin => (McpState::NeedsLogin, None),
        ServerState::Resting { time } => (McpState::Resting, Some(time.as_secs())),
        ServerState::Failed => (McpState::Failed, None),
    };
    let protocol = known.as_ref().map(|known| known.protocol.version().to_owned());
    let server = known.and_then(|known| known.server);
    let tools = tools.into_iter().map(|tool| McpTool {
        name: tool.name,
        offered: tool.offered,
        description: tool.description,
        effect: match tool.effect {
            Effect::Read => ToolEffect::Read,
            Effect::Idempotent => ToolEffect::Idempotent,
            Effect::Once => ToolEffect::Once,
        },
        asks: tool.approval != Approval::NotNeeded,
        left_out: tool.left_out,
    });
    McpServer { name, what, state, reason, rests_seconds, protocol, server, tools: tools.collect(), refused }
}
