//! Breaks at bytes all over the stream, on every wire.
//!
//! Which words had come by then is the network's affair, so nothing is compared with a picture. What holds at every byte is:
//! the answer is whole, no word is lost or doubled, and it took one more attempt at most.

use std::sync::Arc;

use everturn::core::chat::TurnEnd;
use everturn::stores::Memory;
use everturn::{Builder, Engine};
use everturn_understudy::http::{UnderstudyOptions, UnderstudyServer};
use futures_util::future::join_all;

use super::case::{WHOLE, counting, limits, numbers};
use super::set::Sockets;
use super::way::Way;

/// Where it breaks: everywhere, as far as one second goes. No wire needs more bytes for the answer.
const BYTES: std::ops::Range<usize> = 0..12_000;
const STEP: usize = 131;

/// How it breaks, in turn.
const BREAKS: [&str; 3] = ["reset", "truncate", "cut"];

/// Plays one answer for every byte at which it can break.
async fn broken_everywhere(way: Way) {
    let server = UnderstudyServer::start(counting(Vec::new()), UnderstudyOptions::default()).await.unwrap();
    let bytes: Vec<usize> = BYTES.step_by(STEP).collect();
    let model = |byte: usize| format!("{}-faults:{}-at-byte@{byte}x1", way.model(), BREAKS[byte / STEP % BREAKS.len()]);
    let agents = |builder: Builder, byte: &usize| builder.agent(byte.to_string(), way.agent(&model(*byte), limits()));
    let builder = bytes.iter().fold(Engine::builder().store(Arc::new(Memory::new())).seed(7), agents);
    let engine = way.provider(builder, &server.url(), Sockets::new().with(&limits())).start();
    let engine = &engine;
    let attempts = join_all(bytes.iter().map(|byte| async move {
        let chat = engine.create(&byte.to_string()).await.unwrap();
        chat.send("Count.").await.unwrap();
        assert_eq!(chat.rest().await.unwrap().ended(), Some(TurnEnd::Done), "{way} at {byte}");
        assert_eq!(chat.newest_reply().await.unwrap().unwrap(), numbers(1, WHOLE), "{way} at {byte}");
        chat.attempts(0).await.unwrap().len()
    }))
    .await;
    let refused: Vec<_> = server.requests().into_iter().filter_map(|request| request.refused).collect();
    assert_eq!(refused, [], "every request is one its provider takes");
    let broken = attempts.iter().filter(|attempts| **attempts == 2).count();
    assert!(attempts.iter().all(|attempts| (1..=2).contains(attempts)), "{attempts:?}");
    assert!(broken > 20 && broken < bytes.len(), "{broken} of {} broke: the bytes reach to the end", bytes.len());
}

/// AW24: Anthropic Messages, gone on with by instruction.
#[tokio::test]
async fn anthropic() {
    broken_everywhere(Way::Anthropic).await;
}

/// AW24: Anthropic Messages, gone on with from the model's own words.
#[tokio::test]
async fn prefill() {
    broken_everywhere(Way::Prefill).await;
}

/// AW24: OpenAI Responses.
#[tokio::test]
async fn responses() {
    broken_everywhere(Way::Responses).await;
}

/// AW24: OpenAI Responses, re-attached to.
#[tokio::test]
async fn kept() {
    broken_everywhere(Way::Kept).await;
}

/// AW24: OpenAI Chat Completions.
#[tokio::test]
async fn chat() {
    broken_everywhere(Way::Chat).await;
}

/// AW24: Gemini.
#[tokio::test]
async fn gemini() {
    broken_everywhere(Way::Gemini).await;
}
