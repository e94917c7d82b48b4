//! Commands to a chat that is running, idle or failed.

use std::sync::Arc;
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::command::{Command, Delivery, Refusal};
use everturn::core::ids::{InboxSeq, MessageId};
use everturn::core::message::{Meta, Part, Stop, Text};
use everturn::core::status::{Status, Verb};
use everturn::stores::{Store as _, SubmitError};
use everturn_understudy::{Script, Understudy, call, refuse, script, stop, text, wait};
use expect_test::expect;
use serde_json::json;
use tokio::time::sleep;

use crate::crash::die_at;
use crate::stage::{Diary, Stage, agent, stage};
use crate::tools::{ANY, calling, results};

/// An answer that takes ten seconds.
fn slowly(answer: &str) -> Script {
    script([text(format!("{answer}…")), wait(10), text("done"), stop(Stop::End)])
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

/// The trace without deltas.
pub fn commits(seen: &str) -> String {
    seen.lines().filter(|line| !line.contains(" delta ")).map(|line| format!("{line}\n")).collect()
}

/// I1: a command of a caller that hangs up meanwhile is applied, or was never accepted. It does not lie in the inbox until
/// the next wake-up.
#[tokio::test(start_paused = true)]
async fn a_command_outlives_its_caller() {
    let mut waits = 0;
    loop {
        let stage = stage([script([text("Hel"), wait(3_600), stop(Stop::End)])]).await;
        let is_sent = die_at(stage.chat.send("go"), waits).await;
        seconds(1).await;
        if !is_sent {
            assert!(stage.store.inbox(stage.chat.id()).await.unwrap().is_empty(), "sent, and left after {waits} waits");
            stage.chat.send("go").await.unwrap();
            seconds(1).await;
        }
        let is_stopped = die_at(stage.chat.interrupt(), waits).await;
        seconds(1).await;
        assert!(stage.store.inbox(stage.chat.id()).await.unwrap().is_empty(), "stopped, and left after {waits} waits");
        if is_sent && is_stopped {
            break;
        }
        waits += 1;
    }
    assert!(waits > 0, "there was no moment to leave at");
}

/// I12: messages to a busy chat wait, and run one after the other in the order they came.
#[tokio::test(start_paused = true)]
async fn queued_messages_run_in_order() {
    let stage = stage(["a", "b", "c"].map(slowly)).await;
    let watching = tokio::spawn(stage.watch().until_rest());
    for message in ["first", "second", "third"] {
        stage.chat.send(message).await.unwrap();
        seconds(1).await;
    }
    expect![[r#"
        t=000.0 message 1 user "first"
        t=000.0 running
        t=001.0 running +"second"
        t=002.0 running +"second" +"third"
        t=010.0 message 2 reply ["a…done"] End
        t=010.0 running +"second" +"third"
        t=010.0 message 3 user "second"
        t=010.0 running +"third"
        t=020.0 message 4 reply ["b…done"] End
        t=020.0 running +"third"
        t=020.0 message 5 user "third"
        t=020.0 running
        t=030.0 message 6 reply ["c…done"] End
        t=030.0 running
        t=030.0 idle Done
    "#]]
    .assert_eq(&commits(&watching.await.unwrap()));
}

/// I8: a message that steers goes in at the next step boundary: behind the results of the open calls, before the next
/// request; one that comes during the last answer makes it not the last.
#[tokio::test(start_paused = true)]
async fn a_steering_message_goes_in_at_the_step_boundary() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("look", 10, ANY)).unwrap();
    let [calls, _] = calling([call("look", json!({}))]);
    let stage = Stage::new(Understudy::new([calls, slowly("b"), slowly("c"), slowly("d")]), agent).await;
    let watching = tokio::spawn(stage.watch().until_rest());
    stage.chat.send("go").await.unwrap();
    seconds(5).await;
    stage.chat.send("afterwards").await.unwrap();
    stage.chat.steer("left").await.unwrap();
    stage.chat.steer("and up").await.unwrap();
    seconds(10).await;
    stage.chat.steer("and stop").await.unwrap();
    expect![[r#"
        t=000.0 message 1 user "go"
        t=000.0 running
        t=000.0 message 2 reply [look({})] ToolUse
        t=000.0 running
        t=000.0 running
        t=005.0 running +"afterwards" +"left"!
        t=005.0 running +"afterwards" +"left"! +"and up"!
        t=005.0 running +"afterwards" +"left"! +"and up"!
        t=010.0 message 3 result 1.0 look Done "look did {}"
        t=010.0 running +"afterwards" +"left"! +"and up"!
        t=010.0 message 4 user "left"
        t=010.0 message 5 user "and up"
        t=010.0 running +"afterwards"
        t=015.0 running +"afterwards" +"and stop"!
        t=020.0 message 6 reply ["b…done"] End
        t=020.0 running +"afterwards" +"and stop"!
        t=020.0 message 7 user "and stop"
        t=020.0 running +"afterwards"
        t=030.0 message 8 reply ["c…done"] End
        t=030.0 running +"afterwards"
        t=030.0 message 9 user "afterwards"
        t=030.0 running
        t=040.0 message 10 reply ["d…done"] End
        t=040.0 running
        t=040.0 idle Done
    "#]]
    .assert_eq(&commits(&watching.await.unwrap()));
    let requests = stage.understudy.requests();
    let asked = format!("{:?}", requests[1].entries);
    assert!(asked.find("look did").unwrap() < asked.find("left").unwrap(), "results stand before words");
}

/// Promoting makes a queued message the next, at the next step boundary. Deleting one makes it never. Neither works on
/// one that has run, was deleted, or never was.
#[tokio::test(start_paused = true)]
async fn queued_messages_can_be_promoted_and_deleted() {
    let stage = stage(["a", "b", "c"].map(slowly)).await;
    let watching = tokio::spawn(stage.watch().until_rest());
    let first = stage.chat.send("first").await.unwrap().seq;
    seconds(1).await;
    let [_, deleted, promoted] = {
        let mut seqs = [InboxSeq(0); 3];
        for (seq, message) in seqs.iter_mut().zip(["second", "deleted", "promoted"]) {
            *seq = stage.chat.send(message).await.unwrap().seq;
        }
        seqs
    };
    stage.chat.promote(promoted).await.unwrap();
    stage.chat.unqueue(deleted).await.unwrap();
    let not_queued = Err(SubmitError::Refused(Refusal::NotQueued));
    for gone in [first, deleted, InboxSeq(99)] {
        assert_eq!(stage.chat.promote(gone).await.map(|_| ()), not_queued);
        assert_eq!(stage.chat.unqueue(gone).await.map(|_| ()), not_queued);
    }
    expect![[r#"
        t=000.0 message 1 user "first"
        t=000.0 running
        t=001.0 running +"second" +"deleted"
        t=001.0 running +"second" +"deleted" +"promoted"
        t=001.0 running +"second" +"deleted" +"promoted"
        t=001.0 running +"promoted"! +"second" +"deleted"
        t=001.0 running +"promoted"! +"second"
        t=010.0 message 2 reply ["a…done"] End
        t=010.0 running +"promoted"! +"second"
        t=010.0 message 3 user "promoted"
        t=010.0 running +"second"
        t=020.0 message 4 reply ["b…done"] End
        t=020.0 running +"second"
        t=020.0 message 5 user "second"
        t=020.0 running
        t=030.0 message 6 reply ["c…done"] End
        t=030.0 running
        t=030.0 idle Done
    "#]]
    .assert_eq(&commits(&watching.await.unwrap()));
}

/// I12: a message sent now interrupts the turn and goes before the queue, and no message is lost.
#[tokio::test(start_paused = true)]
async fn a_message_sent_now_interrupts_and_goes_first() {
    let stage = stage(["a", "b", "c"].map(slowly)).await;
    let watching = tokio::spawn(stage.watch().until_rest());
    stage.chat.send("first").await.unwrap();
    seconds(1).await;
    stage.chat.send("later").await.unwrap();
    stage.chat.send_now("now").await.unwrap();
    expect![[r#"
        t=000.0 message 1 user "first"
        t=000.0 running
        t=001.0 running +"now" +"later"
        t=001.0 interrupting +"now" +"later"
        t=001.0 message 2 reply ["a…"] Interrupted
        t=001.0 message 3 user "now"
        t=001.0 running +"later"
        t=011.0 message 4 reply ["b…done"] End
        t=011.0 running +"later"
        t=011.0 message 5 user "later"
        t=011.0 running
        t=021.0 message 6 reply ["c…done"] End
        t=021.0 running
        t=021.0 idle Done
    "#]]
    .assert_eq(&commits(&watching.await.unwrap()));
}

/// The message ids of what people said.
async fn said(stage: &Stage) -> Vec<MessageId> {
    use everturn::core::message::Body;
    let transcript = stage.transcript().await;
    transcript.iter().filter(|message| matches!(message.body, Body::User(_))).map(|message| message.id).collect()
}

/// An edit of a resting chat replaces the message and everything after it. Ids are not used again.
#[tokio::test(start_paused = true)]
async fn an_edit_of_a_resting_chat_rewinds_it() {
    let stage = stage(["a", "b", "c"].map(slowly)).await;
    stage.run("one").await;
    stage.run("two").await;
    let mut watch = stage.watch();
    watch.step().await;
    let first = said(&stage).await[0];
    stage.chat.edit(first, "one, but better").await.unwrap();
    expect![[r#"
        t=020.0 rewound from 1
        t=020.0 message 5 user "one, but better"
        t=020.0 running
        t=030.0 message 6 reply ["c…done"] End
        t=030.0 running
        t=030.0 idle Done
    "#]]
    .assert_eq(&commits(&watch.until_rest().await));
    expect![[r#"
        message 5 user "one, but better"
        message 6 reply ["c…done"] End
    "#]]
    .assert_eq(&stage.told().await);
    let refused = stage.chat.edit(first, "again").await;
    assert_eq!(refused, Err(SubmitError::Refused(Refusal::NotEditable)), "it is not there any more");
    let reply = stage.transcript().await[1].id;
    assert_eq!(stage.chat.edit(reply, "?").await, Err(SubmitError::Refused(Refusal::NotEditable)));
    assert_eq!(stage.chat.edit(first, " ").await, Err(SubmitError::Refused(Refusal::Empty)));
}

/// An edit of a running chat drops the draft, not the bill: the attempt has its row.
#[tokio::test(start_paused = true)]
async fn an_edit_of_a_streaming_chat_drops_the_draft() {
    let stage = stage(["a", "b", "c"].map(slowly)).await;
    let watching = tokio::spawn(stage.watch().until_rest());
    stage.chat.send("one").await.unwrap();
    seconds(1).await;
    stage.chat.send("queued").await.unwrap();
    seconds(1).await;
    stage.chat.edit(MessageId(1), "one, but better").await.unwrap();
    seconds(1).await;
    assert_eq!(stage.understudy.streams_open(), 1, "the first stream is closed");
    let _ = watching.await.unwrap();
    expect![[r#"
        message 2 user "one, but better"
        message 3 reply ["b…done"] End
        message 4 user "queued"
        message 5 reply ["c…done"] End
    "#]]
    .assert_eq(&stage.told().await);
    let rows = stage.chat.attempts(0).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (row.step.0, row.number, row.took.as_secs(), row.outcome)).collect();
    expect![[r#"
        [
            (
                1,
                1,
                2,
                Lost,
            ),
            (
                2,
                1,
                10,
                Answered,
            ),
            (
                4,
                1,
                10,
                Answered,
            ),
        ]
    "#]]
    .assert_debug_eq(&rows);
}

/// An edit while tools run stops them, and nothing of the old turn is left: no result, no open call.
#[tokio::test(start_paused = true)]
async fn an_edit_while_tools_run_stops_them() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("look", 10, ANY)).unwrap();
    let [calls, done] = calling([call("look", json!({}))]);
    let stage = Stage::new(Understudy::new([calls, done]), agent).await;
    let watching = tokio::spawn(stage.watch().until_rest());
    stage.chat.send("one").await.unwrap();
    seconds(1).await;
    stage.chat.edit(MessageId(1), "two").await.unwrap();
    let _ = watching.await.unwrap();
    expect![[r#"
        message 4 user "two"
        message 5 reply ["Done."] End
    "#]]
    .assert_eq(&stage.told().await);
    expect![[r#"
        t=000.0 look {} begins
        t=001.0 look {} is told to stop
    "#]]
    .assert_eq(&diary.read());
    assert_eq!(results(&stage.understudy.requests()[1]), []);
}

/// An edit while a call waits for an answer withdraws the question; an edit of a failed chat tries again.
#[tokio::test(start_paused = true)]
async fn an_edit_while_asking_or_after_a_failure() {
    let mut agent = agent();
    agent
        .toolbox
        .add_client(everturn::core::prompt::ToolSpec::new("photo", "Takes one.", json!({"type": "object"})))
        .unwrap();
    let [calls, _] = calling([call("photo", json!({}))]);
    let scripts = [calls, script([text("half "), wait(1), refuse(401)]), script([text("Hi."), stop(Stop::End)])];
    let stage = Stage::new(Understudy::new(scripts), agent).await;
    let mut watch = stage.watch();
    stage.chat.send("one").await.unwrap();
    watch.until_asked().await;
    stage.chat.edit(MessageId(1), "two").await.unwrap();
    let TurnEnd::Failed(_) = stage.ended().await else { panic!("the second attempt fails") };
    expect![[r#"
        message 3 user "two"
        message 4 reply ["half "] Broken
    "#]]
    .assert_eq(&stage.told().await);
    stage.chat.edit(said(&stage).await[0], "three").await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    expect![[r#"
        message 5 user "three"
        message 6 reply ["Hi."] End
    "#]]
    .assert_eq(&stage.told().await);
    assert_eq!(stage.chat.attempts(0).await.unwrap().len(), 3);
}

/// Only a resting chat can be put away, and then it takes nothing until it is taken out again.
#[tokio::test(start_paused = true)]
async fn an_archived_chat_takes_nothing() {
    let stage = stage(["a", "b"].map(slowly)).await;
    stage.chat.send("one").await.unwrap();
    seconds(1).await;
    let busy = |verb| Err(SubmitError::Refused(Refusal::Status(Status::Running, verb)));
    assert_eq!(stage.chat.archive().await, busy(Verb::Archive));
    assert_eq!(stage.chat.compact().await, busy(Verb::Compact));
    stage.ended().await;
    let receipt = stage.chat.archive().await.unwrap();
    let archived = Err(SubmitError::Refused(Refusal::Archived));
    assert_eq!(stage.chat.send("two").await, archived, "also before the driver has come to it");
    stage.chat.outcome(receipt).await.unwrap().unwrap();
    assert_eq!(stage.chat.send_now("two").await, archived);
    assert_eq!(stage.chat.steer("two").await, archived);
    assert_eq!(stage.chat.edit(MessageId(1), "two").await, archived);
    assert_eq!(stage.chat.compact().await, archived);
    stage.chat.interrupt().await.unwrap(); // It rests: that is what they want.
    stage.chat.archive().await.unwrap();
    assert!(stage.chat.view().await.unwrap().standing.unwrap().archived);
    stage.chat.unarchive().await.unwrap();
    stage.chat.send("two").await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(stage.transcript().await.len(), 4);
}

/// A refused command leaves nothing behind: no message, no row, no version.
#[tokio::test(start_paused = true)]
async fn refused_commands_leave_no_trace() {
    let mut agent = agent();
    agent.limits.queue_len_max = 2;
    let stage = Stage::new(Understudy::new(["a", "b", "c"].map(slowly)), agent).await;
    assert_eq!(stage.chat.send(" \n").await, Err(SubmitError::Refused(Refusal::Empty)));
    stage.chat.send("one").await.unwrap();
    for queued in ["two", "three"] {
        stage.chat.send(queued).await.unwrap();
    }
    seconds(1).await;
    let before = stage.chat.view().await.unwrap();
    for full in [stage.chat.send("four").await, stage.chat.steer("four").await, stage.chat.send_now("four").await] {
        assert_eq!(full, Err(SubmitError::Refused(Refusal::QueueFull)));
    }
    assert_eq!(stage.chat.steer("").await, Err(SubmitError::Refused(Refusal::Empty)));
    assert_eq!(stage.chat.edit(MessageId(2), "?").await, Err(SubmitError::Refused(Refusal::NotEditable)));
    assert_eq!(stage.chat.view().await.unwrap(), before);
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(said(&stage).await.len(), 3);
}

/// I12: after a failure the queue waits for a command to send, promote or delete; nothing is lost or reordered.
#[tokio::test(start_paused = true)]
async fn after_a_failure_the_queue_waits() {
    let fails = || script([text("a…"), wait(5), refuse(401)]);
    let stage = stage([fails(), slowly("b"), slowly("c")]).await;
    let watching = tokio::spawn(stage.watch().until_rest());
    stage.chat.send("one").await.unwrap();
    seconds(1).await;
    let two = stage.chat.send("two").await.unwrap().seq;
    assert!(matches!(stage.ended().await, TurnEnd::Failed(_)));
    expect![[r#"
        t=000.0 message 1 user "one"
        t=000.0 running
        t=001.0 running +"two"
        t=005.0 message 2 reply ["a…"] Broken
        t=005.0 failed +"two" failed Auth
    "#]]
    .assert_eq(&commits(&watching.await.unwrap()));
    seconds(3600).await;
    assert_eq!(stage.understudy.requests().len(), 1, "the call is not decided yet");
    stage.chat.send("three").await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    expect![[r#"
        message 1 user "one"
        message 2 reply ["a…"] Broken
        message 3 user "two"
        message 4 reply ["b…done"] End
        message 5 user "three"
        message 6 reply ["c…done"] End
    "#]]
    .assert_eq(&stage.told().await);
    assert_eq!(
        stage.chat.unqueue(two).await.map(|_| ()),
        Err(SubmitError::Refused(Refusal::Status(Status::Idle, Verb::Unqueue)))
    );
}

/// Waiting for rest after a command covers what the command began, however far the driver is with it.
#[tokio::test(start_paused = true)]
async fn rest_comes_after_everything_that_was_sent_before() {
    for yields in 0..60 {
        let stage = stage([slowly("a"), slowly("b")]).await;
        stage.run("one").await;
        stage.chat.send("two").await.unwrap();
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        stage.ended().await;
        assert_eq!(stage.replies().await, "a…done|b…done", "{yields}");
    }
}

/// A message that waits for the turn to end.
pub fn send(text: &str) -> Command {
    let parts: Arc<[Part]> = Arc::new([Part::Text(Text { text: text.into(), meta: Meta::new() })]);
    Command::Send { parts, when: Delivery::Queue }
}

/// I2: a request id has one effect, however often and from however many sides it comes, for the life of the chat;
/// another body under the same id is a conflict.
#[tokio::test(start_paused = true)]
async fn a_request_id_has_one_effect() {
    let stage = stage([slowly("a")]).await;
    let key = || Some("k1".to_string());
    let repeats = (0..1000).map(|_| {
        let chat = stage.chat.clone();
        tokio::spawn(async move { chat.submit(send("one"), key()).await.unwrap().seq })
    });
    for repeat in repeats.collect::<Vec<_>>() {
        assert_eq!(repeat.await.unwrap(), InboxSeq(1));
    }
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(stage.chat.submit(send("one"), key()).await.unwrap().seq, InboxSeq(1), "also when all is over");
    for other in [send("two"), Command::Interrupt] {
        assert_eq!(stage.chat.submit(other, key()).await, Err(SubmitError::Conflict));
    }
    let again = stage.chat.submit(Command::Unqueue(InboxSeq(9)), Some("k2".into())).await;
    assert!(matches!(again, Err(SubmitError::Refused(_))), "what was refused is no effect: {again:?}");
    assert_eq!((stage.transcript().await.len(), stage.understudy.requests().len()), (2, 1));
    let stage = stage.moved(Understudy::new([]), agent()).await;
    assert_eq!(stage.chat.submit(send("one"), key()).await.unwrap().seq, InboxSeq(1), "in the next process too");
    assert_eq!(stage.transcript().await.len(), 2);
}
