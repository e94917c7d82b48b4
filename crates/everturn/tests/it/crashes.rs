//! Drivers that die in the middle of tools, stores that fail under them, processes that stop: what is left goes on.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;
use std::time::Duration;

use everturn::core::chat::{Effect, TurnEnd};
use everturn::core::ids::Timestamp;
use everturn::core::message::{Body, CallVerdict, Stop};
use everturn::stores::{StoreError, WriteError};
use everturn::{Drivers, Policy};
use everturn_understudy::{Understudy, call, script, stop, text};
use expect_test::expect;
use serde_json::json;

use crate::stage::{Diary, Stage, agent, count, counter, echo_with};
use crate::stepwise::Fault;
use crate::tools::{ANY, after_reply, calling};

/// A chat without a driver yet, with a message to a model that calls `echo` and then is done, whatever it was asked before.
async fn undriven(runs: &Arc<AtomicUsize>, effect: Effect) -> Stage {
    let understudy = Understudy::improvising(|request| {
        let asked = format!("{:?}", request.entries);
        match asked.contains("role: Tool") {
            false => script([call("echo", json!({"say": "hi"})), stop(Stop::ToolUse)]),
            true => script([text("Done."), stop(Stop::End)]),
        }
    });
    let agent = agent().tool(echo_with("echo", runs, effect)).unwrap();
    let stage = Stage::built(understudy, agent, |builder| builder.drivers(Drivers::ByHand)).await;
    stage.chat.send("go").await.unwrap();
    stage
}

/// Checks what must hold however often the driver died: one call, one true result, one answer.
async fn check(stage: &Stage, runs: usize, effect: Effect, when: &str) {
    assert_eq!(stage.ended().await, TurnEnd::Done, "{when}");
    let told = stage.told().await;
    let bodies: Vec<_> = stage.transcript().await.into_iter().map(|message| message.body.clone()).collect();
    let [Body::User(_), Body::Reply(calls), Body::Result(result), Body::Reply(answer)] = bodies.as_slice() else {
        panic!("{when}: {told}")
    };
    assert_eq!((calls.calls().count(), answer.text().as_str()), (1, "Done."), "{when}: {told}");
    match (effect, result.verdict) {
        (Effect::Once, CallVerdict::Done) => assert_eq!(runs, 1, "{when}: {told}"),
        (Effect::Once, CallVerdict::Unknown) => assert!(runs <= 1, "{when}: it ran {runs} times"),
        (Effect::Read | Effect::Idempotent, CallVerdict::Done) => assert!(runs >= 1, "{when}: {told}"),
        (effect, verdict) => panic!("{when}: {effect:?} came to {verdict:?}"),
    }
}

/// I8, I9: a driver may die at any moment, and is replaced by one that asks the same question. A tool with effect `Once`
/// starts at most once; if its outcome is unknown, its result says so. One that only reads runs again.
#[tokio::test(start_paused = true)]
async fn a_driver_may_die_at_any_moment() {
    for effect in [Effect::Once, Effect::Read, Effect::Idempotent] {
        let mut unknown = 0;
        for polls in 0.. {
            assert!(polls < 500, "the turn never ends");
            let runs = counter();
            let stage = undriven(&runs, effect).await;
            let survived = for_polls(polls, stage.chat.advance()).await;
            stage.chat.advance().await.unwrap();
            check(&stage, count(&runs), effect, &format!("{effect:?} died after {polls} polls")).await;
            unknown += usize::from(stage.told().await.contains("Unknown"));
            if survived {
                break;
            }
        }
        assert_eq!(unknown > 0, effect == Effect::Once, "{effect:?}: {unknown} are unknown");
    }
}

/// Polls a future so many times, and drops it then. Says whether it had ended.
async fn for_polls<T>(mut polls: usize, future: impl Future<Output = T>) -> bool {
    let mut future = pin!(future);
    poll_fn(|context| match polls.checked_sub(1) {
        None => Poll::Ready(false),
        Some(left) => {
            polls = left;
            future.as_mut().poll(context).map(|_| true)
        }
    })
    .await
}

/// CR34, CR47: a store that fails ends the drive with its error. Whichever write it is, and whether it happened or not,
/// nothing is half done: the next drive goes on as if the first had died there.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_ends_the_drive() {
    for effect in [Effect::Once, Effect::Read] {
        for fault in [Fault::Refused, Fault::Unanswered] {
            for writes in 0.. {
                let when = format!("{effect:?}, write {writes} {fault:?}");
                let runs = counter();
                let stage = undriven(&runs, effect).await;
                stage.store.fail_after(writes, fault);
                let ended = stage.chat.advance().await;
                if stage.store.is_to_fail() {
                    assert!(ended.is_ok() && writes > 8, "{when}: {ended:?}");
                    break;
                }
                let failed = Err(WriteError::Store(StoreError::Unavailable("on purpose".into())));
                assert_eq!(ended, failed, "{when}");
                stage.chat.advance().await.unwrap();
                check(&stage, count(&runs), effect, &when).await;
            }
        }
    }
}

