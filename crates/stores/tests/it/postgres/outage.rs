//! A database that goes away and comes back, or keeps us waiting.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everturn_core::ids::{MessageId, Seq, StepId, Timestamp};
use everturn_core::view::JournalRow;
use everturn_props::shared::psql;
use everturn_props::{PostgresServer, ShutdownMode, postgres_bin};
use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{
    Durability, Hint, MessageReader, Postgres, Store, StoreError, StoreExt as _, SubmitError, TokenHash, Tokens,
    WriteError,
};
use everturn_testkit::rehearsal::sample::text;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{database, make, open, submit};

/// Enough for a server to come back on a busy machine.
pub(super) const RETRY_MAX: Duration = Duration::from_secs(60);

fn patient() -> PostgresOptions {
    PostgresOptions {
        retry_max: RETRY_MAX,
        lease_max: RETRY_MAX,
        durability: Durability::Full,
        ..PostgresOptions::default()
    }
}

fn row(seq: u64) -> JournalRow {
    JournalRow { step: StepId(1), seq: Seq(seq), at: Timestamp(0), delta: Arc::new(text(&format!("{seq} "))) }
}

async fn restart(server: &Arc<PostgresServer>, how: ShutdownMode) {
    let server = server.clone();
    let restarted = tokio::task::spawn_blocking(move || {
        server.stop(how)?;
        server.start_again()
    });
    restarted.await.expect("it does not panic").expect("a server can be restarted");
}

/// Submits until it is told to stop, and says what was accepted.
async fn keep_asking(store: Arc<Postgres>, stop: tokio_stop::Flag) -> BTreeSet<u64> {
    let mut accepted = BTreeSet::new();
    let mut number = 0;
    while !stop.is_up() || accepted.len() < 20 {
        let receipt = submit(&store, super::chat_id(1), &format!("{number}"), None).await;
        assert!(accepted.insert(receipt.expect("it is accepted in the end").seq.0), "each has its own number");
        number += 1;
    }
    accepted
}

/// A flag that is raised once.
mod tokio_stop {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Clone, Default)]
    pub(super) struct Flag(Arc<AtomicBool>);

    impl Flag {
        pub(super) fn raise(&self) {
            self.0.store(true, Ordering::Relaxed);
        }

        pub(super) fn is_up(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }
}

/// I1, I4: what was acknowledged is stored, writers continue where they were, and no operator has to act.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_accepted_is_lost_when_the_server_restarts() {
    let server = Arc::new(PostgresServer::start().expect("a server can be started"));
    let url = server.url("postgres");
    let store = open(&url, patient()).await;
    let (chat, driven) = (make(&store, 1).await, make(&store, 2).await);
    let mut lease = store.acquire(driven).await.expect("the chat is free");
    let flag = tokio_stop::Flag::default();
    let asking = tokio::spawn(keep_asking(store.clone(), flag.clone()));
    let driving = tokio::spawn({
        let (store, flag) = (store.clone(), flag.clone());
        async move {
            let (mut seq, mut version) = (0, 0);
            while !flag.is_up() || version < 20 {
                seq += 1;
                store.append_and_wait(lease.append_right(), vec![row(seq)]).await.expect("it is stored in the end");
                version = store.commit(&mut lease, &[]).await.expect("it is committed in the end").0;
                assert_eq!(version, seq, "each commit once");
            }
            (lease, seq)
        }
    });
    restart(&server, ShutdownMode::Fast).await;
    restart(&server, ShutdownMode::Immediate).await;
    flag.raise();
    let accepted = asking.await.expect("it does not panic");
    let (lease, seq) = driving.await.expect("it does not panic");
    let stored = store.inbox(chat).await.expect("the chat is there");
    assert_eq!(stored.iter().map(|inbound| inbound.seq.0).collect::<BTreeSet<_>>(), accepted, "no more and no less");
    let loaded = store.load(&lease).await.expect("the lease is still ours");
    assert_eq!((loaded.chat.version.0, loaded.rows.len() as u64), (seq, seq));
    assert!(loaded.rows.iter().zip(1..).all(|(row, n)| row.seq.0 == n), "without a gap");
    let other = open(&url, patient()).await;
    let heard = async || while store.hint().await != Hint::Inbox(chat) {};
    loop {
        submit(&other, chat, "more", None).await.expect("there is room");
        if timeout(Duration::from_secs(5), heard()).await.is_ok() {
            break; // It listens again, which it may not have done before.
        }
    }
}

