//! Turns end: every bound is a reason of its own, and whatever ends a turn leaves it whole.

use std::time::Duration;

use everturn::Agent;
use everturn::core::chat::TurnEnd;
use everturn::core::command::{Command, Refusal, When};
use everturn::core::cost::{Micros, Price};
use everturn::core::message::{File, Meta, Part, Stop};
use everturn::core::prompt::PromptPart;
use everturn::stores::SubmitError;
use everturn_understudy::{Understudy, call, script, stop, text, usage};
use expect_test::expect;
use serde_json::json;

use crate::stage::{Diary, Stage, agent};
use crate::tools::{ANY, after_reply};

/// An understudy that calls `look` for ever, each time with another input.
fn restless() -> Understudy {
    Understudy::improvising(|request| {
        let n = request.entries.len();
        script([call("look", json!({ "n": n })), usage(100, 10), stop(Stop::ToolUse)])
    })
}

/// How a turn of `agent` ends whose model never does, and after how many requests.
async fn ended(understudy: Understudy, agent: Agent) -> (TurnEnd, usize) {
    let agent = agent.tool(Diary::new().tool("look", 1, ANY)).unwrap();
    let stage = Stage::new(understudy, agent).await;
    let seen = stage.run("go").await;
    let (calls, results) = (seen.matches(" reply ").count(), seen.matches(" result ").count());
    assert_eq!(calls, results, "every call has its result:\n{seen}");
    (stage.ended().await, stage.understudy.requests().len())
}

/// I17: steps, time, tokens, cost and repeated calls each end a turn, with a reason that says which.
#[tokio::test(start_paused = true)]
async fn every_bound_ends_the_turn_with_its_own_reason() {
    let mut steps = agent();
    steps.limits.steps_max = 3;
    assert_eq!(ended(restless(), steps).await, (TurnEnd::StepsMax, 3));

    let mut time = agent();
    time.limits.turn_time_max = Duration::from_secs(5);
    assert_eq!(ended(restless(), time).await, (TurnEnd::TimeMax, 5));

    let mut tokens = agent();
    tokens.limits.turn_tokens_max = 400;
    assert_eq!(ended(restless(), tokens).await, (TurnEnd::TokensMax, 4));

    let mut cost = agent();
    cost.limits.turn_cost_max = Micros(2000);
    let price = Price { input: Micros::units(10), output: Micros::units(0), ..Price::default() };
    assert_eq!(ended(restless().with(|facts| facts.price = Some(price)), cost).await, (TurnEnd::CostMax, 2));

    let stuck =
        Understudy::improvising(|_| script([call("look", json!({"again": true})), usage(1, 1), stop(Stop::ToolUse)]));
    assert_eq!(ended(stuck, agent()).await, (TurnEnd::SameCallMax, 5));
}

/// I17: whoever makes the same call many times in one reply means it, and goes on.
#[tokio::test(start_paused = true)]
async fn equal_calls_in_one_reply_are_no_circle() {
    let dice = (0..6).map(|_| call("look", json!({}))).chain([stop(Stop::ToolUse)]);
    let understudy = Understudy::new([script(dice), script([text("A full house."), stop(Stop::End)])]);
    let stage = Stage::new(understudy, agent().tool(Diary::new().tool("look", 1, ANY)).unwrap()).await;
    stage.run("Roll six dice.").await;
    assert_eq!((stage.ended().await, stage.replies().await.as_str()), (TurnEnd::Done, "|A full house."));
}

/// The next turn has bounds of its own.
#[tokio::test(start_paused = true)]
async fn a_turn_does_not_inherit_what_the_last_one_spent() {
    let mut agent = agent().tool(Diary::new().tool("look", 0, ANY)).unwrap();
    agent.limits.steps_max = 2;
    let stage = Stage::new(restless(), agent).await;
    for turns in 1..4 {
        stage.run("go").await;
        assert_eq!((stage.ended().await, stage.understudy.requests().len()), (TurnEnd::StepsMax, 2 * turns));
    }
}

/// I12, I17: words that steer a turn at its bound are not swallowed by it. They begin the next one.
#[tokio::test(start_paused = true)]
async fn whoever_steers_a_turn_at_its_bound_begins_the_next() {
    let mut agent = agent().tool(Diary::new().tool("look", 5, ANY)).unwrap();
    agent.limits.steps_max = 1;
    let understudy = Understudy::new([
        script([call("look", json!({})), stop(Stop::ToolUse)]),
        script([text("Left it is."), stop(Stop::End)]),
    ]);
    let stage = Stage::new(understudy, agent).await;
    let watching = tokio::spawn(stage.watch().until_rest());
    stage.chat.send("go").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.chat.steer("left").await.unwrap();
    expect![[r#"
        t=000.0 message 2 reply [look({})] ToolUse
        t=000.0 running
        t=000.0 running
        t=001.0 running +"left"!
        t=005.0 message 3 result 1.0 look Done "look did {}"
        t=005.0 running +"left"!
        t=005.0 message 4 user "left"
        t=005.0 running
        t=005.0 message 5 reply ["Left it is."] End
        t=005.0 running
        t=005.0 idle Done
    "#]]
    .assert_eq(&after_reply(&watching.await.unwrap()));
}

/// A message has a bound too, and one that is too long leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn too_long_a_message_is_refused() {
    let mut agent = agent();
    agent.limits.message_bytes_max = 10;
    let stage = Stage::new(Understudy::new([script([text("Hi."), stop(Stop::End)])]), agent).await;
    let refused = Err(SubmitError::Refused(Refusal::TooLong));
    assert_eq!(stage.chat.send("elf and more").await.map(|_| ()), refused);
    stage.run("elf").await;
    let first = stage.transcript().await[0].id;
    assert_eq!(stage.chat.edit(first, "elf and more").await.map(|_| ()), refused);
    assert_eq!(stage.transcript().await.len(), 2);
}

/// I19: a driver fetches files when a model is to be shown them, once, and not to do what needs no model.
#[tokio::test(start_paused = true)]
async fn files_are_fetched_for_prompts_alone() {
    let answers = ["A crab.", "Red."].map(|words| script([text(words), stop(Stop::End)]));
    let stage = Stage::new(Understudy::new(answers), agent()).await;
    let (name, media_type, bytes) = ("crab.png".into(), "image/png".into(), Some(b"pixels"[..].into()));
    let image = Part::File(File { name, media_type, bytes, meta: Meta::new() });
    stage.chat.submit(Command::Send { parts: [image].into(), when: When::Queue }, None).await.unwrap();
    stage.chat.rest().await.unwrap();
    for command in [Command::Rename("Crabs".into()), Command::Archive, Command::Unarchive] {
        let receipt = stage.chat.submit(command, None).await.unwrap();
        stage.chat.outcome(receipt).await.unwrap().unwrap();
    }
    assert_eq!(stage.store.fetches(), 0);
    stage.run("Which colour?").await;
    assert_eq!(stage.store.fetches(), 1);
    let requests = stage.understudy.requests();
    for request in &requests {
        let shown = &request.entries.iter().next().unwrap().parts[0];
        let PromptPart::File(file) = shown else { panic!("{shown:?}") };
        assert_eq!(&file.media.bytes[..], b"pixels");
    }
    assert_eq!(requests.len(), 2);
}
