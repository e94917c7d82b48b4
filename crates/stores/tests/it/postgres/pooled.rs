//! Behind a pooler that gives every transaction to another server process, and forgets everything in between.

use std::sync::Arc;

use everturn_props::{Pooler, Server};
use everturn_stores::conformance::{commits, inbox, journal, lease, reads, unicode};
use everturn_stores::postgres::Options;

use super::open;

/// Statements have no name and settings no session, so a pooler changes nothing. Listening goes around it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_changes_nothing() {
    if !Pooler::is_installed() {
        eprintln!("pgbouncer is not installed: not tried");
        return;
    }
    let server = Server::start().expect("a server can be started");
    let pooler = Pooler::start(&server).expect("a pooler can be started");
    let store = async |name: &str| {
        everturn_props::shared::psql(&server.url("postgres"), &format!("CREATE DATABASE {name}")).expect("it is new");
        open(&pooler.url(name), Options { listen_url: Some(server.url(name)), ..Options::default() }).await
    };
    inbox::parallel_commands_have_numbers_of_their_own(store("one").await).await;
    lease::parallel_takeovers_leave_one_writer(store("two").await).await;
    commits::a_dropped_write_happened_whole_or_not_at_all(store("three").await).await;
    journal::rows_go_with_their_step(store("four").await).await;
    reads::a_catch_up_is_whole(store("five").await).await;
    unicode::odd_names_and_keys_are_told_apart(store("six").await).await;
    let (one, two) = (store("seven").await, Arc::downgrade(&store("eight").await));
    assert!(two.upgrade().is_none(), "a store that is dropped is gone");
    super::make(&one, 1).await;
}