/// I3: if that is wanted, a draft outlives the death of the server: what was answered is there, and it goes on behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_outlives_the_server_if_that_is_wanted() {
    let server = Arc::new(PostgresServer::start().expect("a server can be started"));
    let store = open(&server.url("postgres"), patient()).await;
    let lease = store.acquire(make(&store, 1).await).await.expect("the chat is free");
    let (pen, flag) = (lease.append_right(), tokio_stop::Flag::default());
    let streaming = tokio::spawn({
        let (store, flag) = (store.clone(), flag.clone());
        async move {
            let mut seq = 0;
            while !flag.is_up() || seq < 20 {
                seq += 1; // And no commit in between, which would write the rows before it as well.
                store.append_and_wait(pen, vec![row(seq)]).await.expect("nothing before it is lost");
            }
            seq
        }
    });
    restart(&server, ShutdownMode::Immediate).await;
    flag.raise();
    let seq = streaming.await.expect("it does not panic");
    assert_eq!(store.load(&lease).await.expect("the lease is still ours").rows.len() as u64, seq);
}

/// I3: else it is on the disk a moment later, however lazy the server is, and for a database user without rights
/// beyond its own database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_is_on_the_disk_a_moment_later() {
    let server = PostgresServer::start().expect("a server can be started");
    let own = server.url("drafts").replace("postgres@", "plain@");
    for sql in
        ["ALTER SYSTEM SET wal_writer_delay = '10s'", "CREATE ROLE plain LOGIN", "CREATE DATABASE drafts OWNER plain"]
    {
        psql(&server.url("postgres"), sql).expect("it is ours");
    }
    server.stop(ShutdownMode::Fast).expect("it can be stopped");
    server.start_again().expect("it can be started again");
    let quiet = Duration::from_secs(600); // A heartbeat is synced, and all that was written before it.
    let store = open(&own, PostgresOptions { heartbeat: quiet, lease_max: quiet, ..PostgresOptions::default() }).await;
    let lease = store.acquire(make(&store, 1).await).await.expect("the chat is free");
    let (client, connection) = tokio_postgres::connect(&own, tokio_postgres::NoTls).await.expect("it is there");
    tokio::spawn(connection);
    for seq in 1..=3 {
        store.append_and_wait(lease.append_right(), vec![row(seq)]).await.expect("the lease is ours");
        let (since, sql) = (Instant::now(), "SELECT pg_current_wal_insert_lsn()::text");
        let written: String = client.query_one(sql, &[]).await.expect("it can be asked").get(0);
        let is_synced = format!("SELECT pg_current_wal_flush_lsn() >= '{written}'");
        while !client.query_one(&is_synced, &[]).await.expect("it can be asked").get::<_, bool>(0) {}
        assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    }
}

/// A database that crashed and lost the newest rows of a draft takes no rows behind the gap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_that_lost_its_end_takes_no_more() {
    let url = database();
    let store = open(&url, PostgresOptions::default()).await;
    let lease = store.acquire(make(&store, 1).await).await.expect("the chat is free");
    for seq in 1..=3 {
        store.append_and_wait(lease.append_right(), vec![row(seq)]).await.expect("the lease is ours");
    }
    psql(&url, "DELETE FROM tail WHERE batch = 3; UPDATE workers SET journalled = 2").expect("it can be written");
    assert_eq!(store.append_and_wait(lease.append_right(), vec![row(4)]).await, Err(WriteError::Fenced));
    let lease = store.acquire(lease.chat()).await.expect("it is our own");
    assert_eq!(store.load(&lease).await.expect("the lease is ours").rows.len(), 2);
    store.append_and_wait(lease.append_right(), vec![row(3)]).await.expect("it goes on from what is there");
}

