//! Log lines about failures, and what is done about them.
//!
//! A recovered turn looks like any other, and a failed one shows its error to its reader alone. So each failed attempt,
//! retry, recovery, takeover, handover and failed turn is one line, with what happens next. Like spans and metrics they are
//! made of commits: what is logged has happened. No line holds text of people or models.

use everturn_core::chat::{Chat, TurnEnd};
use everturn_core::delta::{AttemptBegan, Rung};
use everturn_core::error::Cause;
use everturn_core::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord, Fact};
use everturn_core::ids::{ModelId, Timestamp};
use everturn_core::message::Body;
use tracing::field::display;

use crate::observe::metrics::labels;

/// A commit was written at `at`. `before` is the chat before it, `asked` the model of its step.
pub(crate) fn committed(before: &Chat, facts: &[Fact], at: Timestamp, asked: impl Fn() -> Option<ModelId>) {
    for fact in facts {
        match fact {
            Fact::Attempted(row, _) => attempted(before, row, facts, at),
            Fact::Waits(_) if !facts.iter().any(|fact| matches!(fact, Fact::Attempted(..))) => waits(before, facts, at),
            Fact::TurnEnded(end) => ended(before, end, asked()),
            _ => {}
        }
    }
}

fn attempted(before: &Chat, row: &AttemptRecord, facts: &[Fact], at: Timestamp) {
    let (chat, turn, step, attempt, model) = (before.id, turn(before), row.step.0, row.number, &row.model);
    let aim = row.aim.label();
    match row.outcome {
        AttemptOutcome::Broke(Cause::Resumed, kind) => {
            let (kind, cause, next) = (kind.label(), Cause::Resumed.label(), next(before, facts, at));
            tracing::info!(%chat, turn, step, attempt, %model, aim, kind, cause, next, "attempt of another process found");
        }
        AttemptOutcome::Broke(cause, kind) => {
            let (kind, cause, next) = (kind.label(), cause.label(), next(before, facts, at));
            let why = why(facts);
            tracing::warn!(%chat, turn, step, attempt, %model, aim, kind, cause, why, next, "attempt failed");
        }
        AttemptOutcome::Answered => match row.aim {
            AttemptPurpose::Answer(rung) if rung != Rung::First => {
                tracing::info!(%chat, turn, step, attempt, %model, rung = rung.label(), "answer recovered");
            }
            AttemptPurpose::Answer(_) | AttemptPurpose::Summary | AttemptPurpose::Unknown => {}
        },
        AttemptOutcome::Interrupted | AttemptOutcome::Lost => {}
    }
}

fn waits(before: &Chat, facts: &[Fact], at: Timestamp) {
    let (chat, turn, step, attempt) = (before.id, turn(before), before.step.0, before.tried.attempts);
    let (why, next) = (why(facts), next(before, facts, at));
    tracing::info!(%chat, turn, step, attempt, why, next, "attempt held back: its credential or model fails for all chats");
}

fn ended(before: &Chat, end: &TurnEnd, model: Option<ModelId>) {
    let model = model.map(display);
    let (chat, turn, step) = (before.id, turn(before), before.step.0);
    let next = "the chat rests until it is sent a message";
    match end {
        TurnEnd::Failed(failure) => {
            let (kind, attempt) = (failure.kind.label(), failure.attempts);
            let (why, detail) = (&failure.message, &failure.detail);
            tracing::warn!(%chat, turn, step, attempt, model, kind, why, detail, next, "turn failed");
        }
        TurnEnd::StepsMax | TurnEnd::TimeMax | TurnEnd::TokensMax | TurnEnd::CostMax | TurnEnd::SameCallMax => {
            tracing::warn!(%chat, turn, step, model, limit = labels::end(end), next, "turn ended at a limit");
        }
        TurnEnd::Done
        | TurnEnd::StopAfter(_)
        | TurnEnd::Interrupted
        | TurnEnd::Length
        | TurnEnd::Filtered
        | TurnEnd::Empty => {}
    }
}

/// An attempt begins. The first of a step is not logged.
pub(crate) fn attempt_began(before: &Chat, began: &AttemptBegan, cause: Cause) {
    if began.rung == Rung::First {
        return;
    }
    let (chat, turn, step, attempt) = (before.id, turn(before), before.step.0, began.number);
    let (model, rung, cause) = (&began.model, began.rung.label(), cause.label());
    tracing::info!(%chat, turn, step, attempt, %model, rung, cause, "attempt after a failure");
}

/// A turn of another process was taken over.
pub(crate) fn took_over(before: &Chat, is_half_said: bool) {
    let (chat, turn, step) = (before.id, turn(before), before.step.0);
    tracing::info!(%chat, turn, step, is_half_said, "turn taken over from another process");
}

/// A turn was left for another process.
pub(crate) fn handed_over(before: &Chat) {
    let (chat, step) = (before.id, before.step.0);
    if let Some(turn) = turn(before) {
        tracing::info!(%chat, turn, step, next = "another process, or this one after its restart, goes on", "turn handed over");
    }
}

/// The turn, by its first step.
fn turn(chat: &Chat) -> Option<u64> {
    chat.turn.as_ref().map(|turn| turn.first.0)
}

/// Why a commit waits or fails.
fn why(facts: &[Fact]) -> Option<&str> {
    facts.iter().find_map(|fact| match fact {
        Fact::Waits(wait) => Some(wait.message.as_str()),
        Fact::TurnEnded(TurnEnd::Failed(failure)) => Some(failure.message.as_str()),
        _ => None,
    })
}

/// What happens after a commit with a failed attempt.
fn next(before: &Chat, facts: &[Fact], at: Timestamp) -> String {
    let tried = facts.iter().find_map(|fact| match fact {
        Fact::Attempted(_, tried) | Fact::Tried(tried) => Some(tried),
        _ => None,
    });
    for fact in facts {
        match fact {
            Fact::Waits(wait) => return format!("asks again in {} ms", wait.until.since(at).as_millis()),
            Fact::TurnEnded(_) => return "the turn ends".into(),
            Fact::Said(message, _) if matches!(message.body, Body::Reply(_)) => {
                return "runs the tool calls that arrived whole".into();
            }
            Fact::Said(message, _) if matches!(message.body, Body::Summary(_)) => return "goes on".into(),
            _ => {}
        }
    }
    match tried {
        Some(tried) if tried.model > before.tried.model => "asks the next model".into(),
        Some(tried) if tried.without_chain && !before.tried.without_chain => {
            "asks again with the whole transcript".into()
        }
        Some(tried) if tried.without_media && !before.tried.without_media => "asks again without files".into(),
        Some(_) | None => "asks again at once".into(),
    }
}
