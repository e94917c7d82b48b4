//! A driver that throws dice.
//!
//! A chat, a store and a client must hold their promises whatever a driver does, in any order. The real one needs an
//! engine, providers and time; this one asks the same questions ([`plan`], [`check`]), makes the same changes, and takes
//! everything it would have to wait for from a number. So a whole life of a chat is a list of numbers, and a test that
//! fails shrinks it to a short list of small ones: 0 is always the dullest choice.
//!
//! The unit tests of the core compile it as a module of their own: the core that they test is not the one that this crate
//! is built with.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::chat::{
    AskDetail, CallOpening, CallState, Chat, Compacting, Effect, OpenCall, RetryWait, StepAttempts, TurnEnd,
    TurnFailure,
};
use everturn_core::command::{Command, InboxCommand, check};
use everturn_core::cost::{Price, StreamEnd};
use everturn_core::delta::Delta;
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind};
use everturn_core::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord, Fact};
use everturn_core::ids::{MessageId, ModelId, Seq, Timestamp};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, Call, CallResult, CallVerdict, Meta, Output, Reply, Stop, Summary, SummarySource};
use everturn_core::plan::{Next, plan};

mod dice;
pub mod sample;
mod stage;
mod stream;
mod wish;

pub use dice::Dice;
pub use stage::Stage;
pub use wish::wish;

/// What a driver does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// Nothing: the chat waits for a command or an answer.
    Rest,
    /// The draft grows. Each delta fits behind the one before.
    Journal(Vec<Delta>),
    /// A change.
    Commit(Vec<Fact>),
}

/// Bounds so small that a short rehearsal meets all of them.
#[must_use]
pub fn tiny_limits() -> Limits {
    Limits { steps_max: 4, same_call_max: 2, queue_len_max: 3, compactions_max: 2, ..Limits::default() }
}

/// What the driver of `chat` does at `at`. `draft` is the open draft.
#[must_use]
pub fn deed(chat: &Chat, draft: Option<&Draft>, limits: &Limits, at: Timestamp, dice: &mut Dice) -> Deed {
    let mut change = Change::new(chat, at);
    match plan(chat, draft, limits, at) {
        Next::Rest => return Deed::Rest,
        Next::Await if dice.below(4) < 3 => return Deed::Rest,
        Next::Await => change.expire(),
        Next::Begin => change.begin(),
        Next::CallModel => return call_model(change, chat, draft, at, dice),
        Next::Reask => change.fact(Fact::Reasked).say(Body::Context("say something".into())),
        Next::RunCalls => run_call(&mut change, chat, at, dice),
        Next::Look => match look(&mut change, chat, limits, at, dice) {
            Some(change) => change,
            None => return Deed::Rest,
        },
        Next::Ask => change.ask(at + limits.awaiting_max),
        Next::Compact => compact(&mut change, chat, at, dice),
        Next::Settle => {
            attempted(&mut change, chat, draft, at, AttemptOutcome::Interrupted);
            change.settle(kept(draft, Stop::Interrupted, at))
        }
        Next::Finish(end) => {
            attempted(&mut change, chat, draft, at, AttemptOutcome::Lost);
            change.stop(kept(draft, Stop::Broken, at), end)
        }
    };
    Deed::Commit(change.facts())
}

/// What a driver makes of a command.
#[must_use]
pub fn obey(
    chat: &Chat,
    draft: Option<&Draft>,
    inbound: &InboxCommand,
    is_users: impl Fn(MessageId) -> bool,
    at: Timestamp,
) -> Vec<Fact> {
    let mut change = Change::new(chat, at);
    let verdict = check(chat, &inbound.command, is_users);
    if verdict.is_ok() && matches!(inbound.command, Command::Edit { .. }) {
        attempted(&mut change, chat, draft, at, AttemptOutcome::Lost);
    }
    change.obey(inbound, verdict);
    change.facts()
}

