//! A chat whole, to take away.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chat::Chat;
use super::message::Message;
use super::usage::Attempt;

/// A chat whole, but for the bytes of its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Export {
    /// The version of this shape: 1.
    pub format: u32,
    /// The chat, where it stands and what it has used.
    pub chat: Chat,
    /// Everything that was said, oldest first.
    pub messages: Vec<Message>,
    /// Every provider call, oldest first.
    pub attempts: Vec<Attempt>,
}

impl Export {
    /// The version of this shape.
    pub const FORMAT: u32 = 1;
}

/// A value as JSON; nothing for one that cannot be written, of which there is none here.
pub(crate) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
