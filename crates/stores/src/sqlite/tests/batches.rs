//! Jobs that share a transaction do not share their fate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use everturn_core::fact::Fact;
use everturn_core::ids::Version;
use everturn_core::status::Status;
use everturn_testkit::rehearsal::sample::{attempt, chat_id};
use rusqlite::ffi;

use super::{dir, open};
use crate::sqlite::Sqlite;
use crate::sqlite::error::TxError;
use crate::sqlite::writer::thread::{CROWD_LEN, DurabilityNeed};
use crate::sqlite::writer::tx::WriteTx;
use crate::store::StoreError;
use crate::witness::Witness;
use crate::{MakeError, NewChat, Store as _, StoreExt as _, WriteError};

/// CS01: a job that the database refuses in the middle, and one that panics, are answered with an error and undone. What was
/// queued between them is done, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_fails_takes_no_other_with_it() {
    let dir = dir("batch");
    let store = open(&dir);
    let ((go, gate), (enter, entered)) = (channel::<()>(), tokio::sync::oneshot::channel());
    let held = tokio::spawn({
        let (store, mut enter) = (store.clone(), Some(enter));
        let hold = move |_: &mut WriteTx<'_>| {
            enter.take().unwrap().send(()).unwrap();
            gate.recv().map_err(|_| TxError::Refused(StoreError::NoSuchChat))
        };
        async move { store.write(DurabilityNeed::Nothing, hold).await }
    });
    entered.await.unwrap(); // Whatever comes now shares the next transaction.
    let mut jobs = Vec::new();
    for number in 0..20_u128 {
        let store = store.clone();
        jobs.push(tokio::spawn(async move {
            match number {
                5 => {
                    let fails = move |tx: &mut WriteTx<'_>| {
                        tx.connection.execute("DELETE FROM chats", [])?;
                        Err::<(), TxError<StoreError>>(tx.connection.execute("nonsense", []).unwrap_err().into())
                    };
                    store.write(DurabilityNeed::Full, fails).await
                }
                11 => {
                    store
                        .write(DurabilityNeed::Full, |_| -> Result<(), TxError<StoreError>> { panic!("on purpose") })
                        .await
                }
                _ => match store.create(&NewChat::of(chat_id(number), "agent", "owner")).await {
                    Ok(_) => Ok(()),
                    Err(MakeError::Store(error)) => Err(error),
                    Err(other) => panic!("{other}"),
                },
            }
        }));
    }
    while store.queue.len() < 20 {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    held.await.unwrap().unwrap();
    for (number, job) in jobs.into_iter().enumerate() {
        let done = job.await.unwrap();
        match number {
            5 | 11 => assert!(matches!(done, Err(StoreError::Unavailable(_))), "{number}: {done:?}"),
            _ => {
                assert_eq!(done, Ok(()), "{number}");
                store.heading(chat_id(number as u128)).await.unwrap();
            }
        }
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// Callers are answered even if the runtime that the store was opened in is gone.
#[test]
fn a_crowd_is_answered_wherever_it_is() {
    let dir = dir("crowd");
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let first = runtime();
    let store = first.block_on(async { open(&dir) });
    let crowd = async || {
        let ((go, gate), (enter, entered)) = (channel::<()>(), tokio::sync::oneshot::channel());
        let mut enter = Some(enter);
        let hold = move |_: &mut WriteTx<'_>| {
            enter.take().unwrap().send(()).unwrap();
            gate.recv().map_err(|_| TxError::Refused(StoreError::NoSuchChat))
        };
        let asks =
            async |store: Arc<Sqlite>| store.write(DurabilityNeed::Full, |_| Ok::<_, TxError<StoreError>>(7)).await;
        let asked = async {
            entered.await.unwrap(); // Whatever comes now is answered together.
            let waiting: Vec<_> = (0..2 * CROWD_LEN).map(|_| tokio::spawn(asks(store.clone()))).collect();
            while store.queue.len() < waiting.len() {
                tokio::task::yield_now().await;
            }
            go.send(()).unwrap();
            for answer in waiting {
                assert_eq!(answer.await.unwrap(), Ok(7));
            }
        };
        assert_eq!(tokio::join!(store.write(DurabilityNeed::Nothing, hold), asked).0, Ok(()));
    };
    first.block_on(crowd());
    drop(first);
    runtime().block_on(crowd());
    std::fs::remove_dir_all(dir).unwrap();
}

/// After the disk has failed, nothing that the connection holds in memory is trusted: it is made anew.
#[tokio::test]
async fn a_connection_that_failed_is_not_used_again() {
    let dir = dir("anew");
    let store = open(&dir);
    let positions = |tx: &mut WriteTx<'_>| {
        let count = tx.connection.query_row("SELECT count(*) FROM temp.sqlite_schema", [], |row| row.get::<_, i64>(0));
        tx.connection.execute_batch("CREATE TEMP TABLE position (x)")?;
        Ok::<_, TxError<StoreError>>(count?)
    };
    assert_eq!(store.write(DurabilityNeed::Nothing, positions).await, Ok(0));
    for (code, told) in
        [(ffi::SQLITE_FULL, "full"), (ffi::SQLITE_IOERR_FSYNC, "fails"), (ffi::SQLITE_READONLY, "writable")]
    {
        let fails = move |_: &mut WriteTx<'_>| {
            Err::<(), TxError<StoreError>>(TxError::Failed(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)))
        };
        let failed = store.write(DurabilityNeed::Full, fails).await;
        assert!(matches!(&failed, Err(StoreError::Unavailable(why)) if why.contains(told)), "{failed:?}");
        let is_anew = store.write(DurabilityNeed::Nothing, positions).await == Ok(0);
        assert_eq!(is_anew, code != ffi::SQLITE_FULL, "{told}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// What was written before the disk failed is doubtful until all of it is written back. A reader of the state before
/// prevents that; until it is done, jobs are refused.
#[tokio::test]
async fn nothing_is_taken_while_what_is_doubtful_cannot_be_written_back() {
    let dir = dir("doubtful");
    let store = open(&dir);
    store.create(&NewChat::of(chat_id(1), "agent", "owner")).await.unwrap();
    let reader = rusqlite::Connection::open(dir.join("everturn.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM chats").unwrap();
    store.create(&NewChat::of(chat_id(2), "agent", "owner")).await.unwrap();
    store.health.needs_reopen.store(true, Ordering::Relaxed);
    let refused = store.create(&NewChat::of(chat_id(3), "agent", "owner")).await;
    assert!(
        matches!(&refused, Err(MakeError::Store(StoreError::Unavailable(why))) if why.contains("while a read is open")),
        "{refused:?}"
    );
    assert!(store.health.needs_reopen.load(Ordering::Relaxed));
    drop(reader);
    store.create(&NewChat::of(chat_id(3), "agent", "owner")).await.unwrap();
    assert!(!store.health.needs_reopen.load(Ordering::Relaxed));
    std::fs::remove_dir_all(dir).unwrap();
}

/// A change that the table does not know stops in the store's own thread. The store goes on, and the chat is as it was.
#[tokio::test]
async fn a_change_that_cannot_be_is_refused_and_the_writer_lives() {
    let dir = dir("panic");
    let store = open(&dir);
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let twice = [Status::Failed, Status::Awaiting].map(Fact::Moved);
    let refused = store.commit(&mut witness.lease, &twice).await;
    assert!(matches!(refused, Err(WriteError::Store(StoreError::Unavailable(_)))), "{refused:?}");
    witness.agrees().await;
    assert_eq!(witness.stage.chat.version, Version(1));
    witness.journal(vec![attempt()]).await;
    witness.agrees().await;
    std::fs::remove_dir_all(dir).unwrap();
}
