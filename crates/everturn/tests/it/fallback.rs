//! Other models, when the first is given up, and models that are left alone for a while.

use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn::core::limits::Limits;
use everturn::core::message::Stop;
use everturn::{Agent, ChatHandle};
use everturn_understudy::{Cue, Script, Understudy, fail, reasoning, refuse, script, stop, text, wait};
use expect_test::expect;

use crate::compaction::{long, says, small};
use crate::read::{adds_up, asks_summary, brief_lines, rows, shown};
use crate::stage::{Stage, agent};

/// Few tries, and a door that closes after `failures` and stays closed for half a minute.
fn hasty(failures: u32) -> Limits {
    let mut limits = Limits::default();
    limits.retry.tries_max = 2;
    limits.breaker.failures_max = failures;
    limits
}

/// An agent with a second model, at another provider.
fn two(limits: Limits) -> Agent {
    agent().or("second/two".parse().unwrap()).limits(limits)
}

/// A stage with two providers, and the second of them.
async fn pair(first: Understudy, second: impl IntoIterator<Item = Script>, limits: Limits) -> (Stage, Understudy) {
    let second = Understudy::new(second).named("second");
    let provider = second.clone();
    (Stage::built(first, two(limits), |builder| builder.provider(provider)).await, second)
}

async fn of_a_kind(first: Understudy, second: Understudy) -> (Stage, Understudy) {
    let second = second.named("second");
    let provider = second.clone();
    (Stage::built(first, two(hasty(99)), |builder| builder.provider(provider)).await, second)
}

fn down() -> Script {
    script([refuse(529)])
}

fn broken(error: ProviderError) -> Script {
    script([Cue::Fail(Box::new(error.with_cause(Cause::Refused)))])
}

async fn ended(chat: &ChatHandle) -> TurnEnd {
    chat.rest().await.unwrap().ended().unwrap()
}

