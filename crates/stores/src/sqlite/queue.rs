//! What waits for the writer.
//!
//! The writer takes everything at once, so that under load a turn of its loop costs one lock and not one for each job.
//! Somebody who is alone is served at once. Appends that come together, while nobody waits for anything else, are kept a
//! moment for company: a transaction writes whole pages, however few deltas are on them.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::writer::{Needs, Work};
use crate::clock;

/// How many jobs may wait before those who bring one wait too.
pub(super) const QUEUE_LEN_MAX: usize = 2_048;
/// How long appends wait for others.
pub(super) const COMPANY: Company = Company { max: Duration::from_millis(4), gap: Duration::from_micros(500) };
/// So many are company enough.
const COMPANY_LEN: usize = 512;

/// How long appends wait for others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Company {
    /// Since the last batch, at most…
    pub(super) max: Duration,
    /// …and only while somebody has come within this time.
    pub(super) gap: Duration,
}

/// Jobs on their way to the writer.
pub(super) struct Queue {
    company: Company,
    state: Mutex<State>,
    woken: Condvar,
    room: Notify,
}

#[derive(Default)]
struct State {
    jobs: Vec<Box<dyn Work>>,
    /// Whether somebody waits for more than an append.
    is_urgent: bool,
    is_closed: bool,
    writer: Doing,
}

/// What the writer waits for.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Doing {
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
        self.is_urgent || self.is_closed || self.jobs.len() >= COMPANY_LEN
    }
}

impl Queue {
    /// An empty one, where appends wait so long for company.
    pub(super) fn new(company: Company) -> Self {
        Self { company, state: Mutex::default(), woken: Condvar::new(), room: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // Every change below is made whole.
    }

    /// Puts a job in, once there is room. It comes back if nobody will do it.
    pub(super) async fn put(&self, job: Box<dyn Work>) -> Result<(), Closed> {
        let mut job = Some(job);
        loop {
            let room = self.room.notified();
            if self.try_put(&mut job)? {
                return Ok(());
            }
            room.await;
        }
    }

    fn try_put(&self, job: &mut Option<Box<dyn Work>>) -> Result<bool, Closed> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Closed);
        }
        if state.jobs.len() >= QUEUE_LEN_MAX {
            return Ok(false);
        }
        if let Some(job) = job.take() {
            state.is_urgent |= job.needs() != Needs::Process;
            state.jobs.push(job);
        }
        let wakes = match state.writer {
            Doing::Nothing => false,
            Doing::WaitingForAny => true,
            Doing::WaitingForMany => state.is_due(),
        };
        if wakes {
            state.writer = Doing::Nothing;
        }
        drop(state);
        if wakes {
            self.woken.notify_one();
        }
        Ok(true)
    }

    /// Waits for jobs and takes them all, in order. `last` is when the writer began with those before. Nothing once the
    /// queue is closed and empty.
    pub(super) fn take(&self, last: Instant) -> Option<Vec<Box<dyn Work>>> {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.is_closed {
                return None;
            }
            state.writer = Doing::WaitingForAny;
            state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        while state.jobs.len() > 1 && !state.is_due() {
            let left = self.company.max.saturating_sub(clock::now() - last);
            if left.is_zero() {
                break;
            }
            let (len, gap) = (state.jobs.len(), left.min(self.company.gap));
            state.writer = Doing::WaitingForMany;
            let waited = self.woken.wait_timeout(state, gap).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() && state.jobs.len() == len {
                break; // Nobody else is on the way.
            }
        }
        state.writer = Doing::Nothing;
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
    pub(super) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Takes no more jobs. Those that wait are done.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.woken.notify_one();
        self.room.notify_waiters();
    }

    /// As [`Queue::close`], and lets go of what waits: there is nobody left to do it.
    pub(super) fn give_up(&self) {
        self.close();
        let jobs = std::mem::take(&mut self.lock().jobs);
        drop(jobs); // Whoever waits for an answer notices.
    }
}

