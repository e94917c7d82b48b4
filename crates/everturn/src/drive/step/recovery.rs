//! What follows an attempt that broke: [`decide`], and the attempt after it.
//!
//! [`everturn_core::recovery`] picks the rung of the ladder and [`everturn_core::retry`] the wait. Here both are asked with
//! what the draft, the model and the agent allow, once after the break and once before the next attempt: that may be made
//! by another process.

use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::chat::StepAttempts;
use everturn_core::delta::{Delta, Rung};
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::fact::{AttemptOutcome, Fact};
use everturn_core::prompt::{ContinueMode, UnfinishedAnswer, echoes};
use everturn_core::recovery::{self, Capabilities, Continuation, Echo, Reattach, Recovery, RetryBudget};
use everturn_core::retry::{self, AttemptProgress, GiveUpReason, RetryDecision, RetryLimits, RetrySpent};
use everturn_stores::WriteError;

use crate::admission::governor::Permit;
use crate::agent::Background;
use crate::drive::compaction::{self, Fitting};
use crate::drive::session::ChatSession;
use crate::drive::step::admit::Admitted;
use crate::drive::step::attempt::StreamOpening;
use crate::drive::step::record::{EndedAttempt, SentContent, end_attempt};
use crate::drive::step::{fail, salvage, wait_fact};
use crate::drive::target::{ModelTarget, next_model};

/// An attempt that broke, and what there is to go on with.
struct Break<'a> {
    error: &'a ProviderError,
    draft: &'a Draft,
    /// The step's account with this attempt in it.
    tried: StepAttempts,
    sent: SentContent,
    can: Capabilities,
    /// The terms of the agent's next model, if there is one.
    next_model: Option<StepAttempts>,
}

/// What is done about a break.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// The request was too long: make room, then ask again.
    MakeRoom,
    /// Ask again at once on these terms: with the whole transcript, without media, or another model.
    AskAgain(StepAttempts),
    /// Ask the same model again after a wait.
    Wait { span: Duration, generation: Generation },
    /// Run the calls that came whole, and take back these.
    Salvage { retract: Vec<u16> },
    /// End the turn; with a reason if a limit was reached.
    Fail(Option<GiveUpReason>),
}

/// Whether the next attempt reads the same generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    Same,
    Another,
}

/// Decides what is done about a break. Pure: `jitter` is drawn from `0..1` by the caller.
fn decide(broken: &Break<'_>, limits: &RetryLimits, jitter: f64) -> Decision {
    let Break { error, draft, tried, sent, can, next_model } = broken;
    let spent = &tried.spent;
    if spent.attempts < limits.attempts_max {
        if error.kind == ErrorKind::ContextFull {
            return Decision::MakeRoom;
        }
        if sent.chain && may_be_chain(error, draft) {
            return Decision::AskAgain(StepAttempts { without_chain: true, ..*tried });
        }
        if sent.media && may_be_media(error) {
            return Decision::AskAgain(StepAttempts { without_media: true, ..*tried });
        }
    }
    let verdict = retry::decide(error.retry, spent, limits, jitter);
    let next_model = next_model.filter(|_| is_models_own(error));
    let budget = match verdict {
        RetryDecision::Wait(_) => RetryBudget::Left,
        RetryDecision::GiveUp(why) if next_model.is_some() && !is_total(why, spent, limits) => RetryBudget::SpentHere,
        RetryDecision::GiveUp(_) => RetryBudget::Spent,
    };
    match (recovery::plan(draft, error.cause, *can, budget), verdict, next_model) {
        // A refusal to let us hear the rest says nothing against what was heard.
        (Recovery::Salvage { retract }, ..) if error.is_broken_stream() || error.cause == Cause::Refused => {
            Decision::Salvage { retract }
        }
        (Recovery::FallBack, _, Some(next)) => Decision::AskAgain(StepAttempts {
            attempts: tried.attempts,
            spent: spent.anew(),
            unbilled_attempt: false,
            ..next
        }),
        (Recovery::Reattach(_), RetryDecision::Wait(span), _) => Decision::Wait { span, generation: Generation::Same },
        (Recovery::Continue { .. } | Recovery::Restart, RetryDecision::Wait(span), _) => {
            Decision::Wait { span, generation: Generation::Another }
        }
        (_, RetryDecision::GiveUp(why), _) => Decision::Fail(Some(why)),
        (_, RetryDecision::Wait(_), _) => Decision::Fail(None),
    }
}

