//! Whole turns of an agent with an MCP server.

use everturn::core::chat::OpenCall;
use everturn::core::command::CallAnswer;
use everturn::core::ids::Timestamp;
use everturn::core::message::{Body, CallVerdict, Stop};
use everturn::{Agent, ChatHandle, Engine, Rest, ToolContext, tool};
use everturn_mcp::{McpOptions, McpServers};
use everturn_understudy::{Script, Understudy, call, script, stop, text};
use serde_json::{Value, json};

use crate::{Scratch, UNDERSTUDY, checked, until};

async fn played(servers: &McpServers, name: &str, model: Understudy) -> Vec<Body> {
    let mut agent = Agent::new("understudy/any".parse().unwrap()).live_tools(servers.toolbox([name]).unwrap());
    agent.hook = Some(std::sync::Arc::new(servers.hook([name]).unwrap()));
    let engine = Engine::builder().provider(model).agent("a", agent).start();
    let chat = engine.create("a").await.unwrap();
    chat.send("Look.").await.unwrap();
    chat.rest().await.unwrap();
    let transcript = chat.transcript().await.unwrap();
    transcript.iter().map(|message| message.body.clone()).collect()
}

/// A server that was just configured is waited for, and its tool runs in the first turn.
#[tokio::test]
async fn the_first_turn_has_the_tools() {
    let scratch = Scratch::new();
    let mut entry = scratch.entry("x", &[]);
    entry.tools = serde_json::from_value(json!({"echo": {"permission": "allow"}})).unwrap();
    let options = McpOptions::new(scratch.path("data")).with_helper(UNDERSTUDY);
    let servers = McpServers::start([checked("x", entry)], options);
    let model = Understudy::new([
        script([call("mcp__x__echo", json!({"a": 1})), stop(Stop::ToolUse)]),
        script([text("Done."), stop(Stop::End)]),
    ]);
    let bodies = played(&servers, "x", model).await;
    let result = bodies.iter().find_map(|body| match body {
        Body::Result(result) => Some(result),
        _ => None,
    });
    let result = result.unwrap();
    assert_eq!((result.verdict, result.output.text.as_str()), (CallVerdict::Done, "{\"a\":1}"));
}

/// A server that does not start is told of once, and the turn goes on.
#[tokio::test]
async fn the_first_turn_goes_on_without_a_broken_server() {
    let scratch = Scratch::new();
    let options = McpOptions::new(scratch.path("data")).with_helper(UNDERSTUDY);
    let servers = McpServers::start([scratch.config("x", &["--exit"])], options);
    let model = Understudy::new([script([text("Done."), stop(Stop::End)])]);
    let bodies = played(&servers, "x", model).await;
    let notes: Vec<_> = bodies
        .iter()
        .filter_map(|body| match body {
            Body::Context(note) => Some(note.as_str()),
            _ => None,
        })
        .collect();
    let told = "The tools of the MCP server `x` are not available now: it exited with code 3. It said: starting | [31mno \
                licence found[0m.";
    assert_eq!(notes, [told]);
}

/// A list with `relist`, which replaces the list, and `search`, described and hinted like this.
fn list(described: &str, hints: &Value) -> Value {
    let any = json!({"type": "object"});
    json!([
        {"name": "relist", "inputSchema": any},
        {"name": "search", "description": described, "inputSchema": any, "annotations": hints},
    ])
}

/// A server whose list of tools may change, and `relist` runs without approval.
async fn changing(scratch: &Scratch) -> McpServers {
    let path = scratch.path("list.json");
    std::fs::write(&path, list("Finds pages.", &json!({})).to_string()).unwrap();
    let mut entry = scratch.entry("x", &["--speaks", "2025-11-25", "--list", &path.display().to_string()]);
    entry.tools = serde_json::from_value(json!({"relist": {"permission": "allow"}})).unwrap();
    let servers = scratch.servers([checked("x", entry)]);
    servers.learn("x").await.unwrap();
    servers
}

