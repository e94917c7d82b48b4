//! Which rung of the ladder the next attempt takes, and what the last one was worth.
//!
//! [`everturn_core::recovery`] decides; here it is asked with what the model and the draft allow, and its answer becomes a
//! request.

use std::time::Duration;

use everturn_core::cost::Micros;
use everturn_core::delta::{Delta, Rung};
use everturn_core::draft::Draft;
use everturn_core::error::Cause;
use everturn_core::fact::AttemptOutcome;
use everturn_core::prompt::{ContinueMode, Request, UnfinishedAnswer, echoes};
use everturn_core::recovery::{self, Capabilities, Continuation, Echo, Reattach, Recovery, RetryBudget};
use everturn_core::retry::{AttemptProgress, RetrySpent};

use crate::agent::Background;
use crate::drive::Driver;
use crate::drive::step::Asked;
use crate::drive::step::attempt::Opening;

/// What the next attempt does.
pub(crate) struct Climb {
    pub(crate) rung: Rung,
    pub(crate) retract: Vec<Delta>,
    pub(crate) opening: Opening,
}

impl Driver {
    /// Which rung the next attempt takes.
    pub(crate) fn climb(&self, asked: &Asked, request: Request) -> Climb {
        let target = &asked.facts.target;
        let ask = |request: Request| Opening::Ask(Box::new(request.fit(target)));
        let Some((draft, began)) = self.draft.as_ref().and_then(|draft| Some((draft, draft.current()?))) else {
            return Climb { rung: Rung::First, retract: Vec::new(), opening: ask(request) };
        };
        let moved_on = began.model != asked.model;
        let can = self.can(asked);
        let shown = (!draft.parts().is_empty()).then_some(Delta::RetractAll);
        let anew = |rung| Climb { rung, retract: shown.into_iter().collect(), opening: ask(request.clone()) };
        match recovery::plan(draft, self.cause, can, RetryBudget::Left) {
            Recovery::Reattach(handle) => {
                Climb { rung: Rung::Reattach, retract: Vec::new(), opening: Opening::Reattach(handle) }
            }
            Recovery::Continue { retract, how } => {
                let unfinished = UnfinishedAnswer { parts: draft.parts(), by: &began.model };
                let how = match how {
                    Continuation::Prefill => ContinueMode::Prefill,
                    Continuation::Instruct => ContinueMode::Instruct,
                    Continuation::Echo => ContinueMode::Echo,
                };
                let retract = retract.into_iter().map(|ordinal| Delta::RetractCall { ordinal }).collect();
                let rung = if moved_on { Rung::FallBack } else { Rung::Continue };
                let mut request = request.continuing(target, unfinished, how);
                if request.is_echo() {
                    request.echoed = draft.meta().clone();
                }
                Climb { rung, retract, opening: ask(request) }
            }
            _ if moved_on => anew(Rung::FallBack),
            _ => anew(Rung::Restart),
        }
    }

    /// The calls to take back, if others are whole and nobody is asked for the rest any more: the model that said them
    /// was left for another, or may no longer be re-attached to.
    pub(crate) fn salvageable(&self, asked: &Asked) -> Option<Vec<u16>> {
        match recovery::plan(self.draft.as_ref()?, self.cause, self.can(asked), RetryBudget::Left) {
            Recovery::Salvage { retract } => Some(retract),
            _ => None,
        }
    }

    /// What the model can do for the draft: nobody re-attaches to another model's generation, or to one that was not
    /// asked to outlive its stream, and nobody goes on from another's tools.
    pub(crate) fn can(&self, asked: &Asked) -> Capabilities {
        let own = self.draft.as_ref().filter(|draft| draft.model() == Some(&asked.model));
        let reattach = match (self.agent.background, asked.facts.can.reattach) {
            (Background::On, Reattach::Yes | Reattach::Alive) if own.is_some() && self.pinged => Reattach::Alive,
            (Background::On, reattach) if own.is_some() => reattach,
            (Background::On | Background::Off, _) => Reattach::No,
        };
        let echo = match own.map(|draft| UnfinishedAnswer { parts: draft.parts(), by: &asked.model }) {
            Some(unfinished) if echoes(unfinished, &asked.facts.target) => Echo::Yes,
            Some(_) | None => Echo::No,
        };
        Capabilities { reattach, echo, ..asked.facts.can }
    }

    /// What would be done about the draft if another attempt was made.
    fn rung(&self, draft: &Draft, cause: Cause) -> Recovery {
        let can = self.asked().map(|asked| self.can(&asked)).unwrap_or_default();
        recovery::plan(draft, cause, can, RetryBudget::Left)
    }

    /// Whether the answer would be gone on with where it is.
    pub(crate) fn goes_on(&self, cause: Cause) -> bool {
        let rung = self.draft.as_ref().map(|draft| self.rung(draft, cause));
        matches!(rung, Some(Recovery::Continue { .. }))
    }

    /// Whether the attempt that ended so brought the answer forward. What the next one takes back did not.
    pub(crate) fn progress(&self, cause: Cause) -> AttemptProgress {
        let kept = self.draft.as_ref().is_some_and(|draft| match self.rung(draft, cause) {
            Recovery::Reattach(_) => draft.current_bytes() > 0,
            Recovery::Salvage { .. } | Recovery::Continue { .. } => draft.got_on(),
            Recovery::Restart | Recovery::FallBack { .. } | Recovery::GiveUp => false,
        });
        if kept { AttemptProgress::Output } else { AttemptProgress::None }
    }

    /// What the step has spent on failures, now that an attempt has ended at which nothing came for so long.
    pub(crate) fn spent(&self, outcome: AttemptOutcome, silent: Duration, cost: Micros) -> RetrySpent {
        let (spent, limits) = (self.chat.tried.spent, &self.agent.limits.retry);
        match outcome {
            AttemptOutcome::Broke(Cause::Resumed, _) => spent.resumed(cost),
            AttemptOutcome::Broke(cause, _) => spent.failed(self.progress(cause), silent, cost, limits),
            AttemptOutcome::Lost => spent.paid(cost), // It was counted when it broke.
            AttemptOutcome::Answered | AttemptOutcome::Interrupted => spent,
        }
    }
}
