//! Finds flaws in a stored transcript and repairs them permanently.
//!
//! Preparing a prompt works around any flaw each time it meets one ([`crate::prompt`]), so no chat is lost to
//! it. But the flaw stays in the store, and some can only be worked around: a result behind the wrong reply
//! becomes a note, and its call is answered as having none. The doctor checks the whole transcript, reports
//! what is wrong and why, and returns one that needs no repair on any wire format.
//!
//! It invents no outcome. A call with an unknown outcome is answered by saying so; a result without a call
//! becomes a note with the tool's output. Every message that is made or changed says so in its metadata,
//! under [`MARK`]. Parts that only people see, such as reasoning that was never sealed, are no flaw and stay.

pub mod changes;
pub mod facts;
pub mod foreign;
mod parts;
mod placing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::ids::{CallUid, MessageId, Timestamp};
use crate::message::{Body, Message, Meta, Reply, ReplyBody, SendReceipt};

/// Under this name metadata says what the doctor did.
pub const MARK: &str = "everturn";

/// Something wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The message that has it.
    pub message: MessageId,
    /// What it is.
    pub flaw: Flaw,
}

/// What can be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// A call has no result.
    UnansweredCall {
        /// The tool.
        tool: String,
        /// What is known of it.
        known: CallKnowledge,
    },
    /// A result is not right behind the reply with its call: other words or another reply are in between.
    MisplacedResult {
        /// The tool.
        tool: String,
    },
    /// A result has no call.
    OrphanResult {
        /// The tool.
        tool: String,
    },
    /// A call has several results.
    RepeatedResult {
        /// The tool.
        tool: String,
        /// Whether it says the same as the first.
        same: bool,
    },
    /// The input of a call is no JSON object.
    UnreadableInput {
        /// The tool.
        tool: String,
        /// Whether it is one once its control characters are escaped.
        recovered: bool,
    },
    /// A reply was stored again.
    RepeatedReply,
    /// Reasoning was stored again in the same reply.
    RepeatedReasoning {
        /// How often.
        copies: usize,
    },
    /// What seals reasoning is not what any provider gives out: cut, or no seal at all.
    BrokenSeal,
}

/// What is known of a call that has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallKnowledge {
    /// Nothing is recorded about whether it ran.
    Nothing,
    /// It was started.
    Started,
    /// Its input did not arrive whole, so it cannot have run.
    CutOff,
}

/// A transcript without the flaws that were found.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// The messages. As many as were right from the beginning are the very same; those after them have new numbers.
    pub messages: Vec<Arc<Message>>,
    /// How many are the very same.
    pub kept: usize,
    /// What was wrong.
    pub findings: Vec<Finding>,
}

impl Repaired {
    /// Whether nothing was wrong.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }
}

/// The program that wrote a transcript.
#[derive(Clone, Copy)]
pub enum TranscriptOrigin<'a> {
    /// Drivers of ours, in a chat that rests. The function says what is known of a call that has no result. Inputs that
    /// are no objects are no flaw: the model wrote them, and they were answered as such.
    Ours(&'a dyn Fn(CallUid) -> CallKnowledge),
    /// Another program.
    Foreign,
}

/// Repairs a transcript.
#[must_use]
pub fn repair(transcript: &[Arc<Message>], whose: TranscriptOrigin<'_>) -> Repaired {
    let mut ward = Ward { pieces: transcript.iter().map(Piece::of).collect(), findings: Vec::new() };
    parts::mend(&mut ward, whose);
    placing::mend(&mut ward, whose);
    let Ward { pieces, mut findings } = ward;
    findings.sort_by_key(|finding| finding.message); // Of one message, as they were found.
    let (messages, kept) = numbered(transcript, pieces);
    Repaired { messages, kept, findings }
}

/// A message under treatment.
#[derive(Debug, Clone)]
struct Piece {
    /// The message it was, or the one it is there for.
    of: MessageId,
    at: Timestamp,
    body: Body,
    sent: Option<SendReceipt>,
    /// The message itself, while nothing about it has changed.
    whole: Option<Arc<Message>>,
}

impl Piece {
    fn of(message: &Arc<Message>) -> Self {
        let Message { id, at, body, sent } = Message::clone(message);
        Self { of: id, at, body, sent, whole: Some(message.clone()) }
    }

    /// Something that was not there.
    const fn made(of: MessageId, at: Timestamp, body: Body) -> Self {
        Self { of, at, body, sent: None, whole: None }
    }
}

/// Everything under treatment.
struct Ward {
    pieces: Vec<Piece>,
    findings: Vec<Finding>,
}

impl Ward {
    fn found(&mut self, message: MessageId, flaw: Flaw) {
        self.findings.push(Finding { message, flaw });
    }
}