/// Keeps everybody from a table.
pub(super) fn lock(url: &str, table: &str) -> Child {
    let psql = postgres_bin().expect("tests need it").join("psql");
    let lock = format!("LOCK TABLE {table}");
    let lock = ["-c", "BEGIN", "-c", &lock, "-c", r"\echo locked", "-c", "SELECT pg_sleep(600)"];
    let mut locking = Command::new(psql);
    let mut locking = locking.args(["-X", "-q"]).args(lock).arg(url).stdout(Stdio::piped()).spawn().expect("psql runs");
    let mut said = String::new();
    BufReader::new(locking.stdout.take().expect("it is piped")).read_line(&mut said).expect("psql says so");
    assert_eq!(said.trim(), "locked");
    locking
}

pub(super) fn unlock(url: &str, mut locked: Child) {
    locked.kill().expect("it can be stopped");
    locked.wait().expect("it was started here");
    let pid = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";
    psql(url, pid).expect("it can be asked");
}

/// A crowd that watches and asks, and waits for the database, keeps no driver waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_keeps_no_driver_waiting() {
    let url = database();
    let store = open(&url, PostgresOptions { connections_max: 4, ..PostgresOptions::default() }).await;
    let chat = make(&store, 1).await;
    let locked = lock(&url, "tokens");
    let mut crowd = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        crowd.spawn(async move { store.find(&TokenHash([0; 32])).await });
    }
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tokens'::regclass";
    while psql(&url, waits).expect("it can be asked").trim() == "0" {}
    let driving = async {
        let mut lease = store.acquire(chat).await?;
        store.commit(&mut lease, &[]).await?;
        Ok::<_, WriteError>(store.inbox(chat).await?.len())
    };
    tokio::select! {
        biased;
        driven = driving => assert_eq!(driven, Ok(0)),
        asked = crowd.join_next() => panic!("the driver waited for others: {asked:?}"),
    }
    unlock(&url, locked);
    assert!(crowd.join_all().await.iter().all(|asked| *asked == Ok(None)), "and the crowd is served");
}

/// A client that requests a file reads bytes, as drivers do, but not over the drivers' connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_wants_files_keeps_no_driver_waiting() {
    let url = database();
    let store =
        open(&url, PostgresOptions { connections_max: 4, retry_max: RETRY_MAX, ..PostgresOptions::default() }).await;
    let chat = make(&store, 1).await;
    let locked = lock(&url, "messages");
    let mut crowd = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        crowd.spawn(async move { store.message(chat, MessageId(1), MessageReader::Client).await });
    }
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'messages'::regclass";
    while psql(&url, waits).expect("it can be asked").trim() == "0" {}
    tokio::select! {
        biased;
        inbox = store.inbox(chat) => assert_eq!(inbox.map(|inbox| inbox.len()), Ok(0)),
        asked = crowd.join_next() => panic!("the driver waited for others: {asked:?}"),
    }
    assert_eq!(psql(&url, waits).expect("it can be asked").trim(), "1", "they have one connection of four");
    unlock(&url, locked);
    assert!(crowd.join_all().await.iter().all(|asked| *asked == Ok(None)), "and the crowd is served");
}

/// A statement that waits too long ends with an error that says so, changes nothing, and the next one works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_does_not_wait_for_ever() {
    let url = database();
    let chat = make(&*open(&url, PostgresOptions::default()).await, 1).await;
    let hurried = PostgresOptions { statement_max: Duration::from_millis(300), ..PostgresOptions::default() };
    let store = open(&url, hurried).await;
    let locked = lock(&url, "inbox");
    let slow = |error: StoreError| matches!(error, StoreError::Unavailable(why) if why.contains("took too long"));
    match submit(&store, chat, "hello", None).await {
        Err(SubmitError::Store(error)) => assert!(slow(error)),
        other => panic!("{other:?}"),
    }
    assert!(store.inbox(chat).await.is_err_and(slow));
    unlock(&url, locked);
    let receipt = submit(&store, chat, "hello", None).await.expect("nothing is in the way");
    assert_eq!(receipt.seq.0, 1, "what was refused left no trace");
}

