//! A chat at one moment, for whoever looks for what is wrong with it.
//!
//! Asked for one after the other, a heading and a transcript can be of different moments, and half of a turn looks broken.

use std::sync::Arc;

use everturn_core::message::Message;

use crate::heading::Heading;
use crate::store::CallRecord;

/// What is kept of a chat, all of one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSnapshot {
    /// What a list says about it.
    pub heading: Heading,
    /// The whole transcript, rewound messages left out.
    pub transcript: Vec<Arc<Message>>,
    /// Every tool call that was ever started.
    pub calls: Vec<CallRecord>,
}
