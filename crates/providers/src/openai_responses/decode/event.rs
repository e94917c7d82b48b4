//! One event as it is written.

use serde::Deserialize;
use serde_json::Value;

use crate::openai::Loose;
use crate::sse;

/// Every field that any event has and that means something to us. Flat and borrowed: there are a hundred a second.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponsesEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Loose<'a>,
    #[serde(borrow)]
    pub sequence_number: Loose<'a>,
    #[serde(borrow)]
    pub output_index: Loose<'a>,
    #[serde(borrow)]
    pub content_index: Loose<'a>,
    #[serde(borrow)]
    pub summary_index: Loose<'a>,
    #[serde(borrow)]
    pub item_id: Loose<'a>,
    #[serde(borrow)]
    pub delta: Loose<'a>,
    #[serde(borrow)]
    pub text: Loose<'a>,
    #[serde(borrow)]
    pub refusal: Loose<'a>,
    #[serde(borrow)]
    pub arguments: Loose<'a>,
    #[serde(borrow)]
    pub annotation: Loose<'a>,
    #[serde(borrow)]
    pub part: Loose<'a>,
    #[serde(borrow)]
    pub item: Loose<'a>,
    #[serde(borrow)]
    pub response: Loose<'a>,
}

impl<'a> ResponsesEvent<'a> {
    /// An event's data. Its kind stands there, or is the name it came under.
    pub fn read(event: &sse::SseEvent<'a>) -> serde_json::Result<Self> {
        if !event.data.trim_start().starts_with('{') {
            return Err(serde::de::Error::custom("an event that is no object")); // A list would pass for one.
        }
        let mut told: Self = serde_json::from_str(event.data)?;
        if told.kind.text().is_empty() {
            told.kind = Loose::Text(event.name.into());
        }
        Ok(told)
    }
}

impl Loose<'_> {
    /// The value, which is none for a text: no field of ours is one and the other.
    pub(super) fn json(self) -> Value {
        match self {
            Self::Json(json) => json,
            Self::None | Self::Text(_) => Value::Null,
        }
    }
}

/// Whether events of a kind are known and add nothing: they announce what comes, repeat what came, or report
/// progress of a provider's tool, with the outcome in its item.
pub(super) fn says_nothing(kind: &str) -> bool {
    let kind = kind.strip_prefix("response.").unwrap_or(kind);
    let topic = kind.split('.').next().unwrap_or_default();
    let announces = matches!(
        kind,
        "queued"
            | "in_progress"
            | "keepalive"
            | "ping"
            | "content_part.added"
            | "reasoning_summary_part.added"
            | "reasoning_summary_part.done"
            | "reasoning_summary_text.done"
            | "reasoning_text.done"
    );
    announces || topic.contains("_call") || matches!(topic, "mcp_list_tools" | "compaction" | "audio")
}
