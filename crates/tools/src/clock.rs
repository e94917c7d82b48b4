//! The clock of the helper processes, which have no runtime whose clock tests could pause.

use std::time::Instant;

/// The time now.
#[expect(clippy::disallowed_methods, reason = "the one place that reads it")]
pub fn now() -> Instant {
    Instant::now()
}
