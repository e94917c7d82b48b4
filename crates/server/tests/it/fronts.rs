//! The fronts: what holds for each of them.

mod ag_ui;
mod ai_sdk;
mod fold;
mod ui;

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::stage::{Stage, TOKEN, answer};

/// Errors have the form that the clients of each front read, also those that no route of a front made.
#[tokio::test]
async fn every_front_tells_errors_in_its_own_form() {
    let stage = Stage::new().await;
    let needs = "Send `authorization: Bearer …` with a token that is known and not expired.";
    let missing = "It does not exist, or it belongs to another owner.";
    let openai = |message: &str, kind: &str, code: &str| json!({"error": {"message": message, "type": kind, "code": code, "param": null}});
    let anthropic = |message: &str, kind: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    let ag_ui = |message: &str, code: &str| json!({"message": message, "code": code});
    for (path, unauthorized, not_found) in [
        ("/ai/6/nothing", json!(needs), json!(missing)),
        ("/ai/7/nothing", json!(needs), json!(missing)),
        ("/ag-ui/a/nothing", ag_ui(needs, "unauthorized"), ag_ui(missing, "not-found")),
        (
            "/openai/v1/nothing",
            openai(needs, "authentication_error", "unauthorized"),
            openai(missing, "invalid_request_error", "not-found"),
        ),
        ("/anthropic/v1/nothing", anthropic(needs, "authentication_error"), anthropic(missing, "not_found_error")),
    ] {
        let response = stage.client.get(format!("{}{path}", stage.base)).send().await.unwrap();
        assert!(response.headers().contains_key("x-request-id"), "{path}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer", "{path}");
        assert_eq!(answer(response).await, (StatusCode::UNAUTHORIZED, unauthorized), "{path}");
        assert_eq!(stage.get(path).await, (StatusCode::NOT_FOUND, not_found), "{path}");
    }
    let native = stage.get("/v1/nothing").await.1;
    assert_eq!(native["type"], "urn:everturn:problem:not-found", "the native API keeps its problems");
    stage.server.stop().await;
}

/// Older clients of Anthropic send the token as `x-api-key`. Elsewhere that header is no token, and two different tokens
/// are none.
#[tokio::test]
async fn a_token_may_come_as_an_api_key_where_clients_send_it_so() {
    let stage = Stage::new().await;
    let ask = async |path: &str, key: Option<&str>, bearer: Option<&str>| {
        let mut request = stage.client.request(Method::GET, format!("{}{path}", stage.base));
        if let Some(key) = key {
            request = request.header("x-api-key", key);
        }
        if let Some(bearer) = bearer {
            request = request.bearer_auth(bearer);
        }
        answer(request.send().await.unwrap()).await.0
    };
    let (there, refused) = (StatusCode::NOT_FOUND, StatusCode::UNAUTHORIZED);
    let anthropic = "/anthropic/v1/nothing";
    assert_eq!(ask(anthropic, Some(TOKEN), None).await, there);
    assert_eq!(ask(anthropic, Some(TOKEN), Some(TOKEN)).await, there);
    assert_eq!(ask(anthropic, None, Some(TOKEN)).await, there);
    assert_eq!(ask(anthropic, Some("evt_wrong"), Some(TOKEN)).await, refused);
    assert_eq!(ask(anthropic, Some("evt_wrong"), None).await, refused);
    for path in ["/openai/v1/nothing", "/ai/6/nothing", "/v1/nothing"] {
        assert_eq!(ask(path, Some(TOKEN), None).await, refused, "{path}");
    }
    stage.server.stop().await;
}

/// A page of a configured origin may send the headers of the stock clients, by name.
#[tokio::test]
async fn pages_may_send_what_the_clients_send() {
    let stage = Stage::befriending("https://app.example.com").await;
    let request = stage.client.request(Method::OPTIONS, format!("{}/openai/v1/chat/completions", stage.base));
    let request = request.header("origin", "https://app.example.com").header("access-control-request-method", "POST");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    let allowed = response.headers()["access-control-allow-headers"].to_str().unwrap();
    for name in ["authorization", "content-type", "x-api-key", "anthropic-version", "x-stainless-retry-count"] {
        assert!(allowed.split(", ").any(|allowed| allowed == name), "{name} in {allowed}");
    }
    assert!(!allowed.contains('*'));
    stage.server.stop().await;
}
