//! Open asks over all chats, and grants.

use everturn::stores::Scope;
use everturn_server::wire::Status;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::audited::asking;
use crate::stage::{Stage, answer, kind};

const OTHER: &str = "evt_of-another-owner-than-the-usual-one-of-tests";
const READER: &str = "evt_of-the-same-owner-who-may-read-and-chat-only";

/// A request with another token.
async fn as_token(stage: &Stage, token: &str, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let request = Client::new().request(method, format!("{}{path}", stage.base)).bearer_auth(token);
    let request = if body.is_null() { request } else { request.json(&body) };
    answer(request.send().await.unwrap()).await
}

fn chats(asks: &Value) -> Vec<&str> {
    asks["chats"].as_array().unwrap().iter().map(|chat| chat["chat"].as_str().unwrap()).collect()
}

/// TL08: the open asks of all chats are in one list: an owner sees their own, an administrator all. Answering needs the scope
/// `approve`, and a chat of another owner is not there.
#[tokio::test]
async fn open_asks_are_listed_over_chats() {
    let stage = Stage::new().await;
    stage.grant(OTHER, "other", &[Scope::Read, Scope::Approve]).await;
    stage.grant(READER, "me", &[Scope::Read, Scope::Chat]).await;
    let (first, approval, _reader) = asking(&stage, "approve").await;
    let (second, _, _reader) = asking(&stage, "result").await;
    let ids = [&second, &first].map(|chat| chat.trim_start_matches("/v1/chats/"));
    for token in [READER, crate::stage::TOKEN] {
        let (code, asks) = as_token(&stage, token, Method::GET, "/v1/asks", Value::Null).await;
        assert_eq!((code, chats(&asks)), (StatusCode::OK, ids.to_vec()), "{asks}");
        let ask = &asks["chats"][1]["asks"][0];
        let shown = ["tool", "wants", "rule", "effect", "grant"].map(|key| ask[key].as_str().unwrap());
        assert_eq!(shown, ["launch", "approval", "policy of the tool", "once", "launch"], "{ask}");
        assert!(ask["input"].as_str().unwrap().contains("target"), "{ask}");
    }
    let (_, asks) = as_token(&stage, OTHER, Method::GET, "/v1/asks", Value::Null).await;
    assert_eq!(chats(&asks), [""; 0]);
    let (code, asks) = stage.get("/v1/asks?limit=1").await;
    assert_eq!((code, chats(&asks)), (StatusCode::OK, vec![ids[0]]));
    let (_, rest) = stage.get(&format!("/v1/asks?limit=1&after={}", asks["after"].as_str().unwrap())).await;
    assert_eq!(chats(&rest), [ids[1]]);

    let path = format!("{first}/answers");
    let (code, problem) = as_token(&stage, READER, Method::POST, &path, approval.clone()).await;
    assert_eq!((code, kind(&problem)), (StatusCode::FORBIDDEN, "scope"));
    let (code, _) = as_token(&stage, OTHER, Method::POST, &path, approval.clone()).await;
    assert_eq!(code, StatusCode::NOT_FOUND);
    let (code, _) = as_token(&stage, OTHER, Method::GET, &format!("{first}/grants"), Value::Null).await;
    assert_eq!(code, StatusCode::NOT_FOUND);
    assert_eq!(stage.post(&path, approval).await.0, StatusCode::OK);
    let (_, asks) = stage.get("/v1/asks").await;
    assert_eq!(chats(&asks), [ids[0]]);
}

/// TL04: a grant is made with the approval, listed, used by the next turn, and revoked; then the next call asks again. A
/// repeat of the answer under its key has no second effect.
#[tokio::test]
async fn a_grant_is_listed_used_and_revoked() {
    let stage = Stage::new().await;
    stage.grant(READER, "me", &[Scope::Read, Scope::Chat]).await;
    let (chat, mut approval, mut reader) = asking(&stage, "approve").await;
    let call = approval["answers"][0]["call"].as_str().unwrap().to_owned();
    approval["answers"][0]["kind"] = json!("grant");
    for _ in 0..2 {
        let request = stage.ask(Method::POST, &format!("{chat}/answers")).header("Idempotency-Key", "grant-1");
        let (code, told) = answer(request.json(&approval).send().await.unwrap()).await;
        assert_eq!(code, StatusCode::OK, "{told}");
    }
    let is =
        |status| move |view: &everturn_server::wire::View| view.status.as_ref().is_some_and(|s| s.status == status);
    reader.until(is(Status::Idle)).await;
    let (code, grants) = stage.get(&format!("{chat}/grants")).await;
    let shown = &grants["grants"][0];
    assert_eq!((code, grants["grants"].as_array().unwrap().len()), (StatusCode::OK, 1), "{grants}");
    assert_eq!((&shown["call"], &shown["rule"], &shown["by"]), (&json!(call), &json!("launch"), &json!("test")));
    let month = shown["until"].as_i64().unwrap() - shown["at"].as_i64().unwrap();
    assert_eq!(month, 30 * 24 * 60 * 60 * 1000);

    stage.say(&chat, "Launch it").await;
    let view = reader.until(|view| is(Status::Idle)(view) && view.messages.len() > 6).await;
    assert!(view.status.unwrap().asks.is_empty(), "it ran unasked");

    let path = format!("{chat}/grants/{call}");
    let (code, problem) = as_token(&stage, READER, Method::DELETE, &path, Value::Null).await;
    assert_eq!((code, kind(&problem)), (StatusCode::FORBIDDEN, "scope"));
    assert_eq!(stage.send(Method::DELETE, &path, Value::Null).await.0, StatusCode::OK);
    assert_eq!(stage.send(Method::DELETE, &path, Value::Null).await.0, StatusCode::NOT_FOUND);
    assert_eq!(stage.get(&format!("{chat}/grants")).await.1, json!({"grants": []}));
    stage.say(&chat, "Launch it").await;
    reader.until(is(Status::Awaiting)).await;
}
