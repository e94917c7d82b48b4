//! Begin, keep-alive and end of every stream.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use everturn::PollOnWake;
use everturn::stores::TokenHash;
use futures_util::stream;
use tokio::time::{Duration, Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::api::problem::{Problem, ProblemKind};
use crate::app::SharedApp;
use crate::app::per_key_limit::PerKeyPermit;
use crate::auth::access::Caller;
use crate::auth::token_watch::TokenWatch;
use crate::entropy;
use crate::net::slow_reader::CutSignal;
use crate::net::slow_reader::budget::ResponsePermit;

/// Reconnect delay in milliseconds: random, so that after a restart not all clients come in the same moment.
const RETRY_MS: std::ops::Range<u64> = 500..2_000;
const HEARTBEAT: &str = ": still here\n\n";

/// The parts of a stream beside its events.
pub(crate) struct StreamLife {
    pub(crate) app: SharedApp,
    /// Shutdown, token and timers, polled only on wake-up.
    rare: PollOnWake<RareSignals>,
    /// When a frame was sent last.
    spoke: Instant,
    until: Instant,
    state: State,
    /// The byte budget of the last frame, if it was large.
    room: ResponsePermit,
    check: Arc<TokenWatch>,
    _place: PerKeyPermit<TokenHash>,
}

struct RareSignals {
    /// Ready when the server shuts down, or the token is not valid any more. Another task checks the token, because that
    /// may take long on a busy machine, and events must not wait for it.
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    /// One timer for keep-alives and the end. It is not reset with every event: when it fires, the code checks what is due.
    alarm: Pin<Box<Sleep>>,
}

#[derive(PartialEq)]
enum State {
    New,
    Open,
    Over,
}

/// A wake-up of a stream other than an event.
pub(crate) enum StreamSignal {
    /// The server shuts down, or the token is not valid any more.
    Over,
    /// A keep-alive or the end of the stream may be due.
    Due,
}

/// What is due in a stream beside its events.
pub(crate) enum StreamDue {
    Nothing,
    KeepAlive,
    /// The end, and why.
    End(&'static str),
}

impl StreamLife {
    pub(crate) fn begin(app: SharedApp, caller: &Caller) -> Result<Self, Problem> {
        let token = caller.token().hash;
        let place = app.streams.enter(token, app.limits.streams_max);
        let place = place.ok_or_else(|| {
            Problem::new(
                ProblemKind::TooMany,
                "This token has too many open streams; close one, or wait until one ends.",
            )
        })?;
        app.meter.streams.inc();
        let now = Instant::now();
        let lasts = lasts(app.limits.stream_time_max);
        let check = app.checks.of(&app, caller.token());
        Ok(Self {
            rare: PollOnWake::new(RareSignals {
                over: Box::pin(check.over().clone().cancelled_owned()),
                alarm: Box::pin(sleep_until(now)),
            }),
            spoke: now,
            until: now + lasts,
            state: State::New,
            room: ResponsePermit::default(),
            app,
            check,
            _place: place,
        })
    }

    /// When the stream is cut if it cannot end cleanly.
    pub(crate) fn ends(&self) -> CutSignal {
        CutSignal::new(self.check.over().clone(), self.app.shutdown.clone())
    }

    /// The frame to send before any event: a greeting at first, `Some(None)` after the end, else `None`.
    pub(crate) fn hello(&mut self) -> Option<Option<Bytes>> {
        self.room = ResponsePermit::default(); // The previous frame is sent.
        match self.state {
            State::New => {
                self.state = State::Open;
                Some(Some(format!("retry: {}\n: everturn\n\n", retry_ms()).into()))
            }
            State::Open => None,
            State::Over => Some(None),
        }
    }

    /// A frame, with its part of the byte budget if it is large. If the budget is used up, the stream ends and the client
    /// resumes with its cursor: waiting with the frame in memory would need the same bytes.
    pub(crate) fn say(&mut self, frame: impl Into<Bytes>) -> Option<Bytes> {
        let frame = frame.into();
        match self.reserve(frame.len()) {
            Ok(()) => Some(frame),
            Err(why) => self.end(why),
        }
    }

    /// Reserves the byte budget of the next frame, and gives back that of the one before. The error says why the stream
    /// has to end.
    pub(crate) fn reserve(&mut self, len: usize) -> Result<(), &'static str> {
        self.room = ResponsePermit::default();
        self.room = self.app.answers.enter(len).map_err(|_full| "too much is being read at once")?;
        Ok(())
    }

    /// Waits for the next wake-up other than an event. Cancel safe.
    pub(crate) async fn beat(&mut self) -> StreamSignal {
        poll_fn(|context| self.rare.poll_with(context, RareSignals::poll)).await
    }

    /// Records that a frame was sent, which postpones the next keep-alive.
    pub(crate) fn spoke(&mut self) {
        self.spoke = Instant::now();
    }

    /// Handles a wake-up, and returns the keep-alive or the last comment to send.
    pub(crate) fn heed(&mut self, beat: StreamSignal) -> Option<Bytes> {
        match self.check(&beat) {
            StreamDue::Nothing => None,
            StreamDue::KeepAlive => Some(Bytes::from_static(HEARTBEAT.as_bytes())),
            StreamDue::End(why) => self.end(why),
        }
    }

    /// Handles a wake-up, and says what it is for.
    pub(crate) fn check(&mut self, beat: &StreamSignal) -> StreamDue {
        let now = Instant::now();
        match beat {
            StreamSignal::Over if self.app.shutdown.is_cancelled() => {
                return StreamDue::End("the server is going down");
            }
            StreamSignal::Over => return StreamDue::End("the token is not good any more"),
            StreamSignal::Due if now >= self.until => return StreamDue::End("time to reconnect"),
            StreamSignal::Due => {}
        }
        let is_quiet = now >= self.spoke + self.app.limits.heartbeat;
        if is_quiet {
            self.spoke = now;
        }
        self.rare.get_mut().alarm.as_mut().reset(self.until.min(self.spoke + self.app.limits.heartbeat));
        if is_quiet { StreamDue::KeepAlive } else { StreamDue::Nothing }
    }

    /// Ends the stream with a comment that says why. Clients resume with their cursor.
    pub(crate) fn end(&mut self, why: &str) -> Option<Bytes> {
        self.state = State::Over;
        Some(format!(": bye, {why}\n\n").into())
    }
}

impl RareSignals {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<StreamSignal> {
        if self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(StreamSignal::Over);
        }
        self.alarm.as_mut().poll(context).map(|()| StreamSignal::Due)
    }
}

