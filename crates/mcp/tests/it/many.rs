//! More tools than a prompt should describe.

use std::sync::Arc;

use everturn::core::command::CallAnswer;
use everturn::core::message::{Body, CallResult, CallVerdict, Stop};
use everturn::core::permission::Permissions;
use everturn::stores::Memory;
use everturn::{Agent, ChatHandle, Engine, Rest};
use everturn_mcp::McpServers;
use everturn_understudy::{Script, Understudy, call, script, stop, text};
use serde_json::{Value, json};

use crate::{Scratch, checked};

/// Two servers with 201 tools each. One has `echo`, the other one `pid`.
async fn servers(scratch: &Scratch, always: bool) -> McpServers {
    let mut configs = Vec::new();
    for (server, special) in [("a", "echo"), ("b", "pid")] {
        let described =
            "Does one of very many things, which takes a while to describe and is of no use to anybody here.";
        let tool =
            |n: usize| json!({"name": format!("t{n:03}"), "description": described, "inputSchema": {"type": "object"}});
        let mut list: Vec<Value> = (0..200).map(tool).collect();
        let words = json!({"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]});
        list.push(json!({"name": special, "description": format!("The special {special}."), "inputSchema": words}));
        let path = scratch.path(&format!("{server}.json"));
        std::fs::write(&path, json!(list).to_string()).unwrap();
        let mut entry = scratch.entry(server, &["--list", &path.display().to_string()]);
        entry.always = always && server == "b";
        configs.push(checked(server, entry));
    }
    let servers = scratch.servers(configs);
    servers.learn("a").await.unwrap();
    servers.learn("b").await.unwrap();
    servers
}

fn agent(servers: &McpServers) -> Agent {
    Agent::new("understudy/any".parse().unwrap()).live_tools(servers.toolbox(["a", "b"]).unwrap())
}

fn calls(tool: &str, input: Value) -> Script {
    script([call(tool, input), stop(Stop::ToolUse)])
}

fn says() -> Script {
    script([text("Done."), stop(Stop::End)])
}

async fn results(chat: &ChatHandle) -> Vec<CallResult> {
    let transcript = chat.transcript().await.unwrap();
    let result = |body: &Body| match body {
        Body::Result(result) => Some((**result).clone()),
        _ => None,
    };
    transcript.iter().filter_map(|message| result(&message.body)).collect()
}

async fn asked(chat: &ChatHandle) -> Option<everturn::core::chat::OpenCall> {
    chat.send("Go.").await.unwrap();
    match chat.rest().await.unwrap() {
        Rest::Awaiting(asks) => asks.into_iter().next(),
        Rest::Idle(_) => None,
    }
}

/// TM14: two tools are offered in place of 402. A found one asks by its own rules, also after a restart without another
/// search; one that is denied is denied, and a wrong input is refused by its own schema.
#[tokio::test]
async fn many_tools_are_searched_for() {
    let scratch = Scratch::new();
    let servers = servers(&scratch, false).await;
    let used = || calls("use_tool", json!({"tool": "mcp__a__echo", "input": {"words": "hello"}}));
    let model = Understudy::new([calls("find_tools", json!({"query": "special echo"})), used(), says()]);
    let store = Arc::new(Memory::default());
    let builder = || Engine::builder().store(store.clone());
    let engine = builder().provider(model.clone()).agent("a", agent(&servers)).start();
    let chat = engine.create("a").await.unwrap();
    let ask = asked(&chat).await.unwrap();
    assert_eq!(ask.ask.as_ref().unwrap().grant.as_deref(), Some("mcp__a__echo"));
    let offered = model.requests()[0].tools.clone();
    assert_eq!(offered.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["find_tools", "use_tool"]);
    chat.answer([CallAnswer::approve(&ask)]).await.unwrap();
    chat.rest().await.unwrap();
    let told = results(&chat).await;
    let first = "mcp__a__echo\nThe special echo.\nInput: {\"properties\":{\"words\":{\"type\":\"string\"}},\"required\":[\"words\"],\
                 \"type\":\"object\"}";
    assert!(told[0].output.text.starts_with(first), "{}", told[0].output.text);
    assert_eq!((told[1].tool.as_str(), told[1].output.text.as_str()), ("use_tool", "{\"words\":\"hello\"}"));
    engine.shutdown().await;

    let wrong = calls("use_tool", json!({"tool": "mcp__a__echo", "input": {"words": 7}}));
    let itself = calls("use_tool", json!({"tool": "use_tool", "input": {"tool": "mcp__a__echo", "input": {}}}));
    let model = Understudy::new([used(), wrong, itself, says()]);
    let engine = builder().provider(model.clone()).agent("a", agent(&servers)).start();
    let chat = engine.chat(chat.id());
    let ask = asked(&chat).await.unwrap();
    chat.answer([CallAnswer::approve(&ask)]).await.unwrap();
    chat.rest().await.unwrap();
    assert_eq!(model.requests()[0].tools, offered);
    let told = results(&chat).await;
    assert_eq!((told[2].verdict, told[2].output.text.as_str()), (CallVerdict::Done, "{\"words\":\"hello\"}"));
    assert!(told[3].output.text.starts_with("The input does not fit the tool's schema: /words"), "{told:?}");
    assert_eq!(told[4].output.text, "`use_tool` cannot call `use_tool`.");
    engine.shutdown().await;

    let denies = Permissions::default().deny(["mcp__a__*"]).unwrap();
    let denying = agent(&servers).permissions(denies).unwrap();
    let engine = builder().provider(Understudy::new([used(), says()])).agent("a", denying).start();
    let chat = engine.chat(chat.id());
    assert_eq!(asked(&chat).await, None);
    assert_eq!(results(&chat).await[5].verdict, CallVerdict::Denied);
}

/// A server that is always offered is, and the others are searched for.
#[tokio::test]
async fn some_servers_are_always_offered() {
    let scratch = Scratch::new();
    let servers = servers(&scratch, true).await;
    let offered = agent(&servers).offered();
    assert_eq!(offered.len(), 203);
    let find = offered.iter().find(|spec| spec.name == "find_tools").unwrap();
    assert!(find.description.starts_with("Searches tools that are not listed here, of: a."), "{}", find.description);
    assert!(offered.iter().any(|spec| spec.name == "mcp__b__pid"));
}
