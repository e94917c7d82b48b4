//! The one place that reads the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use everturn::core::ids::Timestamp;

/// Now.
#[expect(clippy::disallowed_methods, reason = "this is the file that may")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
