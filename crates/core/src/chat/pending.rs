//! Queued messages, retry waits and summaries under way.

use std::sync::Arc;

use crate::error::ErrorKind;
use crate::ids::{InboxSeq, ModelId, Timestamp};
use crate::message::{Part, SendReceipt, SummarySource};

/// A message that waits in the queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedMessage {
    /// Its name: the command that brought it.
    pub id: InboxSeq,
    /// When it was accepted.
    pub at: Timestamp,
    /// What it says.
    pub parts: Arc<[Part]>,
    /// Whether it goes in at the next step boundary rather than the next turn.
    pub steers: bool,
    /// The sender's name for the request that brought it.
    pub key: Option<String>,
}

impl QueuedMessage {
    /// The request that brought it.
    #[must_use]
    pub fn sent(&self) -> SendReceipt {
        SendReceipt { receipt: self.id, key: self.key.clone() }
    }
}

/// Why the next attempt waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryWait {
    /// Not before this.
    pub until: Timestamp,
    /// What went wrong.
    pub kind: ErrorKind,
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
    /// The model that writes it.
    pub model: ModelId,
    /// Why.
    pub source: SummarySource,
    /// About how many tokens were sent for it.
    pub tokens: u64,
}
