//! A chat whose agent is not in the configuration any more.

use everturn::core::ids::ChatId;
use everturn::stores::{NewChat, Store as _};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::stage::{Stage, kind};

/// Such a chat can be read, renamed, archived and deleted. A request that would begin a turn gets 409 with the missing
/// agent's name, not 503: waiting does not help.
#[tokio::test]
async fn a_chat_without_its_agent_is_still_its_owners() {
    let stage = Stage::new().await;
    let id = ChatId::from_u128(7);
    stage.memory.create(&NewChat::of(id, "gone", "me")).await.unwrap();
    let chat = format!("/v1/chats/{id}");
    for (method, path, body) in [
        (Method::POST, "/messages", json!({"text": "Are you there?"})),
        (Method::PUT, "/messages/1", json!({"text": "Are you there?"})),
        (Method::POST, "/compact", json!({})),
    ] {
        let (status, problem) = stage.send(method, &format!("{chat}{path}"), body).await;
        assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "no-agent"), "{path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("`gone`") && detail.contains("configuration"), "{detail}");
    }
    let (status, shown) = stage.send(Method::PATCH, &chat, json!({"title": "Left behind", "archived": true})).await;
    assert_eq!((status, &shown["title"], &shown["archived"]), (StatusCode::OK, &json!("Left behind"), &json!(true)));
    for path in ["", "/messages", "/queue", "/usage", "/export"] {
        assert_eq!(stage.get(&format!("{chat}{path}")).await.0, StatusCode::OK, "{path}");
    }
    let (status, _) = stage.post(&format!("{chat}/interrupt"), json!({})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(stage.ask(Method::DELETE, &chat).send().await.unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(stage.get(&chat).await.0, StatusCode::NOT_FOUND);
    stage.server.stop().await;
}
