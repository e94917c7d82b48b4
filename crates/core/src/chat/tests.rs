use std::time::Duration;

use super::*;
use crate::command::{Command, Delivery, ModelChoice};
use crate::cost::{Micros, Spend, Tally};
use crate::delta::Delta;
use crate::fact::{AttemptOutcome, AttemptPurpose};
use crate::ids::{MessageId, Seq};
use crate::message::{CallResult, CallVerdict, Meta, Output, Seal, Stop, Summary, SummarySource};
use crate::rehearsal::sample::{call, chat_id, reply, send, text, words};
use crate::rehearsal::{Stage, tiny_limits};

fn obey(stage: &mut Stage, command: Command) {
    stage.submit(command, &tiny_limits()).unwrap();
    stage.commit(&stage.obey_next().unwrap());
}

fn asked() -> Stage {
    let mut stage = Stage::new(chat_id(1));
    obey(&mut stage, send("hello", Delivery::Queue));
    stage
}

fn answer(stage: &mut Stage, deltas: &[Delta]) {
    let reply = reply(stage.chat.step, deltas, Stop::End);
    stage.commit(&stage.change(|change| change.reply(reply, |_| CallState::Ready)));
}

fn turn(stage: &Stage) -> &Turn {
    stage.chat.turn.as_ref().unwrap()
}

fn attempted(stage: &Stage, number: u32) -> Fact {
    let (model, began, took) = ("understudy/one".parse().unwrap(), stage.now, Duration::from_millis(3));
    let (step, outcome) = (stage.chat.step, AttemptOutcome::Answered);
    let spend = Spend { known: Micros(5), estimated: Micros(2) };
    let (aim, tally) = (AttemptPurpose::Unknown, Tally::default());
    let row = AttemptRecord { step, number, model, aim, began, took, tally, spend, outcome };
    Fact::Attempted(Box::new(row), StepAttempts { attempts: number, ..stage.chat.tried })
}

fn wait() -> Fact {
    let message = "later".into();
    Fact::Waits(Box::new(RetryWait { until: Timestamp(9), kind: ErrorKind::Overloaded, message, attempt: 1 }))
}

fn summary() -> Body {
    let (source, runtime) = (SummarySource::Asked, Duration::from_millis(8));
    Body::Summary(Box::new(Summary { text: "so far".into(), newest_user: vec![], source, tokens_before: 7, runtime }))
}

fn choose(model: Option<&str>) -> Command {
    let choice = model.map_or(ModelChoice::Agents, |model| ModelChoice::Own(model.parse().unwrap()));
    Command::Patch { title: None, archived: None, model: Some(choice), debug: None }
}

/// A model that is chosen is for the next turn: the one under way keeps the model it began with.
#[test]
fn a_turn_keeps_the_model_it_began_with() {
    let own = |stage: &Stage| stage.chat.own_model().map(ToString::to_string);
    let mut stage = Stage::new(chat_id(1));
    obey(&mut stage, choose(Some("understudy/one")));
    assert_eq!(own(&stage).as_deref(), Some("understudy/one"), "of the next turn, if none is under way");
    obey(&mut stage, send("hello", Delivery::Queue));
    obey(&mut stage, choose(Some("understudy/another")));
    obey(&mut stage, send("and", Delivery::Queue));
    assert_eq!(own(&stage).as_deref(), Some("understudy/one"));
    answer(&mut stage, &[text("Hi")]);
    stage.commit(&stage.change(|change| change.finish(TurnEnd::Done)));
    assert_eq!((own(&stage).as_deref(), stage.chat.status), (Some("understudy/another"), Status::Running));
    obey(&mut stage, choose(None));
    assert_eq!((own(&stage).as_deref(), &stage.chat.model), (Some("understudy/another"), &None));
    obey(&mut stage, Command::Edit { message: MessageId(1), parts: words("hullo") });
    assert_eq!(own(&stage), None, "an edit begins a turn");
}

