//! How every stream begins, lives and ends.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use everturn::stores::TokenHash;
use futures_util::stream;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

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
    heartbeat: Interval,
    recheck: Interval,
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
    /// It has lasted long enough.
    Late,
    /// Time to ask whether the token is still good.
    Recheck,
    /// Nothing was said for a while.
    Quiet,
}

impl Life {
    pub(super) fn begin(app: Shared, caller: &Caller) -> Result<Self, Problem> {
        let token = caller.token().hash;
        let place = app.streams.enter(token, app.bounds.streams_max);
        let place = place.ok_or_else(|| Problem::new(Kind::TooMany, "This token has too many streams open."))?;
        app.meter.streams.inc();
        let ticks = |period| {
            let mut ticks = interval_at(Instant::now() + period, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        Ok(Self {
            token,
            heartbeat: ticks(app.bounds.heartbeat),
            recheck: ticks(app.bounds.recheck),
            until: Instant::now() + app.bounds.stream_time_max,
            state: State::New,
            app,
            _place: place,
        })
    }

    /// What has to be said now, whatever the events are: at first a greeting, and after the end nothing.
    pub(super) fn hello(&mut self) -> Option<Option<String>> {
        match self.state {
            State::New => {
                self.state = State::Open;
                Some(Some(HELLO.into()))
            }
            State::Open => None,
            State::Over => Some(None),
        }
    }

    /// What comes, whatever the events are. Dropping the future loses nothing.
    pub(super) async fn beat(&mut self) -> Beat {
        tokio::select! {
            biased;
            () = self.app.shutdown.cancelled() => Beat::Down,
            () = sleep_until(self.until) => Beat::Late,
            _ = self.recheck.tick() => Beat::Recheck,
            _ = self.heartbeat.tick() => Beat::Quiet,
        }
    }

    /// Something was said: the next heartbeat is put off.
    pub(super) fn spoke(&mut self) {
        self.heartbeat.reset();
    }

    /// Does what a beat is for, and says what has to be said about it.
    pub(super) async fn heed(&mut self, beat: Beat) -> Option<String> {
        match beat {
            Beat::Down => self.end("the server is going down"),
            Beat::Late => self.end("time to reconnect"),
            Beat::Recheck if self.is_still_good().await => None,
            Beat::Recheck => self.end("the token is not good any more"),
            Beat::Quiet => Some(HEARTBEAT.into()),
        }
    }

    async fn is_still_good(&self) -> bool {
        // A store that cannot be asked is not a reason to cut everybody.
        !matches!(self.app.token(&self.token).await, Ok(None))
    }

    /// Says why the stream ends. A comment: clients come back with the cursor they have.
    pub(super) fn end(&mut self, why: &str) -> Option<String> {
        self.state = State::Over;
        Some(format!(": bye, {why}\n\n"))
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
    fn frame(&mut self) -> impl Future<Output = Option<String>> + Send;
}

/// An answer without end.
pub(super) fn response(watch: impl Frames) -> Response {
    let frames = stream::unfold(watch, |mut watch| async move {
        let frame = watch.frame().await?;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), watch))
    });
    // A proxy that gathers what it passes on would undo the streaming.
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    let mut response = (headers, Body::from_stream(frames)).into_response();
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
