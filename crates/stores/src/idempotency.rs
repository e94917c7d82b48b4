//! Idempotency records of requests that nothing else stores.
//!
//! Most requests are stored with what they created: a command in its inbox, a chat under its key. A deleted chat stores
//! nothing, and the secret of a token is not stored. These requests have records of their own for a while, so that a
//! client that missed the answer can repeat the request.

use std::time::Duration;

use everturn_core::ids::Timestamp;

/// How long records are stored: a week.
pub const IDEMPOTENCY_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A request with its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// Owner that made the request.
    pub owner: String,
    /// Idempotency key.
    pub key: String,
    /// Digest of the request.
    pub request: [u8; 32],
    /// Random bytes of the first request: a repeated request derives the same secret from them.
    pub salt: [u8; 32],
    /// Time of the request.
    pub at: Timestamp,
}

impl IdempotencyRecord {
    /// Records older than this may be deleted.
    pub(crate) fn oldest(&self) -> Timestamp {
        Timestamp(self.at.0.saturating_sub(IDEMPOTENCY_AGE_MAX.as_millis() as i64))
    }
}
