//! What waits for the writer.
//!
//! The writer takes everything at once, so that under load a turn of its loop costs one lock and not one for each job.
//! Somebody who is alone is served at once. Appends that come together, while nobody waits for anything else, are kept a
//! moment for window: a transaction writes whole pages, however few deltas are on them.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::clock;
use crate::sqlite::writer::thread::{DurabilityNeed, WriteJob};

/// How many jobs may wait before those who bring one wait too.
pub(crate) const QUEUE_LEN_MAX: usize = 2_048;
/// How long appends wait for others.
pub(crate) const GROUP_COMMIT: GroupCommitWindow =
    GroupCommitWindow { max: Duration::from_millis(5), gap: Duration::from_micros(1_500) };
/// So many are window enough.
const GROUP_COMMIT_LEN: usize = 512;

/// How long appends wait for others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupCommitWindow {
    /// Since the last batch, at most…
    pub(crate) max: Duration,
    /// …and only while somebody has come within this time. Timers fire every millisecond, so it is longer than that.
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
    /// Whether somebody waits for more than an append.
    is_urgent: bool,
    is_closed: bool,
    writer: WriterState,
}

/// What the writer waits for.
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
    /// An empty one, where appends wait so long for window.
    pub(crate) fn new(window: GroupCommitWindow) -> Self {
        Self { window, state: Mutex::default(), woken: Condvar::new(), room: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // Every change below is made whole.
    }

    /// Puts a job in, once there is room. It comes back if nobody will do it.
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

    /// Waits for jobs and takes them all, in order. `last` is when the writer began with those before. Nothing once the
    /// queue is closed and empty.
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
                break; // Nobody else is on the way.
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

    /// How many jobs wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Takes no more jobs. Those that wait are done.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.woken.notify_one();
        self.room.notify_waiters();
    }

    /// As [`Queue::close`], and lets go of what waits: there is nobody left to do it.
    pub(crate) fn give_up(&self) {
        self.close();
        let jobs = std::mem::take(&mut self.lock().jobs);
        drop(jobs); // Whoever waits for an answer notices.
    }
}

/// Nobody works on the queue any more.
#[derive(Debug)]
pub(crate) struct Closed;

#[cfg(test)]
mod tests;
