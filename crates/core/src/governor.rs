//! Who may ask a provider now.
//!
//! Chats do not know of each other, but their key does: what one is told with a 429 holds for all, and a thousand that
//! come back at the same instant make the next outage. So there is one governor for each credential. It keeps the door
//! shut for everybody as long as anybody was told to stay away, leaves a broken model alone (a [`Breaker`] each), lets
//! only so many through at once, and after an outage begins with one and lets in one more for each that got an answer.
//! Whoever finds no place waits in line, first come, first served. A chat asks for one thing at a time, so that is also
//! fair between chats.
//!
//! A door that is shut has a time, and that is handed up to be stored: a takeover obeys it. A place in line has none, and
//! is forgotten with the process.

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
    /// So many at the same time are no ramp any more: 64.
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
    /// Nobody goes before this.
    until: Timestamp,
    /// The error that said so.
    refusal: Option<ProviderError>,
    /// Refusals in a row for asking too often. Those that were under way together count as one.
    strikes: u32,
    /// How many outages there were. An attempt tells something about the last one only if it began after it.
    outages: u64,
    /// How many may be opening at once, while that is few.
    ramp: Option<usize>,
    opening: usize,
    running: usize,
    line: BTreeSet<QueueTicket>,
    breakers: BTreeMap<ModelId, Breaker>,
    /// The newest failure of each model whose breaker counts one.
    failures: BTreeMap<ModelId, ProviderError>,
}

/// A place in line. Whoever has the lower number came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueTicket(pub u64);

/// The answer to whoever wants to ask a provider.
#[derive(Debug)]
pub enum PermitDecision {
    /// Go. Hand the pass back at the end.
    Go(AttemptPermit),
    /// There is no room: wait in line.
    InLine,
    /// Nobody may go now.
    NotBefore(Blocked),
}

/// A door that is shut.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocked {
    /// Until when.
    pub until: Timestamp,
    /// Which one.
    pub door: BlockScope,
    /// The newest error that it is shut for.
    pub error: ProviderError,
}

/// What can be shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockScope {
    /// The credential: it asked too often, or was told to stay away.
    Credential,
    /// The model: it fails everybody.
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
    /// It was stopped before it could tell.
    Untold,
}

impl Governor {
    /// A governor of whom nobody has asked anything.
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

    /// Which door to a model is shut, if one is. To ask changes nothing.
    #[must_use]
    pub fn shut(&self, model: &ModelId, now: Timestamp) -> Option<Blocked> {
        // A time further off than any wait of ours was set before the clock was put back: it means nothing now.
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

    /// Asks to go, or takes `place` in line and asks again whenever [`Self::called`] names it. `jitter` is drawn from
    /// `0..1`: those who find a door shut shall not come back at the same instant.
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

    /// Gives up a place in line.
    pub fn leave(&mut self, place: QueueTicket) {
        self.line.remove(&place);
    }

    /// Whose turn it is to ask again.
    pub fn called(&self) -> impl Iterator<Item = QueueTicket> {
        let room = self.limits.at_once_max.max(1).saturating_sub(self.running);
        let room = match self.ramp {
            Some(ramp) => room.min(ramp.saturating_sub(self.opening)),
            None => room,
        };
        self.line.iter().copied().take(room)
    }

    /// An attempt's answer has begun: whatever it becomes, the credential is welcome again.
    pub fn opened(&mut self, pass: &mut AttemptPermit) {
        if !pass.opened {
            pass.opened = true;
            self.opening -= 1;
            self.welcomed(pass.outages);
        }
    }

    /// The first of an attempt's content has come: its model answers, and nobody need wait until it has said all.
    pub fn spoke(&mut self, pass: &mut AttemptPermit) {
        if !pass.spoke {
            pass.spoke = true;
            self.breakers.get_mut(&pass.model).into_iter().for_each(Breaker::speaks);
        }
    }

    /// Takes a pass back, and what its attempt came to. `jitter` is the one that the attempt's own wait is drawn with, so
    /// that somebody who is alone waits once.
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

    /// Shuts the key's door if that is what an error asks for.
    fn refused(&mut self, error: &ProviderError, outages: u64, now: Timestamp, jitter: f64) -> bool {
        let is_news = outages == self.outages;
        let wait = match (error.retry, error.kind) {
            // What is longer than anyone waits unseen is told to a person by the attempt it was told to.
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

    /// Somebody got through since the last outage.
    fn welcomed(&mut self, outages: u64) {
        if outages == self.outages {
            self.strikes = 0;
            self.ramp = self.ramp.map(|ramp| ramp + 1).filter(|ramp| *ramp < self.limits.ramp_max);
        }
    }
}
