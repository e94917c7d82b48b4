//! Chats that their processes die of.

use std::sync::Arc;
use std::time::Duration;

use everturn::core::chat::{Effect, TurnEnd};
use everturn::core::command::Command;
use everturn::core::delta::Delta;
use everturn::core::error::ErrorKind;
use everturn::core::ids::{ChatId, Seq, Timestamp};
use everturn::core::message::{CallVerdict, Stop};
use everturn::core::status::Status;
use everturn::core::view::JournalRow;
use everturn::stores::{Loaded, Store as _, StoreError, StoreExt as _, SubmitError};
use everturn::{Agent, Drivers, Engine, Policy, ToolContext, ToolError, tool};
use everturn_understudy::{Understudy, call, cut, hang, script, stop, text, wait};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::stage::{count, counter};
use crate::stepwise::{Fault, Stepwise};

/// An agent that tries again at once.
fn patient() -> Agent {
    let mut agent = crate::stage::agent();
    agent.limits.retry.delay_base = Duration::ZERO;
    agent
}

/// Limits under which a waiting chat is suspect as soon as one that runs tools.
fn agent() -> Agent {
    let mut agent = patient();
    agent.limits.deaths_waiting_max = agent.limits.deaths_max;
    agent
}

/// A process: an engine on a store that outlives it.
fn process(store: &Arc<Stepwise>, understudy: &Understudy, agent: &Agent) -> Engine {
    let builder = Engine::builder().store(store.clone()).provider(understudy.clone()).agent("it", agent.clone());
    builder.seed(1).starting_at(Timestamp(0)).drivers(Drivers::ByHand).start()
}

/// Drives the chat in a process of its own that dies after a second; or says how the turn ended before.
async fn life(store: &Arc<Stepwise>, understudy: &Understudy, agent: &Agent, id: ChatId) -> Option<TurnEnd> {
    let process = process(store, understudy, agent);
    match timeout(Duration::from_secs(1), process.chat(id).advance()).await {
        Ok(done) => {
            done.unwrap();
            process.chat(id).rest().await.unwrap().ended()
        }
        Err(_) => None,
    }
}

fn quarantined(end: &Option<TurnEnd>) -> bool {
    matches!(end, Some(TurnEnd::Failed(failure)) if failure.kind == ErrorKind::Quarantine)
}

/// A request that no process survives is sent three times and no more; the next message releases the chat.
#[tokio::test(start_paused = true)]
async fn a_chat_that_kills_before_it_says_anything_is_left_alone() {
    let (store, deadly) = (Arc::new(Stepwise::default()), Understudy::improvising(|_| script([hang()])));
    let id = process(&store, &deadly, &agent()).create("it").await.unwrap().id();
    process(&store, &deadly, &agent()).chat(id).send("go").await.unwrap();
    for _ in 0..3 {
        assert_eq!(life(&store, &deadly, &agent(), id).await, None);
    }
    let end = life(&store, &deadly, &agent(), id).await;
    assert!(quarantined(&end), "{end:?}");
    let Some(TurnEnd::Failed(failure)) = end else { unreachable!() };
    assert!(failure.message.contains("send a message"), "{}", failure.message);
    let well = Understudy::improvising(|_| script([text("Here."), stop(Stop::End)]));
    process(&store, &well, &agent()).chat(id).send("again").await.unwrap();
    assert_eq!(life(&store, &well, &agent(), id).await, Some(TurnEnd::Done));
}

/// A turn that only waits for its model is not held responsible for deaths that a restart or another chat caused, nor does
/// it have to wait for others that waited too; a dozen in a row are too many all the same.
#[tokio::test(start_paused = true)]
async fn a_chat_that_only_waits_is_suspected_late() {
    let (store, silent) = (Arc::new(Stepwise::default()), Understudy::improvising(|_| script([hang()])));
    let first = process(&store, &silent, &patient());
    let ids = [first.create("it").await.unwrap().id(), first.create("it").await.unwrap().id()];
    for id in ids {
        first.chat(id).send("go").await.unwrap();
    }
    for _ in 0..6 {
        let process = process(&store, &silent, &patient());
        let asked = silent.requests().len();
        let lives = ids.map(|id| process.chat(id)).map(|chat| tokio::spawn(async move { chat.advance().await }));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(silent.requests().len(), asked + 2, "none waits for the other");
        lives.iter().for_each(tokio::task::JoinHandle::abort);
    }
    let well = Understudy::improvising(|_| script([text("Here."), stop(Stop::End)]));
    assert_eq!(life(&store, &well, &patient(), ids[0]).await, Some(TurnEnd::Done));
    for _ in 6..12 {
        assert_eq!(life(&store, &silent, &patient(), ids[1]).await, None);
    }
    assert!(quarantined(&life(&store, &silent, &patient(), ids[1]).await));
}

