//! Which errors are tried again, how long is waited, and when it is enough.

use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn::core::ids::Timestamp;
use everturn::core::limits::Limits;
use everturn::core::message::{Body, Stop};
use everturn::core::view::Event;
use everturn_understudy::{
    Cue, Script, Understudy, begin_call, fail, hang, reasoning, refuse, reset, script, stop, text, wait,
};
use expect_test::expect;

use crate::stage::{Stage, agent, stage};

fn done() -> Script {
    script([text("Done."), stop(Stop::End)])
}

/// AW10, CT02: transient errors are retried until an attempt succeeds.
#[tokio::test(start_paused = true)]
async fn transient_errors_are_tried_again() {
    for status in [408, 429, 500, 502, 503, 504, 529] {
        let stage = stage([script([refuse(status)]), script([refuse(status)]), done()]).await;
        stage.run("hi").await;
        assert_eq!((stage.ended().await, stage.replies().await), (TurnEnd::Done, "Done.".into()), "{status}");
        assert_eq!(stage.chat.attempts(0).await.unwrap().len(), 3, "{status}");
    }
}

/// AW10, AW19, CT02: permanent errors end the turn at once, with a reason, and are not retried.
#[tokio::test(start_paused = true)]
async fn permanent_errors_are_told() {
    for status in [400, 401, 403, 404] {
        let stage = stage([script([refuse(status)]), done()]).await;
        stage.run("hi").await;
        let TurnEnd::Failed(failure) = stage.ended().await else { panic!("{status}") };
        assert_eq!((failure.attempts, failure.message.is_empty()), (1, false), "{status}");
        assert_eq!(stage.understudy.scripts_left(), 1, "{status}");
    }
}

/// AW19: an answer that breaks off with one of these is not a broken stream: what was shown is kept, nothing climbs.
#[tokio::test(start_paused = true)]
async fn some_errors_are_not_broken_streams() {
    for kind in [ErrorKind::Auth, ErrorKind::ContentFilter, ErrorKind::Config, ErrorKind::UsageLimit] {
        let stage = stage([script([text("Half"), fail(kind, Cause::ServerError)]), done()]).await;
        stage.run("hi").await;
        assert!(matches!(stage.ended().await, TurnEnd::Failed(failure) if failure.kind == kind));
        assert_eq!((stage.replies().await.as_str(), stage.understudy.scripts_left()), ("Half", 1), "{kind:?}");
    }
}

