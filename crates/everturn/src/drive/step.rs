//! One reply of the model.
//!
//! [`call_model`] makes at most one attempt and commits what became of it. Whether there is another, and on which rung of
//! the ladder, is derived anew from the chat and the draft, so it does not matter whether the same process makes it or the
//! next one. An attempt goes through typed stages: a [`ModelTarget`] is resolved, the transcript [`Prepared`] for it, the
//! request [`Fitted`] into its window and [`Admitted`], and the [`NextAttempt`] made of that.
//!
//! [`ModelTarget`]: crate::drive::target::ModelTarget
//! [`Prepared`]: request::Prepared
//! [`Fitted`]: crate::drive::compaction::Fitted
//! [`Admitted`]: admit::Admitted

mod admit;
mod append;
pub(crate) mod attempt;
pub(crate) mod background;
mod batch;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod request;

pub(crate) use admit::permit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everturn_core::chat::{CallOpening, CallState, RetryWait, StepAttempts, TurnEnd, TurnFailure};
use everturn_core::delta::{AttemptBegan, Delta, Rung};
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::fact::{AttemptOutcome, Fact};
use everturn_core::ids::{CallUid, ModelId, Timestamp};
use everturn_core::limits::Thinking;
use everturn_core::message::{Body, Call, Reply, Stop};
use everturn_core::prompt::Effort;
use everturn_core::recovery::Recovery;
use everturn_core::view::JournalRow;
use everturn_providers::ModelFacts;
use everturn_providers::record::recording;
use everturn_stores::WriteError;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::drive::compaction::{self, Fitting};
use crate::drive::inbox;
use crate::drive::session::{ChatSession, HookInstructions};
use crate::drive::takeover::Takeover;
use crate::drive::tools::rest;
use crate::tool::permit::CallPermits;
use crate::tool::toolbox;
use attempt::{Attempt, CallLimits, FinishedAttempt, StreamOpening, StreamOutcome};
use background::BackgroundGeneration;
use record::{EndedAttempt, abandon_generation, end_attempt};
use recovery::NextAttempt;

/// The open step: the reply that is arriving or broke off, and how its last attempt ended.
pub(crate) struct OpenStep {
    /// The reply so far. Lent to the attempt while one streams.
    pub(crate) draft: Option<Draft>,
    pub(crate) last: LastAttempt,
    /// The generation the draft comes from, if that goes on at the provider.
    pub(crate) background: Option<BackgroundGeneration>,
}

/// How the last attempt ended.
pub(crate) struct LastAttempt {
    pub(crate) cause: Cause,
    /// Whether the provider sent a ping during it.
    pub(crate) pinged: bool,
    pub(crate) origin: AttemptOrigin,
}

/// Which process made the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOrigin {
    /// This driver.
    Own,
    /// A driver that is gone: the attempt ended with its newest delta, however long ago that was.
    Inherited,
}

impl OpenStep {
    /// The step as found when the chat was loaded.
    pub(crate) fn found(draft: Option<Draft>, agent: &Agent) -> Self {
        let background = BackgroundGeneration::of(draft.as_ref(), agent);
        let last = LastAttempt { cause: Cause::Resumed, pinged: false, origin: AttemptOrigin::Inherited };
        Self { draft, last, background }
    }

    /// The draft's attempt, if no row says what became of it.
    pub(crate) fn unrecorded(&self, tried: &StepAttempts) -> Option<AttemptBegan> {
        let began = self.draft.as_ref()?.current()?;
        (began.number > tried.attempts).then(|| began.clone())
    }

    /// The attempt that would read the draft's background generation to its end, if no row has billed that yet.
    pub(crate) fn unbilled(&self, tried: &StepAttempts) -> Option<AttemptBegan> {
        let last = self.draft.as_ref().filter(|_| tried.unbilled_attempt)?.current()?;
        Some(AttemptBegan { number: tried.attempts + 1, rung: Rung::Reattach, ..last.clone() })
    }

    /// When the draft's attempt ended, or would if it ended now.
    pub(crate) fn ended_at(&self, now: Timestamp) -> Timestamp {
        let inherited = self.draft.as_ref().filter(|_| self.last.origin == AttemptOrigin::Inherited);
        inherited.map_or(now, Draft::newest_at)
    }
}

