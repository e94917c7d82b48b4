//! Servers that break in the middle of a call.

use everturn::{ErrorOutcome, ToolError};
use everturn_mcp::McpServers;
use serde_json::json;

use crate::{Scratch, call, checked, text};

fn once_calls(scratch: &Scratch, name: &str) -> usize {
    scratch.methods(name).iter().filter(|method| *method == "tools/call").count()
}

async fn failure(servers: &McpServers, tool: &str) -> ToolError {
    call(servers, "x", tool, json!({})).await.unwrap_err()
}

/// TM04: a call with effects is not sent again when its server dies; one that only reads is, once.
#[tokio::test]
async fn a_server_that_dies_in_a_call() {
    let scratch = Scratch::new();
    let mut entry = scratch.entry("x", &[]);
    entry.trust = true;
    let servers = scratch.servers([checked("x", entry)]);
    servers.learn("x").await.unwrap();
    let error = failure(&servers, "die").await;
    assert_eq!(error.outcome, ErrorOutcome::Unknown);
    let told = "The MCP server `x` was lost during the call: it exited with code 9. The call may have happened. Look before \
                you repeat it.";
    assert_eq!(error.message, told);
    assert_eq!(once_calls(&scratch, "x"), 1);
    let marker = scratch.path("marker").display().to_string();
    let output = call(&servers, "x", "die_once", json!({"marker": marker})).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.bytes), "alive");
    assert_eq!(once_calls(&scratch, "x"), 3);
}

/// TM05: answers that are too large or too deep end the call, and the server is started again.
#[tokio::test]
async fn monstrous_answers_end_the_call() {
    let scratch = Scratch::new();
    let servers = scratch.servers([scratch.config("x", &[])]);
    servers.learn("x").await.unwrap();
    for (tool, why) in [
        ("big", "it sent a message of more than 16 MiB"),
        ("endless", "it sent a message of more than 16 MiB"),
        ("deep", "it sent a broken message: recursion limit exceeded"),
    ] {
        let error = failure(&servers, tool).await;
        assert_eq!(error.outcome, ErrorOutcome::Unknown, "{tool}");
        assert!(error.message.contains(why), "{tool}: {error}");
        assert_eq!(text(&servers, "x", "echo").await, "{}", "after {tool}");
    }
}

/// TM05: an answer to another call is not taken for this one's, and a second answer is dropped.
#[tokio::test]
async fn answers_are_told_apart() {
    let scratch = Scratch::new();
    let mut entry = scratch.entry("x", &[]);
    entry.silence_seconds = Some(1);
    let servers = scratch.servers([checked("x", entry)]);
    servers.learn("x").await.unwrap();
    assert_eq!(text(&servers, "x", "doubled").await, "once or twice");
    assert_eq!(text(&servers, "x", "progress").await, "copied");
    let error = failure(&servers, "wrong_id").await;
    assert_eq!(error.outcome, ErrorOutcome::Unknown);
    assert!(error.message.contains("no result and no sign of progress for 1 s"), "{error}");
    assert_eq!(text(&servers, "x", "echo").await, "{}");
}
