//! Classifies finish reasons.
//!
//! Gemini has twenty ways to stop, and half of them are failures in disguise: a call it could not write down,
//! an answer it took back. Each reason is decided here, once. If a retry may succeed, it is an error with a
//! retry, and the output so far is kept; if not, the answer counts as withheld. An unknown reason is retried
//! once.

use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::message::Stop;
use serde_json::Value;

use super::decode::Rating;
use crate::classify::{Evidence, classify};

#[cfg(test)]
mod tests;

/// What a `finishReason` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    /// The model was done.
    Done,
    /// The output limit was reached.
    Full,
    /// The answer was withheld, and would be again.
    Withheld,
    /// The answer failed, and may not the next time.
    Failed(Retry),
}

/// The reasons there are.
const REASONS: &[(&str, Finish)] = &[
    ("STOP", Finish::Done),
    ("MAX_TOKENS", Finish::Full),
    ("CONTINUATION", Finish::Full), // Its own limit for one request; the token to go on with is kept.
    ("SAFETY", Finish::Withheld),
    ("RECITATION", Finish::Withheld),
    ("LANGUAGE", Finish::Withheld),
    ("BLOCKLIST", Finish::Withheld),
    ("PROHIBITED_CONTENT", Finish::Withheld),
    ("SPII", Finish::Withheld),
    ("IMAGE_SAFETY", Finish::Withheld),
    ("IMAGE_PROHIBITED_CONTENT", Finish::Withheld),
    ("IMAGE_RECITATION", Finish::Withheld),
    ("MODEL_ARMOR", Finish::Withheld),
    ("MALFORMED_FUNCTION_CALL", Finish::Failed(Retry::Backoff)),
    ("UNEXPECTED_TOOL_CALL", Finish::Failed(Retry::Backoff)),
    ("MALFORMED_RESPONSE", Finish::Failed(Retry::Backoff)),
    ("TOO_MANY_TOOL_CALLS", Finish::Failed(Retry::Once)),
    ("NO_IMAGE", Finish::Failed(Retry::Once)),
    ("IMAGE_OTHER", Finish::Failed(Retry::Once)),
    ("OTHER", Finish::Failed(Retry::Once)),
    ("MISSING_THOUGHT_SIGNATURE", Finish::Failed(Retry::Never)), // A mistake of ours.
];

/// How an answer ended.
#[derive(Debug, Default)]
pub(super) struct GeminiEnding {
    /// What was judged.
    pub(super) of: Judged,
    /// Why it ended, in the provider's word.
    pub(super) reason: String,
    /// What the provider says about that.
    pub(super) message: String,
    /// What it found unsafe, and how.
    pub(super) ratings: Vec<Rating>,
}

/// What a reason is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Judged {
    /// The answer: a `finishReason`.
    #[default]
    Answer,
    /// The question, which gets none: a `blockReason`.
    Question,
}

/// Whether an answer holds calls for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientCalls {
    None,
    Some,
}

impl ClientCalls {
    /// The stop of an answer with a finished model.
    pub(super) const fn stop(self) -> Stop {
        match self {
            Self::None => Stop::End,
            Self::Some => Stop::ToolUse,
        }
    }
}

impl GeminiEnding {
    /// The stop it is, or the error.
    pub(super) fn stop(&self, provider: &str, calls: ClientCalls) -> Result<Stop, ProviderError> {
        let known = REASONS.iter().find(|(reason, _)| reason.eq_ignore_ascii_case(&self.reason));
        let finish = match self.of {
            Judged::Answer => known.map_or(Finish::Failed(Retry::Once), |&(_, finish)| finish),
            Judged::Question => Finish::Withheld,
        };
        match finish {
            Finish::Done => Ok(calls.stop()),
            Finish::Full => Ok(Stop::Length),
            Finish::Withheld => Ok(Stop::Filtered { category: self.category(), detail: self.message.clone() }),
            Finish::Failed(retry) => Err(self.failed(provider, retry)),
        }
    }

    /// The policy it fell under. The rating that did it says more than the reason.
    fn category(&self) -> String {
        let blocked = self.ratings.iter().find(|rating| rating.blocked == Some(true));
        let category = blocked.and_then(|rating| rating.category.as_deref()).unwrap_or(&self.reason);
        let category = category.to_ascii_lowercase();
        category.strip_prefix("harm_category_").unwrap_or(&category).to_owned()
    }

    fn failed(&self, provider: &str, retry: Retry) -> ProviderError {
        let kind = if retry == Retry::Never { ErrorKind::Generic } else { ErrorKind::Truncated };
        let said = if self.message.is_empty() { &self.reason } else { &self.message };
        ProviderError::new(provider, kind).with_retry(retry).with_cause(Cause::ErrorFinish).with_detail(said)
    }
}

/// An error that came in the middle of an answer.
pub(super) fn in_stream(provider: &str, event: &Value) -> ProviderError {
    classify(&Evidence::of_event(provider, event))
}

/// Something that cannot be the protocol.
pub(super) fn malformed(provider: &str, detail: &str) -> ProviderError {
    ProviderError::new(provider, ErrorKind::Malformed).with_detail(detail)
}
