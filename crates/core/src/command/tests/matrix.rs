//! Every status, archived or not, with a queue and without, and every command.

use std::fmt::Write as _;

use expect_test::expect_file;

use crate::change::Change;
use crate::chat::{CallState, Chat, QueuedMessage, TurnEnd, TurnFailure};
use crate::command::{AnswerContent, CallAnswer, Command, Delivery, InboxCommand, ModelChoice, Refusal, check};
use crate::error::ErrorKind;
use crate::fact::Fact;
use crate::ids::{InboxSeq, MessageId, StepId, Timestamp};
use crate::message::{Body, Call, Message, Output, Stop, text_of};
use crate::rehearsal::sample::{call, chat_id, reply, send, text, words};
use crate::rehearsal::{Stage, tiny_limits};
use crate::status::{Status, Verb};

const PAGE: &str = include_str!("../../../../../docs/states.md");
const GONE: InboxSeq = InboxSeq(99);

/// What the page says: the status after `verb`, or nothing.
fn page(verb: Verb, status: Status) -> Option<String> {
    let column = Status::ALL.iter().position(|other| *other == status)? + 1;
    let cell = cells(verb)[column].clone();
    (!cell.is_empty()).then_some(cell)
}

fn page_takes_archived(verb: Verb) -> bool {
    cells(verb).last().is_some_and(|cell| cell == "yes")
}

fn cells(verb: Verb) -> Vec<String> {
    let name = format!("{verb:?}");
    let row = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect::<Vec<_>>();
    PAGE.lines().map(row).find(|cells| cells[0] == name).expect("the page has a row for every verb")
}

/// A chat brought to `status` by the acts that lead there.
fn in_status(status: Status) -> Stage {
    let mut stage = Stage::new(chat_id(1));
    let obey = |stage: &mut Stage, command| {
        stage.submit(command, &tiny_limits()).unwrap();
        stage.commit(&stage.obey_next().unwrap());
    };
    obey(&mut stage, send("hello", Delivery::Queue));
    match status {
        Status::Running => {}
        Status::Idle => {
            let answer = reply(StepId(1), &[text("hi")], Stop::End);
            stage.commit(&stage.change(|change| change.reply(answer, |_| CallState::Ready)));
            stage.commit(&stage.change(|change| change.finish(TurnEnd::Done)));
        }
        Status::Failed => {
            let failure =
                TurnFailure { kind: ErrorKind::Auth, message: "no".into(), detail: String::new(), attempts: 1 };
            stage.commit(&stage.change(|change| change.fail(None, failure)));
        }
        Status::Awaiting | Status::Interrupting => {
            let calls = [call(0, "client", "{}"), call(1, "approve", "{}")].concat();
            let answer = reply(StepId(1), &calls, Stop::ToolUse);
            let states = [CallState::AsksClient, CallState::AsksApproval];
            let state = |call: &Call| states[usize::from(call.uid.ordinal)];
            stage.commit(&stage.change(|change| change.reply(answer, state)));
            stage.commit(&stage.change(|change| change.ask(Timestamp(9_000))));
            if status == Status::Interrupting {
                obey(&mut stage, Command::Interrupt);
            }
        }
    }
    assert_eq!(stage.chat.status, status);
    stage
}

fn waiting() -> Vec<QueuedMessage> {
    let queued = |id, text: &str| QueuedMessage {
        id: InboxSeq(id),
        at: Timestamp(0),
        parts: words(text),
        steers: false,
        key: None,
    };
    vec![queued(41, "first"), queued(42, "second")]
}

/// Every command, with arguments that fit if anything does.
fn commands(chat: &Chat) -> Vec<(&'static str, Command)> {
    let waits = chat.queue.last().map_or(GONE, |queued| queued.id);
    let answers: Vec<CallAnswer> = chat
        .calls
        .iter()
        .map(|open| {
            let approve = AnswerContent::Approve { input_hash: open.input_hash };
            let given = AnswerContent::Output(Output::text("here"));
            CallAnswer { call: open.uid, what: if open.state == CallState::AsksClient { given } else { approve } }
        })
        .collect();
    let some: Vec<CallAnswer> = answers.iter().take(1).cloned().collect();
    vec![
        ("send", send("new", Delivery::Queue)),
        ("steer", send("new", Delivery::Steer)),
        ("send now", send("new", Delivery::Now)),
        ("send nothing", send(" ", Delivery::Queue)),
        ("promote", Command::Promote(waits)),
        ("promote a gone one", Command::Promote(GONE)),
        ("unqueue", Command::Unqueue(waits)),
        ("interrupt", Command::Interrupt),
        ("answer one", Command::Answer(some.into())),
        ("answer all", Command::Answer(answers.into())),
        ("edit", Command::Edit { message: MessageId(1), parts: words("edited") }),
        ("edit a reply", Command::Edit { message: MessageId(2), parts: words("edited") }),
        ("compact", Command::Compact),
        ("archive", Command::Archive),
        ("unarchive", Command::Unarchive),
        ("rename", Command::Rename("another".into())),
        ("rename and archive", patch(Some(true), None)),
        ("rename and unarchive", patch(Some(false), None)),
        ("choose a model", patch(None, Some(ModelChoice::Own("understudy/another".parse().unwrap())))),
    ]
}

