//! Keys, addresses, refusals and the log.

use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::message::Stop;
use everturn_core::prompt::WireFormat;
use expect_test::{Expect, expect};
use serde_json::json;

use super::client::{Ended, ask, get, headers, post, question, send, start};
use crate::{Cue, Manner, Understudy, refuse, script, stop, text};

async fn shut(wire: WireFormat, headers: &str, expected: Expect) {
    let server = start(Understudy::new([])).await;
    let (path, body) = question(wire, "m", "hi");
    let got = send(server.address(), "POST", &path, headers, &body.to_string()).await;
    expected.assert_eq(&format!("{} {}", got.status, got.text()));
    let logged = server.requests();
    assert_eq!(logged[0].refused.as_ref().map(|(status, _)| *status), Some(got.status));
}

#[tokio::test]
async fn the_wrong_key_is_refused_as_each_provider_does() {
    let of = |wire| headers(wire, "sk-wrong-key-1234");
    shut(WireFormat::Anthropic, &of(WireFormat::Anthropic), expect![[r#"401 {"error":{"message":"invalid x-api-key","type":"authentication_error"},"request_id":"req_understudy0001","type":"error"}"#]]).await;
    shut(WireFormat::OpenAiResponses, &of(WireFormat::OpenAiResponses), expect![[r#"401 {"error":{"code":"invalid_api_key","message":"Incorrect API key provided: ********1234.","param":null,"type":"invalid_request_error"}}"#]]).await;
    shut(WireFormat::OpenAiChat, "", expect![[r#"401 {"error":{"code":"invalid_api_key","message":"You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).","param":null,"type":"invalid_request_error"}}"#]]).await;
    shut(WireFormat::Gemini, &of(WireFormat::Gemini), expect![[r#"400 {"error":{"code":400,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"googleapis.com","metadata":{"service":"generativelanguage.googleapis.com"},"reason":"API_KEY_INVALID"}],"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#]]).await;
    shut(WireFormat::Gemini, "", expect![[r#"403 {"error":{"code":403,"message":"Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.","status":"PERMISSION_DENIED"}}"#]]).await;
    shut(WireFormat::Anthropic, "x-api-key: understudy\r\n", expect![[r#"400 {"error":{"message":"anthropic-version: header is required","type":"invalid_request_error"},"request_id":"req_understudy0001","type":"error"}"#]]).await;
}

#[tokio::test]
async fn bad_requests_are_refused_and_logged_and_cost_no_script() {
    let server = start(Understudy::new([script([text("Hello."), stop(Stop::End)])])).await;
    for wire in WireFormat::ALL {
        let (path, mut body) = question(wire, "m", "hi");
        body["nonsense"] = json!(true);
        let got = post(&server, wire, &path, &body).await;
        assert_eq!((got.status, got.ended), (400, Ended::Whole), "{wire:?}");
        assert!(got.json()["error"]["message"].as_str().unwrap().contains("nonsense"), "{wire:?}");
        let got = send(server.address(), "POST", &path, &headers(wire, "understudy"), "{").await;
        assert_eq!(got.status, 400, "{wire:?}");
    }
    let logged = server.requests();
    assert_eq!(logged.len(), 8);
    assert_eq!(logged[0].body["nonsense"], true);
    assert_eq!(logged[0].header("x-api-key"), Some("[redacted]"));
    assert!(logged.iter().all(|one| one.refused.is_some() && !format!("{one:?}").contains("\"understudy\"")));
    assert_eq!(ask(&server, WireFormat::Gemini, "m", "hi").await.status, 200, "the script is still there");
    assert_eq!(server.requests()[8].refused, None);
}

#[tokio::test]
async fn scripts_refuse_with_status_words_and_time() {
    let again = || refuse(429).retry_after(7);
    let full = || Cue::Fail(Box::new(ProviderError::new("understudy", ErrorKind::ContextFull)));
    for wire in WireFormat::ALL {
        let server = start(Understudy::new([script([again()]), script([refuse(529)]), script([full()])])).await;
        let got = ask(&server, wire, "m", "hi").await;
        assert_eq!(got.status, 429, "{wire:?}");
        assert!(got.head.contains("retry-after: 7"), "{wire:?}: {}", got.head);
        assert_eq!(ask(&server, wire, "m", "hi").await.status, 529, "{wire:?}");
        let got = ask(&server, wire, "m", "hi").await;
        assert_eq!(got.status, 400, "{wire:?}: {}", got.text());
        assert_eq!(ask(&server, wire, "m", "hi").await.status, 404, "no script is left");
    }
}

#[tokio::test]
async fn models_are_listed_and_other_addresses_are_not_there() {
    let server = start(Understudy::persona()).await;
    assert_eq!(get(&server, WireFormat::Anthropic, "/v1/models").await.json()["data"][0]["type"], "model");
    assert_eq!(get(&server, WireFormat::OpenAiChat, "/v1/models").await.json()["data"][0]["object"], "model");
    assert_eq!(get(&server, WireFormat::Gemini, "/v1beta/models").await.json()["models"][0]["name"], "models/persona");
    assert_eq!(get(&server, WireFormat::OpenAiChat, "/v2/models").await.status, 404);
    assert_eq!(get(&server, WireFormat::OpenAiChat, "/v1/chat/completions").await.status, 404);
}

/// What went out is written down, on every wire, as far as it went, and can be read over HTTP with the key.
#[tokio::test]
async fn sent_answers_can_be_read_again() {
    for wire in WireFormat::ALL {
        let server = start(Understudy::company(Manner { pace: std::time::Duration::ZERO, seed: 0 })).await;
        ask(&server, wire, "drill-faults:cut-at-word@3x1", "say r1..r2 t1..t5").await;
        ask(&server, wire, "drill", "say t1..t5, call look:3").await;
        let bearer = "authorization: Bearer understudy\r\n";
        let account = send(server.address(), "GET", "/understudy/requests", bearer, "").await.json();
        let [first, second] = account["requests"].as_array().unwrap().as_slice() else { panic!("{account}") };
        assert_eq!(first["text"], "t1 t2 t", "{wire:?}");
        assert_eq!((&first["thoughts"], &first["model"]), (&json!("r1 r2"), &json!("drill-faults:cut-at-word@3x1")));
        assert_eq!(second["calls"][0]["input"], r#"{"line":"line 3 of the drill","number":3}"#);
        let shut = send(server.address(), "GET", "/understudy/requests", "", "").await;
        assert_eq!(shut.status, 401);
    }
}
