//! Rows of a draft are found in the tail and in the filed drafts.

use std::ops::RangeInclusive;
use std::sync::Arc;

use everturn_core::change::Change;
use everturn_core::chat::TurnEnd;
use everturn_core::ids::{ChatId, Seq, StepId, Timestamp};
use everturn_core::view::{Event, JournalRow};
use everturn_props::shared::psql;
use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{Lease, Postgres, Store, StoreExt as _};
use everturn_testkit::rehearsal::sample::text;
use tokio::task::JoinSet;

use super::{database, hasty, make, open};

fn rows(seqs: RangeInclusive<u64>, words: &str) -> Vec<JournalRow> {
    let row = |seq| JournalRow { step: StepId(1), seq: Seq(seq), at: Timestamp(0), delta: Arc::new(text(words)) };
    seqs.map(row).collect()
}

/// Appends rows one after the other.
async fn append(store: &Postgres, lease: &Lease, seqs: RangeInclusive<u64>) {
    for seq in seqs {
        store.append_and_wait(lease.append_right(), rows(seq..=seq, "word ")).await.expect("the lease is ours");
    }
}

/// How many deltas a subscriber of another process finds.
async fn seen(store: &Postgres, chat: ChatId) -> usize {
    let news = store.since(chat, None).await.expect("it can be read").expect("there is a chat");
    match news.events.as_slice() {
        [Event::Reset(_)] => news.cursor.seq.0 as usize,
        other => panic!("{other:?}"),
    }
}

fn count(url: &str, sql: &str) -> u64 {
    psql(url, &format!("SELECT {sql}")).expect("it can be read").trim().parse().expect("it is a number")
}

fn in_tail(url: &str) -> u64 {
    count(url, "coalesce(sum(cardinality(nos)), 0) FROM tail")
}

fn in_drafts(url: &str) -> u64 {
    count(url, "coalesce(sum(len), 0) FROM drafts")
}

/// A draft is complete wherever its rows are: for its holder, a later holder, and subscribers of another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_is_whole_wherever_it_lies() {
    let url = database();
    let (one, two) = (
        open(&url, PostgresOptions { file_len_min: 5, ..PostgresOptions::default() }).await,
        open(&url, PostgresOptions::default()).await,
    );
    let chat = make(&one, 1).await;
    for seq in 1..=23 {
        let lease = one.acquire(chat).await.expect("no other process holds it");
        append(&one, &lease, seq..=seq).await; // It knows where the draft ends.
        assert_eq!(seen(&two, chat).await as u64, seq);
        assert_eq!(one.load(&lease).await.expect("the lease is ours").rows, rows(1..=seq, "word "));
    }
    let (tail, drafts) = (in_tail(&url), in_drafts(&url));
    assert_eq!(tail + drafts, 23);
    assert!(drafts >= 15, "{tail} of 23 are not filed, though it is to be done every five");
}

/// Appends of many chats share rows of the tail; when they are filed, each chat has one of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_chats_share_a_row() {
    let url = database();
    let one = open(&url, PostgresOptions { file_len_min: usize::MAX / 1024, ..PostgresOptions::default() }).await;
    let mut leases = Vec::new();
    for number in 1..=40 {
        leases.push(one.acquire(make(&one, number).await).await.expect("the chat is free"));
    }
    for seq in 1..=10 {
        let mut appends = JoinSet::new();
        for pen in leases.iter().map(Lease::append_right) {
            let one = one.clone();
            appends.spawn(async move { one.append_and_wait(pen, rows(seq..=seq, "word ")).await });
        }
        appends.join_all().await.into_iter().for_each(|done| done.expect("the leases are ours"));
    }
    assert_eq!((in_tail(&url), in_drafts(&url)), (400, 0));
    let len = count(&url, "count(*) FROM tail");
    assert!(len < 100, "{len} rows for ten batches of forty appends");
    let longest = count(&url, "max(octet_length(body)) FROM tail");
    assert!(longest < 2_000, "a row of {longest} bytes goes elsewhere");
    one.release(leases.pop().expect("there are many")).await.expect("it is given back");
    assert_eq!((in_tail(&url), in_drafts(&url)), (0, 400), "a new holder of one finds its rows");
    assert_eq!(count(&url, "count(*) FROM drafts"), 40);
}

/// Rows of a dead process are filed by the process that takes one of its chats, for all of its chats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_dead_process_are_filed() {
    let url = database();
    let (one, two) = (open(&url, PostgresOptions::default()).await, open(&url, PostgresOptions::default()).await);
    let mut leases = Vec::new();
    for number in 1..=3 {
        let lease = one.acquire(make(&one, number).await).await.expect("the chat is free");
        append(&one, &lease, 1..=4).await;
        leases.push(lease);
    }
    one.pause_heartbeat(true);
    psql(&url, "DELETE FROM workers WHERE id = (SELECT min(id) FROM workers)").expect("it can be written");
    let taken = two.acquire(leases[0].chat()).await.expect("its holder is dead");
    assert_eq!((in_tail(&url), in_drafts(&url)), (0, 12));
    append(&two, &taken, 5..=5).await;
    assert_eq!(two.load(&taken).await.expect("the lease is ours").rows, rows(1..=5, "word "));
    for lease in &leases[1..] {
        assert_eq!(seen(&two, lease.chat()).await, 4, "it was not taken, and every process finds it");
        let taken = two.acquire(lease.chat()).await.expect("its holder is dead");
        append(&two, &taken, 5..=5).await;
    }
}

/// If none of its chats is taken, the next process that starts files the rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_files_what_was_left_behind() {
    let url = database();
    let one = open(&url, PostgresOptions::default()).await;
    let lease = one.acquire(make(&one, 1).await).await.expect("the chat is free");
    append(&one, &lease, 1..=4).await;
    drop((lease, one));
    let two = open(&url, hasty()).await;
    while in_tail(&url) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(in_drafts(&url), 4);
    drop(two);
}

/// A step that is over is not filed, and what was filed of it goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_filed_of_a_step_that_is_over() {
    let url = database();
    let one = open(&url, PostgresOptions::default()).await;
    let mut over = one.acquire(make(&one, 1).await).await.expect("the chat is free");
    let open_still = one.acquire(make(&one, 2).await).await.expect("the chat is free");
    append(&one, &over, 1..=3).await;
    append(&one, &open_still, 1..=2).await;
    let chat = one.load(&over).await.expect("the lease is ours").chat;
    let mut change = Change::new(&chat, Timestamp(1));
    change.finish(TurnEnd::Done);
    one.commit(&mut over, &change.facts()).await.expect("the lease is ours");
    one.release(open_still).await.expect("it is given back");
    assert_eq!((in_tail(&url), in_drafts(&url)), (0, 2));
}
