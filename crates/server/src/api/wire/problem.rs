//! Error bodies (RFC 9457).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chat::Chat;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// The type of the problem. These names do not change.
    #[serde(rename = "type")]
    #[schema(example = "urn:everturn:problem:not-found")]
    pub kind: String,
    /// The type in words, for users.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time, and what to do.
    pub detail: String,
    /// The chat as it is now, if its state is why the request failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<Box<Chat>>,
}
