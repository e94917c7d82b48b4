//! Permits to ask a provider: one governor per credential.
//!
//! [`everturn_core::governor`] decides which attempt may go; this keeps one per credential, wakes the next attempts in
//! line, and gives every pass back, also when its holder is gone. A shut door has a time, which the driver stores: that
//! wait survives the process. A place in line does not, and need not: nothing has been sent yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::governor::{AttemptEnd, AttemptPermit, Blocked, Governor, PermitDecision, QueueTicket};
use everturn_core::ids::ModelId;
use everturn_core::limits::Limits;
use tokio::sync::Notify;

use crate::drive::step::attempt::StreamOutcome;
use crate::process::Shared;
use crate::util::clock::Clock;
use crate::util::entropy::Entropy;

/// The governors of all credentials.
#[derive(Debug, Default)]
pub(crate) struct Governors(Mutex<HashMap<String, Arc<CredentialGovernor>>>);

/// The governor of one credential, and the attempts that wait for it.
#[derive(Debug)]
struct CredentialGovernor(Mutex<GovernorState>);

#[derive(Debug)]
struct GovernorState {
    governor: Governor,
    wakers: HashMap<QueueTicket, Arc<Notify>>,
    places: u64,
}

/// The right to make one attempt. Dropped without [`Permit::ended`], it says nothing about the provider.
#[derive(Debug)]
pub(crate) struct Permit {
    governed: Arc<CredentialGovernor>,
    pass: Option<AttemptPermit>,
    clock: Clock,
}

/// An attempt in line. Dropping it leaves the line.
struct PermitWait {
    governed: Arc<CredentialGovernor>,
    place: QueueTicket,
    called: Arc<Notify>,
}

impl Governors {
    /// The governor of a credential. Its limits are those of the first agent that asked.
    fn of(&self, credential: &str, limits: &Limits) -> Arc<CredentialGovernor> {
        let mut governors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(governed) = governors.get(credential) {
            return governed.clone();
        }
        let state = GovernorState { governor: Governor::new(limits), wakers: HashMap::new(), places: 0 };
        let governed = Arc::new(CredentialGovernor(Mutex::new(state)));
        governors.insert(credential.to_owned(), governed.clone());
        governed
    }
}

impl CredentialGovernor {
    fn state(&self) -> MutexGuard<'_, GovernorState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line_up(self: &Arc<Self>) -> PermitWait {
        let mut state = self.state();
        state.places += 1;
        let place = QueueTicket(state.places);
        let called = Arc::new(Notify::new());
        state.wakers.insert(place, called.clone());
        PermitWait { governed: self.clone(), place, called }
    }
}

impl GovernorState {
    /// Wakes the attempts that may ask again.
    fn call(&self) {
        self.governor.called().filter_map(|place| self.wakers.get(&place)).for_each(|called| called.notify_one());
    }
}

impl Drop for PermitWait {
    fn drop(&mut self) {
        let mut state = self.governed.state();
        state.wakers.remove(&self.place);
        state.governor.leave(self.place);
        state.call();
    }
}

impl Permit {
    /// Notes that the stream is open.
    pub(crate) fn opened(&mut self) {
        if let Some(pass) = &mut self.pass {
            let mut state = self.governed.state();
            state.governor.opened(pass);
            state.call();
        }
    }

    /// Notes that content has come. Cheap when repeated.
    pub(crate) fn spoke(&mut self) {
        if let Some(pass) = self.pass.as_mut().filter(|pass| !pass.has_spoken()) {
            self.governed.state().governor.spoke(pass);
        }
    }

    /// Ends the attempt and tells the governor how. If it broke, returns the jitter for the chat's own wait too: a chat that
    /// is alone on a credential waits once.
    pub(crate) fn ended(mut self, ended: &StreamOutcome, entropy: &Entropy) -> Option<f64> {
        match ended {
            StreamOutcome::Answered(_) => self.give_back(AttemptEnd::Answered, 0.0),
            StreamOutcome::Broke(error) => {
                let jitter = entropy.unit();
                self.give_back(AttemptEnd::Broke(error), jitter);
                return Some(jitter);
            }
            StreamOutcome::Cancelled => {}
        }
        None
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

/// Waits in line until a model may be asked, or returns until when it may not be.
pub(crate) async fn permit(
    shared: &Shared,
    credential: &str,
    model: &ModelId,
    limits: &Limits,
) -> Result<Permit, Blocked> {
    let governed = shared.governors.of(credential, limits);
    let waiting = governed.line_up();
    loop {
        let answer = {
            let mut state = governed.state();
            let now = shared.clock.counted();
            let jitter = if state.governor.shut(model, now).is_some() { shared.entropy.unit() } else { 0.0 };
            state.governor.ask(waiting.place, model, now, jitter)
        };
        match answer {
            PermitDecision::Go(pass) => return Ok(Permit { governed, pass: Some(pass), clock: shared.clock }),
            PermitDecision::NotBefore(shut) => return Err(shut),
            PermitDecision::InLine => waiting.called.notified().await,
        }
    }
}
