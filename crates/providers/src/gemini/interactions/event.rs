//! An event of an interaction, as far as we read it.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
pub(super) struct InteractionEvent<'a> {
    pub(super) event_type: Option<String>,
    pub(super) event_id: Option<String>,
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) step: Option<InteractionStep<'a>>,
    #[serde(borrow)]
    pub(super) delta: Option<InteractionStep<'a>>,
    pub(super) interaction: Option<InteractionSummary>,
    pub(super) status: Option<String>,
    pub(super) usage: Option<InteractionUsage>,
}

/// A step when it begins, or more of it: the same fields, by the type.
#[derive(Deserialize)]
pub(super) struct InteractionStep<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) id: Option<String>,
    pub(super) call_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) text: Option<String>,
    pub(super) signature: Option<String>,
    /// An object where a call comes whole, a text where it comes in pieces.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) result: Option<Value>,
    /// What a step begins with (a list), or a piece of a thought (one).
    pub(super) content: Option<Value>,
    pub(super) summary: Option<Value>,
    pub(super) annotations: Option<Value>,
    pub(super) data: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct InteractionSummary {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) status: Option<String>,
    pub(super) usage: Option<InteractionUsage>,
    pub(super) continuation_token: Option<String>,
}

/// Token counts, each of which may be anything.
#[derive(Deserialize)]
pub(super) struct InteractionUsage {
    pub(super) total_input_tokens: Option<Value>,
    pub(super) total_cached_tokens: Option<Value>,
    pub(super) total_tool_use_tokens: Option<Value>,
    pub(super) total_output_tokens: Option<Value>,
    pub(super) total_thought_tokens: Option<Value>,
}
