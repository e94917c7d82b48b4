//! Access tokens, stored by their hash.
//!
//! A token is shown once, when it is created. Only its hash is stored, so that a copy of the store opens nothing; and
//! when it was created, expires or was revoked, so that every request is checked anew.

use std::fmt;

use async_trait::async_trait;
use everturn_core::ids::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::idempotency::IdempotencyRecord;
use crate::store::StoreError;

/// Storage of tokens, and of requests that nothing else records.
#[async_trait]
pub trait Tokens: Send + Sync + 'static {
    /// Adds a token. An existing token with the same hash stays as it is.
    async fn put(&self, token: &Token) -> Result<(), StoreError>;

    /// The token with this hash, whether or not it may still be used.
    async fn find(&self, hash: &TokenHash) -> Result<Option<Token>, StoreError>;

    /// All tokens, oldest first.
    async fn list(&self) -> Result<Vec<Token>, StoreError>;

    /// Revokes a token. The first time counts; an unknown hash does nothing.
    async fn revoke(&self, hash: &TokenHash, at: Timestamp) -> Result<(), StoreError>;

    /// Uses up a code and adds the session it opens, in one transaction. `false`, and nothing changes, if there is no such
    /// code, or it was used or has expired when the session was made.
    async fn exchange(&self, code: &TokenHash, session: &Token) -> Result<bool, StoreError>;

    /// Deletes the sessions and codes that were revoked or expired before.
    async fn forget(&self, before: Timestamp) -> Result<(), StoreError>;

    /// Stores a request, unless the same owner stored one under the same key; returns the stored one. Deletes requests
    /// older than [`IDEMPOTENCY_AGE_MAX`](crate::IDEMPOTENCY_AGE_MAX).
    async fn remember(&self, asked: &IdempotencyRecord) -> Result<IdempotencyRecord, StoreError>;

    /// The request stored under a key of an owner.
    async fn recall(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError>;
}

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The hash of the secret, and its key here.
    pub hash: TokenHash,
    /// Name for people.
    pub name: String,
    /// Owner that it acts for.
    pub owner: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was created.
    pub made: Timestamp,
    /// When it expires.
    pub expires: Option<Timestamp>,
    /// When it was revoked.
    pub revoked: Option<Timestamp>,
    /// What it is used as.
    pub kind: TokenKind,
}

/// What a token is used as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenKind {
    /// A client's own token.
    #[default]
    Bearer,
    /// A session of the web page. It ends with the token that it was made from.
    Session {
        /// The token that it was made from.
        parent: TokenHash,
    },
    /// A code that opens one session.
    Code {
        /// The token that made it, and the parent of the session.
        parent: TokenHash,
    },
}

impl TokenKind {
    /// The token that it ends with.
    #[must_use]
    pub const fn parent(&self) -> Option<&TokenHash> {
        match self {
            Self::Bearer => None,
            Self::Session { parent } | Self::Code { parent } => Some(parent),
        }
    }

    /// Its name, as it is stored.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Bearer => "token",
            Self::Session { .. } => "session",
            Self::Code { .. } => "code",
        }
    }

    /// The kind with this name and parent. `None` for names of later releases, and if the parent is missing.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn named(name: &str, parent: Option<TokenHash>) -> Option<Self> {
        match (name, parent) {
            ("token", None) => Some(Self::Bearer),
            ("session", Some(parent)) => Some(Self::Session { parent }),
            ("code", Some(parent)) => Some(Self::Code { parent }),
            _ => None,
        }
    }
}

impl Token {
    /// Whether it may be used at `now`.
    #[must_use]
    pub fn is_good(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|expires| now < expires)
    }

    /// Whether [`Tokens::forget`] deletes it.
    #[must_use]
    pub fn is_forgotten(&self, before: Timestamp) -> bool {
        let is_over = |at: Option<Timestamp>| at.is_some_and(|at| at < before);
        self.kind != TokenKind::Bearer && (is_over(self.revoked) || is_over(self.expires))
    }
}

/// SHA-256 of a token. Tokens are 256 random bits, so a plain hash cannot be searched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// The hash of a secret.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// Whether the two are equal, compared in constant time.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |bits, (a, b)| bits | (a ^ b));
        std::hint::black_box(differing) == 0
    }

    /// Short id for people: the first bytes of the hash, which grant nothing.
    #[must_use]
    pub fn id(&self) -> String {
        self.0[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({}…)", self.id())
    }
}

/// One thing a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Read chats.
    Read,
    /// Create chats and send messages.
    Chat,
    /// Approve and deny tool calls.
    Approve,
    /// Manage tokens, and read server-wide information.
    Admin,
    /// Read the server's metrics, and nothing else.
    Metrics,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Chat, Self::Approve, Self::Admin, Self::Metrics];

    /// Its name, as it is stored and sent.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Chat => "chat",
            Self::Approve => "approve",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
        }
    }

    /// The scope of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What a token may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Whether the scope is included.
    #[must_use]
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Each of them, in order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.has(*scope))
    }

    /// Names separated by spaces, as they are stored.
    #[must_use]
    pub fn names(self) -> String {
        self.iter().map(Scope::name).collect::<Vec<_>>().join(" ")
    }

    /// Parses what [`Self::names`] wrote. Unknown names grant nothing.
    #[must_use]
    pub fn from_names(names: &str) -> Self {
        names.split_whitespace().filter_map(Scope::named).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scopes({})", self.names())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_read_back_as_written_and_unknown_ones_grant_nothing() {
        for bits in 0..32 {
            assert_eq!(Scopes::from_names(&Scopes(bits).names()), Scopes(bits));
        }
        assert_eq!(Scopes::from_names("read root").names(), "read");
        assert!(!Scopes::from_names("").has(Scope::Read));
    }

    #[test]
    fn hashes_match_only_themselves() {
        let hash = TokenHash::of("secret");
        assert!(hash.matches(&TokenHash::of("secret")));
        for byte in 0..32 {
            let mut other = hash;
            other.0[byte] ^= 1;
            assert!(!hash.matches(&other), "byte {byte}");
        }
    }

    #[test]
    fn a_token_is_good_until_it_ends_or_is_taken_back() {
        let token = Token {
            hash: TokenHash::of("secret"),
            name: "test".into(),
            owner: "me".into(),
            scopes: Scopes::all(),
            made: Timestamp(1),
            expires: Some(Timestamp(10)),
            revoked: None,
            kind: TokenKind::Bearer,
        };
        assert!(token.is_good(Timestamp(9)));
        assert!(!token.is_good(Timestamp(10)));
        assert!(!Token { revoked: Some(Timestamp(2)), ..token }.is_good(Timestamp(3)));
    }
}
