//! Whether to retry, and when.
//!
//! Retries carry a chat over a bad minute at a provider, and retries of a thousand chats make that minute an
//! hour. So every wait is drawn from the whole span (full jitter), a Retry-After is observed, and a budget
//! ends it. The budget depends on progress: an attempt that brought part of the answer earns some of it back,
//! an attempt that brought nothing does not, and totals in attempts, idle time and money always hold.
//!
//! Nothing here waits or draws. The caller measures, draws a number in `0..1` and stores the decision as *not
//! before*, so that a takeover observes it too.

use std::fmt;
use std::time::Duration;

use crate::cost::Micros;
use crate::error::Retry;

mod after;
mod breaker;
#[cfg(test)]
mod tests;

pub use after::{RETRY_AFTER_PLAUSIBLE_MAX, retry_after};
pub use breaker::{Breaker, BreakerDecision, BreakerLimits, ModelHealth};

/// The bounds of trying again, for one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryLimits {
    /// Failed attempts without progress: 8. With the waits below that is about two minutes of trying.
    pub tries_max: u32,
    /// Attempts in all, over all models, with progress or without: 24. At the limit the step fails.
    pub attempts_max: u32,
    /// Time without output from one model, in waits and at the end of attempts: 20 minutes. Time in which an
    /// answer streams does not count.
    pub time_max: Duration,
    /// What all attempts together may cost, over all models: 10 units.
    pub cost_max: Micros,
    /// The span of the first wait: 1 s. Each later one is twice as long.
    pub delay_base: Duration,
    /// The longest span of a wait of our own: 60 s.
    pub delay_max: Duration,
    /// The longest Retry-After that is waited for unseen: 120 s. A longer one is shown to a person.
    pub retry_after_max: Duration,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self {
            tries_max: 8,
            attempts_max: 24,
            time_max: Duration::from_secs(20 * 60),
            cost_max: Micros::units(10),
            delay_base: Duration::from_secs(1),
            delay_max: Duration::from_secs(60),
            retry_after_max: Duration::from_secs(120),
        }
    }
}

impl RetryLimits {
    /// The span from which the wait after `tries` failed tries is drawn: 1, 2, 4… seconds, up to the longest.
    #[must_use]
    pub fn span(&self, tries: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(tries.saturating_sub(1));
        self.delay_base.saturating_mul(doubled).min(self.delay_max)
    }
}

/// What a step has spent on failed attempts. Stored with the chat: a new owner goes on counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetrySpent {
    /// Failed attempts, less what progress earned back.
    pub tries: u32,
    /// Attempts that are over and did not end the step, of all models.
    pub attempts: u32,
    /// Of these, how many were worth one more try and no other.
    pub once: u32,
    /// In waits, and in silence that an attempt ended with.
    pub time: Duration,
    /// For all of them.
    pub cost: Micros,
}

/// Whether a failed attempt brought the answer forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptProgress {
    /// Nothing of it can be kept.
    None,
    /// Some of the answer came, and is kept.
    Output,
}

impl RetrySpent {
    /// Counts one more failed attempt, which was silent for so long at its end. Output earns half of the
    /// tries back, and the time in which output came is not counted: a model that streamed for an hour may be
    /// asked for the rest.
    #[must_use]
    pub fn failed(self, progress: AttemptProgress, silent: Duration, cost: Micros, limits: &RetryLimits) -> Self {
        let tries = match progress {
            AttemptProgress::None => self.tries,
            AttemptProgress::Output => self.tries.saturating_sub(limits.tries_max / 2),
        };
        Self {
            tries: tries.saturating_add(1),
            attempts: self.attempts.saturating_add(1),
            time: self.time.saturating_add(silent),
            cost: self.cost.plus(cost),
            ..self
        }
    }

    /// Notes what the newest failure leaves to be done. Whatever failed before it for another reason used up nothing.
    #[must_use]
    pub const fn leaving(self, retry: Retry) -> Self {
        match retry {
            Retry::Once => Self { once: self.once.saturating_add(1), ..self },
            Retry::Never | Retry::Now | Retry::Backoff | Retry::After(_) => self,
        }
    }

