//! Tokens, as whoever manages them sees them.

use everturn::stores::{Scope, Token};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One thing a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeName {
    /// Look at chats.
    Read,
    /// Make chats and talk to them.
    Chat,
    /// Allow and deny calls.
    Approve,
    /// Manage tokens, and see what concerns everybody.
    Admin,
    /// See the numbers of the server, and nothing else.
    Metrics,
}

/// A token to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// What to call it.
    pub name: String,
    /// In whose name it acts; whoever asks, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What it may do.
    pub scopes: Vec<ScopeName>,
    /// For how many seconds; without end if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// What is known of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenInfo {
    /// Its id, which opens nothing.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// In whose name it acts.
    pub owner: String,
    /// What it may do.
    pub scopes: Vec<ScopeName>,
    /// When it was made.
    pub made: i64,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<i64>,
}

/// All tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokensList {
    /// Oldest first.
    pub tokens: Vec<TokenInfo>,
}

/// A token that was just made. It is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    /// The token itself.
    pub token: String,
    /// What is kept of it.
    pub info: TokenInfo,
}

impl From<Scope> for ScopeName {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Read => Self::Read,
            Scope::Chat => Self::Chat,
            Scope::Approve => Self::Approve,
            Scope::Admin => Self::Admin,
            Scope::Metrics => Self::Metrics,
        }
    }
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Read => Self::Read,
            ScopeName::Chat => Self::Chat,
            ScopeName::Approve => Self::Approve,
            ScopeName::Admin => Self::Admin,
            ScopeName::Metrics => Self::Metrics,
        }
    }
}

impl From<&Token> for TokenInfo {
    fn from(token: &Token) -> Self {
        Self {
            id: token.hash.id(),
            name: token.name.clone(),
            owner: token.owner.clone(),
            scopes: token.scopes.iter().map(ScopeName::from).collect(),
            made: token.made.0,
            expires: token.expires.map(|at| at.0),
            revoked: token.revoked.map(|at| at.0),
        }
    }
}
