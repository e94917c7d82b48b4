//! One effect per request id.

use std::collections::BTreeSet;
use std::sync::Arc;

use everturn_server::ServerLimits;
use everturn_server::wire::{Body, Message};
use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stage::{Stage, TOKEN, answer, kind};

async fn keyed(stage: &Stage, method: Method, path: &str, key: &str, body: Value) -> (StatusCode, Value) {
    answer(stage.ask(method, path).header("idempotency-key", key).json(&body).send().await.unwrap()).await
}

/// A thousand concurrent repeats create one message and get one answer; the same holds for creating a chat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_repeats_has_one_effect() {
    let stage = Arc::new(Stage::new().await);
    let storm = async |path: String, body: Value| {
        let repeats = (0..1_000).map(|_| {
            let (stage, path, body) = (stage.clone(), path.clone(), body.clone());
            tokio::spawn(async move { keyed(&stage, Method::POST, &path, "storm", body).await })
        });
        let answers = join_all(repeats).await.into_iter().map(Result::unwrap);
        let answers: BTreeSet<(u16, String)> =
            answers.map(|(status, body)| (status.as_u16(), body["id"].to_string())).collect();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.into_iter().next().unwrap()
    };
    let (status, id) = storm("/v1/chats".into(), json!({"agent": "numbered", "title": "Once"})).await;
    assert_eq!(status, 201);
    let (_, page) = stage.get("/v1/chats").await;
    assert_eq!(page["chats"].as_array().unwrap().len(), 1);
    let chat = format!("/v1/chats/{}", id.trim_matches('"'));
    let mut reader = stage.watch(&chat).await;
    let (status, _) = storm(format!("{chat}/messages"), json!({"text": "count to 3"})).await;
    assert_eq!(status, 202);
    assert_eq!(reader.until_rest().await.messages.len(), 2);
}

/// I2: two concurrent requests for a token under one key create one token, and both get it.
#[tokio::test]
async fn repeats_that_meet_make_one_token() {
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    let stage = Arc::new(stage);
    let make = || {
        let (stage, new) = (stage.clone(), json!({"name": "phone", "scopes": ["read"], "seconds": 60}));
        tokio::spawn(async move { keyed(&stage, Method::POST, "/v1/tokens", "met", new).await })
    };
    store.puts.shut();
    let first = make();
    store.puts.until(1).await;
    let then = stage.engine.now();
    while stage.engine.now() == then {
        tokio::task::yield_now().await;
    }
    let second = make();
    store.puts.until(2).await;
    store.puts.open();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!((first.0, &first), (StatusCode::CREATED, &second));
    let (_, list) = stage.get("/v1/tokens").await;
    assert_eq!(list["tokens"].as_array().unwrap().len(), 2, "that one, and the one of the tests");
}

