//! From bytes to frames.
//!
//! Each wire has a [`Decode`]: a pure fold from events to frames. Everything around it is the same for all: cut the bytes
//! into events, stop at the stop, and call a stream that ends without one what it is. [`Fold`] does that without a socket,
//! so a test can cut the bytes anywhere; [`frames`] drives it with one.

use std::collections::VecDeque;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use everturn_core::error::{ErrorKind, ProviderError, Retry};
use everturn_core::surrogates::{self, Edges};
use futures_util::stream::{BoxStream, Stream, StreamExt as _};
use memchr::memchr2;
use tokio::time::{Sleep, sleep};

use crate::provider::{Frame, FrameStream};
use crate::sse::{Decoder, Overlong, SseBounds, SseEvent};

pub(crate) mod halves;
#[cfg(test)]
mod tests;

use halves::Halves;

/// How one wire is read. A fold: the same events give the same frames, whenever they come.
pub trait Decode: Send + 'static {
    /// Takes the next event and adds what it means to `out`. What it does not know it keeps or skips; an error is for
    /// what the provider reports, and for what cannot be the protocol. After a [`Frame::Stop`] nothing more is asked.
    ///
    /// # Errors
    /// The provider failed in the middle of its answer, or broke its own protocol.
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError>;

    /// There will be no more events, and there was no [`Frame::Stop`]. A wire format with an optional last
    /// event may stop here if everything else has come; others do nothing.
    fn end(&mut self, out: &mut Vec<Frame>) {
        let _ = out;
    }

    /// Whether [`end`](Self::end) would stop now: all content has come and only the end is missing. A stream
    /// that falls silent here is complete.
    fn is_finished(&self) -> bool {
        false
    }
}

/// An answer being read: bytes in, frames out.
#[derive(Debug)]
pub struct Fold<D> {
    provider: String,
    sse: Decoder,
    decode: D,
    halves: Halves,
    stopped: bool,
}

impl<D: Decode> Fold<D> {
    /// An answer of which nothing has come.
    pub fn new(provider: &str, bounds: SseBounds, decode: D) -> Self {
        let (provider, sse) = (provider.to_owned(), Decoder::new(bounds));
        Self { provider, sse, decode, halves: Halves::default(), stopped: false }
    }

    /// Whether the answer is over.
    pub const fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether nothing is missing but the end.
    fn is_finished(&self) -> bool {
        !self.stopped && self.decode.is_finished()
    }

    /// Takes the next bytes and adds the frames they complete to `out`. Frames before an error are in `out` too.
    ///
    /// # Errors
    /// The provider failed, broke its own protocol, or sent more than it may.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        if self.stopped {
            return Ok(());
        }
        let Self { sse, decode, halves, stopped, provider } = self;
        let read = sse.push(bytes, |event| {
            if *stopped {
                return Ok(());
            }
            if has_more_values(event.data, VALUES_MAX) {
                return Err(Broke::Values);
            }
            let seen = out.len();
            let (data, edges) = surrogates::replaced(event.data);
            let decoded = decode.event(&SseEvent { data: &data, ..event }, out);
            halves.join(edges, out, seen);
            *stopped = cut_at_stop(out, seen);
            decoded.or_else(|error| if *stopped { Ok(()) } else { Err(Broke::Provider(error)) })
        });
        match read {
            Ok(()) => Ok(()),
            Err(Broke::Overlong(_)) if *stopped => Ok(()),
            Err(Broke::Overlong(what)) => Err(too_much(provider, &what.to_string())),
            Err(Broke::Values) => Err(too_much(provider, &format!("an event of more than {VALUES_MAX} values"))),
            Err(Broke::Provider(error)) => Err(error),
        }
    }

    /// The bytes are over. Right if the answer is, too.
    ///
    /// # Errors
    /// The answer was cut.
    pub fn end(&mut self, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        if !self.stopped {
            let seen = out.len();
            self.decode.end(out);
            self.halves.join(Edges::default(), out, seen);
            self.stopped = cut_at_stop(out, seen);
        }
        if self.stopped { Ok(()) } else { Err(ProviderError::new(&*self.provider, ErrorKind::Truncated)) }
    }
}

