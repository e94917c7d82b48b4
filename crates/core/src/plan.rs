//! What to do next.
//!
//! One pure question, asked after a commit, after a crash and after a takeover alike. So recovery is not a code path: a
//! driver that just started and one that just committed look at the same chat and get the same answer.

use crate::chat::{Chat, TranscriptTail, Turn, TurnEnd};
use crate::draft::Draft;
use crate::ids::Timestamp;
use crate::limits::Limits;
use crate::status::Status;

/// The next thing a driver does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until a message arrives.
    Rest,
    /// Keep waiting, until the answers arrive or the deadline passes.
    Await,
    /// Put the next queued message, or all that steer, into the transcript.
    Begin,
    /// Ask the model.
    CallModel,
    /// Ask the model once more: it said nothing.
    Reask,
    /// Run the calls that may run.
    RunCalls,
    /// Look what became of the calls that go on elsewhere, when it is time to.
    Look,
    /// Begin to wait for answers: every call left needs a client or a person, or rests.
    Ask,
    /// Summarise.
    Compact,
    /// Keep the interrupted draft, answer open calls.
    Settle,
    /// End the turn.
    Finish(TurnEnd),
}

/// What the driver of `chat` does next. `draft` is the open step's draft.
#[must_use]
pub fn plan(chat: &Chat, draft: Option<&Draft>, limits: &Limits, now: Timestamp) -> Next {
    match chat.status {
        Status::Idle if !chat.queue.is_empty() && !chat.archived => Next::Begin,
        Status::Idle | Status::Failed => Next::Rest,
        Status::Awaiting if chat.calls.iter().any(|call| call.state.rests()) => Next::Look,
        Status::Awaiting => Next::Await,
        Status::Interrupting => Next::Settle,
        Status::Running => running(chat, draft, limits, now),
    }
}

fn running(chat: &Chat, draft: Option<&Draft>, limits: &Limits, now: Timestamp) -> Next {
    let Some(turn) = &chat.turn else {
        return Next::Begin;
    };
    let is_late = turn.worked(now) >= limits.turn_time_max;
    if is_late && (!chat.calls.is_empty() || chat.compaction_asked) {
        return Next::Finish(TurnEnd::TimeMax); // Nothing more begins, and whatever ran was stopped.
    }
    if chat.calls.iter().any(|call| chat.may_run(call, limits)) {
        return Next::RunCalls;
    }
    if chat.waits_for_people() {
        return Next::Ask;
    }
    if !chat.calls.is_empty() {
        return Next::Look;
    }
    if chat.compaction_asked {
        return Next::Compact;
    }
    if let Some(tool) = &turn.stop_after {
        return Next::Finish(TurnEnd::StopAfter(tool.clone()));
    }
    // A turn at its limit asks the model no more: messages that steer stay queued and begin the next turn.
    let over = over(turn, limits, now);
    let steered = over.is_none() && chat.queue.iter().any(|queued| queued.steers);
    // Not between two attempts at one answer: its continuation would look like an answer to the new message.
    let half_said = draft.is_some_and(Draft::is_half_said);
    match chat.tail {
        TranscriptTail::StoppedReply => Next::Finish(TurnEnd::Done), // Only a summary was asked for.
        TranscriptTail::Nothing
        | TranscriptTail::Input
        | TranscriptTail::Reply
        | TranscriptTail::CutReply
        | TranscriptTail::FilteredReply
        | TranscriptTail::EmptyReply
            if steered && !half_said =>
        {
            Next::Begin
        }
        TranscriptTail::Reply => Next::Finish(TurnEnd::Done),
        TranscriptTail::CutReply => Next::Finish(TurnEnd::Length),
        TranscriptTail::FilteredReply => Next::Finish(TurnEnd::Filtered),
        TranscriptTail::EmptyReply if turn.reasked => Next::Finish(TurnEnd::Empty),
        TranscriptTail::EmptyReply => over.map_or(Next::Reask, Next::Finish),
        TranscriptTail::Nothing => Next::Finish(TurnEnd::Done),
        TranscriptTail::Input => over.map_or(Next::CallModel, Next::Finish),
    }
}

/// The bound a turn has reached, if any.
fn over(turn: &Turn, limits: &Limits, now: Timestamp) -> Option<TurnEnd> {
    let bounds = [
        (turn.steps >= limits.steps_max, TurnEnd::StepsMax),
        (is_stuck(turn, limits), TurnEnd::SameCallMax),
        (turn.worked(now) >= limits.turn_time_max, TurnEnd::TimeMax),
        (turn.tokens >= limits.turn_tokens_max, TurnEnd::TokensMax),
        (turn.cost >= limits.turn_cost_max, TurnEnd::CostMax),
    ];
    bounds.into_iter().find_map(|(reached, end)| reached.then_some(end))
}

/// Whether a turn repeats itself: as often as one of the tools it calls may be.
fn is_stuck(turn: &Turn, limits: &Limits) -> bool {
    let bound = turn.repeats.tools.iter().map(|tool| limits.same_call_max_of(tool)).min();
    turn.repeats.times >= bound.unwrap_or(limits.same_call_max)
}

#[cfg(test)]
mod tests;
