//! Detects blocked worker threads of the runtime.
//!
//! A task that computes for long, or blocks, delays all tasks queued on its thread, and no task could be
//! relied on to notice. So a separate thread checks every worker at intervals.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeMetrics};

/// Interval of the checks. A worker without progress from one check to the next is logged.
const EVERY: Duration = Duration::from_secs(5);

/// The monitor; dropping it stops it.
pub struct StallMonitor {
    _stays: Sender<()>,
}

impl StallMonitor {
    /// Starts a monitor of the current runtime.
    pub fn of_this_runtime() -> Self {
        let mut looks = Looks::new(Handle::current().metrics());
        let (stays, is_over) = mpsc::channel();
        let watching = move || {
            while let Err(RecvTimeoutError::Timeout) = is_over.recv_timeout(EVERY) {
                looks.again().into_iter().for_each(WorkerChange::log);
            }
        };
        if let Err(error) = thread::Builder::new().name("stall-monitor".into()).spawn(watching) {
            tracing::warn!(%error, "stall monitor could not be started: blocked worker threads will not be logged");
        }
        Self { _stays: stays }
    }
}

/// A change in the state of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerChange {
    /// The worker is blocked.
    Stuck(usize),
    /// The worker makes progress again, after about this time.
    Free(usize, Duration),
}

impl WorkerChange {
    fn log(self) {
        match self {
            Self::Stuck(worker) => {
                tracing::warn!(worker, "runtime worker thread blocked for 5 s or more: chats on it are delayed");
            }
            Self::Free(worker, stuck) => tracing::info!(worker, ?stuck, "runtime worker thread makes progress again"),
        }
    }
}

/// The last observation of each worker.
struct Looks {
    runtime: RuntimeMetrics,
    workers: Vec<Look>,
}

#[derive(Clone, Copy)]
struct Look {
    /// Values that change with progress: the number of parks and unparks, and the busy time.
    mark: (u64, Duration),
    /// Number of checks without progress.
    stuck: u32,
}

impl Looks {
    fn new(runtime: RuntimeMetrics) -> Self {
        let workers =
            (0..runtime.num_workers()).map(|worker| Look { mark: mark(&runtime, worker), stuck: 0 }).collect();
        Self { runtime, workers }
    }

    /// Checks every worker, and returns the changes since the last check.
    fn again(&mut self) -> Vec<WorkerChange> {
        let mut all = Vec::new();
        for (worker, look) in self.workers.iter_mut().enumerate() {
            let mark = mark(&self.runtime, worker);
            let rests = !mark.0.is_multiple_of(2);
            if rests || mark != look.mark {
                if look.stuck > 0 {
                    all.push(WorkerChange::Free(worker, EVERY * look.stuck));
                }
                *look = Look { mark, stuck: 0 };
            } else {
                look.stuck += 1;
                if look.stuck == 1 {
                    all.push(WorkerChange::Stuck(worker));
                }
            }
        }
        all
    }
}

fn mark(runtime: &RuntimeMetrics, worker: usize) -> (u64, Duration) {
    (runtime.worker_park_unpark_count(worker), runtime.worker_total_busy_duration(worker))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A blocked worker is reported once, and so is its end; an idle worker is not.
    #[test]
    fn a_blocked_worker_is_reported() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let until_it_rests = || {
            while runtime.metrics().worker_park_unpark_count(0).is_multiple_of(2) {
                thread::yield_now();
            }
        };
        until_it_rests();
        let mut looks = Looks::new(runtime.metrics());
        assert_eq!((looks.again(), looks.again()), (vec![], vec![]));
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let task = runtime.spawn(async move {
            begun.send(()).unwrap();
            let _ = released.recv(); // Blocks the worker, as no task should.
        });
        has_begun.recv().unwrap();
        assert_eq!(looks.again(), [], "it has made progress since");
        assert_eq!(looks.again(), [WorkerChange::Stuck(0)]);
        assert_eq!(looks.again(), [], "it is reported once");
        drop(release);
        runtime.block_on(task).unwrap();
        until_it_rests();
        assert_eq!(looks.again(), [WorkerChange::Free(0, EVERY * 2)]);
        assert_eq!(looks.again(), []);
    }
}
