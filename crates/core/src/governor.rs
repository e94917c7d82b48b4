//! Admission control for provider calls, one governor per credential.
//!
//! Chats do not know of each other, but they share a key: a 429 for one holds for all, and a thousand retries
//! at the same instant make the next outage. So each credential has one governor. It blocks all attempts
//! until the time a provider asked for, leaves a broken model alone (one [`Breaker`] per model), bounds
//! concurrent attempts, and after an outage starts with one attempt and admits one more for each that got an
//! answer. Attempts over the bound queue, first come, first served. A chat makes one attempt at a time, so
//! the queue is also fair between chats.
//!
//! A block ends at a known time, which the caller stores, so that a takeover observes it too. A position in
//! the queue has no time, and is lost with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::error::{ErrorKind, ProviderError, Retry};
use crate::ids::{ModelId, Timestamp};
use crate::limits::Limits;
use crate::retry::{Breaker, BreakerLimits, ModelHealth, RetryLimits, drawn};

#[cfg(test)]
mod tests;

/// The bounds of a governor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GovernorLimits {
    /// Attempts under way at the same time with one credential: 1000.
    pub at_once_max: usize,
    /// Attempts that may be opening at the same time after an outage: 1. Each that gets an answer lets in one more.
    pub ramp_from: usize,
    /// The ramp ends at this many concurrent openings: 64.
    pub ramp_max: usize,
}

impl Default for GovernorLimits {
    fn default() -> Self {
        Self { at_once_max: 1000, ramp_from: 1, ramp_max: 64 }
    }
}

/// The governor of one credential.
#[derive(Debug)]
pub struct Governor {
    limits: GovernorLimits,
    retry: RetryLimits,
    breaker: BreakerLimits,
    /// No attempt is admitted before this time.
    until: Timestamp,
    /// The error that set it.
    refusal: Option<ProviderError>,
    /// Rate-limit refusals in a row. Refusals of concurrent attempts count as one.
    strikes: u32,
    /// The number of outages. Only an attempt that began after the last one tells something about it.
    outages: u64,
    /// The bound on concurrent openings while ramping up.
    ramp: Option<usize>,
    opening: usize,
    running: usize,
    line: BTreeSet<QueueTicket>,
    breakers: BTreeMap<ModelId, Breaker>,
    /// The newest failure per model, while its breaker counts one.
    failures: BTreeMap<ModelId, ProviderError>,
}

/// A position in the queue. Lower numbers are served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueTicket(pub u64);

/// The answer to a request for a permit.
#[derive(Debug)]
pub enum PermitDecision {
    /// Make the attempt, and return the permit at its end.
    Go(AttemptPermit),
    /// The bound is reached: wait in the queue.
    InLine,
    /// No attempt may begin before this time.
    NotBefore(Blocked),
}

/// A credential or model that is blocked for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocked {
    /// Until when.
    pub until: Timestamp,
    /// What is blocked.
    pub door: BlockScope,
    /// The newest error that caused the block.
    pub error: ProviderError,
}

/// What a block covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockScope {
    /// The credential: rate-limited, or told to retry later.
    Credential,
    /// The model: it fails for all chats.
    Model,
}

/// The right to make one attempt. It is given back exactly once, with [`Governor::ended`].
#[derive(Debug)]
pub struct AttemptPermit {
    model: ModelId,
    outages: u64,
    opened: bool,
    spoke: bool,
}

impl AttemptPermit {
    /// Whether content has come.
    #[must_use]
    pub const fn has_spoken(&self) -> bool {
        self.spoke
    }
}

/// How an attempt ended, as far as the governor is concerned.
#[derive(Debug, Clone, Copy)]
pub enum AttemptEnd<'a> {
    /// With an answer.
    Answered,
    /// With this.
    Broke(&'a ProviderError),
    /// It was stopped before the outcome was known.
    Untold,
}

impl Governor {
    /// A new governor without history.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.governor.clone(),
            retry: limits.retry.clone(),
            breaker: limits.breaker.clone(),
            until: Timestamp(i64::MIN),
            refusal: None,
            strikes: 0,
            outages: 0,
            ramp: None,
            opening: 0,
            running: 0,
            line: BTreeSet::new(),
            breakers: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// What blocks this model now, if anything. Changes nothing.
    #[must_use]
    pub fn shut(&self, model: &ModelId, now: Timestamp) -> Option<Blocked> {
        // A time further off than any wait of ours was set before the clock was set back, and is ignored.
        let wait_max = self.retry.retry_after_max.max(self.retry.delay_max);
        let key = (now < self.until && self.until.since(now) <= wait_max).then_some(self.until);
        let (until, door, error, usual) = match key {
            Some(until) => (until, BlockScope::Credential, self.refusal.as_ref(), ErrorKind::RateLimit),
            None => {
                let until = self.breakers.get(model)?.shut_until(now)?;
                (until, BlockScope::Model, self.failures.get(model), ErrorKind::Overloaded)
            }
        };
        let error = error.cloned().unwrap_or_else(|| ProviderError::new(model.provider(), usual));
        Some(Blocked { until, door, error })
    }