/// I2: a request whose body is cut off has no effect, even if the received part is valid JSON; its key stays free for
/// the complete request.
#[tokio::test]
async fn half_a_request_has_no_effect() {
    let stage = Stage::new().await;
    let (chat, host) = (stage.chat("numbered").await, stage.base.strip_prefix("http://").unwrap());
    let (_, before) = stage.get("/v1/chats").await;
    let requests = [
        ("/v1/chats".to_owned(), json!({"title": "Kelp"}), StatusCode::CREATED),
        (format!("{chat}/messages"), json!({"text": "count to 2"}), StatusCode::ACCEPTED),
    ];
    for (path, body, _) in &requests {
        let text = body.to_string();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\nidempotency-key: k\r\n");
        let head = format!("{head}content-type: application/json\r\n");
        for cut in [
            format!("{head}content-length: {}\r\n\r\n{}", text.len(), &text[..text.len() / 2]),
            format!("{head}content-length: {}\r\n\r\n{text}", text.len() + 1),
            format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{text}\r\n", text.len()),
        ] {
            let mut stream = TcpStream::connect(stage.server.address()).await.unwrap();
            stream.write_all(cut.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answered = String::new();
            let _ = stream.read_to_string(&mut answered).await; // A clean end and a reset are both fine.
            assert!(!answered.starts_with("HTTP/1.1 2"), "{cut}: {answered}");
        }
    }
    assert_eq!(stage.get("/v1/chats").await.1, before, "nothing was made, and nothing was said");
    for (path, body, status) in requests {
        let whole = keyed(&stage, Method::POST, &path, "k", body.clone()).await;
        assert_eq!(whole.0, status);
        assert_eq!(keyed(&stage, Method::POST, &path, "k", body).await, whole);
    }
    stage.server.stop().await;
}

/// A key used again with another body is refused, for every kind of request.
#[tokio::test]
async fn a_key_belongs_to_one_request() {
    let stage = Stage::new().await;
    let (_, chat) = keyed(&stage, Method::POST, "/v1/chats", "a", json!({"title": "One"})).await;
    for body in [json!({"agent": "numbered"}), json!({"title": "Two"})] {
        let (status, problem) = keyed(&stage, Method::POST, "/v1/chats", "a", body).await;
        assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"));
    }
    let chat = format!("/v1/chats/{}", chat["id"].as_str().unwrap());
    let messages = format!("{chat}/messages");
    keyed(&stage, Method::POST, &messages, "b", json!({"text": "One"})).await;
    for (method, path, body) in [
        (Method::POST, &messages, json!({"text": "Two"})),
        (Method::POST, &messages, json!({"text": "One", "when": "steer"})),
        (Method::PATCH, &chat, json!({"title": "Three"})),
    ] {
        let (status, problem) = keyed(&stage, method, path, "b", body).await;
        assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"));
    }
    let (_, again) = keyed(&stage, Method::POST, &messages, "b", json!({"text": "One"})).await;
    assert_eq!(again["id"], json!(1));
    stage.server.stop().await;
}

/// Equal keys of two owners are independent.
#[tokio::test]
async fn keys_belong_to_their_owners() {
    let stage = Stage::new().await;
    stage.grant("evt_of-somebody-else-entirely-of-course", "you", &everturn::stores::Scope::ALL).await;
    let (_, mine) = keyed(&stage, Method::POST, "/v1/chats", "a", json!({})).await;
    let request = stage.client.post(format!("{}/v1/chats", stage.base)).header("idempotency-key", "a");
    let request = request.bearer_auth("evt_of-somebody-else-entirely-of-course").json(&json!({}));
    let (status, theirs) = answer(request.send().await.unwrap()).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_ne!(mine["id"], theirs["id"]);
    stage.server.stop().await;
}

#[tokio::test]
async fn invalid_keys_are_refused() {
    let stage = Stage::new().await;
    for key in ["", "with space", &"k".repeat(256)] {
        let (status, problem) = keyed(&stage, Method::POST, "/v1/chats", key, json!({})).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{key}");
    }
    stage.server.stop().await;
}

/// An interrupt of an idle chat is recorded under its key too: a repeat stops no later turn.
#[tokio::test]
async fn an_interrupt_of_a_resting_chat_keeps_its_key() {
    let stage = Stage::with(everturn_server::ServerLimits::default(), std::time::Duration::from_millis(1)).await;
    let chat = stage.chat("numbered").await;
    let interrupt = format!("{chat}/interrupt");
    let (status, now) = keyed(&stage, Method::POST, &interrupt, "stop", json!({})).await;
    assert_eq!((status, &now["status"]), (StatusCode::OK, &json!("idle")));
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "count to 100000").await;
    reader.until(|view| view.draft.as_ref().is_some_and(|draft| draft.n > 5)).await;
    let (status, now) = keyed(&stage, Method::POST, &interrupt, "stop", json!({})).await;
    assert_eq!((status, &now["status"]), (StatusCode::OK, &json!("running")));
    let (status, problem) =
        keyed(&stage, Method::POST, &format!("{chat}/messages"), "stop", json!({"text": "x"})).await;
    assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"));
    let (status, now) = keyed(&stage, Method::POST, &interrupt, "stop now", json!({})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{now}");
    let (status, now) = keyed(&stage, Method::POST, &interrupt, "stop-now", json!({})).await;
    assert_eq!((status, &now["status"]), (StatusCode::OK, &json!("idle")));
    stage.server.stop().await;
}

/// I2: a key covers a whole PATCH, and a PATCH is applied as a whole or not at all.
#[tokio::test]
async fn a_patch_is_one_request() {
    let stage = Stage::with(everturn_server::ServerLimits::default(), std::time::Duration::from_millis(1)).await;
    let chat = stage.chat("numbered").await;
    let patch = |key: &'static str, body: Value| keyed(&stage, Method::PATCH, &chat, key, body);
    let (status, now) = patch("p", json!({"title": "a"})).await;
    assert_eq!((status, &now["title"]), (StatusCode::OK, &json!("a")));
    for body in [json!({"title": "a", "archived": true}), json!({"archived": true}), json!({"title": "b"})] {
        let (status, problem) = patch("p", body).await;
        assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"));
        assert_eq!((&problem["chat"]["title"], &problem["chat"]["archived"]), (&json!("a"), &json!(false)));
    }
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "count to 100000").await;
    reader.until(|view| view.draft.as_ref().is_some_and(|draft| draft.n > 5)).await;
    let (status, problem) = patch("q", json!({"title": "b", "archived": true})).await;
    assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "status"));
    assert_eq!(problem["chat"]["title"], json!("a"), "a chat that works is not put away, and so not named either");
    stage.post(&format!("{chat}/interrupt"), json!({})).await;
    for _ in 0..2 {
        let (status, now) = patch("r", json!({"title": "b", "archived": true})).await;
        assert_eq!((status, &now["title"], &now["archived"]), (StatusCode::OK, &json!("b"), &json!(true)));
    }
    let (status, now) = patch("s", json!({"title": "c", "archived": false})).await;
    assert_eq!((status, &now["title"], &now["archived"]), (StatusCode::OK, &json!("c"), &json!(false)));
    let (status, problem) = patch("t", json!({"title": " ", "archived": true})).await;
    assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"));
    let (status, problem) = patch("u", json!({"title": "x".repeat(401), "archived": true})).await;
    assert_eq!((status, kind(&problem)), (StatusCode::PAYLOAD_TOO_LARGE, "too-long"));
    assert!(problem["detail"].as_str().unwrap().contains("400 bytes"), "{problem}");
    assert_eq!(stage.get(&chat).await.1["title"], json!("c"));
    stage.server.stop().await;
}

