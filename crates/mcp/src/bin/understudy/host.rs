//! A program that holds servers until it is killed.

use std::path::PathBuf;

use everturn::ToolContext;
use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn_mcp::{McpOptions, McpServers, ServerEntry};
use serde_json::json;

/// Starts so many servers with this command, calls each once, says so, and waits.
pub fn run(args: &[String]) {
    let [directory, count, command @ ..] = args else { panic!("--host DIRECTORY COUNT COMMAND…") };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be made");
    runtime.block_on(async {
        let configs = (0..count.parse().expect("a number")).map(|n: usize| {
            let entry = ServerEntry {
                command: Some(command[0].clone()),
                args: command[1..].to_vec(),
                ..ServerEntry::default()
            };
            entry.check(&format!("server-{n}"), |_| None, "/".as_ref()).expect("the entry is good")
        });
        let servers = McpServers::new(configs, McpOptions::new(PathBuf::from(directory)));
        for status in servers.statuses() {
            servers.learn(&status.name).await.expect("the server starts");
            let tools = servers.tools([&status.name]).expect("the server is configured");
            let pid = tools.iter().find(|tool| tool.spec().name.ends_with("__pid")).expect("it has the tool");
            let call = CallUid { step: StepId(1), ordinal: 0 };
            let output = pid.run(ToolContext::new(ChatId::from_u128(1), call), json!({})).await.expect("it answers");
            println!("{}", String::from_utf8_lossy(&output.output().unwrap_or_default().bytes));
        }
        println!("ready");
        std::future::pending::<()>().await;
    });
}