/// I4: what the database undoes, to have an order or to end a deadlock, is done again, and has happened once in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolled_back_transaction_is_retried() {
    let undo = "CREATE SEQUENCE tries; CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('tries') <= 2 THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = TG_ARGV[0]; END IF; RETURN NEW; END $$";
    for code in ["40001", "40P01"] {
        let url = database();
        let (store, sql) =
            (open(&url, PostgresOptions::default()).await, |sql: &str| psql(&url, sql).expect("it can be done"));
        sql(undo);
        for table in ["chats", "inbox", "tail"] {
            let on = format!("BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION undo('{code}')");
            sql(&format!("CREATE TRIGGER undo {on}"));
        }
        let undone = |what: &str| {
            assert!(sql("SELECT last_value FROM tries").trim().parse::<u64>().expect("a number") > 2, "{code} {what}");
            sql("SELECT setval('tries', 1, false)");
        };
        let chat = make(&store, 1).await;
        undone("make");
        assert_eq!(submit(&store, chat, "hello", None).await.expect("it is accepted in the end").seq.0, 1);
        undone("submit");
        let mut lease = store.acquire(chat).await.expect("it is taken in the end");
        undone("acquire");
        store.append_and_wait(lease.append_right(), vec![row(1)]).await.expect("it is stored in the end");
        undone("append");
        assert_eq!(store.commit(&mut lease, &[]).await.map(|version| version.0), Ok(1), "{code}");
        undone("commit");
        let loaded = store.load(&lease).await.expect("the lease is ours");
        assert_eq!((loaded.rows, store.inbox(chat).await.expect("it is there").len()), (vec![row(1)], 1), "{code}");
    }
}

/// A database that is not there is an error that says so, in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_not_there_is_an_error() {
    let options = || PostgresOptions { retry_max: Duration::from_millis(300), ..PostgresOptions::default() };
    for url in ["postgres://postgres@127.0.0.1:1/postgres", "postgres://postgres:secret@[", "what?"] {
        match Postgres::open(url, options()).await.map(drop) {
            Err(StoreError::Unavailable(why)) => assert!(!why.contains("secret") && !why.is_empty(), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    let nowhere = database() + "_not_there";
    assert!(matches!(Postgres::open(&nowhere, options()).await.map(drop), Err(StoreError::Unavailable(_))));
}

/// A write while the database is a standby waits until it is the primary, and does not fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_waited_for() {
    let server = Arc::new(PostgresServer::start().expect("a server can be started"));
    let url = server.url("postgres");
    let store = open(&url, patient()).await;
    let (chat, driven) = (make(&store, 1).await, make(&store, 2).await);
    let mut lease = store.acquire(driven).await.expect("the chat is free");
    assert_eq!(store.ready().await, Ok(()));
    let standing_by = tokio::task::spawn_blocking({
        let server = server.clone();
        move || server.stand_by()
    });
    standing_by.await.expect("it does not panic").expect("a server can be made a standby");
    assert_eq!(store.heading(chat).await.map(|heading| heading.id), Ok(chat), "it reads");
    let row = JournalRow { step: StepId(1), seq: Seq(1), at: Timestamp(0), delta: Arc::new(text("x")) };
    let writing = async {
        let submitted = submit(&store, chat, "hello", None);
        let appended = async {
            store.append_and_wait(lease.append_right(), vec![row]).await?;
            store.commit(&mut lease, &[]).await
        };
        tokio::join!(submitted, appended)
    };
    tokio::pin!(writing);
    let turned_away = timeout(Duration::from_secs(1), &mut writing).await;
    assert!(turned_away.is_err(), "no process can write: {turned_away:?}");
    while !matches!(store.ready().await, Err(StoreError::Unavailable(why)) if why.contains("only reads")) {
        store.hint().await; // It comes by this when it says the next time that it is alive.
    }
    psql(&url, "SELECT pg_promote()").expect("a standby can be made the primary");
    let (submitted, committed) = writing.await;
    assert_eq!(submitted.expect("it is accepted in the end").seq.0, 1);
    assert_eq!(committed.expect("it is committed in the end").0, 1);
    while store.ready().await.is_err() {
        store.hint().await;
    }
}
