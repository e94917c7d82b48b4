//! MCP servers as real processes and over HTTP.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../src/bin/understudy/script.rs"]
#[allow(dead_code, reason = "the tests over HTTP use a part of it")]
mod script;

mod calls;
mod faults;
mod http;
mod kills;
mod leftovers;
mod lists;
mod logins;
mod many;
mod oauth_site;
mod questions;
mod starts;
mod tasks;
mod turns;

use std::path::PathBuf;
use std::time::Duration;

use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn::{SharedTool, ToolContext, ToolError, ToolOutput};
use everturn_mcp::{McpOptions, McpServers, ServerConfig, ServerEntry};
use serde_json::{Value, json};

/// The stand-in server, which is also the helper of supervisors.
const UNDERSTUDY: &str = env!("CARGO_BIN_EXE_everturn-mcp-understudy");

/// A directory for stored tools and for what servers note.
struct Scratch {
    root: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self { root: tempfile::Builder::new().prefix("everturn-mcp").tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn servers(&self, configs: impl IntoIterator<Item = ServerConfig>) -> McpServers {
        McpServers::new(configs, McpOptions::new(self.path("data")).with_helper(UNDERSTUDY))
    }

    /// The stand-in as a server. It notes what it receives in `NAME.log`.
    fn entry(&self, name: &str, args: &[&str]) -> ServerEntry {
        let log = self.path(&format!("{name}.log")).display().to_string();
        let args = args.iter().map(ToString::to_string).chain(["--log".into(), log]).collect();
        ServerEntry { command: Some(UNDERSTUDY.into()), args, ..ServerEntry::default() }
    }

    fn config(&self, name: &str, args: &[&str]) -> ServerConfig {
        checked(name, self.entry(name, args))
    }

    /// The methods that a server was asked for.
    fn methods(&self, name: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
        let messages = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        messages.map(|message| message["method"].as_str().unwrap().to_owned()).collect()
    }
}

fn checked(name: &str, entry: ServerEntry) -> ServerConfig {
    entry.check(name, |_| None, "/".as_ref()).unwrap()
}

fn tool(servers: &McpServers, server: &str, name: &str) -> SharedTool {
    let name = everturn_mcp::offered_name(server, name);
    servers.tools([server]).unwrap().into_iter().find(|tool| tool.spec().name == name).unwrap()
}

fn context() -> ToolContext {
    ToolContext::new(ChatId::from_u128(7), CallUid { step: StepId(3), ordinal: 1 })
}

async fn call(servers: &McpServers, server: &str, name: &str, input: Value) -> Result<ToolOutput, ToolError> {
    tool(servers, server, name).run(context(), input).await.map(|returned| returned.output().unwrap())
}

/// The text of a call's output.
async fn text(servers: &McpServers, server: &str, name: &str) -> String {
    let output = call(servers, server, name, json!({})).await.unwrap();
    String::from_utf8(output.bytes).unwrap()
}

/// Waits until something is so, without saying how long that takes.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} never came to be");
}