/// More than is taken. Asked again, the provider would most likely send as much again, and be paid for it.
fn too_much(provider: &str, what: &str) -> ProviderError {
    ProviderError::new(provider, ErrorKind::Malformed).with_retry(Retry::Once).with_detail(what)
}

enum Broke {
    Overlong(Overlong),
    Values,
    Provider(ProviderError),
}

impl From<Overlong> for Broke {
    fn from(overlong: Overlong) -> Self {
        Self::Overlong(overlong)
    }
}

/// JSON values that one event may hold; a long list of search results has some thousand. `{"":0}` is seven bytes on the
/// wire and a hundred times that in memory, so a bound on bytes alone would be none.
const VALUES_MAX: usize = 50_000;

/// Whether some JSON holds more than `max` values. A value takes at least a byte, so short texts are not looked at.
fn has_more_values(json: &str, max: usize) -> bool {
    let (bytes, mut at, mut count) = (json.as_bytes(), 0, 0);
    if bytes.len() <= max {
        return false;
    }
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at += string_len(&bytes[at..]),
            b',' | b'[' | b'{' => count += 1,
            _ => {}
        }
    }
    count > max
}

/// How long the rest of a JSON string is, its end included.
fn string_len(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        match bytes[at + found] {
            b'"' => return at + found + 1,
            _ => at += found + 2, // What is behind a backslash ends nothing.
        }
    }
    bytes.len()
}

/// Leaves nothing behind a stop among the frames from `seen` on, and tells whether there is one.
fn cut_at_stop(out: &mut Vec<Frame>, seen: usize) -> bool {
    let stop = out[seen..].iter().position(|frame| matches!(frame, Frame::Stop(_)));
    if let Some(stop) = stop {
        out.truncate(seen + stop + 1);
    }
    stop.is_some()
}

/// A response's body as it arrives. Dropping it closes the socket.
pub type ResponseBody = BoxStream<'static, Result<Bytes, ProviderError>>;

/// The frames of an answer. The body is dropped with the stream, and as soon as the answer is over or broken. One that is
/// finished and does not end within `tail_max` is over, too.
pub fn frames<D: Decode>(body: ResponseBody, fold: Fold<D>, tail_max: Duration) -> FrameStream {
    let (out, ready) = (Vec::new(), VecDeque::new());
    Reading { body: Some(body), fold, out, ready, broke: None, tail_max, tail: None }.boxed()
}

struct Reading<D> {
    body: Option<ResponseBody>,
    fold: Fold<D>,
    out: Vec<Frame>,
    ready: VecDeque<Frame>,
    broke: Option<ProviderError>,
    tail_max: Duration,
    /// Runs out when nothing but the end was missing for long enough.
    tail: Option<Pin<Box<Sleep>>>,
}

// Nothing in it is pinned in place.
impl<D> Unpin for Reading<D> {}

impl<D: Decode> Reading<D> {
    /// Waits until an answer that is finished has had its time to end; of any other, for ever.
    fn poll_tail(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.fold.is_finished() {
            self.tail = None; // It may have said more than its end.
            return Poll::Pending;
        }
        let tail_max = self.tail_max;
        self.tail.get_or_insert_with(|| Box::pin(sleep(tail_max))).as_mut().poll(context)
    }
}

impl<D: Decode> Stream for Reading<D> {
    type Item = Result<Frame, ProviderError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(frame) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(frame)));
            }
            if let Some(error) = this.broke.take() {
                return Poll::Ready(Some(Err(error)));
            }
            let Some(body) = &mut this.body else { return Poll::Ready(None) };
            let (read, more) = match body.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(bytes))) => (this.fold.push(&bytes, &mut this.out), true),
                // An answer may be whole although its connection is not: then nothing is missing.
                Poll::Ready(Some(Err(error))) => (this.fold.end(&mut this.out).map_err(|_| error), false),
                Poll::Ready(None) => (this.fold.end(&mut this.out), false),
                Poll::Pending => {
                    ready!(this.poll_tail(context));
                    (this.fold.end(&mut this.out), false)
                }
            };
            this.broke = read.err();
            this.ready.extend(this.out.drain(..));
            if !more || this.broke.is_some() || this.fold.is_stopped() {
                this.body = None;
            }
        }
    }
}