/// I2: an empty PATCH is recorded under its key like others, and the key is refused with another body.
#[tokio::test]
async fn an_empty_patch_keeps_its_key() {
    let stage = Stage::new().await;
    let chat = stage.chat("numbered").await;
    let patch = |body: Value| keyed(&stage, Method::PATCH, &chat, "p", body);
    let (status, first) = patch(json!({})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(patch(json!({})).await, (status, first.clone()));
    let (status, problem) = patch(json!({"title": "a"})).await;
    assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"));
    assert_eq!(problem["chat"]["title"], first["title"]);
    stage.server.stop().await;
}

/// I2: every command under a key is applied once and answered alike, also after the chat has changed.
#[tokio::test]
async fn every_command_is_answered_alike_under_its_key() {
    let stage = Stage::with(everturn_server::ServerLimits::default(), std::time::Duration::from_millis(2)).await;
    let chat = stage.chat("numbered").await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "count to 100000").await;
    reader.until(|view| view.draft.as_ref().is_some_and(|draft| draft.n > 5)).await;
    let (one, other) = (stage.say(&chat, "count to 2").await, stage.say(&chat, "count to 3").await);
    let mut done = Vec::new();
    let mut again = async |method: Method, path: String, key: &'static str, body: Value| {
        let first = keyed(&stage, method.clone(), &path, key, body.clone()).await;
        assert_eq!(first.0, StatusCode::OK, "{key}: {}", first.1);
        assert_eq!(keyed(&stage, method.clone(), &path, key, body.clone()).await, first, "{key}");
        done.push((method, path, key, body, first));
    };
    again(Method::POST, format!("{chat}/queue/{other}/promote"), "promote", json!({})).await;
    again(Method::DELETE, format!("{chat}/queue/{one}"), "unqueue", json!({})).await;
    again(Method::DELETE, format!("{chat}/queue/{other}"), "unqueue-2", json!({})).await;
    again(Method::POST, format!("{chat}/interrupt"), "interrupt", json!({})).await;
    reader.until_rest().await;
    again(Method::PUT, format!("{chat}/messages/1"), "edit", json!({"text": "count to 4"})).await;
    reader.until(|view| crate::reader::reply(view) == "t1 t2 t3 t4").await;
    reader.until_rest().await;
    again(Method::POST, format!("{chat}/compact"), "compact", json!({})).await;
    let launches = stage.chat("launches").await;
    let mut asked = stage.watch(&launches).await;
    stage.say(&launches, "Launch it").await;
    let view = asked.until(|view| view.status.as_ref().is_some_and(|status| !status.asks.is_empty())).await;
    let ask = view.status.unwrap().asks[0].clone();
    let approve = json!({"answers": [{"kind": "approve", "call": ask.call, "input_hash": ask.input_hash}]});
    again(Method::POST, format!("{launches}/answers"), "approve", approve).await;
    asked.until_rest().await;
    let is_summary = |message: &Message| matches!(message.body, Body::Summary(_));
    reader.until(|view| view.messages.iter().any(is_summary) && crate::reader::rests(view)).await;
    let stopped = stage.view(&chat).await;
    for (method, path, key, body, (status, first)) in done {
        let (again_status, again) = keyed(&stage, method, &path, key, body).await;
        assert_eq!((again_status, &again["id"]), (status, &first["id"]), "{key}");
        if key != "interrupt" {
            assert_eq!(again, first, "{key}"); // An interrupt answers with the chat, which has changed since.
        }
    }
    assert_eq!(stage.view(&chat).await, stopped, "and nothing was done again");
    stage.server.stop().await;
}

