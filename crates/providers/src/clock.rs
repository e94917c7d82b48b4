//! The one place that reads the wall clock.

use std::time::SystemTime;

use everturn_core::ids::Timestamp;

/// The time now, to read a `Retry-After` that is a date.
#[allow(clippy::disallowed_methods, reason = "this is the file that may")]
pub(crate) fn now() -> Timestamp {
    Timestamp(0) + SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
