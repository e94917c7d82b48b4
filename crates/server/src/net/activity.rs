//! What a connection has to do.
//!
//! In HTTP/2 a client that answers pings can keep a connection for ever without asking anything, and in HTTP/1.1 one that is
//! silent. So a connection knows what it has to do, and since when that is nothing.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::Version;
use hyper::body::{Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::auth::token_watch::Ends;

/// What one connection has to do.
#[derive(Debug, Clone, Default)]
pub struct Work(Arc<State>);

#[derive(Debug, Default)]
struct State {
    pieces: Mutex<Pieces>,
    cut: CancellationToken,
}

#[derive(Debug, Default)]
struct Pieces {
    /// How many there were.
    count: usize,
    open: usize,
    /// Whether several can be open at once, as in HTTP/2.
    is_shared: bool,
    /// When the last one was done.
    done: Option<Instant>,
}

/// One request, until all of its answer is taken, or dropped.
#[derive(Debug)]
pub struct Piece(Work);

impl Work {
    /// Something was asked, in this version of HTTP.
    pub fn begin(&self, version: Version) -> Piece {
        let mut pieces = self.pieces();
        pieces.count += 1;
        pieces.open += 1;
        pieces.is_shared |= version == Version::HTTP_2;
        Piece(self.clone())
    }

    /// The number of the request that the next byte belongs to, if it is the first of a head: nothing while another is under
    /// way, and nothing in HTTP/2, where other things are said between requests.
    pub fn awaited(&self) -> Option<usize> {
        let pieces = self.pieces();
        (pieces.open == 0 && !pieces.is_shared).then_some(pieces.count)
    }

    /// Something of an answer was taken. A slow reader rests when it has all of it, though hyper has had that for long; in
    /// HTTP/2 the bytes may be anybody's.
    pub fn taken(&self) {
        let mut pieces = self.pieces();
        if !pieces.is_shared && pieces.done.is_some() {
            pieces.done = Some(Instant::now());
        }
    }

    /// Waits until the connection has to be cut, because of what is answered on it.
    pub async fn cut(&self) {
        self.0.cut.cancelled().await;
    }

    /// Waits until there was nothing to do for so long, after there was something.
    pub async fn rested(&self, rest: Duration) {
        loop {
            let until = match &*self.pieces() {
                Pieces { open: 0, done: Some(done), .. } => *done + rest,
                Pieces { .. } => Instant::now() + rest,
            };
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.0.pieces.lock().unwrap_or_else(PoisonError::into_inner) // Numbers, whole after every line.
    }
}

impl Piece {
    /// The same body, and the request is done when it is. What ends before, and is not taken, ends the connection.
    pub fn until_sent(self, body: Body, ends: Option<Ends>, cut: Counter) -> Body {
        let looks = ends.map(|ends| {
            let work = self.0.clone();
            AbortOnDropHandle::new(tokio::spawn(async move {
                ends.due().await;
                cut.inc();
                work.0.cut.cancel();
            }))
        });
        Body::new(Sent { body, _piece: self, _looks: looks })
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut pieces = self.0.pieces();
        pieces.open -= 1;
        pieces.done = Some(Instant::now());
    }
}

/// A body that a request is answered with.
struct Sent {
    body: Body,
    _piece: Piece,
    /// Who looks whether it has to be cut; ends with it.
    _looks: Option<AbortOnDropHandle<()>>,
}

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rest_begins_when_the_last_piece_is_done() {
        let (work, second) = (Work::default(), Duration::from_secs(1));
        let (one, other, began) = (work.begin(Version::HTTP_2), work.begin(Version::HTTP_2), Instant::now());
        let pieces = async {
            drop(one);
            sleep_until(began + second * 100).await;
            drop(other);
        };
        tokio::join!(work.rested(second * 60), pieces);
        assert_eq!(began.elapsed(), second * 160);
    }
}
