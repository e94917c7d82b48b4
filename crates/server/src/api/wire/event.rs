//! Events of a chat's stream.

use everturn::core::cost::UsageReport;
use everturn::core::delta::{self, CallBegan, ProvidedDelta};
use everturn::core::view;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::chat::Standing;
use super::draft::Draft;
use super::message::Message;
use super::name::{RunBy, Rung};
use super::part::{File, Source};

/// One event of a chat's stream. On the wire the name is in `event:` and the rest, as one line, in `data:`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Event {
    /// `message`: a message was committed.
    Message(Message),
    /// `delta`: the draft grew, or a part of it was retracted.
    Delta(Delta),
    /// `rewound`: all messages from one on were removed.
    Rewound(Rewound),
    /// `status`: the chat's new status.
    Status(Box<Standing>),
    /// `reset`: a snapshot that replaces everything before.
    Reset(Box<Snapshot>),
}

/// An increment of the draft, or a retraction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delta {
    /// The draft's step.
    pub step: u64,
    /// Its number in the step: 1, 2, 3… without a gap.
    pub n: u64,
    /// When it was received.
    pub at: i64,
    /// The increment.
    #[serde(flatten)]
    pub what: Increment,
}

/// The kinds of increment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Increment {
    /// A provider call begins.
    Attempt(Began),
    /// More text.
    Text {
        /// The words.
        text: String,
    },
    /// More reasoning. Empty where the provider withholds it.
    Reasoning {
        /// The words.
        text: String,
    },
    /// The newest text or reasoning is complete; the next text is a new part.
    Ended,
    /// A tool use begins.
    Call {
        /// Its name within this attempt.
        slot: u32,
        /// The tool.
        tool: String,
        /// Where the tool runs.
        run_by: RunBy,
    },
    /// More of a call's input.
    Input {
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
    /// The result of a tool that ran at the provider.
    Provided {
        /// The call, if the provider said which.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slot: Option<u32>,
        /// The tool.
        tool: String,
        /// The outcome.
        #[schema(value_type = Object)]
        output: Value,
    },
    /// A source that the answer cites.
    Source(Source),
    /// A file or an image.
    File(File),
    /// A part of an unknown kind.
    Other,
    /// The attempt's usage so far. Each stated number replaces the one before.
    Usage(Counts),
    /// Two attempts were joined here.
    Seam {
        /// The bytes of text shown before.
        shown: u64,
    },
    /// A call is retracted.
    RetractCall {
        /// Its position among the step's calls.
        ordinal: u16,
    },
    /// Everything is retracted: the step begins again.
    RetractAll,
    /// Nothing that a client needs; only its number counts.
    Nothing,
}

/// A provider call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Began {
    /// Its number within the step.
    pub number: u32,
    /// The model.
    pub model: String,
    /// The reason for the attempt.
    pub rung: Rung,
}

/// Tokens that an attempt has reported so far. Numbers that the provider did not state are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Prompt tokens outside the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Of those, reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Prompt tokens read from the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Prompt tokens written to the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
}

/// All messages from one on were removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rewound {
    /// The first removed message.
    pub from: u64,
}

/// A whole chat, or its newest page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// The newest page of messages, oldest first.
    pub messages: Vec<Message>,
    /// The chat's status.
    pub status: Standing,
    /// The reply that is arriving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<Draft>,
}

impl Event {
    /// Its name in `event:`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Message(_) => "message",
            Self::Delta(_) => "delta",
            Self::Rewound(_) => "rewound",
            Self::Status(_) => "status",
            Self::Reset(_) => "reset",
        }
    }

    /// Parses an event; `None` for an unknown one, of a later version, which a client ignores.
    ///
    /// # Errors
    /// The data does not have the shape of the event.
    pub fn parse(name: &str, data: &str) -> serde_json::Result<Option<Self>> {
        Ok(Some(match name {
            "message" => Self::Message(serde_json::from_str(data)?),
            "delta" => Self::Delta(serde_json::from_str(data)?),
            "rewound" => Self::Rewound(serde_json::from_str(data)?),
            "status" => Self::Status(serde_json::from_str(data)?),
            "reset" => Self::Reset(serde_json::from_str(data)?),
            _ => return Ok(None),
        }))
    }
}

impl From<&view::Event> for Event {
    fn from(event: &view::Event) -> Self {
        match event {
            view::Event::Message(message) => Self::Message((&**message).into()),
            view::Event::Delta(row) => Self::Delta(row.into()),
            view::Event::Rewound(from) => Self::Rewound(Rewound { from: from.0 }),
            view::Event::Standing(standing) => Self::Status(Box::new((&**standing).into())),
            view::Event::Reset(snapshot) => Self::Reset(Box::new((&**snapshot).into())),
        }
    }
}

impl From<&view::Snapshot> for Snapshot {
    fn from(view::Snapshot { messages, standing, draft }: &view::Snapshot) -> Self {
        Self {
            messages: messages.iter().map(|message| (&**message).into()).collect(),
            status: standing.into(),
            draft: draft.as_ref().map(Draft::from),
        }
    }
}

impl From<&view::JournalRow> for Delta {
    fn from(view::JournalRow { step, seq, at, delta }: &view::JournalRow) -> Self {
        Self { step: step.0, n: seq.0, at: at.0, what: (&**delta).into() }
    }
}

impl From<&delta::Delta> for Increment {
    fn from(delta: &delta::Delta) -> Self {
        match delta {
            delta::Delta::Attempt(began) => Self::Attempt((&**began).into()),
            delta::Delta::Text(text) => Self::Text { text: text.clone() },
            delta::Delta::Reasoning(text) => Self::Reasoning { text: text.clone() },
            // A seal opens a reasoning part if none is open, which an empty piece of one does too.
            delta::Delta::Sealed(_) => Self::Reasoning { text: String::new() },
            delta::Delta::Ended => Self::Ended,
            delta::Delta::CallBegan(began) => {
                let CallBegan { slot, provider_id: _, tool, run_by, meta: _ } = &**began;
                Self::Call { slot: *slot, tool: tool.clone(), run_by: (*run_by).into() }
            }
            delta::Delta::CallInput { slot, json } => Self::Input { slot: *slot, json: json.clone() },
            delta::Delta::CallEnded { slot } => Self::CallEnded { slot: *slot },
            delta::Delta::Provided(provided) => {
                let ProvidedDelta { slot, tool, output, meta: _ } = &**provided;
                Self::Provided { slot: *slot, tool: tool.clone(), output: output.clone() }
            }
            delta::Delta::Source(source) => Self::Source((&**source).into()),
            delta::Delta::File(file) => Self::File((&**file).into()),
            delta::Delta::Other(_) => Self::Other,
            delta::Delta::Usage(report) => Self::Usage((**report).into()),
            delta::Delta::Seam(seam) => Self::Seam { shown: seam.at as u64 },
            delta::Delta::RetractCall { ordinal } => Self::RetractCall { ordinal: *ordinal },
            delta::Delta::RetractAll => Self::RetractAll,
            delta::Delta::PartMeta(_)
            | delta::Delta::ReplyMeta(_)
            | delta::Delta::ResponseId(_)
            | delta::Delta::Handle(_) => Self::Nothing,
        }
    }
}

impl From<&delta::AttemptBegan> for Began {
    fn from(delta::AttemptBegan { number, model, rung }: &delta::AttemptBegan) -> Self {
        Self { number: *number, model: model.to_string(), rung: (*rung).into() }
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
