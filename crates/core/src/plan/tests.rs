use std::time::Duration;

use super::*;
use crate::change::Change;
use crate::chat::{CallState, Effect, OpenCall, QueuedMessage, RepeatedCalls};
use crate::cost::Micros;
use crate::delta::{Delta, GenerationHandle};
use crate::fact::Fact;
use crate::ids::{CallUid, InboxSeq, StepId};
use crate::message::{Body, CallResult, CallVerdict, Meta, Output};
use crate::rehearsal::Stage;
use crate::rehearsal::sample::{chat_id, draft, text, words};

const NOW: Timestamp = Timestamp(1_000);

const TAILS: [TranscriptTail; 7] = [
    TranscriptTail::Nothing,
    TranscriptTail::Input,
    TranscriptTail::Reply,
    TranscriptTail::CutReply,
    TranscriptTail::FilteredReply,
    TranscriptTail::EmptyReply,
    TranscriptTail::StoppedReply,
];

fn limits() -> Limits {
    Limits {
        steps_max: 10,
        same_call_max: 3,
        turn_time_max: Duration::from_millis(500),
        turn_tokens_max: 100,
        turn_cost_max: Micros(50),
        ..Limits::default()
    }
}

fn fresh_turn() -> Turn {
    Turn { began: NOW, ..Turn::default() }
}

fn repeated(times: u32) -> RepeatedCalls {
    RepeatedCalls { times, tools: vec!["look".into(), "poll".into()], ..RepeatedCalls::default() }
}

/// A bound of its own lets a tool be called more often, or less; of tools that are called together the least patient counts.
#[test]
fn a_tool_may_have_a_bound_of_its_own() {
    let end = |limits: &Limits, tool: &str, times| {
        let repeats = RepeatedCalls { times, tools: vec![tool.into()], ..RepeatedCalls::default() };
        over(&Turn { repeats, ..fresh_turn() }, limits, NOW)
    };
    let mut limits = limits();
    limits.same_call_max_by_tool = [("poll".to_string(), 9), ("pay".to_string(), 2)].into();
    assert_eq!((end(&limits, "poll", 8), end(&limits, "poll", 9)), (None, Some(TurnEnd::SameCallMax)));
    assert_eq!((end(&limits, "pay", 1), end(&limits, "pay", 2)), (None, Some(TurnEnd::SameCallMax)));
    assert_eq!((end(&limits, "look", 2), end(&limits, "look", 3)), (None, Some(TurnEnd::SameCallMax)));
    let both = over(&Turn { repeats: repeated(3), ..fresh_turn() }, &limits, NOW);
    assert_eq!(both, Some(TurnEnd::SameCallMax), "one of them may not");
}

/// A turn at each bound, and one at none.
fn turns() -> Vec<(Option<TurnEnd>, Turn)> {
    vec![
        (None, Turn { steps: 9, repeats: repeated(2), tokens: 99, cost: Micros(49), ..fresh_turn() }),
        (Some(TurnEnd::StepsMax), Turn { steps: 10, ..fresh_turn() }),
        (Some(TurnEnd::SameCallMax), Turn { repeats: repeated(3), ..fresh_turn() }),
        (Some(TurnEnd::TimeMax), Turn { began: Timestamp(500), ..fresh_turn() }),
        (Some(TurnEnd::TokensMax), Turn { tokens: 100, ..fresh_turn() }),
        (Some(TurnEnd::CostMax), Turn { cost: Micros(50), ..fresh_turn() }),
    ]
}

fn open_calls(states: &[CallState]) -> Vec<OpenCall> {
    let open = |(i, state): (usize, &CallState)| OpenCall {
        uid: CallUid { step: StepId(1), ordinal: i as u16 },
        tool: "look".into(),
        input_hash: 7,
        state: *state,
        input: None,
        ask: None,
        progress: None,
        handle: None,
        delegates: false,
        asks_below: Vec::new(),
    };
    states.iter().enumerate().map(open).collect()
}

fn queue(steers: &[bool]) -> Vec<QueuedMessage> {
    let queued = |(i, steers): (usize, &bool)| QueuedMessage {
        id: InboxSeq(i as u64 + 1),
        at: NOW,
        parts: words("later"),
        steers: *steers,
        key: None,
    };
    steers.iter().enumerate().map(queued).collect()
}

fn running(tail: TranscriptTail, turn: Turn) -> Chat {
    Chat { status: Status::Running, tail, turn: Some(turn), ..Chat::new(chat_id(1), "agent", "") }
}

fn next(chat: &Chat) -> Next {
    plan(chat, None, &limits(), NOW)
}

/// A step of which nothing was tried, tried in vain, or answered in part; the last one's provider still has it.
fn drafts() -> [Option<Draft>; 4] {
    let handle = Delta::Handle(Box::new(GenerationHandle { id: "resp".into(), cursor: "1".into() }));
    [None, Some(draft(StepId(1), &[])), Some(draft(StepId(1), &[text("Hel")])), Some(draft(StepId(1), &[handle]))]
}

