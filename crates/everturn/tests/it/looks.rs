//! Periodic scans for work: which chats they leave alone, and what it costs when a store is slow to read an
//! inbox, or cannot.

use std::sync::Arc;
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::command::Command;
use everturn::core::fact::Fact;
use everturn::core::message::Stop;
use everturn::core::view::Event;
use everturn::stores::sqlite::SqliteOptions;
use everturn::stores::{Hint, Sqlite, Store as _};
use everturn::{Approval, Changed, Engine, Policy};
use everturn_understudy::{Script, Understudy, call, hang, script, stop, text, wait};
use futures_util::FutureExt as _;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::sharing::{accepted_elsewhere, send};
use crate::stage::{Diary, Stage, Watch, agent, stage};
use crate::tools::{ANY, SERIAL};

const SECOND: Duration = Duration::from_secs(1);

/// A story that takes its time, and what comes after it.
fn stories() -> [Script; 2] {
    let long = [text("Once"), wait(1), text(" upon"), wait(1), text(" a time"), wait(60), text("."), stop(Stop::End)];
    [script(long), script([text("Then."), stop(Stop::End)])]
}

/// A stage on which the story has begun.
async fn begun() -> (Stage, Watch) {
    let stage = stage(stories()).await;
    stage.chat.send("tell me").await.unwrap();
    let mut watch = stage.watch();
    watch.until_text("Once").await;
    (stage, watch)
}

fn has_queue(event: &Event) -> bool {
    matches!(event, Event::Standing(standing) if !standing.queue.is_empty())
}

/// A store that takes its time to say what an inbox holds keeps no delta waiting.
#[tokio::test(start_paused = true)]
async fn a_slow_inbox_keeps_no_delta_waiting() {
    let (stage, mut watch) = begun().await;
    let since = Instant::now();
    stage.store.read_inbox_in(10 * SECOND);
    accepted_elsewhere(&stage, send("and then?")).await;
    stage.store.tell(Hint::Inbox(stage.chat.id()));
    watch.until_text("a time").await;
    assert_eq!(since.elapsed(), 2 * SECOND);
    watch.until(has_queue).await;
    assert_eq!(since.elapsed(), 10 * SECOND, "and it is obeyed as soon as the store says so");
}

/// Waiting for a command to be applied, or for a turn to stop, reads the store after commits: not for each delta,
/// and not for what was said.
#[tokio::test(start_paused = true)]
async fn waiting_costs_no_read_for_a_delta() {
    let long = (0..100).flat_map(|n| [text(format!("{n} ")), wait(1)]);
    let stage = stage([script(long.chain([hang()]))]).await;
    stage.chat.send("tell me").await.unwrap();
    sleep(SECOND).await;
    stage.store.read_inbox_in(50 * SECOND);
    let receipt = stage.chat.submit(Command::Rename("A long one".into()), None).await.unwrap();
    let since = Instant::now();
    assert_eq!(stage.chat.outcome(receipt).await, Ok(Ok(())));
    assert_eq!(since.elapsed(), 50 * SECOND, "as soon as it was obeyed");
    let reads = stage.store.outcome_reads();
    assert!(reads <= 15, "{reads} reads, and 50 deltas meanwhile");
    stage.store.read_inbox_in(Duration::ZERO);
    stage.chat.interrupt().await.unwrap();
    assert_eq!(stage.store.looks(), 0, "no subscriber read the store");
    assert_eq!(stage.ended().await, TurnEnd::Interrupted);
}

/// An inbox that cannot be read is read again a little later. The answer, which costs money, goes on.
#[tokio::test(start_paused = true)]
async fn an_inbox_that_cannot_be_read_costs_no_answer() {
    let (stage, mut watch) = begun().await;
    let since = Instant::now();
    stage.store.fail_inboxes(3);
    accepted_elsewhere(&stage, send("and then?")).await;
    stage.store.tell(Hint::Inbox(stage.chat.id()));
    watch.until(has_queue).await;
    assert!(since.elapsed() < SECOND, "readers see it at once: {:?}", since.elapsed());
    watch.until_rest().await;
    assert_eq!(stage.replies().await, "Once upon a time.|Then.");
    assert_eq!(stage.understudy.requests().len(), 2);
}

