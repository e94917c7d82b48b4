//! The provider over a real socket.

use std::sync::Arc;

use everturn_core::error::{Cause, ErrorKind};
use everturn_core::prompt::WireFormat;
use everturn_core::recovery::Reattach;
use futures_util::StreamExt as _;
use serde_json::Value;

use super::super::Completions;
use crate::catalogue::Catalogue;
use crate::openai::{OLLAMA, OPENROUTER};
use crate::openai_chat::OpenAiChat;
use crate::provider::Provider;
use crate::tests::cuts::told;
use crate::tests::recorded_server::{KEY, http, server, variables};
use crate::tests::transcript::Talk;

const OLLAMAS: &str = include_str!("../../../fixtures/openai_chat/ollama.sse");

/// A question to a server at home, which wants no key, and its answer.
#[tokio::test]
async fn a_question_and_its_answer() {
    let (url, asked) = server("200 OK", "text/event-stream", OLLAMAS).await;
    let catalogue = Arc::new(Catalogue::embedded());
    let provider = OpenAiChat::compatible("ollama", &OLLAMA, http(), catalogue, variables(&url)).unwrap();
    let target = provider.facts("gpt-oss:20b").target;
    let request = Talk::default().user("Hi.").request("ollama/gpt-oss:20b", &target, |_| {});
    let frames: Vec<_> = provider.open(request).await.unwrap().collect().await;
    let expected = told([OLLAMAS.as_bytes()], Completions::new("ollama")).frames;
    assert_eq!(frames, expected.into_iter().map(Ok).collect::<Vec<_>>());
    let asked = asked.await.unwrap();
    assert!(asked.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{asked}");
    assert!(!asked.contains("authorization:") && !asked.contains(KEY));
    let body: Value = serde_json::from_str(asked.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["model"], "gpt-oss:20b");
}

/// An error in the stream knows the request it belongs to.
#[tokio::test]
async fn an_error_knows_its_request() {
    const CUT: &str = include_str!("../../../fixtures/openai_chat/network_error.sse");
    let (url, _) = server("200 OK", "text/event-stream", CUT).await;
    let provider = OpenAiChat::usual(http(), Arc::new(Catalogue::embedded()), variables(&url)).unwrap();
    let target = provider.facts("gpt-5.4").target;
    let request = Talk::default().user("Hi.").request("openai/gpt-5.4", &target, |_| {});
    let error = provider.open(request).await.unwrap().collect::<Vec<_>>().await.pop().unwrap().unwrap_err();
    assert_eq!((error.kind, error.cause), (ErrorKind::Timeout, Cause::ErrorFinish));
    assert_eq!(error.request_id.as_deref(), Some("req_7"));
}

/// What the catalogue knows of a model holds for this wire as far as the wire goes.
#[test]
fn facts_are_this_wires() {
    let catalogue = Arc::new(Catalogue::embedded());
    let provider = OpenAiChat::usual(http(), catalogue.clone(), variables("http://localhost/v1")).unwrap();
    let facts = provider.facts("gpt-5.4");
    assert_eq!((facts.target.wire, facts.can.reattach), (WireFormat::OpenAiChat, Reattach::No));
    assert!(!facts.target.reasoning && !facts.target.background && facts.target.replays.is_empty());
    assert!(facts.context_limit.is_some() && facts.price.is_some());
    let router = OpenAiChat::compatible("openrouter", &OPENROUTER, http(), catalogue, |_| None).unwrap();
    assert_eq!((router.name(), router.facts("x/y").price), ("openrouter", None));
}