/// One attempt, piece by piece: it begins, it goes on, and at some point it is over in one way or another.
fn call_model(mut change: Change<'_>, chat: &Chat, draft: Option<&Draft>, at: Timestamp, dice: &mut Dice) -> Deed {
    let Some(streaming) = draft.filter(|draft| stream::is_open(draft, chat)) else {
        return match dice.below(8) {
            6 if chat.briefed < chat.step => {
                change.say(Body::Context("it is raining".into())).fact(Fact::Briefed);
                Deed::Commit(change.facts())
            }
            5 => {
                change.fact(Fact::Inherited(draft.map_or(Seq(0), Draft::seq)));
                Deed::Commit(change.facts())
            }
            7 => {
                summarise(&mut change, chat, at, SummarySource::Automatic);
                Deed::Commit(change.facts())
            }
            _ => Deed::Journal(stream::begin(draft, chat, dice)),
        };
    };
    match dice.below(8) {
        0..=3 => return Deed::Journal(stream::more(streaming, dice)),
        4 | 5 => {
            attempted(&mut change, chat, draft, at, AttemptOutcome::Answered);
            let stop = stream::stop(streaming, dice);
            let reply = streaming.clone().seal(stop, at, Some(1_000)).expect("an attempt was made");
            let states = [CallState::Ready, CallState::AsksClient, CallState::AsksApproval];
            let first = dice.below(3) as usize;
            change.reply(reply, |call| match call.whole {
                true => match states[(first + usize::from(call.uid.ordinal)) % states.len()] {
                    CallState::AsksApproval => CallOpening::Ask(ask_detail(call)),
                    state => state.into(),
                },
                false => CallState::Ready.into(),
            });
        }
        6 => {
            attempted(&mut change, chat, draft, at, AttemptOutcome::Broke(Cause::Reset, ErrorKind::Timeout));
            let wait = RetryWait {
                until: at,
                kind: ErrorKind::Timeout,
                message: "reset".into(),
                attempt: chat.tried.attempts,
            };
            match dice.below(3) {
                0 => change.fact(Fact::Waits(Box::new(wait))),
                1 => change.fact(Fact::Overflowed),
                _ => {
                    change.fact(Fact::Tried(StepAttempts { attempts: chat.tried.attempts + 1, model: 1, ..chat.tried }))
                }
            };
        }
        _ => {
            attempted(&mut change, chat, draft, at, AttemptOutcome::Broke(Cause::Refused, ErrorKind::Auth));
            change.fail(kept(draft, Stop::Broken, at), failure());
        }
    }
    Deed::Commit(change.facts())
}

/// Every other call may be granted.
fn ask_detail(call: &Call) -> Arc<AskDetail> {
    let grant = call.uid.ordinal.is_multiple_of(2).then(|| call.tool.clone());
    let (basis, terms) = ("policy of the tool".into(), "terms".into());
    Arc::new(AskDetail { basis, effect: Effect::Once, path: None, confinement: None, grant, terms })
}

fn failure() -> TurnFailure {
    TurnFailure { kind: ErrorKind::Auth, message: "no".into(), detail: "not you".into(), attempts: 1 }
}

/// Looks what became of a call that goes on elsewhere. `None` while there is nothing to do.
fn look<'c, 'a>(
    change: &'c mut Change<'a>,
    chat: &Chat,
    limits: &Limits,
    at: Timestamp,
    dice: &mut Dice,
) -> Option<&'c mut Change<'a>> {
    if chat.awaits_until.is_none() {
        return Some(change.await_calls(at + limits.awaiting_max));
    }
    let resting: Vec<&OpenCall> = chat.calls.iter().filter(|open| open.state.rests()).collect();
    let open = *dice.pick(&resting).expect("the plan saw a call that rests");
    match dice.below(6) {
        0 | 1 => None,
        2 => Some(change.expire()),
        3 => Some(change.fact(rested(open, at))),
        more => {
            let verdict = if more == 4 { CallVerdict::Done } else { CallVerdict::Unknown };
            let result = CallResult::new(open.uid, &open.tool, verdict, Output::text("found elsewhere"), at);
            Some(change.ended_elsewhere(CallResult { began: open.began(), ..result }))
        }
    }
}

