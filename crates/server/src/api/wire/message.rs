//! Committed messages.

use everturn::core::message;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::name::{SourceOfSummary, Verdict};
use super::part::Part;
use super::usage::Tokens;

/// One committed entry of a chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Message {
    /// Its number in the chat. Numbers only grow; an edit leaves a gap.
    pub id: u64,
    /// When it was committed.
    pub at: i64,
    /// The content.
    #[serde(flatten)]
    pub body: Body,
}

/// The kinds of entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Body {
    /// A message of the user.
    User {
        /// Text and files.
        parts: Vec<Part>,
        /// The `id` that sending it returned. Messages of earlier releases and imported ones have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<u64>,
        /// The `Idempotency-Key` that it was sent with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Context that the program added between steps.
    Context {
        /// The text.
        text: String,
    },
    /// An answer of the model, complete or interrupted.
    Reply(Reply),
    /// The result of a call.
    Result(ResultOf),
    /// A summary, which replaces everything before it in later prompts.
    Summary(Summary),
}

/// An answer of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Reply {
    /// The step of the reply: the reply replaces that step's draft.
    pub step: u64,
    /// The parts, in order.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub stop: Stop,
    /// The model; the last one, if several contributed.
    #[schema(example = "anthropic/claude-sonnet-4-5")]
    pub model: String,
    /// The usage that the last attempt reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Tokens>,
    /// How long the model streamed, in milliseconds.
    pub runtime_ms: u64,
    /// How long the turn was at work since the reply before it, in milliseconds: provider calls, waits between their
    /// attempts, and tools; overlapping times count once. Waits for users are not included.
    #[serde(default)]
    pub alive_ms: u64,
    /// The model's window in tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_limit: Option<u64>,
    /// How many times attempts were joined in it.
    #[serde(default)]
    pub seams: u64,
    /// Where each of them is: the bytes (UTF-8) of the answer's text before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<u64>,
    /// Tools whose calls were cut off and retracted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retracted: Vec<String>,
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Stop {
    /// The model was done.
    End,
    /// The model waits for tools.
    ToolUse,
    /// The output limit was reached.
    Length,
    /// The provider or the model refused to go on.
    Filtered {
        /// The provider's category, if it gave one.
        category: String,
        /// Its explanation, if it gave one.
        detail: String,
    },
    /// A user stopped it.
    Interrupted,
    /// It broke and could not be recovered.
    Broken,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResultOf {
    /// The call it answers.
    #[schema(example = "3.0")]
    pub call: String,
    /// The tool.
    pub tool: String,
    /// How the call ended.
    pub verdict: Verdict,
    /// The output for the model.
    pub output: String,
    /// Images and other media, without their bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
    /// Whether more is stored than `output` shows.
    #[serde(default)]
    pub cut: bool,
    /// When the tool was started, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<i64>,
    /// When the outcome was known.
    pub ended: i64,
}

/// The type and size of a medium, without its bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Media {
    /// The media type.
    pub media_type: String,
    /// The size in bytes.
    pub size: u64,
}

/// A summary, which replaces everything before it in later prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Summary {
    /// The summary.
    pub text: String,
    /// Why it was made.
    pub source: SourceOfSummary,
    /// Prompt tokens before.
    pub tokens_before: u64,
}

/// A page of messages, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Messages {
    /// The messages.
    pub messages: Vec<Message>,
    /// The `before` parameter of the previous page; none at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

impl From<&message::Message> for Message {
    fn from(message: &message::Message) -> Self {
        Self { id: message.id.0, at: message.at.0, body: message.into() }
    }
}

impl From<&message::Message> for Body {
    fn from(message::Message { body, sent, .. }: &message::Message) -> Self {
        match body {
            message::Body::User(parts) => {
                let sent = sent.as_ref();
                let (receipt, key) = (sent.map(|sent| sent.receipt.0), sent.and_then(|sent| sent.key.clone()));
                Self::User { parts: parts.iter().map(Part::from).collect(), receipt, key }
            }
            message::Body::Context(text) => Self::Context { text: text.clone() },
            message::Body::Reply(reply) => Self::Reply((&**reply).into()),
            message::Body::Result(result) => Self::Result((&**result).into()),
            message::Body::Summary(summary) => Self::Summary(Summary {
                text: summary.text.clone(),
                source: summary.source.into(),
                tokens_before: summary.tokens_before,
            }),
        }
    }
}

impl From<&message::Reply> for Reply {
    fn from(reply: &message::Reply) -> Self {
        Self {
            step: reply.step.0,
            parts: reply.parts.iter().map(Part::from).collect(),
            stop: (&reply.stop).into(),
            model: reply.model.to_string(),
            usage: reply.usage.map(Tokens::from),
            runtime_ms: reply.runtime.as_millis() as u64,
            alive_ms: reply.alive.as_millis() as u64,
            context_limit: reply.context_limit,
            seams: reply.seams.len() as u64,
            joined: reply.seams.iter().map(|seam| seam.at as u64).collect(),
            retracted: reply.retracted.clone(),
        }
    }
}

impl From<&message::Stop> for Stop {
    fn from(stop: &message::Stop) -> Self {
        match stop {
            message::Stop::End => Self::End,
            message::Stop::ToolUse => Self::ToolUse,
            message::Stop::Length => Self::Length,
            message::Stop::Filtered { category, detail } => {
                Self::Filtered { category: category.clone(), detail: detail.clone() }
            }
            message::Stop::Interrupted => Self::Interrupted,
            message::Stop::Broken => Self::Broken,
        }
    }
}

impl From<&message::CallResult> for ResultOf {
    fn from(result: &message::CallResult) -> Self {
        let media =
            |media: &message::Media| Media { media_type: media.media_type.clone(), size: media.bytes.len() as u64 };
        Self {
            call: result.call.to_string(),
            tool: result.tool.clone(),
            verdict: result.verdict.into(),
            output: result.output.text.clone(),
            media: result.output.media.iter().map(media).collect(),
            cut: result.output.full.is_some(),
            began: result.began.map(|at| at.0),
            ended: result.ended.0,
        }
    }
}
