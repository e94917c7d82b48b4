//! More chats than a process has places for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::delta::Delta;
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::ids::Seq;
use everturn::core::limits::Limits;
use everturn::core::message::Stop;
use everturn::core::prompt::Role;
use everturn::core::status::Status;
use everturn::core::view::JournalRow;
use everturn::stores::{Hint, Store as _, StoreExt as _};
use everturn::{Agent, Approval, ChatHandle, Policy};
use everturn_understudy::{Script, Understudy, call, fail, hang, script, stop, text, wait};
use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::stage::{Diary, Stage, agent};
use crate::tools::ANY;

/// An answer that takes ten seconds.
fn slow() -> Script {
    script([text("One moment"), wait(10), text("."), stop(Stop::End)])
}

/// A failed attempt waits some minutes before the next.
fn patient() -> Limits {
    let mut limits = Limits::default();
    (limits.retry.delay_base, limits.retry.delay_max) = (Duration::from_secs(600), Duration::from_secs(600));
    limits
}

async fn crowded(understudy: Understudy, agent: Agent, chats_max: usize) -> Stage {
    Stage::built(understudy, agent, |builder| builder.chats_max(chats_max)).await
}

/// Some chats of an owner, each with something to do.
async fn busy(stage: &Stage, owner: &str, len: usize) -> Vec<ChatHandle> {
    let mut chats = Vec::new();
    for _ in 0..len {
        let chat = stage.engine.create_as(stage.engine.new_id(), "it", owner).await.unwrap();
        chat.send("go").await.unwrap();
        chats.push(chat);
    }
    chats
}

async fn until_done(chats: &[ChatHandle]) {
    for ended in join_all(chats.iter().map(ChatHandle::rest)).await {
        assert_eq!(ended.unwrap().ended(), Some(TurnEnd::Done));
    }
}

/// How many of them are done.
async fn done(chats: &[ChatHandle]) -> usize {
    let views = join_all(chats.iter().map(ChatHandle::view)).await;
    views.into_iter().filter(|view| view.as_ref().unwrap().standing.as_ref().unwrap().ended.is_some()).count()
}

/// Only so many chats are asked for at once, and all of them have their turn.
#[tokio::test(start_paused = true)]
async fn no_more_chats_work_than_there_are_places() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = most.clone();
    let stage = crowded(Understudy::improvising(|_| slow()), agent(), 3).await;
    let (understudy, since) = (stage.understudy.clone(), Instant::now());
    let watch = tokio::spawn(async move {
        loop {
            seen.fetch_max(understudy.streams_open(), Ordering::SeqCst);
            sleep(Duration::from_millis(100)).await;
        }
    });
    let chats = busy(&stage, "one", 20).await;
    until_done(&chats).await;
    drop(watch);
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert_eq!(since.elapsed().as_secs(), 70, "seven rounds of ten seconds");
}

/// I3: a chat that was parked in line and finds its draft unchanged has lost nothing; another chat's draft does not count.
#[tokio::test(start_paused = true)]
async fn a_draft_is_found_in_line_as_it_was_left() {
    for is_touched in [false, true] {
        let broken = script([text("Half "), fail(ErrorKind::Timeout, Cause::Reset)]);
        let rest = script(["of ", "it ", "and ", "more "].map(text).into_iter().chain([hang()]));
        let stage = crowded(Understudy::new([broken, slow(), rest]), agent(), 1).await;
        let mut watch = stage.watch();
        stage.chat.send("go").await.unwrap();
        watch.until_text("Half").await;
        let other = busy(&stage, "other", 1).await;
        sleep(Duration::from_secs(5)).await; // It may ask again, and another chat has the slot.
        let rows = async || {
            let lease = stage.store.acquire(stage.chat.id()).await.unwrap();
            let loaded = stage.store.load(&lease).await.unwrap();
            (lease, loaded.rows, loaded.chat.inherited.last.seq)
        };
        let mut found = Seq(0);
        if is_touched {
            let (lease, rows, _) = rows().await;
            let newest = rows.last().unwrap();
            found = newest.seq.next();
            let row = JournalRow { seq: found, delta: Arc::new(Delta::Text("a ".into())), ..newest.clone() };
            stage.store.append_and_wait(lease.append_right(), vec![row]).await.unwrap();
        }
        until_done(&other).await;
        watch.until_text("more").await;
        assert_eq!(rows().await.2, found, "touched: {is_touched}");
    }
}

/// An owner with a hundred chats at work delays another's by what one of them takes.
#[tokio::test(start_paused = true)]
async fn an_owner_with_many_chats_does_not_starve_another() {
    let stage = crowded(Understudy::improvising(|_| slow()), agent(), 2).await;
    let many = busy(&stage, "many", 100).await;
    sleep(Duration::from_secs(5)).await;
    let few = busy(&stage, "few", 2).await;
    until_done(&few).await;
    assert!(done(&many).await <= 6, "{} went before", done(&many).await);
    until_done(&many).await;
}

