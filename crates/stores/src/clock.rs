//! The one place of the stores that reads a clock which no test can pause: whether a process is taken for dead is decided
//! by others, and their time goes on.

use std::time::Instant;

/// Now, by a clock that never jumps.
#[expect(clippy::disallowed_methods, reason = "this is the file that may")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
