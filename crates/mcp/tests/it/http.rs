//! Servers over HTTP.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::post;
use everturn::ErrorOutcome;
use everturn_mcp::{McpServers, Protocol, ServerEntry, ServerState, StartFailureKind};
use serde_json::{Value, json};

use crate::script::{Action, Generation, ServerScript};
use crate::{Scratch, call, checked, context, text, tool, until};

/// How the stand-in behaves over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Json,
    Events,
    /// Answers lists, and cuts the connection in a call.
    Cuts,
    /// Answers lists, and knows no session in a call.
    Forgets,
    Refuses,
}

struct Site {
    script: Mutex<ServerScript>,
    manner: Manner,
    /// The header `x-key` and the method of each request.
    seen: Mutex<Vec<(Option<String>, String)>>,
}

async fn respond(State(site): State<Arc<Site>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let message: Value = serde_json::from_slice(&body).unwrap();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let key = headers.get("x-key").map(|key| key.to_str().unwrap().to_owned());
    site.seen.lock().unwrap().push((key, method.clone()));
    let plain = |status: StatusCode| Response::builder().status(status).body(Body::empty()).unwrap();
    match (site.manner, method.as_str()) {
        (Manner::Refuses, _) => return plain(StatusCode::UNAUTHORIZED),
        (Manner::Forgets, "tools/call") => return plain(StatusCode::NOT_FOUND),
        (Manner::Cuts, "tools/call") => {
            let broken = futures_util::stream::iter([Err::<Bytes, _>(std::io::Error::other("cut"))]);
            let response = Response::builder().header("content-type", "text/event-stream");
            return response.body(Body::from_stream(broken)).unwrap();
        }
        _ => {}
    }
    let actions = site.script.lock().unwrap().answer(&message);
    let answers: Vec<Value> = actions
        .into_iter()
        .filter_map(|action| match action {
            Action::Send(message) => Some(message),
            Action::SendRaw(_) | Action::Die => None,
        })
        .collect();
    if message.get("id").is_none() {
        return plain(StatusCode::ACCEPTED);
    }
    let mut response = Response::builder();
    if method == "initialize" {
        response = response.header("mcp-session-id", "one");
    }
    if method == "tools/call" && message["params"]["name"] == "mute" {
        let silent = futures_util::stream::pending::<std::io::Result<Bytes>>();
        return response.header("content-type", "text/event-stream").body(Body::from_stream(silent)).unwrap();
    }
    match site.manner {
        Manner::Events => {
            let events: String = answers.iter().map(|answer| format!("data: {answer}\n\n")).collect();
            response.header("content-type", "text/event-stream").body(events.into()).unwrap()
        }
        _ => response.header("content-type", "application/json").body(answers[0].to_string().into()).unwrap(),
    }
}

async fn site(generation: Generation, manner: Manner) -> (Arc<Site>, String) {
    let script = Mutex::new(ServerScript { generation, log: None, list: None, tasks: None });
    let site = Arc::new(Site { script, manner, seen: Mutex::default() });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new().route("/mcp", post(respond)).with_state(site.clone());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (site, url)
}

fn servers(scratch: &Scratch, url: &str) -> McpServers {
    let headers = [("X-Key".to_owned(), "secret".to_owned())].into();
    let entry = ServerEntry { url: Some(url.into()), headers, silence_seconds: Some(20), ..ServerEntry::default() };
    scratch.servers([checked("x", entry)])
}

fn methods(site: &Site) -> Vec<String> {
    site.seen.lock().unwrap().iter().map(|(_, method)| method.clone()).collect()
}

/// TM01: servers of each generation, with answers as JSON and as events; the second start asks only the right question.
#[tokio::test]
async fn both_generations_work_over_http() {
    for (generation, protocol) in [(Generation::Old, Protocol::Initialize), (Generation::New, Protocol::Discover)] {
        for manner in [Manner::Json, Manner::Events] {
            let scratch = Scratch::new();
            let (site, url) = site(generation, manner).await;
            let known = servers(&scratch, &url).learn("x").await.unwrap().known.unwrap();
            assert_eq!(known.protocol, protocol);
            assert_eq!(methods(&site)[0], "server/discover");
            site.seen.lock().unwrap().clear();
            let again = servers(&scratch, &url);
            assert_eq!(text(&again, "x", "echo").await, "{}");
            let begins = if protocol == Protocol::Initialize { "initialize" } else { "server/discover" };
            assert_eq!(methods(&site)[0], begins);
            assert!(site.seen.lock().unwrap().iter().all(|(key, _)| key.as_deref() == Some("secret")));
        }
    }
}

