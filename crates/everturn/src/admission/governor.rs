//! Waiting for one's turn at a provider.
//!
//! [`everturn_core::governor`] decides who may go; this keeps one of them for each credential, wakes those whose turn it
//! is, and gives every pass back, also when its holder is gone. A shut door has a time, which the driver stores: that
//! wait survives the process. A place in line does not, and needs not: nobody has been asked yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::fact::Fact;
use everturn_core::governor::{AttemptEnd, AttemptPermit, BlockScope, Blocked, Governor, PermitDecision, QueueTicket};
use everturn_core::ids::ModelId;
use everturn_core::limits::Limits;
use everturn_stores::WriteError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::drive::Driver;
use crate::drive::step::Asked;
use crate::drive::step::attempt;
use crate::engine::Ports;
use crate::util::clock::Clock;

/// The governors of all credentials.
#[derive(Debug, Default)]
pub(crate) struct Governors(Mutex<HashMap<String, Arc<Governed>>>);

/// One of them, and those who wait for it.
#[derive(Debug)]
struct Governed(Mutex<State>);

#[derive(Debug)]
struct State {
    governor: Governor,
    bells: HashMap<QueueTicket, Arc<Notify>>,
    places: u64,
}

/// The right to make one attempt. Dropped without a word, it tells nothing about the provider.
#[derive(Debug)]
pub(crate) struct Permit {
    governed: Arc<Governed>,
    pass: Option<AttemptPermit>,
    clock: Clock,
}

/// Somebody in line. Dropped, they have left it.
struct Waiting {
    governed: Arc<Governed>,
    place: QueueTicket,
    bell: Arc<Notify>,
}

impl Governors {
    /// The governor of a credential. Its bounds are those of whoever asked first.
    fn of(&self, credential: &str, limits: &Limits) -> Arc<Governed> {
        let mut governors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(governed) = governors.get(credential) {
            return governed.clone();
        }
        let state = State { governor: Governor::new(limits), bells: HashMap::new(), places: 0 };
        let governed = Arc::new(Governed(Mutex::new(state)));
        governors.insert(credential.to_owned(), governed.clone());
        governed
    }
}

impl Governed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line_up(self: &Arc<Self>) -> Waiting {
        let mut state = self.state();
        state.places += 1;
        let (place, bell) = (QueueTicket(state.places), Arc::new(Notify::new()));
        state.bells.insert(place, bell.clone());
        Waiting { governed: self.clone(), place, bell }
    }
}

impl State {
    /// Wakes whoever's turn it is.
    fn call(&self) {
        self.governor.called().filter_map(|place| self.bells.get(&place)).for_each(|bell| bell.notify_one());
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.governed.state();
        state.bells.remove(&self.place);
        state.governor.leave(self.place);
        state.call();
    }
}

impl Ports {
    /// Gives a permit back with what its attempt came to. If it broke, this is the jitter to draw its own wait with, too:
    /// so somebody who is alone on a key waits once.
    pub(crate) fn give_back(&self, mut permit: Permit, ended: &attempt::Ended) -> Option<f64> {
        match ended {
            attempt::Ended::Answered(_) => permit.give_back(AttemptEnd::Answered, 0.0),
            attempt::Ended::Broke(error) => {
                let jitter = self.entropy.unit();
                permit.give_back(AttemptEnd::Broke(error), jitter);
                return Some(jitter);
            }
            attempt::Ended::Cancelled => {}
        }
        None
    }
}

impl Permit {
    /// The answer has begun.
    pub(crate) fn opened(&mut self) {
        if let Some(pass) = &mut self.pass {
            let mut state = self.governed.state();
            state.governor.opened(pass);
            state.call();
        }
    }

    /// Content has come. Said again and again, it costs nothing.
    pub(crate) fn spoke(&mut self) {
        if let Some(pass) = self.pass.as_mut().filter(|pass| !pass.has_spoken()) {
            self.governed.state().governor.spoke(pass);
        }
    }

    fn give_back(&mut self, how: AttemptEnd<'_>, jitter: f64) {
        if let Some(pass) = self.pass.take() {
            let mut state = self.governed.state();
            state.governor.ended(pass, how, self.clock.counted(), jitter);
            state.call();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back(AttemptEnd::Untold, 0.0);
    }
}

impl Ports {
    /// Waits in line until a model may be asked, or says until when nobody may.
    async fn pass(&self, credential: &str, model: &ModelId, limits: &Limits) -> Result<Permit, Blocked> {
        let governed = self.governors.of(credential, limits);
        let waiting = governed.line_up();
        loop {
            let answer = {
                let (mut state, now) = (governed.state(), self.clock.counted());
                let jitter = if state.governor.shut(model, now).is_some() { self.entropy.unit() } else { 0.0 };
                state.governor.ask(waiting.place, model, now, jitter)
            };
            match answer {
                PermitDecision::Go(pass) => return Ok(Permit { governed, pass: Some(pass), clock: self.clock }),
                PermitDecision::NotBefore(shut) => return Err(shut),
                PermitDecision::InLine => waiting.bell.notified().await,
            }
        }
    }
}

impl Driver {
    /// The permit to ask the model once, after whatever wait in line that takes. None if nobody may ask it now, if its
    /// owner's budget is used up, or if the turn was stopped meanwhile: the top of the loop knows.
    pub(crate) async fn permit(&mut self, asked: &Asked) -> Result<Option<Permit>, WriteError> {
        if self.is_broke().await? {
            return Ok(None);
        }
        let (ports, agent, asked) = (self.ports.clone(), self.agent.clone(), asked.clone());
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        let passed = async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => None,
                () = ports.drain.cancelled() => None,
                passed = ports.pass(asked.provider.credential(), &asked.model, &agent.limits) => Some(passed),
            }
        };
        match self.listening(passed, &cancel).await? {
            Some(Ok(permit)) => Ok(Some(permit)),
            Some(Err(shut)) => self.shut_out(shut).await.map(|()| None),
            None => Ok(None),
        }
    }

    /// The model, or the key, is left alone for now: ask the next model, or wait.
    async fn shut_out(&mut self, Blocked { until, door, error }: Blocked) -> Result<(), WriteError> {
        if door == BlockScope::Model && self.has_next_model() {
            let tried = self.next_model();
            return self.change(|change| change.fact(Fact::Tried(tried))).await;
        }
        let wait = until.since(self.ports.clock.counted()); // A governor counts, whatever the wall clock does.
        let until = self.now() + wait.min(self.agent.limits.wait_max()); // Another agent's bounds may be wider.
        let (mut tried, wait) = (self.chat.tried, self.wait(until, &error, self.chat.tried.attempts));
        if tried.spent.attempts > 0 {
            tried.spent = tried.spent.waited(until.since(self.now()));
        }
        self.change(|change| change.fact(Fact::Tried(tried)).fact(wait)).await
    }
}
