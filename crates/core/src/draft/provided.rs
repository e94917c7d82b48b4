//! What a tool that ran at the provider gave back, and to which call that belongs.

use std::collections::HashSet;

use super::Draft;
use crate::delta::ProvidedDelta;
use crate::ids::{CallUid, Timestamp};
use crate::message::{Part, Provided, RunBy};

impl Draft {
    pub(super) fn provided(&mut self, at: Timestamp, delta: &ProvidedDelta) {
        let index = delta.slot.and_then(|slot| self.slots.iter().rev().find(|(s, _)| *s == slot));
        let uid = index.and_then(|(_, index)| match self.parts.get(*index) {
            Some(Part::Call(call)) => Some(call.uid),
            _ => None,
        });
        let uid = uid.or_else(|| self.asked_before(delta));
        let ProvidedDelta { tool, output, meta, .. } = delta.clone();
        self.add(Part::Provided(Provided { uid, tool, output, at, meta }));
        self.got_on = true;
    }

    /// The call that an outcome answers which names none: an attempt that goes on from an earlier one's call knows no
    /// slot of it. Outcomes come in the order of the calls.
    fn asked_before(&self, delta: &ProvidedDelta) -> Option<CallUid> {
        if delta.slot.is_some() {
            return None;
        }
        let earlier = self.parts.get(..self.attempt_parts).unwrap_or_default();
        let calls = earlier.iter().filter_map(|part| match part {
            Part::Call(call) if call.run_by == RunBy::Provider && call.tool == delta.tool => Some(call.uid),
            _ => None,
        });
        let mut calls = calls.peekable();
        calls.peek()?;
        let answers = self.parts.iter().filter_map(|part| match part {
            Part::Provided(provided) => provided.uid,
            _ => None,
        });
        let answered: HashSet<CallUid> = answers.collect();
        calls.find(|uid| !answered.contains(uid))
    }
}
