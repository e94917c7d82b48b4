//! Behind a pooler that gives every transaction to another server process, and forgets everything in between.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::ids::{Seq, StepId, Timestamp};
use everturn_core::view::JournalRow;
use everturn_props::shared::{VARIABLE, psql};
use everturn_props::{Pooler, PostgresServer};
use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{Hint, Store, StoreExt as _, Unsettled};
use everturn_testkit::conformance::{commits, inbox, journal, lease, reads, unicode};
use everturn_testkit::rehearsal::sample::attempt;
use tokio::time::timeout;

use super::{make, open, submit};

/// Far more than any of this takes.
const LONG: Duration = Duration::from_secs(60);

/// A server and a pooler before it. Where the gate runs, which brings what tests need, a pooler that is missing is an error.
fn pooled() -> Option<(PostgresServer, Pooler)> {
    if !Pooler::is_installed() {
        assert!(
            std::env::var_os(VARIABLE).is_none(),
            "pgbouncer is not installed, and the gate should have seen to it"
        );
        eprintln!("skipped: pgbouncer is not installed (apt-get install pgbouncer)");
        return None;
    }
    let server = PostgresServer::start().expect("a server can be started");
    let pooler = Pooler::start(&server).expect("a pooler can be started");
    Some((server, pooler))
}

fn database(server: &PostgresServer, name: &str) {
    psql(&server.url("postgres"), &format!("CREATE DATABASE {name}")).expect("it is new");
}

/// Statements have no name and settings no session, so a pooler changes nothing. Listening goes around it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_changes_nothing() {
    let Some((server, pooler)) = pooled() else { return };
    let store = async |name: &str| {
        database(&server, name);
        open(&pooler.url(name), PostgresOptions { listen_url: Some(server.url(name)), ..PostgresOptions::default() })
            .await
    };
    inbox::parallel_commands_have_numbers_of_their_own(store("one").await).await;
    lease::parallel_takeovers_leave_one_writer(store("two").await).await;
    commits::a_dropped_write_happened_whole_or_not_at_all(store("three").await).await;
    journal::rows_go_with_their_step(store("four").await).await;
    reads::a_catch_up_is_whole(store("five").await).await;
    unicode::odd_names_and_keys_are_told_apart(store("six").await).await;
    let (one, two) = (store("seven").await, Arc::downgrade(&store("eight").await));
    assert!(two.upgrade().is_none(), "a store that is dropped is gone");
    make(&one, 1).await;
}

/// CS04: through a pooler a process neither listens nor takes a session lock. It polls instead, and misses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_behind_a_pooler_polls() {
    let Some((server, pooler)) = pooled() else { return };
    database(&server, "deaf");
    psql(&server.url("deaf"), "ALTER DATABASE deaf SET log_statement = 'all'").expect("it can be changed");
    let url = pooler.url("deaf");
    let often = || PostgresOptions { heartbeat: Duration::from_millis(300), ..PostgresOptions::default() };
    let (one, two) = (open(&url, often()).await, open(&url, often()).await);
    let chat = make(&one, 1).await;
    submit(&one, chat, "hello", None).await.expect("an empty chat takes a message");
    let looks = async {
        loop {
            let hint = two.hint().await;
            let found = two.unsettled().await.expect("it can be asked");
            if hint == Hint::Look && found == [Unsettled { chat, has_commands: true }] {
                return;
            }
        }
    };
    timeout(LONG, looks).await.expect("it is told to look");
    let mut lease = two.acquire(chat).await.expect("the chat is free");
    let row = JournalRow { step: StepId(1), seq: Seq(1), at: Timestamp(0), delta: Arc::new(attempt()) };
    let seen = one.since(chat, None).await.expect("it is there").expect("there is a snapshot").cursor;
    two.append_and_wait(lease.append_right(), vec![row]).await.expect("the lease is ours");
    let news = one.since(chat, Some(seen)).await.expect("it is there").expect("there is a delta");
    assert_eq!((news.events.len(), news.cursor.seq), (1, Seq(1)));
    two.commit(&mut lease, &[]).await.expect("the lease is ours");
    two.release(lease).await.expect("it can be given back");
    one.acquire(chat).await.expect("it was given back");
    let said = psql(&server.url("deaf"), "SELECT pg_read_file('../log')").expect("its log can be read");
    assert!(said.contains("pg_backend_pid"), "whether sessions are shared was asked");
    assert!(!said.contains("LISTEN everturn") && !said.contains("pg_advisory_lock("), "{said}");
    let locks = "SELECT count(session_lock) FROM workers";
    assert_eq!(psql(&server.url("deaf"), locks).expect("it can be read").trim(), "0");
}
