//! Pieces of messages.

use std::borrow::Cow;

use everturn_core::ids::Timestamp;
use everturn_core::message::{self, Meta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::BadShape;
use super::blob::{BlobId, Blobs, Bytes};
use super::name::RunByWord;
use super::value::{Uid, unset};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text(Text<'a>),
    Reasoning(Reasoning<'a>),
    Call(Call<'a>),
    Provided(Provided<'a>),
    Source(Source<'a>),
    File(File<'a>),
    Other(Cow<'a, Meta>),
}

impl<'a> Part<'a> {
    pub(super) fn of(part: &'a message::Part, blobs: &mut Blobs) -> Self {
        match part {
            message::Part::Text(text) => Self::Text(text.into()),
            message::Part::Reasoning(reasoning) => Self::Reasoning(reasoning.into()),
            message::Part::Call(call) => Self::Call(call.into()),
            message::Part::Provided(provided) => Self::Provided(provided.into()),
            message::Part::Source(source) => Self::Source(source.into()),
            message::Part::File(file) => Self::File(File::of(file, blobs)),
            message::Part::Other(meta) => Self::Other(Cow::Borrowed(meta)),
        }
    }

    fn build(self, bytes: &Bytes) -> message::Part {
        match self {
            Self::Text(text) => message::Part::Text(text.into()),
            Self::Reasoning(reasoning) => message::Part::Reasoning(reasoning.into()),
            Self::Call(call) => message::Part::Call(call.into()),
            Self::Provided(provided) => message::Part::Provided(provided.into()),
            Self::Source(source) => message::Part::Source(source.into()),
            Self::File(file) => message::Part::File(file.build(bytes)),
            Self::Other(meta) => message::Part::Other(meta.into_owned()),
        }
    }
}

/// Parts in order.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Parts<'a>(Vec<Part<'a>>);

impl<'a> Parts<'a> {
    pub(super) fn of(parts: &'a [message::Part], blobs: &mut Blobs) -> Self {
        Self(parts.iter().map(|part| Part::of(part, blobs)).collect())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn wants(&self, wanted: &mut Vec<BlobId>) {
        for part in &self.0 {
            match part {
                Part::File(file) => wanted.extend(file.bytes),
                Part::Text(_) | Part::Reasoning(_) | Part::Call(_) => {}
                Part::Provided(_) | Part::Source(_) | Part::Other(_) => {}
            }
        }
    }

    pub(super) fn build<P: FromIterator<message::Part>>(self, bytes: &Bytes) -> Result<P, BadShape> {
        Ok(self.0.into_iter().map(|part| part.build(bytes)).collect())
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Text<'a> {
    text: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "unset")]
    meta: Cow<'a, Meta>,
}

impl<'a> From<&'a message::Text> for Text<'a> {
    fn from(message::Text { text, meta }: &'a message::Text) -> Self {
        Self { text: text.into(), meta: Cow::Borrowed(meta) }
    }
}

impl From<Text<'_>> for message::Text {
    fn from(Text { text, meta }: Text<'_>) -> Self {
        Self { text: text.into_owned(), meta: meta.into_owned() }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Reasoning<'a> {
    #[serde(default, skip_serializing_if = "unset")]
    text: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<Seal<'a>>,
    began: i64,
    ended: i64,
    #[serde(default, skip_serializing_if = "unset")]
    meta: Cow<'a, Meta>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Seal<'a> {
    Signature(Cow<'a, str>),
    Redacted(Cow<'a, str>),
}

impl<'a> From<&'a message::Seal> for Seal<'a> {
    fn from(seal: &'a message::Seal) -> Self {
        match seal {
            message::Seal::Signature(signature) => Self::Signature(signature.into()),
            message::Seal::Redacted(redacted) => Self::Redacted(redacted.into()),
        }
    }
}

impl From<Seal<'_>> for message::Seal {
    fn from(seal: Seal<'_>) -> Self {
        match seal {
            Seal::Signature(signature) => Self::Signature(signature.into_owned()),
            Seal::Redacted(redacted) => Self::Redacted(redacted.into_owned()),
        }
    }
}

impl<'a> From<&'a message::Reasoning> for Reasoning<'a> {
    fn from(reasoning: &'a message::Reasoning) -> Self {
        let message::Reasoning { text, seal, began, ended, meta } = reasoning;
        let (seal, meta) = (seal.as_ref().map(Seal::from), Cow::Borrowed(meta));
        Self { text: text.into(), seal, began: began.0, ended: ended.0, meta }
    }
}

impl From<Reasoning<'_>> for message::Reasoning {
    fn from(Reasoning { text, seal, began, ended, meta }: Reasoning<'_>) -> Self {
        let (began, ended) = (Timestamp(began), Timestamp(ended));
        Self { text: text.into_owned(), seal: seal.map(Into::into), began, ended, meta: meta.into_owned() }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Call<'a> {
    uid: Uid,
    #[serde(default, skip_serializing_if = "unset")]
    provider_id: Cow<'a, str>,
    tool: Cow<'a, str>,
    input: Cow<'a, str>,
    whole: bool,
    run_by: RunByWord,
    at: i64,
    #[serde(default, skip_serializing_if = "unset")]
    meta: Cow<'a, Meta>,
}

impl<'a> From<&'a message::Call> for Call<'a> {
    fn from(call: &'a message::Call) -> Self {
        let message::Call { uid, provider_id, tool, input, whole, run_by, at, meta } = call;
        Self {
            uid: (*uid).into(),
            provider_id: provider_id.into(),
            tool: tool.into(),
            input: input.into(),
            whole: *whole,
            run_by: (*run_by).into(),
            at: at.0,
            meta: Cow::Borrowed(meta),
        }
    }
}

impl From<Call<'_>> for message::Call {
    fn from(Call { uid, provider_id, tool, input, whole, run_by, at, meta }: Call<'_>) -> Self {
        Self {
            uid: uid.into(),
            provider_id: provider_id.into_owned(),
            tool: tool.into_owned(),
            input: input.into_owned(),
            whole,
            run_by: run_by.into(),
            at: Timestamp(at),
            meta: meta.into_owned(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Provided<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<Uid>,
    tool: Cow<'a, str>,
    output: Cow<'a, Value>,
    at: i64,
    #[serde(default, skip_serializing_if = "unset")]
    meta: Cow<'a, Meta>,
}

impl<'a> From<&'a message::Provided> for Provided<'a> {
    fn from(message::Provided { uid, tool, output, at, meta }: &'a message::Provided) -> Self {
        let (output, meta) = (Cow::Borrowed(output), Cow::Borrowed(meta));
        Self { uid: uid.map(Into::into), tool: tool.into(), output, at: at.0, meta }
    }
}

impl From<Provided<'_>> for message::Provided {
    fn from(Provided { uid, tool, output, at, meta }: Provided<'_>) -> Self {
        let (output, meta) = (output.into_owned(), meta.into_owned());
        Self { uid: uid.map(Into::into), tool: tool.into_owned(), output, at: Timestamp(at), meta }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Source<'a> {
    url: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "unset")]
    title: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "unset")]
    meta: Cow<'a, Meta>,
}

impl<'a> From<&'a message::Source> for Source<'a> {
    fn from(message::Source { url, title, meta }: &'a message::Source) -> Self {
        Self { url: url.into(), title: title.into(), meta: Cow::Borrowed(meta) }
    }
}

impl From<Source<'_>> for message::Source {
    fn from(Source { url, title, meta }: Source<'_>) -> Self {
        Self { url: url.into_owned(), title: title.into_owned(), meta: meta.into_owned() }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct File<'a> {
    #[serde(default, skip_serializing_if = "unset")]
    name: Cow<'a, str>,
    #[serde(rename = "type")]
    media_type: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<BlobId>,
    #[serde(default, skip_serializing_if = "unset")]
    meta: Cow<'a, Meta>,
}

impl<'a> File<'a> {
    pub(super) fn of(file: &'a message::File, blobs: &mut Blobs) -> Self {
        let message::File { name, media_type, bytes, meta } = file;
        let bytes = bytes.as_ref().and_then(|bytes| blobs.put(bytes));
        Self { name: name.into(), media_type: media_type.into(), bytes, meta: Cow::Borrowed(meta) }
    }

    /// A file without its bytes is still a file.
    pub(super) fn build(self, bytes: &Bytes) -> message::File {
        let Self { name, media_type, bytes: id, meta } = self;
        let bytes = id.and_then(|id| bytes.get(&id).cloned());
        message::File { name: name.into_owned(), media_type: media_type.into_owned(), bytes, meta: meta.into_owned() }
    }
}
