//! Panics in the engine, in tools and in hooks.

use async_trait::async_trait;
use everturn::core::chat::{Chat, TurnEnd};
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::message::Stop;
use everturn::{Agent, Hook};
use everturn_understudy::{Understudy, fail, script, stop, text};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::stage::{Stage, agent};

/// Panics the first few times it is asked.
struct Landmine(AtomicUsize);

#[async_trait]
impl Hook for Landmine {
    async fn before_step(&self, _chat: &Chat) -> Option<String> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_err(), "a panic on purpose");
        None
    }
}

fn mined(panics: usize) -> Agent {
    Agent { hook: Some(Arc::new(Landmine(AtomicUsize::new(panics)))), ..agent() }
}

/// I16: a driver that panics is replaced; one that always does ends the turn with a reason, and the chat can be used.
#[tokio::test(start_paused = true)]
async fn a_driver_that_panics_is_replaced() {
    let answer = || script([text("Here."), stop(Stop::End)]);
    let stage = Stage::new(Understudy::new([answer()]), mined(2)).await;
    stage.run("hi").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);

    let stage = Stage::new(Understudy::new([answer()]), mined(3)).await;
    stage.run("hi").await;
    assert!(matches!(stage.ended().await, TurnEnd::Failed(failure) if failure.message.contains("crashed")));
    stage.chat.send("still there?").await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(stage.replies().await, "Here.");
}

/// I3: text that was shown before the driver panicked for good is kept.
#[tokio::test(start_paused = true)]
async fn shown_words_outlive_a_driver_that_panics() {
    let broken = script([text("Half an answer"), fail(ErrorKind::Timeout, Cause::Reset)]);
    let hook = Fuse(AtomicUsize::new(1));
    let stage = Stage::new(Understudy::new([broken]), Agent { hook: Some(Arc::new(hook)), ..agent() }).await;
    stage.run("hi").await;
    assert!(matches!(stage.ended().await, TurnEnd::Failed(_)));
    assert_eq!(stage.replies().await, "Half an answer");
}

/// Lets a number of steps pass and then panics every time.
struct Fuse(AtomicUsize);

#[async_trait]
impl Hook for Fuse {
    async fn before_step(&self, _chat: &Chat) -> Option<String> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_ok(), "a panic on purpose");
        None
    }
}