/// Commits what is done about an attempt that broke.
pub(crate) async fn broke(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    error: ProviderError,
    jitter: f64,
) -> Result<(), WriteError> {
    session.step.last.cause = error.cause;
    let outcome = AttemptOutcome::Broke(error.cause, error.kind);
    let Some(mut ended) = end_attempt(session, fitting, outcome) else {
        return fail(session, fitting, &error, None).await;
    };
    ended.tried.spent = ended.tried.spent.leaving(error.retry);
    let decision = {
        let can = session.target().map(|target| capabilities(session, &target)).unwrap_or_default();
        let next_model = next_model(&session.env.agent, &session.chat);
        let draft = session.step.draft.as_ref().expect("an attempt was made");
        let broken = Break { error: &error, draft, tried: ended.tried, sent: ended.sent, can, next_model };
        decide(&broken, &session.env.agent.limits.retry, jitter)
    };
    match decision {
        Decision::MakeRoom => compaction::overflowed(session, fitting, ended.fact()).await,
        Decision::AskAgain(tried) => {
            let row = EndedAttempt { tried, ..ended }.fact();
            session.change(|change| change.fact(row)).await
        }
        Decision::Wait { span, generation } => wait(session, &error, ended, span, generation).await,
        Decision::Salvage { retract } => salvage(session, retract, Some(ended.fact())).await,
        Decision::Fail(None) => fail(session, fitting, &error, Some(ended.fact())).await,
        Decision::Fail(Some(why)) => fail(session, fitting, &gave_up(error, why), Some(ended.fact())).await,
    }
}

/// Commits a wait before the next attempt.
async fn wait(
    session: &mut ChatSession,
    error: &ProviderError,
    ended: EndedAttempt,
    span: Duration,
    generation: Generation,
) -> Result<(), WriteError> {
    let EndedAttempt { mut row, mut tried, .. } = ended;
    if generation == Generation::Same {
        // It is paid once, and the attempt that ends it says how much.
        row.tally = Default::default();
        row.spend = Default::default();
        tried.spent.cost = session.chat.tried.spent.cost;
        tried.unbilled_attempt = true;
    }
    tried.spent = tried.spent.waited(span);
    let wait = (error.retry != Retry::Now).then(|| wait_fact(session.now() + span, error, tried.attempts));
    let facts = [Fact::Attempted(row, tried)].into_iter().chain(wait);
    session.change(|change| facts.fold(change, Change::fact)).await
}

/// The provider paused and wants to be asked to go on. That is no failure, as long as the answer gets on by it.
pub(crate) async fn paused(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    error: ProviderError,
    jitter: f64,
) -> Result<(), WriteError> {
    session.step.last.cause = error.cause;
    let continues = matches!(planned(session, error.cause), Some(Recovery::Continue { .. }));
    let gets_on = continues && progress(session, error.cause) == AttemptProgress::Output;
    if !gets_on || session.chat.tried.attempts + 1 >= session.env.agent.limits.retry.attempts_max {
        return broke(session, fitting, error.with_retry(Retry::Backoff), jitter).await;
    }
    match end_attempt(session, fitting, AttemptOutcome::Answered) {
        Some(mut ended) => {
            ended.tried.spent = ended.tried.spent.resumed(ended.row.spend.total());
            let row = ended.fact();
            session.change(|change| change.fact(row)).await
        }
        None => fail(session, fitting, &error, None).await,
    }
}

/// What the next attempt does.
pub(crate) struct NextAttempt {
    pub(crate) target: ModelTarget,
    pub(crate) permit: Permit,
    pub(crate) rung: Rung,
    pub(crate) retract: Vec<Delta>,
    pub(crate) opening: StreamOpening,
}

impl NextAttempt {
    /// The attempt that carries out `plan` with an admitted request.
    pub(crate) fn new(session: &ChatSession, plan: Option<Recovery>, admitted: Admitted) -> Self {
        let Admitted { target, request, permit } = admitted;
        let current = session.step.draft.as_ref().and_then(|draft| Some((draft, draft.current()?)));
        let Some(((draft, began), plan)) = current.zip(plan) else {
            let opening = StreamOpening::ask(request, &target);
            return Self { target, permit, rung: Rung::First, retract: Vec::new(), opening };
        };
        let moved_on = began.model != target.model;
        match plan {
            Recovery::Reattach(handle) => {
                let opening = StreamOpening::Reattach(handle);
                Self { target, permit, rung: Rung::Reattach, retract: Vec::new(), opening }
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
                let mut request = request.continuing(&target.facts.target, unfinished, how);
                if request.is_echo() {
                    request.echoed = draft.meta().clone();
                }
                let opening = StreamOpening::ask(request, &target);
                Self { target, permit, rung, retract, opening }
            }
            Recovery::Salvage { .. } | Recovery::Restart | Recovery::FallBack | Recovery::GiveUp => {
                let rung = if moved_on { Rung::FallBack } else { Rung::Restart };
                let shown = (!draft.parts().is_empty()).then_some(Delta::RetractAll);
                let opening = StreamOpening::ask(request, &target);
                Self { target, permit, rung, retract: shown.into_iter().collect(), opening }
            }
        }
    }
}

