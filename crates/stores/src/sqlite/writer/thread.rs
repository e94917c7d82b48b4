//! The writer thread.
//!
//! Everything queued while the last transaction was written goes into the next one, whichever chat it is for: under load
//! hundreds of jobs share a sync. Jobs are answered once the transaction is durable. A transaction that fails is split
//! and its jobs are tried one by one, so that one bad job does not fail the others.

// tidy: allow(checkpoint) because SQLite calls it so: moving the write-ahead log into the database file
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use everturn_core::ids::ChatId;
use everturn_core::view::JournalRow;
use rusqlite::{Connection, ffi};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::ack::{Ack, Stored};
use crate::clock;
use crate::failpoint::failpoint;
use crate::shape::bundle::Bundle;
use crate::shape::rows::Piece;
use crate::sqlite::error::{TxError, is_lost, store_error};
use crate::sqlite::journal::open_drafts::{OpenDrafts, TxEffect};
use crate::sqlite::setup::connect;
use crate::sqlite::writer::queue::Queue;
use crate::sqlite::writer::sync::WriterHealth;
use crate::sqlite::writer::tx::{CachedChat, LogEnd, WriteTx};
use crate::store::{AppendRight, StoreError};

/// Chats in the cache at most.
const CACHE_LEN_MAX: usize = 16_384;
/// Failures in a row after which the rest of a batch is not tried.
const FAILURES_MAX: usize = 4;

/// From this many jobs on, answers are sent from a task of the runtime. From outside the runtime every wake-up costs a
/// lock and perhaps a system call, and delays reads and deltas behind it.
pub(crate) const CROWD_LEN: usize = 16;

/// Durability that a job needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DurabilityNeed {
    /// None: the job only reads, after everything queued before it.
    Nothing,
    /// Survives the process.
    Process,
    /// Survives a power cut.
    Full,
}