/// Makes the next attempt of the open step, or commits what has to come before it.
pub(crate) async fn call_model(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    takeover: &mut Takeover,
) -> Result<(), WriteError> {
    if run_step_hook(session).await? == HookRun::Replan {
        return Ok(());
    }
    takeover.record_journal_end(session).await?;
    if let Some(began) = session.step.unrecorded(&session.chat.tried) {
        // Its process is gone. What it showed is in the journal, and the provider did not fail.
        let lost = ProviderError::new(began.model.provider(), ErrorKind::Truncated).with_cause(Cause::Resumed);
        return recovery::broke(session, fitting, lost.with_retry(Retry::Now), 0.0).await;
    }
    let target = match session.target() {
        Ok(target) => target,
        Err(error) => return fail(session, fitting, &error, None).await,
    };
    session.fetch_bytes().await?;
    let plan = recovery::plan(session, &target);
    if let Some(Recovery::Salvage { retract }) = plan {
        // No model is asked for the rest: the step moved on to another, or cannot be re-attached to any more.
        let abandoned = abandon_generation(session, fitting);
        return salvage(session, retract, abandoned).await;
    }
    let prepared = request::prepare(session, fitting, target);
    let Some(fitted) = compaction::fit(session, fitting, prepared).await? else { return Ok(()) };
    let Some(admitted) = admit::admit(session, fitting, fitted).await? else { return Ok(()) };
    let next = NextAttempt::new(session, plan, admitted);
    if next.rung != Rung::Reattach
        && let Some(abandoned) = abandon_generation(session, fitting)
    {
        drop(next);
        return session.change(|change| change.fact(abandoned)).await;
    }
    make_attempt(session, fitting, takeover, next).await
}

/// Whether the step goes on after its hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HookRun {
    /// There is no hook, it has run before, or it had nothing to say.
    Continue,
    /// Something was committed, or the turn is to stop: plan again.
    Replan,
}

/// Lets the program add a message before the step. Once per step, also over crashes.
async fn run_step_hook(session: &mut ChatSession) -> Result<HookRun, WriteError> {
    let due = session.chat.briefed < session.chat.step;
    let Some(hook) = session.env.agent.hook.clone().filter(|_| due) else {
        return Ok(HookRun::Continue);
    };
    let chat = session.chat.clone();
    match asked(session, async move { hook.before_step(&chat).await }).await? {
        None => Ok(HookRun::Replan),
        Some(None) => Ok(HookRun::Continue),
        Some(Some(text)) => {
            session.change(|change| change.say(Body::Context(text)).fact(Fact::Briefed)).await?;
            Ok(HookRun::Replan)
        }
    }
}

/// Asks the agent's hook for the instructions of this chat.
pub(crate) async fn learn_instructions(session: &mut ChatSession) -> Result<(), WriteError> {
    let Some(hook) = session.env.agent.hook.clone() else { return Ok(()) };
    let chat = session.chat.clone();
    if let Some(instructions) = asked(session, async move { hook.instructions(&chat).await }).await? {
        session.env.instructions = HookInstructions::Known(instructions);
    }
    Ok(())
}

/// What a hook answers; `None` if the turn is to stop meanwhile.
async fn asked<T: Send>(
    session: &mut ChatSession,
    answer: impl Future<Output = T> + Send,
) -> Result<Option<T>, WriteError> {
    let cancel = CancellationToken::new();
    let stopped = cancel.clone();
    let answer = Box::pin(async move {
        tokio::select! {
            biased;
            () = stopped.cancelled() => None,
            answer = answer => Some(answer),
        }
    });
    inbox::listen_during(session, answer, &cancel).await
}

