//! Checks servers of other people, for `cargo xtask interop`. Arguments: a directory, the path of a file with the word kelp in
//! it, and a JSON object of entries as in `mcpServers`. Prints a line of JSON per check.

use std::collections::BTreeMap;
use std::path::PathBuf;

use everturn::ToolContext;
use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn_mcp::{McpOptions, McpServers, ServerEntry, offered_name};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    everturn_tools::init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [directory, file, entries] = &args[..] else { return Err("DIRECTORY FILE ENTRIES".into()) };
    let entries: BTreeMap<String, ServerEntry> = serde_json::from_str(entries)?;
    let mut configs = Vec::new();
    for (name, entry) in entries {
        configs.push(entry.check(&name, |_| None, "/".as_ref())?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let servers = McpServers::new(configs, McpOptions::new(PathBuf::from(directory).join("mcp")));
        println!("{}", json!({"peer": "MCP servers", "version": "-"}));
        for status in servers.statuses() {
            let learned = servers.learn(&status.name).await;
            say(&format!("{} starts", status.name), learned.map(drop).map_err(|failure| failure.reason));
        }
        for (server, tool, input, expected) in calls(file) {
            let answer = called(&servers, server, tool, input).await;
            let is_good = answer.contains(expected) && !answer.contains("EVERTURN_INTEROP");
            say(&format!("{server} {tool}"), if is_good { Ok(()) } else { Err(answer) });
        }
    });
    Ok(())
}

/// Calls, and what their answers must contain.
fn calls(file: &str) -> [(&'static str, &'static str, Value, &'static str); 9] {
    [
        ("everything", "echo", json!({"message": "kelp"}), "kelp"),
        ("everything", "get-sum", json!({"a": 2, "b": 3}), "5"),
        ("everything", "get-structured-content", json!({"location": "New York"}), "temperature"),
        ("everything", "trigger-long-running-operation", json!({"duration": 1, "steps": 3}), "completed"),
        ("everything", "get-env", json!({}), "PATH"), // TM10: the program has a variable EVERTURN_INTEROP.
        ("filesystem", "read_text_file", json!({"path": file}), "kelp"),
        ("filesystem", "read_text_file", json!({"path": "/etc/passwd"}), "denied"),
        ("python", "add", json!({"a": 2, "b": 3}), "5"),
        ("python-http", "add", json!({"a": 2, "b": 3}), "5"),
    ]
}

/// The text of a call's result, or of its error.
async fn called(servers: &McpServers, server: &str, tool: &str, input: Value) -> String {
    let name = offered_name(server, tool);
    let tools = servers.tools([server]).unwrap_or_default();
    let Some(tool) = tools.iter().find(|tool| tool.spec().name == name) else { return format!("no tool {name}") };
    let context = ToolContext::new(ChatId::from_u128(1), CallUid { step: StepId(1), ordinal: 0 });
    match tool.run(context, input).await {
        Ok(done) => String::from_utf8_lossy(&done.output().unwrap_or_default().bytes).into_owned(),
        Err(error) => error.message,
    }
}

fn say(check: &str, outcome: Result<(), String>) {
    println!("{}", json!({"check": check, "ok": outcome.is_ok(), "why": outcome.err()}));
}
