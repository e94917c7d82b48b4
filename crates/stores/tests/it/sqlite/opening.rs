//! Opening a data directory.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use everturn_stores::sqlite::{OpenError, Sqlite, SqliteOptions};
use everturn_stores::{NewChat, Store as _, StoreError, StoreExt as _, WriteError};
use everturn_testkit::conformance::Witness;
use everturn_testkit::rehearsal::sample::{attempt, chat_id, text};
use rusqlite::Connection;

use super::{damage, given, open, other};
use crate::scratch::Scratch;

fn refused(dir: impl AsRef<std::path::Path>) -> OpenError {
    Sqlite::open(dir.as_ref(), &SqliteOptions::default()).expect_err("it must be refused")
}

/// A second process gets an error with the directory and its owner, and changes nothing. Later it can open it.
#[tokio::test]
async fn one_process_at_a_time() {
    let dir = Scratch::new();
    let store = open(&dir);
    let told = other("sqlite::opening::is_in_use", &dir).output().expect("a test can be run");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let (path, holder) = (dir.as_ref().display().to_string(), std::process::id().to_string());
    assert!(told.contains(&format!("{path} is in use by process {holder}: stop it")), "{told}");
    let witness = Witness::in_a_turn(&store, 1).await;
    witness.agrees().await;
    drop((store, witness));
    let played = other("sqlite::opening::is_free", &dir).output().expect("a test can be run");
    assert!(played.status.success(), "{played:?}");
}

#[test]
#[ignore = "a part that is played in another process"]
fn is_in_use() {
    println!("{}", refused(given()));
}

#[test]
#[ignore = "a part that is played in another process"]
fn is_free() {
    drop(open(given()));
}

/// PR18: what a later release has made is refused by number, and left as it is.
#[test]
fn a_newer_schema_is_refused_with_both_numbers() {
    let dir = Scratch::new();
    drop(open(&dir));
    let file = dir.as_ref().join("everturn.db");
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(refused(&dir), OpenError::Newer { found: 99, known: 9 }));
    assert_eq!(refused(&dir).to_string(), "the database has schema 99, and this program knows up to 9: upgrade it");
    let found: i64 =
        Connection::open(&file).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(found, 99);
}

/// Files of a directory by name, without the lock, which changes with every attempt, and the index of the log, which
/// every reader creates anew.
fn files(dir: impl AsRef<std::path::Path>) -> BTreeMap<OsString, Vec<u8>> {
    let all = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let ours = all.filter(|file| file.file_name() != "lock" && file.file_name() != "everturn.db-shm");
    ours.map(|file| (file.file_name(), std::fs::read(file.path()).unwrap())).collect()
}

/// PR18: what is refused is not changed by a byte, whatever way it is written in, and no file comes to lie beside it.
#[test]
fn a_refused_directory_stays_unchanged() {
    let newer =
        "PRAGMA journal_mode = wal; PRAGMA application_id = 0x65766572; CREATE TABLE t (x); PRAGMA user_version = 99";
    let foreign = "PRAGMA journal_mode = delete; CREATE TABLE theirs (x)";
    let foreign_log = "PRAGMA journal_mode = wal; CREATE TABLE theirs (x)";
    for sql in [newer, foreign, foreign_log] {
        let (dir, killed) = (Scratch::new(), Scratch::new());
        let database = Connection::open(dir.as_ref().join("everturn.db")).unwrap();
        database.execute_batch(sql).unwrap();
        for (name, bytes) in files(&dir) {
            std::fs::write(killed.as_ref().join(name), bytes).unwrap(); // As after a kill.
        }
        database.close().unwrap();
        for dir in [dir, killed] {
            let before = files(&dir);
            let told = refused(&dir);
            assert!(matches!(told, OpenError::Newer { found: 99, .. } | OpenError::Foreign), "{sql}: {told}");
            assert_eq!(files(&dir), before, "{sql}");
            let has_index = dir.as_ref().join("everturn.db-shm").exists();
            assert!(!has_index || before.contains_key(OsStr::new("everturn.db-wal")), "{sql}");
        }
    }
}

