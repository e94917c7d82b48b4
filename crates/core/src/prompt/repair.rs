//! Repairs made while preparing a prompt.
//!
//! A silent repair hides the fault that made it necessary. So each one is recorded with its message, to be
//! counted, logged, and explained by `doctor`. Plain translation, such as leaving out another provider's
//! reasoning, is no repair.

use std::fmt;

use super::reply::Spoken;
use super::segment::ResultFit;
use crate::ids::MessageId;

/// A flaw of a transcript that was not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repair {
    /// The message that has it.
    pub message: MessageId,
    /// What it is.
    pub kind: RepairKind,
}

/// The kinds of flaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RepairKind {
    /// A call has no result before the next reply; an error result stands in.
    UnansweredCall,
    /// A result has no call in the reply before it; it is told as a note.
    OrphanResult,
    /// A call has several results; the first counts.
    RepeatedResult,
    /// A call arrived whole, but its input is no JSON object; an empty one stands in.
    UnreadableInput,
    /// A call or outcome of the provider's own tools cannot be sent back; the call is dropped, the outcome told in words.
    HostedTool,
}

impl Repair {
    pub(super) fn of_reply(message: MessageId, spoken: &Spoken) -> impl Iterator<Item = Self> {
        let unreadable = spoken.asked.iter().any(|asked| asked.whole && !asked.readable);
        let kinds = [(unreadable, RepairKind::UnreadableInput), (spoken.broken_hosted, RepairKind::HostedTool)];
        kinds.into_iter().filter_map(move |(found, kind)| found.then_some(Self { message, kind }))
    }

    pub(super) fn of_result(message: MessageId, place: ResultFit) -> Option<Self> {
        let kind = match place {
            ResultFit::Answer => return None,
            ResultFit::Repeated => RepairKind::RepeatedResult,
            ResultFit::Orphan => RepairKind::OrphanResult,
        };
        Some(Self { message, kind })
    }

    pub(super) const fn unanswered(message: MessageId) -> Self {
        Self { message, kind: RepairKind::UnansweredCall }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            RepairKind::UnansweredCall => "a call has no result",
            RepairKind::OrphanResult => "the result answers no call of the reply before it",
            RepairKind::RepeatedResult => "the call has a result already",
            RepairKind::UnreadableInput => "the input of a call is no JSON object",
            RepairKind::HostedTool => "a call or outcome of the provider's own tools cannot be sent back",
        };
        write!(f, "message {}: {what}", self.message)
    }
}
