//! Provider errors: what went wrong, and whether to retry.
//!
//! The adapter decides, because it saw the status, the headers and the bytes. No caller above it parses a
//! message string. So kind, remedy and cause are types, and the sentence for people is made from them at the
//! last moment: it says what happened and what to do, and holds no status code, no key and no provider text.
//! The provider's own words are the detail, which is cleaned before it can be stored.

use std::fmt;
use std::time::Duration;

mod detail;
#[cfg(test)]
mod tests;

pub use detail::DETAIL_CHARS_MAX;

/// A provider call that did not end with an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderError {
    /// The provider's name in the configuration: `anthropic`, `bedrock`…
    pub provider: String,
    /// What it is.
    pub kind: ErrorKind,
    /// What may be done.
    pub retry: Retry,
    /// How the stream broke, when it was one that broke.
    pub cause: Cause,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The provider's name for the request.
    pub request_id: Option<String>,
    /// The one name that helps a person along: the variable a key or an address was read from, or the policy's category.
    pub subject: Option<String>,
    /// What the provider said: one line, bounded, without secrets.
    pub detail: String,
}

impl ProviderError {
    /// An error of this kind, with the kind's usual remedy and cause.
    #[must_use]
    pub fn new(provider: impl Into<String>, kind: ErrorKind) -> Self {
        Self {
            provider: provider.into(),
            kind,
            retry: kind.default_retry(),
            cause: kind.default_cause(),
            status: None,
            request_id: None,
            subject: None,
            detail: String::new(),
        }
    }

    /// A refusal under the provider's policy. A blank category or explanation counts as none.
    #[must_use]
    pub fn filtered(provider: impl Into<String>, category: &str, explanation: &str) -> Self {
        let explanation = if explanation.trim().is_empty() { "no explanation was given" } else { explanation };
        Self::new(provider, ErrorKind::ContentFilter).with_subject(category).with_detail(explanation)
    }

    /// Sets the provider: a gateway speaks one protocol for many.
    #[must_use]
    pub fn with_provider(self, provider: impl Into<String>) -> Self {
        Self { provider: provider.into(), ..self }
    }

    /// Sets the remedy.
    #[must_use]
    pub fn with_retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// Sets how the stream broke.
    #[must_use]
    pub fn with_cause(self, cause: Cause) -> Self {
        Self { cause, ..self }
    }

    /// Sets the HTTP status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Sets the provider's id of the request, to quote to its support.
    #[must_use]
    pub fn with_request_id(self, id: &str) -> Self {
        let id = detail::one_line(id);
        Self { request_id: (!id.is_empty()).then_some(id), ..self }
    }

    /// Sets the name that helps a person: a variable, a category. A blank one counts as none.
    #[must_use]
    pub fn with_subject(self, subject: &str) -> Self {
        let subject = detail::one_line(subject);
        Self { subject: (!subject.is_empty()).then_some(subject), ..self }
    }

    /// Sets the provider's own words, as one bounded line without credentials and queries in addresses, and
    /// with keys masked.
    #[must_use]
    pub fn with_detail(self, text: &str) -> Self {
        Self { detail: detail::one_line(text), ..self }
    }

    /// Whether an answer broke that could be carried on: the question that leads to the recovery ladder. What would
    /// fail again, or needs another request, is never that, wherever in the stream it was said.
    #[must_use]
    pub fn is_broken_stream(&self) -> bool {
        use ErrorKind::{
            Auth, Budget, ChainBroken, Config, ContentFilter, ContextFull, Generic, Malformed, MissingKey, Overloaded,
            ProviderDisabled, Quarantine, RateLimit, Silence, Timeout, Truncated, UsageLimit,
        };
        match self.kind {
            Overloaded | RateLimit | Timeout | Silence | Truncated | Malformed | Generic => {
                self.retry != Retry::Never && self.cause != Cause::Refused
            }
            Auth | MissingKey | UsageLimit | Config | ContextFull | ContentFilter | ProviderDisabled | ChainBroken
            | Budget | Quarantine => false,
        }
    }
}

