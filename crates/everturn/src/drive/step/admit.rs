//! Admission of one request: money left in the budget, and a permit of the governor.

use everturn_core::budget::BudgetAccount;
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::fact::Fact;
use everturn_core::governor::{BlockScope, Blocked};
use everturn_core::prompt::Request;
use everturn_stores::{StoreError, WriteError};
use tokio_util::sync::CancellationToken;

use crate::admission::budget;
use crate::admission::governor::{self, Permit};
use crate::drive::compaction::{Fitted, Fitting};
use crate::drive::inbox;
use crate::drive::session::ChatSession;
use crate::drive::step::{fail, wait_fact};
use crate::drive::target::{ModelTarget, next_model};

/// A request that fits and may be sent now.
pub(crate) struct Admitted {
    pub(crate) target: ModelTarget,
    pub(crate) request: Request,
    pub(crate) permit: Permit,
}

/// Waits until a request may be sent. `None` if something else was committed instead, or the turn is to stop.
pub(crate) async fn admit(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    fitted: Fitted,
) -> Result<Option<Admitted>, WriteError> {
    let Fitted { target, request } = fitted;
    let permit = permit(session, fitting, &target).await?;
    Ok(permit.map(|permit| Admitted { target, request, permit }))
}

/// The permit to ask a model once, after waiting in line for it. `None` if the model may not be asked now, if the owner's
/// budget is used up, or if the turn was stopped meanwhile: the next plan follows from what was committed.
pub(crate) async fn permit(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    target: &ModelTarget,
) -> Result<Option<Permit>, WriteError> {
    if let Some(exhausted) = exhausted(session).await? {
        let provider = target.model.provider().to_owned();
        let error = ProviderError::new(provider, ErrorKind::Budget).with_detail(&exhausted);
        fail(session, fitting, &error, None).await?;
        return Ok(None);
    }
    let shared = session.env.shared.clone();
    let agent = session.env.agent.clone();
    let target = target.clone();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let permit = async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = shared.stop.drain.cancelled() => None,
            permit = governor::permit(&shared, target.provider.credential(), &target.model, &agent.limits) => Some(permit),
        }
    };
    match inbox::listen_during(session, permit, &cancel).await? {
        Some(Ok(permit)) => Ok(Some(permit)),
        Some(Err(shut)) => shut_out(session, shut).await.map(|()| None),
        None => Ok(None),
    }
}

/// Which budget is used up: of a turn above, which asked this sub-agent, of the chat or of its owner.
async fn exhausted(session: &ChatSession) -> Result<Option<String>, StoreError> {
    let shared = &session.env.shared;
    for above in session.chat.parent.iter().flat_map(|parent| &parent.above) {
        if let Some(exhausted) = above.exhausted(shared.store.used_below(above.chat).await?) {
            return Ok(Some(exhausted.to_string()));
        }
    }
    let owner = &session.chat.owner;
    let budget = shared.budgets.of(owner);
    if !budget.is_bounded() {
        return Ok(None);
    }
    let chat = budget::used_with_sub_agents(shared, &session.chat).await?;
    let BudgetAccount { day, month, .. } = budget::account(shared, owner).await?;
    Ok(budget.exhausted(chat, day, month).map(|exhausted| exhausted.to_string()))
}

/// The governor refuses the model or the credential for now: ask the next model, or wait.
async fn shut_out(session: &mut ChatSession, Blocked { until, door, error }: Blocked) -> Result<(), WriteError> {
    let next = next_model(&session.env.agent, &session.chat).filter(|_| door == BlockScope::Model);
    if let Some(tried) = next {
        return session.change(|change| change.fact(Fact::Tried(tried))).await;
    }
    let wait = until.since(session.env.shared.clock.counted()); // A governor counts, whatever the wall clock does.
    let until = session.now() + wait.min(session.env.agent.limits.wait_max()); // Another agent's limits may be wider.
    let mut tried = session.chat.tried;
    let wait = wait_fact(until, &error, tried.attempts);
    if tried.spent.attempts > 0 {
        tried.spent = tried.spent.waited(until.since(session.now()));
    }
    session.change(|change| change.fact(Fact::Tried(tried)).fact(wait)).await
}
