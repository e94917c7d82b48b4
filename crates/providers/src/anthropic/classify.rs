//! What Anthropic's stops and errors mean.
//!
//! Statuses, error types and messages are known to [`crate::classify`]; here is what only this wire says.

use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::message::Stop;
use serde_json::Value;

use crate::classify::{Evidence, classify};

/// What a stop reason means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StopMeaning {
    /// The answer is over.
    Over(Stop),
    /// The provider's own tools took long, and it wants to be asked to go on.
    Paused,
}

/// What a stop reason means. An unknown one ends the answer: the provider said that it is over, and the
/// reason is stored with it.
pub(super) fn ending(reason: &str, details: Option<&Value>) -> StopMeaning {
    match reason {
        "tool_use" => StopMeaning::Over(Stop::ToolUse),
        "max_tokens" | "model_context_window_exceeded" => StopMeaning::Over(Stop::Length),
        "refusal" => StopMeaning::Over(refusal(details)),
        "pause_turn" => StopMeaning::Paused,
        _ => StopMeaning::Over(Stop::End), // end_turn, stop_sequence
    }
}

fn refusal(details: Option<&Value>) -> Stop {
    let text = |key: &str| details.and_then(|details| details.get(key)).and_then(Value::as_str).unwrap_or_default();
    Stop::Filtered { category: text("category").to_owned(), detail: text("explanation").to_owned() }
}

/// What an `error` event means.
pub(super) fn of_event(provider: &str, event: &Value) -> ProviderError {
    let request_id = event.get("request_id").and_then(Value::as_str).map(str::to_owned);
    classify(&Evidence { request_id, ..Evidence::of_event(provider, event) })
}

/// An answer that is to be gone on with in a new request, which the ladder knows how to make. Nothing failed.
pub(super) fn paused(provider: &str) -> ProviderError {
    let error =
        ProviderError::new(provider, ErrorKind::Truncated).with_cause(Cause::ErrorFinish).with_retry(Retry::Now);
    error.with_detail("the provider paused in the middle of its answer")
}

/// A message that stops without a reason.
pub(super) fn without_reason(provider: &str) -> ProviderError {
    ProviderError::new(provider, ErrorKind::Truncated).with_detail("the message stopped without a stop reason")
}

/// Something that is not the protocol.
pub(super) fn malformed(provider: &str, what: &str) -> ProviderError {
    ProviderError::new(provider, ErrorKind::Malformed).with_detail(what)
}
