//! A chat at one moment, for diagnosis.
//!
//! A heading and a transcript read one after the other can be of different moments, and half a turn looks broken.

use std::sync::Arc;

use everturn_core::message::Message;

use crate::heading::Heading;
use crate::store::CallRecord;

/// Everything stored for a chat, all of one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSnapshot {
    /// Its list entry.
    pub heading: Heading,
    /// The whole transcript, rewound messages left out.
    pub transcript: Vec<Arc<Message>>,
    /// Every tool call that was ever started.
    pub calls: Vec<CallRecord>,
}
