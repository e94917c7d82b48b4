//! Calls and their results, ours and the provider's.

use std::collections::BTreeSet;

use super::law::call_id;
use super::{Check, RequestViolation};
use crate::prompt::entry::{PromptCall, PromptEntry, PromptPart, PromptResult, Role};

impl Check<'_> {
    pub(super) fn calls(&mut self) {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut asked: Vec<&PromptCall> = Vec::new();
        for (at, entry) in self.request.entries.iter().enumerate() {
            let given = results(entry);
            let ids_match = asked.iter().map(|call| &call.id).eq(given.iter().map(|(_, result)| &result.id));
            match (asked.is_empty(), entry.role == Role::Tool || !given.is_empty()) {
                (true, true) => self.found.push(RequestViolation::Unasked { entry: at }),
                (false, _) => self.expect(ids_match, RequestViolation::Unanswered { entry: at - 1 }),
                (true, false) => {}
            }
            if ids_match {
                for (call, (part, result)) in asked.iter().zip(&given) {
                    self.expect(call.tool == result.tool, RequestViolation::NameDiffers { entry: at, part: *part });
                }
            }
            asked.clear();
            for (part, one) in entry.parts.iter().enumerate() {
                let PromptPart::Call(call) = one else { continue };
                asked.push(call);
                self.expect(call_id(&call.id), RequestViolation::BadId { entry: at, part });
                self.expect(seen.insert(&call.id), RequestViolation::RepeatedId { entry: at, part });
                self.expect((self.law.name)(&call.tool), RequestViolation::BadName { entry: at, part });
            }
        }
        let last = self.request.entries.len().saturating_sub(1);
        self.expect(asked.is_empty(), RequestViolation::Unanswered { entry: last });
    }

    /// The provider's own: every call has its outcome later in the same entry, every outcome its call before it. Calls
    /// that an answer ends with wait for the provider, if it shall go on.
    pub(super) fn hosted(&mut self) {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for (at, entry) in self.request.entries.iter().enumerate() {
            let mut open: Vec<(usize, &str, &str)> = Vec::new();
            for (nth, part) in entry.parts.iter().enumerate() {
                let place = (at, nth);
                match part {
                    PromptPart::HostedCall(call) => {
                        self.hosted_kind(place, &call.provider, &call.tool);
                        self.expect((self.law.hosted_id)(&call.id), RequestViolation::BadId { entry: at, part: nth });
                        self.expect(seen.insert(&call.id), RequestViolation::RepeatedId { entry: at, part: nth });
                        open.push((nth, &call.id, &call.tool));
                    }
                    PromptPart::HostedResult(result) => {
                        self.hosted_kind(place, &result.provider, &result.tool);
                        let call = open.iter().position(|(_, id, tool)| *id == result.id && *tool == result.tool);
                        self.expect(call.is_some(), RequestViolation::HostedUnpaired { entry: at, part: nth });
                        call.map(|call| open.remove(call));
                    }
                    _ => {}
                }
            }
            let is_hosted = |part: &PromptPart| matches!(part, PromptPart::HostedCall(_) | PromptPart::HostedResult(_));
            let said = entry.parts.iter().rposition(|part| !is_hosted(part)).map_or(0, |place| place + 1);
            for (part, ..) in open {
                let waits = self.is_echo(at) && part >= said;
                self.expect(waits, RequestViolation::HostedUnpaired { entry: at, part });
            }
        }
    }

    fn hosted_kind(&mut self, (entry, part): (usize, usize), provider: &str, tool: &str) {
        self.expect(provider == self.target.provider, RequestViolation::HostedForeign { entry, part });
        let wanted = self.is_echo(entry) || self.target.replays.iter().any(|name| name == tool);
        self.expect(wanted, RequestViolation::HostedUnwanted { entry, part });
    }
}

fn results(entry: &PromptEntry) -> Vec<(usize, &PromptResult)> {
    let parts = entry.parts.iter().enumerate();
    let results = parts.filter_map(|(nth, part)| match part {
        PromptPart::Result(result) => Some((nth, result)),
        _ => None,
    });
    results.collect()
}
