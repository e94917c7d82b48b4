//! The queue of the writer, and group commit.
//!
//! The writer takes all jobs at once, so that under load a batch costs one lock. A single job runs at once. Appends that
//! arrive together, while no other job waits, are held for a moment so that more of them share a transaction: it writes
//! whole pages, however few deltas are on them.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::clock;
use crate::sqlite::writer::thread::{DurabilityNeed, WriteJob};

/// Queued jobs before callers wait for room.
pub(crate) const QUEUE_LEN_MAX: usize = 2_048;
/// How long appends wait for others.
pub(crate) const GROUP_COMMIT: GroupCommitWindow =
    GroupCommitWindow { max: Duration::from_millis(5), gap: Duration::from_micros(1_500) };
/// Start the transaction once this many appends are queued.
const GROUP_COMMIT_LEN: usize = 512;

/// How long appends wait for others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupCommitWindow {
    /// Longest wait since the last batch.
    pub(crate) max: Duration,
    /// The wait ends when no append arrived for this long. Timers fire every millisecond, so it is longer than that.
    pub(crate) gap: Duration,
}

/// Jobs on their way to the writer.
pub(crate) struct Queue {
    window: GroupCommitWindow,
    state: Mutex<State>,
    woken: Condvar,
    room: Notify,
}

#[derive(Default)]
struct State {
    jobs: Vec<Box<dyn WriteJob>>,
    /// Whether a job other than an append is queued.
    is_urgent: bool,
    is_closed: bool,
    writer: WriterState,
}

/// What the writer thread waits for.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum WriterState {
    #[default]
    Nothing,
    WaitingForAny,
    WaitingForMany,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl State {
    fn is_due(&self) -> bool {
        self.is_urgent || self.is_closed || self.jobs.len() >= GROUP_COMMIT_LEN
    }
}

impl Queue {
    /// An empty queue with this group commit window.
    pub(crate) fn new(window: GroupCommitWindow) -> Self {
        Self { window, state: Mutex::default(), woken: Condvar::new(), room: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // Every change below is made whole.
    }

    /// Queues a job, once there is room.
    pub(crate) async fn put(&self, job: Box<dyn WriteJob>) -> Result<(), Closed> {
        let mut job = Some(job);
        loop {
            let room = self.room.notified();
            if self.try_put(&mut job)? {
                return Ok(());
            }
            room.await;
        }
    }

    fn try_put(&self, job: &mut Option<Box<dyn WriteJob>>) -> Result<bool, Closed> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Closed);
        }
        if state.jobs.len() >= QUEUE_LEN_MAX {
            return Ok(false);
        }
        if let Some(job) = job.take() {
            state.is_urgent |= job.needs() != DurabilityNeed::Process;
            state.jobs.push(job);
        }
        let wakes = match state.writer {
            WriterState::Nothing => false,
            WriterState::WaitingForAny => true,
            WriterState::WaitingForMany => state.is_due(),
        };
        if wakes {
            state.writer = WriterState::Nothing;
        }
        drop(state);
        if wakes {
            self.woken.notify_one();
        }
        Ok(true)
    }

    /// Waits for jobs and takes them all, in order. `last` is when the batch before began. `None` once the queue is closed
    /// and empty.
    pub(crate) fn take(&self, last: Instant) -> Option<Vec<Box<dyn WriteJob>>> {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.is_closed {
                return None;
            }
            state.writer = WriterState::WaitingForAny;
            state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        while state.jobs.len() > 1 && !state.is_due() {
            let left = self.window.max.saturating_sub(clock::now() - last);
            if left.is_zero() {
                break;
            }
            let (len, gap) = (state.jobs.len(), left.min(self.window.gap));
            state.writer = WriterState::WaitingForMany;
            let waited = self.woken.wait_timeout(state, gap).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() && state.jobs.len() == len {
                break; // No further append arrived in time.
            }
        }
        state.writer = WriterState::Nothing;
        state.is_urgent = false;
        let was_full = state.jobs.len() >= QUEUE_LEN_MAX;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        if was_full {
            self.room.notify_waiters();
        }
        Some(jobs)
    }

    /// Number of queued jobs.
    pub(crate) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Refuses further jobs. Queued ones still run.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.woken.notify_one();
        self.room.notify_waiters();
    }

    /// Closes the queue and drops its jobs, because the writer has ended.
    pub(crate) fn give_up(&self) {
        self.close();
        let jobs = std::mem::take(&mut self.lock().jobs);
        drop(jobs); // Their callers get an error.
    }
}

/// The queue is closed.
#[derive(Debug)]
pub(crate) struct Closed;

#[cfg(test)]
mod tests;