/// A model with a spent budget gives way to the next, for this step.
#[tokio::test(start_paused = true)]
async fn the_next_model_is_asked_when_the_budget_is_spent() {
    let first = Understudy::new([down(), down(), says("Back again.")]);
    let (stage, second) = pair(first, [says("Hello.")], hasty(99)).await;
    expect![[r#"
        t=000.0 message 1 user "Hi."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 running retry Overloaded until 0.9
        t=000.9 delta 2 attempt 2 Restart understudy/one
        t=000.9 running
        t=000.9 delta 3 attempt 3 FallBack second/two
        t=000.9 delta 4 Text("Hello.")
        t=000.9 message 2 reply ["Hello."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&stage.run("Hi.").await);
    assert_eq!(second.requests().len(), 1);
    expect![[r#"
        1.1 understudy/one Overloaded (Refused) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Overloaded (Refused) 0.0s known 0+0 guess 0+0 0.000000
        1.3 second/two Answered 0.0s known 0+0 guess 1+2 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
    stage.run("And now?").await;
    assert_eq!(stage.replies().await, "Hello.|Back again.", "the next turn begins with the first model");
}

/// The shown text is sent to the next model, and joined to its answer.
#[tokio::test(start_paused = true)]
async fn text_goes_along_to_the_next_model() {
    let cut = |words: &str| script([text(words), fail(ErrorKind::Timeout, Cause::Reset)]);
    let first = Understudy::new([cut("The quick brown fox "), script([fail(ErrorKind::Timeout, Cause::Reset)])]);
    let (stage, second) = pair(first, [says("brown fox jumps over the dog.")], hasty(99)).await;
    expect![[r#"
        t=000.0 message 1 user "Go."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("The quick brown fox ")
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 3 attempt 2 Continue understudy/one
        t=000.9 running
        t=000.9 delta 4 attempt 3 FallBack second/two
        t=000.9 delta 5 Seam(Seam { at: 20, dropped: 10, inserted: 0, unmatched: 0 })
        t=000.9 delta 6 Text("jumps over the dog.")
        t=000.9 message 2 reply ["The quick brown fox jumps over the dog."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&stage.run("Go.").await);
    expect![[r#"
        user "Go."
        model "The quick brown fox "
        user "Your last message broke off at its very end. Go on from exac… 150 bytes"
    "#]]
    .assert_eq(&shown(&second.requests()[0]));
    expect![[r#"
        1.1 understudy/one Timeout (Reset) 0.0s known 0+0 guess 1+7 0.000000
        1.2 understudy/one Timeout (Reset) 0.0s known 0+0 guess 8+0 0.000000
        1.3 second/two Answered 0.0s known 0+0 guess 8+10 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// Reasoning that no other model can read is retracted.
#[tokio::test(start_paused = true)]
async fn thoughts_do_not_go_along() {
    let thinks = || script([reasoning("Hm."), fail(ErrorKind::Timeout, Cause::Reset)]);
    let limits = hasty(99);
    let (stage, second) = pair(Understudy::new([thinks(), thinks()]), [says("Hello.")], limits).await;
    expect![[r#"
        t=000.0 message 1 user "Hi."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Reasoning("Hm.")
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 3 RetractAll
        t=000.9 delta 4 attempt 2 Restart understudy/one
        t=000.9 delta 5 Reasoning("Hm.")
        t=000.9 running
        t=000.9 delta 6 RetractAll
        t=000.9 delta 7 attempt 3 FallBack second/two
        t=000.9 delta 8 Text("Hello.")
        t=000.9 message 2 reply ["Hello."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&stage.run("Hi.").await);
    expect![[r#"
        user "Hi."
    "#]]
    .assert_eq(&shown(&second.requests()[0]));
}

/// I18: the total of attempts holds over all models: those behind the first get what it left.
#[tokio::test(start_paused = true)]
async fn attempts_are_counted_over_all_models() {
    let breaks = || script([fail(ErrorKind::Timeout, Cause::Reset)]);
    for (attempts_max, per_model) in [(10, [6, 4]), (6, [6, 0])] {
        let mut limits = hasty(99);
        (limits.retry.tries_max, limits.retry.attempts_max) = (6, attempts_max);
        let first = Understudy::improvising(move |_| breaks());
        let (stage, second) = pair(first, (0..30).map(|_| breaks()), limits).await;
        stage.run("Hi.").await;
        let TurnEnd::Failed(failure) = stage.ended().await else { panic!("it failed") };
        assert_eq!(failure.attempts, attempts_max);
        assert_eq!([stage.understudy.requests().len(), second.requests().len()], per_model);
    }
}

/// Errors that another model would not make any better end the turn; those of this provider alone do not.
#[tokio::test(start_paused = true)]
async fn only_a_models_own_trouble_leads_to_the_next() {
    let long_wait = Retry::After(Duration::from_secs(600));
    let of = |kind| ProviderError::new("understudy", kind);
    let cases = [
        (of(ErrorKind::Auth), false),
        (of(ErrorKind::MissingKey), false),
        (of(ErrorKind::Config), false),
        (of(ErrorKind::ContentFilter), false),
        (of(ErrorKind::Generic), false),
        (of(ErrorKind::UsageLimit), true),
        (of(ErrorKind::ProviderDisabled), true),
        (of(ErrorKind::RateLimit).with_retry(long_wait), true),
    ];
    for (error, falls_back) in cases {
        let first = Understudy::new([broken(error.clone())]);
        let (stage, second) = pair(first, [says("Hello.")], hasty(99)).await;
        stage.run("Hi.").await;
        assert_eq!(second.requests().len(), usize::from(falls_back), "{error:?}");
        match stage.ended().await {
            TurnEnd::Done => assert!(falls_back, "{error:?}"),
            TurnEnd::Failed(failure) => assert_eq!((failure.kind, falls_back), (error.kind, false)),
            end => panic!("{end:?}"),
        }
    }
}

/// AW16: with every budget spent the turn fails with the cause and the attempts, and what was shown stays.
#[tokio::test(start_paused = true)]
async fn with_every_budget_spent_the_partial_answer_stays() {
    let cut = |words: &str| script([text(words), fail(ErrorKind::Truncated, Cause::Truncated)]);
    let broke = || script([fail(ErrorKind::Truncated, Cause::Truncated)]);
    let first = Understudy::new([cut("The quick "), broke()]);
    let (stage, _) = pair(first, [cut("brown fox "), broke()], hasty(99)).await;
    expect![[r#"
        t=000.0 message 1 user "Go."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("The quick ")
        t=000.0 running retry Truncated until 0.9
        t=000.9 delta 3 attempt 2 Continue understudy/one
        t=000.9 running
        t=000.9 delta 4 attempt 3 FallBack second/two
        t=000.9 delta 5 Seam(Seam { at: 10, dropped: 0, inserted: 0, unmatched: 0 })
        t=000.9 delta 6 Text("brown fox ")
        t=000.9 running retry Truncated until 1.4
        t=001.4 delta 7 attempt 4 Continue second/two
        t=001.4 message 2 reply ["The quick brown fox "] Broken
        t=001.4 failed failed Truncated
    "#]]
    .assert_eq(&stage.run("Go.").await);
    let TurnEnd::Failed(failure) = stage.ended().await else { panic!() };
    expect![[r#"
        TurnFailure {
            kind: Truncated,
            message: "The AI provider broke off before its answer was complete; try again",
            detail: "it kept failing without getting further",
            attempts: 4,
        }"#]]
    .assert_eq(&format!("{failure:#?}"));
    expect![[r#"
        1.1 understudy/one Truncated (Truncated) 0.0s known 0+0 guess 1+4 0.000000
        1.2 understudy/one Truncated (Truncated) 0.0s known 0+0 guess 5+0 0.000000
        1.3 second/two Truncated (Truncated) 0.0s known 0+0 guess 5+4 0.000000
        1.4 second/two Truncated (Truncated) 0.0s known 0+0 guess 8+0 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A model that fails for all chats is not asked: they use the next model at once, until one of them is let through as a
/// probe and the model is back.
#[tokio::test(start_paused = true)]
async fn a_model_that_fails_all_chats_is_left_alone() {
    let first = Understudy::new([down(), down(), script([wait(5), text("Back."), stop(Stop::End)]), says("As usual.")]);
    let others = ["One.", "Two.", "Three."].map(says);
    let (stage, second) = pair(first, others, hasty(2)).await;
    let chat = || stage.engine.create("it");
    stage.run("Hi.").await;
    let other = chat().await.unwrap();
    other.send("Hi.").await.unwrap();
    ended(&other).await;
    assert_eq!((stage.understudy.requests().len(), second.requests().len()), (2, 2), "the first model is not asked");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (probe, beside) = (chat().await.unwrap(), chat().await.unwrap());
    probe.send("Are you back?").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    beside.send("Hi.").await.unwrap();
    ended(&beside).await;
    assert_eq!((stage.understudy.requests().len(), second.requests().len()), (3, 3), "one looks, others do not wait");
    ended(&probe).await;
    let after = chat().await.unwrap();
    after.send("Hi.").await.unwrap();
    ended(&after).await;
    assert_eq!((stage.understudy.requests().len(), second.requests().len()), (4, 3), "the door is open");
}

/// While a model is left alone, the chat shows what really went wrong, and not that the model has too much to do.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_model_shows_the_real_error() {
    let cut = script([fail(ErrorKind::Truncated, Cause::Truncated)]);
    for (broken, kind) in [(script([refuse(500)]), "Generic"), (cut, "Truncated")] {
        let stage = Stage::new(Understudy::new([broken, says("Back.")]), agent().limits(hasty(1))).await;
        let seen = stage.run("Hi.").await;
        assert!(seen.contains(&format!("t=000.9 running retry {kind} until 30.0")), "{seen}");
    }
}

/// With no other model the chat waits for the door, and says so, and comes to rest either way.
#[tokio::test(start_paused = true)]
async fn with_no_other_model_the_chat_waits_and_settles() {
    let stage = Stage::new(Understudy::new([down(), says("Back.")]), agent().limits(hasty(1))).await;
    expect![[r#"
        t=000.0 message 1 user "Hi."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 running retry Overloaded until 0.9
        t=000.9 running retry Overloaded until 30.0
        t=030.0 delta 2 attempt 2 Restart understudy/one
        t=030.0 delta 3 Text("Back.")
        t=030.0 message 2 reply ["Back."] End
        t=030.0 running
        t=030.0 idle Done
    "#]]
    .assert_eq(&stage.run("Hi.").await);
    let stage = Stage::new(Understudy::new([down(), down()]), agent().limits(hasty(1))).await;
    expect![[r#"
        t=000.0 message 1 user "Hi."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 running retry Overloaded until 0.9
        t=000.9 running retry Overloaded until 30.0
        t=030.0 delta 2 attempt 2 Restart understudy/one
        t=030.0 failed failed Overloaded
    "#]]
    .assert_eq(&stage.run("Hi.").await);
    let stage = Stage::new(Understudy::new([down()]), agent().limits(hasty(1))).await;
    stage.chat.send("Hi.").await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    stage.chat.interrupt().await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Interrupted);
}

/// A chat that is let through as the probe and needs a summary first probes with the summary: no chat waits for a probe that is
/// takes.
#[tokio::test(start_paused = true)]
async fn a_summary_may_be_what_looks_whether_a_model_is_back() {
    let scripts = [says(long(24_000)), down(), says("Letters."), says("More it is.")];
    let stage = Stage::new(small(scripts), agent().limits(hasty(1))).await;
    stage.run("Letters, please.").await;
    expect![[r#"
        t=000.0 message 3 user "More!"
        t=000.0 running
        t=000.0 running compacting Automatic
        t=000.0 running retry Overloaded until 0.9
        t=000.9 running retry Overloaded until 30.0
        t=030.0 running compacting Automatic
        t=030.0 message 4 summary Automatic "Letters."
        t=030.0 running
        t=030.0 delta 1 attempt 3 First understudy/one
        t=030.0 delta 2 Text("More it is.")
        t=030.0 message 5 reply ["More it is."] End
        t=030.0 running
        t=030.0 idle Done
    "#]]
    .assert_eq(&brief_lines(&stage.run("More!").await));
}

/// I16: a summary that probes a model opens the door with its first text, like an answer.
#[tokio::test(start_paused = true)]
async fn a_summary_that_streams_opens_the_door() {
    let slow = script([text("Let"), wait(60), text("ters."), stop(Stop::End)]);
    let scripts = [says(long(24_000)), down(), slow, says("Hello."), says("More it is.")];
    let stage = Stage::new(small(scripts), agent().limits(hasty(1))).await;
    stage.run("Letters, please.").await;
    stage.chat.send("More!").await.unwrap();
    tokio::time::sleep(Duration::from_secs(31)).await;
    let (other, before) = (stage.engine.create("it").await.unwrap(), tokio::time::Instant::now());
    other.send("Hi.").await.unwrap();
    assert_eq!((ended(&other).await, before.elapsed()), (TurnEnd::Done, Duration::ZERO));
    assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::Done, 0));
}

/// A summary falls back like an answer, whether it is needed or was asked for.
#[tokio::test(start_paused = true)]
async fn a_summary_falls_back_too() {
    let first = || small([says(long(24_000)), down(), down()]);
    let (stage, second) = of_a_kind(first(), small([says("Letters."), says("More it is.")])).await;
    stage.run("Letters, please.").await;
    expect![[r#"
        t=000.0 message 3 user "More!"
        t=000.0 running
        t=000.0 running compacting Automatic
        t=000.0 running retry Overloaded until 0.9
        t=000.9 running compacting Automatic
        t=000.9 running
        t=000.9 running compacting Automatic
        t=000.9 message 4 summary Automatic "Letters."
        t=000.9 running
        t=000.9 delta 1 attempt 4 First second/two
        t=000.9 delta 2 Text("More it is.")
        t=000.9 message 5 reply ["More it is."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&brief_lines(&stage.run("More!").await));
    assert_eq!(second.scripts_left(), 0);

    let (stage, second) = of_a_kind(first(), small([says("Letters.")])).await;
    stage.run("Letters, please.").await;
    let watch = stage.watch();
    stage.chat.compact().await.unwrap();
    expect![[r#"
        t=000.0 running
        t=000.0 running compacting Asked
        t=000.0 running retry Overloaded until 0.9
        t=000.9 running compacting Asked
        t=000.9 running
        t=000.9 running compacting Asked
        t=000.9 message 3 summary Asked "Letters."
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&watch.until_rest().await);
    assert_eq!(second.scripts_left(), 0);
}

/// A summary that the first model cannot write is requested from the next.
#[tokio::test(start_paused = true)]
async fn the_next_model_may_summarise_what_the_first_could_not() {
    let first = small([says(long(24_000)), script([refuse(400)]), down(), down()]);
    let (stage, second) = of_a_kind(first, small([says("Letters."), says("More it is.")])).await;
    stage.run("Letters, please.").await;
    stage.run("More!").await;
    let asked: Vec<bool> = second.requests().iter().map(asks_summary).collect();
    assert_eq!((stage.ended().await, asked), (TurnEnd::Done, vec![true, false]));
}

/// The window of the model that is asked counts: what the first could take, the second has summarised.
#[tokio::test(start_paused = true)]
async fn a_smaller_window_behind_a_larger_one_is_made_room_for() {
    let first = Understudy::new([says(long(24_000)), down(), down()]).with(|facts| facts.context_limit = Some(100_000));
    let (stage, second) = of_a_kind(first, small([says("Letters."), says("More it is.")])).await;
    stage.run("Letters, please.").await;
    expect![[r#"
        t=000.0 message 3 user "More!"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 running retry Overloaded until 0.9
        t=000.9 delta 2 attempt 2 Restart understudy/one
        t=000.9 running
        t=000.9 running compacting Automatic
        t=000.9 message 4 summary Automatic "Letters."
        t=000.9 running
        t=000.9 delta 3 attempt 4 FallBack second/two
        t=000.9 delta 4 Text("More it is.")
        t=000.9 message 5 reply ["More it is."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&brief_lines(&stage.run("More!").await));
    assert!(asks_summary(&second.requests()[0]));
    adds_up(&stage.chat).await;
}
