//! Streams of fronts, which break instead of ending.
//!
//! A front says what the frames are; this module gives them the life of every stream of the server: a greeting so that
//! proxies see bytes at once, keep-alives, the check of the token, the limit on open streams, the byte budget. Whatever
//! cuts a stream before its protocol's last event breaks it: HTTP/1.1 closes the connection without the last chunk, HTTP/2
//! sends RST_STREAM. Clients take a clean end for success.

use std::fmt;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;

use super::Front;
use crate::api::problem::Problem;
use crate::api::stream::life::{StreamDue, StreamLife};
use crate::app::SharedApp;
use crate::auth::access::Caller;

/// What a front sends next.
#[derive(Debug)]
pub(crate) enum FrontPiece {
    /// Bytes; more follow.
    Frame(Bytes),
    /// Bytes that end with the protocol's last event.
    Last(Bytes),
    /// Nothing more can be said now, and the protocol's last event has not been sent. The text is for the log.
    Broken(&'static str),
}

/// The frames of a front's stream.
pub(crate) trait FrontFrames: Send + 'static {
    /// The next piece; waits for one. Dropping the future must lose nothing.
    fn next(&mut self) -> impl Future<Output = FrontPiece> + Send;

    /// The protocol's last event was taken by the connection.
    fn delivered(&mut self) {}

    /// What is sent when nothing else was for a while. It must mean nothing to clients.
    fn keep_alive(&mut self) -> Bytes {
        Bytes::from_static(b": still here\n\n")
    }
}

/// A stream was cut before its protocol's last event.
#[derive(Debug, Clone, Copy)]
struct StreamBroken(&'static str);

impl fmt::Display for StreamBroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stream was broken before its last event: {}", self.0)
    }
}

impl std::error::Error for StreamBroken {}

/// One stream to one client.
struct FrontStream<F> {
    front: Front,
    life: StreamLife,
    frames: F,
    state: State,
    /// Whether the protocol's last event was handed over.
    is_delivered: bool,
}

#[derive(PartialEq)]
enum State {
    New,
    Open,
    Over,
}

/// The response that sends these frames.
pub(crate) fn respond(
    app: SharedApp,
    caller: &Caller,
    front: Front,
    frames: impl FrontFrames,
) -> Result<Response, Problem> {
    let life = StreamLife::begin(app, caller)?;
    let ends = life.ends();
    // Boxed: `unfold` moves it with every frame.
    let sent = Box::new(FrontStream { front, life, frames, state: State::New, is_delivered: false });
    let body = stream::unfold(sent, |mut sent| async move {
        let frame = sent.frame().await?;
        Some((frame, sent))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    let mut response = (headers, Body::from_stream(body)).into_response();
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response.extensions_mut().insert(ends);
    Ok(response)
}

impl<F: FrontFrames> FrontStream<F> {
    async fn frame(&mut self) -> Option<Result<Bytes, StreamBroken>> {
        match self.state {
            State::New => {
                self.state = State::Open;
                return Some(Ok(Bytes::from_static(b": stream-open\n\n"))); // Proxies answer 524 to silence.
            }
            State::Open => {}
            State::Over => {
                if self.is_delivered {
                    self.frames.delivered();
                }
                return None;
            }
        }
        loop {
            let beat = tokio::select! {
                biased;
                beat = self.life.beat() => beat,
                piece = self.frames.next() => return Some(self.send(piece)),
            };
            match self.life.check(&beat) {
                StreamDue::Nothing => {}
                StreamDue::KeepAlive => return Some(Ok(self.frames.keep_alive())),
                StreamDue::End(why) => return Some(Err(self.break_off(why))),
            }
        }
    }

    fn send(&mut self, piece: FrontPiece) -> Result<Bytes, StreamBroken> {
        self.life.spoke();
        let bytes = match piece {
            FrontPiece::Frame(bytes) => bytes,
            FrontPiece::Last(bytes) => {
                self.state = State::Over;
                self.is_delivered = true;
                bytes
            }
            FrontPiece::Broken(why) => return Err(self.break_off(why)),
        };
        match self.life.reserve(bytes.len()) {
            Ok(()) => Ok(bytes),
            Err(why) => Err(self.break_off(why)),
        }
    }

    fn break_off(&mut self, why: &'static str) -> StreamBroken {
        self.state = State::Over;
        self.is_delivered = false;
        self.life.app.meter.fronts.broken(self.front);
        tracing::info!(front = self.front.label(), why, "stream broken before its last event; its client resumes");
        StreamBroken(why)
    }
}