/// The rules in words, first match wins; what [`plan`] is compared with.
fn rule(chat: &Chat, half_said: bool, turn: &Turn, over: Option<TurnEnd>) -> Next {
    let steered = chat.queue.iter().any(|queued| queued.steers);
    let finish = |end| Next::Finish(end);
    let says_something = !matches!(chat.tail, TranscriptTail::StoppedReply);
    let is_late = over == Some(TurnEnd::TimeMax);
    let rules = [
        (is_late && (!chat.calls.is_empty() || chat.compaction_asked), finish(TurnEnd::TimeMax)),
        (chat.calls.iter().any(|call| !call.state.asks() && !call.state.rests()), Next::RunCalls),
        (chat.calls.iter().any(|call| call.state.asks()), Next::Ask),
        (!chat.calls.is_empty(), Next::Look),
        (chat.compaction_asked, Next::Compact),
        (turn.stop_after.is_some(), finish(TurnEnd::StopAfter(turn.stop_after.clone().unwrap_or_default()))),
        (steered && says_something && over.is_none() && !half_said, Next::Begin),
        (
            matches!(chat.tail, TranscriptTail::Nothing | TranscriptTail::Reply | TranscriptTail::StoppedReply),
            finish(TurnEnd::Done),
        ),
        (chat.tail == TranscriptTail::CutReply, finish(TurnEnd::Length)),
        (chat.tail == TranscriptTail::FilteredReply, finish(TurnEnd::Filtered)),
        (chat.tail == TranscriptTail::EmptyReply && turn.reasked, finish(TurnEnd::Empty)),
        (over.is_some(), finish(over.unwrap_or(TurnEnd::Done))),
        (chat.tail == TranscriptTail::EmptyReply, Next::Reask),
        (true, Next::CallModel),
    ];
    rules.into_iter().find_map(|(holds, next)| holds.then_some(next)).unwrap()
}

/// MC17–MC19, I17: every combination of tail, calls, queue, bound, draft, summary asked, stop-after and re-asking is
/// decided by the first rule that holds.
#[test]
fn the_first_rule_that_holds_decides() {
    use CallState::{AsksApproval, AsksClient, Ready};
    let started = CallState::Started { effect: Effect::Once, at: NOW };
    let rests = CallState::Rests { began: NOW, look_at: NOW, misses: 0 };
    let calls: [&[CallState]; 9] = [
        &[],
        &[Ready],
        &[started],
        &[AsksClient],
        &[AsksApproval, AsksClient],
        &[AsksClient, Ready],
        &[rests],
        &[rests, AsksApproval],
        &[rests, started],
    ];
    let queues: [&[bool]; 4] = [&[], &[false], &[true], &[false, true]];
    for (tail, states, steers) in product(&TAILS, &calls, &queues) {
        for (over, turn) in turns() {
            for bits in 0..8_u8 {
                let bit = |n: u8| bits & (1 << n) != 0;
                let stop_after = bit(0).then(|| "done".to_string());
                let turn = Turn { stop_after, reasked: bit(1), ..turn.clone() };
                let (calls, queue) = (open_calls(states), queue(steers));
                let chat = Chat { calls, queue, compaction_asked: bit(2), ..running(*tail, turn.clone()) };
                for (draft, half_said) in drafts().iter().zip([false, false, true, true]) {
                    let next = plan(&chat, draft.as_ref(), &limits(), NOW);
                    assert_eq!(next, rule(&chat, half_said, &turn, over.clone()), "{chat:#?}");
                }
            }
        }
    }
}

fn product<'t, A, B, C>(a: &'t [A], b: &'t [B], c: &'t [C]) -> impl Iterator<Item = (&'t A, &'t B, &'t C)> {
    a.iter().flat_map(move |a| b.iter().flat_map(move |b| c.iter().map(move |c| (a, b, c))))
}

/// CS09: every combination of status, archived and queue means something to the driver, reachable or not.
#[test]
fn every_status_has_its_next_act() {
    for (status, archived, steers) in product(&Status::ALL, &[false, true], &[&[] as &[bool], &[false]]) {
        let chat =
            Chat { status: *status, archived: *archived, queue: queue(steers), ..Chat::new(chat_id(1), "a", "") };
        let expected = match (status, archived, steers.is_empty()) {
            (Status::Idle, false, false) => Next::Begin, // No driver leaves a chat so, and nothing would wake it.
            (Status::Idle | Status::Failed, _, _) => Next::Rest,
            (Status::Awaiting, _, _) => Next::Await,
            (Status::Interrupting, _, _) => Next::Settle,
            (Status::Running, _, _) => Next::Begin, // Without a turn: the queued message begins one.
        };
        assert_eq!(next(&chat), expected, "{status:?} archived={archived} {steers:?}");
    }
}

