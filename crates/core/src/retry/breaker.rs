//! Circuit breaker: leaves a broken model alone.
//!
//! When a model fails for all chats, each chat's own backoff is not enough: together they still overload it.
//! A breaker per model counts failures in a row, opens for a while, and then admits one attempt as a probe.
//! Every outcome of the probe changes the state: first output or any sensible answer closes the breaker,
//! failure opens it again, and a probe that never reports is replaced after a while. In no state are attempts
//! refused for ever.
//!
//! An attempt that arrives during a probe is told to return after as long again as the probe has taken, so
//! that waits are short behind a short probe, and polls are rare behind a long one.

use std::time::Duration;

use crate::error::{ErrorKind, ProviderError, Retry};
use crate::ids::Timestamp;

/// The bounds of a breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Failures in a row before the door closes: 5.
    pub failures_max: u32,
    /// How long it stays closed: 30 s.
    pub open_max: Duration,
    /// How long a probe may take before another is sent: 120 s, a silence long.
    pub probe_max: Duration,
    /// The shortest wait behind a probe: 1 s.
    pub behind_min: Duration,
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self {
            failures_max: 5,
            open_max: Duration::from_secs(30),
            probe_max: Duration::from_secs(120),
            behind_min: Duration::from_secs(1),
        }
    }
}

/// The circuit breaker of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    limits: BreakerLimits,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In use, after so many failures in a row.
    Closed { failures: u32 },
    /// No attempt is admitted before this time.
    Open { until: Timestamp },
    /// One attempt is out to look since then; another may go after this time.
    Probing { since: Timestamp, until: Timestamp },
}

/// Whether an attempt is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerDecision {
    /// As usual.
    Go,
    /// As a probe; other attempts wait for its outcome.
    Probe,
    /// Not before this time.
    NotBefore(Timestamp),
}

/// What an attempt's outcome says about the model's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelHealth {
    /// It answers: with success, or with a refusal that is about us.
    Answers,
    /// It does not.
    Fails,
    /// The attempt was stopped before that was known.
    Untold,
}

impl ModelHealth {
    /// What an error says about the model's health.
    #[must_use]
    pub fn of(error: &ProviderError) -> Self {
        match error.kind {
            _ if error.retry == Retry::Now => Self::Answers,
            ErrorKind::Malformed if error.retry == Retry::Once => Self::Answers, // With more than we take.
            ErrorKind::Overloaded
            | ErrorKind::Timeout
            | ErrorKind::Silence
            | ErrorKind::Truncated
            | ErrorKind::Malformed => Self::Fails,
            ErrorKind::Generic if error.retry != Retry::Never => Self::Fails,
            // A rate limit is about this key: the governor's business, and proof of life.
            ErrorKind::RateLimit
            | ErrorKind::Auth
            | ErrorKind::MissingKey
            | ErrorKind::UsageLimit
            | ErrorKind::Config
            | ErrorKind::ContextFull
            | ErrorKind::ContentFilter
            | ErrorKind::ProviderDisabled
            | ErrorKind::ChainBroken
            | ErrorKind::Generic => Self::Answers,
            ErrorKind::Budget | ErrorKind::Quarantine => Self::Untold, // No model was called.
        }
    }
}

impl Breaker {
    /// A closed breaker: all attempts are admitted.
    #[must_use]
    pub const fn new(limits: BreakerLimits) -> Self {
        Self { limits, state: State::Closed { failures: 0 } }
    }

    /// Asks to pass.
    pub fn admit(&mut self, now: Timestamp) -> BreakerDecision {
        match (self.state, self.shut_until(now)) {
            (State::Closed { .. }, _) => BreakerDecision::Go,
            (_, Some(until)) => BreakerDecision::NotBefore(until),
            (_, None) => {
                self.state = State::Probing { since: now, until: now + self.limits.probe_max };
                BreakerDecision::Probe
            }
        }
    }

    /// The time before which no attempt is admitted, if there is one. Changes nothing.
    #[must_use]
    pub fn shut_until(&self, now: Timestamp) -> Option<Timestamp> {
        let (until, ask_at) = match self.state {
            State::Closed { .. } => return None,
            State::Open { until } => (until, until),
            State::Probing { since, until } => (until, now + now.since(since).max(self.limits.behind_min)),
        };
        // A time further off than any wait of ours was set before the clock was put back: it means nothing now.
        let wait_max = self.limits.open_max.max(self.limits.probe_max);
        (now < until && until.since(now) <= wait_max).then_some(until.min(ask_at))
    }

    /// The span over which blocked attempts return: behind a probe they are many, and one probe is enough.
    #[must_use]
    pub const fn spread(&self) -> Duration {
        match self.state {
            State::Probing { .. } => self.limits.behind_min,
            State::Closed { .. } | State::Open { .. } => Duration::ZERO, // One of them is let through to look.
        }
    }

    /// Takes the news that an attempt's answer has begun. A probe has seen enough then; but one more failure, its own if
    /// it breaks off, shuts the door again.
    pub const fn speaks(&mut self) {
        if let State::Probing { .. } = self.state {
            self.state = State::Closed { failures: self.limits.failures_max.saturating_sub(1) };
        }
    }

    /// Takes what an attempt that passed came to. Late news of an earlier attempt is news as well.
    pub fn report(&mut self, health: ModelHealth, now: Timestamp) {
        self.state = match (self.state, health) {
            (_, ModelHealth::Answers) => State::Closed { failures: 0 },
            (State::Closed { failures }, ModelHealth::Fails) if failures + 1 < self.limits.failures_max => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { .. } | State::Probing { .. }, ModelHealth::Fails) => {
                State::Open { until: now + self.limits.open_max }
            }
            (State::Probing { .. }, ModelHealth::Untold) => State::Open { until: now }, // The next may look at once.
            (state @ State::Open { .. }, ModelHealth::Fails) | (state, ModelHealth::Untold) => state,
        }
    }
}
