//! What is said when something cannot be done (RFC 9457).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chat::Chat;

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// What kind of problem it is. These names do not change.
    #[serde(rename = "type")]
    #[schema(example = "urn:everturn:problem:not-found")]
    pub kind: String,
    /// The same for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time, and what to do.
    pub detail: String,
    /// Where the chat stands, if it is the chat that does not take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<Box<Chat>>,
}