/// A stage on which the first of two tools has begun, and what they write down.
async fn at_work() -> (Stage, Diary) {
    let calls = [call("one", json!({})), call("two", json!({})), stop(Stop::ToolUse)];
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("one", 2, SERIAL)).unwrap().tool(diary.tool("two", 2, SERIAL)).unwrap();
    let stage = Stage::new(Understudy::new([script(calls), script([text("Done."), stop(Stop::End)])]), agent).await;
    stage.chat.send("go").await.unwrap();
    sleep(SECOND).await;
    assert_eq!(diary.read(), "t=000.0 one {} begins\n");
    (stage, diary)
}

/// An interrupt is applied before the next tool begins, also if the tool before was faster than the store.
#[tokio::test(start_paused = true)]
async fn no_tool_begins_before_a_slow_inbox_was_heard() {
    let (stage, diary) = at_work().await;
    stage.store.read_inbox_in(5 * SECOND);
    accepted_elsewhere(&stage, Command::Interrupt).await;
    stage.store.tell(Hint::Inbox(stage.chat.id()));
    assert_eq!(stage.ended().await, TurnEnd::Interrupted);
    assert_eq!(diary.read(), "t=000.0 one {} begins\nt=002.0 one {} ends\n");
}

/// A tool with a committed start is started, although the inbox could not be read just then.
#[tokio::test(start_paused = true)]
async fn an_inbox_that_cannot_be_read_costs_no_tool() {
    let (stage, diary) = at_work().await;
    stage.store.fail_inboxes(10);
    stage.store.tell(Hint::Inbox(stage.chat.id()));
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!((diary.read().matches("begins").count(), diary.read().matches("ends").count()), (2, 2));
    assert!(!stage.told().await.contains("Unknown"), "{}", stage.told().await);
}

/// A scan does not make a working chat read its inbox, unless there is something in it.
#[tokio::test(start_paused = true)]
async fn a_scan_does_not_disturb_running_chats() {
    let (stage, _watch) = begun().await;
    let reads = stage.store.inbox_reads();
    for hint in [Hint::Look, Hint::Missed] {
        stage.store.tell(hint);
        sleep(SECOND).await;
    }
    assert_eq!(stage.store.inbox_reads(), reads);
    accepted_elsewhere(&stage, Command::Interrupt).await;
    let since = Instant::now();
    stage.store.tell(Hint::Look);
    assert_eq!((stage.ended().await, since.elapsed()), (TurnEnd::Interrupted, Duration::ZERO));
}

/// A chat that waits for an answer is not loaded again by a scan, nor by a signal without a command.
#[tokio::test(start_paused = true)]
async fn a_scan_does_not_load_waiting_chats() {
    let agent = agent().tool(Diary::new().tool("pay", 1, Policy { approval: Approval::Needed, ..ANY })).unwrap();
    let stage = Stage::new(Understudy::new([script([call("pay", json!({})), stop(Stop::ToolUse)])]), agent).await;
    let mut watch = stage.watch();
    stage.chat.send("pay").await.unwrap();
    watch.until_asked().await;
    sleep(SECOND).await;
    let (loads, reads) = (stage.store.loads(), stage.store.inbox_reads());
    for hint in [Hint::Look, Hint::Missed] {
        stage.store.tell(hint);
        sleep(SECOND).await;
    }
    assert_eq!((stage.store.loads(), stage.store.inbox_reads()), (loads, reads));
    stage.store.tell(Hint::Inbox(stage.chat.id()));
    sleep(SECOND).await;
    assert_eq!((stage.store.loads(), stage.store.inbox_reads()), (loads, reads + 1));
    accepted_elsewhere(&stage, send("and then?")).await;
    stage.store.tell(Hint::Look);
    watch.until(has_queue).await;
    assert_eq!(stage.store.loads(), loads + 1);
}

