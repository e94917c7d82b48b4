//! Reads with futures that are held and not polled.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{Store, StoreExt as _, TokenHash, Tokens};
use tokio::time::timeout;

use super::{database, make, open};

/// Far more than any of this takes.
const LONG: Duration = Duration::from_secs(60);

/// A stream of many chats has a read of each under way, and a client that is slow to take what it is told keeps it from
/// going on with any. None of them keeps a connection meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_nobody_goes_on_with_keeps_no_connection() {
    let few =
        PostgresOptions { connections_max: 1, statement_max: Duration::from_secs(2), ..PostgresOptions::default() };
    let store = open(&database(), few).await;
    let chat = make(&store, 1).await;
    let token = TokenHash::of("nobody's");
    let mut news: Vec<_> = (0..4).map(|_| store.since(chat, None)).collect();
    let (mut heading, mut found) = (store.heading(chat), store.find(&token));
    poll_fn(|context| {
        news.iter_mut().for_each(|news| drop(Pin::new(news).poll(context)));
        drop((heading.as_mut().poll(context), found.as_mut().poll(context)));
        Poll::Ready(())
    })
    .await;
    let other = timeout(LONG, store.standing(chat)).await.expect("it is answered");
    assert!(other.is_ok(), "{other:?}");
}
