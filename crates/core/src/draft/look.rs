//! What can be seen of a draft.

use std::time::Duration;

use super::{Draft, Open};
use crate::cost::UsageReport;
use crate::delta::{AttemptBegan, GenerationHandle};
use crate::ids::{CallUid, ModelId, Seq, StepId, Timestamp};
use crate::message::{Call, Meta, Part, RunBy};

impl Draft {
    /// How long models have streamed into this draft by `at`; the waits between attempts do not count.
    #[must_use]
    pub fn runtime(&self, at: Timestamp) -> Duration {
        match self.attempt {
            Some(_) => self.earlier_runtime + at.since(self.attempt_began),
            None => Duration::ZERO,
        }
    }

    /// The step this is the draft of.
    #[must_use]
    pub const fn step(&self) -> StepId {
        self.step
    }

    /// The number of the newest delta.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// What has been said so far.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether part of the answer was shown, or is known to its provider: what comes next is the rest of it.
    #[must_use]
    pub const fn is_half_said(&self) -> bool {
        !self.parts.is_empty() || self.handle.is_some()
    }

    /// Whether the newest part still grows: more words of its kind belong to it.
    #[must_use]
    pub const fn grows(&self) -> bool {
        !matches!(self.open, Open::Nothing)
    }

    /// The calls that the attempt under way can speak of, by the adapter's names for them.
    pub fn slots(&self) -> impl Iterator<Item = (u32, CallUid)> {
        self.slots.iter().filter_map(|(slot, index)| match self.parts.get(*index) {
            Some(Part::Call(call)) => Some((*slot, call.uid)),
            _ => None,
        })
    }

    /// How many calls the step has begun, retracted ones included: the place of the next one.
    #[must_use]
    pub const fn calls_begun(&self) -> u16 {
        self.ordinals
    }

    /// How much memory it takes, roughly, in bytes.
    #[must_use]
    pub const fn weight(&self) -> usize {
        self.weight
    }

    /// How much it is, roughly, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The attempt under way, or the last one.
    #[must_use]
    pub const fn current(&self) -> Option<&AttemptBegan> {
        self.attempt.as_ref()
    }

    /// When that began.
    #[must_use]
    pub const fn current_began(&self) -> Timestamp {
        self.attempt_began
    }

    /// When the newest delta came.
    #[must_use]
    pub const fn newest_at(&self) -> Timestamp {
        self.newest_at
    }

    /// How much of the draft that attempt brought, roughly, in bytes.
    #[must_use]
    pub const fn current_bytes(&self) -> usize {
        self.bytes - self.attempt_from
    }

    /// Whether that attempt brought anything that is kept when it breaks: words, a whole call, an outcome. Thoughts and
    /// half a call are taken back, or never sent again.
    #[must_use]
    pub const fn got_on(&self) -> bool {
        self.got_on
    }

    /// How much was in the draft before that generation: a continuation is asked with it.
    #[must_use]
    pub const fn said_before_bytes(&self) -> usize {
        self.generation_from
    }

    /// How much came from the generation that attempt reads, earlier attempts at the same one included, and what was dropped
    /// of it because it had been said before.
    #[must_use]
    pub const fn generation_bytes(&self) -> usize {
        self.bytes - self.generation_from + self.dropped
    }

    /// The model asked last.
    #[must_use]
    pub fn model(&self) -> Option<&ModelId> {
        self.attempt.as_ref().map(|began| &began.model)
    }

    /// What the current attempt has reported.
    #[must_use]
    pub const fn usage(&self) -> UsageReport {
        self.usage
    }

    /// How to find the current generation again, if its provider keeps it.
    #[must_use]
    pub const fn handle(&self) -> Option<&GenerationHandle> {
        self.handle.as_ref()
    }

    /// Whether the generation under way continues earlier text and is not joined to it yet. This also holds
    /// for an attempt that re-attaches to it.
    #[must_use]
    pub const fn awaits_seam(&self) -> bool {
        self.awaits_seam
    }

    /// The provider's name for the newest response, if it told one.
    #[must_use]
    pub fn response_id(&self) -> Option<&str> {
        self.response_id.as_deref()
    }

    /// Provider metadata of the whole reply so far.
    #[must_use]
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The text of the last part, if it is text: where a continuation goes on.
    #[must_use]
    pub fn tail_text(&self) -> Option<&str> {
        match self.parts.last() {
            Some(Part::Text(text)) => Some(&text.text),
            _ => None,
        }
    }

    /// Whether it holds words that are worth keeping.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Text(text) if !text.text.trim().is_empty()))
    }

    /// Calls for us that arrived whole: closed, and a JSON object.
    pub fn complete_calls(&self) -> impl Iterator<Item = &Call> {
        self.our_calls().filter(|call| call.whole && call.object().is_some())
    }

    /// Calls for us that did not.
    pub fn open_calls(&self) -> impl Iterator<Item = &Call> {
        self.our_calls().filter(|call| !(call.whole && call.object().is_some()))
    }

    pub(super) fn our_calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) if call.run_by == RunBy::Us => Some(call),
            _ => None,
        })
    }
}
