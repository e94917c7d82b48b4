//! Questions of servers, answered by people.

use std::sync::Arc;

use everturn::core::chat::OpenCall;
use everturn::core::command::CallAnswer;
use everturn::core::message::{Body, CallResult, CallVerdict, Stop};
use everturn::stores::Memory;
use everturn::{Agent, ChatHandle, Engine, Rest};
use everturn_mcp::McpServers;
use everturn_understudy::{Script, Understudy, call, script, stop, text};
use serde_json::{Value, json};

use crate::script::colour;
use crate::{Scratch, checked, until};

async fn servers(scratch: &Scratch) -> McpServers {
    let tasks = scratch.path("tasks");
    std::fs::create_dir_all(&tasks).unwrap();
    let mut entry = scratch.entry("x", &["--speaks", "2026-07-28", "--tasks", &tasks.display().to_string()]);
    let allowed = json!({"task": {"permission": "allow"}, "question": {"permission": "allow"}});
    entry.tools = serde_json::from_value(allowed).unwrap();
    let servers = scratch.servers([checked("x", entry)]);
    servers.learn("x").await.unwrap();
    servers
}

fn calls(tool: &str) -> Script {
    script([call(&format!("mcp__x__{tool}"), json!({})), stop(Stop::ToolUse)])
}

/// A process with servers of its own, on the same store.
async fn process(scratch: &Scratch, store: &Arc<Memory>, first: Option<Script>) -> Engine {
    let model = Understudy::new(first.into_iter().chain([script([text("Done."), stop(Stop::End)])]));
    let servers = servers(scratch).await;
    let agent = Agent::new("understudy/any".parse().unwrap()).live_tools(servers.toolbox(["x"]).unwrap());
    let engine = Engine::builder().store(store.clone()).provider(model).agent("a", agent).start();
    engine.resume().await.unwrap();
    engine
}

async fn asked(chat: &ChatHandle) -> OpenCall {
    match chat.rest().await.unwrap() {
        Rest::Awaiting(asks) => asks[0].clone(),
        Rest::Idle(ended) => panic!("nothing is asked: {ended:?}"),
    }
}

fn question(ask: &OpenCall) -> Value {
    assert!(ask.questions());
    serde_json::from_str(ask.input.as_deref().unwrap()).unwrap()
}

async fn result(chat: &ChatHandle) -> CallResult {
    chat.rest().await.unwrap();
    let transcript = chat.transcript().await.unwrap();
    let found = transcript.iter().find_map(|message| match &message.body {
        Body::Result(result) => Some((**result).clone()),
        _ => None,
    });
    found.unwrap()
}

/// TM12: a question is answered after two restarts. An answer that does not fit is asked for again, without the server.
#[tokio::test]
async fn a_question_outlives_restarts() {
    let scratch = Scratch::new();
    let store = Arc::new(Memory::default());
    let first = process(&scratch, &store, Some(calls("question"))).await;
    let chat = first.create("a").await.unwrap();
    chat.send("Paint.").await.unwrap();
    let ask = asked(&chat).await;
    let schema = colour()["params"]["requestedSchema"].clone();
    let told = json!({"mcp_server": "x", "message": "Which colour?", "schema": schema});
    assert_eq!(question(&ask), told);
    first.shutdown().await;
    process(&scratch, &store, None).await.shutdown().await;
    let last = process(&scratch, &store, None).await;
    let chat = last.chat(chat.id());
    assert_eq!(question(&asked(&chat).await), told);
    chat.answer([CallAnswer::output(ask.uid, "green")]).await.unwrap();
    let again = question(&asked(&chat).await);
    assert_eq!(again["problem"], "The answer is not JSON: expected value at line 1 column 1.");
    chat.answer([CallAnswer::output(ask.uid, r#"{"name": "green"}"#)]).await.unwrap();
    let result = result(&chat).await;
    let said = r#"{"action":"accept","content":{"name":"green"}}"#;
    assert_eq!((result.verdict, result.output.text.as_str()), (CallVerdict::Done, said));
    assert_eq!(scratch.methods("x").iter().filter(|method| *method == "tools/call").count(), 2);
}

/// A question that a person does not answer is declined, and the server says what becomes of the call.
#[tokio::test]
async fn a_question_may_be_declined() {
    let scratch = Scratch::new();
    let engine = process(&scratch, &Arc::default(), Some(calls("question"))).await;
    let chat = engine.create("a").await.unwrap();
    chat.send("Paint.").await.unwrap();
    let ask = asked(&chat).await;
    chat.answer([CallAnswer::error(ask.uid, "It is a secret.")]).await.unwrap();
    assert_eq!(result(&chat).await.output.text, r#"{"action":"decline"}"#);
}

/// A task that asks rests again once it has its answer.
#[tokio::test]
async fn a_task_may_ask() {
    let scratch = Scratch::new();
    let engine = process(&scratch, &Arc::default(), Some(calls("task"))).await;
    let chat = engine.create("a").await.unwrap();
    chat.send("Paint.").await.unwrap();
    until("a look at the task", || scratch.methods("x").contains(&"tasks/get".into())).await;
    let task = json!({"status": "input_required", "inputRequests": {"colour": colour()}});
    std::fs::write(scratch.path("tasks/task-1"), task.to_string()).unwrap();
    let ask = asked(&chat).await;
    assert_eq!(question(&ask)["message"], "Which colour?");
    chat.answer([CallAnswer::output(ask.uid, r#"{"name": "green"}"#)]).await.unwrap();
    let result = result(&chat).await;
    let said = r#"{"colour":{"action":"accept","content":{"name":"green"}}}"#;
    assert_eq!((result.verdict, result.output.text.as_str()), (CallVerdict::Done, said));
}
