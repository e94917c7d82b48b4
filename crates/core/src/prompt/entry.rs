//! Prompt entries: the shape that every adapter translates.
//!
//! A message says what happened; an entry says what a provider will be told about it. Here nothing can be missing any
//! more: a call has a JSON object and an id, reasoning has a seal, a file has bytes. Adapters only translate.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::message::{Meta, Seal, Text};

/// What a picture, a page or a sound is taken to cost in [`PromptEntries::bytes`]: tokens for media depend on their size in
/// pixels and minutes, hardly on their bytes, and one to two thousand is usual.
pub const MEDIA_BYTES: usize = 6 * 1024;

/// The speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The person, or we on behalf of the embedding program.
    User,
    /// The model.
    Assistant,
    /// The tools: results of the calls in the entry before, all of them, in call order.
    Tool,
}

/// Everything one side says before the other speaks.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptEntry {
    /// The speaker.
    pub role: Role,
    /// What is said, never nothing.
    pub parts: Vec<PromptPart>,
}

/// A piece of an entry. Its metadata is the target's own provider's, or none.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptPart {
    /// Words, never blank.
    Text(Text),
    /// A file of a type the target takes.
    File(PromptFile),
    /// Reasoning the target sealed.
    Reasoning(SealedReasoning),
    /// A tool use that is answered in the next entry.
    Call(PromptCall),
    /// The answer to a call in the entry before.
    Result(PromptResult),
    /// A use of one of the provider's own tools, with its [`HostedResult`] later in the same entry.
    HostedCall(HostedCall),
    /// What one of the provider's own tools found.
    HostedResult(HostedResult),
}

/// A file with its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptFile {
    /// Its name, if it has one.
    pub name: String,
    /// Its bytes and type; the type in small letters and without parameters.
    pub media: PromptMedia,
    /// What the provider attached.
    pub meta: Meta,
}

/// Bytes with a type.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptMedia {
    /// Such as `image/png`.
    pub media_type: String,
    /// The bytes themselves; encoded only on a wire.
    pub bytes: Arc<[u8]>,
}

/// Reasoning with its seal, byte for byte as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct SealedReasoning {
    /// The provider that sealed it.
    pub provider: String,
    /// What may be shown; often empty.
    pub text: String,
    /// The seal.
    pub seal: Seal,
    /// What the provider attached.
    pub meta: Meta,
}

/// A tool use.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptCall {
    /// `call_1`, `call_2`…: our count within this prompt, because providers repeat and forget their ids.
    pub id: String,
    /// The provider's id. Needed only by a provider that kept the call itself: see [`super::ResponseChain`].
    pub provider_id: String,
    /// The tool's name, in characters every wire takes.
    pub tool: String,
    /// The input.
    pub input: Map<String, Value>,
    /// What the provider attached, such as a thought signature.
    pub meta: Meta,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptResult {
    /// The id of the call.
    pub id: String,
    /// The provider's id of the call.
    pub provider_id: String,
    /// The tool's name, as in the call.
    pub tool: String,
    /// What the model is told; blank only when there are media.
    pub text: String,
    /// What the model is shown, of types the target takes from tools.
    pub media: Vec<PromptMedia>,
    /// Whether the call failed, was refused, was stopped or has no known end.
    pub is_error: bool,
    /// What a local runner attached.
    pub meta: Meta,
}

/// A use of one of the provider's own tools.
#[derive(Debug, Clone, PartialEq)]
pub struct HostedCall {
    /// The provider's id: it checks these against its own pattern.
    pub id: String,
    /// The provider that ran it.
    pub provider: String,
    /// The tool's name.
    pub tool: String,
    /// The input.
    pub input: Map<String, Value>,
    /// What the provider attached.
    pub meta: Meta,
}

/// What one of the provider's own tools found.
#[derive(Debug, Clone, PartialEq)]
pub struct HostedResult {
    /// The id of the call.
    pub id: String,
    /// The provider that ran it.
    pub provider: String,
    /// The tool's name.
    pub tool: String,
    /// What it found, as it came.
    pub output: Value,
    /// What the provider attached.
    pub meta: Meta,
}

