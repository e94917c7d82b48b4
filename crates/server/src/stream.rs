//! The stream of a chat's events.
//!
//! A subscriber reads the store from its cursor on, when its connection has room; nobody waits for it and nothing is kept
//! for it. Each event is one line of JSON. An `id:` stands only where a client can resume: behind the last event of a
//! catch-up, because nobody can resume from half a commit.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use everturn::Subscription;
use everturn::core::view::{Cursor, Event};
use everturn::stores::{StoreError, TokenHash};
use futures_util::stream;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::access::Caller;
use crate::app::{OwnChat, Shared};
use crate::problem::{Kind, Problem};
use crate::wire;

/// How much is written at once before the connection is asked again.
const FRAME_BYTES: usize = 64 * 1024;
/// First of all: how soon to come back, in milliseconds, and that we are here.
const HELLO: &str = "retry: 1000\n: everturn\n\n";
const HEARTBEAT: &str = ": still here\n\n";

/// How many streams each token has open.
#[derive(Debug, Default)]
pub struct Streams(Arc<Mutex<HashMap<TokenHash, usize>>>);

/// A place among the streams of a token; given back when dropped.
struct Place {
    open: Arc<Mutex<HashMap<TokenHash, usize>>>,
    token: TokenHash,
}

impl Streams {
    fn enter(&self, token: TokenHash, max: usize) -> Option<Place> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(token).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(Place { open: self.0.clone(), token })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.token);
            }
        }
    }
}

/// One client that watches one chat.
struct Watch {
    app: Shared,
    events: Subscription,
    token: TokenHash,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    /// One timer for all that is due some time. It is not moved with every event: when it fires, it asks what is due.
    alarm: Pin<Box<Sleep>>,
    /// When something was written last.
    wrote: Instant,
    recheck: Instant,
    until: Instant,
    state: State,
    _place: Place,
}

#[derive(PartialEq)]
enum State {
    New,
    Open,
    Over,
}

/// The events of a chat from a cursor on, as an answer without end.
pub fn answer(app: Shared, caller: &Caller, chat: &OwnChat, cursor: Option<Cursor>) -> Result<Response, Problem> {
    let token = caller.token().hash;
    let place = app.streams.enter(token, app.bounds.streams_max);
    let place = place.ok_or_else(|| Problem::new(Kind::TooMany, "This token has too many streams open."))?;
    app.meter.streams.inc();
    let now = Instant::now();
    let watch = Watch {
        events: chat.handle.events(cursor),
        token,
        shutdown: Box::pin(app.shutdown.clone().cancelled_owned()),
        alarm: Box::pin(sleep_until(now)),
        wrote: now,
        recheck: now + app.bounds.recheck,
        until: now + app.bounds.stream_time_max,
        state: State::New,
        app,
        _place: place,
    };
    let frames = stream::unfold(watch, |mut watch| async move {
        let frame = watch.frame().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(frame)), watch))
    });
    // A proxy that gathers what it passes on would undo the streaming.
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    let mut response = (headers, Body::from_stream(frames)).into_response();
    response.headers_mut().insert("x-accel-buffering", axum::http::HeaderValue::from_static("no"));
    Ok(response)
}

impl Watch {
    /// What to write next; `None` when the stream is over.
    async fn frame(&mut self) -> Option<Vec<u8>> {
        match self.state {
            State::New => {
                self.state = State::Open;
                return Some(HELLO.into());
            }
            State::Open => {}
            State::Over => return None,
        }
        loop {
            tokio::select! {
                biased;
                () = self.shutdown.as_mut() => return self.end("the server is going down"),
                () = self.alarm.as_mut() => {
                    if let Some(frame) = self.alarmed().await {
                        return Some(frame);
                    }
                }
                event = self.events.next() => {
                    self.wrote = Instant::now();
                    return match event {
                        Ok(event) => Some(self.gather(event).await),
                        Err(error) => self.end(trouble(&error)),
                    };
                }
            }
        }
    }

    /// Does what is due, and sets the alarm for what is due next.
    async fn alarmed(&mut self) -> Option<Vec<u8>> {
        let now = Instant::now();
        if now >= self.until {
            return self.end("time to reconnect");
        }
        if now >= self.recheck {
            if !self.is_still_good().await {
                return self.end("the token is not good any more");
            }
            self.recheck = now + self.app.bounds.recheck;
        }
        let is_quiet = now >= self.wrote + self.app.bounds.heartbeat;
        if is_quiet {
            self.wrote = now;
        }
        let next = self.until.min(self.recheck).min(self.wrote + self.app.bounds.heartbeat);
        self.alarm.as_mut().reset(next);
        is_quiet.then(|| HEARTBEAT.into())
    }

    /// An event, and those of the same catch-up behind it as far as they fit.
    async fn gather(&mut self, first: Event) -> Vec<u8> {
        let mut frame = Vec::new();
        let mut event = first;
        loop {
            wire::line::write(&mut frame, &event, self.events.cursor());
            if self.events.cursor().is_some() || frame.len() >= FRAME_BYTES {
                return frame;
            }
            event = match self.events.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) | Err(_) => return frame, // What is wrong shows again at the next one.
            };
        }
    }

    async fn is_still_good(&self) -> bool {
        // A store that cannot be asked is not a reason to cut everybody.
        !matches!(self.app.token(&self.token).await, Ok(None))
    }

    /// Says why the stream ends. A comment: clients come back with the cursor they have.
    fn end(&mut self, why: &str) -> Option<Vec<u8>> {
        self.state = State::Over;
        Some(format!(": bye, {why}\n\n").into())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.app.meter.streams.dec();
    }
}

fn trouble(error: &StoreError) -> &'static str {
    match error {
        StoreError::NoSuchChat => "the chat is gone",
        StoreError::Unavailable(_) => "the store is not available",
        StoreError::Unreadable(_) => "the chat cannot be read",
    }
}
