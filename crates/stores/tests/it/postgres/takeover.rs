//! Two processes on one database: leases, takeovers and hints.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::delta::Delta;
use everturn_core::ids::{ChatId, Seq, StepId, Timestamp};
use everturn_core::message::{File, Meta};
use everturn_core::view::JournalRow;
use everturn_props::shared::psql;
use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{Hint, Lease, Postgres, Store, StoreError, StoreExt as _, Unsettled, WriteError};
use everturn_testkit::conformance::Witness;
use everturn_testkit::rehearsal::sample::attempt;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{database, hasty, make, open, submit};

/// Far more than any of this takes.
const LONG: Duration = Duration::from_secs(60);

fn rows(step: u64, seqs: std::ops::RangeInclusive<u64>) -> Vec<JournalRow> {
    let row = |seq| JournalRow { step: StepId(step), seq: Seq(seq), at: Timestamp(0), delta: Arc::new(attempt()) };
    seqs.map(row).collect()
}

/// Asks until the chat can be taken.
async fn take(store: &Postgres, chat: ChatId) -> Lease {
    let taken = async {
        loop {
            match store.acquire(chat).await {
                Ok(lease) => return lease,
                Err(WriteError::Fenced | WriteError::Store(StoreError::Unavailable(_))) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    timeout(LONG, taken).await.expect("it can be taken in the end")
}

/// All that is to be found is a chat that was told something.
fn commanded(chat: ChatId) -> Result<Vec<Unsettled>, StoreError> {
    Ok(vec![Unsettled { chat, has_commands: true }])
}

async fn hears(store: &Postgres, wanted: Hint) {
    let heard = async { while store.hint().await != wanted {} };
    timeout(LONG, heard).await.unwrap_or_else(|_| panic!("no hint {wanted:?}"));
}

/// Everything that is stored, as one text.
fn everything(url: &str) -> String {
    let of = |table: &str| psql(url, &format!("SELECT t FROM {table} t ORDER BY t::text")).expect("it can be read");
    ["chats", "inbox", "messages", "spoken", "drafts", "tail", "attempts", "calls", "blobs", "used"].map(of).concat()
}

/// CS16, CS17: a chat stays with a living holder; released, it is free at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_is_free_when_it_was_given_back_and_not_before() {
    let url = database();
    let (one, two) = (open(&url, PostgresOptions::default()).await, open(&url, PostgresOptions::default()).await);
    hears(&two, Hint::Missed).await; // It listens. As long as this waits, nothing else is told.
    let chat = make(&one, 1).await;
    submit(&two, chat, "hello", None).await.expect("anybody may ask");
    assert_eq!(two.unsettled().await, commanded(chat), "it is free");
    let lease = one.acquire(chat).await.expect("the chat is free");
    assert_eq!(two.acquire(chat).await.map(drop), Err(WriteError::Fenced));
    assert_eq!(two.unsettled().await, Ok(vec![]), "it is in good hands");
    assert_eq!(one.unsettled().await, commanded(chat), "its own are always its own");
    let lease_again = one.acquire(chat).await.expect("it is its own");
    assert_eq!(one.load(&lease).await.map(drop), Err(WriteError::Fenced));
    one.release(lease).await.expect("an old lease has nothing to give back");
    assert_eq!(two.acquire(chat).await.map(drop), Err(WriteError::Fenced));
    one.release(lease_again).await.expect("it can be given back");
    hears(&two, Hint::Inbox(chat)).await;
    assert_eq!(two.unsettled().await, commanded(chat));
    two.acquire(chat).await.expect("it was given back");
}

/// A process that leaves gives everything back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_leaves_nothing_held() {
    let url = database();
    let (one, two) = (open(&url, PostgresOptions::default()).await, open(&url, PostgresOptions::default()).await);
    let chat = make(&one, 1).await;
    one.acquire(chat).await.expect("the chat is free");
    assert_eq!(two.acquire(chat).await.map(drop), Err(WriteError::Fenced));
    hears(&two, Hint::Missed).await; // It listens.
    drop(one);
    two.acquire(chat).await.expect("its holder has left");
    hears(&two, Hint::Missed).await; // And was told to look for work.
}

/// I6, CS08: a process that stands still lets go before another can take its chats, writes nothing once they did, and
/// comes back by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_process_lets_go_before_it_is_given_up() {
    let url = database();
    let (one, two) = (open(&url, hasty()).await, open(&url, hasty()).await);
    let (chat, other) = (make(&one, 1).await, make(&one, 2).await);
    let mut lease = one.acquire(chat).await.expect("the chat is free");
    one.append_and_wait(lease.append_right(), rows(1, 1..=3)).await.expect("the lease is ours");
    assert!(one.holds(&lease));
    one.pause_heartbeat(true);
    tokio::select! {
        biased;
        () = hears(&one, Hint::Lost) => {}
        _ = take(&two, chat) => panic!("it was taken before its holder let go"),
    }
    assert!(!one.holds(&lease), "it starts nothing any more");
    let before = everything(&url);
    let shut_out = async |lease: &mut Lease| {
        assert_eq!(one.load(lease).await.map(drop), Err(WriteError::Fenced));
        assert_eq!(one.append_and_wait(lease.append_right(), rows(1, 4..=4)).await, Err(WriteError::Fenced));
        assert_eq!(one.append_and_wait(lease.append_right(), Vec::new()).await, Err(WriteError::Fenced));
        assert_eq!(one.commit(lease, &[]).await, Err(WriteError::Fenced));
    };
    assert!(matches!(one.ready().await, Err(StoreError::Unavailable(_))), "others should be asked now");
    shut_out(&mut lease).await;
    assert_eq!(everything(&url), before, "it has let go though no other process took it");
    let mut taken = take(&two, chat).await;
    let before = everything(&url);
    shut_out(&mut lease).await;
    one.pause_heartbeat(false);
    let _lease = take(&one, other).await;
    shut_out(&mut lease).await;
    assert_eq!(one.acquire(chat).await.map(drop), Err(WriteError::Fenced), "it is another's now");
    let loaded = two.load(&taken).await.expect("the lease is ours");
    assert_eq!(loaded.rows, rows(1, 1..=3));
    assert_ne!(everything(&url), before, "the other chat was taken");
    two.append_and_wait(taken.append_right(), rows(1, 4..=5)).await.expect("the journal goes on");
    two.commit(&mut taken, &[]).await.expect("the lease is ours");
}

