//! Requests that nothing else remembers.
//!
//! Most requests are kept with what they have made: a command in its inbox, a chat under its key. A chat that was deleted
//! keeps nothing, and of a token nobody knows the secret any more. So that whoever did not hear the answer can ask again,
//! these are kept for a while by themselves.

use std::time::Duration;

use everturn_core::ids::Timestamp;

/// How long they are kept: a week.
pub const IDEMPOTENCY_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A request under its owner's name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// Who asks.
    pub owner: String,
    /// What they call the request.
    pub key: String,
    /// What it asks for, in short.
    pub request: [u8; 32],
    /// Chance, from the first time it was asked: whatever is made of it can be made again.
    pub salt: [u8; 32],
    /// When.
    pub at: Timestamp,
}

impl IdempotencyRecord {
    /// What is older than this when it is asked for may be forgotten.
    pub(crate) fn oldest(&self) -> Timestamp {
        Timestamp(self.at.0.saturating_sub(IDEMPOTENCY_AGE_MAX.as_millis() as i64))
    }
}
