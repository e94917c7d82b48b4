//! What an answer has used, in Gemini's way of counting.
//!
//! Every frame may repeat the counts, each the sum so far, and leaves out those that are zero. The prompt includes what
//! was read from the cache, and thoughts are counted beside the answer, not as part of it. We count the other way round.

use everturn_core::cost::{TokenCount, UsageReport};
use serde_json::Value;

/// The newest of each count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counted {
    prompt: TokenCount,
    cached: TokenCount,
    tool_use: TokenCount,
    answer: TokenCount,
    thoughts: TokenCount,
    told: UsageReport,
}

/// A frame's counts, by the names this module has for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct GeminiCounts<'a> {
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
    pub(super) fn update(&mut self, counts: &GeminiCounts<'_>) {
        let newest = |old: &mut TokenCount, value| {
            if let known @ TokenCount::Known(_) = TokenCount::from_json(value) {
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
    pub(super) fn news(&mut self) -> Option<UsageReport> {
        let report = self.report();
        (report != self.told).then(|| {
            self.told = report;
            report
        })
    }

    /// The answer is over: a count that was never stated was zero, if counts were stated at all.
    pub(super) fn close(&mut self) {
        if self.prompt.known().is_some() && self.answer.known().is_none() {
            self.answer = TokenCount::Known(0);
        }
    }

    fn report(&self) -> UsageReport {
        let stated = |reported: TokenCount| reported.known().unwrap_or(0);
        let input = match self.prompt {
            TokenCount::Known(prompt) => {
                TokenCount::from(prompt.saturating_sub(stated(self.cached)).saturating_add(stated(self.tool_use)))
            }
            TokenCount::Unknown => TokenCount::Unknown,
        };
        let output = match (self.answer, self.thoughts) {
            (TokenCount::Unknown, TokenCount::Unknown) => TokenCount::Unknown,
            (answer, thoughts) => TokenCount::from(stated(answer).saturating_add(stated(thoughts))),
        };
        UsageReport {
            input,
            output,
            reasoning: self.thoughts,
            cache_read: self.cached,
            cache_write: TokenCount::Unknown,
        }
    }
}
