//! The threads behind the writer: one syncs commits, one checkpoints the log into the database.
//!
//! No caller waits for either, so the writer does not run them. A sync does not wait for a long checkpoint either: it
//! limits how much a power cut can take.

// tidy: allow(checkpoint) because SQLite calls it so: moving the write-ahead log into the database file
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::failpoint::failpoint;
use crate::sqlite::setup::connect;

/// How old a commit may get before it survives a power cut.
const UNSYNCED_MAX: Duration = Duration::from_millis(100);
/// How long the log gets before it is written back, in pages of 4 KiB.
const PAGES_WRITTEN_BACK: u32 = 1_000;

/// How long a write that worked shows that writing works.
const PROOF_MAX: Duration = Duration::from_secs(5);

/// State shared between the threads, and for health checks.
#[derive(Debug, Default)]
pub(crate) struct WriterHealth {
    /// A commit is not synced yet.
    pub(crate) is_unsynced: AtomicBool,
    /// The disk failed, so the connection must be reopened.
    pub(crate) needs_reopen: AtomicBool,
    /// How long the log is.
    pub(crate) pages: Arc<AtomicU32>,
    /// Time of the last write, if none has failed since.
    written: Mutex<Option<Instant>>,
}

impl WriterHealth {
    /// Notes a write, or `None` for a failure.
    pub(crate) fn wrote(&self, written: Option<Instant>) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = written;
    }

    /// Whether a recent write succeeded.
    pub(crate) fn has_written(&self, now: Instant) -> bool {
        let written = *self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = written.is_some_and(|written| now.saturating_duration_since(written) < PROOF_MAX);
        is_fresh && !self.needs_reopen.load(Ordering::Relaxed)
    }

    /// Whether the log should be written back.
    fn is_long(&self) -> bool {
        self.pages.load(Ordering::Relaxed) >= PAGES_WRITTEN_BACK
    }

    /// Counts the pages of the log that `connection` writes.
    pub(crate) fn count_pages(&self, connection: &mut Connection) -> Result<(), rusqlite::Error> {
        let pages = self.pages.clone();
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, len| {
            pages.store(u32::try_from(len).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))
    }
}

/// Syncs.
pub(crate) struct Syncer {
    pub(crate) file: PathBuf,
    pub(crate) health: Arc<WriterHealth>,
    /// Something was committed.
    pub(crate) woken: Receiver<()>,
    /// Nothing is ever sent: it closes when the store does.
    pub(crate) stop: Receiver<()>,
    /// The log has become long.
    pub(crate) keeper: SyncSender<()>,
}

impl Syncer {
    /// Works until the writer is gone.
    pub(crate) fn run(self) {
        while self.woken.recv().is_ok() {
            if self.stop.recv_timeout(UNSYNCED_MAX) != Err(RecvTimeoutError::Timeout) {
                return; // The next process reads the log.
            }
            if self.health.is_unsynced.swap(false, Ordering::AcqRel) && sync(&self.file).is_err() {
                self.health.needs_reopen.store(true, Ordering::Relaxed);
            }
            if self.health.is_long() {
                let _ = self.keeper.try_send(()); // It is already notified.
            }
        }
    }
}

/// Writes the log back.
pub(crate) struct Checkpointer {
    pub(crate) file: PathBuf,
    pub(crate) health: Arc<WriterHealth>,
    /// The log has become long.
    pub(crate) woken: Receiver<()>,
}

impl Checkpointer {
    /// Works until the other one is gone.
    pub(crate) fn run(self) {
        let mut connection = None;
        while self.woken.recv().is_ok() {
            if self.health.is_long() && self.write_back(&mut connection).is_err() {
                connection = None; // The writer meets the same error, and reports it.
            }
        }
    }

    fn write_back(&self, connection: &mut Option<Connection>) -> Result<(), rusqlite::Error> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(connect::writing(&self.file).map_err(connect::as_sqlite)?),
        };
        failpoint!("sqlite-write-back");
        connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    }
}

fn sync(file: &Path) -> std::io::Result<()> {
    match File::open(connect::log_of(file)) {
        Ok(log) => log.sync_data(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()), // Written back whole.
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    /// A successful write counts for a while, so that frequent health checks do not write often.
    #[test]
    fn a_write_shows_for_a_while_that_writing_works() {
        let (health, now) = (WriterHealth::default(), clock::now());
        assert!(!health.has_written(now), "nothing was");
        health.wrote(Some(now));
        assert!(health.has_written(now + PROOF_MAX - Duration::from_millis(1)));
        assert!(!health.has_written(now + PROOF_MAX), "that was long ago");
        health.needs_reopen.store(true, Ordering::Relaxed);
        assert!(!health.has_written(now), "what was written may be lost");
        health.needs_reopen.store(false, Ordering::Relaxed);
        health.wrote(None);
        assert!(!health.has_written(now), "it has failed since");
    }
}