/// A chat that was merely present makes progress between two deaths, and is never quarantined.
#[tokio::test(start_paused = true)]
async fn a_chat_that_gets_on_is_not_counted() {
    const WHOLE: &str = "one two three four five six seven";
    let understudy = Understudy::hearing(|heard| {
        let left = WHOLE.strip_prefix(heard.half_said.trim_end()).unwrap_or(WHOLE);
        let word = left.split_inclusive(' ').find(|word| !word.trim().is_empty()).unwrap_or_default();
        let end = if WHOLE.ends_with(word) { stop(Stop::End) } else { hang() };
        script([text(word), end])
    });
    let store = Arc::new(Stepwise::default());
    let id = process(&store, &understudy, &agent()).create("it").await.unwrap().id();
    process(&store, &understudy, &agent()).chat(id).send("go").await.unwrap();
    for _ in 0..6 {
        assert_eq!(life(&store, &understudy, &agent(), id).await, None);
    }
    assert_eq!(life(&store, &understudy, &agent(), id).await, Some(TurnEnd::Done));
    let chat = process(&store, &understudy, &agent()).chat(id);
    assert_eq!(chat.newest_reply().await.unwrap().as_deref(), Some(WHOLE));
}

/// A tool that kills is found out although its model calls it again each time; it never ran twice for one call.
#[tokio::test(start_paused = true)]
async fn a_tool_that_kills_is_found_out() {
    let runs = counter();
    let ran = runs.clone();
    let pay = tool("pay", "Kills.", move |_: ToolContext, _: Value| {
        let ran = ran.clone();
        async move {
            ran.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            std::future::pending::<Result<String, ToolError>>().await
        }
    });
    let agent = agent().tool(pay.with(Policy { effect: Effect::Once, ..Policy::default() })).unwrap();
    let stubborn = Understudy::improvising(|request| {
        let n = request.entries.len();
        script([text("I will pay."), call("pay", json!({ "n": n })), stop(Stop::ToolUse)])
    });
    let store = Arc::new(Stepwise::default());
    let id = process(&store, &stubborn, &agent).create("it").await.unwrap().id();
    process(&store, &stubborn, &agent).chat(id).send("go").await.unwrap();
    for _ in 0..3 {
        assert_eq!(life(&store, &stubborn, &agent, id).await, None);
    }
    let end = life(&store, &stubborn, &agent, id).await;
    assert!(quarantined(&end), "{end:?}");
    assert_eq!(count(&runs), 3);
    let chat = process(&store, &stubborn, &agent).chat(id);
    let told = chat.transcript().await.unwrap();
    let results = told.iter().filter_map(|message| match &message.body {
        everturn::core::message::Body::Result(result) => Some(result.verdict),
        _ => None,
    });
    assert_eq!(results.collect::<Vec<_>>(), [CallVerdict::Unknown; 3]);
    assert_eq!(chat.view().await.unwrap().standing.unwrap().status, Status::Failed);
}

/// Waiting is no work: a chat that was asked something survives any number of processes.
#[tokio::test(start_paused = true)]
async fn a_chat_that_rests_is_not_counted() {
    let asked = Understudy::improvising(|_| script([call("map", json!({})), stop(Stop::ToolUse)]));
    let mut agent = agent();
    agent
        .toolbox
        .add_client(everturn::core::prompt::ToolSpec::new("map", "Shows.", json!({"type": "object"})))
        .unwrap();
    let store = Arc::new(Stepwise::default());
    let id = process(&store, &asked, &agent).create("it").await.unwrap().id();
    process(&store, &asked, &agent).chat(id).send("go").await.unwrap();
    for _ in 0..6 {
        assert_eq!(life(&store, &asked, &agent, id).await, None);
    }
    let view = process(&store, &asked, &agent).chat(id).view().await.unwrap();
    assert_eq!(view.standing.unwrap().status, Status::Awaiting);
}