/// MC19: what a reply is to the plan follows from its stop and from whether it says anything to a person or a tool.
#[test]
fn each_reply_has_its_tail() {
    let filtered = Stop::Filtered { category: String::new(), detail: String::new() };
    let reasoning = [Delta::Reasoning("hm".into()), Delta::Sealed(Seal::Signature("s".into()))];
    let says: [(&[Delta], bool); 5] = [
        (&[], false),
        (&reasoning, false),
        (&[text(" \n")], false),
        (&[text("yes")], true),
        (&call(0, "look", "{}"), true),
    ];
    for (deltas, says) in says {
        let spoken = if says { TranscriptTail::Reply } else { TranscriptTail::EmptyReply };
        let cases = [
            (Stop::End, spoken),
            (Stop::ToolUse, spoken),
            (Stop::Length, TranscriptTail::CutReply),
            (filtered.clone(), TranscriptTail::FilteredReply),
            (Stop::Interrupted, TranscriptTail::StoppedReply),
            (Stop::Broken, TranscriptTail::StoppedReply),
        ];
        for (stop, expected) in cases {
            let body = Body::Reply(Box::new(reply(StepId(1), deltas, stop.clone())));
            assert_eq!(tail_of(&body), expected, "{stop:?} of {deltas:?}");
        }
    }
    for body in [Body::User(words("hi").to_vec()), Body::Context("hi".into()), summary()] {
        assert_eq!(tail_of(&body), TranscriptTail::Input);
    }
}

/// MC13: only replies are counted, within their turn: neither a context message nor a steering message begins
/// a new count, and the next turn does.
#[test]
fn steps_are_counted_from_the_message_that_began_the_turn() {
    let mut stage = asked();
    answer(&mut stage, &[text("one")]);
    stage.commit(&stage.change(|change| change.say(Body::Context("it rains".into())).fact(Fact::Briefed)));
    obey(&mut stage, send("faster", Delivery::Steer));
    stage.commit(&stage.change(|change| change.begin()));
    assert_eq!((turn(&stage).steps, stage.transcript.len()), (1, 4));
    answer(&mut stage, &[text("two")]);
    assert_eq!(turn(&stage).steps, 2);
    stage.commit(&stage.change(|change| change.finish(TurnEnd::Done)));
    obey(&mut stage, send("more", Delivery::Queue));
    assert_eq!(turn(&stage).steps, 0);
}

/// Calls count as repeated only if their results are equal too: a poll gets a new result.
#[test]
fn the_same_calls_with_the_same_results_are_counted_in_a_row() {
    let mut stage = asked();
    let look = |n: u8| call(u32::from(n), "look", "{\"q\":1}");
    let mut made = |calls: &[Vec<Delta>], told: &'static str| {
        answer(&mut stage, &calls.concat());
        let mut open = stage.chat.calls.clone();
        open.reverse(); // In whichever order they come.
        stage.commit(&stage.change(|change| change.answer_open(&open, CallVerdict::Done, |_| told)));
        turn(&stage).repeats.times
    };
    assert_eq!(made(&[look(0), look(1)], "found"), 1, "once within a reply");
    assert_eq!(made(&[look(0), look(1)], "found"), 2, "and again over replies");
    assert_eq!(made(&[look(0), look(1)], "found"), 3);
    assert_eq!(made(&[look(0), look(1)], "lost"), 1, "another result is no repetition");
    assert_eq!(made(&[look(0)], "lost"), 1, "nor are fewer calls");
    assert_eq!(made(&[call(0, "look", "{\"q\":2}")], "lost"), 1, "another input is another call");
    assert_eq!(made(&[call(0, "watch", "{\"q\":2}")], "lost"), 1, "and so is another tool");
    assert_eq!(made(&[call(0, "watch", "{\"q\":2}")], "lost"), 2);
}

