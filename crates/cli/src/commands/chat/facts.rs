//! What slash commands tell about a chat's tools: changed files, grants, agents and MCP servers.

use everturn_server::wire::{ChangeKind, ChangeState, ChangedFile, GrantInfo, JobInfo, JobStatus, McpServer};

use crate::client::{Client, ClientError};
use crate::clock;
use crate::render::{ago, mcp_state};

/// The changes that `/diff` shows and `/undo` undoes: of one call, or of the newest turn that has some which hold.
pub async fn held(client: &Client, chat: &str, call: Option<&str>) -> Result<Vec<ChangedFile>, ClientError> {
    let mut changes = client.changes(chat).await?.changes;
    changes.retain(|change| change.state == ChangeState::Made);
    match call {
        Some(call) => changes.retain(|change| change.call == call),
        None => {
            let newest = changes.iter().filter_map(|change| change.message).max();
            changes.retain(|change| change.message == newest);
        }
    }
    Ok(changes)
}

/// The change in one line.
pub fn change(change: &ChangedFile) -> String {
    let what = match change.kind {
        ChangeKind::Created => "created",
        ChangeKind::Changed => "changed",
        ChangeKind::ChangedForGood => "changed, too large to be undone:",
    };
    format!("{} {what} {}", change.call, change.path)
}

/// Undoes the changes of one call or of the newest turn, and tells what that was.
pub async fn undo(client: &Client, chat: &str, call: Option<&str>) -> Result<Vec<String>, ClientError> {
    let mut calls: Vec<String> = held(client, chat, call).await?.into_iter().map(|change| change.call).collect();
    calls.dedup();
    if calls.is_empty() {
        return Ok(vec!["There is nothing to undo: no call changed a file, or all of it was undone.".into()]);
    }
    let undone = client.undo(chat, calls).await?.changes;
    let mut lines: Vec<String> = undone.iter().map(|change| format!("undone: {}", self::change(change))).collect();
    lines.push("The model is not told; it reads a file again before it edits it.".into());
    Ok(lines)
}

/// The background jobs of a chat.
pub async fn jobs(client: &Client, chat: &str) -> Result<Vec<String>, ClientError> {
    let jobs = client.jobs(chat).await?.jobs;
    if jobs.is_empty() {
        return Ok(vec!["No command runs in the background.".into()]);
    }
    let advice = "/jobs stop N ends one.".to_owned();
    Ok(jobs.iter().map(job).chain([advice]).collect())
}

/// Ends a background job, and tells what became of it.
pub async fn stop_job(client: &Client, chat: &str, number: u32) -> Result<Vec<String>, ClientError> {
    Ok(vec![job(&client.stop_job(chat, number).await?)])
}

fn job(job: &JobInfo) -> String {
    let state = match (job.state, job.code) {
        (JobStatus::Running, _) => "runs".into(),
        (JobStatus::Exited, Some(code)) => format!("exit {code}"),
        (JobStatus::Exited, None) => "was killed".into(),
        (JobStatus::Stopped, _) => "was stopped".into(),
        (JobStatus::TimeUp, _) => "ended because its time was up".into(),
        (JobStatus::ServerGone, _) => "ended with the server".into(),
        (JobStatus::Lost, _) => "has an unknown outcome".into(),
    };
    let command = job.command.lines().next().unwrap_or_default();
    format!("{}: {command}, {state}, started {}", job.number, ago(clock::now() - job.started))
}

/// The grants of a chat.
pub async fn grants(client: &Client, chat: &str) -> Result<Vec<String>, ClientError> {
    let grants = client.grants(chat).await?.grants;
    if grants.is_empty() {
        return Ok(vec!["Nothing was allowed in advance. The agent's rules are in `everturn config show`.".into()]);
    }
    let line = |GrantInfo { call, rule, by, at, .. }: &GrantInfo| {
        format!("{call} allows {rule}, agreed by {by} {}", ago(clock::now() - at))
    };
    let advice = "/permissions revoke CALL ends one.".to_owned();
    Ok(grants.iter().map(line).chain([advice]).collect())
}

/// The agents of the daemon.
pub async fn agents(client: &Client) -> Result<Vec<String>, ClientError> {
    let agents = client.agents().await?.agents.into_iter().map(|agent| {
        let place = agent.workspace.map(|workspace| format!(", in {}", workspace.path)).unwrap_or_default();
        format!("{}: {}, {} tools{place}", agent.name, agent.models.join(", "), agent.tools.len())
    });
    Ok(agents.chain(["/new AGENT starts a chat with another one.".into()]).collect())
}

/// The MCP servers of the daemon.
pub async fn mcp(client: &Client) -> Result<Vec<String>, ClientError> {
    let servers = client.mcp_servers().await?.servers;
    if servers.is_empty() {
        return Ok(vec!["No MCP server is configured: see [mcpServers] in docs/mcp.md.".into()]);
    }
    let line = |server: &McpServer| {
        let offered = server.tools.iter().filter(|tool| tool.left_out.is_none()).count();
        let reason = server.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        format!("{}: {}, {offered} tools{reason}", server.name, mcp_state(server))
    };
    Ok(servers.iter().map(line).collect())
}
