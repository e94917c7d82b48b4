//! Generations that go on without us.
//!
//! Asked for in the background, a generation outlives its stream, its attempt and this process. Two things follow. It is
//! one generation however many attempts read it, so what it came to is counted once, by the attempt that ends it or by
//! whoever gives it up. And it does not stop because nobody listens: whoever gives it up has to say so.

use everturn_core::delta::{AttemptBegan, GenerationHandle, Rung};
use everturn_core::draft::Draft;
use everturn_core::error::Cause;
use everturn_core::fact::{AttemptOutcome, Fact};
use everturn_core::ids::ModelId;
use tokio::time::timeout;

use crate::agent::{Agent, Background};
use crate::drive::Driver;

/// A generation whose provider keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    model: ModelId,
    handle: GenerationHandle,
}

impl Kept {
    /// The draft's, if there is one.
    pub(crate) fn of(draft: Option<&Draft>, agent: &Agent) -> Option<Self> {
        let draft = draft.filter(|_| agent.background == Background::On)?;
        Some(Self { model: draft.model()?.clone(), handle: draft.handle()?.clone() })
    }
}

impl Driver {
    /// The attempt that would find the draft's generation again, if nobody has counted yet what that came to.
    pub(crate) fn owed(&self) -> Option<AttemptBegan> {
        let number = self.chat.tried.attempts + 1;
        let last = self.draft.as_ref().filter(|_| self.chat.tried.owed)?.current()?;
        Some(AttemptBegan { number, rung: Rung::Reattach, ..last.clone() })
    }

    /// Ends the generation at its provider if these facts, which are committed, give it up. Nobody waits for that: it is
    /// asked once, for as long as an interrupt may take, and what it answers changes nothing here.
    pub(crate) fn forsake(&mut self, facts: &[Fact]) {
        let Some(Kept { model, handle }) = self.kept.take_if(|_| facts.iter().any(gives_up)) else { return };
        let Some(provider) = self.ports.providers.get(model.provider()).cloned() else { return };
        let (chat, time) = (self.chat.id, self.agent.limits.interrupt_max);
        self.ports.spawn(async move {
            match timeout(time, provider.cancel(&handle)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::info!(%chat, %error, "a generation could not be cancelled"),
                Err(_) => tracing::info!(%chat, "a generation was not cancelled in time"),
            }
        });
    }
}

/// Whether a fact says that nobody will hear the rest of a generation that may still go on.
fn gives_up(fact: &Fact) -> bool {
    match fact {
        Fact::Attempted(row, tried) if !tried.owed => match row.outcome {
            AttemptOutcome::Answered | AttemptOutcome::Broke(Cause::ErrorFinish, _) => false,
            AttemptOutcome::Broke(..) | AttemptOutcome::Interrupted | AttemptOutcome::Lost => true,
        },
        _ => false,
    }
}