fn patch(archived: Option<bool>, model: Option<ModelChoice>) -> Command {
    Command::Patch { title: Some("another".into()), archived, model, debug: None }
}

/// What the page and the arguments say about a command.
fn expected(chat: &Chat, name: &str, command: &Command) -> Result<String, Refusal> {
    let verb = command.verb();
    if chat.archived && !page_takes_archived(verb) {
        return Err(Refusal::Archived);
    }
    let status = page(verb, chat.status).ok_or(Refusal::Status(chat.status, verb))?;
    match (name, command) {
        ("send nothing", _) => Err(Refusal::Empty),
        ("edit a reply", _) => Err(Refusal::NotEditable),
        ("answer all", _) => Ok(page(Verb::Resume, chat.status).unwrap()),
        (_, Command::Promote(GONE) | Command::Unqueue(GONE)) => Err(Refusal::NotQueued),
        _ => Ok(status),
    }
}

fn obeyed(chat: &Chat, command: &Command) -> (Result<(), Refusal>, Vec<Fact>) {
    let verdict = check(chat, command, |id| id == MessageId(1));
    let mut change = Change::new(chat, Timestamp(70));
    let (at, key) = (Timestamp(60), Some("theirs".into()));
    change.obey(&InboxCommand { seq: InboxSeq(50), aimed: chat.step, at, key, command: command.clone() }, verdict);
    (verdict, change.facts())
}

fn said(facts: &[Fact]) -> String {
    let bodies = facts.iter().filter_map(|fact| match fact {
        Fact::Said(message, _) => Some(told(message)),
        Fact::Rewound { from } => Some(format!("rewind to {from}")),
        _ => None,
    });
    bodies.collect::<Vec<_>>().join(", ")
}

fn told(message: &Message) -> String {
    match &message.body {
        Body::User(parts) => format!("user {:?}", text_of(parts)),
        Body::Result(result) => format!("{} {:?}", result.tool, result.verdict),
        other => format!("{other:?}"),
    }
}

fn shown(before: &Chat, after: &Chat, facts: &[Fact]) -> String {
    let queue = after.queue.iter().map(|queued| {
        let arrow = if queued.steers { ">" } else { "" };
        format!("{arrow}{}", text_of(&queued.parts))
    });
    let turn = match (&before.turn, &after.turn) {
        (_, None) => "none",
        (Some(before), Some(after)) if before == after => "same",
        (Some(before), Some(after)) if before.began == after.began => "goes on",
        (_, Some(_)) => "new",
    };
    let queue = queue.collect::<Vec<_>>().join(" ");
    let flags = [(after.archived, ", archived"), (after.compaction_asked, ", summary asked")];
    let flags: String = flags.into_iter().filter_map(|(is, flag)| is.then_some(flag)).collect();
    let line = format!("{:?}{flags}; queue: {queue}; turn: {turn}; says: {}", after.status, said(facts));
    line.replace("; queue: ;", ";").trim_end_matches("; says: ").into()
}

/// CS09, CS10, CS15: every cell does what the page says; a refusal is typed and changes nothing but the inbox. What the
/// accepted ones do to queue, turn and transcript is in `matrix.txt`.
#[test]
fn every_command_in_every_status_does_what_the_page_says() {
    let mut table = String::new();
    for status in Status::ALL {
        for (queue, archived) in [(vec![], false), (waiting(), false), (vec![], true), (waiting(), true)] {
            let chat = Chat { archived, queue, ..in_status(status).chat };
            let is = if archived { ", archived" } else { "" };
            let with = if chat.queue.is_empty() { "nobody waits" } else { "two wait" };
            writeln!(table, "{status:?}{is}, {with}").unwrap();
            for (name, command) in commands(&chat) {
                let (verdict, facts) = obeyed(&chat, &command);
                let mut after = chat.clone();
                after.apply(&facts);
                let cell = verdict.map(|()| format!("{:?}", after.status));
                assert_eq!(cell, expected(&chat, name, &command), "{status:?}{is}, {with}: {name}");
                match verdict {
                    Ok(()) => writeln!(table, "  {name}: {}", shown(&chat, &after, &facts)).unwrap(),
                    Err(refusal) => {
                        assert_eq!(facts, [Fact::Obeyed(InboxSeq(50), Err(refusal))]);
                        let version = chat.version.next();
                        assert_eq!(after, Chat { version, obeyed: InboxSeq(50), ..chat.clone() });
                    }
                }
            }
        }
    }
    expect_file!["matrix.txt"].assert_eq(&table);
}