/// A process that finds another one silent for too long notifies all processes to look for its chats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chats_of_a_silent_process_are_looked_for() {
    let url = database();
    let (one, two, three) = (open(&url, hasty()).await, open(&url, hasty()).await, open(&url, hasty()).await);
    let chat = make(&one, 1).await;
    submit(&two, chat, "hello", None).await.expect("an empty chat takes a message");
    one.acquire(chat).await.expect("the chat is free");
    for other in [&two, &three] {
        hears(other, Hint::Missed).await; // It listens.
    }
    one.pause_heartbeat(true);
    for other in [&two, &three] {
        while other.unsettled().await != commanded(chat) {
            hears(other, Hint::Missed).await; // One more for another reason does no harm.
        }
    }
}

/// A process that was taken for dead hears so at its next heartbeat, holds nothing, and goes on under a new number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_given_up_holds_nothing() {
    let url = database();
    let one = open(&url, hasty()).await;
    let chat = make(&one, 1).await;
    let mut lease = one.acquire(chat).await.expect("the chat is free");
    psql(&url, "DELETE FROM workers").expect("it can be written");
    assert_eq!(
        one.append_and_wait(lease.append_right(), rows(1, 1..=1)).await,
        Err(WriteError::Fenced),
        "also before it has heard"
    );
    hears(&one, Hint::Lost).await;
    assert_eq!(one.commit(&mut lease, &[]).await, Err(WriteError::Fenced));
    let mut lease = take(&one, chat).await;
    one.commit(&mut lease, &[]).await.expect("it is known again");
    assert!(one.holds(&lease));
}

/// Ends the session that a process listens in, which holds its lock, as its death would.
fn end_sessions(url: &str) {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON pg_database.oid = database
        WHERE locktype = 'advisory' AND datname = current_database()";
    psql(url, sql).expect("it can be ended");
}

