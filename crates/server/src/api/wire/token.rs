//! Tokens as the API shows them, without their secrets.

use everturn::stores::{Scope, Token};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A scope of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeName {
    /// Read chats.
    Read,
    /// Create chats and send messages.
    Chat,
    /// Approve and deny calls.
    Approve,
    /// Manage tokens, and read the metrics.
    Admin,
    /// Read the server's metrics, and nothing else.
    Metrics,
}

/// A token to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// The token's name.
    pub name: String,
    /// The owner in whose name it acts; the caller's owner if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What it may do.
    pub scopes: Vec<ScopeName>,
    /// Lifetime in seconds; unlimited if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenInfo {
    /// The id, which gives no access.
    pub id: String,
    /// The token's name.
    pub name: String,
    /// The owner in whose name it acts.
    pub owner: String,
    /// What it may do.
    pub scopes: Vec<ScopeName>,
    /// When it was created.
    pub made: i64,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<i64>,
}

/// All tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokensList {
    /// Oldest first.
    pub tokens: Vec<TokenInfo>,
}

/// A new token with its secret, which is shown only once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    /// The secret.
    pub token: String,
    /// The token without its secret.
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
