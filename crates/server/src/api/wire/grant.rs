//! Open asks over all chats, and grants.

use everturn::core::permission::Grant;
use everturn::core::view::Standing;
use everturn::stores::Heading;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chat::Ask;

/// The calls that wait for a client or a person, by chat, most recently active chat first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenAsks {
    /// The chats with open calls.
    pub chats: Vec<ChatAsks>,
    /// The `after` of the next page; left out on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The open calls of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatAsks {
    /// The chat.
    pub chat: String,
    /// Its title.
    pub title: String,
    /// Its owner.
    pub owner: String,
    /// Its agent.
    pub agent: String,
    /// The chat whose call created it, if it is a sub-agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When the calls time out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits_until: Option<i64>,
    /// The calls.
    pub asks: Vec<Ask>,
}

/// The grants of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantsList {
    /// Those that have not ended, oldest first.
    pub grants: Vec<GrantInfo>,
}

/// A rule that a person agreed to when they approved a call. It answers later asks that it covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantInfo {
    /// The call that was asked about. It names the grant.
    #[schema(example = "3.0")]
    pub call: String,
    /// The rule.
    #[schema(example = "shell(cargo test *)")]
    pub rule: String,
    /// The name of the token that agreed.
    pub by: String,
    /// When.
    pub at: i64,
    /// When it ends. It also ends when the tool's definition or the agent's rules change.
    pub until: i64,
}

impl ChatAsks {
    /// The open calls of a chat.
    #[must_use]
    pub fn new(heading: &Heading, standing: &Standing) -> Self {
        Self {
            chat: heading.id.to_string(),
            title: standing.title.clone(),
            owner: heading.owner.clone(),
            agent: heading.agent.clone(),
            parent: heading.parent.map(|parent| parent.to_string()),
            awaits_until: standing.awaits_until.map(|at| at.0),
            asks: standing.asks.iter().map(Ask::from).collect(),
        }
    }
}

impl From<&Grant> for GrantInfo {
    fn from(Grant { call, rule, by, at, until, .. }: &Grant) -> Self {
        Self { call: call.to_string(), rule: rule.clone(), by: by.clone(), at: at.0, until: until.0 }
    }
}
