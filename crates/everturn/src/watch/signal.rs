//! A wake-up for any number of listeners.
//!
//! It rings for every delta of every watched chat, mostly for one listener: so it is a counter and a list of wakers, and
//! checking whether it has rung takes no lock. A ring carries nothing and is never lost: a listener that has not marked it
//! is woken by it.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A wake-up for any number of listeners.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// How often it rang. Changed under the lock.
    count: AtomicU64,
    waiting: Mutex<Wakers>,
}

/// The wakers of waiting listeners by listener id, and the newest id.
#[derive(Debug, Default)]
struct Wakers {
    wakers: Vec<(u64, Waker)>,
    newest_id: u64,
}

/// A listener of one signal.
#[derive(Debug)]
pub(crate) struct SignalListener {
    signal: Arc<Signal>,
    id: u64,
    /// The count up to which rings are marked.
    marked: u64,
    /// The waker in the list, and the count it was added at: the next ring removes it.
    listed: Option<(Waker, u64)>,
}

impl Signal {
    fn waiting(&self) -> MutexGuard<'_, Wakers> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner) // Every change is complete when the lock is released.
    }

    pub(crate) fn ring(&self) {
        let mut waiting = self.waiting();
        self.count.fetch_add(1, Ordering::Release);
        waiting.wakers.drain(..).for_each(|(_, waker)| waker.wake());
    }

    /// Listens from now on.
    pub(crate) fn listen(self: &Arc<Self>) -> SignalListener {
        let mut waiting = self.waiting();
        waiting.newest_id += 1;
        SignalListener {
            signal: self.clone(),
            id: waiting.newest_id,
            marked: self.count.load(Ordering::Acquire),
            listed: None,
        }
    }
}

impl SignalListener {
    /// Marks every ring so far as seen.
    pub(crate) fn mark(&mut self) {
        self.marked = self.signal.count.load(Ordering::Acquire);
    }

    /// Waits until it rings, unless it has since the last mark. Dropping the future loses nothing.
    pub(crate) async fn rung(&mut self) {
        poll_fn(|context| self.poll_rung(context)).await;
    }

    fn poll_rung(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.signal.count.load(Ordering::Acquire) != self.marked {
            return Poll::Ready(());
        }
        let is_listed = |(waker, since): &(Waker, u64)| *since == self.marked && waker.will_wake(context.waker());
        if self.listed.as_ref().is_some_and(is_listed) {
            return Poll::Pending;
        }
        let mut waiting = self.signal.waiting();
        if self.signal.count.load(Ordering::Acquire) != self.marked {
            return Poll::Ready(());
        }
        if self.listed.as_ref().is_some_and(|(_, since)| *since == self.marked) {
            waiting.wakers.retain(|(id, _)| *id != self.id); // Another task waits now.
        }
        waiting.wakers.push((self.id, context.waker().clone()));
        drop(waiting);
        self.listed = Some((context.waker().clone(), self.marked));
        Poll::Pending
    }
}

impl Drop for SignalListener {
    fn drop(&mut self) {
        if self.listed.is_some() {
            self.signal.waiting().wakers.retain(|(id, _)| *id != self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn has_rung(listener: &mut SignalListener) -> bool {
        listener.rung().now_or_never().is_some()
    }

    #[test]
    fn a_ring_lasts_until_it_is_marked() {
        let signal = Arc::new(Signal::default());
        signal.ring();
        let mut listener = signal.listen();
        assert!(!has_rung(&mut listener), "it rang before the listener came");
        signal.ring();
        assert!(has_rung(&mut listener) && has_rung(&mut listener));
        listener.mark();
        assert!(!has_rung(&mut listener));
    }

    #[tokio::test]
    async fn every_ring_wakes_every_listener_also_after_a_move_to_another_task() {
        let signal = Arc::new(Signal::default());
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let mut listener = signal.listen();
            assert!(!has_rung(&mut listener), "polled by another task before");
            tasks.spawn(async move {
                for _ in 0..3 {
                    listener.rung().await;
                    listener.mark();
                    tokio::task::yield_now().await;
                }
            });
        }
        tokio::task::yield_now().await;
        for _ in 0..3 {
            signal.ring();
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
        }
        let all = tokio::time::timeout(std::time::Duration::from_secs(10), tasks.join_all());
        assert_eq!(all.await.expect("every listener is woken").len(), 100);
    }

    #[test]
    fn a_dropped_listener_is_removed_and_none_is_listed_twice() {
        let signal = Arc::new(Signal::default());
        let (mut one, mut other) = (signal.listen(), signal.listen());
        for _ in 0..3 {
            has_rung(&mut one);
            has_rung(&mut other);
            assert_eq!(signal.waiting().wakers.len(), 2);
        }
        let waker = std::task::Waker::from(Arc::new(NoopWake));
        assert!(other.poll_rung(&Context::from_waker(&waker)).is_pending());
        assert_eq!(signal.waiting().wakers.len(), 2, "one for another task instead");
        drop(other);
        assert_eq!(signal.waiting().wakers.len(), 1);
    }

    struct NoopWake;

    impl std::task::Wake for NoopWake {
        fn wake(self: Arc<Self>) {}
    }

    /// Two threads that answer each other: each ring meets a listener that is just about to wait.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_ring_is_lost_between_threads() {
        const ROUNDS: usize = 20_000;
        let (ping, pong) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let answers = |mut hears: SignalListener, says: Arc<Signal>| async move {
            for _ in 0..ROUNDS {
                hears.rung().await;
                hears.mark();
                says.ring();
            }
        };
        let runtime = tokio::runtime::Handle::current();
        // One thread each: a runtime worker would go on with the task it woke, and the two would never meet.
        let players = [answers(ping.listen(), pong.clone()), answers(pong.listen(), ping.clone())].map(|player| {
            let runtime = runtime.clone();
            tokio::task::spawn_blocking(move || runtime.block_on(player))
        });
        ping.ring();
        for player in players {
            tokio::time::timeout(std::time::Duration::from_secs(60), player).await.expect("no ring is lost").unwrap();
        }
    }
}
