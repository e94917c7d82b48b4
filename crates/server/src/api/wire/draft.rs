//! The reply that is arriving, as a client folds it.
//!
//! The server's own draft contains what providers need back; a client's contains what users see, and the little it takes
//! to go on folding: whether the newest part grows, which call each slot means, and how many calls there were.

use std::collections::BTreeMap;

use everturn::core::draft;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::event::{Began, Counts, Delta, Increment};
use super::fold::BadFold;
use super::name::Rung;
use super::part::{Call, Part, Provided, Reasoning, Text};

/// The reply that is arriving.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Draft {
    /// The draft's step.
    pub step: u64,
    /// The newest delta in it.
    pub n: u64,
    /// The parts so far.
    pub parts: Vec<Part>,
    /// Whether the newest part still grows: the next text of its kind belongs to it.
    #[serde(default)]
    pub grows: bool,
    /// The call of each slot of the running attempt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slots: BTreeMap<u32, String>,
    /// How many calls the step has begun, retracted ones included.
    #[serde(default)]
    pub calls: u16,
    /// The attempt under way, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Began>,
    /// The usage that the attempt has reported.
    #[serde(default)]
    pub usage: Counts,
}

impl From<&draft::Draft> for Draft {
    fn from(draft: &draft::Draft) -> Self {
        Self {
            step: draft.step().0,
            n: draft.seq().0,
            parts: draft.parts().iter().map(Part::from).collect(),
            grows: draft.grows(),
            slots: draft.slots().map(|(slot, uid)| (slot, uid.to_string())).collect(),
            calls: draft.calls_begun(),
            attempt: draft.current().map(Began::from),
            usage: draft.usage().into(),
        }
    }
}

impl Draft {
    /// An empty draft of a step.
    pub(super) fn new(step: u64) -> Self {
        Self { step, ..Self::default() }
    }

    /// Folds the next delta.
    pub(super) fn push(&mut self, delta: &Delta) -> Result<(), BadFold> {
        let gap = BadFold::Gap { step: delta.step, after: self.n, got: delta.n };
        if delta.n != self.n + 1 {
            return Err(gap);
        }
        let at = delta.at;
        match &delta.what {
            Increment::Text { text } => self.text(text),
            Increment::Reasoning { text } => self.reasoning(text, at),
            Increment::Ended => self.grows = false,
            Increment::Attempt(began) => self.attempt(began),
            Increment::Call { slot, tool, run_by } => {
                let id = format!("{}.{}", self.step, self.calls);
                self.calls += 1;
                self.slots.insert(*slot, id.clone());
                let (tool, input, whole, run_by) = (tool.clone(), String::new(), false, *run_by);
                self.add(Part::Call(Call { id, tool, input, whole, run_by, at }));
            }
            Increment::Input { slot, json } => self.call(*slot)?.input.push_str(json),
            Increment::CallEnded { slot } => self.call(*slot)?.whole = true,
            Increment::Provided { slot, tool, output } => {
                let call = slot.and_then(|slot| self.slots.get(&slot).cloned());
                self.add(Part::Provided(Provided { call, tool: tool.clone(), output: output.clone(), at }));
            }
            Increment::Source(source) => self.add(Part::Source(source.clone())),
            Increment::File(file) => self.add(Part::File(file.clone())),
            Increment::Other => self.add(Part::Other),
            Increment::Usage(counts) => self.usage.update(counts),
            Increment::RetractCall { ordinal } => {
                let id = format!("{}.{ordinal}", self.step);
                self.parts.retain(|part| !matches!(part, Part::Call(call) if call.id == id));
                self.slots.clear();
                self.grows = false;
            }
            Increment::RetractAll => {
                self.parts.clear();
                self.slots.clear();
                self.grows = false;
            }
            Increment::Seam { .. } | Increment::Nothing => {}
        }
        self.n = delta.n;
        Ok(())
    }

    fn text(&mut self, more: &str) {
        match self.parts.last_mut() {
            Some(Part::Text(tail)) if self.grows => tail.text.push_str(more),
            _ => {
                self.add(Part::Text(Text { text: more.into() }));
                self.grows = true;
            }
        }
    }

    fn reasoning(&mut self, more: &str, at: i64) {
        match self.parts.last_mut() {
            Some(Part::Reasoning(tail)) if self.grows => {
                tail.text.push_str(more);
                tail.ended = at;
            }
            _ => {
                self.add(Part::Reasoning(Reasoning { text: more.into(), began: at, ended: at }));
                self.grows = true;
            }
        }
    }

    /// Adds a part, which ends the one before it.
    fn add(&mut self, part: Part) {
        self.parts.push(part);
        self.grows = false;
    }

    fn attempt(&mut self, began: &Began) {
        if self.attempt.is_some() && began.rung != Rung::Reattach {
            self.slots.clear();
            self.usage = Counts::default();
        }
        if matches!(began.rung, Rung::Continue | Rung::FallBack) {
            self.grows = matches!(self.parts.last(), Some(Part::Text(_)));
        }
        self.attempt = Some(began.clone());
    }

    fn call(&mut self, slot: u32) -> Result<&mut Call, BadFold> {
        let id = self.slots.get(&slot);
        let call = self.parts.iter_mut().rev().find_map(|part| match part {
            Part::Call(call) if Some(&call.id) == id => Some(call),
            _ => None,
        });
        call.ok_or(BadFold::NoSuchCall(slot))
    }
}

impl Counts {
    fn update(&mut self, later: &Self) {
        self.input = later.input.or(self.input);
        self.output = later.output.or(self.output);
        self.reasoning = later.reasoning.or(self.reasoning);
        self.cache_read = later.cache_read.or(self.cache_read);
        self.cache_write = later.cache_write.or(self.cache_write);
    }
}