/// A job of the writer. It may run again after a rollback.
pub(crate) trait WriteJob: Send {
    fn needs(&self) -> DurabilityNeed;
    fn run(&mut self, tx: &mut WriteTx<'_>) -> Result<(), rusqlite::Error>;
    /// Answers the caller with the result, or with the reason why it could not run.
    fn answer(self: Box<Self>, failed: Option<StoreError>);
}

/// A function as a job.
pub(crate) struct ClosureJob<T, E, F> {
    pub(crate) needs: DurabilityNeed,
    pub(crate) run: F,
    pub(crate) done: Option<Result<T, E>>,
    /// Returns the closure with the result, so that dropping what it holds does not delay the writer.
    pub(crate) reply: oneshot::Sender<(Result<T, E>, F)>,
}

impl<T: Send, E: From<StoreError> + Send, F> WriteJob for ClosureJob<T, E, F>
where
    F: FnMut(&mut WriteTx<'_>) -> Result<T, TxError<E>> + Send,
{
    fn needs(&self) -> DurabilityNeed {
        self.needs
    }

    fn run(&mut self, tx: &mut WriteTx<'_>) -> Result<(), rusqlite::Error> {
        self.done = Some(done((self.run)(tx))?);
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        let _ = self.reply.send((outcome(self.done, failed), self.run)); // The caller may have dropped its future.
    }
}

/// Rows for the journal: the most frequent job.
pub(crate) struct AppendJob {
    pub(crate) right: AppendRight,
    pub(crate) rows: Arc<[JournalRow]>,
    pub(crate) piece: Piece,
    pub(crate) needs: DurabilityNeed,
    pub(crate) done: Option<Stored>,
    pub(crate) ack: Ack,
}

impl WriteJob for AppendJob {
    fn needs(&self) -> DurabilityNeed {
        self.needs
    }

    fn run(&mut self, tx: &mut WriteTx<'_>) -> Result<(), rusqlite::Error> {
        self.done = Some(done(tx.append(self.right, &self.rows, &self.piece))?);
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<StoreError>) {
        self.ack.tell(outcome(self.done, failed));
    }
}

/// Result of a job, or the SQLite error after which it must run again.
fn done<T, E>(said: Result<T, TxError<E>>) -> Result<Result<T, E>, rusqlite::Error> {
    match said {
        Ok(done) => Ok(Ok(done)),
        Err(TxError::Refused(refusal)) => Ok(Err(refusal)),
        Err(TxError::Failed(error)) => Err(error),
    }
}

/// The answer for the caller.
fn outcome<T, E: From<StoreError>>(done: Option<Result<T, E>>, failed: Option<StoreError>) -> Result<T, E> {
    let unfinished = || StoreError::Unavailable("the writer did not run the job".into());
    match failed {
        Some(error) => Err(error.into()),
        None => done.unwrap_or_else(|| Err(unfinished().into())),
    }
}

/// The thread's state.
pub(crate) struct Writer {
    pub(crate) file: PathBuf,
    pub(crate) connection: Option<Connection>,
    pub(crate) drafts: Arc<OpenDrafts>,
    pub(crate) health: Arc<WriterHealth>,
    pub(crate) syncer: SyncSender<()>,
    pub(crate) cache: HashMap<ChatId, CachedChat>,
    pub(crate) log: LogEnd,
    /// What the connection is set to.
    pub(crate) synchronous: DurabilityNeed,
    /// Chats with drafts to merge.
    pub(crate) long: Vec<ChatId>,
    /// Runtime of most callers.
    pub(crate) runtime: Option<Handle>,
}

/// The current runtime, if it runs tasks by itself.
pub(crate) fn runtime() -> Option<Handle> {
    Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Jobs that ran. Answered on drop, so that a runtime that shuts down answers them too.
struct Answers {
    jobs: Vec<Box<dyn WriteJob>>,
    failed: Option<StoreError>,
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.jobs.drain(..).for_each(|job| job.answer(self.failed.clone()));
    }
}

/// Closes the queue when the writer ends, so that no caller waits for it.
struct CloseOnDrop<'a>(&'a Queue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl Writer {
    /// Runs until the queue is closed and empty.
    pub(crate) fn run(mut self, queue: &Queue) {
        let _last = CloseOnDrop(queue);
        let mut begun = clock::now();
        while let Some(batch) = queue.take(begun) {
            begun = clock::now();
            let jobs = batch.len();
            self.serve(batch);
            if self.cache.len() > CACHE_LEN_MAX {
                self.cache.clear();
            }
            self.tidy(jobs, || queue.len() == 0);
        }
    }

    fn serve(&mut self, mut batch: Vec<Box<dyn WriteJob>>) {
        let failed = self.together(&mut batch).err();
        if failed.is_none() || batch.len() == 1 {
            let answers = Answers { jobs: batch, failed };
            if let Some(runtime) = self.runtime.as_ref().filter(|_| answers.jobs.len() >= CROWD_LEN) {
                runtime.spawn(async move { drop(answers) });
            }
            return;
        }
        let (mut failures, mut newest) = (0, None);
        for mut job in batch {
            if failures < FAILURES_MAX {
                newest = self.together(std::slice::from_mut(&mut job)).err();
                failures = match newest {
                    Some(StoreError::Damaged(_)) => failures, // Of one chat: the next may be whole.
                    Some(_) => failures + 1,
                    None => 0,
                };
            }
            job.answer(newest.clone());
        }
    }

    /// Runs jobs in one transaction: all or none.
    fn together(&mut self, jobs: &mut [Box<dyn WriteJob>]) -> Result<(), StoreError> {
        let needs = jobs.iter().map(|job| job.needs()).max().unwrap_or(DurabilityNeed::Nothing);
        self.transact(needs, |tx| jobs.iter_mut().try_for_each(|job| job.run(tx)))
    }

    /// Runs `work` in a transaction. If it fails, nothing has happened.
    pub(crate) fn transact(
        &mut self,
        needs: DurabilityNeed,
        work: impl FnOnce(&mut WriteTx<'_>) -> Result<(), rusqlite::Error>,
    ) -> Result<(), StoreError> {
        let mut effects = Vec::new();
        let done = catch_unwind(AssertUnwindSafe(|| self.try_transact(needs, work, &mut effects)));
        let failed = match done {
            Ok(Ok(log)) => {
                self.log = log;
                self.drafts.apply(effects.into_iter(), &mut self.long);
                return Ok(());
            }
            Ok(Err(error)) => {
                if is_lost(&error) {
                    self.health.needs_reopen.store(true, Ordering::Relaxed);
                }
                store_error(&error)
            }
            Err(_) => StoreError::Unavailable("the writer panicked; see the log".into()),
        };
        self.cache.clear();
        self.health.wrote(None);
        let rolled_back = self.connection.as_ref().map(|connection| match connection.is_autocommit() {
            true => Ok(()),
            false => connection.execute_batch("ROLLBACK"),
        });
        if !matches!(rolled_back, Some(Ok(()))) || self.health.needs_reopen.load(Ordering::Relaxed) {
            self.connection = None;
        }
        Err(failed)
    }

    fn try_transact(
        &mut self,
        needs: DurabilityNeed,
        work: impl FnOnce(&mut WriteTx<'_>) -> Result<(), rusqlite::Error>,
        effects: &mut Vec<TxEffect>,
    ) -> Result<LogEnd, rusqlite::Error> {
        if self.connection.is_none() || self.health.needs_reopen.load(Ordering::Relaxed) {
            self.reopen()?;
        }
        let connection = self.connection.as_ref().ok_or(rusqlite::Error::InvalidQuery)?;
        if needs > DurabilityNeed::Nothing {
            if self.synchronous != needs {
                connection.pragma_update(
                    None,
                    "synchronous",
                    if needs == DurabilityNeed::Full { "FULL" } else { "NORMAL" },
                )?;
                self.synchronous = needs;
            }
            failpoint!("sqlite-begin");
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        }
        let mut tx = WriteTx {
            connection,
            drafts: &self.drafts,
            cache: &mut self.cache,
            effects,
            log: self.log,
            bundle: Bundle::default(),
        };
        work(&mut tx)?;
        tx.flush()?;
        let log = tx.log;
        if needs > DurabilityNeed::Nothing {
            failpoint!("sqlite-commit");
            connection.prepare_cached("COMMIT")?.execute([])?;
            failpoint!("sqlite-committed");
            self.health.wrote(Some(clock::now()));
            self.health.is_unsynced.store(needs == DurabilityNeed::Process, Ordering::Release);
            let _ = self.syncer.try_send(()); // It is already notified.
        }
        Ok(log)
    }

    /// Reopens the connection. Runs a full checkpoint first: after a failed sync, less may be on the disk than the log
    /// seems to hold.
    fn reopen(&mut self) -> Result<(), rusqlite::Error> {
        self.connection = None;
        let mut connection = connect::writing(&self.file).map_err(connect::as_sqlite)?;
        let is_partial: bool = connection.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get(0))?;
        if is_partial {
            let why =
                "the disk failed, and earlier commits cannot be checkpointed while a read is open: try again".into();
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), Some(why)));
        }
        self.health.count_pages(&mut connection)?;
        self.health.needs_reopen.store(false, Ordering::Relaxed);
        self.synchronous = DurabilityNeed::Full;
        self.connection = Some(connection);
        Ok(())
    }
}