/// Nor do a few turns that take for ever: between two steps the slot goes to an owner with none.
#[tokio::test(start_paused = true)]
async fn a_long_turn_gives_way_between_its_steps() {
    let steps = |request: &everturn::core::prompt::Request| {
        let steps = request.entries.iter().filter(|entry| entry.role == Role::Tool).count();
        match steps {
            100 => script([text("Done."), stop(Stop::End)]),
            n => script([wait(10), call("look", json!({ "n": n })), stop(Stop::ToolUse)]),
        }
    };
    let agent = agent().tool(Diary::new().tool("look", 1, ANY)).unwrap();
    let stage = crowded(Understudy::improvising(steps), agent, 2).await;
    let long = busy(&stage, "long", 2).await;
    sleep(Duration::from_secs(15)).await;
    let other = busy(&stage, "other", 1).await.remove(0);
    sleep(Duration::from_secs(30)).await;
    assert!(other.view().await.unwrap().messages.len() > 2, "it has begun to work");
    until_done(&[other]).await;
    until_done(&long).await;
}

/// A chat that waits for its next retry, or for an answer, frees its slot.
#[tokio::test(start_paused = true)]
async fn a_chat_that_waits_has_no_place() {
    let policy = Policy { approval: Approval::Needed, ..ANY };
    let agent = agent().tool(Diary::new().tool("pay", 1, policy)).unwrap();
    let answers = [
        script([fail(ErrorKind::Timeout, Cause::Refused)]),
        slow(),
        script([call("pay", json!({})), stop(Stop::ToolUse)]),
        slow(),
    ];
    let agent = Agent { limits: patient(), ..agent };
    let stage = crowded(Understudy::new(answers), agent, 1).await;
    let waits = busy(&stage, "a", 1).await.remove(0);
    sleep(Duration::from_millis(100)).await;
    assert!(waits.view().await.unwrap().standing.unwrap().retry.is_some());
    until_done(&busy(&stage, "a", 1).await).await;
    assert!(waits.view().await.unwrap().standing.unwrap().retry.is_some(), "it waits for its time");
    assert_eq!(waits.rest().await.unwrap().ended(), None);
    assert_eq!(waits.view().await.unwrap().standing.unwrap().status, Status::Awaiting);
    until_done(&busy(&stage, "a", 1).await).await;
    assert_eq!(waits.view().await.unwrap().standing.unwrap().status, Status::Awaiting);
}

/// I11: an interrupt does not wait in line, and a message that was sent is in the transcript at once.
#[tokio::test(start_paused = true)]
async fn a_chat_in_line_obeys() {
    let stage = crowded(Understudy::improvising(|_| slow()), agent(), 1).await;
    let chats = busy(&stage, "one", 3).await;
    sleep(Duration::from_secs(1)).await;
    let since = Instant::now();
    assert_eq!(chats[2].view().await.unwrap().messages.len(), 1);
    chats[2].interrupt().await.unwrap();
    assert_eq!(chats[2].rest().await.unwrap().ended(), Some(TurnEnd::Interrupted));
    assert_eq!(since.elapsed(), Duration::ZERO);
    until_done(&chats[..2]).await;
    assert_eq!(stage.understudy.requests().len(), 2);
}

/// I24: a process ends with chats in line, and the next takes them up.
#[tokio::test(start_paused = true)]
async fn a_line_ends_with_its_process() {
    let stage = crowded(Understudy::improvising(|_| slow()), agent(), 1).await;
    let chats = busy(&stage, "one", 5).await;
    sleep(Duration::from_secs(1)).await;
    let since = Instant::now();
    let stage = stage.moved(Understudy::improvising(|_| slow()), agent()).await;
    assert!(since.elapsed() < Duration::from_secs(1));
    let chats: Vec<_> = chats.iter().map(|chat| stage.engine.chat(chat.id())).collect();
    until_done(&chats).await;
}

/// A chat in line that only applies its commands, and then waits for an answer, leaves the line: the slot it would
/// get is worth more to others.
#[tokio::test(start_paused = true)]
async fn a_chat_that_waits_leaves_the_line() {
    let policy = Policy { approval: Approval::Needed, ..ANY };
    let agent = agent().tool(Diary::new().tool("pay", 1, policy)).unwrap();
    let answers = [script([call("pay", json!({})), stop(Stop::ToolUse)]), slow(), slow()];
    let stage = crowded(Understudy::new(answers), agent, 1).await;
    let waits = busy(&stage, "a", 1).await.remove(0);
    assert_eq!(waits.rest().await.unwrap().ended(), None);
    stage.store.tell(Hint::Lost);
    sleep(Duration::from_secs(1)).await; // It has no driver now.
    let works = busy(&stage, "a", 1).await;
    sleep(Duration::from_secs(1)).await;
    stage.store.tell(Hint::Missed);
    sleep(Duration::from_secs(1)).await; // It is in line.
    waits.send("and then?").await.unwrap();
    until_done(&works).await;
    assert_eq!(waits.view().await.unwrap().standing.unwrap().status, Status::Awaiting);
    until_done(&busy(&stage, "a", 1).await).await;
}
