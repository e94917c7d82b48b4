//! Damaged pages of a real file: each chat is whole or reported as damaged, and lists leave out only damaged ones.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use everturn_core::command::Delivery;
use everturn_core::ids::{ChatId, Timestamp};
use everturn_core::status::Status;
use everturn_stores::sqlite::{Sqlite, SqliteInspection};
use everturn_stores::{ChatQuery, Chosen, NewChat, Store as _, StoreError, StoreExt as _, Submission};
use everturn_testkit::conformance::Witness;
use everturn_testkit::rehearsal::sample::{attempt, chat_id, send, text};
use everturn_testkit::rehearsal::tiny_limits;
use rusqlite::Connection;
use tokio::task::JoinSet;

use super::open;
use crate::scratch::Scratch;

const CHATS: u128 = 320;
/// Chats with a turn under way.
const RUNNING: u128 = 60;

/// A name long enough that indexes with it have several pages.
fn owner() -> String {
    "owner ".repeat(16)
}

/// Chats at rest with a command that was not applied.
fn waiting() -> impl Iterator<Item = u128> {
    (1..=CHATS).step_by(5)
}

/// Chats of one owner, and some with a turn under way, an open draft and a command that waits.
async fn filled() -> Scratch {
    let dir = Scratch::new();
    let store = open(&dir);
    for number in 1..=CHATS {
        let new = NewChat { title: Chosen::ByCaller("kelp".into()), ..NewChat::of(chat_id(number), "agent", owner()) };
        store.create(&new).await.unwrap();
    }
    for number in waiting() {
        let submission = Submission { command: send("hello", Delivery::Queue), key: None, at: Timestamp(1) };
        store.submit(chat_id(number), submission, &tiny_limits()).await.unwrap();
    }
    for number in 1..=RUNNING {
        let mut witness = Witness::new(&store, CHATS + number).await;
        let words: Vec<String> = (0..30).map(|word| format!("word{number}x{word}")).collect();
        witness.say(&format!("kelp {}", words.join(" "))).await;
        witness.journal(vec![attempt(), text(&"x".repeat(900))]).await;
        witness.submit(send(&"later ".repeat(100), Delivery::Queue)).await.unwrap();
    }
    drop(store);
    let database = Connection::open(dir.as_ref().join("everturn.db")).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    dir
}

