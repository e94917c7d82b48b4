//! What an answer has used, in Gemini's way of counting.
//!
//! Every frame may repeat the counts, each the sum so far, and leaves out those that are zero. The prompt includes what
//! was read from the cache, and thoughts are counted beside the answer, not as part of it. We count the other way round.

use everturn_core::cost::{Report, Reported};
use serde_json::Value;

/// The newest of each count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    prompt: Reported,
    cached: Reported,
    tool_use: Reported,
    answer: Reported,
    thoughts: Reported,
    told: Report,
}

/// A frame's counts, by the names this module has for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts<'a> {
    /// The whole prompt.
    pub(super) prompt: Option<&'a Value>,
    /// Of that, from the cache.
    pub(super) cached: Option<&'a Value>,
    /// What the provider's own tools put into the prompt.
    pub(super) tool_use: Option<&'a Value>,
    /// The answer, without thoughts.
    pub(super) answer: Option<&'a Value>,
    /// The thoughts.
    pub(super) thoughts: Option<&'a Value>,
}

impl Counted {
    /// Takes what a frame states.
    pub(super) fn update(&mut self, counts: &Counts<'_>) {
        let newest = |old: &mut Reported, value| {
            if let known @ Reported::Known(_) = Reported::from_json(value) {
                *old = known;
            }
        };
        newest(&mut self.prompt, counts.prompt);
        newest(&mut self.cached, counts.cached);
        newest(&mut self.tool_use, counts.tool_use);
        newest(&mut self.answer, counts.answer);
        newest(&mut self.thoughts, counts.thoughts);
    }

    /// What is known by now, if that is more than was told before.
    pub(super) fn news(&mut self) -> Option<Report> {
        let report = self.report();
        (report != self.told).then(|| {
            self.told = report;
            report
        })
    }

    /// The answer is over: a count that was never stated was zero, if counts were stated at all.
    pub(super) fn close(&mut self) {
        if self.prompt.known().is_some() && self.answer.known().is_none() {
            self.answer = Reported::Known(0);
        }
    }

    fn report(&self) -> Report {
        let stated = |reported: Reported| reported.known().unwrap_or(0);
        let input = match self.prompt {
            Reported::Known(prompt) => {
                Reported::from(prompt.saturating_sub(stated(self.cached)).saturating_add(stated(self.tool_use)))
            }
            Reported::Unknown => Reported::Unknown,
        };
        let output = match (self.answer, self.thoughts) {
            (Reported::Unknown, Reported::Unknown) => Reported::Unknown,
            (answer, thoughts) => Reported::from(stated(answer).saturating_add(stated(thoughts))),
        };
        Report { input, output, reasoning: self.thoughts, cache_read: self.cached, cache_write: Reported::Unknown }
    }
}