/// TM04: a call that was cut, or whose session is gone, may have happened and is not sent again.
#[tokio::test]
async fn a_call_that_was_sent_is_not_sent_again() {
    for (manner, generation) in [(Manner::Cuts, Generation::New), (Manner::Forgets, Generation::Old)] {
        let scratch = Scratch::new();
        let (site, url) = site(generation, manner).await;
        let servers = servers(&scratch, &url);
        servers.learn("x").await.unwrap();
        let error = call(&servers, "x", "echo", json!({})).await.unwrap_err();
        assert_eq!(error.outcome, ErrorOutcome::Unknown, "{manner:?}: {error}");
        let calls = methods(&site).iter().filter(|method| *method == "tools/call").count();
        assert_eq!(calls, 1, "{manner:?}");
    }
}

/// TM05: an answer of 17 MiB ends the call, as JSON and as an event.
#[tokio::test]
async fn large_answers_end_the_call() {
    for manner in [Manner::Json, Manner::Events] {
        let scratch = Scratch::new();
        let (_, url) = site(Generation::New, manner).await;
        let servers = servers(&scratch, &url);
        servers.learn("x").await.unwrap();
        let error = call(&servers, "x", "big", json!({})).await.unwrap_err();
        assert_eq!(error.outcome, ErrorOutcome::Unknown, "{manner:?}: {error}");
        assert_eq!(text(&servers, "x", "echo").await, "{}");
    }
}

/// Refused credentials are a state of their own, and no reason to try again and again.
#[tokio::test]
async fn refused_credentials_are_told() {
    let scratch = Scratch::new();
    let (_, url) = site(Generation::Both, Manner::Refuses).await;
    let servers = servers(&scratch, &url);
    let failure = servers.learn("x").await.unwrap_err();
    assert_eq!(failure.kind, StartFailureKind::NeedsLogin);
    assert_eq!(
        failure.reason,
        "the server refused the credentials (HTTP 401): log in with `everturn mcp login x`, or check the headers of its entry"
    );
    assert_eq!(servers.status("x").unwrap().state, ServerState::NeedsLogin);
}

/// A server that is not there did not run the call.
#[tokio::test]
async fn a_server_that_is_not_there_did_not_run_the_call() {
    let scratch = Scratch::new();
    let (_, url) = site(Generation::New, Manner::Json).await;
    servers(&scratch, &url).learn("x").await.unwrap();
    let gone = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/mcp", free.local_addr().unwrap())
    };
    let failure = servers(&scratch, &gone).learn("x").await.unwrap_err();
    assert!(failure.reason.contains("Connection refused"), "{failure}");
}

/// TM16: a redirect to another address is not followed, so its headers go nowhere else.
#[tokio::test]
async fn redirects_are_not_followed() {
    let scratch = Scratch::new();
    let (elsewhere, target) = site(Generation::Both, Manner::Json).await;
    let redirect = move || {
        let target = target.clone();
        async move { (StatusCode::TEMPORARY_REDIRECT, [("location", target)]) }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/mcp", post(redirect))).await.unwrap() });
    let failure = servers(&scratch, &url).learn("x").await.unwrap_err();
    assert!(failure.reason.contains("HTTP 307 with another address, which is not followed"), "{failure}");
    assert!(elsewhere.seen.lock().unwrap().is_empty());
}

/// TM13: an interrupt closes the stream of a call, or tells an older server which call is not wanted.
#[tokio::test]
async fn an_interrupt_ends_a_call_over_http() {
    for generation in [Generation::Old, Generation::New] {
        let scratch = Scratch::new();
        let (site, url) = site(generation, Manner::Json).await;
        let servers = servers(&scratch, &url);
        servers.learn("x").await.unwrap();
        let context = context();
        let cancel = context.cancel.clone();
        let mute = tool(&servers, "x", "mute");
        let running = tokio::spawn(async move { mute.run(context, json!({})).await });
        until("the call", || methods(&site).contains(&"tools/call".into())).await;
        cancel.cancel();
        let error = running.await.unwrap().unwrap_err();
        assert!(error.message.starts_with("The call was interrupted"), "{error}");
        if generation == Generation::Old {
            until("the cancellation", || methods(&site).contains(&"notifications/cancelled".into())).await;
        }
    }
}
