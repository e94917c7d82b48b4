//! Chats with an agent that is not configured any more.

use std::time::Duration;

use everturn::core::chat::{TurnEnd, TurnFailure};
use everturn::core::command::{AnswerContent, CallAnswer, Command};
use everturn::core::error::ErrorKind;
use everturn::core::ids::{CallUid, InboxSeq, MessageId, StepId, Timestamp};
use everturn::core::message::Stop;
use everturn::core::status::Status;
use everturn::stores::{Fork, MakeError, NewChat, SubmitError};
use everturn::{ChatHandle, CreateError, Engine};
use everturn_understudy::{Understudy, call, hang, script, stop, text};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::commands::send;
use crate::stage::{Diary, Stage, agent};
use crate::tools::ANY;

/// Moves the chat to a process with other agents only.
async fn orphaned(stage: &Stage) -> (Engine, ChatHandle) {
    orphaned_as(stage, |_| false).await
}

async fn orphaned_as(stage: &Stage, is_elsewhere: fn(&str) -> bool) -> (Engine, ChatHandle) {
    stage.engine.shutdown().await;
    let builder = Engine::builder().store(stage.store.clone()).provider(stage.understudy.clone());
    let builder = builder.agent("another", agent()).agents_elsewhere(is_elsewhere);
    let engine = builder.starting_at(Timestamp(0)).start();
    engine.resume().await.unwrap();
    let chat = engine.chat(stage.chat.id());
    (engine, chat)
}

/// I2: a repeat of a request id gets the same answer, also after the agent was removed.
#[tokio::test(start_paused = true)]
async fn a_repeated_command_is_not_refused() {
    let stage = Stage::new(Understudy::new([script([text("Yes."), stop(Stop::End)])]), agent()).await;
    let key = || Some("a request".to_owned());
    let taken = stage.chat.submit(send("Are you there?"), key()).await.unwrap();
    stage.chat.rest().await.unwrap();
    let (_engine, chat) = orphaned(&stage).await;
    assert_eq!(chat.submit(send("Are you there?"), key()).await, Ok(taken));
    assert_eq!(chat.submit(send("Are you gone?"), key()).await, Err(SubmitError::Conflict));
    let another = chat.submit(send("Are you there?"), Some("another".into())).await;
    assert_eq!(another, Err(SubmitError::NoAgent("it".into())));
    assert_eq!(chat.transcript().await.unwrap().len(), 2, "it was said once");
}

/// I2: a repeated creation or fork under a key is answered as before, although its agent is gone.
#[tokio::test(start_paused = true)]
async fn a_repeated_creation_is_not_refused() {
    let stage = Stage::new(Understudy::new([script([text("Yes."), stop(Stop::End)])]), agent()).await;
    stage.chat.send("Are you there?").await.unwrap();
    stage.chat.rest().await.unwrap();
    let fork = Some(Fork { chat: stage.chat.id(), at: MessageId(2) });
    let new = |engine: &Engine, fork: Option<Fork>, key: &str| NewChat {
        fork,
        key: Some(key.into()),
        ..NewChat::of(engine.new_id(), "it", "me")
    };
    let made = stage.engine.make(&new(&stage.engine, None, "empty")).await.unwrap().id();
    let forked = stage.engine.make(&new(&stage.engine, fork, "fork")).await.unwrap().id();
    let (engine, _) = orphaned(&stage).await;
    let again = async |fork, key| engine.make(&new(&engine, fork, key)).await.map(|chat| chat.id());
    assert_eq!(again(None, "empty").await, Ok(made));
    assert_eq!(again(fork, "fork").await, Ok(forked));
    assert_eq!(again(fork, "empty").await, Err(MakeError::Conflict.into()));
    for fork in [None, fork] {
        assert_eq!(again(fork, "another").await, Err(CreateError::NoSuchAgent("it".into())));
    }
}

fn is_told(end: Option<TurnEnd>) {
    let Some(TurnEnd::Failed(failure)) = end else { panic!("{end:?}") };
    let TurnFailure { kind, detail, .. } = *failure;
    assert_eq!(kind, ErrorKind::Config);
    assert!(detail.contains("`it`") && detail.contains("configuration"), "{detail}");
}

