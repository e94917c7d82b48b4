//! MCP servers as tools of agents.
//!
//! [`McpServers`] holds the configured servers. An agent gets the tools of those it may use as a
//! [`LiveToolbox`](everturn::LiveToolbox); servers start when a tool is called, and prompts are made of what they listed
//! last, so a slow or dead server neither delays a turn nor takes its tools away.
//!
//! ```no_run
//! use everturn::Agent;
//! use everturn_mcp::{McpOptions, McpServers, ServerEntry};
//!
//! # async fn agent() -> Result<Agent, Box<dyn std::error::Error>> {
//! let entry: ServerEntry = serde_json::from_str(r#"{ "command": "uvx", "args": ["mcp-server-time"] }"#)?;
//! let server = entry.check("time", |name| std::env::var(name).ok(), ".".as_ref())?;
//! let servers = McpServers::start([server], McpOptions::new("/var/lib/my-program/mcp"));
//! let agent = Agent::new("anthropic/claude-sonnet-4-5".parse()?).live_tools(servers.toolbox(["time"])?);
//! # Ok(agent)
//! # }
//! ```
//!
//! Local servers are processes under a supervisor, made from the program's own executable: its `main` calls
//! [`everturn_tools::init`] first.

mod clock;
pub mod config;
mod connection;
mod definition;
mod entropy;
mod first_contact;
mod handshake;
mod names;
mod oauth;
mod question;
mod result;
mod search;
mod server;
mod servers;
mod shape;
mod tool;
mod tool_cache;
mod transport;

pub use config::{BadServer, OauthEntry, Permission, Protocol, ServerConfig, ServerEntry, ServerScope, ToolEntry};
pub use connection::{StartFailure, StartFailureKind};
pub use definition::{Hints, ToolDefinition};
pub use first_contact::McpHook;
pub use names::offered_name;
pub use oauth::{LoginError, LoginFlow, LoginOptions, LoginStatus, Logins};
pub use servers::{McpOptions, McpServers, NoSuchServer, ServerState, ServerStatus, ToolStatus};
pub use tool_cache::KnownTools;
