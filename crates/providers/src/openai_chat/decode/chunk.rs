//! One chunk as it is written.

use serde::Deserialize;

use crate::openai::Loose;
use crate::sse;

/// What of a chunk means something to us. Borrowed: there are a hundred a second.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatChunk<'a> {
    #[serde(borrow)]
    pub id: Loose<'a>,
    #[serde(borrow)]
    pub model: Loose<'a>,
    #[serde(borrow)]
    pub choices: Option<Vec<ChatChoice<'a>>>,
    #[serde(borrow)]
    pub usage: Loose<'a>,
}

/// One of the answers asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatChoice<'a> {
    #[serde(borrow)]
    pub index: Loose<'a>,
    #[serde(borrow)]
    pub delta: Option<ChatDelta<'a>>,
    #[serde(borrow)]
    pub finish_reason: Loose<'a>,
    #[serde(borrow)]
    pub usage: Loose<'a>,
}

/// What is said in a chunk.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatDelta<'a> {
    #[serde(borrow)]
    pub content: Loose<'a>,
    #[serde(borrow)]
    pub reasoning_content: Loose<'a>,
    #[serde(borrow)]
    pub reasoning: Loose<'a>,
    #[serde(borrow)]
    pub refusal: Loose<'a>,
    #[serde(borrow)]
    pub tool_calls: Option<Vec<CallPiece<'a>>>,
    #[serde(borrow)]
    pub function_call: Option<Function<'a>>,
    #[serde(borrow)]
    pub annotations: Loose<'a>,
}

/// A piece of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallPiece<'a> {
    #[serde(borrow)]
    pub index: Loose<'a>,
    #[serde(borrow)]
    pub id: Loose<'a>,
    #[serde(borrow)]
    pub function: Option<Function<'a>>,
}

/// What is called, and with what.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub name: Loose<'a>,
    #[serde(borrow)]
    pub arguments: Loose<'a>,
}

impl<'a> ChatChunk<'a> {
    /// An event's data.
    pub fn read(event: &sse::SseEvent<'a>) -> serde_json::Result<Self> {
        if !event.data.trim_start().starts_with('{') {
            return Err(serde::de::Error::custom("a chunk that is no object")); // A list would pass for one.
        }
        serde_json::from_str(event.data)
    }
}
