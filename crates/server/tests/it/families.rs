//! Chats of sub-agents, as clients see them.

use std::sync::Arc;

use everturn::core::cost::Micros;
use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn::core::parent::{ParentCall, ParentChat, SubAgentsMax};
use everturn::stores::NewChat;
use everturn_server::wire::Status;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::stage::{Stage, kind};

fn ids(chats: &Value) -> Vec<&str> {
    chats["chats"].as_array().unwrap().iter().map(|chat| chat["id"].as_str().unwrap()).collect()
}

/// The chat of a sub-agent of this one.
async fn below(stage: &Stage, parent: &str) -> String {
    let chat: ChatId = parent.trim_start_matches("/v1/chats/").parse().unwrap();
    let most = SubAgentsMax { tokens: 1_000_000, cost: Micros(1_000_000) };
    let above = vec![ParentChat { chat, agent: "default".into(), most }];
    let call = CallUid { step: StepId(1), ordinal: 0 };
    let parent = Some(Arc::new(ParentCall { call, above }));
    let new = NewChat { parent, ..NewChat::of(stage.engine.new_id(), "launches", "me") };
    format!("/v1/chats/{}", stage.engine.make(&new).await.unwrap().id())
}

/// TA05, TA06: lists leave chats of sub-agents out unless they are asked for, their asks are listed with the chat above, and
/// they are deleted with it. A client cannot make a chat a sub-agent's.
#[tokio::test]
async fn chats_of_sub_agents_are_shown_with_their_parent() {
    let stage = Stage::new().await;
    let parent = stage.chat("default").await;
    let child = below(&stage, &parent).await;
    let [parent_id, child_id] = [&parent, &child].map(|path| path.trim_start_matches("/v1/chats/").to_owned());
    let (_, chats) = stage.get("/v1/chats").await;
    assert_eq!(ids(&chats), [parent_id.as_str()]);
    let (_, chats) = stage.get("/v1/chats?sub_agents=true").await;
    assert_eq!(ids(&chats).len(), 2);
    let (_, chats) = stage.get(&format!("/v1/chats?parent={parent_id}")).await;
    assert_eq!(ids(&chats), [child_id.as_str()]);
    assert_eq!(chats["chats"][0]["parent"], json!(parent_id));
    let (code, problem) = stage.get("/v1/chats?parent=odd").await;
    assert_eq!((code, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"));
    let (_, shown) = stage.get(&child).await;
    assert_eq!(shown["parent"], json!(parent_id));
    let (code, _) = stage.post("/v1/chats", json!({"parent": parent_id})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);

    let mut reader = stage.watch(&child).await;
    stage.say(&child, "Launch it").await;
    reader.until(|view| view.status.as_ref().is_some_and(|status| status.status == Status::Awaiting)).await;
    let (_, asks) = stage.get("/v1/asks").await;
    assert_eq!(asks["chats"][0]["chat"], json!(child_id), "{asks}");
    assert_eq!(asks["chats"][0]["parent"], json!(parent_id), "{asks}");

    let deleted = stage.ask(Method::DELETE, &parent).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    assert_eq!(stage.get(&child).await.0, StatusCode::NOT_FOUND);
}