impl std::error::Error for ProviderError {}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = match (self.kind, self.retry) {
            (ErrorKind::Overloaded, _) => "has more work than it can take; wait a minute, or choose another model",
            (ErrorKind::RateLimit, _) => "lets this key ask only so often; wait a little, or ask it for a higher limit",
            (ErrorKind::Timeout, Retry::Never) => {
                "did not answer in the time allowed; try again, or allow it more time"
            }
            (ErrorKind::Timeout, _) => {
                "cannot be reached at the moment; try again soon, and check the network if it lasts"
            }
            (ErrorKind::Silence, _) => "sent nothing for too long; try again, or allow this model a longer silence",
            (ErrorKind::Truncated, _) => "broke off before its answer was complete; try again",
            (ErrorKind::UsageLimit, _) => {
                "reports that the budget or quota is used up; add credit, raise the limit, or ask its administrator"
            }
            (ErrorKind::Config, _) if self.subject.is_some() => return self.explain_with_subject(f),
            (ErrorKind::Config, _) => {
                "does not accept this model or one of its settings; check the name and the options"
            }
            (ErrorKind::ContextFull, _) => {
                "cannot take a conversation this long; edit the newest message, or choose a model with a larger window"
            }
            (ErrorKind::ProviderDisabled, _) => {
                "is switched off here; choose another model, or ask an administrator to switch it on"
            }
            (ErrorKind::ChainBroken, _) => {
                "no longer holds the earlier part of this conversation; send it again in full"
            }
            (ErrorKind::Malformed, _) => "sent something that is not its protocol; check the base URL, and try again",
            (ErrorKind::Budget, _) => {
                "was not asked, because the budget here is used up; wait until it is renewed, or have it raised"
            }
            (ErrorKind::Quarantine, _) => {
                "was not asked again, because the process died three times over this turn; see its log, and send a message to go on"
            }
            (ErrorKind::Generic, Retry::Never) => "refused the request for a reason of its own; see the detail",
            (ErrorKind::Generic, _) => "had an internal error; try again soon",
            (ErrorKind::Auth | ErrorKind::MissingKey | ErrorKind::ContentFilter, _) => {
                return self.explain_with_subject(f);
            }
        };
        write!(f, "{} {advice}", display_name(&self.provider))
    }
}

impl ProviderError {
    /// The sentences that name something besides the provider.
    fn explain_with_subject(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = display_name(&self.provider);
        match (self.kind, &self.subject) {
            (ErrorKind::MissingKey, Some(variable)) => write!(f, "{name} needs a key; set {variable} and send again"),
            (ErrorKind::MissingKey, None) => {
                write!(f, "{name} needs a key and none is configured; add one and send again")
            }
            (ErrorKind::ContentFilter, Some(category)) => {
                write!(f, "{name} withheld its answer under its content policy ({category}); rephrase the request")
            }
            (ErrorKind::Config, Some(variable)) => {
                write!(f, "{name} has nothing at the address that was asked; check {variable}")
            }
            (ErrorKind::ContentFilter, None) => {
                write!(f, "{name} withheld its answer under its content policy; rephrase the request")
            }
            (_, Some(variable)) => {
                write!(f, "{name} refused the key in {variable}; check that it is right and may use this model")
            }
            (_, None) => write!(f, "{name} refused the key; check that it is right and may use this model"),
        }
    }
}

