//! What kind of message a chat ends with: all that the plan needs to know of the transcript.

use crate::message::{Body, Part, Stop};

/// What kind the newest message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TranscriptTail {
    /// There is none, or its turn is over: no answer to it is expected.
    #[default]
    Nothing,
    /// Words for the model: from a person, the program, a summary, a tool.
    Input,
    /// A reply that said something.
    Reply,
    /// A reply that ended at the output limit.
    CutReply,
    /// A reply that the provider filtered.
    FilteredReply,
    /// A reply that said nothing at all.
    EmptyReply,
    /// A reply that was stopped or broke.
    StoppedReply,
}

/// What a message is to the plan.
#[must_use]
pub fn tail_of(body: &Body) -> TranscriptTail {
    let Body::Reply(reply) = body else {
        return TranscriptTail::Input;
    };
    let says = reply.parts.iter().any(|part| match part {
        Part::Text(text) => !text.text.trim().is_empty(),
        Part::Reasoning(_) => false,
        Part::Call(_) | Part::Provided(_) | Part::Source(_) | Part::File(_) | Part::Other(_) => true,
    });
    match (&reply.stop, says) {
        (Stop::Interrupted | Stop::Broken, _) => TranscriptTail::StoppedReply,
        (Stop::Filtered { .. }, _) => TranscriptTail::FilteredReply,
        (Stop::Length, _) => TranscriptTail::CutReply,
        (Stop::End | Stop::ToolUse, true) => TranscriptTail::Reply,
        (Stop::End | Stop::ToolUse, false) => TranscriptTail::EmptyReply,
    }
}
