//! A store that is unavailable for a moment: no work in progress is lost.

use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::command::Command;
use everturn::core::message::Stop;
use everturn::stores::Store as _;
use everturn_understudy::{Understudy, call, script, stop, text, wait};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::stage::{Diary, Stage, agent};
use crate::stepwise::Fault;
use crate::tools::{ANY, calling};

const SECOND: Duration = Duration::from_secs(1);

/// Both ways in which a write fails: it did not happen, or it did and the answer was lost.
const FAULTS: [Fault; 2] = [Fault::Refused, Fault::Unanswered];

/// A stage on which two tools are at work that must not run twice.
async fn at_work() -> (Stage, Diary) {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("one", 3, ANY)).unwrap().tool(diary.tool("two", 5, ANY)).unwrap();
    let [calls, done] = calling(["one", "two"].map(|tool| call(tool, json!({}))));
    let next = script([text("And more."), stop(Stop::End)]);
    let stage = Stage::new(Understudy::new([calls, done, next]), agent).await;
    stage.chat.send("go").await.unwrap();
    sleep(SECOND).await;
    (stage, diary)
}

/// Checks that each tool ran once, and that its result says what it did.
async fn is_done(stage: &Stage, diary: &Diary, fault: Fault) {
    assert_eq!(stage.ended().await, TurnEnd::Done, "{fault:?}");
    let (told, ran) = (stage.told().await, diary.read());
    assert_eq!((ran.matches("begins").count(), ran.matches("ends").count()), (2, 2), "{fault:?}: {ran}");
    for tool in ["one", "two"] {
        assert!(told.contains(&format!("{tool} Done \"{tool} did {{}}\"")), "{fault:?}: {told}");
    }
}

/// I8, I21: a tool's result is kept in memory until the store is available, and the other tools run on.
#[tokio::test(start_paused = true)]
async fn a_result_waits_for_the_store() {
    for fault in FAULTS {
        let (stage, diary) = at_work().await;
        stage.store.fail_after(0, fault);
        is_done(&stage, &diary, fault).await;
        assert!(!stage.store.is_to_fail());
        assert_eq!(stage.told().await.matches(" result ").count(), 2);
    }
}

/// I21: words that had to wait for the store are shown when they are stored, not at the next poll.
#[tokio::test(start_paused = true)]
async fn deltas_that_waited_for_the_store_are_shown_at_once() {
    for fault in FAULTS {
        let model = Understudy::new([script([wait(2), text("Hello"), wait(30), stop(Stop::End)])]);
        let stage = Stage::new(model, agent()).await;
        let mut watch = stage.watch();
        stage.chat.send("go").await.unwrap();
        sleep(SECOND).await;
        stage.store.fail_after(0, fault);
        let asked = Instant::now();
        watch.until_text("Hello").await;
        assert_eq!(asked.elapsed(), SECOND * 2, "{fault:?}: it comes after one, and is tried again after another");
        assert!(!stage.store.is_to_fail());
    }
}

/// Has the store leave out numbers when it gives the next lease of any chat.
async fn leave_out_fences(stage: &Stage) {
    let other = stage.engine.create("it").await.unwrap().id();
    let mut lease = stage.store.acquire(other).await.unwrap();
    for _ in 0..9 {
        lease = stage.store.acquire(other).await.unwrap();
    }
    stage.store.delete(lease).await.unwrap();
}

/// I9, I21: the number of the next lease does not say which process had the chat. Unless another had it, what a tool came
/// to is kept.
#[tokio::test(start_paused = true)]
async fn a_result_is_kept_unless_another_had_the_chat() {
    for fault in FAULTS {
        let (stage, diary) = at_work().await;
        leave_out_fences(&stage).await;
        stage.store.fail_after(0, fault);
        is_done(&stage, &diary, fault).await;
        assert!(!stage.store.is_to_fail());
    }
    let (stage, diary) = at_work().await;
    stage.store.fail_after(0, Fault::Refused);
    sleep(Duration::from_millis(2100)).await; // The first has come back, and its result waits.
    stage.store.acquire(stage.chat.id()).await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let (told, ran) = (stage.told().await, diary.read());
    assert_eq!(ran.matches("begins").count(), 2, "nothing runs twice: {ran}");
    assert!(told.contains("one Unknown"), "{told}");
}

/// I12, I21: a message that cannot be queued just now costs no tool its run. It is queued a moment later, once.
#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_queued_costs_no_tool() {
    for fault in FAULTS {
        let (stage, diary) = at_work().await;
        stage.store.fail_after(0, fault);
        stage.chat.send("and then?").await.unwrap();
        sleep(Duration::from_millis(1900)).await;
        let standing = stage.chat.standing().await.unwrap();
        assert_eq!((standing.queue.len(), stage.store.is_to_fail()), (1, false), "{fault:?}");
        stage.watch().until_rest().await;
        is_done(&stage, &diary, fault).await;
        assert_eq!(stage.replies().await, "|Done.|And more.", "{fault:?}");
    }
}