    /// Requests a permit. If the answer is [`PermitDecision::InLine`], `place` is queued: ask again whenever
    /// [`Self::called`] names it. `jitter` is drawn from `0..1`, so that blocked attempts do not all return
    /// at the same instant.
    pub fn ask(&mut self, place: QueueTicket, model: &ModelId, now: Timestamp, jitter: f64) -> PermitDecision {
        if let Some(Blocked { until, door, error }) = self.shut(model, now) {
            self.line.remove(&place);
            let spread = match door {
                BlockScope::Credential => self.retry.delay_base,
                BlockScope::Model => self.breakers.get(model).map_or(Duration::ZERO, Breaker::spread),
            };
            return PermitDecision::NotBefore(Blocked { until: until + drawn(spread, jitter), door, error });
        }
        self.line.insert(place);
        if !self.called().any(|called| called == place) {
            return PermitDecision::InLine;
        }
        self.line.remove(&place);
        self.breakers.entry(model.clone()).or_insert_with(|| Breaker::new(self.breaker.clone())).admit(now);
        self.opening += 1;
        self.running += 1;
        PermitDecision::Go(AttemptPermit { model: model.clone(), outages: self.outages, opened: false, spoke: false })
    }

    /// Leaves the queue.
    pub fn leave(&mut self, place: QueueTicket) {
        self.line.remove(&place);
    }

    /// The tickets that should ask again now.
    pub fn called(&self) -> impl Iterator<Item = QueueTicket> {
        let room = self.limits.at_once_max.max(1).saturating_sub(self.running);
        let room = match self.ramp {
            Some(ramp) => room.min(ramp.saturating_sub(self.opening)),
            None => room,
        };
        self.line.iter().copied().take(room)
    }

    /// An attempt's answer has begun: whatever becomes of it, the provider accepts the credential again.
    pub fn opened(&mut self, pass: &mut AttemptPermit) {
        if !pass.opened {
            pass.opened = true;
            self.opening -= 1;
            self.welcomed(pass.outages);
        }
    }

    /// An attempt's first content has come: its model answers, and other attempts need not wait for its end.
    pub fn spoke(&mut self, pass: &mut AttemptPermit) {
        if !pass.spoke {
            pass.spoke = true;
            self.breakers.get_mut(&pass.model).into_iter().for_each(Breaker::speaks);
        }
    }

    /// Takes a permit back with the attempt's outcome. `jitter` is the number the attempt's own wait was
    /// drawn with, so that a lone chat waits once.
    pub fn ended(&mut self, pass: AttemptPermit, how: AttemptEnd<'_>, now: Timestamp, jitter: f64) {
        self.running -= 1;
        self.opening -= usize::from(!pass.opened);
        let health = match how {
            AttemptEnd::Answered => ModelHealth::Answers,
            AttemptEnd::Broke(error) => ModelHealth::of(error),
            AttemptEnd::Untold => ModelHealth::Untold,
        };
        match (how, health) {
            (AttemptEnd::Broke(error), ModelHealth::Fails) => {
                drop(self.failures.insert(pass.model.clone(), error.clone()))
            }
            (_, ModelHealth::Answers) => drop(self.failures.remove(&pass.model)),
            (_, ModelHealth::Fails | ModelHealth::Untold) => {}
        }
        let broke = self.breakers.get_mut(&pass.model).is_some_and(|breaker| {
            let was_shut = breaker.shut_until(now).is_some();
            breaker.report(health, now);
            !was_shut && breaker.shut_until(now).is_some()
        });
        let refused = match how {
            AttemptEnd::Broke(error) => self.refused(error, pass.outages, now, jitter),
            AttemptEnd::Answered | AttemptEnd::Untold => false,
        };
        if (broke || refused) && pass.outages == self.outages {
            self.outages += 1;
            self.ramp = Some(self.limits.ramp_from.max(1));
        } else if !pass.opened && !refused && health == ModelHealth::Answers {
            self.welcomed(pass.outages);
        }
    }

    /// Blocks the credential if the error asks for it.
    fn refused(&mut self, error: &ProviderError, outages: u64, now: Timestamp, jitter: f64) -> bool {
        let is_news = outages == self.outages;
        let wait = match (error.retry, error.kind) {
            // A longer wait is shown to a person by the attempt that received it.
            (Retry::After(wait), _) => wait.min(self.retry.retry_after_max),
            (_, ErrorKind::RateLimit) if is_news => drawn(self.retry.span(self.strikes + 1), jitter),
            (_, ErrorKind::RateLimit) => Duration::ZERO,
            _ => return false,
        };
        self.strikes += u32::from(is_news);
        if self.until <= now + wait {
            self.until = now + wait;
            self.refusal = Some(error.clone());
        }
        true
    }

    /// An attempt got through since the last outage.
    fn welcomed(&mut self, outages: u64) {
        if outages == self.outages {
            self.strikes = 0;
            self.ramp = self.ramp.map(|ramp| ramp + 1).filter(|ramp| *ramp < self.limits.ramp_max);
        }
    }
}
