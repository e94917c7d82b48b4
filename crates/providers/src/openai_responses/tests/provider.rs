//! The provider over a real socket.

use std::sync::Arc;

use everturn_core::delta::GenerationHandle;
use everturn_core::error::{Cause, ErrorKind, Retry};
use everturn_core::limits::Thinking;
use everturn_core::message::Stop;
use everturn_core::recovery::Reattach;
use futures_util::StreamExt as _;
use serde_json::Value;

use super::super::decode::{ResponseRetention, Responses};
use crate::catalogue::Catalogue;
use crate::openai_responses::OpenAiResponses;
use crate::provider::{Frame, Provider};
use crate::tests::cuts::told;
use crate::tests::recorded_server::{KEY, http, server, variables};
use crate::tests::transcript::Talk;

const TEXT: &str = include_str!("../../../fixtures/openai_responses/text.sse");
const BACKGROUND: &str = include_str!("../../../fixtures/openai_responses/background.sse");

fn provider(url: &str) -> OpenAiResponses {
    OpenAiResponses::usual(http(), Arc::new(Catalogue::embedded()), variables(url)).unwrap()
}

fn handle(cursor: &str) -> GenerationHandle {
    GenerationHandle { id: "resp_09".into(), cursor: cursor.into() }
}

/// A question goes where it should, with what it needs, and its answer is read.
#[tokio::test]
async fn a_question_and_its_answer() {
    let (url, asked) = server("200 OK", "text/event-stream", TEXT).await;
    let provider = provider(&url).keeping();
    let target = provider.facts("gpt-5.4").target;
    let request = Talk::default().user("Hi.").request("openai/gpt-5.4", &target, |_| {});
    let frames: Vec<_> = provider.open(request).await.unwrap().collect().await;
    let expected = told([TEXT.as_bytes()], Responses::new("openai", ResponseRetention::Response)).frames;
    assert_eq!(frames, expected.into_iter().map(Ok).collect::<Vec<_>>());

    let asked = asked.await.unwrap();
    assert!(asked.starts_with("POST /v1/responses HTTP/1.1\r\n"), "{asked}");
    for header in [&format!("authorization: Bearer {KEY}"), "openai-organization: org-1", "openai-project: proj_2"] {
        assert!(asked.contains(&format!("{header}\r\n")), "{header} in {asked}");
    }
    let body: Value = serde_json::from_str(asked.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((&body["store"], &body["model"]), (&Value::Bool(true), &Value::from("gpt-5.4")));
}

/// A lost generation is asked for after the last event that was taken in.
#[tokio::test]
async fn a_generation_is_found_again() {
    let (url, asked) = server("200 OK", "text/event-stream", BACKGROUND).await;
    let frames: Vec<_> = provider(&url).reattach("gpt-5.4", &handle("13")).await.unwrap().collect().await;
    assert_eq!(frames.last(), Some(&Ok(Frame::Stop(Stop::ToolUse))));
    let asked = asked.await.unwrap();
    let line = "GET /v1/responses/resp_09?stream=true&starting_after=13&include[]=reasoning.encrypted_content HTTP/1.1";
    assert_eq!(asked.lines().next(), Some(line));
}

/// A lost generation is a broken stream that cannot be resumed, and so is an invalid handle.
#[tokio::test]
async fn a_generation_may_be_gone() {
    let gone = (ErrorKind::Truncated, Retry::Backoff, Cause::ErrorFinish);
    let body = r#"{"error":{"message":"Response with id 'resp_09' not found.","type":"invalid_request_error"}}"#;
    let (url, _) = server("404 Not Found", "application/json", body).await;
    let error = provider(&url).reattach("gpt-5.4", &handle("13")).await.err().unwrap();
    assert_eq!((error.kind, error.retry, error.cause), gone);
    assert_eq!((error.status, error.request_id.as_deref()), (Some(404), Some("req_7")));
    let provider = provider("http://127.0.0.1:1/v1");
    let handles = [handle(""), handle("x"), GenerationHandle { id: "../models".into(), cursor: "1".into() }];
    for handle in handles {
        let error = provider.reattach("gpt-5.4", &handle).await.err().unwrap();
        assert_eq!((error.kind, error.retry, error.cause), gone, "{handle:?}");
    }
}

#[tokio::test]
async fn a_generation_can_be_cancelled() {
    let (url, asked) = server("200 OK", "application/json", r#"{"id":"resp_09","status":"cancelled"}"#).await;
    provider(&url).cancel(&handle("13")).await.unwrap();
    assert_eq!(asked.await.unwrap().lines().next(), Some("POST /v1/responses/resp_09/cancel HTTP/1.1"));
}

#[test]
fn facts_come_from_the_catalogue() {
    let provider = provider("http://localhost/v1");
    let facts = provider.facts("gpt-5-mini-2025-08-07");
    assert_eq!((facts.thinks, facts.can.reattach, facts.output_max), (Thinking::Yes, Reattach::Yes, 128_000));
    assert_eq!((facts.target.background, facts.target.reasoning), (true, true));
    assert_eq!(facts.target.replays, ["web_search"]);
    let facts = provider.facts("gpt-4.1-mini");
    assert_eq!((facts.thinks, facts.target.reasoning, facts.context_limit), (Thinking::No, false, Some(1_047_576)));
    assert_eq!(provider.facts("gpt-5.9-nova").price, None, "what is not known is not guessed");
    assert!(!format!("{provider:?}").contains(KEY));
}