fn rested(open: &OpenCall, at: Timestamp) -> Fact {
    let look_at = at + Duration::from_secs(5);
    Fact::Rested { call: open.uid, handle: r#"{"job":1}"#.into(), at, look_at, misses: 0 }
}

/// Starts a call, or brings one back; in whatever order.
fn run_call<'c, 'a>(change: &'c mut Change<'a>, chat: &Chat, at: Timestamp, dice: &mut Dice) -> &'c mut Change<'a> {
    let may_run = chat.calls.iter().filter(|open| !open.state.asks() && !open.state.rests());
    let may_run: Vec<&OpenCall> = may_run.collect();
    let open = *dice.pick(&may_run).expect("the plan saw a call to run");
    let began = match open.state {
        CallState::Started { .. } if dice.below(4) == 3 => return change.fact(rested(open, at)),
        CallState::Started { at, .. } => Some(at),
        _ if dice.below(3) > 0 => {
            let effect = [Effect::Once, Effect::Read, Effect::Idempotent][dice.below(3) as usize];
            return change.fact(Fact::Started { call: open.uid, effect, at });
        }
        _ => None, // An unknown tool, or an input that does not fit: never started.
    };
    let verdict = [CallVerdict::Done, CallVerdict::Error, CallVerdict::Unknown][dice.below(3) as usize];
    let (tool, output, meta) = (open.tool.clone(), Output::text("found"), Meta::new());
    change.result(CallResult { call: open.uid, tool, verdict, output, began, ended: at, meta });
    match verdict == CallVerdict::Done && dice.below(5) == 4 {
        true => change.fact(Fact::StopAfter(open.tool.clone())),
        false => change,
    }
}

/// A requested summary: it was made, there was nothing to summarise, or it failed.
fn compact<'c, 'a>(change: &'c mut Change<'a>, chat: &Chat, at: Timestamp, dice: &mut Dice) -> &'c mut Change<'a> {
    match dice.below(4) {
        0 | 1 => summarise(change, chat, at, SummarySource::Asked),
        2 => change.finish(TurnEnd::Done),
        _ => change.fail(None, failure()),
    }
}

/// Says that a summary is being written; the next time, that it is.
fn summarise<'c, 'a>(
    change: &'c mut Change<'a>,
    chat: &Chat,
    at: Timestamp,
    source: SummarySource,
) -> &'c mut Change<'a> {
    if chat.compacting.is_none() {
        let compacting = Compacting { began: at, model: model(), source, tokens: 900 };
        return change.fact(Fact::Compacts(Box::new(compacting)));
    }
    let (text, newest_user, runtime) = ("so far".into(), Vec::new(), Duration::from_millis(7));
    let summary = Summary { text, newest_user, source, tokens_before: 900, runtime };
    change.fact(row(chat, at, (chat.tried.attempts + 1, AttemptPurpose::Summary), AttemptOutcome::Answered));
    change.say_as(Body::Summary(Box::new(summary)), chat.tail)
}

/// What of a draft is worth keeping though it never came to its end.
fn kept(draft: Option<&Draft>, stop: Stop, at: Timestamp) -> Option<Reply> {
    let reply = draft.cloned().and_then(|draft| draft.seal(stop, at, None));
    reply.filter(|reply| !reply.parts.is_empty())
}

/// Adds the row of the draft's attempt, if it has none yet.
fn attempted(change: &mut Change<'_>, chat: &Chat, draft: Option<&Draft>, at: Timestamp, outcome: AttemptOutcome) {
    if let Some(began) = draft.filter(|draft| stream::is_open(draft, chat)).and_then(Draft::current) {
        change.fact(row(chat, at, (began.number, AttemptPurpose::Answer(began.rung)), outcome));
    }
}

fn row(chat: &Chat, at: Timestamp, (number, aim): (u32, AttemptPurpose), outcome: AttemptOutcome) -> Fact {
    let end = if outcome == AttemptOutcome::Answered { StreamEnd::Finished } else { StreamEnd::Broken };
    let tally = everturn_core::cost::UsageReport::default().settle(end, 30, 6);
    let (model, took, spend) = (model(), Duration::from_millis(4), tally.cost(&Price::default()));
    let attempted = AttemptRecord { step: chat.step, number, model, aim, began: at, took, tally, spend, outcome };
    Fact::Attempted(Box::new(attempted), StepAttempts { attempts: number, ..chat.tried })
}

fn model() -> ModelId {
    "understudy/dice".parse().expect("a provider and a name")
}