async fn make_attempt(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    takeover: &mut Takeover,
    next: NextAttempt,
) -> Result<(), WriteError> {
    let NextAttempt { target, permit, rung, retract, opening } = next;
    let began = AttemptBegan { number: session.chat.tried.attempts + 1, model: target.model.clone(), rung };
    observe_begin(session, &began, &retract, target.provider.server());
    let shared = session.env.shared.clone();
    if let StreamOpening::Ask(request) = &opening {
        shared.metrics.asked(&target.model, request);
    }
    let cancel = CancellationToken::new();
    session.step.last.origin = AttemptOrigin::Own;
    // It and its run are in boxes, or every wrapper has room for them twice: that is memory of each chat that streams.
    let attempt = Box::new(Attempt {
        store: shared.store.clone(),
        right: session.append_right(),
        signals: session.env.signals.clone(),
        clock: session.clocks.step,
        metrics: shared.metrics.clone(),
        provider: target.provider.clone(),
        permit,
        call_limits: call_limits(&session.env.agent, request::effort(session), &target.facts),
        cancel: cancel.clone(),
        isolation: takeover.lend_guard(session),
        pinged: false,
        waits_for_store: session.waits_for_store(),
        draft: session.step.draft.take().unwrap_or_else(|| Draft::new(session.chat.step)),
    });
    let attempt = Box::pin(attempt.run(retract, began, opening));
    let attempt = recording(shared.recorder.clone(), session.recorded(), attempt);
    let FinishedAttempt { attempt, ended, first_after } = inbox::listen_during(session, attempt, &cancel).await?;
    let Attempt { draft, permit, isolation, pinged, .. } = *{ attempt };
    session.observers.spans.heard(&draft);
    session.step.background = BackgroundGeneration::of(Some(&draft), &session.env.agent);
    session.step.draft = Some(draft);
    session.step.last.pinged = pinged;
    takeover.take_back_guard(isolation);
    if let Some(first) = first_after {
        shared.metrics.first_token(&target.model, first);
    }
    let ended = ended?;
    let jitter = permit.ended(&ended, &shared.entropy).unwrap_or_default();
    match ended {
        StreamOutcome::Answered(stop) => answered(session, fitting, stop).await,
        StreamOutcome::Broke(error) if error.retry == Retry::Now => {
            recovery::paused(session, fitting, error, jitter).await
        }
        StreamOutcome::Broke(error) => recovery::broke(session, fitting, error, jitter).await,
        StreamOutcome::Cancelled => Ok(()), // The command that stops the turn is applied at the top of the loop.
    }
}

fn observe_begin(
    session: &mut ChatSession,
    began: &AttemptBegan,
    retract: &[Delta],
    server: Option<everturn_providers::ApiAddress>,
) {
    let ChatSession { chat, step, observers, .. } = session;
    observers.attempt_began(chat, began, retract, step, server);
}

/// How long a request to a model may take, and how much it may bring.
pub(crate) fn call_limits(agent: &Agent, effort: Option<Effort>, facts: &ModelFacts) -> CallLimits {
    let limits = &agent.limits;
    let thinking = match effort {
        Some(_) => Thinking::Yes,
        None => facts.thinks,
    };
    CallLimits {
        open_max: limits.open_for(thinking),
        silence_max: limits.silence_for(thinking),
        batch_len_max: limits.batch_len_max,
        batch_bytes_max: limits.batch_bytes_max,
        draft_bytes_max: limits.draft_bytes_max,
    }
}

async fn answered(session: &mut ChatSession, fitting: &mut Fitting, stop: Stop) -> Result<(), WriteError> {
    if let (Stop::Filtered { category, detail }, Some(draft)) = (&stop, &session.step.draft)
        && !draft.has_text()
        && draft.complete_calls().next().is_none()
    {
        let provider = draft.model().map_or("", ModelId::provider);
        let error = ProviderError::filtered(provider, category, detail).with_cause(Cause::ErrorFinish);
        return fail(session, fitting, &error, None).await;
    }
    let bytes_max = session.env.agent.limits.draft_bytes_max;
    if stop == Stop::Length && session.step.draft.as_ref().is_some_and(|draft| draft.weight() > bytes_max) {
        // It was cut here: the provider has not reported its usage, and may go on.
        let attempted = end_attempt(session, fitting, AttemptOutcome::Lost);
        return seal(session, stop, attempted.map(EndedAttempt::fact)).await;
    }
    session.step.background = None; // It is over.
    let attempted = end_attempt(session, fitting, AttemptOutcome::Answered);
    compaction::learn_from_draft(session, fitting);
    seal(session, stop, attempted.map(EndedAttempt::fact)).await
}

