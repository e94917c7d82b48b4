//! The JSON export of a chat.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chat::Chat;
use super::message::Message;
use super::usage::Attempt;

/// A whole chat, without the bytes of its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Export {
    /// The version of this shape: 1.
    pub format: u32,
    /// The chat, with its status and usage.
    pub chat: Chat,
    /// All messages, oldest first.
    pub messages: Vec<Message>,
    /// Every provider call, oldest first.
    pub attempts: Vec<Attempt>,
}

impl Export {
    /// The version of this shape.
    pub const FORMAT: u32 = 1;
}

/// A value as JSON; empty for a value that cannot be serialised, which no type here is.
pub(crate) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
