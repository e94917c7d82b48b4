//! MCP servers as the API shows them, without secrets.

use std::collections::BTreeMap;

use everturn::core::chat::Effect;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct McpServerList {
    /// The servers, ordered by name.
    pub servers: Vec<McpServer>,
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct McpServer {
    /// Its name in the configuration.
    pub name: String,
    /// Its command or its address, without secrets.
    pub what: String,
    /// How it is.
    pub state: McpState,
    /// Why it failed, if it did the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For how many seconds it rests after failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rests_seconds: Option<u64>,
    /// The version of the protocol that it speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Its own name and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Its tools, as it listed them last.
    pub tools: Vec<McpTool>,
    /// Tools of its list that cannot be used, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, String>,
}

/// How an MCP server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpState {
    /// Nothing is known but its configuration.
    Configured,
    /// Its tools are known; it starts when one is called.
    Known,
    /// It runs.
    Started,
    /// It runs, and works on a call.
    InUse,
    /// It refused the credentials.
    NeedsLogin,
    /// It died too often, and is not started again for a while.
    Resting,
    /// It could not be started the last time.
    Failed,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct McpTool {
    /// The server's own name for it.
    pub name: String,
    /// The name that models see.
    pub offered: String,
    /// What it does.
    pub description: String,
    /// What running it twice does.
    pub effect: ToolEffect,
    /// Whether a person decides on each call.
    pub asks: bool,
    /// Why it is not offered, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// What running a tool twice does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolEffect {
    /// Nothing: it only reads.
    Read,
    /// No more than running it once.
    Idempotent,
    /// A second effect, so it never happens.
    Once,
}

impl From<Effect> for ToolEffect {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Read => Self::Read,
            Effect::Idempotent => Self::Idempotent,
            Effect::Once => Self::Once,
        }
    }
}
