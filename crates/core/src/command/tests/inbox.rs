//! What may enter an inbox in which others wait.

use crate::chat::{CallState, Chat, TurnEnd, TurnFailure};
use crate::command::{Command, Delivery, Refusal, admit};
use crate::error::ErrorKind;
use crate::ids::{InboxSeq, MessageId, StepId};
use crate::message::{File, Meta, Part, Stop};
use crate::rehearsal::sample::{chat_id, reply, send, text, words};
use crate::rehearsal::{Stage, tiny_limits};
use crate::status::{Status, Verb};

fn submit(stage: &mut Stage, command: Command) -> Result<InboxSeq, Refusal> {
    stage.submit(command, &tiny_limits())
}

fn obey_all(stage: &mut Stage) {
    while let Some(facts) = stage.obey_next() {
        stage.commit(&facts);
    }
}

fn edit(message: u64) -> Command {
    Command::Edit { message: MessageId(message), parts: words("again") }
}

/// CS13: the queue has room for so many, whether they wait in it already or still in the inbox.
#[test]
fn a_full_queue_refuses_the_next_message() {
    for obeyed_between in [false, true] {
        let mut stage = Stage::new(chat_id(1));
        let room = tiny_limits().queue_len_max;
        for _ in 0..=room {
            submit(&mut stage, send("hello", Delivery::Queue)).unwrap();
            if obeyed_between {
                obey_all(&mut stage);
            }
        }
        for when in [Delivery::Queue, Delivery::Steer, Delivery::Now] {
            assert_eq!(submit(&mut stage, send("one more", when)), Err(Refusal::QueueFull));
        }
        submit(&mut stage, Command::Unqueue(InboxSeq(2))).unwrap();
        submit(&mut stage, send("now there is room", Delivery::Queue)).unwrap();
        obey_all(&mut stage);
        assert_eq!(stage.chat.queue.len(), room);
        assert!(stage.inbox.iter().all(|(_, outcome)| *outcome == Some(Ok(()))));
    }
}

/// A chat that rests takes one out of its queue as it takes one in, so a full queue is no reason to refuse.
#[test]
fn a_failed_chat_with_a_full_queue_takes_a_message() {
    let mut stage = Stage::new(chat_id(1));
    for _ in 0..=tiny_limits().queue_len_max {
        submit(&mut stage, send("hello", Delivery::Queue)).unwrap();
    }
    obey_all(&mut stage);
    let failure = TurnFailure { kind: ErrorKind::Auth, message: "no".into(), detail: String::new(), attempts: 1 };
    stage.commit(&stage.change(|change| change.fail(None, failure)));
    assert_eq!((stage.chat.status, stage.chat.queue.len()), (Status::Failed, tiny_limits().queue_len_max));
    submit(&mut stage, send("go on", Delivery::Queue)).unwrap();
    obey_all(&mut stage);
    stage.commit(&stage.change(|change| change.begin()));
    assert_eq!((stage.chat.status, stage.chat.queue.len()), (Status::Running, tiny_limits().queue_len_max));
}

/// CS11: the first message begins a turn, and a message that says nothing is none; a file says something.
#[test]
fn a_message_says_something() {
    let chat = Chat::new(chat_id(1), "agent", "");
    let file = File { name: "a.png".into(), media_type: "image/png".into(), bytes: None, meta: Meta::new() };
    let admitted = |parts: Vec<Part>| {
        let command = Command::Send { parts: parts.into(), when: Delivery::Queue };
        admit(&chat, &command, &tiny_limits(), |_| true)
    };
    assert_eq!(admitted(vec![]), Err(Refusal::Empty));
    assert_eq!(admitted(words(" \n\t\u{a0}").to_vec()), Err(Refusal::Empty));
    assert_eq!(admitted([words(" ").to_vec(), words("x").to_vec()].concat()), Ok(()));
    assert_eq!(admitted(vec![Part::File(file)]), Ok(()));
    let mut stage = Stage::new(chat_id(1));
    submit(&mut stage, send("hello", Delivery::Steer)).unwrap();
    obey_all(&mut stage);
    assert_eq!((stage.chat.status, stage.transcript.len()), (Status::Running, 1));
}

/// A command is checked against the chat it will meet, not the one that is there: no chat is archived with a
/// message on its way, and no message enters a chat that is about to be archived.
#[test]
fn a_command_is_checked_against_the_chat_it_will_meet() {
    let mut stage = Stage::new(chat_id(1));
    submit(&mut stage, send("hello", Delivery::Queue)).unwrap();
    let busy = |verb| Err(Refusal::Status(Status::Running, verb));
    assert_eq!(submit(&mut stage, Command::Archive), busy(Verb::Archive));
    assert_eq!(submit(&mut stage, Command::Compact), busy(Verb::Compact));

    let mut stage = Stage::new(chat_id(2));
    submit(&mut stage, Command::Archive).unwrap();
    assert_eq!(submit(&mut stage, send("hello", Delivery::Queue)), Err(Refusal::Archived));
    submit(&mut stage, Command::Unarchive).unwrap();
    submit(&mut stage, send("hello", Delivery::Queue)).unwrap();
    obey_all(&mut stage);
    assert_eq!((stage.chat.status, stage.chat.archived), (Status::Running, false));
    assert!(stage.inbox.iter().all(|(_, outcome)| *outcome == Some(Ok(()))));
}