/// Pages of a table or index: the first, one in the middle and the last leaf, and an inner page. Not the root: the file
/// has one for a whole tree.
fn pages(dir: &Path, tree: &str) -> Vec<u32> {
    let database = Connection::open(dir.join("everturn.db")).unwrap();
    let sql = "SELECT pageno FROM dbstat WHERE name = ?1 AND path <> '/' AND pagetype = ?2 ORDER BY path";
    let of = |kind: &str| -> Vec<u32> {
        let mut select = database.prepare(sql).unwrap();
        select.query_map([tree, kind], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let (leaves, inner) = (of("leaf"), of("internal"));
    let chosen =
        leaves.first().into_iter().chain(leaves.get(leaves.len() / 2)).chain(leaves.last()).chain(inner.first());
    chosen.copied().collect::<BTreeSet<_>>().into_iter().collect()
}

/// A copy of the directory with one page filled with `byte`.
fn damaged(dir: &Path, page: u32, byte: u8) -> Scratch {
    const PAGE_LEN: usize = 4_096;
    let copy = Scratch::new();
    let mut bytes = std::fs::read(dir.join("everturn.db")).unwrap();
    bytes[(page as usize - 1) * PAGE_LEN..][..PAGE_LEN].fill(byte);
    std::fs::write(copy.as_ref().join("everturn.db"), bytes).unwrap();
    copy
}

/// Chats whose own reads fail, each as damaged.
async fn harmed(store: &Sqlite) -> BTreeSet<ChatId> {
    let mut harmed = BTreeSet::new();
    for number in 1..=CHATS + RUNNING {
        let heading = store.heading(chat_id(number)).await.map(drop);
        match heading.and(store.standing(chat_id(number)).await.map(drop)) {
            Ok(()) => {}
            Err(StoreError::Damaged(_)) => drop(harmed.insert(chat_id(number))),
            Err(error) => panic!("chat {number}: {error}"),
        }
    }
    harmed
}

async fn listed(store: &Sqlite, query: ChatQuery) -> BTreeSet<ChatId> {
    let found = store.headings(&ChatQuery { len: 1_000, ..query }).await.unwrap();
    found.into_iter().map(|heading| heading.id).collect()
}

/// Lists, counts and searches have every chat that is whole, wherever the damaged page lies.
#[tokio::test]
async fn lists_leave_out_only_damaged_chats() {
    let dir = filled().await;
    let trees = [
        "chats",
        "sqlite_autoindex_chats_1",
        "chats_of_owner",
        "chats_of_all",
        "chats_unsettled",
        "inbox",
        "spoken",
        "messages",
        "drafts",
    ];
    for tree in trees {
        let pages = pages(dir.as_ref(), tree);
        assert!(pages.len() > 1, "{tree} has {} pages", pages.len());
        for (page, byte) in pages.into_iter().zip([0xa5, 0].into_iter().cycle()) {
            let at = format!("{tree}, page {page}");
            let copy = damaged(dir.as_ref(), page, byte);
            let store = open(&copy);
            let harmed = harmed(&store).await;
            assert!(harmed.len() < CHATS as usize * 2 / 3, "{at}: {} chats are damaged", harmed.len());
            every_whole_chat_is_found(&store, &harmed, &at).await;
            every_whole_chat_is_written(&store, &harmed, &at).await;
            let added = store.create(&NewChat::of(chat_id(1_000), "agent", "new")).await;
            assert!(added.is_ok() || tree.contains("chats"), "{at}: {added:?}");
            drop(store);
            let inspection = SqliteInspection::open(copy.as_ref()).unwrap();
            let named = inspection.chats().unwrap().len() - usize::from(added.is_ok());
            assert!(named + harmed.len() >= (CHATS + RUNNING) as usize - 1, "{at}: {named} are named");
            inspection.orphans().unwrap();
        }
    }
}

async fn every_whole_chat_is_found(store: &Sqlite, harmed: &BTreeSet<ChatId>, at: &str) {
    let whole = |numbers: RangeInclusive<u128>| -> BTreeSet<ChatId> {
        numbers.map(chat_id).filter(|chat| !harmed.contains(chat)).collect()
    };
    let (quiet, running) = (whole(1..=CHATS), whole(CHATS + 1..=CHATS + RUNNING));
    let all = listed(store, ChatQuery::default()).await;
    assert!(all.is_superset(&quiet) && all.is_superset(&running), "{at}");
    let found = listed(store, ChatQuery { owner: Some(owner()), ..ChatQuery::default() }).await;
    assert!(found.is_superset(&quiet), "{at}: by owner");
    let found = listed(store, ChatQuery { text: "kelp".into(), ..ChatQuery::default() }).await;
    let lost = running.difference(&found).count();
    assert!(found.is_superset(&quiet) && (lost == 0 || at.starts_with("spoken") && lost < 20), "{at}: search");
    let found = listed(store, ChatQuery { status: Some(Status::Running), ..ChatQuery::default() }).await;
    assert!(found.is_superset(&running), "{at}: by status");
    let waiting: BTreeSet<ChatId> = waiting().map(chat_id).filter(|chat| !harmed.contains(chat)).collect();
    assert!(store.working(&owner(), &BTreeSet::new()).await.unwrap() >= waiting.len(), "{at}: at work");
    let found: BTreeSet<_> = store.unsettled().await.unwrap().into_iter().map(|found| found.chat).collect();
    assert!(found.is_superset(&running) && found.is_superset(&waiting), "{at}: to be driven");
    let page = ChatQuery { len: 10, ..ChatQuery::default() };
    let first = store.headings(&page).await.unwrap();
    let next = store.headings(&ChatQuery { after: Some(first[9].place()), ..page }).await.unwrap();
    assert!(next.len() == 10 && first[9].place() > next[0].place(), "{at}: pages");
}

/// Damaged chats that are written to at once, in one transaction, fail alone.
async fn every_whole_chat_is_written(store: &Arc<Sqlite>, harmed: &BTreeSet<ChatId>, at: &str) {
    let whole = (1..=20).map(chat_id).filter(|chat| !harmed.contains(chat));
    let mut all = JoinSet::new();
    for chat in harmed.iter().copied().chain(whole) {
        let store = store.clone();
        all.spawn(async move { (chat, store.acquire(chat).await) });
    }
    for (chat, acquired) in all.join_all().await {
        assert!(acquired.is_ok() || harmed.contains(&chat), "{at}: {acquired:?}");
    }
    let deleted = (1..).map(chat_id).find(|chat| !harmed.contains(chat)).unwrap();
    let done = store.delete(store.acquire(deleted).await.unwrap()).await;
    assert!(done.is_ok() || at.contains("chats"), "{at}: {done:?}");
}