/// What the draft allows if a model is asked again.
pub(crate) fn plan(session: &ChatSession, target: &ModelTarget) -> Option<Recovery> {
    let draft = session.step.draft.as_ref()?;
    Some(recovery::plan(draft, session.step.last.cause, capabilities(session, target), RetryBudget::Left))
}

/// What would be done about the draft if it had ended for this cause and another attempt was made.
fn planned(session: &ChatSession, cause: Cause) -> Option<Recovery> {
    let draft = session.step.draft.as_ref()?;
    let can = session.target().map(|target| capabilities(session, &target)).unwrap_or_default();
    Some(recovery::plan(draft, cause, can, RetryBudget::Left))
}

/// Whether an attempt that ended for this cause brought the answer forward. What the next one takes back did not.
pub(crate) fn progress(session: &ChatSession, cause: Cause) -> AttemptProgress {
    let Some((draft, plan)) = session.step.draft.as_ref().zip(planned(session, cause)) else {
        return AttemptProgress::None;
    };
    let kept = match plan {
        Recovery::Reattach(_) => draft.current_bytes() > 0,
        Recovery::Salvage { .. } | Recovery::Continue { .. } => draft.got_on(),
        Recovery::Restart | Recovery::FallBack | Recovery::GiveUp => false,
    };
    if kept { AttemptProgress::Output } else { AttemptProgress::None }
}

/// What a model can do for the draft. A generation is re-attached to only by the model that made it, and only if it was
/// requested in the background; a draft is echoed only to the model that it came from.
fn capabilities(session: &ChatSession, target: &ModelTarget) -> Capabilities {
    let step = &session.step;
    let own = step.draft.as_ref().filter(|draft| draft.model() == Some(&target.model));
    let reattach = match (session.env.agent.background, target.facts.can.reattach) {
        (Background::On, Reattach::Yes | Reattach::Alive) if own.is_some() && step.last.pinged => Reattach::Alive,
        (Background::On, reattach) if own.is_some() => reattach,
        (Background::On | Background::Off, _) => Reattach::No,
    };
    let echo = match own.map(|draft| UnfinishedAnswer { parts: draft.parts(), by: &target.model }) {
        Some(unfinished) if echoes(unfinished, &target.facts.target) => Echo::Yes,
        Some(_) | None => Echo::No,
    };
    Capabilities { reattach, echo, ..target.facts.can }
}

/// Whether another model may do better: the error passes but has not in time, or this account gets no answers here.
pub(crate) fn is_models_own(error: &ProviderError) -> bool {
    error.retry != Retry::Never || matches!(error.kind, ErrorKind::UsageLimit | ErrorKind::ProviderDisabled)
}

/// Whether no other model may be asked either: a total of the step is reached, perhaps together with another limit.
pub(crate) const fn is_total(why: GiveUpReason, spent: &RetrySpent, limits: &RetryLimits) -> bool {
    why.is_of_the_step() || spent.attempts >= limits.attempts_max
}

/// Whether a request may have been refused for the response it was chained to. Servers word that differently, or complain
/// of a call in that response that was never seen here; so any refusal for good is answered by one request with the whole
/// transcript.
fn may_be_chain(error: &ProviderError, draft: &Draft) -> bool {
    let for_good = error.retry == Retry::Never && matches!(error.kind, ErrorKind::Generic | ErrorKind::Config);
    error.kind == ErrorKind::ChainBroken || (for_good && !draft.got_on())
}

/// Whether a request may have been refused for the media in it.
pub(crate) fn may_be_media(error: &ProviderError) -> bool {
    let for_good = error.retry == Retry::Never && error.cause == Cause::Refused;
    for_good && matches!(error.kind, ErrorKind::Generic | ErrorKind::Config)
}

/// The error with the reason why nothing more was tried.
pub(crate) fn gave_up(error: ProviderError, why: GiveUpReason) -> ProviderError {
    match (why, error.detail.as_str()) {
        (GiveUpReason::Permanent, _) => error,
        (why, "") => error.with_detail(&why.to_string()),
        (why, detail) => {
            let detail = format!("{detail} ({why})");
            error.with_detail(&detail)
        }
    }
}

#[cfg(test)]
mod tests;
