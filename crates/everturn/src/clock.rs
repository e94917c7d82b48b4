//! The one place that reads the wall clock.

use std::time::SystemTime;

use everturn_core::ids::Timestamp;
use tokio::time::Instant;

/// Wall time that moves with tokio's clock: read once at the start, then counted. So it never jumps, and tests that
/// pause time pause this too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Timestamp,
    started: Instant,
}

impl Clock {
    /// The machine's clock.
    #[allow(clippy::disallowed_methods, reason = "this is the file that may")]
    pub(crate) fn system() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::starting_at(Timestamp(0) + since)
    }

    /// A clock that says `origin` now.
    pub(crate) fn starting_at(origin: Timestamp) -> Self {
        Self { origin, started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.origin + self.started.elapsed()
    }

    /// When tokio's clock will say `at`.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.started + at.since(self.origin)
    }
}
