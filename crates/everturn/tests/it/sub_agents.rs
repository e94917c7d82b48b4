//! Sub-agents: chats that another chat's call began.

use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::ids::ChatId;
use everturn::core::message::{Body, Message, Stop};
use everturn::stores::{ChatQuery, Store as _};
use everturn::{Agent, Builder, SubAgent};
use everturn_understudy::{Cue, Script, Understudy, call, script, stop, text, wait};
use serde_json::json;
use tokio::time::sleep;

use crate::stage::{Stage, agent};
use crate::stepwise::Fault;
use crate::tools::results;

/// An agent that may ask `helper`.
fn parent() -> Agent {
    agent().tool(SubAgent::new("helper", "Helps.")).unwrap()
}

fn with_helper(builder: Builder) -> Builder {
    builder.agent("helper", parent())
}

fn ask() -> Cue {
    call("ask_helper", json!({"task": "find it", "context": "It is here."}))
}

fn asking(len: usize) -> Script {
    script((0..len).map(|_| ask()).chain([stop(Stop::ToolUse)]))
}

fn says(words: &str) -> Script {
    script([text(words), stop(Stop::End)])
}

/// The chat of a sub-agent, from the answer that its parent was given.
fn child(answer: &str) -> ChatId {
    answer.rsplit("chat ").next().unwrap().trim_end_matches(']').parse().unwrap()
}

/// A sub-agent works in a chat of its own, with the task as its first message; its answer is the call's result.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_answers() {
    let understudy = Understudy::new([asking(1), says("It is found."), says("Done.")]);
    let stage = Stage::built(understudy, parent(), with_helper).await;
    stage.run("go").await;
    let requests = stage.understudy.requests();
    let told = results(&requests[2]);
    assert!(!told[0].1 && told[0].2.starts_with("It is found.\n\n[answer of `helper`, chat "), "{told:?}");
    let child = stage.engine.chat(child(&told[0].2));
    assert_eq!(child.newest_reply().await.unwrap().as_deref(), Some("It is found."));
    let standing = child.standing().await.unwrap();
    assert_eq!(standing.title, "find it It is here.");
    let parent = standing.parent.unwrap();
    assert_eq!((parent.parent(), parent.depth()), (stage.chat.id(), 1));
}

/// TA03: with one work slot, a parent and three sub-agents come to their ends.
#[tokio::test(start_paused = true)]
async fn a_parent_does_not_starve_its_sub_agents() {
    let scripts = [asking(3), says("one"), says("two"), says("three"), says("Done.")];
    let change = |builder| with_helper(builder).chats_max(1);
    let stage = Stage::built(Understudy::new(scripts), parent(), change).await;
    stage.run("go").await;
    let told = results(&stage.understudy.requests()[4]);
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|(_, failed, _)| !failed), "{told:?}");
}

/// TA02: a sub-agent that ended while its parent's process was gone has its answer delivered, and is not asked again.
#[tokio::test(start_paused = true)]
async fn an_answer_is_delivered_after_a_restart() {
    let slow = script([wait(5), text("It is found."), stop(Stop::End)]);
    let stage = Stage::built(Understudy::new([asking(1), slow]), parent(), with_helper).await;
    stage.chat.send("go").await.unwrap();
    while stage.understudy.requests().len() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    let understudy = Understudy::new([says("It is found."), says("Done.")]);
    let stage = stage.moved_as(understudy, parent(), with_helper).await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let told = results(stage.understudy.requests().last().unwrap());
    assert!(told.len() == 1 && told[0].2.contains("It is found."), "{told:?}");
}

/// TA04: sub-agents may be two deep. The third is told to do its task itself, and all of them go on.
#[tokio::test(start_paused = true)]
async fn sub_agents_are_bounded_in_depth() {
    let scripts = [asking(1), asking(1), asking(1), says("deepest"), says("deeper"), says("Done.")];
    let stage = Stage::built(Understudy::new(scripts), parent(), with_helper).await;
    stage.run("go").await;
    let told = results(&stage.understudy.requests()[3]);
    assert!(told[0].1 && told[0].2.contains("2 deep"), "{told:?}");
    assert_eq!(stage.replies().await, "|Done.");
}

/// TA05: an interrupt of the parent interrupts the sub-agent.
#[tokio::test(start_paused = true)]
async fn an_interrupt_reaches_the_sub_agent() {
    let slow = script([text("So far"), wait(60), stop(Stop::End)]);
    let stage = Stage::built(Understudy::new([asking(1), slow]), parent(), with_helper).await;
    stage.chat.send("go").await.unwrap();
    while stage.understudy.requests().len() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_secs(1)).await;
    stage.chat.interrupt().await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Interrupted);
    let transcript = stage.told().await;
    assert!(transcript.contains("told to stop"), "{transcript}");
    let chats = stage.store.headings(&ChatQuery::default()).await.unwrap();
    let child = chats.iter().find(|heading| heading.agent == "helper").unwrap();
    assert_eq!(stage.engine.chat(child.id).rest().await.unwrap().ended(), Some(TurnEnd::Interrupted));
}

/// TA01: wherever a write is lost and the process with it, there is one sub-agent with one task, and one result.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_is_made_once() {
    for writes in 5..16 {
        let understudy = Understudy::new([asking(1), says("It is found."), says("It is found.")]);
        let stage = Stage::built(understudy, parent(), with_helper).await;
        stage.store.fail_after(writes, Fault::Refused);
        stage.chat.send("go").await.unwrap();
        sleep(Duration::from_millis(500)).await;
        let understudy = Understudy::new([says("It is found."), says("It is found.")]);
        let stage = stage.moved_as(understudy, parent(), with_helper).await;
        assert_eq!(stage.ended().await, TurnEnd::Done, "after {writes} writes");
        let chats = stage.store.headings(&ChatQuery::default()).await.unwrap();
        let children: Vec<_> = chats.iter().filter(|heading| heading.agent == "helper").collect();
        assert_eq!(children.len(), 1, "after {writes} writes");
        let of = |message: &Message| match &message.body {
            Body::User(_) => "task",
            Body::Result(_) => "result",
            _ => "",
        };
        let child = stage.engine.chat(children[0].id).transcript().await.unwrap();
        assert_eq!(child.iter().filter(|message| of(message) == "task").count(), 1, "after {writes} writes");
        let own = stage.transcript().await;
        assert_eq!(own.iter().filter(|message| of(message) == "result").count(), 1, "after {writes} writes");
    }
}