impl Drop for StreamLife {
    fn drop(&mut self) {
        self.app.meter.streams.dec();
    }
}

/// How long a stream lasts: random, so that streams that began together end one by one.
fn lasts(max: Duration) -> Duration {
    let max = max.as_millis() as u64;
    Duration::from_millis(max - entropy::below(max / 5 + 1))
}

fn retry_ms() -> u64 {
    RETRY_MS.start + entropy::below(RETRY_MS.end - RETRY_MS.start)
}

/// A response that is sent frame by frame.
pub(crate) trait FrameSource: Send + 'static {
    /// The next frame; `None` when the stream is over.
    fn frame(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// When the stream is cut if it cannot end cleanly.
    fn ends(&self) -> CutSignal;
}

/// An endless response.
pub(crate) fn response(watch: impl FrameSource) -> Response {
    let ends = watch.ends();
    // Boxed: `unfold` moves it with every frame.
    let frames = stream::unfold(Box::new(watch), |mut watch| async move {
        let frame = watch.frame().await?;
        Some((Ok::<_, Infallible>(frame), watch))
    });
    // A proxy that buffers responses would undo the streaming.
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    let mut response = (headers, Body::from_stream(frames)).into_response();
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response.extensions_mut().insert(ends);
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Streams that began together do not end together, and do not all come back in the same moment.
    #[test]
    fn streams_go_and_come_back_one_by_one() {
        let max = Duration::from_secs(60 * 60);
        let times: BTreeSet<Duration> = (0..200).map(|_| lasts(max)).collect();
        assert!(times.iter().all(|time| (max * 4 / 5..=max).contains(time)), "{times:?}");
        assert!(*times.last().unwrap() - *times.first().unwrap() > max / 10, "they are spread");
        assert!(times.len() > 150, "{}", times.len());
        assert_eq!(lasts(Duration::ZERO), Duration::ZERO);
        let retries: BTreeSet<u64> = (0..200).map(|_| retry_ms()).collect();
        assert!(retries.iter().all(|retry| (500..2_000).contains(retry)), "{retries:?}");
        assert!(retries.last().unwrap() - retries.first().unwrap() > 1_000, "they are spread");
        assert!(retries.len() > 100, "{}", retries.len());
    }
}