/// CT04, I18: Retry-After is a floor, and clients see it; one that is too long ends the turn and says so.
#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed() {
    let stage1 = stage([script([refuse(429).retry_after(7)]), done()]).await;
    expect![[r#"
        t=000.0 message 1 user "hi"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 running retry RateLimit until 7.9
        t=007.9 delta 2 attempt 2 Restart understudy/one
        t=007.9 delta 3 Text("Done.")
        t=007.9 message 2 reply ["Done."] End
        t=007.9 running
        t=007.9 idle Done
    "#]]
    .assert_eq(&stage1.run("hi").await);
    let stage2 = stage([script([refuse(429).retry_after(3600)]), done()]).await;
    stage2.run("hi").await;
    let TurnEnd::Failed(failure) = stage2.ended().await else { panic!("it failed") };
    assert!(failure.detail.contains("3600"), "{failure:?}");
}

/// AW16: when the budget is spent the turn fails with its cause, and the partial answer stays.
#[tokio::test(start_paused = true)]
async fn enough_is_enough() {
    let mut limits = Limits::default();
    limits.retry.tries_max = 3;
    let scripts = (0..9).map(|_| script([refuse(529)]));
    let first = script([text("The quick "), fail(ErrorKind::Timeout, Cause::Reset)]);
    let understudy = Understudy::new([first].into_iter().chain(scripts));
    let stage = Stage::new(understudy, agent().limits(limits)).await;
    expect![[r#"
        t=000.0 message 1 user "hi"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("The quick ")
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 3 attempt 2 Continue understudy/one
        t=000.9 running retry Overloaded until 2.1
        t=002.1 delta 4 attempt 3 Continue understudy/one
        t=002.1 message 2 reply ["The quick "] Broken
        t=002.1 failed failed Overloaded
    "#]]
    .assert_eq(&stage.run("hi").await);
    let transcript = stage.transcript().await;
    assert!(matches!(&transcript[1].body, Body::Reply(reply) if reply.stop == Stop::Broken));
    let TurnEnd::Failed(failure) = stage.ended().await else { panic!("it failed") };
    assert_eq!(failure.attempts as usize, stage.chat.attempts(0).await.unwrap().len());
}

/// I18: progress allows longer trying: output earns tries back, and a total ends it all the same.
#[tokio::test(start_paused = true)]
async fn progress_earns_tries() {
    let mut limits = Limits::default();
    (limits.retry.tries_max, limits.retry.attempts_max) = (2, 12);
    let steps = ["One small step. ", "Two small steps. ", "Three small steps. ", "Four small steps. ", "Five."];
    let mut scripts: Vec<Script> =
        steps.iter().map(|words| script([text(*words), fail(ErrorKind::Timeout, Cause::Reset)])).collect();
    scripts.push(script([text(" Done."), stop(Stop::End)]));
    let stage = Stage::new(Understudy::new(scripts), agent().limits(limits)).await;
    stage.run("hi").await;
    assert_eq!(stage.replies().await, format!("{} Done.", steps.concat()));
}

/// I18: retracted output is no progress. A model that reasons and breaks off, or never finishes a call, is given up after
/// as many tries as a silent one, with growing waits; also after text that is kept.
#[tokio::test(start_paused = true)]
async fn retracted_output_earns_no_tries() {
    let unkept = [reasoning("Let me think."), begin_call("look", "{\"at\": ")];
    for (said, words) in unkept.into_iter().flat_map(|said| [(said.clone(), None), (said, Some(text("Well. ")))]) {
        let first = script(words.clone().into_iter().chain([said.clone(), wait(30), reset()]));
        let others = (0..30).map(|_| script([said.clone(), wait(30), reset()]));
        let stage = stage([first].into_iter().chain(others)).await;
        let before = tokio::time::Instant::now();
        stage.run("hi").await;
        let TurnEnd::Failed(failure) = stage.ended().await else { panic!("it failed") };
        assert_eq!(failure.attempts, 8, "{failure:?} behind {words:?}");
        let waited = before.elapsed() - Duration::from_secs(8 * 30);
        assert!(waited > Duration::from_secs(10), "{waited:?}");
    }
}

/// I18: a step may take so long, its waits included.
#[tokio::test(start_paused = true)]
async fn waits_count() {
    let mut limits = Limits::default();
    limits.retry.time_max = Duration::from_secs(12);
    let scripts = (0..9).map(|_| script([refuse(429).retry_after(7)]));
    let stage = Stage::new(Understudy::new(scripts), agent().limits(limits)).await;
    stage.run("hi").await;
    let TurnEnd::Failed(failure) = stage.ended().await else { panic!("it failed") };
    assert_eq!((failure.attempts, failure.detail.as_str()), (2, "it took longer than retries may take"));
}

/// I18: so is a wait for a model that the governor blocks, for a chat that has failed at it; a chat that has not asked yet has lost
/// nothing by it.
#[tokio::test(start_paused = true)]
async fn waits_at_a_shut_door_count() {
    let mut limits = Limits::default();
    (limits.retry.time_max, limits.breaker.failures_max) = (Duration::from_secs(20), 1);
    assert!(limits.breaker.open_max > limits.retry.time_max);
    let scripts = (0..9).map(|_| script([refuse(529)]));
    let stage = Stage::new(Understudy::new(scripts), agent().limits(limits)).await;
    for chat in [stage.chat.clone(), stage.engine.create("it").await.unwrap()] {
        chat.send("hi").await.unwrap();
        let Some(TurnEnd::Failed(failure)) = chat.rest().await.unwrap().ended() else { panic!("it failed") };
        assert_eq!((failure.attempts, failure.detail.as_str()), (2, "it took longer than retries may take"));
    }
}

fn too_much() -> Script {
    let error = ProviderError::new("understudy", ErrorKind::Malformed).with_retry(Retry::Once);
    script([text("Look: "), Cue::Fail(Box::new(error))])
}

/// An error that deserves one retry gets it, whatever other errors came before.
#[tokio::test(start_paused = true)]
async fn another_failure_does_not_use_up_the_one_try() {
    let scripts = [script([refuse(503)]), too_much(), script([refuse(503)]), done()];
    let stage1 = stage(scripts).await;
    stage1.run("hi").await;
    assert_eq!((stage1.ended().await, stage1.understudy.scripts_left()), (TurnEnd::Done, 0));
    let stage2 = stage([script([refuse(503)]), too_much(), script([refuse(503)]), too_much(), done()]).await;
    stage2.run("hi").await;
    assert!(matches!(stage2.ended().await, TurnEnd::Failed(_)));
    assert_eq!(stage2.understudy.scripts_left(), 1);
}

/// An answer that is too long would most likely be as long again: it is requested once more, and then given up.
#[tokio::test(start_paused = true)]
async fn too_much_is_asked_for_twice() {
    let stage = stage((0..9).map(|_| too_much())).await;
    stage.run("hi").await;
    let TurnEnd::Failed(failure) = stage.ended().await else { panic!("it failed") };
    assert_eq!((failure.attempts, failure.kind), (2, ErrorKind::Malformed));
}

/// AW23, CT04: an interrupt during a wait ends the turn at once; the model is not asked again.
#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_a_wait() {
    let stage = stage([script([refuse(429).retry_after(60)]), done()]).await;
    let mut watch = stage.watch();
    stage.chat.send("hi").await.unwrap();
    watch.until(|event| matches!(event, Event::Standing(standing) if standing.retry.is_some())).await;
    let before = tokio::time::Instant::now();
    stage.chat.interrupt().await.unwrap();
    assert!(before.elapsed() < Duration::from_millis(1));
    assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::Interrupted, 1));
}