#[test]
fn somebody_elses_database_is_refused() {
    let dir = Scratch::new();
    let file = dir.as_ref().join("everturn.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    assert!(matches!(refused(&dir), OpenError::Foreign));
    std::fs::write(&file, "not a database at all, but long enough to be one ".repeat(100)).unwrap();
    assert!(matches!(refused(&dir), OpenError::Damaged(_)));
}

/// Fills the page of the database that holds these words with something else, or flips one bit of them.
fn damage_at(dir: &Scratch, words: &str, what: &str) {
    let file = dir.as_ref().join("everturn.db");
    let database = Connection::open(&file).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let page_len: u32 = database.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    let page_len = page_len as usize;
    drop(database);
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(words.len()).position(|window| window == words.as_bytes()).expect("it is in there");
    match what {
        "a bit" => bytes[at] ^= 1,
        _ => bytes[at / page_len * page_len..][..page_len].fill(0xa5),
    }
    std::fs::write(&file, bytes).unwrap();
}

/// A page of messages that is damaged, or one bit of it, harms the chats on it. They say so; all others go on.
#[tokio::test]
async fn damage_harms_the_chats_on_the_page_alone() {
    const CHATS: u128 = 40;
    for what in ["a bit", "a page"] {
        let dir = Scratch::new();
        let store = open(&dir);
        let mut parts = Vec::new();
        for number in 1..=CHATS {
            let mut witness = Witness::new(&store, number).await;
            witness.say(&format!("word-{number}-{}", "x".repeat(1_500))).await;
            parts.push((witness.stage, witness.lease, witness.limits, witness.calls));
        }
        drop(store);
        damage_at(&dir, r#"{"user":[{"text":{"text":"word-20-x"#, what); // In a message, and not in the inbox.
        let store = open(&dir);
        let mut damaged = 0;
        for (stage, lease, limits, calls) in parts {
            let chat = stage.chat.id;
            let mut witness = Witness { store: store.clone(), stage, lease, limits, calls };
            match store.transcript(chat).await {
                Ok(_) => {
                    witness.agrees().await;
                    witness.journal(vec![attempt(), text("goes on")]).await;
                }
                Err(StoreError::Damaged(_)) => {
                    damaged += 1;
                    let told = store.load(&witness.lease).await.unwrap_err();
                    assert!(matches!(told, WriteError::Store(StoreError::Damaged(_))), "{told}");
                    store.state(&witness.lease).await.expect("the chat itself is elsewhere");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
        let most = if what == "a bit" { 1 } else { 4 };
        assert!((1..=most).contains(&damaged), "{what}: {damaged} chats are damaged");
    }
}

/// Of a file of which half is something else, each chat is there or is told to be damaged.
#[tokio::test]
async fn a_damaged_database_is_opened_for_what_is_left() {
    let dir = Scratch::new();
    let store = open(&dir);
    for number in 1..200 {
        store.create(&NewChat::of(chat_id(number), "agent", "owner".repeat(50))).await.unwrap();
    }
    drop(store);
    damage(&dir);
    let store = open(&dir);
    let mut damaged = 0;
    for number in 1..200 {
        match store.heading(chat_id(number)).await {
            Ok(_) => {}
            Err(StoreError::Damaged(_)) => damaged += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(damaged > 0);
}

/// What cannot be made out is told for the one chat; the others go on.
#[tokio::test]
async fn a_text_that_cannot_be_read_harms_its_own_chat_alone() {
    let dir = Scratch::new();
    let store = open(&dir);
    let witness = Witness::in_a_turn(&store, 1).await;
    let mut lost = Witness::in_a_turn(&store, 2).await;
    let raw = Connection::open(dir.as_ref().join("everturn.db")).unwrap();
    let id = lost.chat().as_u128().to_be_bytes();
    raw.execute("UPDATE messages SET body = '{\"v\":9,\"is\":0}' WHERE chat = ?1", [id]).unwrap();
    raw.execute("UPDATE chats SET body = '{\"v\":9,\"is\":0}' WHERE id = ?1", [id]).unwrap();
    drop((raw, store));
    let store = open_after(witness.store, lost.store, &dir);
    let (witness, newer) = (Witness { store: store.clone(), ..witness }, "version 9");
    for told in [
        store.transcript(lost.stage.chat.id).await.unwrap_err(),
        store.since(lost.stage.chat.id, None).await.unwrap_err(),
    ] {
        assert!(matches!(&told, StoreError::Unreadable(why) if why.contains(newer)), "{told}");
    }
    let told = store.commit(&mut lost.lease, &[]).await.unwrap_err().to_string();
    assert!(told.contains(newer), "{told}");
    witness.agrees().await;
}

/// Damaged deltas. A row of the log without readable heads is lost.
#[tokio::test]
async fn deltas_that_cannot_be_read_harm_their_own_chat_alone() {
    let dir = Scratch::new();
    let store = open(&dir);
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let mut lost = Witness::in_a_turn(&store, 2).await;
    witness.journal(vec![attempt(), text("whole")]).await;
    lost.journal(vec![attempt(), text("broken")]).await;
    let chat = lost.chat();
    drop(store);
    drop((witness.store, lost.store));
    let raw = || Connection::open(dir.as_ref().join("everturn.db")).unwrap();
    let broken = r#"UPDATE drafts SET body = replace(body, '"broken"', '{"unheard":1}')"#;
    raw().execute_batch(broken).unwrap();
    let store = open(&dir);
    let witness = Witness { store: store.clone(), ..witness };
    witness.agrees().await;
    let told = store.since(chat, None).await.unwrap_err();
    assert!(matches!(&told, StoreError::Damaged(why) if why.contains("checksum")), "{told}");
    drop((store, witness));
    raw().execute_batch("UPDATE drafts SET body = '{}' WHERE place = 1").unwrap();
    let store = open(&dir);
    assert!(store.since(chat_id(1), None).await.is_ok(), "as if the power had failed before it was written");
    assert!(store.since(chat, None).await.is_err());
}

fn open_after(one: std::sync::Arc<Sqlite>, two: std::sync::Arc<Sqlite>, dir: &Scratch) -> std::sync::Arc<Sqlite> {
    drop((one, two));
    open(dir)
}
