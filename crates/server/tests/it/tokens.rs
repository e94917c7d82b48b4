//! Creating, listing, expiring and revoking tokens.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::stage::{Stage, TOKEN, answer, kind};

/// A token is shown once, opens what its scopes allow, and nothing after it was revoked.
#[tokio::test]
async fn a_token_is_created_used_and_revoked() {
    let stage = Stage::new().await;
    let (status, made) = stage.post("/v1/tokens", json!({"name": "phone", "scopes": ["read"], "seconds": 3600})).await;
    assert_eq!(status, StatusCode::CREATED);
    let secret = made["token"].as_str().unwrap();
    assert!(secret.starts_with("evt_") && secret.len() == 4 + 43, "256 bits: {}", secret.len());
    let get = async || stage.client.get(format!("{}/v1/chats", stage.base)).bearer_auth(secret).send().await.unwrap();
    assert_eq!(get().await.status(), StatusCode::OK);
    let (_, list) = stage.get("/v1/tokens").await;
    let (list, id) = (list.to_string(), made["info"]["id"].as_str().unwrap());
    assert!(list.contains("phone") && !list.contains(secret) && !list.contains(TOKEN));
    let (status, revoked) = stage.send(Method::DELETE, &format!("/v1/tokens/{id}"), Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    assert!(revoked["revoked"].is_i64());
    assert_eq!(get().await.status(), StatusCode::UNAUTHORIZED);
    let (status, problem) = stage.send(Method::DELETE, "/v1/tokens/0000000000000000", Value::Null).await;
    assert_eq!((status, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"));
    stage.server.stop().await;
}

/// An expired token opens nothing.
#[tokio::test]
async fn a_token_expires() {
    let stage = Stage::new().await;
    let (_, made) = stage.post("/v1/tokens", json!({"name": "short", "scopes": ["read"], "seconds": 0})).await;
    let request = stage.client.get(format!("{}/v1/chats", stage.base)).bearer_auth(made["token"].as_str().unwrap());
    let (status, problem) = answer(request.send().await.unwrap()).await;
    assert_eq!((status, kind(&problem)), (StatusCode::UNAUTHORIZED, "unauthorized"));
    stage.server.stop().await;
}

#[tokio::test]
async fn invalid_tokens_are_refused() {
    let stage = Stage::new().await;
    for body in [
        json!({"name": "", "scopes": ["read"]}),
        json!({"name": "x", "scopes": []}),
        json!({"name": "x", "scopes": ["root"]}),
        json!({"name": "x", "scopes": ["read"], "token": "chosen"}),
        json!({"name": "a\nb", "scopes": ["read"]}),
    ] {
        let (status, problem) = stage.post("/v1/tokens", body.clone()).await;
        assert_eq!((status, kind(&problem)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{body}");
    }
    stage.server.stop().await;
}