/// I18: a wait survives its process: the process that takes over does not ask before the time either.
#[tokio::test(start_paused = true)]
async fn a_wait_is_inherited() {
    let stage = stage([script([refuse(429).retry_after(60)]), done()]).await;
    let mut watch = stage.watch();
    stage.chat.send("hi").await.unwrap();
    watch.until(|event| matches!(event, Event::Standing(standing) if standing.retry.is_some())).await;
    stage.engine.shutdown().await;
    let next = everturn::Engine::builder()
        .store(stage.store.clone())
        .provider(stage.understudy.clone())
        .agent("it", agent())
        .starting_at(everturn::core::ids::Timestamp(0))
        .start();
    assert_eq!(next.resume().await.unwrap(), 1);
    let before = tokio::time::Instant::now();
    assert_eq!(next.chat(stage.chat.id()).rest().await.unwrap().ended(), Some(TurnEnd::Done));
    assert!(before.elapsed() >= Duration::from_secs(60), "{:?}", before.elapsed());
}

/// I24: a shutdown in the middle of an answer hands it over: nothing is ended, and the next engine goes on.
#[tokio::test(start_paused = true)]
async fn a_shutdown_hands_over() {
    let scripts =
        [script([text("The quick "), everturn_understudy::hang()]), script([text("brown fox."), stop(Stop::End)])];
    let stage = stage(scripts).await;
    let mut watch = stage.watch();
    stage.chat.send("hi").await.unwrap();
    watch.until_text("quick").await;
    stage.engine.shutdown().await;
    let view = stage.chat.view().await.unwrap();
    assert!(view.draft.is_some() && view.standing.is_some_and(|standing| standing.ended.is_none()));
    let builder = everturn::Engine::builder().store(stage.store.clone()).provider(stage.understudy.clone());
    let next = builder.agent("it", agent()).starting_at(everturn::core::ids::Timestamp(0)).start();
    next.resume().await.unwrap();
    assert_eq!(next.chat(stage.chat.id()).rest().await.unwrap().ended(), Some(TurnEnd::Done));
    assert_eq!(stage.replies().await, "The quick brown fox.");
}

/// I7, I24: an answer that is taken over goes on at once. The provider did not fail, so that costs no try either.
#[tokio::test(start_paused = true)]
async fn a_takeover_costs_no_time_and_no_try() {
    let mut limits = Limits::default();
    limits.retry.tries_max = 2;
    let agent = || agent().limits(limits.clone());
    let scripts = [
        script([refuse(529)]),
        script([text("The quick "), hang()]),
        script([hang()]),
        script([text("brown fox."), stop(Stop::End)]),
    ];
    let understudy = Understudy::new(scripts);
    let mut stage = Stage::new(understudy.clone(), agent()).await;
    let mut watch = stage.watch();
    stage.chat.send("hi").await.unwrap();
    watch.until_text("quick").await;
    for asked in 3..=4 {
        let before = tokio::time::Instant::now();
        stage = stage.moved(understudy.clone(), agent()).await;
        while understudy.requests().len() < asked {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(before.elapsed() < Duration::from_millis(250), "{:?}", before.elapsed());
    }
    assert_eq!((stage.ended().await, stage.replies().await), (TurnEnd::Done, "The quick brown fox.".into()));
}

/// I18: a time that a wrong clock stored is not waited for.
#[tokio::test(start_paused = true)]
async fn a_wait_of_another_clock_is_not_obeyed() {
    const AHEAD: Timestamp = Timestamp(2 * 60 * 60 * 1000);
    let understudy = Understudy::new([script([refuse(429).retry_after(60)]), done()]);
    let stage = Stage::built(understudy, agent(), |builder| builder.starting_at(AHEAD)).await;
    let mut watch = stage.watch();
    stage.chat.send("hi").await.unwrap();
    watch.until(|event| matches!(event, Event::Standing(standing) if standing.retry.is_some())).await;
    let understudy = stage.understudy.clone();
    let stage = stage.moved(understudy, agent()).await; // Its clock is right.
    let before = tokio::time::Instant::now();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
}
