//! Every route × every token × every owner, from the document that describes them.

use std::sync::atomic::{AtomicU64, Ordering};

use everturn::core::ids::Timestamp;
use everturn::stores::{Scope, Token, TokenHash, TokenKind, Tokens as _};
use everturn_server::openapi;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::stage::{Stage, TOKEN, answer, kind};

/// One operation of the OpenAPI document.
#[derive(Debug, Clone)]
struct Operation {
    method: Method,
    path: String,
}

/// The scopes of which an operation needs one. A route that is not listed fails the test, so that its scope is
/// decided on purpose.
fn needs(operation: &Operation) -> Option<&'static [Scope]> {
    let Operation { method, path } = operation;
    Some(match (method.as_str(), path.as_str()) {
        ("GET", "/healthz" | "/readyz") => return None,
        ("GET", "/metrics") => &[Scope::Metrics, Scope::Admin],
        ("GET", "/v1/tokens") | ("POST", "/v1/tokens") | ("DELETE", "/v1/tokens/{id}") => &[Scope::Admin],
        ("GET", "/v1/mcp") => &[Scope::Admin],
        ("POST", "/v1/drill") => &[Scope::Chat],
        ("POST", "/v1/codes") | ("GET" | "DELETE", "/v1/session") => &Scope::ALL,
        ("GET", "/v1/sessions") | ("DELETE", "/v1/sessions/{id}") => &[Scope::Admin],
        ("GET", _) => &[Scope::Read],
        ("DELETE", "/v1/chats/{id}/grants/{call}") => &[Scope::Approve],
        ("POST", "/v1/chats/{id}/answers") => &[Scope::Chat, Scope::Approve],
        ("POST" | "PUT" | "PATCH" | "DELETE", path) if path.starts_with("/v1/chats") => &[Scope::Chat],
        _ => panic!("no scope is decided for {method} {path}"),
    })
}

fn operations() -> Vec<Operation> {
    let document: Value = serde_json::from_str(&openapi().to_json().unwrap()).unwrap();
    let mut operations = vec![Operation { method: Method::GET, path: "/openapi.json".into() }];
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase().parse().unwrap();
            let operation = Operation { method, path: path.clone() };
            let is_login = operation.method == Method::POST && path == "/v1/session"; // See `sessions.rs`.
            operations.extend((!is_login).then_some(operation));
        }
    }
    assert!(operations.len() > 25, "{operations:?}");
    operations
}

async fn ask(stage: &Stage, operation: &Operation, chat: &str, token: Option<&str>) -> (StatusCode, Value) {
    let path = operation
        .path
        .replace("{id}", chat)
        .replace("{number}", "77")
        .replace("{place}", "0")
        .replace("{call}", "7.0")
        .replace("{name}", "none");
    let mut request = stage.client.request(operation.method.clone(), format!("{}{path}", stage.base));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    if [Method::POST, Method::PUT, Method::PATCH].contains(&operation.method) {
        request = request.header("content-type", "application/json").body("{}");
    }
    let response = request.send().await.unwrap();
    if response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream") {
        return (response.status(), Value::Null); // A stream has no end.
    }
    answer(response).await
}

/// The owner of the chat or token that a path names.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Whose {
    Mine,
    Yours,
    Nobodys,
}

const OTHER: &str = "evt_of-somebody-else-who-may-do-anything";

