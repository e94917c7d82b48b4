//! The connection breaks while a transaction ends: its outcome is unknown, and it is applied once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use everturn_core::budget::Day;
use everturn_core::chat::StepAttempts;
use everturn_core::cost::{Spend, Tally, Usage};
use everturn_core::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord, Fact};
use everturn_core::ids::{Seq, StepId, Timestamp};
use everturn_core::view::JournalRow;
use everturn_props::shared::psql;
use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{Store, StoreExt as _};
use everturn_testkit::rehearsal::sample::text;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::{database, make, open, submit};

/// Where the line breaks when a client says that a transaction is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// On the way there: it never happens.
    Going,
    /// On the way back: it has happened.
    Coming,
    /// Nowhere, but from then on nothing is heard: as from a process that was stopped.
    Nowhere,
}

/// A line to a server that breaks at the next so many ends of transactions that write.
struct Line {
    breaks: Arc<AtomicI64>,
    url: String,
}

impl Line {
    async fn new(server: &str, place: Where) -> Self {
        let (before, database) = server.rsplit_once('/').expect("it is a URL");
        let (scheme, port) = before.rsplit_once(':').expect("it has a port");
        let port: u16 = port.parse().expect("it has a port");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are ports");
        let own = listener.local_addr().expect("it was just bound").port();
        let breaks = Arc::new(AtomicI64::new(0));
        let left = breaks.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.expect("the server is there");
                tokio::spawn(carry(client, server, left.clone(), place));
            }
        });
        Self { breaks, url: format!("{scheme}:{own}/{database}") }
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, left: Arc<AtomicI64>, place: Where) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let (mut is_breaking, mut is_writing) = (false, false);
    let says = |bytes: &[u8], words: &[u8]| bytes.windows(words.len()).any(|part| part == words);
    let ends = |bytes: &[u8]| says(bytes, b"COMMIT\0");
    loop {
        tokio::select! {
            read = client.read(&mut asked) => match read {
                Ok(len @ 1..) => {
                    is_writing = says(&asked[..len], b"READ WRITE") || is_writing && !says(&asked[..len], b"READ ONLY");
                    let breaks = is_writing && ends(&asked[..len]) && left.fetch_sub(1, Ordering::Relaxed) > 0;
                    match place {
                        Where::Going if breaks => return,
                        Where::Nowhere if breaks => std::future::pending().await,
                        Where::Going | Where::Coming | Where::Nowhere => is_breaking |= breaks,
                    }
                    if server.write_all(&asked[..len]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
            read = server.read(&mut answered) => match read {
                Ok(len @ 1..) if !is_breaking => {
                    if client.write_all(&answered[..len]).await.is_err() {
                        return;
                    }
                }
                Ok(len @ 1..) if !ends(&answered[..len]) => {}
                _ => return,
            },
        }
    }
}

/// An attempt that used ten tokens in a second.
fn attempted() -> Fact {
    let known = Usage { input: 10, ..Usage::default() };
    Fact::Attempted(
        Box::new(AttemptRecord {
            step: StepId(1),
            number: 1,
            model: "understudy/one".parse().expect("it is a name"),
            aim: AttemptPurpose::Unknown,
            began: Timestamp(0),
            took: Duration::from_secs(1),
            tally: Tally { known, ..Tally::default() },
            spend: Spend::default(),
            outcome: AttemptOutcome::Answered,
        }),
        StepAttempts::default(),
    )
}

/// I2, I4, CS01: whatever was under way when the line broke has happened once in the end, and everybody is told. What it used
/// is counted once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_with_a_lost_answer_is_applied_once() {
    for place in [Where::Going, Where::Coming] {
        for breaks in 1..=3 {
            let url = database();
            let line = Line::new(&url, place).await;
            let store =
                open(&line.url, PostgresOptions { listen_url: Some(url.clone()), ..PostgresOptions::default() }).await;
            let chat = make(&store, 1).await;
            let again = || line.breaks.store(breaks, Ordering::Relaxed);
            again();
            let receipt = submit(&store, chat, "hello", None).await.expect("it is accepted in the end");
            assert_eq!((receipt.seq.0, store.inbox(chat).await.expect("the chat is there").len()), (1, 1), "{place:?}");
            again();
            let mut lease = store.acquire(chat).await.expect("it is taken in the end");
            for version in 1..=3 {
                again();
                let committed = store.commit(&mut lease, &[attempted()]).await;
                assert_eq!(committed.map(|version| version.0), Ok(version), "{place:?}");
            }
            for seq in 1..=3 {
                again();
                let delta = Arc::new(text("word "));
                let row = JournalRow { step: StepId(1), seq: Seq(seq), at: Timestamp(0), delta };
                store.append_and_wait(lease.append_right(), vec![row]).await.expect("it is stored in the end");
            }
            let used = store.used("owner", Day(0)..=Day(0)).await.expect("it can be asked");
            assert_eq!((used.tokens, used.time.as_secs()), (30, 3), "{place:?}");
            again();
            let loaded = store.load(&lease).await.expect("the lease is ours");
            assert_eq!((loaded.chat.version.0, loaded.rows.len()), (3, 3), "{place:?}");
            assert_eq!(
                psql(&url, "SELECT sum(cardinality(nos)) FROM tail").expect("it can be read").trim(),
                "3",
                "{place:?}"
            );
        }
    }
}

/// I21: an acquisition with a lost answer grants no lease. The next one reports that no other process had the chat.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taking_that_was_not_answered_counts_for_nobody() {
    for place in [Where::Going, Where::Coming] {
        let url = database();
        let line = Line::new(&url, place).await;
        let options =
            PostgresOptions { listen_url: Some(url), retry_max: Duration::from_secs(3), ..PostgresOptions::default() };
        let store = open(&line.url, options).await;
        let chat = make(&store, 1).await;
        let mut held = store.acquire(chat).await.expect("the chat is free");
        for breaks in [1, 3, i64::MAX] {
            line.breaks.store(breaks, Ordering::Relaxed);
            let lease = match store.acquire(chat).await {
                Ok(lease) => lease,
                Err(away) => {
                    assert_eq!((breaks, away.to_string().contains("not available")), (i64::MAX, true), "{away}");
                    line.breaks.store(0, Ordering::Relaxed);
                    store.acquire(chat).await.expect("the line is whole again")
                }
            };
            assert_eq!(lease.before(), held.fence(), "{place:?} {breaks}");
            held = lease;
        }
    }
}

/// A process that stands still in the middle of a transaction loses it, and with it the locks that everybody waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_process_keeps_no_lock() {
    let url = database();
    let line = Line::new(&url, Where::Nowhere).await;
    let (statement_max, quiet) = (Duration::from_millis(500), Duration::from_secs(600));
    let stopped = PostgresOptions {
        statement_max,
        heartbeat: quiet,
        lease_max: quiet,
        listen_url: Some(url.clone()),
        ..PostgresOptions::default()
    };
    let (one, two) = (open(&line.url, stopped).await, open(&url, PostgresOptions::default()).await);
    let chat = make(&two, 1).await;
    line.breaks.store(1, Ordering::Relaxed);
    let standing = tokio::spawn(async move { submit(&one, chat, "hello", None).await });
    while line.breaks.load(Ordering::Relaxed) > 0 {
        tokio::task::yield_now().await; // It holds the chat's row by then.
    }
    submit(&two, chat, "me too", None).await.expect("no lock is held for long");
    standing.abort();
}
