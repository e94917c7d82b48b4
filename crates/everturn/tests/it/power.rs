//! Text that was shown and then lost in a power cut: clients get a snapshot, never a gap.

use std::path::Path;
use std::sync::Arc;

use everturn::core::delta::Delta;
use everturn::core::ids::{MessageId, Seq};
use everturn::core::message::text_of;
use everturn::core::takeover::TakeoverPoint;
use everturn::core::view::{Cursor, Event, JournalRow, View};
use everturn::stores::sqlite::SqliteOptions;
use everturn::stores::{Sqlite, Store, StoreExt as _};
use everturn::{ChatHandle, Drivers, Engine};
use everturn_understudy::{Script, Understudy, hang, script, text};
use tempfile::TempDir;

use crate::stage::{Stage, agent};

fn store(dir: &Path) -> Arc<Sqlite> {
    Arc::new(Sqlite::open(dir, &SqliteOptions::default()).unwrap())
}

fn process(store: Arc<Sqlite>, script: Script) -> Engine {
    let builder = Engine::builder().store(store).provider(Understudy::new([script])).agent("it", agent());
    builder.drivers(Drivers::ByHand).start()
}

/// Drives the chat until so much of its answer was shown; then its driver is gone.
async fn until_shown(chat: &ChatHandle, words: &str) -> Cursor {
    let (mut events, mut view) = (chat.events(None), View::default());
    let shown = async {
        while !view.draft.as_ref().is_some_and(|draft| text_of(draft.parts()).contains(words)) {
            view.fold(&events.next().await.unwrap()).unwrap();
        }
    };
    tokio::select! {
        biased;
        () = shown => {}
        drive = chat.advance() => panic!("the turn ended: {drive:?}"),
    }
    while let Some(event) = events.try_next().await.unwrap() {
        view.fold(&event).unwrap();
    }
    events.cursor().unwrap()
}

/// A copy of the disk at this moment: later writes are lost in the cut.
fn disk(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in ["everturn.db", "everturn.db-wal"] {
        std::fs::copy(dir.join(file), copy.path().join(file)).unwrap();
    }
    copy
}

/// Adds to a draft what a driver would have.
async fn append(store: &Arc<Sqlite>, chat: &ChatHandle, words: &[&str]) -> Cursor {
    let lease = store.acquire(chat.id()).await.unwrap();
    let loaded = store.load(&lease).await.unwrap();
    let newest = loaded.rows.last().unwrap().clone();
    let row = |(word, n): (&&str, u64)| {
        let delta = Arc::new(Delta::Text((*word).into()));
        JournalRow { seq: Seq(newest.seq.0 + n), delta, ..newest.clone() }
    };
    store.append_and_wait(lease.append_right(), words.iter().zip(1..).map(row).collect()).await.unwrap();
    store.since(chat.id(), None).await.unwrap().unwrap().cursor
}

/// I3: the power fails while the newest words shown are not on the disk yet, and again while the answer goes on.
/// A reader that saw lost words gets a snapshot, though as many others have come by then; a reader that saw none of them
/// goes on without.
#[tokio::test]
async fn a_reader_of_lost_words_gets_a_snapshot() {
    let mut dir = tempfile::tempdir().unwrap();
    let first = store(dir.path());
    let chat = process(first.clone(), script([text("one "), hang()])).create("it").await.unwrap();
    chat.send("count").await.unwrap();
    let mut before = until_shown(&chat, "one ").await;
    let mut cut = first;
    let mut ghosts = Vec::new();
    for words in ["two ", "three "] {
        let left = disk(dir.path());
        ghosts.push(append(&cut, &chat, &["dos ", "tres ", "cuatro "]).await);
        cut = store(left.path());
        let next = process(cut.clone(), script([text(words), text("and "), text("so "), text("on "), hang()]));
        let chat = next.chat(chat.id());
        let now = until_shown(&chat, &format!("{words}and so on ")).await;
        for ghost in &ghosts {
            assert!(ghost.step == now.step && ghost.seq <= now.seq, "{ghost}, {now}: their numbers are used again");
            let told = chat.events(Some(*ghost)).next().await.unwrap();
            assert!(matches!(told, Event::Reset(_)), "{ghost}: {told:?}");
        }
        let told = chat.events(Some(before)).next().await.unwrap();
        assert!(!matches!(told, Event::Reset(_)), "{before}: {told:?}");
        (before, dir) = (now, left);
    }
}

/// A database that several processes share can lose its newest rows while they live on. So it counts as well when a
/// process takes over a chat of its own; but not for a draft that is not continued.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_found_draft_is_committed_by_any_process() {
    for between in ["nothing", "somebody else", "an edit"] {
        let understudy = Understudy::new([script([text("one "), hang()]), script([text("two "), hang()])]);
        let stage = Stage::built(understudy, agent(), |builder| builder.drivers(Drivers::ByHand)).await;
        // Looking needs the lease, so the chat was held in between.
        let inherited = async || {
            let lease = stage.store.acquire(stage.chat.id()).await.unwrap();
            stage.store.load(&lease).await.unwrap().chat.inherited.last
        };
        stage.chat.send("count").await.unwrap();
        let before = until_shown(&stage.chat, "one ").await;
        match between {
            "somebody else" => assert_eq!(inherited().await, TakeoverPoint::default(), "not written elsewhere"),
            "an edit" => drop(stage.chat.edit(MessageId(1), "go on").await.unwrap()),
            _ => {}
        }
        until_shown(&stage.chat, "two ").await;
        let last = inherited().await;
        match between {
            "an edit" => assert_eq!(last, TakeoverPoint::default()),
            _ => assert_eq!((last.seq, last.version > before.version), (before.seq, true), "{between}"),
        }
    }
}
