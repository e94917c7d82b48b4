//! Every way out of a reply with open calls, and what follows a turn.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};

use super::lines;
use crate::change::{Change, input_hash, refused};
use crate::chat::{AskDetail, CallState, Effect, TranscriptTail, TurnEnd, TurnFailure};
use crate::command::{AnswerContent, CallAnswer, Command, Delivery, Refusal};
use crate::error::ErrorKind;
use crate::fact::Fact;
use crate::ids::{CallUid, MessageId, StepId, Timestamp};
use crate::message::{Body, Call, CallVerdict, Output, Stop, Summary, SummarySource};
use crate::permission::{GRANT_TIME_MAX, GRANTS_LEN_MAX, Grant};
use crate::plan::{Next, plan};
use crate::rehearsal::sample::{call, chat_id, reply, send, text, words};
use crate::rehearsal::{Stage, tiny_limits};
use crate::status::{self, Status, Verb};

fn obey(stage: &mut Stage, command: Command) {
    stage.submit(command, &tiny_limits()).unwrap();
    stage.commit(&stage.obey_next().unwrap());
}

fn commit(stage: &mut Stage, make: impl for<'c, 'a> FnOnce(&'c mut Change<'a>) -> &'c mut Change<'a>) {
    stage.commit(&stage.change(make));
}

fn next(stage: &Stage) -> Next {
    plan(&stage.chat, stage.draft.as_ref(), &tiny_limits(), stage.now)
}

fn failure() -> TurnFailure {
    TurnFailure { kind: ErrorKind::Auth, message: "no".into(), detail: String::new(), attempts: 1 }
}

/// A turn with four open calls: one not begun, one running, two that ask. A message is queued.
fn with_open_calls() -> Stage {
    let mut stage = Stage::new(chat_id(1));
    obey(&mut stage, send("hello", Delivery::Queue));
    let tools = ["look", "write", "client", "approve"];
    let calls: Vec<_> = tools.iter().zip(0..).flat_map(|(tool, slot)| call(slot, tool, "{}")).collect();
    let state = |call: &Call| match call.tool.as_str() {
        "client" => CallState::AsksClient,
        "approve" => CallState::AsksApproval,
        _ => CallState::Ready,
    };
    commit(&mut stage, |change| change.reply(reply(StepId(1), &calls, Stop::ToolUse), state));
    let started = Fact::Started { call: uid(1), effect: Effect::Once, at: Timestamp(3) };
    commit(&mut stage, |change| change.fact(started));
    obey(&mut stage, send("and then", Delivery::Queue));
    stage
}

const fn uid(ordinal: u16) -> CallUid {
    CallUid { step: StepId(1), ordinal }
}

/// Only the two calls that ask are left; the chat rests until they are answered.
fn awaiting() -> Stage {
    let mut stage = with_open_calls();
    for ordinal in [1, 0] {
        let open = stage.chat.calls.iter().find(|open| open.uid == uid(ordinal)).cloned().unwrap();
        commit(&mut stage, |change| change.answer_open(&[open], CallVerdict::Done, |_| "found"));
    }
    stage.now = Timestamp(100);
    commit(&mut stage, |change| change.ask(Timestamp(1_000)));
    stage
}

fn check(stage: &Stage, expected: Expect) {
    assert_eq!(stage.chat.calls, [], "every call has its result");
    expected.assert_eq(&lines(stage));
}

