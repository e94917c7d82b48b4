//! The reply that is still arriving.
//!
//! Providers stream; stores commit. Between the two, something must know exactly what has been said so far:
//! to show it, to journal it, and to keep it when the user interrupts. That is a draft. It is a fold over
//! deltas and nothing else, so a test can feed it a list, and a crash can feed it the same list again.
//!
//! One draft lives as long as its step, over all attempts: a broken stream that is continued goes on in the same draft.

use std::time::Duration;

use crate::cost::{TokenCount, UsageReport};
use crate::delta::{AttemptBegan, CallBegan, Delta, GenerationHandle, Rung};
use crate::ids::{CallUid, Seq, StepId, Timestamp};
use crate::message::{Call, Meta, Part, Reasoning, Reply, ReplyBody, RunBy, Seal, Stop, Text};
use crate::seam::Seam;
use crate::view::JournalRow;

mod cut;
mod look;
mod provided;

/// Everything the model has said in one step so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    step: StepId,
    seq: Seq,
    parts: Vec<Part>,
    open: Open,
    slots: Vec<(u32, usize)>,
    ordinals: u16,
    bytes: usize,
    weight: usize,
    attempt_from: usize,
    attempt_parts: usize,
    got_on: bool,
    generation_from: usize,
    attempt: Option<AttemptBegan>,
    attempt_began: Timestamp,
    newest_at: Timestamp,
    earlier_runtime: Duration,
    usage: UsageReport,
    response_id: Option<String>,
    handle: Option<GenerationHandle>,
    seams: Vec<Seam>,
    awaits_seam: bool,
    /// How much the generation said that is not in the draft, because it had been said before.
    dropped: usize,
    retracted: Vec<String>,
    meta: Meta,
}

/// Which kind of part the newest one is, if it still grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    Text,
    Reasoning,
}

/// A delta that does not fit what came before it. The provider broke its own protocol; the draft is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutOfOrder {
    /// Input or an end for a call that was never begun, or is over.
    #[error("a delta for call slot {0}, which is not open")]
    NoSuchCall(u32),
    /// A second call in a slot that is still open.
    #[error("a second call in slot {0}, which is still open")]
    SlotTaken(u32),
    /// A call to take back that is not there.
    #[error("call {0} cannot be taken back: it is not in the draft")]
    NoSuchOrdinal(u16),
    /// Metadata for a part when there is none.
    #[error("metadata for a part, before any part")]
    NoPart,
    /// More calls than can be counted.
    #[error("more than 65,535 calls in one step")]
    TooManyCalls,
}

impl Draft {
    /// An empty draft of a step.
    #[must_use]
    pub const fn new(step: StepId) -> Self {
        Self {
            step,
            seq: Seq(0),
            parts: Vec::new(),
            open: Open::Nothing,
            slots: Vec::new(),
            ordinals: 0,
            bytes: 0,
            weight: 0,
            attempt_from: 0,
            attempt_parts: 0,
            got_on: false,
            generation_from: 0,
            attempt: None,
            attempt_began: Timestamp(0),
            newest_at: Timestamp(0),
            earlier_runtime: Duration::ZERO,
            usage: UsageReport {
                input: TokenCount::Unknown,
                output: TokenCount::Unknown,
                reasoning: TokenCount::Unknown,
                cache_read: TokenCount::Unknown,
                cache_write: TokenCount::Unknown,
            },
            response_id: None,
            handle: None,
            seams: Vec::new(),
            awaits_seam: false,
            dropped: 0,
            retracted: Vec::new(),
            meta: Meta::new(),
        }
    }

    /// The draft that the rows of one step add up to, from the first on.
    pub fn of_rows(rows: &[JournalRow]) -> Result<Option<Self>, OutOfOrder> {
        let Some(first) = rows.first() else { return Ok(None) };
        let mut draft = Self::new(first.step);
        for row in rows {
            draft.push(row.at, &row.delta)?;
        }
        Ok(Some(draft))
    }

