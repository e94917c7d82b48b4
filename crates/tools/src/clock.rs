//! Reads the system's clocks: in helper processes, which have no tokio runtime, and for times of files.

use std::time::{Instant, SystemTime};

/// The time now.
#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
pub fn now() -> Instant {
    Instant::now()
}

/// The time of day, as files have it.
#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
pub fn wall_time() -> SystemTime {
    SystemTime::now()
}
