//! The stream of a chat's events.
//!
//! A subscriber reads the store from its cursor on, when its connection has room; no writer waits for it and nothing is
//! buffered for it. Each event is one line of JSON. An `id:` is sent only where a client can resume: with the last event of
//! a catch-up, because a stream cannot resume in the middle of a commit.

mod all;
pub(crate) mod life;
mod list;

use axum::response::Response;
use bytes::Bytes;
use everturn::Subscription;
use everturn::core::ids::ChatId;
use everturn::core::view::{Cursor, Event};
use everturn::stores::StoreError;

use crate::api::problem::Problem;
use crate::api::wire;
use crate::app::{OpenedChat, SharedApp};
use crate::auth::access::Caller;
use crate::net::slow_reader::CutSignal;
pub use all::{Followed, answer_all};
use life::{FrameSource, StreamLife};

/// The stream of one chat to one client.
struct Watch {
    life: StreamLife,
    chat: ChatId,
    events: Subscription,
}

/// The events of a chat from a cursor on, as an endless response.
pub fn answer(app: SharedApp, caller: &Caller, chat: &OpenedChat, cursor: Option<Cursor>) -> Result<Response, Problem> {
    let life = StreamLife::begin(app, caller)?;
    let watch = Watch { chat: chat.handle.id(), events: chat.handle.events(cursor), life };
    Ok(life::response(watch))
}

impl FrameSource for Watch {
    fn ends(&self) -> CutSignal {
        self.life.ends()
    }

    async fn frame(&mut self) -> Option<Bytes> {
        if let Some(said) = self.life.hello() {
            return said;
        }
        loop {
            let beat = tokio::select! {
                biased;
                beat = self.life.beat() => beat,
                event = self.events.next() => {
                    self.life.spoke();
                    return match event {
                        Ok(event) => {
                            let frame = self.gather(event).await;
                            self.life.say(frame)
                        }
                        Err(error) => self.life.end(trouble(&error)),
                    };
                }
            };
            if let Some(said) = self.life.heed(beat) {
                return Some(said);
            }
        }
    }
}

impl Watch {
    /// An event and the rest of its catch-up in one frame, so that all of it counts towards the byte budget.
    async fn gather(&mut self, first: Event) -> Vec<u8> {
        let mut frame = Vec::new();
        let mut event = first;
        loop {
            wire::line::write(&mut frame, self.chat, &event, self.events.cursor());
            if self.events.cursor().is_some() {
                return frame;
            }
            event = match self.events.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) | Err(_) => return frame, // An error shows again at the next read.
            };
        }
    }
}

fn trouble(error: &StoreError) -> &'static str {
    match error {
        StoreError::NoSuchChat => "the chat is gone",
        StoreError::Unavailable(_) => "the store is not available",
        StoreError::Unreadable(_) => "the chat cannot be read",
        StoreError::Damaged(_) => "the chat is damaged",
    }
}