/// I12, I21: a message that cannot be queued just now does not end the stream of an answer.
#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_queued_costs_no_answer() {
    for fault in FAULTS {
        let slow = script([text("Once upon "), wait(5), text("a time."), stop(Stop::End)]);
        let scripts = [slow, script([text("And more."), stop(Stop::End)])];
        let stage = Stage::new(Understudy::new(scripts), agent()).await;
        stage.chat.send("go").await.unwrap();
        sleep(SECOND).await;
        stage.store.fail_after(0, fault);
        stage.chat.send("and then?").await.unwrap();
        stage.watch().until_rest().await;
        assert_eq!((stage.ended().await, stage.store.is_to_fail()), (TurnEnd::Done, false), "{fault:?}");
        assert_eq!(stage.replies().await, "Once upon a time.|And more.", "{fault:?}");
        assert_eq!(stage.understudy.requests().len(), 2, "{fault:?}: nothing was asked for twice");
    }
}

/// I7, I21: an answer goes on when the store can take it again: nothing of it is asked for twice, missing or doubled.
#[tokio::test(start_paused = true)]
async fn a_stream_waits_for_the_store() {
    for fault in FAULTS {
        let slow = script([text("Once "), wait(5), text("upon "), wait(1), text("a "), text("time."), stop(Stop::End)]);
        let stage = Stage::new(Understudy::new([slow]), agent()).await;
        let watching = tokio::spawn(stage.watch().until_rest());
        stage.chat.send("go").await.unwrap();
        sleep(SECOND).await;
        stage.store.fail_after(0, fault);
        watching.await.unwrap();
        assert_eq!(stage.replies().await, "Once upon a time.", "{fault:?}");
        assert_eq!((stage.understudy.requests().len(), stage.store.is_to_fail()), (1, false), "{fault:?}");
    }
}

/// I11: an interrupt is applied meanwhile.
#[tokio::test(start_paused = true)]
async fn a_stream_that_waits_for_the_store_can_be_stopped() {
    let endless = (0..99).flat_map(|_| [text("and "), wait(5)]);
    let stage = Stage::new(Understudy::new([script(endless)]), agent()).await;
    stage.chat.send("go").await.unwrap();
    sleep(SECOND).await;
    stage.store.fail_always();
    sleep(60 * SECOND).await;
    stage.chat.submit(Command::Interrupt, None).await.unwrap();
    sleep(60 * SECOND).await;
    stage.store.recover();
    assert_eq!((stage.ended().await, stage.understudy.requests().len()), (TurnEnd::Interrupted, 1));
    assert_eq!(stage.replies().await, "and ", "what was stored was shown, and is kept");
}

/// I7, I21: an answer that is complete is not asked for again because it could not be written down just then.
#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_the_store() {
    for fault in FAULTS {
        let slow = script([text("Once."), wait(5), stop(Stop::End)]);
        let stage = Stage::new(Understudy::new([slow]), agent()).await;
        stage.chat.send("go").await.unwrap();
        sleep(SECOND).await;
        stage.store.fail_after(0, fault);
        assert_eq!((stage.ended().await, stage.replies().await.as_str()), (TurnEnd::Done, "Once."), "{fault:?}");
        assert_eq!((stage.understudy.requests().len(), stage.store.is_to_fail()), (1, false), "{fault:?}");
    }
}

/// I7, I16, I21: five minutes without a store cost five minutes and a little more: what tools came to is kept, an answer goes
/// on, and nothing is asked for or run twice.
#[tokio::test(start_paused = true)]
async fn five_minutes_without_a_store_cost_time_alone() {
    let (working, diary) = at_work().await;
    let slow = script([text("Once "), wait(5), text("upon "), wait(5), text("a time."), stop(Stop::End)]);
    let talking = Stage::new(Understudy::new([slow]), agent()).await;
    talking.chat.send("go").await.unwrap();
    sleep(SECOND).await;
    for stage in [&working, &talking] {
        stage.store.fail_always();
    }
    sleep(300 * SECOND).await;
    for stage in [&working, &talking] {
        stage.store.recover();
    }
    let since = Instant::now();
    is_done(&working, &diary, Fault::Refused).await;
    assert_eq!((talking.ended().await, talking.replies().await.as_str()), (TurnEnd::Done, "Once upon a time."));
    assert_eq!(talking.understudy.requests().len(), 1, "nothing was asked for twice");
    assert!(since.elapsed() < 60 * SECOND, "{:?}", since.elapsed());
}

/// I24: a driver that waits for its store does not keep its process from stopping.
#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_keeps_no_process() {
    let (stage, _) = at_work().await;
    stage.store.fail_always();
    sleep(60 * SECOND).await;
    let since = Instant::now();
    stage.engine.shutdown().await;
    assert!(since.elapsed() < 5 * SECOND, "{:?}", since.elapsed());
}
