//! Turns end: every bound is a reason of its own, and whatever ends a turn leaves it whole.

use std::future::pending;
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::command::{Command, Delivery, Excess, Refusal};
use everturn::core::cost::{Micros, Price};
use everturn::core::message::{File, Meta, Part, Stop, Text};
use everturn::core::prompt::PromptPart;
use everturn::stores::SubmitError;
use everturn::{Agent, ToolContext, ToolError, tool};
use everturn_understudy::{Understudy, call, response_id, script, stop, text, usage, wait};
use expect_test::expect;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::kept::{background, cancelled, keeps};
use crate::stage::{Diary, Stage, agent};
use crate::tools::{ANY, SERIAL, after_reply};

/// An understudy that calls `look` for ever, each time with another input.
fn restless() -> Understudy {
    Understudy::improvising(|request| {
        let n = request.entries.len();
        script([call("look", json!({ "n": n })), usage(100, 10), stop(Stop::ToolUse)])
    })
}

/// How a turn of `agent` with an endless model ends, and after how many requests.
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

/// A turn that polls is not stuck: equal calls are allowed as long as their results differ, and a tool may have its own
/// limit for equal results.
#[tokio::test(start_paused = true)]
async fn polling_is_not_being_stuck() {
    let asks = || {
        Understudy::improvising(|request| match request.entries.len() {
            ..=40 => script([call("poll", json!({"job": 1})), stop(Stop::ToolUse)]),
            _ => script([text("It is done."), stop(Stop::End)]),
        })
    };
    let polled = |every: usize| {
        let calls = crate::stage::counter();
        let poll = tool("poll", "Tells how far a job is.", move |_: ToolContext, _: Value| {
            let n = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            std::future::ready(Ok::<_, ToolError>(format!("{} % done", n / every)))
        });
        agent().tool(poll.with(ANY)).unwrap()
    };
    let end = async |agent: Agent| {
        let stage = Stage::new(asks(), agent).await;
        stage.run("go").await;
        (stage.ended().await, stage.understudy.requests().len())
    };
    assert_eq!(end(polled(1)).await, (TurnEnd::Done, 21), "each result differs");
    assert_eq!(end(polled(4)).await, (TurnEnd::Done, 21), "every fourth does");
    assert_eq!(end(polled(99)).await, (TurnEnd::SameCallMax, 5), "none does");
    let mut lenient = polled(99);
    lenient.limits.same_call_max_by_tool.insert("poll".into(), 12);
    assert_eq!(end(lenient).await, (TurnEnd::SameCallMax, 12));
}

/// I17: a turn's time ends an answer that trickles, with what it has said, and ends a generation that is kept.
#[tokio::test(start_paused = true)]
async fn the_time_ends_an_answer() {
    let mut agent = background();
    agent.limits.turn_time_max = Duration::from_secs(60);
    let trickle = (0..99).flat_map(|_| [text("and "), wait(11)]);
    let understudy = Understudy::new([script([response_id("r1")].into_iter().chain(trickle))]).with(keeps);
    let stage = Stage::new(understudy, agent).await;
    let since = Instant::now();
    stage.run("go").await;
    assert_eq!((stage.ended().await, since.elapsed().as_secs()), (TurnEnd::TimeMax, 60));
    assert_eq!((stage.replies().await, cancelled(&stage.understudy)), ("and ".repeat(6), vec!["r1".to_owned()]));
}

