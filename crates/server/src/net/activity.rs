//! The requests under way on a connection.
//!
//! In HTTP/2 a client that answers pings could hold a connection for ever without a request, and in HTTP/1.1 a silent one.
//! So each connection knows its open requests, and since when it has none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::Version;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The requests under way on one connection.
#[derive(Debug, Clone, Default)]
pub struct Activity(Arc<State>);

#[derive(Debug, Default)]
struct State {
    pieces: Mutex<Pieces>,
    cut: CancellationToken,
}

#[derive(Debug, Default)]
struct Pieces {
    /// Requests so far.
    count: usize,
    open: usize,
    /// Whether several requests can be open at once, as in HTTP/2.
    is_shared: bool,
    /// When the last request was done.
    done: Option<Instant>,
}

/// One request, until all of its response is taken, or dropped.
#[derive(Debug)]
pub struct ActiveRequest(Activity);

impl Activity {
    /// Records a new request, in this version of HTTP.
    pub fn begin(&self, version: Version) -> ActiveRequest {
        let mut pieces = self.pieces();
        pieces.count += 1;
        pieces.open += 1;
        pieces.is_shared |= version == Version::HTTP_2;
        ActiveRequest(self.clone())
    }

    /// The number of the request whose head the next byte would begin. `None` while a request is under way, and in HTTP/2,
    /// where frames of other kinds come between requests.
    pub fn awaited(&self) -> Option<usize> {
        let pieces = self.pieces();
        (pieces.open == 0 && !pieces.is_shared).then_some(pieces.count)
    }

    /// Records that bytes of a response were taken. A slow client becomes idle when it has taken all of it, although hyper
    /// had the whole body long before. Not in HTTP/2, where the bytes may belong to any request.
    pub fn taken(&self) {
        let mut pieces = self.pieces();
        if !pieces.is_shared && pieces.done.is_some() {
            pieces.done = Some(Instant::now());
        }
    }

    /// Ends the connection at once, with what is under way on it.
    pub fn cut(&self) {
        self.0.cut.cancel();
    }

    /// Waits until the connection has to end at once.
    pub async fn until_cut(&self) {
        self.0.cut.cancelled().await;
    }

    /// Waits until the connection was idle for `rest` after its last request.
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
        self.0.pieces.lock().unwrap_or_else(PoisonError::into_inner) // Valid after a panic: every statement leaves the counts consistent.
    }
}

impl ActiveRequest {
    /// The connection of the request.
    pub const fn connection(&self) -> &Activity {
        &self.0
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut pieces = self.0.pieces();
        pieces.open -= 1;
        pieces.done = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rest_begins_when_the_last_piece_is_done() {
        let (work, second) = (Activity::default(), Duration::from_secs(1));
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