/// Its turn ends and says why, with what was shown; it is not tried again and again. What needs no agent works, what does
/// is refused by name, and with the agent back the next message goes on.
#[tokio::test(start_paused = true)]
async fn a_chat_without_its_agent_rests_until_it_is_back() {
    let scripts = [script([text("Once upon"), hang()]), script([text("The end."), stop(Stop::End)])];
    let stage = Stage::new(Understudy::new(scripts), agent()).await;
    stage.chat.send("Tell me a story.").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let ((engine, chat), since) = (orphaned(&stage).await, Instant::now());
    is_told(chat.rest().await.unwrap().ended());
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    assert_eq!(chat.newest_reply().await.unwrap().as_deref(), Some("Once upon"));

    let refused = Err(SubmitError::NoAgent("it".into()));
    let (call, writes) = (CallUid { step: StepId(1), ordinal: 0 }, stage.store.writes());
    let first = chat.transcript().await.unwrap()[0].id;
    assert_eq!(chat.send("Go on.").await, refused);
    assert_eq!(chat.steer("Go on.").await, refused);
    assert_eq!(chat.send_now("Go on.").await, refused);
    assert_eq!(chat.edit(first, "Go on.").await, refused);
    assert_eq!(chat.promote(InboxSeq(1)).await, refused);
    assert_eq!(chat.compact().await, refused);
    assert_eq!(chat.answer([CallAnswer { call, what: AnswerContent::Deny { reason: String::new() } }]).await, refused);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.store.writes(), writes, "no driver works on it");
    chat.interrupt().await.unwrap();
    for command in [Command::Rename("A story".into()), Command::Archive, Command::Unarchive] {
        let receipt = chat.submit(command, None).await.unwrap();
        chat.outcome(receipt).await.unwrap().unwrap();
    }
    assert_eq!(
        (chat.standing().await.unwrap().title.as_str(), chat.view().await.unwrap().messages.len()),
        ("A story", 2)
    );

    engine.shutdown().await;
    let stage = stage.moved(Understudy::new([script([text("The end."), stop(Stop::End)])]), agent()).await;
    stage.run("Go on.").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(stage.chat.newest_reply().await.unwrap().as_deref(), Some("The end."));
}

/// R32: a turn whose agent another process has stays as it is, and goes on there. An interrupt is obeyed.
#[tokio::test(start_paused = true)]
async fn a_chat_of_an_agent_elsewhere_is_left_alone() {
    for stops in [false, true] {
        let stage = Stage::new(Understudy::new([script([text("Once upon"), hang()])]), agent()).await;
        stage.chat.send("Tell me a story.").await.unwrap();
        sleep(Duration::from_secs(1)).await;
        let (engine, chat) = orphaned_as(&stage, |agent| agent == "it").await;
        sleep(Duration::from_secs(60)).await;
        let writes = stage.store.writes();
        for _ in 0..20 {
            engine.resume().await.unwrap();
            sleep(Duration::from_secs(60)).await;
        }
        assert_eq!(stage.store.writes(), writes, "nothing is written");
        assert_eq!(chat.standing().await.unwrap().status, Status::Running);
        if stops {
            chat.interrupt().await.unwrap();
            assert_eq!(chat.rest().await.unwrap().ended(), Some(TurnEnd::Interrupted));
        }
        engine.shutdown().await;
        let stage = stage.moved(Understudy::new([script([text(" a time."), stop(Stop::End)])]), agent()).await;
        let end = if stops { TurnEnd::Interrupted } else { TurnEnd::Done };
        assert_eq!(stage.ended().await, end);
    }
}

/// Calls that were to run get results that say so: the transcript stays complete for the next turn.
#[tokio::test(start_paused = true)]
async fn calls_of_an_agent_that_is_gone_are_answered() {
    let scripts = [script([call("look", json!({})), stop(Stop::ToolUse)])];
    let stage = Stage::new(Understudy::new(scripts), agent().tool(Diary::new().tool("look", 60, ANY)).unwrap()).await;
    stage.chat.send("Look.").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let (_engine, chat) = orphaned(&stage).await;
    is_told(chat.rest().await.unwrap().ended());
    let standing = chat.standing().await.unwrap();
    assert_eq!((standing.status, chat.view().await.unwrap().messages.len()), (Status::Failed, 3));
}

/// Deleting needs no agent.
#[tokio::test(start_paused = true)]
async fn a_chat_without_its_agent_is_deleted() {
    let stage = Stage::new(Understudy::new([script([text("Once upon"), hang()])]), agent()).await;
    stage.chat.send("Tell me a story.").await.unwrap();
    stage.chat.send("And another.").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let (_engine, chat) = orphaned(&stage).await;
    chat.delete().await.unwrap();
    assert!(chat.standing().await.is_err());
}