/// A spawned driver does not give up on a store that comes back, nor what it has in hand.
#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_finds_its_chats_going_on() {
    let diary = Diary::new();
    let read = Policy { effect: Effect::Read, ..ANY };
    let agent = agent().tool(diary.tool("look", 5, read)).unwrap();
    let stage = Stage::new(Understudy::new(calling([call("look", json!({}))])), agent).await;
    stage.store.fail_after(5, Fault::Refused); // The result.
    stage.run("go").await;
    expect![[r#"
        t=000.0 look {} begins
        t=005.0 look {} ends
    "#]]
    .assert_eq(&diary.read());
    assert_eq!(stage.ended().await, TurnEnd::Done);
}

/// CR35, I24: a process that stops gives its tools a moment, and keeps what comes back in it. It does not tell them to
/// give up, and stores nothing on behalf of the others: the next process runs again what may run again, and says of the
/// rest that their outcome is unknown.
#[tokio::test(start_paused = true)]
async fn a_shutdown_during_tools_stores_nothing_for_them() {
    let diary = Diary::new();
    let read = Policy { effect: Effect::Read, ..ANY };
    let agent = || {
        let agent =
            agent().tool(diary.tool("pay", 60, ANY)).unwrap().tool(diary.tool("look", 60, read.clone())).unwrap();
        let agent = agent.tool(diary.tool("quick", 1, ANY)).unwrap();
        agent.tool(diary.tool("later", 1, crate::tools::SERIAL)).unwrap()
    };
    let calls = ["pay", "look", "quick", "later"].map(|tool| call(tool, json!({})));
    let [calls, done] = calling(calls);
    let stage = Stage::new(Understudy::new([calls]), agent()).await;
    stage.chat.send("go").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    stage.engine.shutdown().await;
    diary.note("the first process is gone");
    expect![[r#"
        message 1 user "go"
        message 2 reply [pay({}) look({}) quick({}) later({})] ToolUse
        message 3 result 1.2 quick Done "quick did {}"
    "#]]
    .assert_eq(&stage.told().await);
    let stage = stage.moved(Understudy::new([done]), agent()).await;
    stage.watch().until_rest().await;
    expect![[r#"
        message 1 user "go"
        message 2 reply [pay({}) look({}) quick({}) later({})] ToolUse
        message 3 result 1.2 quick Done "quick did {}"
        message 4 result 1.0 pay Unknown "This call was started, and then the process that ran it was lost. Whether it took effect is unknown. Check before you repeat it."
        message 5 result 1.1 look Done "look did {}"
        message 6 result 1.3 later Done "later did {}"
        message 7 reply ["Done."] End
    "#]].assert_eq(&stage.told().await);
    expect![[r#"
        t=000.0 pay {} begins
        t=000.0 look {} begins
        t=000.0 quick {} begins
        t=001.0 quick {} ends
        t=001.5 the first process is gone
        t=001.5 look {} begins
        t=061.5 look {} ends
        t=061.5 later {} begins
        t=062.5 later {} ends
    "#]]
    .assert_eq(&diary.read());
}

/// I9: a tool that has started keeps its result, even if it is exclusive in the next process's configuration.
#[tokio::test(start_paused = true)]
async fn a_tool_that_became_exclusive_denies_nothing() {
    let diary = Diary::new();
    let agent = |look: Policy| agent().tool(diary.tool("pay", 60, ANY)).unwrap().tool(diary.tool("look", 60, look));
    let [calls, done] = calling([call("pay", json!({})), call("look", json!({}))]);
    let stage = Stage::new(Understudy::new([calls]), agent(ANY).unwrap()).await;
    stage.chat.send("go").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let stage = stage.moved(Understudy::new([done]), agent(crate::tools::EXCLUSIVE).unwrap()).await;
    stage.watch().until_rest().await;
    assert_eq!(stage.told().await.matches(" Unknown ").count(), 2);
}

/// I6, I9: a driver that lost its chat to a takeover writes nothing more, whatever its tools come to; the other says what it
/// knows, and the tool has run once.
#[tokio::test(start_paused = true)]
async fn a_driver_that_was_taken_over_writes_nothing() {
    let diary = Diary::new();
    let agent = || agent().tool(diary.tool("pay", 5, ANY)).unwrap();
    let [calls, done] = calling([call("pay", json!({}))]);
    let stage = Stage::new(Understudy::new([calls]), agent()).await;
    let watching = tokio::spawn(stage.watch().until_rest());
    stage.chat.send("go").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let other = everturn::Engine::builder().store(stage.store.clone()).agent("it", agent());
    let other = other.provider(Understudy::new([done])).starting_at(Timestamp(1000)).start();
    assert_eq!(other.resume().await, Ok(1));
    tokio::time::sleep(Duration::from_secs(60)).await;
    expect![[r#"
        t=000.0 message 2 reply [pay({})] ToolUse
        t=000.0 running
        t=000.0 running
        t=004.2 message 3 result 1.0 pay Unknown "This call was started, and then the process that ran it was lost. Whether it took effect is unknown. Check before you repeat it."
        t=004.2 message 4 reply ["Done."] End
        t=004.2 idle Done
    "#]].assert_eq(&after_reply(&watching.await.unwrap()));
    expect![[r#"
        t=000.0 pay {} begins
        t=005.0 pay {} ends
    "#]]
    .assert_eq(&diary.read());
}