/// A scan hint makes no subscriber read the store; a hint that something was missed does.
#[tokio::test(start_paused = true)]
async fn a_scan_hint_makes_no_subscriber_read() {
    let stage = stage([]).await;
    let (mut events, mut feed) = (stage.chat.events(None), stage.engine.feed(""));
    events.next().await.unwrap();
    for (hint, reads) in [(Hint::Look, 0), (Hint::Missed, 1)] {
        let looks = stage.store.looks();
        let told = async {
            sleep(SECOND / 2).await;
            stage.store.tell(hint);
        };
        let (news, changed, ()) = tokio::join!(timeout(SECOND, events.next()), timeout(SECOND, feed.next()), told);
        assert!(news.is_err(), "{news:?}");
        assert_eq!(stage.store.looks() - looks, reads, "{hint:?}");
        assert_eq!(changed.ok(), (hint == Hint::Missed).then_some(Changed::Anything));
    }
}

/// A read that is dropped in the middle is no read: the next call returns its events at once.
#[tokio::test]
async fn a_dropped_read_misses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(dir.path(), &SqliteOptions::default()).unwrap());
    let engine = Engine::builder().store(store).provider(Understudy::new([])).agent("it", agent()).start();
    let mut events = engine.create("it").await.unwrap().events(None);
    assert!(events.next().now_or_never().is_none(), "a thread reads");
    timeout(SECOND * 2, events.next()).await.expect("before it looks by itself").unwrap();
}

/// Commits without a signal are found within seconds, and not by every subscriber at the same moment.
#[tokio::test(start_paused = true)]
async fn watchers_look_at_moments_of_their_own() {
    let stage = stage([]).await;
    let mut watchers = JoinSet::new();
    for _ in 0..20 {
        let chat = stage.engine.create("it").await.unwrap();
        let mut events = chat.events(None);
        events.next().await.unwrap();
        let mut lease = stage.store.acquire(chat.id()).await.unwrap();
        watchers.spawn(async move {
            let since = Instant::now();
            events.next().await.unwrap();
            since.elapsed().as_millis()
        });
        tokio::task::yield_now().await; // It waits.
        stage.store.commit(&mut lease, &[Fact::Renamed("theirs".into())]).await.unwrap();
    }
    let mut waits = watchers.join_all().await;
    waits.sort_unstable();
    assert!(waits.iter().all(|wait| (4_000..=6_001).contains(wait)), "{waits:?}");
    waits.dedup();
    assert!(waits.len() > 15, "{waits:?}");
}

/// A feed polls once other processes are known to use the store, and never before.
#[tokio::test(start_paused = true)]
async fn a_list_of_a_shared_store_is_looked_at_now_and_then() {
    let stage = stage([]).await;
    let mut feed = stage.engine.feed("");
    assert!(timeout(60 * SECOND, feed.next()).await.is_err(), "no other process can have done anything");
    stage.store.tell(Hint::Look);
    for _ in 0..3 {
        assert_eq!(timeout(7 * SECOND, feed.next()).await, Ok(Changed::Anything));
    }
}

/// A store that is away is asked less and less often, and not by all chats at the same moment.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_not_pressed() {
    let stage = stage([script([text("Here."), wait(1), stop(Stop::End)])]).await;
    stage.store.fail_inboxes(6);
    let since = Instant::now();
    stage.chat.send("anybody?").await.unwrap();
    stage.watch().until_text("Here.").await;
    let waited = since.elapsed();
    assert!((22 * SECOND..68 * SECOND).contains(&waited), "1, 2, 4, 8 and twice 15 seconds, more or less: {waited:?}");
    assert_ne!(waited.subsec_millis(), 0, "by chance");
}

/// A command that is accepted ends the wait for the store.
#[tokio::test(start_paused = true)]
async fn a_store_that_takes_a_command_is_back() {
    let stage = stage(stories()).await;
    stage.store.fail_inboxes(5);
    stage.chat.send("tell me").await.unwrap();
    while stage.store.inbox_reads() < 5 {
        sleep(SECOND / 10).await;
    }
    sleep(SECOND).await; // At least six more are to come.
    let since = Instant::now();
    stage.chat.send("and then?").await.unwrap();
    stage.watch().until_text("Once").await;
    assert_eq!(since.elapsed(), Duration::ZERO);
}
