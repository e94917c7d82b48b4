//! Background generations: they go on at the provider after their stream is gone.
//!
//! A background generation outlives its stream, its attempt and this process. Two things follow. It is one generation
//! however many attempts read it, so its cost is counted once, by the attempt that ends it or gives it up. And it does
//! not stop because its stream is closed: abandoning it means cancelling it at the provider.

use everturn_core::delta::GenerationHandle;
use everturn_core::draft::Draft;
use everturn_core::error::Cause;
use everturn_core::fact::{AttemptOutcome, Fact};
use everturn_core::ids::{ChatId, ModelId};
use tokio::time::timeout;

use crate::agent::{Agent, Background};
use crate::drive::session::Environment;

/// A generation that its provider keeps.
#[derive(Debug, Clone)]
pub(crate) struct BackgroundGeneration {
    model: ModelId,
    handle: GenerationHandle,
}

impl BackgroundGeneration {
    /// The generation that a draft comes from, if that goes on in the background.
    pub(crate) fn of(draft: Option<&Draft>, agent: &Agent) -> Option<Self> {
        let draft = draft.filter(|_| agent.background == Background::On)?;
        Some(Self { model: draft.model()?.clone(), handle: draft.handle()?.clone() })
    }
}

/// Cancels the generation at its provider if committed `facts` abandon it. Best effort, in a task of its own: one
/// request, for as long as an interrupt may take, and its answer changes nothing here.
pub(crate) fn cancel_abandoned(
    background: &mut Option<BackgroundGeneration>,
    facts: &[Fact],
    env: &Environment,
    chat: ChatId,
) {
    let Some(BackgroundGeneration { model, handle }) = background.take_if(|_| facts.iter().any(abandons)) else {
        return;
    };
    let Some(provider) = env.shared.providers.get(model.provider()).cloned() else { return };
    let time_max = env.agent.limits.interrupt_max;
    env.shared.spawn(async move {
        match timeout(time_max, provider.cancel(&handle)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!(%chat, %error, "background generation not cancelled at its provider"),
            Err(_) => {
                tracing::info!(%chat, ?time_max, "background generation not cancelled: the provider did not answer")
            }
        }
    });
}

/// Whether a fact says that the rest of a generation will not be read although it may still go on.
fn abandons(fact: &Fact) -> bool {
    match fact {
        Fact::Attempted(row, tried) if !tried.unbilled_attempt => match row.outcome {
            AttemptOutcome::Answered | AttemptOutcome::Broke(Cause::ErrorFinish, _) => false,
            AttemptOutcome::Broke(..) | AttemptOutcome::Interrupted | AttemptOutcome::Lost => true,
        },
        _ => false,
    }
}
