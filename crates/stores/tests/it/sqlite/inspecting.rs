//! Looking at a directory from outside: what is right is left in peace, and what is not is told.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use everturn_core::command::Delivery;
use everturn_core::ids::ChatId;
use everturn_stores::sqlite::{OpenError, SqliteInspection, StoredDefect};
use everturn_stores::{NewChat, Store as _, StoreExt as _};
use everturn_testkit::conformance::{Witness, generated, unicode};
use everturn_testkit::rehearsal::sample::{attempt, chat_id, send, text};

use super::{damage, open};
use crate::scratch::Scratch;

/// Everything wrong with a directory, the harmless left out.
fn grave(dir: impl AsRef<Path>) -> Vec<String> {
    let inspection = SqliteInspection::open(dir.as_ref()).unwrap();
    let chats = inspection.chats().unwrap();
    let of_chats = chats.iter().flat_map(|chat| inspection.defects(*chat).unwrap());
    let all = of_chats.chain(inspection.orphans().unwrap());
    all.filter(|trouble| !trouble.is_harmless()).map(|trouble| trouble.to_string()).collect()
}

/// Whatever a store was made to keep, nothing is wrong with it, while it is in use and after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn healthy_stores_have_no_defects() {
    let dir = Scratch::new();
    let store = open(&dir);
    generated::any_life_of_a_chat_is_stored_as_it_was(store.clone()).await;
    assert_eq!(grave(&dir), [""; 0]);
    let inspection = SqliteInspection::open(dir.as_ref()).unwrap();
    for chat in inspection.chats().unwrap() {
        assert_eq!(inspection.transcript(chat), store.transcript(chat).await);
        assert_eq!(inspection.attempts(chat), store.attempts(chat, 0, usize::MAX).await);
        assert_eq!(inspection.calls(chat), store.calls(chat).await);
        assert_eq!(inspection.heading(chat), store.heading(chat).await);
    }
    drop((inspection, store));
    let mut inspection = SqliteInspection::open(dir.as_ref()).unwrap();
    assert_eq!(inspection.damage(|| ()), Ok(Vec::new()));
    assert_eq!(inspection.schema(), Ok((9, 9)));
}

/// A chat with a draft and a command, broken by one statement.
async fn broken(sql: &str) -> Vec<String> {
    let dir = Scratch::new();
    let store = open(&dir);
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.journal(vec![attempt(), text("Hel")]).await;
    witness.journal(vec![text("lo")]).await;
    witness.submit(send("and then", Delivery::Queue)).await.unwrap();
    drop((witness, store));
    assert_eq!(grave(&dir), [""; 0]);
    let connection = rusqlite::Connection::open(dir.as_ref().join("everturn.db")).unwrap();
    assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
    drop(connection);
    grave(&dir)
}

/// Every kind of broken row is found, and told without stumbling over it.
#[tokio::test]
async fn every_defect_is_reported() {
    for (sql, told) in [
        ("UPDATE messages SET body = '{'", "message 1 cannot be read"),
        ("UPDATE messages SET body = replace(body, '\"v\":1', '\"v\":9')", "upgrade"),
        ("UPDATE messages SET id = 7", "the number of message 7 is 1 in one place and 7 in another"),
        ("UPDATE messages SET version = 99", "the newest commit or message"),
        ("UPDATE chats SET version = version + 1", "the version is"),
        ("UPDATE chats SET status = 'idle'", "the status is running in one place and idle in another"),
        ("UPDATE chats SET title = x'ff'", "the title is hello in one place"),
        ("UPDATE messages SET body = replace(body, 'hello', 'hellp')", "its checksum does not match"),
        ("UPDATE chats SET body = '[]'", "the chat cannot be read"),
        (
            "DELETE FROM drafts WHERE place = (SELECT min(place) FROM drafts)",
            "the journal of step 1 before 3 has a gap",
        ),
        ("UPDATE drafts SET body = '{'", "of the journal cannot be read"),
        ("UPDATE chats SET number = 99", "rows of drafts belong to no chat"),
        ("UPDATE inbox SET seq = seq + 1 WHERE seq = 2", "the inbox before command 3 has a gap"),
        ("UPDATE inbox SET outcome = NULL", "command 1 is obeyed in one place and waiting in another"),
        ("INSERT INTO attempts (chat, body) SELECT id, 'x' FROM chats", "attempt 1 cannot be read"),
        ("INSERT INTO attempts (chat, body) VALUES (x'00', 'x')", "1 rows of attempts belong to no chat"),
        ("INSERT INTO blobs (chat, id, bytes) SELECT id, zeroblob(32), x'01' FROM chats", "are not those"),
    ] {
        let found = broken(sql).await;
        assert!(found.iter().any(|line| line.contains(told)), "{sql}: {found:?}");
    }
}

/// Bytes that are gone or not used are told; the latter do no harm.
#[tokio::test]
async fn bytes_are_counted() {
    let dir = Scratch::new();
    let store = open(&dir);
    unicode::odd_text_comes_back_from_every_message(store.clone()).await;
    drop(store);
    assert_eq!(grave(&dir), [""; 0]);
    let connection = rusqlite::Connection::open(dir.as_ref().join("everturn.db")).unwrap();
    assert!(connection.execute("DELETE FROM blobs", []).unwrap() > 0);
    connection.execute("INSERT INTO blobs (chat, id, bytes) SELECT id, ?1, ?2 FROM chats", (UNUSED, b"x")).unwrap();
    drop(connection);
    let found = grave(&dir);
    assert!(found.iter().any(|line| line.starts_with("bytes of message")), "{found:?}");
    let inspection = SqliteInspection::open(dir.as_ref()).unwrap();
    let first = inspection.chats().unwrap()[0];
    assert!(inspection.defects(first).unwrap().contains(&StoredDefect::Unused { blobs: 1, bytes: 1 }));
}

/// The SHA-256 of `x`.
const UNUSED: [u8; 32] = [
    0x2d, 0x71, 0x16, 0x42, 0xb7, 0x26, 0xb0, 0x44, 0x01, 0x62, 0x7c, 0xa9, 0xfb, 0xac, 0x32, 0xf5, 0xc8, 0x53, 0x0f,
    0xb1, 0x90, 0x3c, 0xc4, 0xdb, 0x02, 0x25, 0x87, 0x17, 0x92, 0x1a, 0x48, 0x81,
];

/// A file that is damaged is told to be, and what is none of ours is refused.
#[tokio::test]
async fn damage_is_told() {
    let dir = Scratch::new();
    assert!(matches!(SqliteInspection::open(dir.as_ref()), Err(OpenError::Missing(_))));
    let store = open(&dir);
    for number in 0..400 {
        store.create(&NewChat::of(chat_id(number), "agent", "owner ".repeat(40))).await.unwrap();
    }
    drop(store);
    damage(&dir);
    let mut inspection = SqliteInspection::open(dir.as_ref()).unwrap();
    assert_ne!(inspection.damage(|| ()), Ok(Vec::new()));
    assert!(inspection.defects(ChatId::from_u128(u128::MAX)).is_err());
}
