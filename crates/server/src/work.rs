//! What a connection has to do.
//!
//! In HTTP/2 a client that answers pings can keep a connection for ever without asking anything. So a connection knows
//! what it has to do, and since when that is nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// What one connection has to do.
#[derive(Debug, Clone, Default)]
pub struct Work(Arc<State>);

#[derive(Debug, Default)]
struct State {
    has_begun: AtomicBool,
    pieces: Mutex<Pieces>,
}

#[derive(Debug, Default)]
struct Pieces {
    open: usize,
    /// When the last one was done.
    done: Option<Instant>,
}

/// One request, until all of its answer is taken, or dropped.
#[derive(Debug)]
pub struct Piece(Work);

impl Work {
    /// Something was asked.
    pub fn begin(&self) -> Piece {
        self.0.has_begun.store(true, Ordering::Relaxed);
        self.pieces().open += 1;
        Piece(self.clone())
    }

    /// Whether anything was ever asked.
    pub fn has_begun(&self) -> bool {
        self.0.has_begun.load(Ordering::Relaxed)
    }

    /// Waits until there was nothing to do for so long, after there was something.
    pub async fn rested(&self, rest: Duration) {
        loop {
            let until = match &*self.pieces() {
                Pieces { open: 0, done: Some(done) } => *done + rest,
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
    /// Counts as open as long as the connection lasts: somebody else sees to it that it does not last too long.
    pub fn keep(self) {
        self.0.pieces().open += 1; // For the one that is given back here.
    }
}

impl Drop for Piece {
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
        let (work, second) = (Work::default(), Duration::from_secs(1));
        let (one, other, began) = (work.begin(), work.begin(), Instant::now());
        let pieces = async {
            drop(one);
            sleep_until(began + second * 100).await;
            drop(other);
        };
        tokio::join!(work.rested(second * 60), pieces);
        assert_eq!(began.elapsed(), second * 160);
    }
}