/// CS25: why the next attempt waits is forgotten as soon as one was made, and with the step.
#[test]
fn a_wait_ends_with_the_next_attempt_and_with_the_step() {
    let waiting = || {
        let mut stage = asked();
        stage.commit(&[attempted(&stage, 1), wait()]);
        assert!(stage.chat.wait.is_some() && stage.chat.tried.attempts == 1);
        stage
    };
    let mut tried_again = waiting();
    tried_again.commit(&[attempted(&tried_again, 2)]);
    assert_eq!((&tried_again.chat.wait, tried_again.chat.tried.attempts), (&None, 2));
    let mut answered = waiting();
    answer(&mut answered, &[text("hi")]);
    assert_eq!((&answered.chat.wait, answered.chat.tried), (&None, StepAttempts::default()));
    let mut ended = waiting();
    ended.commit(&ended.change(|change| change.finish(TurnEnd::Done)));
    assert_eq!((&ended.chat.wait, ended.chat.tried), (&None, StepAttempts::default()));
    let mut queued = waiting();
    obey(&mut queued, send("hurry", Delivery::Queue));
    assert!(queued.chat.wait.is_some(), "nothing else ends it");
}

/// How far a draft went when others took it up says nothing of drafts of other steps, and goes with its own.
#[test]
fn takeover_points_belong_to_their_step() {
    let mut stage = asked();
    stage.commit(&[Fact::Inherited(Seq(2))]);
    let seen = Cursor { version: Version(0), step: stage.chat.step, seq: Seq(3) };
    assert!(stage.chat.denies(seen) && !stage.chat.denies(Cursor { seq: Seq(2), ..seen }));
    assert!(!stage.chat.denies(Cursor { step: StepId(seen.step.0 - 1), ..seen }));
    answer(&mut stage, &[text("Hi")]);
    assert_eq!(stage.chat.inherited, DraftTakeovers::default());
}

/// A turn that was expected at an earlier step is that one's; it never begins later than it does.
#[test]
fn a_turn_begins_where_it_was_expected() {
    let stage = asked();
    let step = stage.chat.step.0;
    for (foreseen, first) in [(step - 1, step - 1), (step, step), (step + 1, step)] {
        let mut chat = stage.chat.clone();
        chat.apply(&[Fact::TurnBegan(stage.now), Fact::Foreseen(StepId(foreseen))]);
        assert_eq!(chat.turn.map(|turn| turn.first), Some(StepId(first)), "foreseen at {foreseen}");
    }
}

#[test]
fn every_attempt_is_counted_in_its_turn_and_in_all() {
    let mut stage = asked();
    stage.commit(&[attempted(&stage, 1)]);
    stage.commit(&[attempted(&stage, 2)]);
    assert_eq!((stage.chat.totals.attempts, stage.chat.totals.spend.known), (2, Micros(10)));
    assert_eq!(turn(&stage).cost, Micros(14), "what is estimated counts against the bound too");
    stage.commit(&stage.change(|change| change.finish(TurnEnd::Done)));
    obey(&mut stage, send("more", Delivery::Queue));
    assert_eq!((turn(&stage).cost, stage.chat.totals.attempts), (Micros(0), 2));
}

/// CS19: a summary uses up the request for one, and room that was made is room again.
#[test]
fn a_summary_is_used_up_and_counted() {
    let mut stage = Stage::new(chat_id(1));
    obey(&mut stage, Command::Compact);
    stage.commit(&[Fact::Overflowed]);
    assert!(stage.chat.compaction_asked && turn(&stage).overflowed);
    stage.commit(&stage.change(|change| change.say_as(summary(), TranscriptTail::Reply)));
    assert!(!stage.chat.compaction_asked && !turn(&stage).overflowed);
    assert_eq!((turn(&stage).compactions, stage.chat.tail), (1, TranscriptTail::Reply));
}