/// Waits until the server's list is another one.
fn watching(servers: &McpServers) -> impl everturn::Tool {
    let servers = servers.clone();
    tool("watch", "Waits for another list.", move |_: ToolContext, wanted: Value| {
        let servers = servers.clone();
        async move {
            let newest = || servers.status("x").unwrap().known.unwrap().tools;
            let is_there =
                || newest().iter().any(|tool| tool.name == "more" || json!(tool.description) == wanted["for"]);
            until("the other list", is_there).await;
            Ok("it is there")
        }
    })
}

fn calls(tool: &str, input: Value) -> Script {
    script([call(tool, input), stop(Stop::ToolUse)])
}

fn says() -> Script {
    script([text("Done."), stop(Stop::End)])
}

/// TM07: a list that changes in a turn changes nothing until the next turn.
#[tokio::test]
async fn the_tools_of_a_turn_stay_the_same() {
    let scratch = Scratch::new();
    let servers = changing(&scratch).await;
    let mut longer = list("Finds pages.", &json!({}));
    longer.as_array_mut().unwrap().push(json!({"name": "more", "inputSchema": {"type": "object"}}));
    let model = Understudy::new([
        calls("mcp__x__relist", json!({ "tools": longer })),
        calls("watch", json!({})),
        says(),
        says(),
    ]);
    let agent = Agent::new("understudy/any".parse().unwrap()).tool(watching(&servers)).unwrap();
    let agent = agent.live_tools(servers.toolbox(["x"]).unwrap());
    let engine = Engine::builder().provider(model.clone()).agent("a", agent).start();
    let chat = engine.create("a").await.unwrap();
    for _ in 0..2 {
        chat.send("Look.").await.unwrap();
        chat.rest().await.unwrap();
    }
    let offered: Vec<_> = model.requests().into_iter().map(|request| request.tools).collect();
    assert_eq!((&offered[0], &offered[0]), (&offered[1], &offered[2]));
    let names: Vec<_> = offered[3].iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["mcp__x__more", "mcp__x__relist", "mcp__x__search", "watch"]);
}

async fn asked(chat: &ChatHandle) -> Option<OpenCall> {
    chat.send("Look.").await.unwrap();
    match chat.rest().await.unwrap() {
        Rest::Awaiting(asks) => asks.into_iter().next(),
        Rest::Idle(_) => None,
    }
}

/// TM09: a grant ends when the server describes the tool otherwise or calls it destructive, which can then be allowed only
/// once.
#[tokio::test]
async fn a_changed_definition_ends_grants() {
    let scratch = Scratch::new();
    let servers = changing(&scratch).await;
    let search = || [calls("mcp__x__search", json!({})), says()];
    let change = |described: &str, hints: Value| {
        let tools = list(described, &hints);
        [calls("mcp__x__relist", json!({ "tools": tools })), calls("watch", json!({"for": described})), says()]
    };
    let mut scripts = Vec::new();
    scripts.extend(search());
    scripts.extend(search());
    scripts.extend(change("Finds pages, and pays.", json!({})));
    scripts.extend(search());
    scripts.extend(change("Finds pages, and pays twice.", json!({"destructiveHint": true})));
    scripts.extend(search());
    let agent = Agent::new("understudy/any".parse().unwrap()).tool(watching(&servers)).unwrap();
    let agent = agent.live_tools(servers.toolbox(["x"]).unwrap());
    let engine = Engine::builder().provider(Understudy::new(scripts)).agent("a", agent).start();
    let chat = engine.create("a").await.unwrap();
    let grant = |ask: &OpenCall| CallAnswer::grant(ask, "laptop", Timestamp(i64::MAX));
    let first = asked(&chat).await.unwrap();
    chat.answer([grant(&first)]).await.unwrap();
    chat.rest().await.unwrap();
    assert_eq!(asked(&chat).await, None, "it is granted");
    assert_eq!(asked(&chat).await, None, "the list changes");
    let again = asked(&chat).await.unwrap();
    assert_eq!(again.ask.as_ref().unwrap().grant.as_deref(), Some("mcp__x__search"));
    chat.answer([grant(&again)]).await.unwrap();
    chat.rest().await.unwrap();
    assert_eq!(asked(&chat).await, None, "the list changes");
    let last = asked(&chat).await.unwrap();
    assert_eq!(last.ask.unwrap().grant, None, "each call for itself");
}
