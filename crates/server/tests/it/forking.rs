//! Chats that begin with the messages of another chat.

use everturn_server::wire::Status;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::stage::{Stage, answer, kind};

async fn fork(stage: &Stage, chat: &str, body: Value, key: Option<&str>) -> (StatusCode, Value) {
    let request = stage.ask(Method::POST, &format!("{chat}/fork")).json(&body);
    let request = match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    };
    answer(request.send().await.unwrap()).await
}

fn path(chat: &Value) -> String {
    format!("/v1/chats/{}", chat["id"].as_str().unwrap())
}

/// A fork has the same messages under the same numbers, starts with zero cost, and goes on independently.
#[tokio::test]
async fn a_fork_goes_on_by_itself() {
    let stage = Stage::new().await;
    let chat = stage.talk("numbered", &["count to 3", "count to 4"]).await;
    let (status, made) = fork(&stage, &chat, json!({"at": 2, "title": "Another way"}), None).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    assert_eq!(
        (&made["agent"], &made["title"], &made["status"]),
        (&json!("numbered"), &json!("Another way"), &json!("idle"))
    );
    assert_eq!((&made["usage"]["attempts"], &made["version"]), (&json!(0), &json!(1)));
    let forked = path(&made);
    let (_, copied) = stage.get(&format!("{forked}/messages")).await;
    let (_, whole) = stage.get(&format!("{chat}/messages")).await;
    assert_eq!(copied["messages"].as_array().unwrap()[..], whole["messages"].as_array().unwrap()[..2]);
    let mut reader = stage.watch(&forked).await;
    stage.say(&forked, "count to 5").await;
    reader.until(|view| view.messages.len() == 4).await;
    let view = reader.until_rest().await;
    assert_eq!((crate::reader::reply(&view), view), ("t1 t2 t3 t4 t5".into(), stage.view(&forked).await));
    let (_, same) = stage.get(&format!("{chat}/messages")).await;
    assert_eq!(same, whole, "and the other has not changed");
    let (_, usage) = stage.get(&format!("{forked}/usage?each=true")).await;
    assert_eq!(usage["each"].as_array().unwrap().len(), 1);
    stage.server.stop().await;
}

/// Concurrent forks under one key create one chat; the key belongs to one request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyed_fork_is_made_once() {
    let stage = Stage::new().await;
    let chat = stage.talk("numbered", &["count to 3"]).await;
    let forks = (0..50).map(|_| fork(&stage, &chat, json!({"at": 2}), Some("f")));
    let mut forks: Vec<_> = futures_util::future::join_all(forks).await;
    forks.dedup();
    assert_eq!(forks.len(), 1, "{forks:?}");
    assert_eq!(stage.get("/v1/chats").await.1["chats"].as_array().unwrap().len(), 2);
    for body in [json!({"at": 1}), json!({"at": 2, "title": "x"})] {
        let (status, problem) = fork(&stage, &chat, body, Some("f")).await;
        assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"));
    }
    let made = stage.ask(Method::POST, "/v1/chats").header("idempotency-key", "f").json(&json!({}));
    let (status, problem) = answer(made.send().await.unwrap()).await;
    assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"), "keys of making chats are one space");
    stage.server.stop().await;
}

/// A fork at a missing message, or between a call and its result, is refused.
#[tokio::test]
async fn a_fork_is_a_whole_transcript() {
    let stage = Stage::new().await;
    let chat = stage.chat("asks").await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "Show me Oslo").await;
    let awaits = |view: &everturn_server::wire::View| {
        view.status.as_ref().is_some_and(|status| status.status == Status::Awaiting)
    };
    reader.until(awaits).await;
    for at in [0, 2, 3, u64::MAX >> 1] {
        let (status, problem) = fork(&stage, &chat, json!({"at": at}), None).await;
        assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "not-forkable"), "{at}");
        assert_eq!(problem["chat"]["status"], json!("awaiting"), "with where the chat stands");
    }
    for body in [
        json!({}),
        json!({"at": -1}),
        json!({"at": "1"}),
        json!({"at": 1, "owner": "you"}),
        json!({"at": 1, "title": " "}),
    ] {
        let (status, problem) = fork(&stage, &chat, body.clone(), None).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{body}");
    }
    let (status, _) = fork(&stage, &chat, json!({"at": 1}), None).await;
    assert_eq!(status, StatusCode::CREATED, "before the call all is well, also while the turn waits");
    stage.server.stop().await;
}

