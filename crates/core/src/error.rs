//! What can go wrong with a provider, and what may be done about it.
//!
//! The adapter decides, because it saw the status, the headers and the bytes. Nobody above it reads a message string.

use std::time::Duration;

/// A provider call that did not end with an answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{provider}: {kind:?}")]
pub struct ProviderError {
    /// Whose error it is, as people call it: `anthropic`, `bedrock`…
    pub provider: String,
    /// What it is.
    pub kind: Kind,
    /// What may be done.
    pub retry: Retry,
    /// How the stream broke, when it was one that broke.
    pub cause: Cause,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The provider's name for the request.
    pub request_id: Option<String>,
    /// What the provider said: one line, bounded, without secrets.
    pub detail: String,
}

/// The kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The provider has too much to do.
    Overloaded,
    /// This credential asks too often.
    RateLimit,
    /// Not reachable, or not in time.
    Timeout,
    /// Connected, but nothing came for too long.
    Silence,
    /// The stream ended without saying that it was over.
    Truncated,
    /// The key was refused.
    Auth,
    /// There is no key.
    MissingKey,
    /// The money or quota is used up.
    UsageLimit,
    /// The model or a setting is wrong.
    Config,
    /// The prompt is too long.
    ContextFull,
    /// The provider's policy refused.
    ContentFilter,
    /// An administrator switched the provider off.
    ProviderDisabled,
    /// The provider no longer knows the response this one was chained to.
    ChainBroken,
    /// The provider sent something that is not its protocol.
    Malformed,
    /// Anything else.
    Generic,
}

/// What may be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Nothing: the same request would fail again.
    Never,
    /// Try again after a backoff of our own.
    Backoff,
    /// Try again, not before this has passed.
    After(Duration),
}

/// How an attempt broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The provider answered with an error before any answer began.
    Refused,
    /// The connection was reset, or lost.
    Reset,
    /// The provider said that it closes the connection.
    GoAway,
    /// No content for too long, pings notwithstanding.
    IdleStall,
    /// A server error in the middle of the stream.
    ServerError,
    /// The stream ended without its terminal event.
    Truncated,
    /// A finish reason that means failure.
    ErrorFinish,
    /// Bytes that are not the protocol.
    Malformed,
    /// The process that held the stream is gone; the journal has what was shown.
    Resumed,
}