/// A chat that finds no place when it is taken up is counted once it has one, whatever it was told meanwhile.
#[tokio::test(start_paused = true)]
async fn a_chat_that_waited_in_line_is_counted() {
    let (store, deadly) = (Arc::new(Stepwise::default()), Understudy::improvising(|_| script([hang()])));
    let id = process(&store, &deadly, &agent()).create("it").await.unwrap().id();
    process(&store, &deadly, &agent()).chat(id).send("go").await.unwrap();
    assert_eq!(life(&store, &deadly, &agent(), id).await, None);
    let slow = Understudy::new([script([text("One"), wait(10), text("."), stop(Stop::End)]), script([hang()])]);
    let builder = Engine::builder().store(store.clone()).provider(slow).agent("it", agent()).chats_max(1);
    let crowded = builder.seed(2).starting_at(Timestamp(0)).start();
    crowded.create("it").await.unwrap().send("first").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    crowded.resume().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    crowded.chat(id).submit(Command::Rename("in line".into()), None).await.unwrap();
    sleep(Duration::from_secs(10)).await; // It has its place.
    let lease = store.acquire(id).await.unwrap();
    assert_eq!(store.load(&lease).await.unwrap().chat.taken.still, 1);
}

/// Of two that may be deadly the second is not asked before the first has something new in the store, or had its time:
/// words that repeat what was shown are nothing new, nor is a stream that broke.
#[tokio::test(start_paused = true)]
async fn suspects_are_alone_until_something_new_is_stored() {
    let repeats = || Understudy::improvising(|_| script([text("Well then"), hang()]));
    let breaks = || Understudy::new([script([cut()]), script([hang()]), script([hang()])]);
    let speaks = || Understudy::improvising(|_| script([text(" I go on"), hang()]));
    for (last, alone, both) in [(repeats(), 1, 2), (breaks(), 2, 3), (speaks(), 2, 2)] {
        let (store, silent) = (Arc::new(Stepwise::default()), Understudy::improvising(|_| script([hang()])));
        let ids = two_suspects(&store, &repeats(), &silent).await;
        let engine = process(&store, &last, &agent());
        let lives = ids.map(|id| engine.chat(id)).map(|chat| tokio::spawn(async move { chat.advance().await }));
        sleep(Duration::from_secs(9)).await;
        assert_eq!(last.requests().len(), alone);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(last.requests().len(), both);
        lives.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Two chats that each said something in their first process, and nothing in the next.
async fn two_suspects(store: &Arc<Stepwise>, first: &Understudy, then: &Understudy) -> [ChatId; 2] {
    let engine = process(store, first, &agent());
    let ids = [engine.create("it").await.unwrap().id(), engine.create("it").await.unwrap().id()];
    for id in ids {
        engine.chat(id).send("go").await.unwrap();
        assert_eq!(life(store, first, &agent(), id).await, None);
        assert_eq!(life(store, then, &agent(), id).await, None);
    }
    ids
}

/// A tool that may have killed twice is not cleared by output of the model, nor by a call with an unknown outcome.
#[tokio::test(start_paused = true)]
async fn a_suspect_with_tools_is_alone_until_one_comes_back() {
    let pay = tool("pay", "Kills.", |_: ToolContext, _: Value| std::future::pending::<Result<String, ToolError>>());
    let agent = agent().tool(pay.with(Policy { effect: Effect::Once, ..Policy::default() })).unwrap();
    let pays = || Understudy::improvising(|_| script([text("Well."), call("pay", json!({})), stop(Stop::ToolUse)]));
    let (store, silent) = (Arc::new(Stepwise::default()), Understudy::improvising(|_| script([hang()])));
    let (first, last) = (process(&store, &pays(), &agent), process(&store, &pays(), &agent));
    let [deadly, other] = [first.create("it").await.unwrap(), first.create("it").await.unwrap()];
    for (chat, model) in [(&deadly, &pays()), (&other, &silent)] {
        chat.send("go").await.unwrap();
        assert_eq!(life(&store, model, &agent, chat.id()).await, None);
        assert_eq!(life(&store, model, &agent, chat.id()).await, None);
    }
    let lives = [deadly.id(), other.id()].map(|id| last.chat(id));
    let lives = lives.map(|chat| tokio::spawn(async move { chat.advance().await }));
    sleep(Duration::from_secs(9)).await;
    let status = async |id| last.chat(id).view().await.unwrap().draft.map(|draft| draft.parts().len());
    assert_eq!((status(deadly.id()).await, status(other.id()).await), (None, Some(0)), "one pays, one waits");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(status(other.id()).await, None, "both pay");
    lives.iter().for_each(tokio::task::JoinHandle::abort);
}

/// A process that loses its lease and takes the chat again, before another process had it, does not count as a crash,
/// whatever the number of its next lease.
#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_no_death() {
    let (store, silent) = (Arc::new(Stepwise::default()), Understudy::improvising(|_| script([hang()])));
    let engine = process(&store, &silent, &agent());
    let chat = engine.create("it").await.unwrap();
    chat.send("go").await.unwrap();
    let work = async || timeout(Duration::from_secs(1), chat.advance()).await;
    assert!(work().await.is_err(), "it waits for its model");
    for _ in 0..4 {
        store.fail_after(0, Fault::Fenced);
        let other = engine.create("it").await.unwrap().id();
        for _ in 0..9 {
            store.acquire(other).await.unwrap();
        }
        store.delete(store.acquire(other).await.unwrap()).await.unwrap();
        assert!(work().await.is_ok_and(|ended| ended.is_err()), "it has lost the chat");
        assert!(work().await.is_err(), "it waits for its model again");
    }
    let lease = store.acquire(chat.id()).await.unwrap();
    assert_eq!(store.load(&lease).await.unwrap().chat.taken.still, 0);
}

/// A journal that does not add up is damage, and said so: nothing panics over it, and nothing is asked.
#[tokio::test(start_paused = true)]
async fn a_journal_that_does_not_add_up_is_said_so() {
    let store = Arc::new(Stepwise::default());
    let never = Understudy::improvising(|_| script([hang()]));
    let chat = process(&store, &never, &agent()).create("it").await.unwrap();
    chat.send("go").await.unwrap();
    assert_eq!(life(&store, &never, &agent(), chat.id()).await, None);
    let lease = store.acquire(chat.id()).await.unwrap();
    let Loaded { chat: stored, rows, .. } = store.load(&lease).await.unwrap();
    let seq = rows.last().map_or(Seq(1), |row| row.seq.next());
    let delta = Arc::new(Delta::CallEnded { slot: 7 });
    store
        .append_and_wait(lease.append_right(), vec![JournalRow { step: stored.step, seq, at: Timestamp(0), delta }])
        .await
        .unwrap();
    let asked = never.requests().len();
    let ended = process(&store, &never, &agent()).chat(chat.id()).advance().await;
    assert!(format!("{ended:?}").contains("call slot 7"), "{ended:?}");
    assert_eq!(never.requests().len(), asked);

    let builder = Engine::builder().store(store.clone()).provider(never.clone()).agent("it", agent());
    let engine = builder.seed(1).starting_at(Timestamp(0)).start();
    let chat = engine.chat(chat.id());
    let receipt = chat.send("and now?").await.unwrap();
    let told = (chat.rest().await.unwrap_err(), chat.outcome(receipt).await.unwrap_err());
    assert!(matches!(&told.0, StoreError::Unreadable(why) if why.contains("call slot 7")), "{told:?}");
    assert_eq!(told.0, told.1);
    assert_eq!(never.requests().len(), asked);
}

/// A store may accept commands of a chat with damaged messages. The engine refuses them, so that they do not pile up.
#[tokio::test(start_paused = true)]
async fn a_damaged_chat_takes_no_commands() {
    let store = Arc::new(Stepwise::default());
    let never = Understudy::improvising(|_| script([hang()]));
    let builder = Engine::builder().store(store.clone()).provider(never).agent("it", agent());
    let engine = builder.seed(1).starting_at(Timestamp(0)).start();
    let chat = engine.create("it").await.unwrap();
    store.damage();
    chat.send("accepted before the damage is known").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let refused = chat.send("again").await;
    assert!(matches!(refused, Err(SubmitError::Store(StoreError::Damaged(_)))), "{refused:?}");
    assert_eq!(store.inbox(chat.id()).await.unwrap().len(), 1);
}
