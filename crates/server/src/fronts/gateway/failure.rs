//! A generation that came to nothing, for clients.

use axum::http::{HeaderName, HeaderValue, StatusCode};
use everturn::core::chat::TurnFailure;
use everturn::core::error::ErrorKind;

/// Tells official SDKs not to ask again: what a retry can do was done here, for longer than they would.
pub(crate) const NO_RETRY: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));

/// What a failure is to the two protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailureWords {
    pub status: StatusCode,
    /// OpenAI's `type` and `code`.
    pub openai: (&'static str, &'static str),
    /// Anthropic's `type`.
    pub anthropic: &'static str,
}

/// What a failure is called.
pub(crate) fn words(failure: &TurnFailure) -> FailureWords {
    let said = |status, openai, anthropic| FailureWords { status, openai, anthropic };
    match failure.kind {
        ErrorKind::Overloaded => {
            said(StatusCode::SERVICE_UNAVAILABLE, ("server_error", "server_is_overloaded"), "overloaded_error")
        }
        ErrorKind::RateLimit => {
            said(StatusCode::TOO_MANY_REQUESTS, ("rate_limit_error", "rate_limit_exceeded"), "rate_limit_error")
        }
        ErrorKind::UsageLimit | ErrorKind::Budget => {
            said(StatusCode::TOO_MANY_REQUESTS, ("insufficient_quota", "insufficient_quota"), "rate_limit_error")
        }
        ErrorKind::ContextFull => {
            let code = ("invalid_request_error", "context_length_exceeded");
            said(StatusCode::BAD_REQUEST, code, "invalid_request_error")
        }
        ErrorKind::ContentFilter => {
            said(StatusCode::BAD_REQUEST, ("invalid_request_error", "content_filter"), "invalid_request_error")
        }
        ErrorKind::Timeout | ErrorKind::Silence => {
            said(StatusCode::GATEWAY_TIMEOUT, ("server_error", "server_error"), "api_error")
        }
        // The server's own keys and settings: nothing that the client could mend.
        ErrorKind::Auth
        | ErrorKind::MissingKey
        | ErrorKind::Config
        | ErrorKind::ProviderDisabled
        | ErrorKind::Truncated
        | ErrorKind::ChainBroken
        | ErrorKind::Malformed
        | ErrorKind::Generic
        | ErrorKind::Quarantine => said(StatusCode::BAD_GATEWAY, ("server_error", "server_error"), "api_error"),
    }
}