/// CS18, MC26, AW08: an interrupt answers every open call, in call order, and then takes up the queued
/// message.
#[test]
fn settling_answers_what_is_open_and_the_queue_goes_on() {
    let mut stage = with_open_calls();
    obey(&mut stage, Command::Interrupt);
    commit(&mut stage, |change| change.settle(None));
    check(
        &stage,
        expect![[r#"
            1 user hello
            2 reply ToolUse [call 1.0 {}, call 1.1 {}, call 1.2 {}, call 1.3 {}]
            3 result 1.0 Interrupted, not started: The turn was interrupted before this call could be run. It was not run.
            4 result 1.1 Interrupted: The turn was interrupted while this call ran, and it was stopped. Whether it took effect is unknown.
            5 result 1.2 Interrupted, not started: The turn was interrupted before the client answered this call.
            6 result 1.3 Interrupted, not started: The turn was interrupted before this call could be run. It was not run.
            7 user and then
        "#]],
    );
    assert_eq!((stage.chat.status, &stage.chat.ended), (Status::Running, &Some(TurnEnd::Interrupted)));
}

/// CS18: a turn that fails over open calls leaves none; queued messages stay queued.
#[test]
fn failing_answers_what_is_open() {
    let mut stage = with_open_calls();
    commit(&mut stage, |change| change.fail(None, failure()));
    check(
        &stage,
        expect![[r#"
            1 user hello
            2 reply ToolUse [call 1.0 {}, call 1.1 {}, call 1.2 {}, call 1.3 {}]
            3 result 1.0 Error, not started: The turn failed before this call could be run. It was not run.
            4 result 1.1 Unknown: This call was started, and then the process that ran it was lost. Whether it took effect is unknown. Check before you repeat it.
            5 result 1.2 Error, not started: The turn failed before the client answered this call.
            6 result 1.3 Error, not started: The turn failed before this call could be run. It was not run.
        "#]],
    );
    assert_eq!((stage.chat.status, stage.chat.queue.len()), (Status::Failed, 1));
}

/// AW16: the partial answer of a failed turn stays, and its calls are answered.
#[test]
fn failing_keeps_the_broken_reply() {
    let mut stage = Stage::new(chat_id(1));
    obey(&mut stage, send("hello", Delivery::Queue));
    let broken = reply(StepId(1), &[vec![text("Let me")], call(0, "look", "{}")].concat(), Stop::Broken);
    commit(&mut stage, |change| change.fail(Some(broken), failure()));
    check(
        &stage,
        expect![[r#"
            1 user hello
            2 reply Broken [Let me, call 1.0 {}]
            3 result 1.0 Error, not started: The answer broke off before this call could be run.
        "#]],
    );
    assert_eq!(stage.chat.ended, Some(TurnEnd::Failed(Box::new(failure()))));
}

/// CS18: no answer came in time; the model is told and goes on.
#[test]
fn unanswered_calls_expire() {
    let mut stage = awaiting();
    assert_eq!((next(&stage), stage.chat.awaits_until), (Next::Await, Some(Timestamp(1_000))));
    stage.now = Timestamp(1_000);
    commit(&mut stage, |change| change.expire());
    check(
        &stage,
        expect![[r#"
            1 user hello
            2 reply ToolUse [call 1.0 {}, call 1.1 {}, call 1.2 {}, call 1.3 {}]
            3 result 1.1 Done: found
            4 result 1.0 Done, not started: found
            5 result 1.2 Error, not started: Nobody answered this call in time.
            6 result 1.3 Error, not started: Nobody allowed this call in time. It was not run.
        "#]],
    );
    assert_eq!((next(&stage), stage.chat.awaits_until), (Next::CallModel, None));
}

/// CS14, CS18: a message sent now interrupts a chat that waits. The calls are answered before it is taken up,
/// and it is taken up before queued messages.
#[test]
fn a_message_sent_now_is_heard_after_the_made_up_results() {
    let mut stage = awaiting();
    obey(&mut stage, send("stop", Delivery::Now));
    assert_eq!(stage.chat.status, Status::Interrupting);
    commit(&mut stage, |change| change.settle(None));
    check(
        &stage,
        expect![[r#"
            1 user hello
            2 reply ToolUse [call 1.0 {}, call 1.1 {}, call 1.2 {}, call 1.3 {}]
            3 result 1.1 Done: found
            4 result 1.0 Done, not started: found
            5 result 1.2 Interrupted, not started: The turn was interrupted before the client answered this call.
            6 result 1.3 Interrupted, not started: The turn was interrupted before this call could be run. It was not run.
            7 user stop
        "#]],
    );
    assert_eq!(stage.chat.queue.len(), 1);
}

/// Answers may come one by one. The turn goes on with the last, and the time it waited is not counted as work.
#[test]
fn answers_may_come_one_by_one() {
    let mut stage = awaiting();
    let input_hash = stage.chat.calls[1].input_hash;
    stage.now = Timestamp(400);
    let approve = CallAnswer { call: uid(3), what: AnswerContent::Approve { input_hash } };
    obey(&mut stage, Command::Answer([approve].into()));
    assert_eq!((next(&stage), stage.chat.calls[1].state), (Next::Await, CallState::Approved));
    stage.now = Timestamp(700);
    let output = CallAnswer { call: uid(2), what: AnswerContent::Error(Output::text("no camera")) };
    obey(&mut stage, Command::Answer([output].into()));
    assert_eq!((next(&stage), stage.chat.status), (Next::RunCalls, Status::Running));
    assert_eq!(stage.chat.turn.as_ref().map(|turn| turn.rested.as_millis()), Some(600));
    assert!(lines(&stage).ends_with("5 result 1.2 Error, not started: no camera\n"));
}

/// A grant is stored with the approval, ends after a month at the latest, and can be revoked. A further one drops those that
/// are over, and above the bound the oldest.
#[test]
fn a_grant_is_made_with_the_approval() {
    let mut stage = awaiting();
    let detail = AskDetail {
        basis: "else = \"ask\"".into(),
        effect: Effect::Once,
        path: None,
        confinement: None,
        grant: Some("deploy".into()),
        terms: "terms".into(),
    };
    stage.chat.calls[1].ask = Some(Arc::new(detail));
    stage.now = Timestamp(400);
    let answer = CallAnswer::grant(&stage.chat.calls[1], "laptop", Timestamp(i64::MAX));
    obey(&mut stage, Command::Answer([answer].into()));
    assert_eq!(stage.chat.calls[1].state, CallState::Approved);
    let grant = stage.chat.grants[0].clone();
    assert_eq!((grant.rule.as_str(), grant.by.as_str(), grant.terms.as_str()), ("deploy", "laptop", "terms"));
    assert_eq!((grant.call, grant.at, grant.until), (uid(3), Timestamp(400), Timestamp(400) + GRANT_TIME_MAX));
    assert_eq!(stage.submit(Command::Revoke(uid(2)), &tiny_limits()), Err(Refusal::NotGranted));
    let until = |until: i64| Fact::Granted(Box::new(Grant { until: Timestamp(until), ..grant.clone() }));
    let mut chat = stage.chat.clone();
    chat.apply(&[until(400), until(401)]);
    assert_eq!(chat.grants.iter().map(|grant| grant.until.0).collect::<Vec<_>>(), [grant.until.0, 401]);
    chat.apply(&vec![until(i64::MAX); GRANTS_LEN_MAX]);
    assert!(chat.grants.len() == GRANTS_LEN_MAX && chat.grants.iter().all(|grant| grant.until.0 == i64::MAX));
    obey(&mut stage, Command::Revoke(uid(3)));
    assert_eq!(stage.chat.grants, []);
}

#[test]
fn a_denied_call_tells_the_model_why() {
    for (reason, told) in [(" ", "The user did not allow this call."), ("too late", ": too late")] {
        let mut stage = awaiting();
        let deny = CallAnswer { call: uid(3), what: AnswerContent::Deny { reason: reason.into() } };
        obey(&mut stage, Command::Answer([deny].into()));
        assert!(lines(&stage).trim_end().ends_with(told), "{}", lines(&stage));
        assert!(lines(&stage).contains("1.3 Denied"));
    }
}

/// An edit drops the turn whole, open calls and all; what waited goes on waiting, and numbers are not given twice.
#[test]
fn an_edit_leaves_nothing_of_the_turn() {
    let mut stage = awaiting();
    let (step, newest) = (stage.chat.step, stage.chat.newest);
    obey(&mut stage, Command::Edit { message: MessageId(1), parts: words("hello again") });
    check(
        &stage,
        expect![[r#"
        5 user hello again
    "#]],
    );
    assert!(stage.chat.step > step && stage.chat.newest > newest);
    assert_eq!((stage.chat.queue.len(), stage.chat.awaits_until, next(&stage)), (1, None, Next::CallModel));
}

/// Whatever ended the last turn, a summary requested afterwards is only a summary: the model is not called
/// for an answer.
#[test]
fn a_summary_asked_for_does_not_take_up_the_turn_before_it() {
    type Ending = fn(&mut Stage);
    let endings: [(&str, Ending); 4] = [
        ("interrupted over calls", |stage| {
            let calls = reply(StepId(1), &call(0, "look", "{}"), Stop::Interrupted);
            obey(stage, Command::Interrupt);
            commit(stage, |change| change.settle(Some(calls)));
        }),
        ("at a bound", |stage| commit(stage, |change| change.finish(TurnEnd::StepsMax))),
        ("failed before a word", |stage| commit(stage, |change| change.fail(None, failure()))),
        ("empty", |stage| {
            commit(stage, |change| change.reply(reply(StepId(1), &[], Stop::End), |_| CallState::Ready));
            commit(stage, |change| change.finish(TurnEnd::Empty));
        }),
    ];
    for (name, end) in endings {
        let mut stage = Stage::new(chat_id(1));
        obey(&mut stage, send("hello", Delivery::Queue));
        end(&mut stage);
        obey(&mut stage, Command::Compact);
        assert_eq!(next(&stage), Next::Compact, "{name}");
        let summary = Summary {
            text: "so far".into(),
            newest_user: Vec::new(),
            source: SummarySource::Asked,
            tokens_before: 9,
            runtime: Duration::ZERO,
        };
        let tail = stage.chat.tail;
        commit(&mut stage, |change| change.say_as(Body::Summary(Box::new(summary)), tail));
        assert_eq!(next(&stage), Next::Finish(TurnEnd::Done), "{name}");
    }
}

/// CS10: what the driver does leads where the page says.
#[test]
fn driver_changes_follow_the_status_table() {
    let in_turn = || {
        let mut stage = Stage::new(chat_id(1));
        obey(&mut stage, send("hello", Delivery::Queue));
        stage
    };
    let led_to = |mut stage: Stage, facts: Vec<Fact>| {
        stage.commit(&facts);
        Some(stage.chat.status)
    };
    let running = in_turn();
    let asked = running.change(|change| change.ask(Timestamp(9)));
    assert_eq!(led_to(running.clone(), asked.clone()), status::next(Status::Running, Verb::Ask));
    let finished = running.change(|change| change.finish(TurnEnd::Done));
    assert_eq!(led_to(running.clone(), finished), status::next(Status::Running, Verb::Finish));
    let failed = running.change(|change| change.fail(None, failure()));
    assert_eq!(led_to(running.clone(), failed), status::next(Status::Running, Verb::Fail));
    let mut waits = running.clone();
    waits.commit(&asked);
    let expired = waits.change(|change| change.expire());
    assert_eq!(led_to(waits, expired), status::next(Status::Awaiting, Verb::Resume));
    let mut stopping = running;
    obey(&mut stopping, Command::Interrupt);
    let settled = stopping.change(|change| change.settle(None));
    assert_eq!(led_to(stopping, settled), status::next(Status::Interrupting, Verb::Settle));
}

/// A message deleted before it could begin its turn leaves the chat at rest.
#[test]
fn a_turn_whose_message_was_deleted_does_not_begin() {
    let mut stage = with_open_calls();
    commit(&mut stage, |change| change.fail(None, failure()));
    let waits = stage.chat.queue[0].id;
    obey(&mut stage, Command::Promote(waits));
    obey(&mut stage, Command::Unqueue(waits));
    assert_eq!((next(&stage), stage.chat.tail), (Next::Begin, TranscriptTail::Nothing));
    commit(&mut stage, |change| change.begin());
    assert_eq!((stage.chat.status, next(&stage)), (Status::Idle, Next::Rest));
}

/// MC06: a made-up result names its call, its tool and its time, and says that the tool was never started.
#[test]
fn a_made_up_result_says_whose_it_is() {
    let reply = reply(StepId(1), &call(0, "look", "{}"), Stop::ToolUse);
    let call = reply.calls().next().unwrap();
    let result = refused(call, Timestamp(7), CallVerdict::Error, "no");
    assert_eq!((result.call, result.tool.as_str()), (uid(0), "look"));
    assert_eq!((result.began, result.ended), (None, Timestamp(7)));
}

/// An approval is for a tool and its input; where the one ends and the other begins counts too. The number is stored, so
/// it may never change.
#[test]
fn an_input_hash_tells_tools_and_inputs_apart() {
    assert_eq!(input_hash("look", "{}"), 0x51b9_26b5_8460_9092);
    let all = [("look", "{}"), ("look", "{ }"), ("loo", "k{}"), ("", "look{}"), ("look{}", ""), ("", "")];
    let hashes: BTreeSet<u64> = all.iter().map(|(tool, input)| input_hash(tool, input)).collect();
    assert_eq!(hashes.len(), all.len());
}
