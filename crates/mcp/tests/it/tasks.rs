//! Calls that become tasks of the server.

use std::sync::Arc;

use everturn::core::message::{Body, CallResult, CallVerdict, Stop};
use everturn::stores::Memory;
use everturn::{Agent, ChatHandle, Engine};
use everturn_mcp::McpServers;
use everturn_understudy::{Script, Understudy, call, script, stop, text};
use serde_json::{Value, json};

use crate::{Scratch, checked, until};

/// A server whose tasks are in the directory `tasks`.
async fn servers(scratch: &Scratch) -> McpServers {
    let tasks = scratch.path("tasks");
    std::fs::create_dir_all(&tasks).unwrap();
    let mut entry = scratch.entry("x", &["--speaks", "2026-07-28", "--tasks", &tasks.display().to_string()]);
    entry.tools = serde_json::from_value(json!({"task": {"permission": "allow"}})).unwrap();
    let servers = scratch.servers([checked("x", entry)]);
    servers.learn("x").await.unwrap();
    servers
}

fn becomes(scratch: &Scratch, task: &Value) {
    std::fs::write(scratch.path("tasks/task-1"), task.to_string()).unwrap();
}

fn calls() -> Script {
    script([call("mcp__x__task", json!({})), stop(Stop::ToolUse)])
}

fn engine(store: &Arc<Memory>, servers: &McpServers, first: Option<Script>) -> Engine {
    let model = Understudy::new(first.into_iter().chain([script([text("Done."), stop(Stop::End)])]));
    let agent = Agent::new("understudy/any".parse().unwrap()).live_tools(servers.toolbox(["x"]).unwrap());
    Engine::builder().store(store.clone()).provider(model).agent("a", agent).start()
}

/// Sends a message, and waits until the server was asked about the task.
async fn begun(scratch: &Scratch, engine: &Engine) -> ChatHandle {
    let chat = engine.create("a").await.unwrap();
    chat.send("Go.").await.unwrap();
    until("a look at the task", || asked(scratch, "tasks/get") > 0).await;
    chat
}

fn asked(scratch: &Scratch, method: &str) -> usize {
    scratch.methods("x").iter().filter(|asked| *asked == method).count()
}

async fn result(chat: &ChatHandle) -> CallResult {
    chat.rest().await.unwrap();
    let transcript = chat.transcript().await.unwrap();
    let results = transcript.iter().filter_map(|message| match &message.body {
        Body::Result(result) => Some((**result).clone()),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    assert_eq!(results.len(), 1);
    results[0].clone()
}

/// TM11: a task goes on while no process of ours is there, and the next one finds its result. It is started once.
#[tokio::test]
async fn a_task_is_found_again_after_a_restart() {
    let scratch = Scratch::new();
    let store = Arc::new(Memory::default());
    let first = servers(&scratch).await;
    let before = engine(&store, &first, Some(calls()));
    let chat = begun(&scratch, &before).await.id();
    before.shutdown().await;
    first.stop();
    becomes(&scratch, &json!({"status": "completed", "result": {"content": [{"type": "text", "text": "built"}]}}));
    let second = servers(&scratch).await;
    let after = engine(&store, &second, None);
    after.resume().await.unwrap();
    let result = result(&after.chat(chat)).await;
    assert_eq!((result.verdict, result.output.text.as_str()), (CallVerdict::Done, "built"));
    assert_eq!(asked(&scratch, "tools/call"), 1);
}

/// TM11: a task that the server has forgotten is unknown, with its id; one that failed says why.
#[tokio::test]
async fn a_task_without_a_result_says_why() {
    for (task, verdict, told) in [
        (
            None,
            CallVerdict::Unknown,
            "The MCP server `x` does not know the task task-1 any more: no such task. The call may have happened. Look before \
             you repeat it.",
        ),
        (
            Some(json!({"status": "failed", "error": {"code": -32603, "message": "out of disk"}})),
            CallVerdict::Error,
            "The MCP server `x` failed: out of disk",
        ),
        (
            Some(json!({"status": "completed", "result": {"content": [], "isError": true}})),
            CallVerdict::Error,
            "The tool failed and did not say why.",
        ),
    ] {
        let scratch = Scratch::new();
        let servers = servers(&scratch).await;
        let engine = engine(&Arc::default(), &servers, Some(calls()));
        let chat = begun(&scratch, &engine).await;
        match task {
            Some(task) => becomes(&scratch, &task),
            None => std::fs::remove_file(scratch.path("tasks/task-1")).unwrap(),
        }
        let result = result(&chat).await;
        assert_eq!((result.verdict, result.output.text.as_str()), (verdict, told));
    }
}

/// A server that answers with an error of its own is asked again: only a task that it does not know is given up.
#[tokio::test]
async fn a_server_in_trouble_is_asked_again() {
    let scratch = Scratch::new();
    let servers = servers(&scratch).await;
    let engine = engine(&Arc::default(), &servers, Some(calls()));
    let chat = begun(&scratch, &engine).await;
    becomes(&scratch, &json!({"refused": -32603}));
    let asked_before = asked(&scratch, "tasks/get");
    until("two looks that fail", || asked(&scratch, "tasks/get") > asked_before + 1).await;
    becomes(&scratch, &json!({"status": "completed", "result": {"content": [{"type": "text", "text": "built"}]}}));
    let result = result(&chat).await;
    assert_eq!((result.verdict, result.output.text.as_str()), (CallVerdict::Done, "built"));
}

/// An interrupt tells the server to stop the task.
#[tokio::test]
async fn an_interrupt_cancels_the_task() {
    let scratch = Scratch::new();
    let servers = servers(&scratch).await;
    let engine = engine(&Arc::default(), &servers, Some(calls()));
    let chat = begun(&scratch, &engine).await;
    chat.interrupt().await.unwrap();
    assert_eq!(result(&chat).await.verdict, CallVerdict::Interrupted);
    assert_eq!(asked(&scratch, "tasks/cancel"), 1);
}
