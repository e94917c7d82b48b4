//! Deleting chats.

use std::time::Duration;

use everturn_server::ServerLimits;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::audited::{asking, send_and_go};
use crate::stage::{Stage, answer, kind};

async fn delete(stage: &Stage, chat: &str) -> (StatusCode, Value) {
    answer(stage.ask(Method::DELETE, chat).send().await.unwrap()).await
}

/// Every route of a deleted chat answers 404, its streams end, and a second delete is 404.
#[tokio::test]
async fn a_deleted_chat_is_gone() {
    let stage = Stage::new().await;
    let chat = stage.talk("numbered", &["count to 3"]).await;
    let other = stage.talk("numbered", &["count to 4"]).await;
    let mut watching = stage.watch(&chat).await;
    watching.until_rest().await;
    assert_eq!(delete(&stage, &chat).await, (StatusCode::NO_CONTENT, json!("")));
    watching.until_the_end().await;
    assert_eq!(watching.comments.last().unwrap(), "bye, the chat is gone");
    for path in ["", "/messages", "/queue", "/usage", "/stream", "/export", "/messages/1/files/0"] {
        let (status, problem) = stage.get(&format!("{chat}{path}")).await;
        assert_eq!((status, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"), "{path}");
    }
    let (status, _) = stage.post(&format!("{chat}/messages"), json!({"text": "still there?"})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(delete(&stage, &chat).await.0, StatusCode::NOT_FOUND);
    let (_, list) = stage.get("/v1/chats").await;
    let left: Vec<String> = list["chats"]
        .as_array()
        .unwrap()
        .iter()
        .map(|chat| format!("/v1/chats/{}", chat["id"].as_str().unwrap()))
        .collect();
    assert_eq!(left, [other]);
    stage.server.stop().await;
}

/// A delete goes on after its client hung up while the turn was being stopped: the chat does not stay with an empty queue.
#[tokio::test]
async fn a_delete_outlives_its_connection() {
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    let (chat, _, _reader) = asking(&stage, "result").await;
    store.outcomes.shut();
    send_and_go(&stage, Method::DELETE, &chat, &json!({}), store.outcomes.until(1)).await;
    assert_eq!(stage.get(&chat).await.0, StatusCode::OK);
    store.outcomes.open();
    let gone = async {
        while stage.get(&chat).await.0 != StatusCode::NOT_FOUND {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it is still there");
    stage.server.stop().await;
}

/// Deleting stops a running turn first, drops queued messages, and leaves no driver.
#[tokio::test]
async fn a_running_turn_is_stopped_first() {
    let stage = Stage::with(ServerLimits::default(), Duration::from_millis(1)).await;
    let chat = stage.chat("numbered").await;
    let mut watching = stage.watch(&chat).await;
    stage.say(&chat, "count to 100000").await;
    watching.until(|view| view.draft.as_ref().is_some_and(|draft| draft.n > 5)).await;
    for _ in 0..3 {
        stage.say(&chat, "count to 100000").await;
    }
    assert_eq!(delete(&stage, &chat).await.0, StatusCode::NO_CONTENT);
    watching.until_the_end().await;
    assert_eq!(watching.comments.last().unwrap(), "bye, the chat is gone");
    let is_idle = async || stage.get("/metrics").await.1.as_str().unwrap().contains("everturn_drivers 0\n");
    tokio::time::timeout(Duration::from_secs(30), async {
        while !is_idle().await {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("no driver is left");
    stage.server.stop().await;
}

/// Of concurrent deletes one gets 204, the others 404.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_concurrent_deletes_succeeds() {
    let stage = Stage::with(ServerLimits::default(), Duration::from_millis(1)).await;
    for _ in 0..10 {
        let chat = stage.chat("numbered").await;
        stage.say(&chat, "count to 100000").await;
        let deletes = futures_util::future::join_all((0..5).map(|_| delete(&stage, &chat))).await;
        let mut codes: Vec<u16> = deletes.iter().map(|(status, _)| status.as_u16()).collect();
        codes.sort_unstable();
        assert_eq!(codes, [204, 404, 404, 404, 404]);
    }
    stage.server.stop().await;
}

/// The key a chat was made under is free again when it is gone.
#[tokio::test]
async fn its_key_is_free_again() {
    let stage = Stage::new().await;
    let make = async || {
        let request = stage.ask(Method::POST, "/v1/chats").header("idempotency-key", "k").json(&json!({}));
        answer(request.send().await.unwrap()).await.1["id"].as_str().unwrap().to_owned()
    };
    let first = make().await;
    assert_eq!(make().await, first);
    delete(&stage, &format!("/v1/chats/{first}")).await;
    assert_ne!(make().await, first);
    stage.server.stop().await;
}
