//! Searches, which take long, beside everything else that is asked.

use std::sync::Arc;

use everturn_props::shared::psql;
use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{ChatQuery, Postgres, Store, StoreExt as _, TokenHash, Tokens};
use tokio::task::JoinSet;

use super::outage::{RETRY_MAX, lock, unlock};
use super::{database, make, open};

/// Five connections for clients, two of them for searches.
fn options() -> PostgresOptions {
    PostgresOptions {
        connections_max: 16,
        retry_max: RETRY_MAX,
        statement_max: RETRY_MAX,
        ..PostgresOptions::default()
    }
}

fn search(crowd: &mut JoinSet<usize>, store: &Arc<Postgres>) -> tokio::task::AbortHandle {
    let store = store.clone();
    let query = ChatQuery { text: "kelp".into(), ..ChatQuery::default() };
    crowd.spawn(async move { store.headings(&query).await.expect("it is found in the end").len() })
}

/// Number of searches that run in the database while the messages are locked.
fn searching(url: &str) -> usize {
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'spoken'::regclass";
    psql(url, waits).expect("it can be asked").trim().parse().expect("a number")
}

/// Many search, and it takes them for ever; everybody else is let in, told what is there and what is new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_keep_nobody_else_waiting() {
    let url = database();
    let store = open(&url, options()).await;
    let chat = make(&store, 1).await;
    let locked = lock(&url, "spoken");
    let mut crowd = JoinSet::new();
    (0..20).for_each(|_| drop(search(&mut crowd, &store)));
    while searching(&url) < 2 {}
    let asking = async {
        for _ in 0..10 {
            assert_eq!(store.find(&TokenHash([0; 32])).await, Ok(None));
            assert_eq!(store.heading(chat).await.map(|heading| heading.id), Ok(chat));
            assert!(store.since(chat, None).await.is_ok());
        }
    };
    tokio::select! {
        biased;
        () = asking => {}
        searched = crowd.join_next() => panic!("they waited for searches: {searched:?}"),
    }
    assert_eq!(searching(&url), 2);
    unlock(&url, locked);
    assert_eq!(crowd.join_all().await, [0; 20], "and every search has its turn");
}

/// The database continues a search after its client hung up, so it still counts: repeating a search makes no
/// more of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_keeps_its_place_when_nobody_waits_for_it_any_more() {
    let url = database();
    let store = open(&url, options()).await;
    let locked = lock(&url, "spoken");
    let mut crowd = JoinSet::new();
    let begun = [search(&mut crowd, &store), search(&mut crowd, &store)];
    while searching(&url) < 2 {}
    begun.iter().for_each(tokio::task::AbortHandle::abort);
    for _ in &begun {
        let gone = crowd.join_next().await.expect("it was begun");
        assert!(gone.is_err_and(|gone| gone.is_cancelled()));
    }
    search(&mut crowd, &store);
    for _ in 0..10 {
        assert_eq!(store.find(&TokenHash([0; 32])).await, Ok(None));
        assert_eq!(searching(&url), 2, "the third waits for them");
    }
    unlock(&url, locked);
    assert_eq!(crowd.join_all().await, [0], "and has its turn");
}

/// A search that gets no permit in time fails, instead of waiting for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_finds_no_place_in_time_is_turned_away() {
    let url = database();
    let store = open(&url, PostgresOptions { retry_max: std::time::Duration::from_millis(50), ..options() }).await;
    let locked = lock(&url, "spoken");
    let mut crowd = JoinSet::new();
    (0..2).for_each(|_| drop(search(&mut crowd, &store)));
    while searching(&url) < 2 {}
    let query = ChatQuery { text: "kelp".into(), ..ChatQuery::default() };
    let refused = store.headings(&query).await.expect_err("there is no place");
    assert!(refused.to_string().contains("too many searches at once"), "{refused}");
    unlock(&url, locked);
    assert_eq!(crowd.join_all().await, [0, 0]);
}
