//! How every stream begins, lives and ends.

use std::convert::Infallible;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use everturn::stores::TokenHash;
use futures_util::stream;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::access::Caller;
use crate::app::Shared;
use crate::places::Place;
use crate::problem::{Kind, Problem};

/// How much is written at once before the connection is asked again.
pub(super) const FRAME_BYTES: usize = 64 * 1024;
/// First of all: how soon to come back, in milliseconds, and that we are here.
const HELLO: &str = "retry: 1000\n: everturn\n\n";
const HEARTBEAT: &str = ": still here\n\n";

/// What a stream has besides its events.
pub(super) struct Life {
    pub(super) app: Shared,
    token: TokenHash,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    /// One timer for all that is due some time. It is not moved with every event: when it fires, it asks what is due.
    alarm: Pin<Box<Sleep>>,
    /// When something was said last.
    spoke: Instant,
    recheck: Instant,
    until: Instant,
    state: State,
    _place: Place<TokenHash>,
}

#[derive(PartialEq)]
enum State {
    New,
    Open,
    Over,
}

/// What comes, whatever the events are.
pub(super) enum Beat {
    /// The server goes down.
    Down,
    /// Something is due.
    Due,
}

impl Life {
    pub(super) fn begin(app: Shared, caller: &Caller) -> Result<Self, Problem> {
        let token = caller.token().hash;
        let place = app.streams.enter(token, app.bounds.streams_max);
        let place = place.ok_or_else(|| Problem::new(Kind::TooMany, "This token has too many streams open."))?;
        app.meter.streams.inc();
        let now = Instant::now();
        Ok(Self {
            token,
            shutdown: Box::pin(app.shutdown.clone().cancelled_owned()),
            alarm: Box::pin(sleep_until(now)),
            spoke: now,
            recheck: now + app.bounds.recheck,
            until: now + app.bounds.stream_time_max,
            state: State::New,
            app,
            _place: place,
        })
    }

    /// What has to be said now, whatever the events are: at first a greeting, and after the end nothing.
    pub(super) fn hello(&mut self) -> Option<Option<Bytes>> {
        match self.state {
            State::New => {
                self.state = State::Open;
                Some(Some(Bytes::from_static(HELLO.as_bytes())))
            }
            State::Open => None,
            State::Over => Some(None),
        }
    }

    /// What comes, whatever the events are. Dropping the future loses nothing.
    pub(super) async fn beat(&mut self) -> Beat {
        tokio::select! {
            biased;
            () = self.shutdown.as_mut() => Beat::Down,
            () = self.alarm.as_mut() => Beat::Due,
        }
    }

    /// Something was said: the next heartbeat is put off.
    pub(super) fn spoke(&mut self) {
        self.spoke = Instant::now();
    }

    /// Does what a beat is for, and says what has to be said about it.
    pub(super) async fn heed(&mut self, beat: Beat) -> Option<Bytes> {
        let now = match beat {
            Beat::Down => return self.end("the server is going down"),
            Beat::Due => Instant::now(),
        };
        if now >= self.until {
            return self.end("time to reconnect");
        }
        if now >= self.recheck {
            if !self.is_still_good().await {
                return self.end("the token is not good any more");
            }
            self.recheck = now + self.app.bounds.recheck;
        }
        let is_quiet = now >= self.spoke + self.app.bounds.heartbeat;
        if is_quiet {
            self.spoke = now;
        }
        self.alarm.as_mut().reset(self.until.min(self.recheck).min(self.spoke + self.app.bounds.heartbeat));
        is_quiet.then(|| Bytes::from_static(HEARTBEAT.as_bytes()))
    }

    async fn is_still_good(&self) -> bool {
        // A store that cannot be asked is not a reason to cut everybody.
        !matches!(self.app.token(&self.token).await, Ok(None))
    }

    /// Says why the stream ends. A comment: clients come back with the cursor they have.
    pub(super) fn end(&mut self, why: &str) -> Option<Bytes> {
        self.state = State::Over;
        Some(format!(": bye, {why}\n\n").into())
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.app.meter.streams.dec();
    }
}

/// Something that is said piece by piece.
pub(super) trait Frames: Send + 'static {
    /// What to write next; `None` when the stream is over.
    fn frame(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// An answer without end.
pub(super) fn response(watch: impl Frames) -> Response {
    let frames = stream::unfold(watch, |mut watch| async move {
        let frame = watch.frame().await?;
        Some((Ok::<_, Infallible>(frame), watch))
    });
    // A proxy that gathers what it passes on would undo the streaming.
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    let mut response = (headers, Body::from_stream(frames)).into_response();
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