    /// Takes in the next delta, which arrived at `at`, and says its number. Constant work, whatever came before.
    pub fn push(&mut self, at: Timestamp, delta: &Delta) -> Result<Seq, OutOfOrder> {
        match delta {
            Delta::Text(text) => self.text(text),
            Delta::Reasoning(text) => self.reasoning(at).text.push_str(text),
            Delta::Sealed(seal) => self.reasoning(at).seal = Some(seal.clone()),
            Delta::Ended => self.open = Open::Nothing,
            Delta::CallBegan(call) => self.call_began(at, call)?,
            Delta::CallInput { slot, json } => self.call_in(*slot)?.input.push_str(json),
            Delta::CallEnded { slot } => self.call_ended(*slot)?,
            Delta::Provided(provided) => self.provided(at, provided),
            Delta::Source(source) => self.add(Part::Source((**source).clone())),
            Delta::File(file) => {
                self.add(Part::File((**file).clone()));
                self.got_on = true;
            }
            Delta::Other(raw) => self.add(Part::Other((**raw).clone())),
            Delta::PartMeta(meta) => {
                meta_of(self.parts.last_mut().ok_or(OutOfOrder::NoPart)?).extend((**meta).clone());
            }
            Delta::ReplyMeta(meta) => self.meta.extend((**meta).clone()),
            Delta::ResponseId(id) => self.response_id = Some(id.clone()),
            Delta::Handle(handle) => self.handle = Some((**handle).clone()),
            Delta::Usage(report) => self.usage.update(report),
            Delta::Seam(seam) => {
                self.seams.push(*seam);
                self.awaits_seam = false;
                self.dropped += seam.dropped;
            }
            Delta::Attempt(began) => self.attempt(at, began),
            Delta::RetractCall { ordinal } => self.retract_call(*ordinal)?,
            Delta::RetractAll => self.retract_all(),
        }
        self.bytes += delta.bytes();
        self.weight += delta.weight();
        self.newest_at = at;
        self.seq = self.seq.next();
        Ok(self.seq)
    }

    /// So many bytes came and were dropped undecided when the attempt broke. They are paid for, and in no row.
    pub fn drop_unshown(&mut self, bytes: usize) {
        self.dropped += bytes;
    }

    /// Replaces the inputs of whole calls that are no JSON object by what `repair` makes of them. What came stays beside
    /// it, in the call's metadata. An input that was cut is left alone: a repair must not complete what did not arrive.
    pub fn mend(&mut self, repair: impl Fn(&str) -> Option<String>) {
        for part in &mut self.parts {
            if let Part::Call(call) = part
                && call.whole
                && call.run_by == RunBy::Us
                && call.object().is_none()
                && !cut::is_cut(&call.input)
                && let Some(mended) = repair(&call.input)
            {
                let raw = std::mem::replace(&mut call.input, mended);
                call.meta.insert("everturn".into(), serde_json::json!({ "raw_input": raw }));
            }
        }
    }

    /// Takes the response's name out: the reply will not be all of that response, so no request may be chained to it.
    pub fn forget_response(&mut self) {
        self.response_id = None;
    }

    /// Closes the draft into a reply. The only way to one, and it takes a stop: what has none is not an answer.
    ///
    /// `at` is when it ended, `context_limit` what is known of the model's window.
    #[must_use]
    pub fn seal(mut self, stop: Stop, at: Timestamp, context_limit: Option<u64>) -> Option<Reply> {
        let runtime = self.runtime(at);
        self.end_reasoning(at);
        self.distrust_cut_calls(&stop);
        self.parts.retain(is_worth_keeping);
        let model = self.attempt.map(|began| began.model)?;
        Some(Reply::sealed(ReplyBody {
            step: self.step,
            parts: self.parts,
            stop,
            model,
            usage: self.usage.usage(),
            runtime,
            alive: Duration::ZERO, // Known when it is committed.
            context_limit,
            response_id: self.response_id,
            seams: self.seams,
            retracted: self.retracted,
            meta: self.meta,
        }))
    }

    fn text(&mut self, more: &str) {
        self.got_on |= !more.trim().is_empty();
        if let (Open::Text, Some(Part::Text(tail))) = (self.open, self.parts.last_mut()) {
            tail.text.push_str(more);
        } else {
            self.add(Part::Text(Text { text: more.into(), meta: Meta::new() }));
            self.open = Open::Text;
        }
    }

    fn reasoning(&mut self, at: Timestamp) -> &mut Reasoning {
        if self.open != Open::Reasoning {
            self.add(Part::Reasoning(Reasoning { began: at, ..Reasoning::default() }));
            self.open = Open::Reasoning;
        }
        match self.parts.last_mut() {
            Some(Part::Reasoning(reasoning)) => {
                reasoning.ended = at;
                reasoning
            }
            _ => unreachable!("an open reasoning is the last part"),
        }
    }

    /// Adding a part ends the one before it.
    fn add(&mut self, part: Part) {
        self.open = Open::Nothing;
        self.parts.push(part);
    }

    fn call_began(&mut self, at: Timestamp, call: &CallBegan) -> Result<(), OutOfOrder> {
        if self.call_in(call.slot).is_ok() {
            return Err(OutOfOrder::SlotTaken(call.slot));
        }
        let uid = CallUid { step: self.step, ordinal: self.ordinals };
        self.ordinals = self.ordinals.checked_add(1).ok_or(OutOfOrder::TooManyCalls)?;
        self.slots.retain(|(slot, _)| *slot != call.slot);
        self.slots.push((call.slot, self.parts.len()));
        self.add(Part::Call(Call {
            uid,
            provider_id: call.provider_id.clone(),
            tool: call.tool.clone(),
            input: String::new(),
            whole: false,
            run_by: call.run_by,
            at,
            meta: call.meta.clone(),
        }));
        Ok(())
    }

