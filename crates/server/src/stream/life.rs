//! How every stream begins, lives and ends.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use everturn::stores::TokenHash;
use futures_util::stream;
use tokio::time::{Duration, Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::access::Caller;
use crate::app::Shared;
use crate::entropy;
use crate::places::Place;
use crate::problem::{Kind, Problem};

/// How much is written at once before the connection is asked again.
pub(super) const FRAME_BYTES: usize = 64 * 1024;
/// How soon to come back, in milliseconds: after a restart not all in the same moment.
const RETRY_MS: std::ops::Range<u64> = 500..2_000;
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
    /// When to ask whether the token is still good, and that question. Events do not wait for the answer: on a busy
    /// machine it may take long.
    recheck: Instant,
    asked: Option<Pin<Box<dyn Future<Output = bool> + Send>>>,
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
    /// Whether the token is still good.
    Checked(bool),
}

impl Life {
    pub(super) fn begin(app: Shared, caller: &Caller) -> Result<Self, Problem> {
        let token = caller.token().hash;
        let place = app.streams.enter(token, app.bounds.streams_max);
        let place = place.ok_or_else(|| Problem::new(Kind::TooMany, "This token has too many streams open."))?;
        app.meter.streams.inc();
        let now = Instant::now();
        let lasts = app.bounds.stream_time_max.as_millis() as u64;
        let lasts = Duration::from_millis(lasts - entropy::below(lasts / 5 + 1)); // Those that came together go one by one.
        Ok(Self {
            token,
            shutdown: Box::pin(app.shutdown.clone().cancelled_owned()),
            alarm: Box::pin(sleep_until(now)),
            spoke: now,
            recheck: now + app.bounds.recheck,
            asked: None,
            until: now + lasts,
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
                let retry = RETRY_MS.start + entropy::below(RETRY_MS.end - RETRY_MS.start);
                Some(Some(format!("retry: {retry}\n: everturn\n\n").into()))
            }
            State::Open => None,
            State::Over => Some(None),
        }
    }

    /// What comes, whatever the events are. Dropping the future loses nothing.
    pub(super) async fn beat(&mut self) -> Beat {
        let answer = async {
            match &mut self.asked {
                Some(asked) => asked.await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.shutdown.as_mut() => Beat::Down,
            is_good = answer => Beat::Checked(is_good),
            () = self.alarm.as_mut() => Beat::Due,
        }
    }

    /// Something was said: the next heartbeat is put off.
    pub(super) fn spoke(&mut self) {
        self.spoke = Instant::now();
    }

    /// Does what a beat is for, and says what has to be said about it.
    pub(super) fn heed(&mut self, beat: Beat) -> Option<Bytes> {
        let now = Instant::now();
        match beat {
            Beat::Down => return self.end("the server is going down"),
            Beat::Checked(false) => return self.end("the token is not good any more"),
            Beat::Checked(true) => (self.asked, self.recheck) = (None, now + self.app.bounds.recheck),
            Beat::Due if now >= self.until => return self.end("time to reconnect"),
            Beat::Due if now >= self.recheck && self.asked.is_none() => self.ask(),
            Beat::Due => {}
        }
        let is_quiet = now >= self.spoke + self.app.bounds.heartbeat;
        if is_quiet {
            self.spoke = now;
        }
        let recheck = if self.asked.is_none() { self.recheck } else { self.until };
        self.alarm.as_mut().reset(self.until.min(recheck).min(self.spoke + self.app.bounds.heartbeat));
        is_quiet.then(|| Bytes::from_static(HEARTBEAT.as_bytes()))
    }

    /// Asks whether the token is still good. A store that cannot be asked is not a reason to cut everybody.
    fn ask(&mut self) {
        let (app, token) = (self.app.clone(), self.token);
        self.asked = Some(Box::pin(async move { !matches!(app.token(&token).await, Ok(None)) }));
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
