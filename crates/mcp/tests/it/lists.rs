//! Lists of tools and their names.

use everturn_mcp::ServerState;
use serde_json::json;

use crate::{Scratch, checked};

fn names(servers: &everturn_mcp::McpServers, of: &[&str]) -> Vec<String> {
    servers.tools(of).unwrap().iter().map(|tool| tool.spec().name).collect()
}

/// TM06: two servers with the same tool have distinct names, and a third one changes none of them.
#[tokio::test]
async fn another_server_changes_no_name() {
    let scratch = Scratch::new();
    let odd = "ü".repeat(40) + "." + &"x".repeat(80);
    let list = json!([{"name": "search", "inputSchema": {"type": "object"}}, {"name": odd, "inputSchema": {"type": "object"}}]);
    std::fs::write(scratch.path("list.json"), list.to_string()).unwrap();
    let list = scratch.path("list.json").display().to_string();
    let config = |name: &str| scratch.config(name, &["--list", &list]);
    let two = scratch.servers([config("a"), config("b")]);
    two.learn("a").await.unwrap();
    two.learn("b").await.unwrap();
    let before = names(&two, &["a", "b"]);
    assert_eq!((before[0].as_str(), before[2].as_str()), ("mcp__a__search", "mcp__b__search"));
    assert_ne!(before[1], before[3]);
    let three = scratch.servers([config("a"), config("b"), config("c")]);
    three.learn("c").await.unwrap();
    assert_eq!(names(&three, &["a", "b", "c"])[..4], before);
}

/// A definition that cannot be offered is left out with the reason; the others are offered.
#[tokio::test]
async fn tools_that_cannot_be_offered_are_left_out() {
    let scratch = Scratch::new();
    let list = json!([
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}},
        {"name": "remote", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema"}}}},
        {"name": "huge", "inputSchema": {"type": "object", "description": "x".repeat(70_000)}},
        {"name": "good", "inputSchema": {"type": "object"}},
    ]);
    std::fs::write(scratch.path("list.json"), list.to_string()).unwrap();
    let mut entry = scratch.entry("x", &["--list", &scratch.path("list.json").display().to_string()]);
    entry.only = Some(vec!["good".into(), "bad".into(), "remote".into(), "huge".into()]);
    let servers = scratch.servers([checked("x", entry)]);
    let status = servers.learn("x").await.unwrap();
    let left_out: Vec<_> = status.tools.iter().map(|tool| (tool.name.as_str(), tool.left_out.is_some())).collect();
    assert_eq!(left_out, [("bad", true), ("good", false), ("remote", true)]);
    assert_eq!(status.refused.keys().collect::<Vec<_>>(), ["good", "huge"]);
}

/// A stored list that is damaged, or about another command, counts as none.
#[tokio::test]
async fn a_damaged_tool_cache_counts_as_none() {
    let scratch = Scratch::new();
    scratch.servers([scratch.config("x", &[])]).learn("x").await.unwrap();
    let state = |args: &[&str]| scratch.servers([scratch.config("x", args)]).status("x").unwrap().state;
    assert_eq!(state(&[]), ServerState::Known);
    assert_eq!(state(&["--noise"]), ServerState::Configured);
    let path = scratch.path("data/tools/x.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("The tool echo.", "The tool ECHO.")).unwrap();
    assert_eq!(state(&[]), ServerState::Configured);
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert_eq!(state(&[]), ServerState::Configured);
}
