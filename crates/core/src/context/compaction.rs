//! When to compact, and what to do when that was not enough.
//!
//! Compaction costs a model call and forgets, so it is done when the next request needs it and can gain by it, and not
//! otherwise: not when there is nothing new to fold, not again and again within a turn, not when the last one could not
//! get below the threshold either. A request that then still fits is sent. One that does not is made smaller in stages,
//! each of which forgets more than the one before, and after the last the person is told the numbers.

use std::fmt;

use crate::cost::BYTES_PER_TOKEN;

/// How full the window may be before a turn goes on only after compaction, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionThreshold(u8);

impl CompactionThreshold {
    const DEFAULT_PERCENT: u8 = 70;

    /// No compaction by itself.
    pub const OFF: Self = Self(100);

    /// From a setting: 0 to 99 is the threshold, 100 is off, and anything else is a mistake that counts as 70.
    #[must_use]
    pub fn percent(setting: i64) -> Self {
        match u8::try_from(setting) {
            Ok(percent) if percent <= 100 => Self(percent),
            _ => Self::default(),
        }
    }

    /// Whether a request of so many tokens stays below it. Then nothing else about the transcript matters, and a step
    /// need not look at all of it.
    #[must_use]
    pub const fn clears(self, next: u64, limit: Option<u64>) -> bool {
        match limit {
            Some(limit) => next < self.of(limit),
            None => true,
        }
    }

    /// The tokens from which a window of this size counts as too full.
    const fn of(self, limit: u64) -> u64 {
        let tokens = (limit as u128 * self.0 as u128).div_ceil(100);
        tokens as u64 // At most the limit.
    }
}

impl Default for CompactionThreshold {
    fn default() -> Self {
        Self(Self::DEFAULT_PERCENT)
    }
}

/// Why compaction is considered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionTrigger {
    /// A request is about to be sent, and was measured.
    Measured,
    /// A person or a program asked for it.
    Asked,
    /// The provider refused the request as too long, whatever we measured.
    Refused,
}

/// What the transcript says about compacting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactionInput {
    /// Messages since the newest summary (or since the beginning) that a new one could stand for.
    pub foldable: u64,
    /// Compactions this turn may still make.
    pub compactions_left: u32,
    /// The tokens of the first request after the last compaction: what compaction can get down to.
    pub after_last: Option<u64>,
    /// The tokens of the newest summary itself.
    pub summary_tokens: u64,
    /// The tokens of media in the request.
    pub media_tokens: u64,
    /// The tokens of results of tools before the newest step.
    pub result_tokens: u64,
    /// The tokens that cutting what was said in earlier turns would save.
    pub earlier_tokens: u64,
    /// The tokens that leaving all of it out would save beyond that.
    pub cut_tokens: u64,
    /// The tokens of instructions and tools.
    pub fixed_tokens: u64,
    /// The last fallback taken for this request.
    pub taken: Option<CompactionFallback>,
}

/// What to do before the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compaction {
    /// Send it.
    NotNeeded,
    /// Compact, then measure again.
    Needed,
    /// It does not fit and a plain compaction would not help: do this, then measure again.
    StillOver(CompactionFallback),
    /// It does not fit and nothing is left to leave out.
    Hopeless(PromptTooLong),
}

/// How to make a request smaller when a summary was not enough, from the one that forgets least to the one that forgets
/// most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CompactionFallback {
    /// Summarise again, to a fraction of the length.
    StrongerSummary,
    /// Leave images and files out, with a line in place of each.
    DropMedia,
    /// Leave the bodies of old results out, with a line in place of each.
    DropResults,
    /// Cut what people said in earlier turns: what was too long to be answered then must not be in the way for ever.
    CutEarlier,
    /// Leave that out altogether.
    DropEarlier,
}

/// A request that no compaction makes fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct PromptTooLong {
    /// The request's tokens, as measured.
    pub tokens: u64,
    /// Of those, the instructions' and the tools'.
    pub fixed: u64,
    /// What the model reads, if that is known.
    pub limit: Option<u64>,
}

impl fmt::Display for PromptTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the shortest request has about {} tokens", self.tokens)?;
        if let Some(limit) = self.limit {
            write!(f, " and the model reads {limit}")?;
        }
        // Where ours says that it fits, the provider knows better, and no number of ours is any use.
        match self.limit.filter(|limit| self.tokens > *limit).map(|limit| limit.saturating_sub(self.fixed)) {
            Some(0) => write!(f, "; {} are instructions and tools: shorten those", self.fixed)?,
            // Half of it, so that there is room for an answer.
            Some(room) => write!(f, "; edit the newest message to about {} bytes", room / 2 * BYTES_PER_TOKEN)?,
            None => f.write_str("; edit the newest message to be shorter, use fewer tools")?,
        }
        f.write_str(", or choose a model with a larger window")
    }
}

/// Whether to compact before a request that has `next` tokens is sent to a model that reads `limit`.
#[must_use]
pub fn compaction(
    trigger: CompactionTrigger,
    next: u64,
    limit: Option<u64>,
    threshold: CompactionThreshold,
    slack: &CompactionInput,
) -> Compaction {
    match (trigger, limit) {
        (CompactionTrigger::Asked, _) if slack.foldable > 0 => Compaction::Needed,
        (CompactionTrigger::Asked, _) | (CompactionTrigger::Measured, None) => Compaction::NotNeeded,
        (CompactionTrigger::Refused, _) if slack.can_compact() => Compaction::Needed,
        (CompactionTrigger::Refused, _) => slack.fall_back(next, limit),
        // Off means off: what is too long then, the provider refuses, and that is another question.
        (CompactionTrigger::Measured, Some(_)) if threshold == CompactionThreshold::OFF => Compaction::NotNeeded,
        (CompactionTrigger::Measured, Some(limit)) => slack.measured(next, limit, threshold.of(limit)),
    }
}

impl CompactionInput {
    const fn can_compact(&self) -> bool {
        self.foldable > 0 && self.compactions_left > 0
    }

    /// What the numbers say. Where even the last compaction stayed above the threshold (long instructions, many tools),
    /// the threshold would ask for one after every step, so the limit itself takes its place.
    fn measured(&self, next: u64, limit: u64, threshold: u64) -> Compaction {
        let reachable = self.after_last.is_none_or(|tokens| tokens < threshold);
        let too_full = if reachable { next >= threshold } else { next > limit };
        match (too_full, next > limit) {
            (false, _) => Compaction::NotNeeded,
            (true, _) if self.can_compact() => Compaction::Needed,
            (true, false) => Compaction::NotNeeded,
            (true, true) => self.fall_back(next, Some(limit)),
        }
    }

    /// The first stage that was not taken yet and would leave anything out.
    fn fall_back(&self, tokens: u64, limit: Option<u64>) -> Compaction {
        let stages = [
            (CompactionFallback::StrongerSummary, self.summary_tokens),
            (CompactionFallback::DropMedia, self.media_tokens),
            (CompactionFallback::DropResults, self.result_tokens),
            (CompactionFallback::CutEarlier, self.earlier_tokens),
            (CompactionFallback::DropEarlier, self.cut_tokens),
        ];
        let next = stages.into_iter().find(|&(stage, gain)| gain > 0 && self.taken.is_none_or(|last| stage > last));
        match next {
            Some((stage, _)) => Compaction::StillOver(stage),
            None => Compaction::Hopeless(PromptTooLong { tokens, fixed: self.fixed_tokens, limit }),
        }
    }
}