/// A message that comes when the turn may not go on is not swallowed by it: the turn ends, and the message begins
/// the next one.
#[test]
fn a_steering_message_at_the_turns_bound_waits_for_the_next_turn() {
    for (end, turn) in turns().into_iter().skip(1) {
        let chat = Chat { queue: queue(&[true]), ..running(TranscriptTail::Input, turn.clone()) };
        assert_eq!(next(&chat), Next::Finish(end.unwrap()));
        let chat = Chat { queue: queue(&[true]), ..running(TranscriptTail::Reply, turn) };
        assert_eq!(next(&chat), Next::Finish(TurnEnd::Done), "the answer was whole");
    }
}

/// The bound is on work. A person may take a day to approve, and the turn still has its hours.
#[test]
fn waiting_for_people_uses_up_no_time() {
    let day = Duration::from_secs(24 * 60 * 60);
    let turn = Turn { rested: day, ..fresh_turn() };
    let chat = running(TranscriptTail::Input, turn);
    let after = |work: u64| plan(&chat, None, &limits(), NOW + day + Duration::from_millis(work));
    assert_eq!(after(499), Next::CallModel);
    assert_eq!(after(500), Next::Finish(TurnEnd::TimeMax));
}

/// MC17, MC18: a tool that ends turns ends it, also when the program said something to the model afterwards; and not
/// before its siblings have their results.
#[test]
fn a_stop_after_tool_is_seen_whatever_follows_it() {
    let mut stage = Stage::new(chat_id(1));
    stage.chat = running(TranscriptTail::Input, fresh_turn());
    stage.chat.calls = open_calls(&[CallState::Ready, CallState::Ready]);
    let result = |ordinal| {
        let (call, tool) = (CallUid { step: StepId(1), ordinal }, "look".into());
        let (verdict, output) = (CallVerdict::Done, Output::text("found"));
        CallResult { call, tool, verdict, output, began: None, ended: NOW, meta: Meta::new() }
    };
    stage.commit(&stage.change(|change| change.result(result(0)).fact(Fact::StopAfter("look".into()))));
    assert_eq!(next(&stage.chat), Next::RunCalls);
    stage.commit(&stage.change(|change| change.result(result(1))));
    stage.commit(&stage.change(|change| change.say(Body::Context("by the way".into()))));
    assert_eq!(next(&stage.chat), Next::Finish(TurnEnd::StopAfter("look".into())));
}

/// TA04: of the calls that ask sub-agents, so many run at once; the next begins when one has ended, also while a person is
/// asked beside them.
#[test]
fn sub_agents_are_held_back() {
    let limits = Limits { sub_agents_at_once_max: 2, ..limits() };
    let rests = CallState::Rests { began: NOW, look_at: NOW, misses: 0 };
    let chat = |states: &[CallState]| {
        let delegates = |open: OpenCall| OpenCall { delegates: !open.state.asks(), ..open };
        let calls = open_calls(states).into_iter().map(delegates).collect();
        Chat { calls, ..running(TranscriptTail::Input, fresh_turn()) }
    };
    let next = |states: &[CallState]| plan(&chat(states), None, &limits, NOW);
    assert_eq!(next(&[rests, CallState::Ready]), Next::RunCalls);
    assert_eq!(next(&[rests, rests, CallState::Ready]), Next::Look);
    assert_eq!(next(&[rests, rests, CallState::Ready, CallState::AsksClient]), Next::Ask);
    let started = CallState::Started { effect: Effect::Idempotent, at: NOW };
    assert_eq!(next(&[rests, rests, started]), Next::RunCalls, "one that a crash interrupted is not held back");

    let mut chat = chat(&[rests, rests, CallState::Ready, CallState::AsksClient]);
    chat.apply(&[Fact::Awaits { since: NOW, until: NOW + Duration::from_secs(9) }, Fact::Moved(Status::Awaiting)]);
    let ended = CallResult::new(chat.calls[0].uid, "ask", CallVerdict::Done, Output::text("done"), NOW);
    let facts = {
        let mut change = Change::new(&chat, NOW);
        change.ended_elsewhere(ended);
        change.facts()
    };
    chat.apply(&facts);
    assert_eq!(plan(&chat, None, &limits, NOW), Next::RunCalls);
    let third = chat.calls[1].uid;
    chat.apply(&[Fact::Started { call: third, effect: Effect::Idempotent, at: NOW }]);
    assert_eq!(chat.turn.as_ref().unwrap().sub_agents, 1);
    chat.apply(&[Fact::Started { call: third, effect: Effect::Idempotent, at: NOW }]);
    assert_eq!(chat.turn.unwrap().sub_agents, 1, "started again, it is the same sub-agent");
}