/// An interrupt stops the turn its sender saw, not the one that began before the driver got to it.
#[test]
fn an_interrupt_that_comes_late_spares_the_next_turn() {
    let mut stage = Stage::new(chat_id(1));
    submit(&mut stage, send("first", Delivery::Queue)).unwrap();
    submit(&mut stage, send("second", Delivery::Queue)).unwrap();
    obey_all(&mut stage);
    submit(&mut stage, Command::Interrupt).unwrap();
    stage.commit(&stage.change(|change| change.finish(TurnEnd::Done))); // And "second" begins.
    submit(&mut stage, Command::Rename("spared".into())).unwrap();
    obey_all(&mut stage);
    assert_eq!((stage.chat.status, stage.chat.title.as_str()), (Status::Running, "spared"));
    assert_eq!(stage.inbox[2].1, Some(Ok(())), "its turn has stopped");

    submit(&mut stage, Command::Interrupt).unwrap();
    obey_all(&mut stage);
    assert_eq!(stage.chat.status, Status::Interrupting);
}

/// An interrupt right behind a message stops the turn which that message begins.
#[test]
fn an_interrupt_reaches_the_turn_that_is_on_its_way() {
    let mut stage = Stage::new(chat_id(1));
    submit(&mut stage, send("hello", Delivery::Queue)).unwrap();
    submit(&mut stage, Command::Interrupt).unwrap();
    obey_all(&mut stage);
    assert_eq!(stage.chat.status, Status::Interrupting);
}

/// I11: an interrupt behind an edit stops the edited turn, whatever the driver was about to commit when both came.
#[test]
fn an_interrupt_reaches_the_turn_of_an_edit() {
    let hello = || {
        let mut stage = Stage::new(chat_id(1));
        submit(&mut stage, send("hello", Delivery::Queue)).unwrap();
        submit(&mut stage, send("and then", Delivery::Queue)).unwrap();
        obey_all(&mut stage);
        stage
    };
    let answer = || reply(StepId(1), &[text("Hello")], Stop::End);
    for commits in 0..=2 {
        let mut stage = hello();
        submit(&mut stage, edit(1)).unwrap();
        submit(&mut stage, Command::Interrupt).unwrap();
        if commits > 0 {
            stage.commit(&stage.change(|change| change.reply(answer(), |_| CallState::Ready)));
        }
        if commits > 1 {
            stage.commit(&stage.change(|change| change.finish(TurnEnd::Done))); // And "and then" begins.
        }
        obey_all(&mut stage);
        assert_eq!((stage.inbox[3].1, stage.chat.status), (Some(Ok(())), Status::Interrupting), "{commits} commits");
    }
    let mut stage = hello();
    submit(&mut stage, edit(1)).unwrap();
    obey_all(&mut stage);
    submit(&mut stage, Command::Interrupt).unwrap();
    stage.commit(&stage.change(|change| change.finish(TurnEnd::Done))); // And "and then" begins.
    obey_all(&mut stage);
    assert_eq!(stage.chat.status, Status::Running, "one that comes late still spares the next turn");
}

/// The title is the shortened first message until a rename; then it stays.
#[test]
fn a_chat_has_a_title() {
    let mut stage = Stage::new(chat_id(1));
    submit(&mut stage, send("  how\n do I  ", Delivery::Queue)).unwrap();
    obey_all(&mut stage);
    assert_eq!(stage.chat.title, "how do I");
    for bad in ["", " \n", &"x".repeat(401)] {
        assert!(submit(&mut stage, Command::Rename(bad.into())).is_err(), "{bad}");
    }
    submit(&mut stage, Command::Rename(" My chat ".into())).unwrap();
    submit(&mut stage, edit(1)).unwrap();
    obey_all(&mut stage);
    assert_eq!(stage.chat.title, "My chat");

    let mut long = Stage::new(chat_id(2));
    submit(&mut long, send(&"ä".repeat(99), Delivery::Queue)).unwrap();
    obey_all(&mut long);
    assert_eq!(long.chat.title, format!("{}…", "ä".repeat(60)));
}

/// CS15: what an edit on its way will take out cannot be edited any more, and what it leaves can.
#[test]
fn an_edit_behind_an_edit_finds_what_that_leaves() {
    let mut stage = Stage::new(chat_id(1));
    for text in ["one", "two", "three"] {
        submit(&mut stage, send(text, Delivery::Steer)).unwrap();
        obey_all(&mut stage);
        stage.commit(&stage.change(|change| change.begin()));
    }
    assert_eq!(stage.transcript.len(), 3);
    assert_eq!(submit(&mut stage, edit(4)), Err(Refusal::NotEditable));
    submit(&mut stage, edit(2)).unwrap();
    assert_eq!(submit(&mut stage, edit(2)), Err(Refusal::NotEditable));
    assert_eq!(submit(&mut stage, edit(3)), Err(Refusal::NotEditable));
    submit(&mut stage, edit(1)).unwrap();
    obey_all(&mut stage);
    assert!(stage.inbox.iter().all(|(_, outcome)| *outcome == Some(Ok(()))));
    assert_eq!(stage.transcript.iter().map(|message| message.id.0).collect::<Vec<_>>(), [5]);
}

/// CS19: a summary is asked for at rest, waits while others queue up, and is refused to a busy chat.
#[test]
fn a_requested_summary_is_asked_for_once() {
    let mut stage = Stage::new(chat_id(1));
    submit(&mut stage, Command::Compact).unwrap();
    assert_eq!(submit(&mut stage, Command::Compact), Err(Refusal::Status(Status::Running, Verb::Compact)));
    submit(&mut stage, send("meanwhile", Delivery::Queue)).unwrap();
    obey_all(&mut stage);
    assert!(stage.chat.compaction_asked && stage.chat.queue.len() == 1);
    stage.commit(&stage.change(|change| change.finish(TurnEnd::Done)));
    assert!(!stage.chat.compaction_asked, "used up");
    assert_eq!(stage.transcript.len(), 1, "and the next one goes on");
}