/// Commits the draft as the step's reply.
async fn seal(session: &mut ChatSession, stop: Stop, attempted: Option<Fact>) -> Result<(), WriteError> {
    let limit = session.context_limit();
    let ended = session.step.ended_at(session.now());
    let mut draft = session.step.draft.take().expect("an attempt was made");
    if stop != Stop::Length {
        draft.mend(toolbox::repaired);
    }
    let reply = draft.seal(stop, ended, limit).expect("an attempt was made");
    let shelf = session.shelf();
    let permits = CallPermits::of(session);
    let opened: BTreeMap<CallUid, CallOpening> = reply
        .calls()
        .filter(|call| call.whole || permits.leaves(&shelf, call))
        .map(|call| (call.uid, permits.open(&shelf, call)))
        .collect();
    let delegates: BTreeSet<CallUid> =
        reply.calls().filter(|call| shelf.delegates(call)).map(|call| call.uid).collect();
    session
        .change(|change| {
            if let Some(attempted) = attempted {
                change.fact(attempted);
            }
            let opening = |call: &Call| opened.get(&call.uid).cloned().unwrap_or(CallState::Ready.into());
            change.reply_with(reply, opening, |call| delegates.contains(&call.uid))
        })
        .await
}

/// Commits the calls that came whole as the reply, and takes back the others. No model is asked again.
pub(crate) async fn salvage(
    session: &mut ChatSession,
    retract: Vec<u16>,
    attempted: Option<Fact>,
) -> Result<(), WriteError> {
    let at = session.now();
    let draft = session.step.draft.as_mut().expect("there are calls to salvage");
    draft.forget_response(); // Its end was not seen: it may hold calls that were never heard of here.
    let step = draft.step();
    let mut rows = Vec::new();
    for ordinal in retract {
        let delta = Delta::RetractCall { ordinal };
        let seq = draft.push(at, &delta).expect("the call is in the draft");
        rows.push(JournalRow { step, seq, at, delta: Arc::new(delta) });
    }
    session.append(rows).await?;
    seal(session, Stop::ToolUse, attempted).await
}

/// Ends the turn with an error. What was shown stays.
pub(crate) async fn fail(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    error: &ProviderError,
    attempted: Option<Fact>,
) -> Result<(), WriteError> {
    let outcome = AttemptOutcome::Broke(error.cause, error.kind);
    let attempted = attempted.or_else(|| end_attempt(session, fitting, outcome).map(EndedAttempt::fact));
    let reply = give_up_draft(session, Stop::Broken);
    let attempts = session.chat.tried.attempts + u32::from(attempted.is_some());
    let failure = TurnFailure { kind: error.kind, message: error.to_string(), detail: error.detail.clone(), attempts };
    session
        .change(|change| {
            if let Some(attempted) = attempted {
                change.fact(attempted);
            }
            change.fail(reply, failure)
        })
        .await
}

/// Ends an interrupted step: keeps what was shown, answers the open calls.
pub(crate) async fn settle(session: &mut ChatSession, fitting: &mut Fitting) -> Result<(), WriteError> {
    rest::let_go_all(session).await;
    let delegated = rest::delegated(session).await?;
    let attempted = end_attempt(session, fitting, AttemptOutcome::Interrupted).map(EndedAttempt::fact);
    let reply = give_up_draft(session, Stop::Interrupted);
    session
        .change(|change| {
            if let Some(attempted) = attempted {
                change.fact(attempted);
            }
            if let Some(delegated) = delegated {
                change.fact(delegated);
            }
            change.settle(reply)
        })
        .await
}

/// Ends the turn.
pub(crate) async fn finish(session: &mut ChatSession, fitting: &mut Fitting, end: TurnEnd) -> Result<(), WriteError> {
    rest::let_go_all(session).await;
    let delegated = rest::delegated(session).await?;
    let attempted = end_attempt(session, fitting, AttemptOutcome::Lost).map(EndedAttempt::fact);
    let reply = give_up_draft(session, Stop::Broken);
    session
        .change(|change| {
            if let Some(attempted) = attempted {
                change.fact(attempted);
            }
            if let Some(delegated) = delegated {
                change.fact(delegated);
            }
            change.stop(reply, end)
        })
        .await
}

/// The draft as a reply that did not come to its end, if it says anything.
fn give_up_draft(session: &mut ChatSession, stop: Stop) -> Option<Reply> {
    let limit = session.context_limit();
    let ended = session.step.ended_at(session.now());
    let reply = session.step.draft.take().and_then(|draft| draft.seal(stop, ended, limit));
    reply.filter(|reply| !reply.parts.is_empty())
}

/// The fact that the next attempt waits.
pub(crate) fn wait_fact(until: Timestamp, error: &ProviderError, attempt: u32) -> Fact {
    Fact::Waits(Box::new(RetryWait { until, kind: error.kind, message: error.to_string(), attempt }))
}
