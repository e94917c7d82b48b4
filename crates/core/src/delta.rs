//! The increments an answer arrives in.
//!
//! A delta is what an adapter made of a frame, or what the engine did to the draft (a new attempt, a seam,
//! something taken back). Both go the same way: into the draft, into the journal, to subscribers. So a draft
//! can be rebuilt from its deltas alone: after a crash, on another machine or in a browser.

use serde_json::Value;

use crate::cost::UsageReport;
use crate::ids::ModelId;
use crate::message::{File, Meta, RunBy, Seal, Source};
use crate::seam::Seam;

/// One increment of a draft.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// A provider call begins; what follows is its output.
    Attempt(Box<AttemptBegan>),
    /// More words.
    Text(String),
    /// More thinking.
    Reasoning(String),
    /// What makes the open reasoning acceptable to its provider again. Opens a reasoning part if none is open.
    Sealed(Seal),
    /// The open text or reasoning is complete. The next words are a part of their own.
    Ended,
    /// A tool use begins. `slot` is the adapter's name for it, unique within the attempt.
    CallBegan(Box<CallBegan>),
    /// More of a call's input.
    CallInput {
        /// Which call.
        slot: u32,
        /// The next piece of its JSON.
        json: String,
    },
    /// A call's input is complete.
    CallEnded {
        /// Which call.
        slot: u32,
    },
    /// What a tool that ran at the provider gave back.
    Provided(Box<ProvidedDelta>),
    /// Something the answer rests on.
    Source(Box<Source>),
    /// A file or an image.
    File(Box<File>),
    /// A part of an unknown kind, as it came.
    Other(Box<Meta>),
    /// Metadata for the newest part. Merges: what is absent erases nothing.
    PartMeta(Box<Meta>),
    /// Metadata for the whole reply. Merges too.
    ReplyMeta(Box<Meta>),
    /// The provider's name for the response.
    ResponseId(String),
    /// How to find this generation again, should the stream break.
    Handle(Box<GenerationHandle>),
    /// What the attempt has used so far. What it states replaces what the attempt stated before.
    Usage(Box<UsageReport>),
    /// The text before and after this point comes from two attempts.
    Seam(Seam),
    /// Take back a call that was never completed.
    RetractCall {
        /// Its place among the step's calls.
        ordinal: u16,
    },
    /// Take back everything: the step begins again.
    RetractAll,
}

/// What is rare is in a box: most are a few letters, and thousands of chats have some at hand.
const _: () = assert!(size_of::<Delta>() <= 40);

/// A provider call that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptBegan {
    /// Its number within the step: 1, 2, 3…
    pub number: u32,
    /// The model that is called.
    pub model: ModelId,
    /// Why this attempt is made.
    pub rung: Rung,
}

/// Why an attempt is made: the first one, or a rung of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rung {
    /// The step's first attempt.
    First,
    /// Re-attach to the running generation after the last delta.
    Reattach,
    /// A new generation that goes on from what was shown.
    Continue,
    /// A new generation from the beginning.
    Restart,
    /// Another model.
    FallBack,
}

impl Rung {
    /// Its name in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Reattach => "reattach",
            Self::Continue => "continue",
            Self::Restart => "restart",
            Self::FallBack => "fall_back",
        }
    }
}

/// A tool use that begins.
#[derive(Debug, Clone, PartialEq)]
pub struct CallBegan {
    /// The adapter's name for it within this attempt.
    pub slot: u32,
    /// The provider's id; data, never a key.
    pub provider_id: String,
    /// The tool.
    pub tool: String,
    /// Where it runs: here or at the provider.
    pub run_by: RunBy,
    /// What the provider attached.
    pub meta: Meta,
}

/// The outcome of a tool that ran at the provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProvidedDelta {
    /// The call it answers, if the provider said which.
    pub slot: Option<u32>,
    /// The tool.
    pub tool: String,
    /// The outcome.
    pub output: Value,
    /// What the provider attached.
    pub meta: Meta,
}

/// How to find a generation again at a provider that keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationHandle {
    /// The provider's name for the generation.
    pub id: String,
    /// The provider's own cursor: how far we have read.
    pub cursor: String,
}

impl Delta {
    /// Takes `next` in, if the two are one increment of one part; else gives it back. Folding the result equals folding
    /// both, so a batch may be joined before it is numbered and stored.
    pub fn absorb(&mut self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Text(tail), Self::Text(more)) | (Self::Reasoning(tail), Self::Reasoning(more)) => {
                tail.push_str(&more);
                None
            }
            (Self::CallInput { slot, json }, Self::CallInput { slot: next, json: more }) if *slot == next => {
                json.push_str(&more);
                None
            }
            (Self::Usage(report), Self::Usage(newer)) => {
                report.update(&newer);
                None
            }
            (Self::Handle(handle), Self::Handle(newer)) => {
                *handle = newer;
                None
            }
            (_, next) => Some(next),
        }
    }

    /// Whether this is content a reader waits for, as opposed to bookkeeping. Silence is measured between these.
    #[must_use]
    pub const fn is_progress(&self) -> bool {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::CallInput { json: text, .. } => !text.is_empty(),
            Self::Sealed(_)
            | Self::Ended
            | Self::CallBegan(_)
            | Self::CallEnded { .. }
            | Self::Provided(_)
            | Self::Source(_)
            | Self::File(_)
            | Self::Other(_) => true,
            Self::Attempt(_)
            | Self::PartMeta(_)
            | Self::ReplyMeta(_)
            | Self::ResponseId(_)
            | Self::Handle(_)
            | Self::Usage(_)
            | Self::Seam(_)
            | Self::RetractCall { .. }
            | Self::RetractAll => false,
        }
    }

    /// Roughly how many bytes of content it adds to a draft.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::CallInput { json: text, .. } => text.len(),
            Self::File(file) => file.bytes.as_ref().map_or(0, |bytes| bytes.len()),
            Self::Provided(provided) => provided.output.as_str().map_or(PIECE_BYTES, str::len),
            Self::CallBegan(_) | Self::Sealed(_) | Self::Source(_) | Self::Other(_) => PIECE_BYTES,
            _ => 0,
        }
    }

    /// Roughly how much memory it takes in a draft. JSON is many times larger there than on its wire, and what a provider
    /// attaches is held as well: a bound on content alone would be none.
    #[must_use]
    pub fn weight(&self) -> usize {
        let structure = match self {
            Self::Provided(provided) => weight_of(&provided.output) + weight_of_meta(&provided.meta),
            Self::CallBegan(began) => weight_of_meta(&began.meta),
            Self::Source(source) => weight_of_meta(&source.meta),
            Self::File(file) => weight_of_meta(&file.meta),
            Self::Other(meta) | Self::PartMeta(meta) | Self::ReplyMeta(meta) => weight_of_meta(meta),
            _ => 0,
        };
        self.bytes() + structure
    }
}

/// What a small piece of structure counts.
const PIECE_BYTES: usize = 64;

fn weight_of_meta(meta: &Meta) -> usize {
    meta.iter().map(|(key, value)| key.len() + weight_of(value)).sum()
}

fn weight_of(value: &Value) -> usize {
    PIECE_BYTES
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(weight_of).sum(),
            Value::Object(map) => map.iter().map(|(key, value)| PIECE_BYTES + key.len() + weight_of(value)).sum(),
        }
}