/// What was said before a turn began is told apart from what was said in it.
#[test]
fn a_turn_knows_what_was_said_before_it() {
    let mut stage = Stage::new(chat_id(1));
    obey(&mut stage, send("one", Delivery::Queue));
    assert_eq!((turn(&stage).after, stage.chat.newest), (MessageId(0), MessageId(1)));
    stage.commit(&stage.change(|change| change.finish(TurnEnd::Done)));
    obey(&mut stage, send("two", Delivery::Queue));
    assert_eq!((turn(&stage).after, stage.chat.newest), (MessageId(1), MessageId(2)));
}

/// A dropped draft is over all the same: the next journal rows belong to another step.
#[test]
fn every_end_of_a_turn_opens_another_step() {
    let edit = Command::Edit { message: MessageId(1), parts: words("again") };
    for command in [Command::Interrupt, edit] {
        let mut stage = asked();
        let step = stage.chat.step;
        obey(&mut stage, command);
        if stage.chat.status == Status::Interrupting {
            stage.commit(&stage.change(|change| change.settle(None)));
        }
        assert!(stage.chat.step > step);
    }
}

/// A person may be asked more than once in a turn, and none of the waits is work.
#[test]
fn rests_add_up() {
    let mut stage = asked();
    for _ in 0..2 {
        stage.now = Timestamp(stage.now.0 + 100);
        stage.commit(&stage.change(|change| change.ask(Timestamp(9_000))));
        stage.now = Timestamp(stage.now.0 + 30);
        stage.commit(&stage.change(|change| change.expire()));
    }
    assert_eq!((turn(&stage).rested, turn(&stage).rests_since), (Duration::from_millis(60), None));
    assert_eq!(turn(&stage).worked(stage.now), Duration::from_millis(200));
}

fn ran(ordinal: u16, verdict: CallVerdict, ended: i64) -> Body {
    let (call, output, meta) = (CallUid { step: StepId(1), ordinal }, Output::text("seen"), Meta::new());
    let (began, ended) = (Some(Timestamp(100)), Timestamp(ended));
    Body::Result(Box::new(CallResult { call, tool: "look".into(), verdict, output, began, ended, meta }))
}

/// Replies are steps, and attempts and tools take time; how long one ran that did not come back is not known.
/// Messages written again by a repair or an import are not counted again.
#[test]
fn steps_and_tool_time_of_a_turn_are_counted_once() {
    let used = |stage: &Stage| (stage.chat.totals.steps, stage.chat.totals.time.as_millis());
    let mut stage = asked();
    stage.commit(&[attempted(&stage, 1)]);
    assert_eq!(used(&stage), (0, 3));
    let calls: Vec<_> = (0..4).flat_map(|slot| call(slot, "look", "{}")).collect();
    answer(&mut stage, &calls);
    for (ordinal, verdict, ended) in [
        (0, CallVerdict::Done, 120),
        (1, CallVerdict::Unknown, 9_000),
        (2, CallVerdict::Interrupted, 9_000),
        (3, CallVerdict::Error, 107),
    ] {
        stage.commit(&stage.change(|change| change.say(ran(ordinal, verdict, ended))));
    }
    assert_eq!(used(&stage), (1, 3 + 20 + 7));
    let reply = reply(stage.chat.step, &[text("Hi")], Stop::End);
    stage.commit(&stage.change(|change| change.reply(reply, |_| CallState::Ready).finish(TurnEnd::Done)));
    assert_eq!(used(&stage), (2, 30));
    let rewound = Fact::Rewound { from: MessageId(2) };
    let again = stage.transcript[1..].iter().map(|message| Fact::Said(message.clone(), TranscriptTail::Nothing));
    stage.commit(&[rewound].into_iter().chain(again).collect::<Vec<_>>());
    assert_eq!(used(&stage), (2, 30), "it was only said again");
    obey(&mut stage, Command::Edit { message: MessageId(1), parts: words("hullo") });
    answer(&mut stage, &[text("Hi")]);
    assert_eq!(used(&stage), (3, 30), "an edit takes nothing back that was used");
}