    /// Counts one more attempt, which its process took with it, or after which the provider wants to be asked to go on. No
    /// provider failed, so it costs no try and no time, and it is one of all attempts all the same.
    #[must_use]
    pub fn resumed(self, cost: Micros) -> Self {
        Self { attempts: self.attempts.saturating_add(1), ..self.paid(cost) }
    }

    /// For another model, or for the answer after a summary: tries and time begin anew, totals do not.
    #[must_use]
    pub fn anew(self) -> Self {
        Self { attempts: self.attempts, cost: self.cost, ..Self::default() }
    }

    /// Counts what an attempt cost that is counted already.
    #[must_use]
    pub fn paid(self, cost: Micros) -> Self {
        Self { cost: self.cost.plus(cost), ..self }
    }

    /// Counts a wait.
    #[must_use]
    pub fn waited(self, span: Duration) -> Self {
        Self { time: self.time.saturating_add(span), ..self }
    }
}

/// What to do after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Wait this long, then try again.
    Wait(Duration),
    /// Stop trying this model.
    GiveUp(GiveUpReason),
}

/// Why no further attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUpReason {
    /// A repeated request would fail again.
    Permanent,
    /// It failed the second time too.
    Again,
    /// Too many tries brought nothing.
    Tries,
    /// Too many attempts in all.
    Attempts,
    /// Too long in all without anything coming.
    Time,
    /// Too dear in all.
    Cost,
    /// The provider wants a wait that a person should know of.
    TooLong(Duration),
}

impl GiveUpReason {
    /// Whether another model may not be asked either: a total of the step is reached.
    #[must_use]
    pub const fn is_of_the_step(self) -> bool {
        match self {
            Self::Attempts | Self::Cost => true,
            Self::Permanent | Self::Again | Self::Tries | Self::Time | Self::TooLong(_) => false,
        }
    }
}

impl fmt::Display for GiveUpReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permanent => f.write_str("the same request would fail again"),
            Self::Again => f.write_str("it failed the second time too"),
            Self::Tries => f.write_str("it kept failing without getting further"),
            Self::Attempts => f.write_str("it broke off too many times"),
            Self::Time => f.write_str("it took longer than retries may take"),
            Self::Cost => f.write_str("it cost more than retries may cost"),
            Self::TooLong(wait) => {
                write!(f, "the provider asks to wait {} seconds; send again after that", wait.as_secs())
            }
        }
    }
}

/// What to do after the last of the `spent` attempts failed and left this remedy. `jitter` is drawn from `0..1`.
///
/// The wait is at most the longest span, or the Retry-After and one base span more: chats that got the same
/// Retry-After do not all return at the same instant.
#[must_use]
pub fn decide(retry: Retry, spent: &RetrySpent, limits: &RetryLimits, jitter: f64) -> RetryDecision {
    let drawn = drawn(limits.span(spent.tries), jitter);
    let wait = match retry {
        Retry::Never => return RetryDecision::GiveUp(GiveUpReason::Permanent),
        Retry::Once if spent.once > 1 => return RetryDecision::GiveUp(GiveUpReason::Again),
        Retry::After(floor) if floor > limits.retry_after_max => {
            return RetryDecision::GiveUp(GiveUpReason::TooLong(floor));
        }
        Retry::After(floor) => drawn.max(floor.saturating_add(self::drawn(limits.delay_base, jitter))),
        Retry::Once | Retry::Backoff => drawn,
        Retry::Now => Duration::ZERO,
    };
    let over = if spent.tries >= limits.tries_max {
        GiveUpReason::Tries
    } else if spent.attempts >= limits.attempts_max {
        GiveUpReason::Attempts
    } else if spent.time.saturating_add(wait) > limits.time_max {
        GiveUpReason::Time
    } else if spent.cost > limits.cost_max {
        GiveUpReason::Cost
    } else {
        return RetryDecision::Wait(wait);
    };
    RetryDecision::GiveUp(over)
}

/// A part of a span. A number that is none counts as the whole: the longer wait does no harm.
pub(crate) fn drawn(span: Duration, jitter: f64) -> Duration {
    let jitter = if jitter.is_nan() { 1.0 } else { jitter.clamp(0.0, 1.0) };
    span.mul_f64(jitter)
}