/// The workers that the database believes to be connected, and their locks.
async fn until_locked(url: &str, count: usize) -> Vec<String> {
    let sql = "SELECT id, session_lock FROM workers WHERE session_lock IS NOT NULL
        AND NOT pg_try_advisory_xact_lock_shared(session_lock) ORDER BY id";
    let locked = async {
        loop {
            let locked = psql(url, sql).expect("it can be read");
            if locked.lines().count() == count {
                return locked.lines().map(Into::into).collect();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, locked).await.expect("each of them takes a lock")
}

/// I7: the database closes the session of a process that was killed, and others take its chats without waiting for its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_session_ended_is_given_up_before_its_lease() {
    let url = database();
    let (one, two) = (open(&url, PostgresOptions::default()).await, open(&url, PostgresOptions::default()).await);
    let chat = make(&one, 1).await;
    submit(&one, chat, "hello", None).await.expect("an empty chat takes a message");
    one.acquire(chat).await.expect("the chat is free");
    until_locked(&url, 2).await;
    let before = psql(&url, "SELECT clock_timestamp()").expect("it can be read");
    one.pause_heartbeat(true); // It cannot say that it lives.
    end_sessions(&url);
    take(&two, chat).await;
    let sql = format!("SELECT clock_timestamp() < timestamptz '{}' + interval '12 seconds'", before.trim());
    assert_eq!(psql(&url, &sql).expect("it can be read").trim(), "t", "it waited for the lease, which lasts 15 s");
}

/// A process that lives and loses its session says so, has a new one, and keeps its chats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_lost_its_session_keeps_its_chats() {
    let url = database();
    let (one, _two) = (open(&url, PostgresOptions::default()).await, open(&url, PostgresOptions::default()).await);
    let mut lease = one.acquire(make(&one, 1).await).await.expect("the chat is free");
    let worker = |locked: &str| locked.split('|').next().map(ToOwned::to_owned);
    let mut before = until_locked(&url, 2).await;
    for _ in 0..4 {
        end_sessions(&url);
        let mut after = before.clone();
        while after.iter().any(|locked| before.contains(locked)) {
            after = until_locked(&url, 2).await;
        }
        let workers = |all: &[String]| all.iter().map(|locked| worker(locked)).collect::<Vec<_>>();
        assert_eq!(workers(&before), workers(&after), "they are still the same");
        before = after;
        one.commit(&mut lease, &[]).await.expect("the lease is ours");
    }
}

/// I7: a process that is started again under its name knows that the one before is dead. Another name says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_process_takes_its_chats_at_once() {
    let url = database();
    let named = |name: &str| PostgresOptions { instance: Some(name.into()), ..PostgresOptions::default() };
    let one = open(&url, named("a\0")).await;
    let chat = make(&one, 1).await;
    let mut lease = one.acquire(chat).await.expect("the chat is free");
    let other = open(&url, named("b")).await;
    assert_eq!(other.acquire(chat).await.map(drop), Err(WriteError::Fenced));
    let again = open(&url, named("a\0")).await;
    let mut taken = again.acquire(chat).await.expect("its predecessor is dead");
    assert_eq!(one.commit(&mut lease, &[]).await, Err(WriteError::Fenced), "if it should not be, the fence holds");
    again.commit(&mut taken, &[]).await.expect("the lease is ours");
}

/// I6: the bytes of a delta are stored only with it. A process with a row that was removed without its knowledge changes no
/// row: neither before its chat is taken, nor afterwards, nor after the chat is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_given_up_stores_no_bytes() {
    let file = File { name: "a".into(), media_type: "a/b".into(), bytes: Some([7; 99].into()), meta: Meta::new() };
    let delta = Arc::new(Delta::File(Box::new(file)));
    let row = |seq| JournalRow { step: StepId(1), seq: Seq(seq), at: Timestamp(0), delta: delta.clone() };
    for what in ["left alone", "taken over", "deleted"] {
        let url = database();
        let (one, two) = (open(&url, PostgresOptions::default()).await, open(&url, PostgresOptions::default()).await);
        let chat = make(&one, 1).await;
        let lease = one.acquire(chat).await.expect("the chat is free");
        psql(&url, "DELETE FROM workers USING chats WHERE workers.id = worker").expect("it can be written");
        if what != "left alone" {
            let taken = two.acquire(chat).await.expect("its holder is given up");
            match what {
                "deleted" => two.delete(taken).await.expect("the lease is ours"),
                _ => two.append_and_wait(taken.append_right(), rows(1, 1..=1)).await.expect("the lease is ours"),
            }
        }
        let before = everything(&url);
        assert_eq!(one.append_and_wait(lease.append_right(), vec![row(1)]).await, Err(WriteError::Fenced), "{what}");
        assert_eq!(everything(&url), before, "{what}");
    }
    let url = database();
    let one = open(&url, PostgresOptions::default()).await;
    let lease = one.acquire(make(&one, 1).await).await.expect("the chat is free");
    one.append_and_wait(lease.append_right(), vec![row(1)]).await.expect("the lease is ours");
    assert_eq!(psql(&url, "SELECT sum(octet_length(bytes)) FROM blobs").expect("it can be read").trim(), "99");
}