/// The id of a chat or token with this owner. `Mine` is new each time, because some routes delete it.
async fn thing(stage: &Stage, operation: &Operation, whose: Whose) -> String {
    if operation.path.starts_with("/v1/tokens") {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let secret = format!("evt_a-token-to-be-looked-at-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        match whose {
            Whose::Mine => stage.grant(&secret, "me", &[Scope::Read]).await,
            Whose::Yours => stage.grant(&secret, "you", &[Scope::Read]).await,
            Whose::Nobodys => {}
        }
        return TokenHash::of(&secret).id();
    }
    if operation.path.starts_with("/v1/sessions") {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let secret = format!("session {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let parent = TokenHash::of(if whose == Whose::Yours { OTHER } else { TOKEN });
        let found = stage.memory.find(&parent).await.unwrap().unwrap();
        let session = Token { hash: TokenHash::of(&secret), kind: TokenKind::Session { parent }, ..found };
        if whose != Whose::Nobodys {
            stage.memory.put(&session).await.unwrap();
        }
        return session.hash.id();
    }
    let token = match whose {
        Whose::Mine => TOKEN,
        Whose::Yours => OTHER,
        Whose::Nobodys => return "00000000000000000000000000".into(),
    };
    let request = stage.client.post(format!("{}/v1/chats", stage.base)).bearer_auth(token).json(&json!({}));
    answer(request.send().await.unwrap()).await.1["id"].as_str().unwrap().to_owned()
}

/// Every route × every token × every owner. Without a valid token only liveness and readiness answer. A valid token
/// opens what its scopes allow, among its owner's things. A missing scope answers before existence is revealed.
#[tokio::test]
async fn every_route_asks_for_its_scope() {
    let stage = Stage::new().await;
    let secret = |name: &str| format!("evt_matrix-of-tokens-and-routes-{name}");
    for scope in Scope::ALL {
        stage.grant(&secret(scope.name()), "me", &[scope]).await;
    }
    stage.grant(OTHER, "you", &Scope::ALL).await;
    stage.grant(&secret("revoked"), "me", &Scope::ALL).await;
    stage.memory.revoke(&TokenHash::of(&secret("revoked")), Timestamp(1)).await.unwrap();
    let mut asked = 0;
    for operation in operations() {
        let needed = needs(&operation);
        let names_one = operation.path.contains("{id}");
        let all = [Whose::Mine, Whose::Yours, Whose::Nobodys];
        for whose in all.into_iter().take(if names_one { 3 } else { 1 }) {
            let id = thing(&stage, &operation, whose).await;
            let revoked = secret("revoked");
            for token in [None, Some(""), Some("evt_wrong"), Some(revoked.as_str())] {
                let (status, problem) = ask(&stage, &operation, &id, token).await;
                match needed {
                    None => assert_eq!(status, StatusCode::OK),
                    // Too many failures from one address are answered with `too-many` instead.
                    Some(_) => assert!(
                        matches!(kind(&problem), "unauthorized" | "too-many"),
                        "{operation:?} {whose:?} with {token:?}: {status} {problem}"
                    ),
                }
            }
            for scope in Scope::ALL {
                let id = thing(&stage, &operation, whose).await;
                let (status, problem) = ask(&stage, &operation, &id, Some(&secret(scope.name()))).await;
                let cell = format!("{operation:?} {whose:?} with {scope:?}: {status} {problem}");
                let refused = needed.is_some_and(|needed| !needed.contains(&scope));
                let said = (status == StatusCode::FORBIDDEN, kind(&problem) == "scope");
                assert_eq!(said, (refused, refused), "{cell}");
                // The scope for tokens covers the tokens of every owner.
                let is_there =
                    whose == Whose::Mine || (whose == Whose::Yours && !operation.path.starts_with("/v1/chats"));
                if !refused && !is_there {
                    assert_eq!((status, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"), "{cell}");
                } else if !refused && !operation.path.contains("{number}") && !operation.path.contains("{call}") {
                    assert_ne!(status, StatusCode::NOT_FOUND, "{cell}");
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 240, "{asked} cells");
    stage.server.stop().await;
}

/// A chat of another owner gets the same answer as a missing chat or an invalid id.
#[tokio::test]
async fn foreign_chats_look_like_missing_ones() {
    let stage = Stage::new().await;
    stage.grant(OTHER, "you", &Scope::ALL).await;
    let about_chats = operations().into_iter().filter(|operation| operation.path.starts_with("/v1/chats/{id}"));
    let mut count = 0;
    for operation in about_chats {
        let chat = stage.chat("default").await.rsplit('/').next().unwrap().to_owned(); // One route deletes it.
        let mut answers = Vec::new();
        for id in [chat.as_str(), "00000000000000000000000000", "x", "..%2f..%2fetc", "%00", "%ff"] {
            let (status, problem) = ask(&stage, &operation, id, Some(OTHER)).await;
            assert_eq!((status, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"), "{operation:?} {id}");
            answers.push(problem);
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "they are all told the same: {answers:?}");
        let (status, _) = ask(&stage, &operation, &chat, Some(TOKEN)).await;
        let is_ours =
            status != StatusCode::NOT_FOUND || operation.path.contains("{number}") || operation.path.contains("{call}");
        assert!(is_ours, "{operation:?}");
        count += 1;
    }
    assert!(count >= 17);
    let request = stage.client.get(format!("{}/v1/chats", stage.base)).bearer_auth(OTHER);
    let (_, list) = answer(request.send().await.unwrap()).await;
    assert_eq!(list["chats"], json!([]));
    stage.server.stop().await;
}

/// An address that sends wrong tokens gets 429 with Retry-After; the right token from it works meanwhile.
#[tokio::test]
async fn guessing_tokens_is_slowed_down() {
    let stage = Stage::new().await;
    let guess = async |guess: usize| {
        let request = stage.client.get(format!("{}/v1/chats", stage.base)).bearer_auth(format!("evt_{guess}"));
        request.send().await.unwrap()
    };
    for number in 0..10 {
        assert_eq!(guess(number).await.status(), StatusCode::UNAUTHORIZED);
    }
    let refused = guess(10).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "60", "a minute, as it says");
    assert_eq!(stage.get("/v1/chats").await.0, StatusCode::OK);
    stage.server.stop().await;
}
