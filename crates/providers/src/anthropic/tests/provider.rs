//! The provider over a real socket.

use everturn_core::limits::{Limits, Thinking};
use everturn_core::message::Stop;
use everturn_core::prompt::{PromptEntries, PromptEntry, PromptPart, Role};
use everturn_core::recovery::{Prefill, Reattach};
use futures_util::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// A server that answers one request with a recorded stream, and gives back what it was asked.
async fn server(stream: &'static str) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            let mut bytes = [0; 4096];
            let read = socket.read(&mut bytes).await.unwrap();
            request.extend_from_slice(&bytes[..read]);
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_5\r\n";
        let answer = format!("{head}content-length: {}\r\n\r\n{stream}", stream.len());
        socket.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    (url, asked)
}

fn request(model: &str, provider: &Anthropic) -> Request {
    let entries: PromptEntries = vec![PromptEntry::new(Role::User, vec![PromptPart::text("Hi")])].into();
    Request::new(format!("anthropic/{model}").parse().unwrap(), &provider.facts(model).target, entries)
}

fn provider(url: &str, beta: Option<&str>) -> Anthropic {
    let set = |name: &str| match name {
        "ANTHROPIC_API_KEY" => Some("sk-ant-0123456789".to_owned()),
        "ANTHROPIC_BASE_URL" => Some(url.to_owned()),
        _ => None,
    };
    let endpoint = Endpoint::usual("anthropic", &USUAL, set).unwrap();
    let endpoint = match beta {
        Some(beta) => endpoint.with_header("anthropic-beta", beta).unwrap(),
        None => endpoint,
    };
    Anthropic::new(endpoint, Http::direct(&Limits::default()), Arc::new(Catalogue::embedded()))
}

/// A question goes where it should, with what it needs, and its answer is read.
#[tokio::test]
async fn a_question_and_its_answer() {
    let (url, asked) = server(fixture("text")).await;
    let provider = provider(&url, Some("mine-2026-01-01"));
    let frames = provider.open(request("claude-opus-5-5", &provider)).await.unwrap();
    let frames: Vec<_> = frames.collect().await;
    assert_eq!(frames.last(), Some(&Ok(Frame::Stop(Stop::End))));
    let expected: Vec<_> = read(fixture("text")).frames.into_iter().map(Ok).collect();
    assert_eq!(frames, expected);

    let asked = asked.await.unwrap();
    assert!(asked.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{asked}");
    for header in [
        "x-api-key: sk-ant-0123456789",
        "anthropic-version: 2023-06-01",
        "anthropic-beta: mine-2026-01-01,thinking-binding-controls-2026-08-01",
        "accept: text/event-stream",
    ] {
        assert!(asked.contains(&format!("{header}\r\n")), "{header} in {asked}");
    }
}

/// An error in the stream knows the request it belongs to.
#[tokio::test]
async fn an_error_knows_its_request() {
    let (url, _) = server(fixture("max_tokens").split("event: message_stop").next().unwrap()).await;
    let provider = provider(&url, None);
    let frames = provider.open(request("claude-haiku-4-5", &provider)).await.unwrap();
    let error = frames.collect::<Vec<_>>().await.pop().unwrap().unwrap_err();
    assert_eq!((error.kind, error.request_id.as_deref()), (everturn_core::error::ErrorKind::Truncated, Some("req_5")));
}

/// What is known of its models.
#[test]
fn facts_come_from_the_catalogue() {
    let provider = provider("http://localhost", None);
    let facts = provider.facts("claude-haiku-4-5-20251001");
    assert_eq!((facts.can.prefill, facts.can.reattach, facts.thinks), (Prefill::Yes, Reattach::No, Thinking::Yes));
    assert_eq!((facts.context_limit, facts.output_max), (Some(200_000), 64_000));
    assert!(facts.target.leading_reasoning);
    assert_eq!(provider.facts("claude-opus-5-5").can.prefill, Prefill::No);
    assert_eq!(provider.name(), "anthropic");
    assert!(!format!("{provider:?}").contains("0123456789"));
}