    /// The open call in a slot.
    fn call_in(&mut self, slot: u32) -> Result<&mut Call, OutOfOrder> {
        let missing = OutOfOrder::NoSuchCall(slot);
        let (_, index) = self.slots.iter().rev().find(|(s, _)| *s == slot).ok_or(missing)?;
        match self.parts.get_mut(*index) {
            Some(Part::Call(call)) if !call.whole => Ok(call),
            _ => Err(missing),
        }
    }

    fn call_ended(&mut self, slot: u32) -> Result<(), OutOfOrder> {
        let call = self.call_in(slot)?;
        call.whole = true;
        self.got_on |= call.object().is_some();
        Ok(())
    }

    fn attempt(&mut self, at: Timestamp, began: &AttemptBegan) {
        if self.attempt.is_some() && began.rung != Rung::Reattach {
            self.slots.clear(); // Slots are the adapter's names, and a new generation has new ones.
            self.handle = None;
            self.usage = UsageReport::default();
            self.response_id = None;
        }
        if began.rung == Rung::Continue || began.rung == Rung::FallBack {
            // The answer goes on where it was cut: in the same text, or after a part that is over.
            self.open = if self.tail_text().is_some() { Open::Text } else { Open::Nothing };
        }
        self.earlier_runtime = self.runtime(self.newest_at); // The wait until now was no streaming time.
        self.attempt_began = at;
        self.attempt_from = self.bytes;
        self.got_on = false;
        self.attempt_parts = self.parts.len();
        if began.rung != Rung::Reattach {
            self.generation_from = self.bytes;
            self.dropped = 0;
            let goes_on = matches!(began.rung, Rung::Continue | Rung::FallBack);
            self.awaits_seam = goes_on && self.parts.iter().any(is_said);
        }
        self.attempt = Some(began.clone());
    }

    fn retract_call(&mut self, ordinal: u16) -> Result<(), OutOfOrder> {
        let place = self.parts.iter().position(|part| matches!(part, Part::Call(call) if call.uid.ordinal == ordinal));
        let Some(Part::Call(call)) = place.map(|place| self.parts.remove(place)) else {
            return Err(OutOfOrder::NoSuchOrdinal(ordinal));
        };
        self.slots.clear(); // Their places have moved; only a broken attempt is retracted from, and it sends no more.
        self.open = Open::Nothing;
        self.retracted.push(call.tool);
        Ok(())
    }

    fn retract_all(&mut self) {
        self.parts.clear();
        self.slots.clear();
        self.seams.clear();
        self.awaits_seam = false;
        self.retracted.clear();
        self.meta.clear();
        self.open = Open::Nothing;
        (self.bytes, self.weight) = (0, 0);
        self.attempt_from = 0;
        self.generation_from = 0;
        self.dropped = 0;
    }

    fn end_reasoning(&mut self, at: Timestamp) {
        if let (Open::Reasoning, Some(Part::Reasoning(open))) = (self.open, self.parts.last_mut()) {
            open.ended = at;
        }
    }

    /// A provider may close a call it never finished. Then it is not whole; and of the last call before the output limit
    /// only valid JSON is believed.
    fn distrust_cut_calls(&mut self, stop: &Stop) {
        let newest = self.parts.len().saturating_sub(1);
        for (at, part) in self.parts.iter_mut().enumerate() {
            if let Part::Call(call) = part
                && call.object().is_none()
            {
                let at_limit = *stop == Stop::Length && at == newest;
                call.whole &= !at_limit && !cut::is_cut(&call.input);
            }
        }
    }
}

fn meta_of(part: &mut Part) -> &mut Meta {
    match part {
        Part::Text(part) => &mut part.meta,
        Part::Reasoning(part) => &mut part.meta,
        Part::Call(part) => &mut part.meta,
        Part::Provided(part) => &mut part.meta,
        Part::Source(part) => &mut part.meta,
        Part::File(part) => &mut part.meta,
        Part::Other(meta) => meta,
    }
}

fn is_said(part: &Part) -> bool {
    matches!(part, Part::Text(text) if !text.text.is_empty())
}

/// Empty text says nothing. Empty reasoning does when it is sealed or carries metadata: providers want it back.
fn is_worth_keeping(part: &Part) -> bool {
    match part {
        Part::Text(text) => !text.text.is_empty() || !text.meta.is_empty(),
        Part::Reasoning(Reasoning { text, seal, meta, .. }) => {
            !text.is_empty() || !meta.is_empty() || matches!(seal, Some(Seal::Signature(_) | Seal::Redacted(_)))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
