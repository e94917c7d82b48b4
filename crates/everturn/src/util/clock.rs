//! Time. No other module reads the wall clock.
//!
//! Two kinds of time. Wall time is what is stored, shown and compared with the expiry of tokens: the machine's clock, which
//! may be set, or go on while the machine sleeps. Counted time moves with tokio's clock and never jumps: durations, waits
//! and time limits are measured by it.

use std::time::{Duration, SystemTime};

use everturn_core::ids::Timestamp;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How often the two kinds of time are compared.
const WATCH_EVERY: Duration = Duration::from_secs(10);
/// A clock that was corrected by less is not worth a line.
const JUMP_MIN: Duration = Duration::from_secs(2);

/// A clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Timestamp,
    started: Instant,
    /// Reads wall time. Without it this clock counts from its origin.
    wall: Option<fn() -> Timestamp>,
}

/// The machine's clock.
#[allow(clippy::disallowed_methods, reason = "this is the file that may")]
pub(crate) fn system() -> Timestamp {
    Timestamp(0) + SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl Clock {
    /// A clock that says what `wall` says.
    pub(crate) fn reading(wall: fn() -> Timestamp) -> Self {
        Self { origin: wall(), started: Instant::now(), wall: Some(wall) }
    }

    /// A clock that says `origin` now, and counts from there.
    pub(crate) fn starting_at(origin: Timestamp) -> Self {
        Self { origin, started: Instant::now(), wall: None }
    }

    /// A clock that says the same now, and counts from there: what it measures does not jump.
    pub(crate) fn counting(&self) -> Self {
        Self::starting_at(self.now())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.wall.map_or_else(|| self.counted(), |wall| wall())
    }

    /// Counted time since this clock was made: the same as wall time until that jumps.
    pub(crate) fn counted(&self) -> Timestamp {
        self.origin + self.started.elapsed()
    }

    /// When tokio's clock will be where this one says `at`.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        Instant::now() + at.since(self.now())
    }
}

/// Logs every jump of the wall clock, until the engine is gone.
pub(crate) async fn watch(clock: Clock, gone: CancellationToken) {
    let ahead = || clock.now().0 - clock.counted().0;
    let mut before = ahead();
    while gone.run_until_cancelled(sleep(WATCH_EVERY)).await.is_some() {
        let jump_ms = ahead() - before;
        if jump_ms.unsigned_abs() >= JUMP_MIN.as_millis() as u64 {
            let next = "stored times and the expiry of tokens follow it; waits and time limits do not";
            tracing::warn!(jump_ms, next, "the wall clock jumped, or the machine slept");
        }
        before += jump_ms;
    }
}
