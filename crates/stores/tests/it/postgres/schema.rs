//! Bringing a database up to date.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;

use everturn_props::shared::psql;
use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{Postgres, StoreError};

use super::{database, make, open};

/// PR18: a database that a later program has changed is left alone, and both numbers are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_refused() {
    let url = database();
    drop(open(&url, PostgresOptions::default()).await);
    psql(&url, "UPDATE everturn_schema SET version = 99").expect("it can be written");
    match Postgres::open(&url, PostgresOptions::default()).await.map(drop) {
        Err(StoreError::Unreadable(why)) => assert!(why.contains("99") && why.contains("up to 10"), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// Processes that start together on an empty database do not get in each other's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_can_start_at_once() {
    let url = database();
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let url = url.clone();
        starts.spawn(async move { open(&url, PostgresOptions::default()).await });
    }
    for store in starts.join_all().await {
        make(&store, 1).await;
    }
    assert_eq!(psql(&url, "SELECT count(*) FROM everturn_schema").expect("it can be read").trim(), "1");
}

/// A database has a name of its own, which it keeps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_have_names() {
    let name = async |url: &str| open(url, PostgresOptions::default()).await.name().await.expect("it tells");
    let (one, other) = (database(), database());
    let named = name(&one).await;
    assert_eq!(name(&one).await, named);
    assert_ne!(name(&other).await, named);
    psql(&one, "DROP SCHEMA public CASCADE; CREATE SCHEMA public").expect("it can be made anew");
    assert_ne!(name(&one).await, named);
}

/// Of a deleted chat no table has a row, the journal included, which nothing ties to its chat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_is_left_of_a_deleted_chat() {
    let url = database();
    let store = open(&url, PostgresOptions::default()).await;
    everturn_testkit::conformance::deleting::nothing_is_left_of_a_deleted_chat(store.clone()).await;
    let tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'workers'";
    let tables = psql(&url, tables).expect("it can be read");
    let mut counted = 0;
    for table in
        tables.split_whitespace().filter(|table| !["asked", "everturn_schema", "tokens", "used"].contains(table))
    {
        let of = if table == "chats" { "id" } else { "chat" };
        let sql = match table {
            "drafts" | "tail" => format!("SELECT count(*) FROM {table}"),
            _ => format!("SELECT count(*) FROM {table} WHERE {of} <> (SELECT id FROM chats)"),
        };
        assert_eq!(psql(&url, &sql).expect("it can be counted").trim(), "0", "{table}");
        counted += 1;
    }
    assert!(counted >= 7, "{tables}");
}

/// A migration that was stopped anywhere has not happened, and the next start does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_was_stopped_is_done_again() {
    for polls in [1, 2, 3, 4, 6, 9] {
        let url = database();
        {
            let mut opening = pin!(Postgres::open(&url, PostgresOptions::default()));
            for _ in 0..polls {
                let once = poll_fn(|context| Poll::Ready(opening.as_mut().poll(context).is_ready()));
                if once.await {
                    break;
                }
                tokio::task::yield_now().await;
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        }
        let store = open(&url, PostgresOptions::default()).await;
        make(&store, 1).await;
    }
}