/// A provider's name as people write it, from the one in configuration.
#[must_use]
pub fn display_name(provider: &str) -> &'static str {
    let plain: String = provider.chars().filter(char::is_ascii_alphanumeric).collect();
    match plain.to_ascii_lowercase().as_str() {
        "anthropic" => "Anthropic",
        "azure" | "azureopenai" => "Azure OpenAI",
        "bedrock" | "awsbedrock" | "amazonbedrock" => "AWS Bedrock",
        "google" | "gemini" | "vertex" | "vertexai" | "googlevertex" => "Google",
        "openai" => "OpenAI",
        "openaicompat" | "openaicompatible" => "OpenAI Compatible",
        "openrouter" => "OpenRouter",
        "vercel" | "vercelaigateway" => "Vercel AI Gateway",
        _ => "The AI provider",
    }
}

/// The kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
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
    /// Our own: the owner's budget is used up.
    Budget,
    /// Our own: processes die of this turn.
    Quarantine,
}

impl ErrorKind {
    /// Every kind there is.
    pub const ALL: [Self; 17] = [
        Self::Overloaded,
        Self::RateLimit,
        Self::Timeout,
        Self::Silence,
        Self::Truncated,
        Self::Auth,
        Self::MissingKey,
        Self::UsageLimit,
        Self::Config,
        Self::ContextFull,
        Self::ContentFilter,
        Self::ProviderDisabled,
        Self::ChainBroken,
        Self::Malformed,
        Self::Generic,
        Self::Budget,
        Self::Quarantine,
    ];

    /// The kind as metrics and wire shapes name it. Dashboards are built on these: they do not change.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Overloaded => "overloaded",
            Self::RateLimit => "rate_limit",
            Self::Timeout => "timeout",
            Self::Silence => "silence",
            Self::Truncated => "truncated",
            Self::Auth => "auth",
            Self::MissingKey => "missing_key",
            Self::UsageLimit => "usage_limit",
            Self::Config => "config",
            Self::ContextFull => "context_full",
            Self::ContentFilter => "content_filter",
            Self::ProviderDisabled => "provider_disabled",
            Self::ChainBroken => "chain_broken",
            Self::Malformed => "malformed",
            Self::Generic => "generic",
            Self::Budget => "budget",
            Self::Quarantine => "quarantine",
        }
    }

    /// What may be done when nothing more is known than the kind.
    #[must_use]
    pub const fn default_retry(self) -> Retry {
        match self {
            Self::Overloaded | Self::RateLimit | Self::Timeout | Self::Silence | Self::Truncated | Self::Malformed => {
                Retry::Backoff
            }
            Self::ChainBroken => Retry::Once, // With the whole conversation, which no longer needs the chain.
            Self::Auth
            | Self::MissingKey
            | Self::UsageLimit
            | Self::Config
            | Self::ContextFull
            | Self::ContentFilter
            | Self::ProviderDisabled
            | Self::Generic
            | Self::Budget
            | Self::Quarantine => Retry::Never,
        }
    }

    const fn default_cause(self) -> Cause {
        match self {
            Self::Silence => Cause::IdleStall,
            Self::Truncated => Cause::Truncated,
            Self::Malformed => Cause::Malformed,
            _ => Cause::Refused,
        }
    }
}

/// What may be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Nothing: a repeated request would fail again.
    Never,
    /// Try once more and no oftener: it may have been chance, and if it was not, waiting will not mend it.
    Once,
    /// Go on at once: it was not a failure.
    Now,
    /// Try again after a backoff of our own.
    Backoff,
    /// Try again, not before this has passed.
    After(Duration),
}

/// How an attempt broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// No answer began: the provider said no, or could not be reached.
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
    /// A finish reason that means failure, or a generation that is over and cannot be found again.
    ErrorFinish,
    /// Bytes that are not the protocol.
    Malformed,
    /// The process that held the stream is gone; the journal has what was shown.
    Resumed,
}

impl Cause {
    /// The cause as metrics and wire shapes name it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::GoAway => "go_away",
            Self::IdleStall => "idle_stall",
            Self::ServerError => "server_error",
            Self::Truncated => "truncated",
            Self::ErrorFinish => "error_finish",
            Self::Malformed => "malformed",
            Self::Resumed => "resumed",
        }
    }
}
