//! The one thread that writes.
//!
//! Whatever is queued when it comes back from the disk goes into the next transaction, of all chats and all kinds: under
//! load a sync is shared by hundreds, and without load nobody waits for window. Nobody is answered before the
//! transaction is durable. One that fails is taken apart and tried piece by piece, so that a job that cannot be done does
//! not take the others with it.

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

/// How many chats the writer remembers.
const CACHE_LEN_MAX: usize = 16_384;
/// How many jobs in a row may fail before the rest of their batch is not even tried.
const FAILURES_MAX: usize = 4;

/// So many are answered from within their runtime. From outside, each that is woken costs a lock and perhaps a system
/// call, and whoever reads or is read to stands behind all of them.
pub(crate) const CROWD_LEN: usize = 16;

/// What a job needs of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DurabilityNeed {
    /// Nothing: it only looks, behind everything that was queued before it.
    Nothing,
    /// That it survives the process.
    Process,
    /// That it survives a power cut.
    Full,
}

/// Something to do. It may be done again after a rollback.
pub(crate) trait WriteJob: Send {
    fn needs(&self) -> DurabilityNeed;
    fn run(&mut self, tx: &mut WriteTx<'_>) -> Result<(), rusqlite::Error>;
    /// Tells whoever waits: what came of it, or why it could not be done.
    fn answer(self: Box<Self>, failed: Option<StoreError>);
}

/// A function as a job.
pub(crate) struct ClosureJob<T, E, F> {
    pub(crate) needs: DurabilityNeed,
    pub(crate) run: F,
    pub(crate) done: Option<Result<T, E>>,
    /// Goes back together with the function, so that what that holds is not taken apart here, while all others wait.
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
        let _ = self.reply.send((outcome(self.done, failed), self.run)); // Whoever asked may have gone.
    }
}

/// Rows for the journal: the job of which there are most.
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

/// What a job has said, unless it has to be done again.
fn done<T, E>(said: Result<T, TxError<E>>) -> Result<Result<T, E>, rusqlite::Error> {
    match said {
        Ok(done) => Ok(Ok(done)),
        Err(TxError::No(refusal)) => Ok(Err(refusal)),
        Err(TxError::Failed(error)) => Err(error),
    }
}

/// What whoever waits is told: what came of it, or why it could not be done.
fn outcome<T, E: From<StoreError>>(done: Option<Result<T, E>>, failed: Option<StoreError>) -> Result<T, E> {
    let unfinished = || StoreError::Unavailable("the writer did not come to it".into());
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
    /// Drafts whose rows should be merged.
    pub(crate) long: Vec<ChatId>,
    /// Where most of those live who wait for answers.
    pub(crate) runtime: Option<Handle>,
}

/// The runtime that we are in, if it runs whether or not somebody waits for it.
pub(crate) fn runtime() -> Option<Handle> {
    Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Jobs that were done. They are answered when this is dropped, by whomever: also by a runtime that takes no more tasks.
struct Answers {
    jobs: Vec<Box<dyn WriteJob>>,
    failed: Option<StoreError>,
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.jobs.drain(..).for_each(|job| job.answer(self.failed.clone()));
    }
}

/// Nobody waits for a writer that is gone.
struct CloseOnDrop<'a>(&'a Queue);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl Writer {
    /// Works until nobody can ask any more.
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
                failures = if newest.is_some() { failures + 1 } else { 0 };
            }
            job.answer(newest.clone());
        }
    }

    /// Does some jobs in one transaction, or none of them.
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
            let _ = self.syncer.try_send(()); // It has been told already.
        }
        Ok(log)
    }

    /// Makes the connection anew. What was committed before is first written back and synced: a sync that failed may have
    /// left less on the disk than the log seems to hold.
    fn reopen(&mut self) -> Result<(), rusqlite::Error> {
        self.connection = None;
        let mut connection = connect::writing(&self.file).map_err(connect::as_sqlite)?;
        let is_partial: bool = connection.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get(0))?;
        if is_partial {
            let why = "what was written before it failed cannot be written back while somebody reads".into();
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), Some(why)));
        }
        self.health.count_pages(&mut connection)?;
        self.health.needs_reopen.store(false, Ordering::Relaxed);
        self.synchronous = DurabilityNeed::Full;
        self.connection = Some(connection);
        Ok(())
    }
}
