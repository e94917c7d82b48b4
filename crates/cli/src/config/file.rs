//! The keys of the configuration file.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use everturn_mcp::ServerEntry;
use serde::Deserialize;

use super::Connections;
use super::agent_options::{Percent, Word};
use super::budget::Spending;
use super::durability::Drafts;
use super::hook::HookEntry;
use super::money::Money;
use super::permissions::PermissionTable;
use super::price::Prices;
use super::profile::{Profile, Tools};
use super::provider::Providers;
use super::workspace::{LongCommandsUse, NetworkUse, Sandbox, WorkspaceEntry};
use crate::recording::Record;

/// The configuration file as it is parsed.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub listen: Option<String>,
    pub expose: Option<bool>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub proxies: Option<Vec<String>>,
    pub hosts: Option<Vec<String>>,
    pub origins: Option<Vec<String>>,
    pub data: Option<PathBuf>,
    pub model: Option<String>,
    #[serde(default)]
    pub fallbacks: Vec<String>,
    pub models: Option<Vec<String>>,
    pub system: Option<String>,
    pub chats_max: Option<usize>,
    pub running_max: Option<usize>,
    pub streams_max: Option<usize>,
    pub stream_seconds_max: Option<NonZeroU32>,
    pub requests_max: Option<NonZeroU32>,
    pub connect_seconds_max: Option<NonZeroU32>,
    pub drain_seconds: Option<u64>,
    pub record: Option<Record>,
    pub durability: Option<Drafts>,
    pub database_connections: Option<Connections>,
    background: Option<bool>,
    effort: Option<Word>,
    compaction_percent: Option<Percent>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<u32>,
    seed: Option<i32>,
    #[serde(default)]
    stop: Vec<String>,
    output_tokens_max: Option<u32>,
    steps_max: Option<u32>,
    turn_minutes_max: Option<u64>,
    turn_tokens_max: Option<u64>,
    turn_cost_max: Option<Money>,
    same_call_max: Option<u32>,
    open_seconds_max: Option<NonZeroU32>,
    silence_seconds_max: Option<NonZeroU32>,
    tool_seconds_max: Option<NonZeroU32>,
    awaiting_minutes_max: Option<NonZeroU32>,
    attempts_max: Option<NonZeroU32>,
    tools_at_once_max: Option<NonZeroU32>,
    sub_agents_max: Option<NonZeroU32>,
    sub_agents_at_once_max: Option<NonZeroU32>,
    sub_agents_depth_max: Option<NonZeroU32>,
    queue_len_max: Option<NonZeroU32>,
    #[serde(default)]
    pub providers: Providers,
    pub sandbox: Option<Sandbox>,
    workspace: Option<String>,
    workspace_tools: Option<Vec<String>>,
    network: Option<NetworkUse>,
    instructions: Option<Vec<String>>,
    #[serde(default)]
    skills: Vec<PathBuf>,
    description: Option<String>,
    #[serde(default)]
    may_ask: Vec<String>,
    #[serde(default)]
    permissions: PermissionTable,
    keep_jobs: Option<bool>,
    long_commands: Option<LongCommandsUse>,
    #[serde(default)]
    pub hooks: Vec<HookEntry>,
    #[serde(default)]
    pub workspaces: BTreeMap<String, WorkspaceEntry>,
    #[serde(default)]
    pub prices: Prices,
    #[serde(default)]
    pub tools: Tools,
    mcp: Option<Vec<String>>,
    #[serde(default)]
    pub mcp_config: Vec<PathBuf>,
    #[serde(default, rename = "mcpServers")]
    pub mcp_servers: BTreeMap<String, ServerEntry>,
    #[serde(default)]
    pub agents: BTreeMap<String, Profile>,
    #[serde(default)]
    pub budget: Spending,
    #[serde(default)]
    pub owners: BTreeMap<String, Spending>,
}

impl File {
    /// The default agent's profile, from the keys at the top of the file. Model, fallbacks and instructions
    /// are not in it: they have other sources too.
    pub fn take_usual(&mut self) -> Profile {
        Profile {
            steps_max: self.steps_max,
            turn_minutes_max: self.turn_minutes_max,
            turn_tokens_max: self.turn_tokens_max,
            turn_cost_max: self.turn_cost_max,
            same_call_max: self.same_call_max,
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
            background: self.background,
            effort: self.effort,
            compaction_percent: self.compaction_percent,
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            seed: self.seed,
            stop: std::mem::take(&mut self.stop),
            output_tokens_max: self.output_tokens_max,
            mcp: self.mcp.take(),
            tools: std::mem::take(&mut self.tools),
            workspace: self.workspace.take(),
            workspace_tools: self.workspace_tools.take(),
            network: self.network,
            instructions: self.instructions.take(),
            skills: std::mem::take(&mut self.skills),
            description: self.description.take(),
            may_ask: std::mem::take(&mut self.may_ask),
            permissions: std::mem::take(&mut self.permissions),
            keep_jobs: self.keep_jobs,
            long_commands: self.long_commands,
            ..Profile::default()
        }
    }
}