/// The messages, the first ones as they were and the others counted on.
fn numbered(transcript: &[Arc<Message>], pieces: Vec<Piece>) -> (Vec<Arc<Message>>, usize) {
    let is_same = |(piece, message): &(&Piece, &Arc<Message>)| {
        piece.whole.as_ref().is_some_and(|whole| Arc::ptr_eq(whole, message))
    };
    let kept = pieces.iter().zip(transcript).take_while(is_same).count();
    if kept == transcript.len() && kept == pieces.len() {
        return (transcript.to_vec(), kept);
    }
    let mut next = transcript.iter().map(|message| message.id).max().unwrap_or_default();
    let again = pieces.into_iter().skip(kept).map(|piece| {
        next = next.next();
        Arc::new(Message { id: next, at: piece.at, body: piece.body, sent: piece.sent })
    });
    (transcript[..kept].iter().cloned().chain(again).collect(), kept)
}

/// Changes a reply, and notes in it what was done.
fn change_reply(piece: &mut Piece, done: &str, change: impl FnOnce(&mut ReplyBody)) {
    if let Body::Reply(reply) = &piece.body {
        let mut body = ReplyBody::clone(reply);
        change(&mut body);
        note(&mut body.meta, done);
        piece.body = Body::Reply(Box::new(Reply::restored(body)));
        piece.whole = None;
    }
}

/// Notes what was done beside what was done before.
fn note(meta: &mut Meta, done: &str) {
    let mark = meta.entry(MARK.into()).or_insert_with(|| json!({}));
    if !mark.is_object() {
        *mark = json!({});
    }
    match &mut mark["doctor"] {
        Value::Array(notes) => notes.push(done.into()),
        other => *other = json!([done]),
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {}: {}", self.message, self.flaw)
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnansweredCall { tool, .. } => write!(f, "the call of {tool} has no result"),
            Self::MisplacedResult { tool } => write!(f, "the result of {tool} is not right behind its call"),
            Self::OrphanResult { tool } => write!(f, "the result of {tool} answers no call"),
            Self::RepeatedResult { tool, same: true } => write!(f, "the result of {tool} is there already"),
            Self::RepeatedResult { tool, same: false } => {
                write!(f, "the call of {tool} has a result already, and it says something else")
            }
            Self::UnreadableInput { tool, .. } => write!(f, "the input of the call of {tool} is no JSON object"),
            Self::RepeatedReply => f.write_str("the reply is there already"),
            Self::RepeatedReasoning { copies: 1 } => f.write_str("a part of its reasoning is there twice"),
            Self::RepeatedReasoning { copies } => write!(f, "{copies} parts of its reasoning are copies"),
            Self::BrokenSeal => f.write_str("the seal of its reasoning is cut or no seal"),
        }
    }
}

impl Flaw {
    /// What it does to a chat that is left as it is.
    #[must_use]
    pub const fn why(&self) -> &'static str {
        match self {
            Self::UnansweredCall { .. } => "providers refuse a request in which a call has no result",
            Self::MisplacedResult { .. } => "providers want results directly behind the reply with the calls",
            Self::OrphanResult { .. } => "providers refuse a result whose call is not there",
            Self::RepeatedResult { .. } => "providers refuse a second result for a call",
            Self::UnreadableInput { .. } => "providers refuse a call whose input is no object",
            Self::RepeatedReply | Self::RepeatedReasoning { .. } => "copies make requests long, and signatures fail",
            Self::BrokenSeal => "the provider refuses reasoning whose signature does not fit",
        }
    }

    /// What mending it does.
    #[must_use]
    pub const fn repair(&self) -> &'static str {
        match self {
            Self::UnansweredCall { known: CallKnowledge::Nothing, .. } => "a result is added: the outcome is not known",
            Self::UnansweredCall { known: CallKnowledge::Started, .. } => {
                "a result is added: it was started, and the outcome is not known"
            }
            Self::UnansweredCall { known: CallKnowledge::CutOff, .. } => {
                "a result is added: it was cut off and never ran"
            }
            Self::MisplacedResult { .. } => "it is moved behind its call",
            Self::OrphanResult { .. } => "it becomes a note of what the tool said",
            Self::RepeatedResult { same: true, .. } => "the copy is left out",
            Self::RepeatedResult { same: false, .. } => "the first counts, and this one becomes a note",
            Self::UnreadableInput { recovered: true, .. } => "its control characters are escaped",
            Self::UnreadableInput { recovered: false, .. } => "an empty object takes its place, and the text is kept",
            Self::RepeatedReply | Self::RepeatedReasoning { .. } => "copies are left out",
            Self::BrokenSeal => "the reasoning is kept for people to read and not sent again",
        }
    }
}
