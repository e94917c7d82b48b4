//! What a model answered.

use std::borrow::Cow;

use everturn_core::ids::{ModelId, StepId};
use everturn_core::message::{self, Meta, ReplyBody};
use everturn_core::seam;
use serde::{Deserialize, Serialize};

use super::BadShape;
use super::blob::{BlobId, Blobs, Bytes};
use super::count::Usage;
use super::part::Parts;
use super::value::{AsText, Nanos, unset};

#[derive(Serialize, Deserialize)]
pub(super) struct Reply<'a> {
    step: u64,
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    parts: Parts<'a>,
    stop: Stop<'a>,
    model: AsText<ModelId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "unset")]
    runtime_ns: Nanos,
    #[serde(default, skip_serializing_if = "unset")]
    alive_ns: Nanos,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context_limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response_id: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    seams: Vec<Seam>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    retracted: Vec<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "unset")]
    meta: Cow<'a, Meta>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stop<'a> {
    End,
    ToolUse,
    Length,
    Filtered { category: Cow<'a, str>, detail: Cow<'a, str> },
    Interrupted,
    Broken,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Seam {
    at: usize,
    #[serde(default, skip_serializing_if = "unset")]
    dropped: usize,
    #[serde(default, skip_serializing_if = "unset")]
    inserted: usize,
    #[serde(default, skip_serializing_if = "unset")]
    unmatched: usize,
}

impl From<seam::Seam> for Seam {
    fn from(seam::Seam { at, dropped, inserted, unmatched }: seam::Seam) -> Self {
        Self { at, dropped, inserted, unmatched }
    }
}

impl From<Seam> for seam::Seam {
    fn from(Seam { at, dropped, inserted, unmatched }: Seam) -> Self {
        Self { at, dropped, inserted, unmatched }
    }
}

impl<'a> From<&'a message::Stop> for Stop<'a> {
    fn from(stop: &'a message::Stop) -> Self {
        match stop {
            message::Stop::End => Self::End,
            message::Stop::ToolUse => Self::ToolUse,
            message::Stop::Length => Self::Length,
            message::Stop::Filtered { category, detail } => {
                Self::Filtered { category: category.into(), detail: detail.into() }
            }
            message::Stop::Interrupted => Self::Interrupted,
            message::Stop::Broken => Self::Broken,
        }
    }
}

impl From<Stop<'_>> for message::Stop {
    fn from(stop: Stop<'_>) -> Self {
        match stop {
            Stop::End => Self::End,
            Stop::ToolUse => Self::ToolUse,
            Stop::Length => Self::Length,
            Stop::Filtered { category, detail } => {
                Self::Filtered { category: category.into_owned(), detail: detail.into_owned() }
            }
            Stop::Interrupted => Self::Interrupted,
            Stop::Broken => Self::Broken,
        }
    }
}

impl<'a> Reply<'a> {
    pub(super) fn of(reply: &'a message::Reply, blobs: &mut Blobs) -> Self {
        let ReplyBody {
            step,
            parts,
            stop,
            model,
            usage,
            runtime,
            alive,
            context_limit,
            response_id,
            seams,
            retracted,
            meta,
        } = &**reply;
        Self {
            step: step.0,
            parts: Parts::of(parts, blobs),
            stop: stop.into(),
            model: AsText(model.clone()),
            usage: usage.map(Into::into),
            runtime_ns: Nanos(*runtime),
            alive_ns: Nanos(*alive),
            context_limit: *context_limit,
            response_id: response_id.as_ref().map(Cow::from),
            seams: seams.iter().copied().map(Into::into).collect(),
            retracted: retracted.iter().map(Cow::from).collect(),
            meta: Cow::Borrowed(meta),
        }
    }

    pub(super) fn wants(&self, wanted: &mut Vec<BlobId>) {
        self.parts.wants(wanted);
    }

    pub(super) fn build(self, bytes: &Bytes) -> Result<message::Reply, BadShape> {
        Ok(message::Reply::restored(ReplyBody {
            step: StepId(self.step),
            parts: self.parts.build(bytes)?,
            stop: self.stop.into(),
            model: self.model.0,
            usage: self.usage.map(Into::into),
            runtime: self.runtime_ns.0,
            alive: self.alive_ns.0,
            context_limit: self.context_limit,
            response_id: self.response_id.map(Cow::into_owned),
            seams: self.seams.into_iter().map(Into::into).collect(),
            retracted: self.retracted.into_iter().map(Cow::into_owned).collect(),
            meta: self.meta.into_owned(),
        }))
    }
}
