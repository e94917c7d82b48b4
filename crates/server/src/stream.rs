//! The stream of a chat's events.
//!
//! A subscriber reads the store from its cursor on, when its connection has room; nobody waits for it and nothing is kept
//! for it. Each event is one line of JSON. An `id:` stands only where a client can resume: behind the last event of a
//! catch-up, because nobody can resume from half a commit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use everturn::Subscription;
use everturn::core::view::{Cursor, Event};
use everturn::stores::{StoreError, TokenHash};
use futures_util::stream;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

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
    heartbeat: Interval,
    recheck: Interval,
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
    let ticks = |period| {
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    };
    let watch = Watch {
        events: chat.handle.events(cursor),
        token,
        heartbeat: ticks(app.bounds.heartbeat),
        recheck: ticks(app.bounds.recheck),
        until: Instant::now() + app.bounds.stream_time_max,
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
    async fn frame(&mut self) -> Option<String> {
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
                () = self.app.shutdown.cancelled() => return self.end("the server is going down"),
                () = sleep_until(self.until) => return self.end("time to reconnect"),
                _ = self.recheck.tick() => if !self.is_still_good().await {
                    return self.end("the token is not good any more");
                },
                event = self.events.next() => {
                    self.heartbeat.reset();
                    return match event {
                        Ok(event) => Some(self.gather(event).await),
                        Err(error) => self.end(trouble(&error)),
                    };
                }
                _ = self.heartbeat.tick() => return Some(HEARTBEAT.into()),
            }
        }
    }

    /// An event, and those of the same catch-up behind it as far as they fit.
    async fn gather(&mut self, first: Event) -> String {
        let mut frame = String::new();
        let mut event = first;
        loop {
            write(&mut frame, &event, self.events.cursor());
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
    fn end(&mut self, why: &str) -> Option<String> {
        self.state = State::Over;
        Some(format!(": bye, {why}\n\n"))
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

fn write(frame: &mut String, event: &Event, cursor: Option<Cursor>) {
    let event = wire::Event::from(event);
    // JSON has no line breaks of its own and escapes those of its strings: data is one line.
    let Ok(data) = serde_json::to_string(&event) else { return };
    frame.extend(["event: ", event.name(), "\n"]);
    if let Some(cursor) = cursor {
        frame.push_str(&format!("id: {cursor}\n"));
    }
    frame.extend(["data: ", &data, "\n\n"]);
}
