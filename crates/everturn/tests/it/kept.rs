//! Generations that outlive their stream: who pays for them, and who ends them.

use everturn::core::chat::TurnEnd;
use everturn::core::error::{Cause, Kind};
use everturn::core::message::Stop;
use everturn::core::prompt::{Target, Wire};
use everturn::core::recovery::Reattach;
use everturn::{Agent, Background};
use everturn_understudy::{
    Asked, Script, Understudy, fail, hang, malformed, refuse, response_id, script, stop, text, usage,
};
use expect_test::expect;

use crate::read::rows;
use crate::stage::{Stage, agent};

/// A provider that keeps its generations.
fn keeping(scripts: impl IntoIterator<Item = Script>) -> Understudy {
    Understudy::new(scripts).with(|facts| {
        facts.target = Target::new(Wire::OpenAiResponses, "understudy");
        facts.can.reattach = Reattach::Yes;
    })
}

fn background() -> Agent {
    Agent { background: Background::On, ..agent() }
}

/// One that breaks half-way.
fn broken() -> Script {
    script([response_id("r1"), text("The quick brown fox "), fail(Kind::Timeout, Cause::Reset)])
}

fn rest() -> Script {
    script([text("jumps."), usage(1_000, 20), stop(Stop::End)])
}

/// Somebody who gives up while a generation waits to be found again gives up one that was paid for.
#[tokio::test(start_paused = true)]
async fn what_is_given_up_before_it_is_found_is_counted() {
    let stage = Stage::new(keeping([broken(), rest()]), background()).await;
    let mut watch = stage.watch();
    stage.chat.send("Go.").await.unwrap();
    watch.until(|event| format!("{event:?}").contains("retry: Some")).await;
    stage.chat.interrupt().await.unwrap();
    assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::Interrupted, 1));
    expect![[r#"
        1.1 understudy/one Timeout (Reset) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Interrupted 0.0s known 0+0 guess 1+7 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A generation that nobody lets us hear is counted by the attempt that gives it up, whole.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_heard_is_counted() {
    let mut agent = background();
    agent.limits.retry.tries_max = 2;
    let stage = Stage::new(keeping([broken(), script([refuse(503)])]), agent).await;
    stage.run("Go.").await;
    assert!(matches!(stage.ended().await, TurnEnd::Failed(_)));
    expect![[r#"
        1.1 understudy/one Timeout (Reset) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Timeout (Refused) 0.0s known 0+0 guess 1+7 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A process that may not re-attach says what the last one left unpaid, and goes on by itself.
#[tokio::test(start_paused = true)]
async fn what_the_next_process_may_not_find_is_counted() {
    let stage = Stage::new(keeping([broken()]), background()).await;
    let mut watch = stage.watch();
    stage.chat.send("Go.").await.unwrap();
    watch.until(|event| format!("{event:?}").contains("retry: Some")).await;
    let stage = stage.moved(keeping([rest()]), agent()).await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(stage.replies().await, "The quick brown fox jumps.");
    expect![[r#"
        1.1 understudy/one Timeout (Reset) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Lost 0.0s known 0+0 guess 1+7 0.000000
        1.3 understudy/one Answered 0.0s known 1000+20 guess 0+0 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// The generations that were to be ended.
fn cancelled(understudy: &Understudy) -> Vec<String> {
    let ended = understudy.asked().into_iter().filter_map(|asked| match asked {
        Asked::Cancel(handle) => Some(handle.id),
        Asked::Answer(_) | Asked::Reattach(_) => None,
    });
    ended.collect()
}

/// Whoever stops a turn stops what was generated for it, also while it waits to be found again.
#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_the_generation() {
    let listening = script([response_id("r1"), text("The quick "), hang()]);
    for (first, sign) in [(listening, "The quick"), (broken(), "retry: Some")] {
        let stage = Stage::new(keeping([first, rest()]), background()).await;
        let mut watch = stage.watch();
        stage.chat.send("Go.").await.unwrap();
        watch.until(|event| format!("{event:?}").contains(sign)).await;
        assert_eq!(cancelled(&stage.understudy), [""; 0]);
        stage.chat.interrupt().await.unwrap();
        stage.engine.shutdown().await;
        assert_eq!(cancelled(&stage.understudy), ["r1"], "{sign}");
    }
}

/// An answer that is over has nothing to end, and a shutdown gives nothing up: the next process finds it again.
#[tokio::test(start_paused = true)]
async fn what_is_not_given_up_goes_on() {
    let stage = Stage::new(keeping([broken(), rest()]), background()).await;
    stage.run("Go.").await;
    assert_eq!(cancelled(&stage.understudy), [""; 0]);
    let stage = Stage::new(keeping([broken()]), background()).await;
    let mut watch = stage.watch();
    stage.chat.send("Go.").await.unwrap();
    watch.until(|event| format!("{event:?}").contains("retry: Some")).await;
    let (first, second) = (stage.understudy.clone(), keeping([rest()]));
    let stage = stage.moved(second.clone(), background()).await;
    assert_eq!((stage.ended().await, stage.replies().await.as_str()), (TurnEnd::Done, "The quick brown fox jumps."));
    assert_eq!([cancelled(&first), cancelled(&second)].concat(), [""; 0]);
    assert!(matches!(&second.asked()[..], [Asked::Reattach(handle)] if handle.id == "r1"));
}

/// A generation that is left for another one is ended too: nobody will hear it, and somebody would pay.
#[tokio::test(start_paused = true)]
async fn what_is_left_for_another_is_ended() {
    let stage = Stage::new(
        keeping([script([response_id("r1"), text("The quick brown fox "), malformed()]), rest()]),
        background(),
    )
    .await;
    stage.run("Go.").await;
    assert_eq!(stage.replies().await, "The quick brown fox jumps.");
    assert_eq!(cancelled(&stage.understudy), ["r1"]);
    let gone = fail(Kind::Truncated, Cause::ErrorFinish);
    let stage =
        Stage::new(keeping([script([response_id("r1"), text("The quick brown fox "), gone]), rest()]), background())
            .await;
    stage.run("Go.").await;
    assert_eq!(cancelled(&stage.understudy), [""; 0], "one that failed is over");
}