/// I2: a fork's key answers alike after its source was renamed or deleted. Other owners learn nothing from the key.
#[tokio::test]
async fn a_keyed_fork_outlives_its_source() {
    let stage = Stage::new().await;
    let other = "evt_of-somebody-else-who-may-do-anything";
    stage.grant(other, "you", &everturn::stores::Scope::ALL).await;
    let chat = stage.talk("numbered", &["count to 3"]).await;
    let (status, made) = fork(&stage, &chat, json!({"at": 2}), Some("f")).await;
    assert_eq!((status, &made["title"]), (StatusCode::CREATED, &json!("count to 3")));
    stage.send(Method::PATCH, &chat, json!({"title": "Renamed"})).await;
    assert_eq!(fork(&stage, &chat, json!({"at": 2}), Some("f")).await, (status, made.clone()));
    let theirs = async |path: &str, body: Value| {
        let request = stage.client.post(format!("{}{path}/fork", stage.base)).bearer_auth(other);
        answer(request.header("idempotency-key", "f").json(&body).send().await.unwrap()).await
    };
    let nowhere = "/v1/chats/00000000000000000000000000";
    for body in [json!({"at": 2}), json!({})] {
        assert_eq!(theirs(&chat, body.clone()).await, theirs(nowhere, body).await, "as if it were not there");
    }
    assert_eq!(theirs(&chat, json!({"at": 2})).await.0, StatusCode::NOT_FOUND);
    let made_theirs = stage.client.post(format!("{}/v1/chats", stage.base)).bearer_auth(other);
    let made_theirs = made_theirs.header("idempotency-key", "f").json(&json!({})).send().await.unwrap();
    assert_eq!(made_theirs.status(), StatusCode::CREATED);
    for body in [json!({"at": 2}), json!({"at": 2, "model": "understudy/other"}), json!({"at": 2, "title": "x"})] {
        let told = theirs(&chat, body.clone()).await;
        assert_eq!(told, theirs(nowhere, body).await, "also with a key they have used");
        assert_eq!(kind(&told.1), "key-reused");
    }
    assert_eq!(stage.ask(Method::DELETE, &chat).send().await.unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(fork(&stage, &chat, json!({"at": 2}), Some("f")).await, (status, made));
    let (status, problem) = fork(&stage, &chat, json!({"at": 1}), Some("f")).await;
    assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"));
    for key in [Some("g"), None] {
        let (status, problem) = fork(&stage, &chat, json!({"at": 2}), key).await;
        assert_eq!((status, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"));
    }
    assert_eq!(theirs(&chat, json!({"at": 2})).await, theirs(nowhere, json!({"at": 2})).await);
    stage.server.stop().await;
}

/// A chat can be created with an imported transcript, all of it or nothing; under a key it is created once.
#[tokio::test]
async fn a_chat_begins_with_a_transcript() {
    let stage = Stage::new().await;
    let make = async |transcript: Value, key: &str| {
        let request = stage.ask(Method::POST, "/v1/chats").header("idempotency-key", key);
        answer(request.json(&json!({"agent": "numbered", "transcript": transcript})).send().await.unwrap()).await
    };
    let said = json!([
        {"role": "user", "content": "count to 2"},
        {"role": "assistant", "content": [{"type": "text", "text": "t1 t2"}]},
    ]);
    let (status, made) = make(said.clone(), "a").await;
    assert_eq!((status, &made["status"], &made["title"]), (StatusCode::CREATED, &json!("idle"), &json!("count to 2")));
    assert_eq!(make(said.clone(), "a").await.1["id"], made["id"]);
    let other = json!([said[0], {"role": "assistant", "content": "t1"}]);
    assert_eq!(kind(&make(other, "a").await.1), "key-reused");
    let chat = path(&made);
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "count to 5").await;
    reader.until(|view| view.messages.len() == 4).await;
    assert_eq!(crate::reader::reply(&reader.until_rest().await), "t1 t2 t3 t4 t5");

    let calls = json!([{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}]);
    let cases = [
        (json!([said[0], {"role": "assistant", "content": "", "tool_calls": calls}]), "the call of look has no result"),
        (json!([{"role": "system", "content": "Be brief."}, said[0]]), "instructions"),
        (json!("count to 2"), "cannot be imported"),
    ];
    for (transcript, why) in cases {
        let (status, problem) = make(transcript, "b").await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(why), "{problem}");
    }
}
