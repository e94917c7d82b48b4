//! Whether the runtime's threads still get on.
//!
//! A task that computes, or waits where it must not, keeps its thread from everything that is lined up behind it, and no
//! task could be relied on to notice. So a thread of its own looks at each of them now and then.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeMetrics};

/// How often it looks. A thread that has not got on from one look to the next is told of.
const EVERY: Duration = Duration::from_secs(5);

/// Watches until it is dropped.
pub struct Lookout {
    _stays: Sender<()>,
}

impl Lookout {
    /// One for this runtime.
    pub fn of_this_runtime() -> Self {
        let mut looks = Looks::new(Handle::current().metrics());
        let (stays, is_over) = mpsc::channel();
        let watching = move || {
            while let Err(RecvTimeoutError::Timeout) = is_over.recv_timeout(EVERY) {
                looks.again().into_iter().for_each(Told::log);
            }
        };
        if let Err(error) = thread::Builder::new().name("lookout".into()).spawn(watching) {
            tracing::warn!(%error, "nobody watches whether the threads of this process get on");
        }
        Self { _stays: stays }
    }
}

/// What there is to tell about a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It does not get on.
    Stuck(usize),
    /// It does again, after about so long.
    Free(usize, Duration),
}

impl Told {
    fn log(self) {
        match self {
            Self::Stuck(worker) => {
                tracing::warn!(worker, "a thread has not got on for seconds: chats may have to wait for it");
            }
            Self::Free(worker, stuck) => tracing::info!(worker, ?stuck, "a thread gets on again"),
        }
    }
}

/// What was seen of each thread.
struct Looks {
    runtime: RuntimeMetrics,
    workers: Vec<Look>,
}

#[derive(Clone, Copy)]
struct Look {
    /// Whatever changes when the thread gets on: how often it began or ceased to rest, and how long it has worked.
    mark: (u64, Duration),
    /// For how many looks it has not.
    stuck: u32,
}

impl Looks {
    fn new(runtime: RuntimeMetrics) -> Self {
        let workers =
            (0..runtime.num_workers()).map(|worker| Look { mark: mark(&runtime, worker), stuck: 0 }).collect();
        Self { runtime, workers }
    }

    /// What has come of each thread since the last look.
    fn again(&mut self) -> Vec<Told> {
        let mut all = Vec::new();
        for (worker, look) in self.workers.iter_mut().enumerate() {
            let mark = mark(&self.runtime, worker);
            let rests = !mark.0.is_multiple_of(2);
            if rests || mark != look.mark {
                if look.stuck > 0 {
                    all.push(Told::Free(worker, EVERY * look.stuck));
                }
                *look = Look { mark, stuck: 0 };
            } else {
                look.stuck += 1;
                if look.stuck == 1 {
                    all.push(Told::Stuck(worker));
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

    /// X6: a thread that a task keeps is told of once, and so is its end; one that rests is not.
    #[test]
    fn a_thread_that_does_not_get_on_is_told_of() {
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
            let _ = released.recv(); // What no task should do.
        });
        has_begun.recv().unwrap();
        assert_eq!(looks.again(), [], "it has got on since");
        assert_eq!(looks.again(), [Told::Stuck(0)]);
        assert_eq!(looks.again(), [], "once is enough");
        drop(release);
        runtime.block_on(task).unwrap();
        until_it_rests();
        assert_eq!(looks.again(), [Told::Free(0, EVERY * 2)]);
        assert_eq!(looks.again(), []);
    }
}
