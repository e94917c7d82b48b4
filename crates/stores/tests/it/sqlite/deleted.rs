//! What a deleted chat leaves in the file.

use std::sync::Arc;

use everturn_core::command::Delivery;
use everturn_stores::{NewChat, Store as _};
use everturn_testkit::conformance::{Witness, deleting};
use everturn_testkit::rehearsal::sample::{attempt, chat_id, send, text};
use everturn_testkit::rehearsal::{Deed, Dice};
use rusqlite::Connection;

use super::open;
use crate::scratch::Scratch;

/// No table has a row of it, the journal included, and no bytes are left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_is_left_of_a_deleted_chat() {
    let dir = Scratch::new();
    let store = open(&dir);
    store.create(&NewChat::of(chat_id(9), "agent", "owner")).await.expect("a store makes chats"); // It has one row, which stays.
    deleting::nothing_is_left_of_a_deleted_chat(store.clone()).await;
    let other = store.acquire(chat_id(2)).await.expect("the chat is there");
    store.delete(other).await.expect("the lease is ours");
    let mut lived = Witness::in_a_turn(&store, 3).await;
    for number in 0..60 {
        match lived.stage.deed(&lived.limits, &mut Dice::new(number * 7)) {
            Deed::Rest => {
                let _ = lived.submit(send("and?", Delivery::Queue)).await; // Its queue may be full.
                lived.obey_next().await;
            }
            Deed::Journal(deltas) => drop(lived.journal(deltas).await),
            Deed::Commit(facts) => drop(lived.commit(&facts).await),
        }
    }
    assert!(lived.stage.attempts.len() > 2, "something was paid");
    let Witness { lease, store: shared, .. } = lived;
    store.delete(lease).await.expect("the lease is ours");
    drop(shared);
    drop(Arc::into_inner(store).expect("no other reference is left"));
    let database = Connection::open(dir.as_ref().join("everturn.db")).expect("it can be read");
    let mut tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").expect("it has tables");
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).expect("they have names").collect::<Result<_, _>>().expect("all");
    assert!(tables.len() >= 9, "{tables:?}");
    // What was paid stays paid, and no number is used twice.
    for table in tables.iter().filter(|table| !["used", "sqlite_sequence"].contains(&table.as_str())) {
        let sql = format!("SELECT count(*) FROM {table}");
        let count: i64 = database.query_row(&sql, [], |row| row.get(0)).expect("it can be counted");
        assert_eq!(count, i64::from(table == "chats"), "{table}");
    }
}

/// A row of the journal holds what several chats said at the same moment. Deleting one of them takes its words alone:
/// what the others said is there for readers, and for the next process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_appends_of_other_chats_stay() {
    const ROUNDS: usize = 200;
    let dir = Scratch::new();
    let store = open(&dir);
    let mut gone = Witness::in_a_turn(&store, 1).await;
    let mut stays = Witness::in_a_turn(&store, 2).await;
    gone.journal(vec![attempt()]).await;
    stays.journal(vec![attempt()]).await;
    for round in 0..ROUNDS {
        let (secret, word) = (vec![text("secret")], vec![text(&format!("word {round} "))]);
        tokio::join!(gone.journal(secret), stays.journal(word));
    }
    let database = Connection::open(dir.as_ref().join("everturn.db")).expect("it can be read");
    let count = |of: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM drafts WHERE body LIKE '%{of}%'");
        database.query_row(&sql, [], |row| row.get(0)).expect("it can be counted")
    };
    assert!(count("secret%word") + count("word%secret") > 0, "some rows are of both");
    store.delete(gone.lease).await.expect("the lease is ours");
    drop(gone.store);
    assert_eq!((count("secret"), count("word") > 0), (0, true));
    stays.agrees().await;
    stays.journal(vec![text("and more")]).await;
    stays.agrees().await;
    let Witness { stage, lease, limits, calls, store: shared } = stays;
    drop((shared, lease));
    drop(Arc::into_inner(store).expect("no other reference is left"));
    let store = open(&dir);
    let lease = store.acquire(chat_id(2)).await.expect("the chat is there");
    Witness { stage, lease, limits, calls, store }.agrees().await;
}
