//! What an open step waits for.

use crate::error::Kind;
use crate::ids::{ModelId, Timestamp};
use crate::message::SummarySource;

/// Why the next attempt waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Not before this.
    pub until: Timestamp,
    /// What went wrong.
    pub kind: Kind,
    /// What people are told.
    pub message: String,
    /// The attempt that failed.
    pub attempt: u32,
}

/// A summary that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacting {
    /// Since when.
    pub began: Timestamp,
    /// By whom.
    pub model: ModelId,
    /// Why.
    pub source: SummarySource,
    /// About how many tokens were sent for it.
    pub tokens: u64,
}
