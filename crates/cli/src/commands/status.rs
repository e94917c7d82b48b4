//! `everturn status`: the state of a server.

use std::process::ExitCode;

use everturn_server::wire::{Account, AgentInfo, Chats, Model, Status as Standing};
use serde_json::json;

use crate::client::{Client, ClientError};
use crate::daemon::{ChatArgs, DaemonArgs, IfNoDaemon};
use crate::output::{self, println};
use crate::render::usage::used_today;
use crate::render::workspace_told;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn status
  everturn status --json | jq .chats
  everturn status --url https://chat.example.com --token-file ./token

Exit codes:
  0    the server is ready
  1    it is not, or there is none";

/// Pages of chats that are counted, and the length of a page.
const PAGES_MAX: usize = 5;
const PAGE_LEN: usize = 200;

/// Arguments of `everturn status`.
#[derive(clap::Args)]
pub struct Status {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// The state of a server that is ready.
struct Report {
    models: Vec<Model>,
    agents: Vec<AgentInfo>,
    chats: Counts,
    account: Account,
}

/// Number of chats per status.
#[derive(Default)]
struct Counts {
    running: usize,
    awaiting: usize,
    failed: usize,
    idle: usize,
    /// Whether there are more chats than were counted.
    has_more: bool,
}

impl Status {
    /// Requests the state and prints it.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let connection = self.daemon.open(&ChatArgs::default(), IfNoDaemon::Refuse).await?;
        let at = connection.client.base();
        let report = match connection.client.is_ready().await? {
            true => Some(Report::of(&connection.client).await?),
            false => None,
        };
        match (&report, self.json) {
            (Some(report), true) => output::json(&json!({"url": at, "ready": true, "models": report.models,
                "agents": report.agents, "chats": report.chats.json(), "usage": report.account}))?,
            (None, true) => output::json(&json!({"url": at, "ready": false}))?,
            (Some(report), false) => report.show(&at),
            (None, false) => println!("server  {at}, not ready: its store is unavailable, or it is stopping"),
        }
        connection.leave().await;
        Ok(if report.is_some() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

impl Report {
    async fn of(client: &Client) -> Result<Self, ClientError> {
        let mut chats = Counts::default();
        let mut after: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let from = after.map(|after| format!("&after={after}")).unwrap_or_default();
            let page = client.list(&format!("archived=false&limit={PAGE_LEN}{from}")).await?;
            chats.count(&page);
            after = page.after;
            if after.is_none() {
                break;
            }
        }
        chats.has_more = after.is_some();
        let (models, agents) = (client.models().await?.models, client.agents().await?.agents);
        Ok(Self { models, agents, chats, account: client.account().await? })
    }

    fn show(&self, at: &str) {
        println!("server  {at}, ready");
        for model in self.models.iter().filter(|model| !model.agents.is_empty()) {
            println!("model   {}, used by the agent {}", model.id, model.agents.join(", "));
        }
        for agent in &self.agents {
            if let Some(workspace) = &agent.workspace {
                println!("tools   of the agent {} work in {}", agent.name, workspace_told(workspace));
            }
        }
        println!("chats   {}", self.chats.told());
        println!("today   {}", used_today(&self.account));
    }
}

impl Counts {
    fn count(&mut self, page: &Chats) {
        for chat in &page.chats {
            match chat.status {
                Standing::Running | Standing::Interrupting => self.running += 1,
                Standing::Awaiting => self.awaiting += 1,
                Standing::Failed => self.failed += 1,
                Standing::Idle => self.idle += 1,
            }
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({"running": self.running, "awaiting": self.awaiting, "failed": self.failed, "idle": self.idle,
            "has_more": self.has_more})
    }

    fn told(&self) -> String {
        let Self { running, awaiting, failed, idle, has_more } = self;
        let more = if *has_more { ", and older ones" } else { "" };
        format!("{running} running, {awaiting} waiting for an answer, {failed} failed, {idle} idle{more}")
    }
}
