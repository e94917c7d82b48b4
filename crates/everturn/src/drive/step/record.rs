//! The row of an attempt: what it used, what that cost, and what is left to try.

use std::time::Duration;

use everturn_core::chat::{Compacting, StepAttempts};
use everturn_core::context::PromptSize;
use everturn_core::cost::{Micros, Price, StreamEnd};
use everturn_core::delta::Rung;
use everturn_core::draft::Draft;
use everturn_core::error::Cause;
use everturn_core::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord, Fact};
use everturn_core::ids::ModelId;
use everturn_core::retry::RetrySpent;

use crate::drive::compaction::Fitting;
use crate::drive::session::{ChatSession, Environment};
use crate::drive::step::recovery;
use crate::drive::step::request::prepare;

/// An attempt that has ended, and is not committed yet.
pub(crate) struct EndedAttempt {
    pub(crate) row: Box<AttemptRecord>,
    pub(crate) tried: StepAttempts,
    pub(crate) sent: SentContent,
}

/// What the request of an attempt held, as far as a refusal may be due to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SentContent {
    /// Whether it referred to the provider's copy of the transcript.
    pub(crate) chain: bool,
    pub(crate) media: bool,
}

impl EndedAttempt {
    pub(crate) fn fact(self) -> Fact {
        Fact::Attempted(self.row, self.tried)
    }
}

/// The row of the draft's attempt, if it has none yet. Also of a background generation that was never billed.
pub(crate) fn end_attempt(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    outcome: AttemptOutcome,
) -> Option<EndedAttempt> {
    let tried = &session.chat.tried;
    let unrecorded = session.step.unrecorded(tried);
    let is_unrecorded = unrecorded.is_some();
    let began = unrecorded.or_else(|| session.step.unbilled(tried))?;
    let (tokens, sent) = measure_request(session, fitting);
    let draft = session.step.draft.as_ref()?;
    let end = match outcome.end() {
        StreamEnd::Refused if began.rung == Rung::Reattach => StreamEnd::Broken, // Only hearing the rest was refused.
        end => end,
    };
    let tally = draft.usage().settle(end, tokens, draft.generation_bytes() as u64);
    let spend = tally.cost(&price_of(&session.env, &began.model));
    let ended = session.step.ended_at(session.now());
    let began_at = if is_unrecorded { draft.current_began() } else { ended };
    let spent = spent(session, outcome, ended.since(draft.newest_at()), spend.total());
    let tried = StepAttempts { attempts: began.number, spent, unbilled_attempt: false, ..session.chat.tried };
    let row = AttemptRecord {
        step: draft.step(),
        number: began.number,
        model: began.model,
        aim: AttemptPurpose::Answer(began.rung),
        began: began_at,
        took: ended.since(began_at),
        tally,
        spend,
        outcome,
    };
    Some(EndedAttempt { row: Box::new(row), tried, sent })
}

/// The row of a background generation that is given up unread, if the draft has one.
pub(crate) fn abandon_generation(session: &mut ChatSession, fitting: &mut Fitting) -> Option<Fact> {
    session.step.unbilled(&session.chat.tried)?;
    end_attempt(session, fitting, AttemptOutcome::Lost).map(EndedAttempt::fact)
}

/// About how many tokens were sent, and what was among them.
fn measure_request(session: &mut ChatSession, fitting: &mut Fitting) -> (u64, SentContent) {
    let Ok(target) = session.target() else { return (0, SentContent::default()) };
    let prepared = prepare(session, fitting, target);
    let request = prepared.request(session, fitting);
    // A continuation is sent with what was said before it.
    let said_before = session.step.draft.as_ref().map_or(0, Draft::said_before_bytes);
    let tokens = fitting.gauge.tokens(PromptSize::text(request.bytes() + said_before));
    (tokens, SentContent { chain: request.chain.is_some(), media: request.entries.have_media() })
}

/// What the step has spent on failures, counting an attempt that was silent for this long at its end.
fn spent(session: &ChatSession, outcome: AttemptOutcome, silent: Duration, cost: Micros) -> RetrySpent {
    let spent = session.chat.tried.spent;
    match outcome {
        AttemptOutcome::Broke(Cause::Resumed, _) => spent.resumed(cost),
        AttemptOutcome::Broke(cause, _) => {
            spent.failed(recovery::progress(session, cause), silent, cost, &session.env.agent.limits.retry)
        }
        AttemptOutcome::Lost => spent.paid(cost), // It was counted when it broke.
        AttemptOutcome::Answered | AttemptOutcome::Interrupted => spent,
    }
}

/// The row of a summary.
pub(crate) fn summary_row(
    session: &ChatSession,
    compacting: &Compacting,
    draft: &Draft,
    took: Duration,
    outcome: AttemptOutcome,
) -> Box<AttemptRecord> {
    let Compacting { began, model, tokens, .. } = compacting.clone();
    let tally = draft.usage().settle(outcome.end(), tokens, draft.bytes() as u64);
    let spend = tally.cost(&price_of(&session.env, &model));
    let number = session.chat.tried.attempts + 1;
    Box::new(AttemptRecord {
        step: session.chat.step,
        number,
        model,
        aim: AttemptPurpose::Summary,
        began,
        took,
        tally,
        spend,
        outcome,
    })
}

fn price_of(env: &Environment, model: &ModelId) -> Price {
    let facts = env.shared.providers.get(model.provider()).map(|provider| provider.facts(model.name()));
    facts.and_then(|facts| facts.price).unwrap_or_default()
}