impl PromptPart {
    /// Words of ours.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), meta: Meta::new() })
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.text.len(),
            Self::File(_) => MEDIA_BYTES,
            Self::Reasoning(sealed) => {
                let (Seal::Signature(seal) | Seal::Redacted(seal)) = &sealed.seal;
                sealed.text.len() + seal.len()
            }
            Self::Call(call) => call.tool.len() + map_bytes(&call.input),
            Self::Result(result) => result.tool.len() + result.text.len() + result.media.len() * MEDIA_BYTES,
            Self::HostedCall(call) => call.tool.len() + map_bytes(&call.input),
            Self::HostedResult(result) => result.tool.len() + json_bytes(&result.output),
        }
    }
}

impl PromptEntry {
    /// Something said by `role`.
    #[must_use]
    pub const fn new(role: Role, parts: Vec<PromptPart>) -> Self {
        Self { role, parts }
    }

    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().map(PromptPart::bytes).sum()
    }
}

/// About how long a value is when written down; close enough to plan with, and nothing is allocated.
pub(super) fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(values) => 2 + values.iter().map(|value| json_bytes(value) + 1).sum::<usize>(),
        Value::Object(map) => map_bytes(map),
    }
}

fn map_bytes(map: &Map<String, Value>) -> usize {
    2 + map.iter().map(|(key, value)| key.len() + 4 + json_bytes(value)).sum::<usize>()
}

/// All entries of one request: a closed beginning shared with the [`super::Prompt`] it came from, and an open end.
///
/// The beginning is shared, so a request costs only its end, however long the chat. For that to hold, drop the request
/// before the prompt is pushed to again; else the prompt must copy the beginning once.
#[derive(Debug, Clone, Default)]
pub struct PromptEntries {
    closed: Arc<Vec<PromptEntry>>,
    closed_bytes: usize,
    tail: Vec<PromptEntry>,
}

impl PromptEntries {
    pub(super) const fn new(closed: Arc<Vec<PromptEntry>>, closed_bytes: usize, tail: Vec<PromptEntry>) -> Self {
        Self { closed, closed_bytes, tail }
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &PromptEntry> {
        self.closed.iter().chain(&self.tail)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.closed.len() + self.tail.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&PromptEntry> {
        match index.checked_sub(self.closed.len()) {
            None => self.closed.get(index),
            Some(index) => self.tail.get(index),
        }
    }

    /// The last entry.
    #[must_use]
    pub fn last(&self) -> Option<&PromptEntry> {
        self.iter().next_back()
    }

    /// How many entries are closed: later requests of the same prompt begin with exactly these, until a summary.
    #[must_use]
    pub fn closed_len(&self) -> usize {
        self.closed.len()
    }

    /// An estimate of the size: texts, names, inputs and results in bytes, media at [`MEDIA_BYTES`] each. Costs the
    /// open end only.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.closed_bytes + self.tail.iter().map(PromptEntry::bytes).sum::<usize>()
    }

    /// Whether pictures, pages or sounds are shown in them.
    #[must_use]
    pub fn have_media(&self) -> bool {
        let shows = |part: &PromptPart| match part {
            PromptPart::File(_) => true,
            PromptPart::Result(result) => !result.media.is_empty(),
            _ => false,
        };
        self.iter().any(|entry| entry.parts.iter().any(shows))
    }

    /// Adds an entry for this request alone: how to summarise, for example. What the person says after the person
    /// spoke goes into the same entry, since most wires want the roles to take turns.
    pub fn push(&mut self, entry: PromptEntry) {
        match self.tail.last_mut() {
            Some(last) if last.role == Role::User && entry.role == Role::User => last.parts.extend(entry.parts),
            _ => self.tail.push(entry),
        }
    }
}

impl From<Vec<PromptEntry>> for PromptEntries {
    fn from(tail: Vec<PromptEntry>) -> Self {
        Self { tail, ..Self::default() }
    }
}

impl PartialEq for PromptEntries {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}
