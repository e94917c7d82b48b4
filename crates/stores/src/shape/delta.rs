//! A stored delta. Plain text is usually a bare string in its row, and needs no more.

use std::borrow::Cow;

use everturn_core::cost::{TokenCount, UsageReport};
use everturn_core::delta;
use everturn_core::ids::ModelId;
use everturn_core::message::Meta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::blob::{Blobs, Bytes};
use super::name::{RunByWord, RungWord};
use super::part::{File, Seal, Source};
use super::reply::Seam;
use super::value::{AsText, unset};

/// A delta with its kind. Two kinds come by the hundred and are named with one letter.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Delta<'a> {
    Attempt(Began),
    Text(Cow<'a, str>),
    #[serde(rename = "r")]
    Reasoning(Cow<'a, str>),
    Sealed(Seal<'a>),
    Ended(()),
    Call(CallBegan<'a>),
    #[serde(rename = "i")]
    CallInput(u32, Cow<'a, str>),
    CallEnded(u32),
    Provided(Provided<'a>),
    Source(Source<'a>),
    File(File<'a>),
    Other(Cow<'a, Meta>),
    PartMeta(Cow<'a, Meta>),
    ReplyMeta(Cow<'a, Meta>),
    ResponseId(Cow<'a, str>),
    Handle {
        id: Cow<'a, str>,
        cursor: Cow<'a, str>,
    },
    Usage(Counts),
    Seam(Seam),
    RetractCall(u16),
    RetractAll(()),
}

#[derive(Serialize, Deserialize)]
pub(super) struct Began {
    number: u32,
    model: AsText<ModelId>,
    rung: RungWord,
}

#[derive(Serialize, Deserialize)]
pub(super) struct CallBegan<'a> {
    slot: u32,
    #[serde(default, skip_serializing_if = "unset")]
    provider_id: Cow<'a, str>,
    tool: Cow<'a, str>,
    run_by: RunByWord,
    #[serde(default, skip_serializing_if = "unset")]
    meta: Cow<'a, Meta>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Provided<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slot: Option<u32>,
    tool: Cow<'a, str>,
    output: Cow<'a, Value>,
    #[serde(default, skip_serializing_if = "unset")]
    meta: Cow<'a, Meta>,
}

/// What was stated of the tokens. What was not is left out.
#[derive(Serialize, Deserialize)]
pub(super) struct Counts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_read: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_write: Option<u64>,
}

impl<'a> Delta<'a> {
    pub(super) fn of(delta: &'a delta::Delta, blobs: &mut Blobs) -> Self {
        match delta {
            delta::Delta::Attempt(began) => {
                let delta::AttemptBegan { number, model, rung } = &**began;
                Self::Attempt(Began { number: *number, model: AsText(model.clone()), rung: (*rung).into() })
            }
            delta::Delta::Text(text) => Self::Text(text.into()),
            delta::Delta::Reasoning(text) => Self::Reasoning(text.into()),
            delta::Delta::Sealed(seal) => Self::Sealed(seal.into()),
            delta::Delta::Ended => Self::Ended(()),
            delta::Delta::CallBegan(call) => Self::Call((&**call).into()),
            delta::Delta::CallInput { slot, json } => Self::CallInput(*slot, json.into()),
            delta::Delta::CallEnded { slot } => Self::CallEnded(*slot),
            delta::Delta::Provided(provided) => Self::Provided((&**provided).into()),
            delta::Delta::Source(source) => Self::Source((&**source).into()),
            delta::Delta::File(file) => Self::File(File::of(file, blobs)),
            delta::Delta::Other(meta) => Self::Other(Cow::Borrowed(meta)),
            delta::Delta::PartMeta(meta) => Self::PartMeta(Cow::Borrowed(meta)),
            delta::Delta::ReplyMeta(meta) => Self::ReplyMeta(Cow::Borrowed(meta)),
            delta::Delta::ResponseId(id) => Self::ResponseId(id.into()),
            delta::Delta::Handle(handle) => {
                let delta::GenerationHandle { id, cursor } = &**handle;
                Self::Handle { id: id.into(), cursor: cursor.into() }
            }
            delta::Delta::Usage(report) => Self::Usage((**report).into()),
            delta::Delta::Seam(seam) => Self::Seam((*seam).into()),
            delta::Delta::RetractCall { ordinal } => Self::RetractCall(*ordinal),
            delta::Delta::RetractAll => Self::RetractAll(()),
        }
    }

    pub(super) fn build(self, bytes: &Bytes) -> delta::Delta {
        match self {
            Self::Attempt(Began { number, model, rung }) => {
                delta::Delta::Attempt(Box::new(delta::AttemptBegan { number, model: model.0, rung: rung.into() }))
            }
            Self::Text(text) => delta::Delta::Text(text.into_owned()),
            Self::Reasoning(text) => delta::Delta::Reasoning(text.into_owned()),
            Self::Sealed(seal) => delta::Delta::Sealed(seal.into()),
            Self::Ended(()) => delta::Delta::Ended,
            Self::Call(call) => delta::Delta::CallBegan(Box::new(call.into())),
            Self::CallInput(slot, json) => delta::Delta::CallInput { slot, json: json.into_owned() },
            Self::CallEnded(slot) => delta::Delta::CallEnded { slot },
            Self::Provided(provided) => delta::Delta::Provided(Box::new(provided.into())),
            Self::Source(source) => delta::Delta::Source(Box::new(source.into())),
            Self::File(file) => delta::Delta::File(Box::new(file.build(bytes))),
            Self::Other(meta) => delta::Delta::Other(Box::new(meta.into_owned())),
            Self::PartMeta(meta) => delta::Delta::PartMeta(Box::new(meta.into_owned())),
            Self::ReplyMeta(meta) => delta::Delta::ReplyMeta(Box::new(meta.into_owned())),
            Self::ResponseId(id) => delta::Delta::ResponseId(id.into_owned()),
            Self::Handle { id, cursor } => delta::Delta::Handle(Box::new(delta::GenerationHandle {
                id: id.into_owned(),
                cursor: cursor.into_owned(),
            })),
            Self::Usage(counts) => delta::Delta::Usage(Box::new(counts.into())),
            Self::Seam(seam) => delta::Delta::Seam(seam.into()),
            Self::RetractCall(ordinal) => delta::Delta::RetractCall { ordinal },
            Self::RetractAll(()) => delta::Delta::RetractAll,
        }
    }
}

impl<'a> From<&'a delta::CallBegan> for CallBegan<'a> {
    fn from(delta::CallBegan { slot, provider_id, tool, run_by, meta }: &'a delta::CallBegan) -> Self {
        let (provider_id, tool, meta) = (provider_id.into(), tool.into(), Cow::Borrowed(meta));
        Self { slot: *slot, provider_id, tool, run_by: (*run_by).into(), meta }
    }
}

impl From<CallBegan<'_>> for delta::CallBegan {
    fn from(CallBegan { slot, provider_id, tool, run_by, meta }: CallBegan<'_>) -> Self {
        let (provider_id, tool, meta) = (provider_id.into_owned(), tool.into_owned(), meta.into_owned());
        Self { slot, provider_id, tool, run_by: run_by.into(), meta }
    }
}

impl<'a> From<&'a delta::ProvidedDelta> for Provided<'a> {
    fn from(delta::ProvidedDelta { slot, tool, output, meta }: &'a delta::ProvidedDelta) -> Self {
        Self { slot: *slot, tool: tool.into(), output: Cow::Borrowed(output), meta: Cow::Borrowed(meta) }
    }
}

impl From<Provided<'_>> for delta::ProvidedDelta {
    fn from(Provided { slot, tool, output, meta }: Provided<'_>) -> Self {
        Self { slot, tool: tool.into_owned(), output: output.into_owned(), meta: meta.into_owned() }
    }
}

impl From<UsageReport> for Counts {
    fn from(UsageReport { input, output, reasoning, cache_read, cache_write }: UsageReport) -> Self {
        Self {
            input: input.known(),
            output: output.known(),
            reasoning: reasoning.known(),
            cache_read: cache_read.known(),
            cache_write: cache_write.known(),
        }
    }
}

impl From<Counts> for UsageReport {
    fn from(Counts { input, output, reasoning, cache_read, cache_write }: Counts) -> Self {
        let reported = |count: Option<u64>| count.map_or(TokenCount::Unknown, TokenCount::Known);
        Self {
            input: reported(input),
            output: reported(output),
            reasoning: reported(reasoning),
            cache_read: reported(cache_read),
            cache_write: reported(cache_write),
        }
    }
}