/// I17: a turn's time ends tools as well: running ones are cancelled, and none is begun. Each call has a result that says
/// so.
#[tokio::test(start_paused = true)]
async fn the_time_ends_tools() {
    let diary = Diary::new();
    let mut agent = agent().tool(diary.tool("look", 25, SERIAL)).unwrap();
    agent.limits.turn_time_max = Duration::from_secs(60);
    let calls = (0..4).map(|n| call("look", json!({ "n": n }))).chain([stop(Stop::ToolUse)]);
    let stage = Stage::new(Understudy::new([script(calls)]), agent).await;
    let told = after_reply(&stage.run("go").await);
    expect![[r#"
        t=000.0 message 2 reply [look({"n":0}) look({"n":1}) look({"n":2}) look({"n":3})] ToolUse
        t=000.0 running
        t=000.0 running
        t=025.0 message 3 result 1.0 look Done "look did {\"n\":0}"
        t=025.0 running
        t=025.0 running
        t=050.0 message 4 result 1.1 look Done "look did {\"n\":1}"
        t=050.0 running
        t=050.0 running
        t=060.0 message 5 result 1.2 look Error "I was told to stop."
        t=060.0 running
        t=060.0 message 6 result 1.3 look Error "The turn took longer than it may before this call could be run. It was not run."
        t=060.0 idle TimeMax
    "#]].assert_eq(&told);
    expect![[r#"
        t=000.0 look {"n":0} begins
        t=025.0 look {"n":0} ends
        t=025.0 look {"n":1} begins
        t=050.0 look {"n":1} ends
        t=050.0 look {"n":2} begins
        t=060.0 look {"n":2} is told to stop
    "#]]
    .assert_eq(&diary.read());
    assert_eq!(stage.ended().await, TurnEnd::TimeMax);
}

/// I17: also one with a tool that ignores it; and a process that takes such a turn over begins nothing either.
#[tokio::test(start_paused = true)]
async fn a_turn_whose_time_is_over_begins_nothing() {
    let deaf = tool("look", "Never ends.", |_: ToolContext, _: Value| pending::<Result<String, ToolError>>()).with(ANY);
    let mut agent = agent().tool(deaf).unwrap();
    agent.limits.turn_time_max = Duration::from_secs(60);
    let calls = || Understudy::new([script([call("look", json!({})), stop(Stop::ToolUse)])]);
    let stage = Stage::new(calls(), agent.clone()).await;
    let since = Instant::now();
    stage.run("go").await;
    assert_eq!((stage.ended().await, since.elapsed() <= Duration::from_secs(63)), (TurnEnd::TimeMax, true));
    assert!(stage.told().await.contains("1.0 look Unknown"), "{}", stage.told().await);

    let stage = Stage::new(calls(), agent.clone()).await;
    stage.chat.send("go").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    stage.engine.shutdown().await;
    sleep(Duration::from_secs(60)).await;
    let stage = stage.moved(Understudy::new([]), agent).await;
    assert_eq!(stage.ended().await, TurnEnd::TimeMax);
}

/// I17: equal calls in one reply are intended, and the turn goes on.
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
async fn a_steer_at_the_limit_begins_the_next_turn() {
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
    let refused = Err(SubmitError::Refused(Refusal::TooLong(Excess::MessageBytes(10))));
    assert_eq!(stage.chat.send("elf and more").await.map(|_| ()), refused);
    stage.run("elf").await;
    let first = stage.transcript().await[0].id;
    assert_eq!(stage.chat.edit(first, "elf and more").await.map(|_| ()), refused);
    assert_eq!(stage.transcript().await.len(), 2);
}

/// Each part takes memory beside its bytes, so their number has a bound as well.
#[tokio::test(start_paused = true)]
async fn too_many_parts_are_refused() {
    let mut agent = agent();
    agent.limits.parts_len_max = 2;
    let stage = Stage::new(Understudy::new([script([text("Hi."), stop(Stop::End)])]), agent).await;
    let say = async |len: usize| {
        let parts = vec![Part::Text(Text { text: "a".into(), ..Text::default() }); len].into();
        stage.chat.submit(Command::Send { parts, when: Delivery::Queue }, None).await.map(|_| ())
    };
    assert_eq!(say(3).await, Err(SubmitError::Refused(Refusal::TooLong(Excess::Parts(2)))));
    assert_eq!(say(2).await, Ok(()));
}

/// I19: a driver fetches files when a model is to be shown them, once, and not to do what needs no model.
#[tokio::test(start_paused = true)]
async fn files_are_fetched_for_prompts_alone() {
    let answers = ["A crab.", "Red."].map(|words| script([text(words), stop(Stop::End)]));
    let stage = Stage::new(Understudy::new(answers), agent()).await;
    let (name, media_type, bytes) = ("crab.png".into(), "image/png".into(), Some(b"pixels"[..].into()));
    let image = Part::File(File { name, media_type, bytes, meta: Meta::new() });
    stage.chat.submit(Command::Send { parts: [image].into(), when: Delivery::Queue }, None).await.unwrap();
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
