//! Logins at remote servers: OAuth 2.1 with PKCE, as the protocol's authorization asks for it.
//!
//! A person logs in with [`LoginFlow`], in a browser; the daemon never opens one and never waits for one. The tokens are
//! files that only the daemon's user can read ([`Logins`]). The daemon reads them when it needs them, so a login needs no
//! restart, and renews them when they expire.

pub(crate) mod bearer;
pub(crate) mod flow;
pub(crate) mod logins;
pub(crate) mod metadata;
mod request;
pub(crate) mod shape;

pub use flow::{LoginFlow, LoginOptions};
pub use logins::{LoginStatus, Logins};

/// Why a login failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The server needs no login, or none of this kind.
    #[error("{0}")]
    NotNeeded(String),
    /// The authorization server was not found, or says what cannot be used.
    #[error("{0}")]
    Discovery(String),
    /// The authorization server refused.
    #[error("the authorization server refused: {0}")]
    Refused(String),
    /// The authorization server cannot be reached, or failed. It may work later.
    #[error("{0}")]
    Unreachable(String),
    /// What came back from the browser does not belong to this login.
    #[error("{0}")]
    Callback(String),
    /// The tokens could not be stored or read.
    #[error("the login cannot be stored: {0}")]
    Stored(String),
}

impl From<std::io::Error> for LoginError {
    fn from(error: std::io::Error) -> Self {
        Self::Stored(error.to_string())
    }
}