/// I2: repeating a delete or the creation of a token under its key gets the first answer again. Other tokens do not get it.
#[tokio::test]
async fn deletes_and_new_tokens_are_remembered_by_key() {
    let stage = Stage::new().await;
    let (admin, other) = ("evt_of-another-admin-of-the-same-owner", "evt_of-somebody-else-who-may-do-anything");
    stage.grant(admin, "me", &everturn::stores::Scope::ALL).await;
    stage.grant(other, "you", &everturn::stores::Scope::ALL).await;
    let asked_by = async |token: &str, method: Method, path: &str, key: &str, body: Value| {
        let request = stage.client.request(method, format!("{}{path}", stage.base)).bearer_auth(token);
        answer(request.header("idempotency-key", key).json(&body).send().await.unwrap()).await
    };
    let (chat, kept) = (stage.chat("numbered").await, stage.chat("numbered").await);
    for _ in 0..3 {
        let deleted = keyed(&stage, Method::DELETE, &chat, "d", json!({})).await;
        assert_eq!(deleted, (StatusCode::NO_CONTENT, json!("")));
    }
    for (path, key) in [(&kept, "d"), (&chat, "d")] {
        let (status, problem) = asked_by(other, Method::DELETE, path, key, json!({})).await;
        assert_eq!((status, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"));
    }
    let (status, problem) = keyed(&stage, Method::DELETE, &kept, "d", json!({})).await;
    assert_eq!(
        (status, kind(&problem), &problem["chat"]["status"]),
        (StatusCode::CONFLICT, "key-reused", &json!("idle"))
    );
    let (status, _) = keyed(&stage, Method::DELETE, &chat, "e", json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);

    let phone = json!({"name": "phone", "scopes": ["read"], "seconds": 60});
    let (status, made) = keyed(&stage, Method::POST, "/v1/tokens", "t", phone.clone()).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(keyed(&stage, Method::POST, "/v1/tokens", "t", phone.clone()).await, (status, made.clone()));
    let (_, another) = keyed(&stage, Method::POST, "/v1/tokens", "u", phone.clone()).await;
    let (_, theirs) = asked_by(other, Method::POST, "/v1/tokens", "t", phone.clone()).await;
    assert!(another["token"] != made["token"] && theirs["token"] != made["token"] && theirs["token"].is_string());
    let conflicts = [
        keyed(&stage, Method::POST, "/v1/tokens", "t", json!({"name": "phone", "scopes": ["admin"]})).await,
        asked_by(admin, Method::POST, "/v1/tokens", "t", phone).await,
        keyed(&stage, Method::POST, "/v1/tokens", "d", json!({"name": "x", "scopes": ["read"]})).await,
    ];
    for (status, problem) in conflicts {
        assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"));
    }
    let path = |made: &Value| format!("/v1/tokens/{}", made["info"]["id"].as_str().unwrap());
    let revoked = keyed(&stage, Method::DELETE, &path(&made), "r", json!({})).await;
    assert!(revoked.1["revoked"].is_i64());
    assert_eq!(keyed(&stage, Method::DELETE, &path(&made), "r", json!({})).await, revoked);
    let (status, problem) = keyed(&stage, Method::DELETE, &path(&another), "r", json!({})).await;
    assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"));
    let tokens = stage.get("/v1/tokens").await.1["tokens"].as_array().unwrap().len();
    assert_eq!(tokens, 6, "three were there, and three were made");
    stage.server.stop().await;
}

/// I2: a repeat under a key is answered as before, even if the agent or model it names was removed from the
/// configuration, or the default agent changed. A new request is refused.
#[tokio::test]
async fn repeats_are_answered_after_agent_and_model_are_removed() {
    let stage = Stage::new().await;
    let chat = stage.talk("numbered", &["count to 3"]).await;
    let fork = format!("{chat}/fork");
    let requests = [
        (Method::POST, "/v1/chats", "agent", json!({"agent": "numbered"})),
        (Method::POST, "/v1/chats", "model", json!({"model": "understudy/extra"})),
        (Method::POST, "/v1/chats", "neither", json!({})),
        (Method::POST, &fork, "fork", json!({"at": 2})),
        (Method::POST, &fork, "fork-model", json!({"at": 2, "model": "understudy/extra"})),
        (Method::PATCH, &chat, "patch", json!({"title": "Numbers", "model": "understudy/extra"})),
    ];
    let mut before = Vec::new();
    for (method, path, key, body) in &requests {
        let (status, done) = keyed(&stage, method.clone(), path, key, body.clone()).await;
        assert!(status.is_success(), "{key}: {done}");
        before.push((status, done["id"].clone()));
    }
    let stage = stage.reconfigured().await;
    for ((method, path, key, body), before) in requests.iter().zip(&before) {
        let (status, again) = keyed(&stage, method.clone(), path, key, body.clone()).await;
        assert_eq!((status, again["id"].clone()), *before, "{key}: {again}");
        if body != &json!({}) {
            let (status, problem) = keyed(&stage, method.clone(), path, &format!("{key}-new"), body.clone()).await;
            assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{key}");
        }
        let mut other = body.clone();
        other["model"] = json!("understudy/other");
        let (status, problem) = keyed(&stage, method.clone(), path, key, other.clone()).await;
        assert_eq!((status, kind(&problem)), (StatusCode::CONFLICT, "key-reused"), "{key}");
        other["model"] = json!("nobody");
        let (status, problem) = keyed(&stage, method.clone(), path, key, other).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{key}");
    }
    assert_eq!(stage.get("/v1/chats").await.1["chats"].as_array().unwrap().len(), 6, "nothing was made again");
    assert_eq!(stage.ask(Method::DELETE, &chat).send().await.unwrap().status(), StatusCode::NO_CONTENT);
    for ((method, path, key, body), before) in requests.iter().zip(&before).filter(|((_, path, ..), _)| *path == fork) {
        let (status, again) = keyed(&stage, method.clone(), path, key, body.clone()).await;
        assert_eq!((status, again["id"].clone()), *before, "{key}: though the other chat is gone");
        let (status, _) = keyed(&stage, method.clone(), path, &format!("{key}-late"), body.clone()).await;
        assert!(status.is_client_error(), "{key}");
    }
    stage.server.stop().await;
}