/// I6: the fence is checked by the database, not by what a process remembers: of a chat in a turn it remembers everything,
/// and of one at rest nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_that_was_raised_elsewhere_shuts_out() {
    for what in ["commit", "commit in a turn", "load"] {
        let url = database();
        let one = open(&url, PostgresOptions::default()).await;
        let mut lease = match what {
            "commit in a turn" => Witness::in_a_turn(&one, 1).await.lease,
            _ => one.acquire(make(&one, 1).await).await.expect("the chat is free"),
        };
        one.commit(&mut lease, &[]).await.expect("the lease is ours");
        psql(&url, "UPDATE chats SET fence = fence + 1").expect("it can be written");
        let before = everything(&url);
        let refused = match what {
            "load" => one.load(&lease).await.map(drop),
            _ => one.commit(&mut lease, &[]).await.map(drop),
        };
        assert_eq!(refused, Err(WriteError::Fenced), "{what}");
        assert_eq!(everything(&url), before, "{what}");
    }
}

/// In one batch, the rows of a chat that is lost are refused and those of the others are stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_chat_takes_no_other_rows_with_it() {
    let url = database();
    let one = open(&url, PostgresOptions::default()).await;
    let mut leases = Vec::new();
    for number in 1..=20 {
        leases.push(one.acquire(make(&one, number).await).await.expect("the chat is free"));
    }
    let lost = one.acquire(leases[7].chat()).await.expect("it is our own").chat();
    let mut appends = JoinSet::new();
    for lease in &leases {
        let (one, pen) = (one.clone(), lease.append_right());
        appends.spawn(async move { (pen.chat, one.append_and_wait(pen, rows(1, 1..=2)).await) });
    }
    for (chat, answer) in appends.join_all().await {
        assert_eq!(answer, if chat == lost { Err(WriteError::Fenced) } else { Ok(()) });
    }
    assert_eq!(psql(&url, "SELECT sum(cardinality(nos)) FROM tail").expect("it can be read").trim(), "19");
}

/// CS04: what one process did another hears: commands, commits and drafts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_reach_the_other_process() {
    let url = database();
    let (one, two) = (open(&url, PostgresOptions::default()).await, open(&url, PostgresOptions::default()).await);
    hears(&two, Hint::Missed).await; // It listens.
    let chat = make(&one, 1).await;
    submit(&one, chat, "hello", None).await.expect("an empty chat takes a message");
    hears(&two, Hint::Inbox(chat)).await;
    let mut lease = one.acquire(chat).await.expect("the chat is free");
    one.append_and_wait(lease.append_right(), rows(1, 1..=1)).await.expect("the lease is ours");
    hears(&two, Hint::News(chat)).await;
    one.commit(&mut lease, &[]).await.expect("the lease is ours");
    hears(&two, Hint::News(chat)).await;
    hears(&one, Hint::Missed).await;
    let told = async {
        loop {
            match one.hint().await {
                Hint::Look => {} // It is told so by itself.
                hint => return hint,
            }
        }
    };
    let silence = timeout(Duration::from_millis(100), told).await;
    assert!(silence.is_err(), "a process gets no hint of its own change: {silence:?}");
}

/// CS03: the same request that comes in by two processes at once has one effect; different ones are all taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submits_of_two_processes_are_one_line() {
    const EACH: u64 = 60;
    let url = database();
    let stores = [open(&url, PostgresOptions::default()).await, open(&url, PostgresOptions::default()).await];
    let chat = make(&stores[0], 1).await;
    let mut senders = JoinSet::new();
    for store in &stores {
        for i in 0..EACH {
            let store = store.clone();
            senders.spawn(async move {
                let same = submit(&store, chat, "hello", Some("k")).await;
                let own = submit(&store, chat, &format!("{i}"), None).await;
                (same.expect("the same receipt for all").seq.0, own.expect("there is room").seq.0)
            });
        }
    }
    let seqs = senders.join_all().await;
    let same: BTreeSet<u64> = seqs.iter().map(|(same, _)| *same).collect();
    let own: BTreeSet<u64> = seqs.iter().map(|(_, own)| *own).collect();
    assert_eq!((same.len(), own.len() as u64), (1, 2 * EACH));
    let all: BTreeSet<u64> = same.union(&own).copied().collect();
    assert_eq!(all, (1..=2 * EACH + 1).collect());
}
