//! Calls and their results.

use everturn::core::chat::Effect;
use everturn::{Approval, Beside};
use everturn_mcp::ServerState;
use serde_json::{Value, json};

use crate::{Scratch, call, checked, context, text, tool, until};

#[tokio::test]
async fn results_are_told_as_models_read_them() {
    let scratch = Scratch::new();
    let servers = scratch.servers([scratch.config("x", &[])]);
    servers.learn("x").await.unwrap();
    let parts = call(&servers, "x", "parts", json!({})).await.unwrap();
    let told = "one\n\nreport <file:///report.pdf> (application/pdf)\n\n<file:///a.txt>\ninside";
    assert_eq!(String::from_utf8_lossy(&parts.bytes), told);
    assert_eq!((parts.media.len(), parts.media[0].media_type.as_str()), (1, "image/png"));
    assert_eq!(parts.meta["mcp"]["for_people"][0]["text"], "for people");
    let structured = call(&servers, "x", "structured", json!({})).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&structured.bytes), "{\"n\":1}");
    assert_eq!(structured.meta["mcp"]["structured_content"], json!({"n": 1}));
    assert_eq!(call(&servers, "x", "fail", json!({})).await.unwrap_err().message, "no such city");
    let error = call(&servers, "x", "error", json!({})).await.unwrap_err();
    assert_eq!(error.message, "The MCP server `x` answered with error -32603: out of order");
    assert_eq!(text(&servers, "x", "noise").await, "after noise");
    assert_eq!(servers.status("x").unwrap().state, ServerState::Started);
}

/// Every call carries the chat and the call, the same over repetitions.
#[tokio::test]
async fn calls_have_a_key() {
    let scratch = Scratch::new();
    let servers = scratch.servers([scratch.config("x", &[])]);
    servers.learn("x").await.unwrap();
    text(&servers, "x", "echo").await;
    let log = std::fs::read_to_string(scratch.path("x.log")).unwrap();
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(last["params"]["_meta"]["dev.everturn/call"], format!("{}:3.1", context().chat));
}

/// One process per owner, and one for all calls of an owner.
#[tokio::test]
async fn owners_have_processes_of_their_own() {
    let scratch = Scratch::new();
    let servers = scratch.servers([scratch.config("x", &[])]);
    servers.learn("x").await.unwrap();
    let pid = tool(&servers, "x", "pid");
    let mut pids = Vec::new();
    for owner in ["ann", "ann", "bob"] {
        let mut context = context();
        context.owner = owner.into();
        pids.push(pid.run(context, json!({})).await.unwrap().output().unwrap().bytes);
    }
    assert_eq!(pids[0], pids[1]);
    assert_ne!(pids[0], pids[2]);
}

/// TM10: a server gets no key, no token and no address of a database.
#[tokio::test]
async fn a_server_has_a_clean_environment() {
    let scratch = Scratch::new();
    let mut entry = scratch.entry("x", &[]);
    entry.env.insert("GITHUB_TOKEN".into(), "given on purpose".into());
    let servers = scratch.servers([checked("x", entry)]);
    servers.learn("x").await.unwrap();
    let names = text(&servers, "x", "env").await;
    let names: Vec<_> = names.split(' ').collect();
    assert!(names.contains(&"GITHUB_TOKEN") && names.contains(&"PATH"), "{names:?}");
    let strange: Vec<_> =
        names.iter().filter(|name| name.starts_with("CARGO") || name.starts_with("NEXTEST")).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// TM13: an interrupt tells the server which call is not wanted any more.
#[tokio::test]
async fn an_interrupt_cancels_the_call() {
    let scratch = Scratch::new();
    let servers = scratch.servers([scratch.config("x", &[])]);
    servers.learn("x").await.unwrap();
    let context = context();
    let cancel = context.cancel.clone();
    let mute = tool(&servers, "x", "mute");
    let running = tokio::spawn(async move { mute.run(context, json!({})).await });
    until("the call", || scratch.methods("x").contains(&"tools/call".into())).await;
    cancel.cancel();
    let error = running.await.unwrap().unwrap_err();
    assert!(error.message.starts_with("The call was interrupted, and the MCP server `x` was told to stop."), "{error}");
    until("the cancellation", || scratch.methods("x").contains(&"notifications/cancelled".into())).await;
    let log = std::fs::read_to_string(scratch.path("x.log")).unwrap();
    let find = |method: &str| {
        log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|m| m["method"] == method).unwrap()
    };
    assert_eq!(find("notifications/cancelled")["params"]["requestId"], find("tools/call")["id"]);
}

/// Hints loosen nothing for a server that is not trusted, and the operator's words come first.
#[tokio::test]
async fn hints_count_for_trusted_servers_only() {
    let scratch = Scratch::new();
    let list = json!([
        {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "both", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true, "destructiveHint": true}},
        {"name": "set", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": true}},
        {"name": "put", "inputSchema": {"type": "object"},
         "annotations": {"idempotentHint": true, "destructiveHint": false, "openWorldHint": false}},
        {"name": "plain", "inputSchema": {"type": "object"}},
    ]);
    std::fs::write(scratch.path("list.json"), list.to_string()).unwrap();
    let list = scratch.path("list.json").display().to_string();
    let entry = || scratch.entry("x", &["--list", &list]);
    let mut trusted = entry();
    trusted.trust = true;
    trusted.tools =
        serde_json::from_value(json!({"plain": {"effect": "read", "permission": "allow"}, "both": {"off": true}}))
            .unwrap();
    let servers = scratch.servers([checked("x", entry()), checked("y", trusted)]);
    servers.learn("x").await.unwrap();
    servers.learn("y").await.unwrap();
    let policies = |server: &str| {
        let tools = servers.tools([server]).unwrap();
        let told = tools.iter().map(|tool| {
            let policy = tool.policy();
            (tool.spec().name.split_off(8), policy.effect, policy.approval, policy.beside)
        });
        told.collect::<Vec<_>>()
    };
    let careful = |name: &str| (name.to_owned(), Effect::Once, Approval::Needed, Beside::Serial);
    let destroys = ("both".to_owned(), Effect::Once, Approval::EachTime, Beside::Serial);
    let [look, plain, put, set] = ["look", "plain", "put", "set"].map(careful);
    assert_eq!(policies("x"), [destroys, look, plain, put, set]);
    let free = |name: &str| (name.to_owned(), Effect::Read, Approval::NotNeeded, Beside::Any);
    let put = ("put".to_owned(), Effect::Idempotent, Approval::NotNeeded, Beside::Serial);
    let set = ("set".to_owned(), Effect::Idempotent, Approval::Needed, Beside::Serial);
    assert_eq!(policies("y"), [free("look"), free("plain"), put, set]);
}