/// Nobody works on the queue any more.
#[derive(Debug)]
pub(super) struct Closed;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread::{JoinHandle, spawn};

    use super::*;
    use crate::sqlite::desk::Desk;
    use crate::store::StoreError;

    const HOUR: Duration = Duration::from_secs(3_600);
    const HOURS: Company = Company { max: HOUR, gap: HOUR };

    struct Idle(Needs);

    impl Work for Idle {
        fn needs(&self) -> Needs {
            self.0
        }

        fn run(&mut self, _: &mut Desk<'_>) -> Result<(), rusqlite::Error> {
            Ok(())
        }

        fn answer(self: Box<Self>, _: Option<StoreError>) {}
    }

    async fn put(queue: &Queue, needs: Needs) {
        queue.put(Box::new(Idle(needs))).await.expect("it is open");
    }

    /// A writer that has just been at work, and how many it takes next.
    fn taking(queue: &Arc<Queue>) -> JoinHandle<Option<usize>> {
        let queue = queue.clone();
        spawn(move || queue.take(clock::now()).map(|jobs| jobs.len()))
    }

    #[tokio::test]
    async fn whoever_is_alone_is_served_at_once() {
        for needs in [Needs::Nothing, Needs::Process, Needs::Full] {
            let queue = Arc::new(Queue::new(HOURS));
            let taken = taking(&queue);
            put(&queue, needs).await;
            assert_eq!(taken.join().unwrap(), Some(1));
        }
    }

    #[tokio::test]
    async fn appends_wait_for_company_until_somebody_wants_more() {
        for urgent in [Needs::Nothing, Needs::Full] {
            let queue = Arc::new(Queue::new(HOURS));
            put(&queue, Needs::Process).await;
            put(&queue, Needs::Process).await;
            let taken = taking(&queue);
            put(&queue, urgent).await;
            assert_eq!(taken.join().unwrap(), Some(3));
        }
    }

    #[tokio::test]
    async fn appends_do_not_wait_when_they_are_many_or_nobody_else_comes() {
        let queue = Arc::new(Queue::new(HOURS));
        put(&queue, Needs::Process).await;
        put(&queue, Needs::Process).await;
        let taken = taking(&queue);
        for _ in 2..COMPANY_LEN {
            put(&queue, Needs::Process).await;
        }
        assert_eq!(taken.join().unwrap(), Some(COMPANY_LEN));
        let moment = Duration::from_millis(1);
        for company in [Company { max: moment, gap: HOUR }, Company { max: HOUR, gap: moment }] {
            let queue = Queue::new(company);
            put(&queue, Needs::Process).await;
            put(&queue, Needs::Process).await;
            assert_eq!(queue.take(clock::now()).map(|jobs| jobs.len()), Some(2));
        }
    }

    #[tokio::test]
    async fn those_who_find_it_full_wait_for_room() {
        let queue = Arc::new(Queue::new(HOURS));
        let crowd: Vec<_> = (0..QUEUE_LEN_MAX + 10)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { put(&queue, Needs::Process).await })
            })
            .collect();
        while queue.len() < QUEUE_LEN_MAX {
            tokio::task::yield_now().await;
        }
        assert_eq!(taking(&queue).join().unwrap(), Some(QUEUE_LEN_MAX));
        for one in crowd {
            one.await.unwrap();
        }
        assert_eq!(queue.len(), 10);
    }

    #[tokio::test]
    async fn what_waits_is_done_before_the_end_and_nothing_comes_after_it() {
        let queue = Arc::new(Queue::new(HOURS));
        put(&queue, Needs::Process).await;
        put(&queue, Needs::Process).await;
        let taken = taking(&queue);
        queue.close();
        assert_eq!(taken.join().unwrap(), Some(2));
        assert_eq!(taking(&queue).join().unwrap(), None);
        assert!(queue.put(Box::new(Idle(Needs::Full))).await.is_err());
    }

    #[tokio::test]
    async fn nobody_waits_for_a_writer_that_is_gone() {
        let queue = Arc::new(Queue::new(HOURS));
        while queue.len() < QUEUE_LEN_MAX {
            put(&queue, Needs::Full).await;
        }
        let late = tokio::spawn({
            let queue = queue.clone();
            async move { queue.put(Box::new(Idle(Needs::Full))).await }
        });
        tokio::task::yield_now().await;
        queue.give_up();
        assert!(late.await.unwrap().is_err());
        assert_eq!(queue.len(), 0);
    }
}
