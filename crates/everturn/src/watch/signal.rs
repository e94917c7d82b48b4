//! A wake-up for everybody who listens.
//!
//! It rings for every delta of every chat that is watched, mostly for one listener: so it is a number and a list, and to
//! look whether it has rung takes no lock. A ring carries nothing and is never lost: whoever has not marked it hears it.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What rings.
#[derive(Debug, Default)]
pub(crate) struct Chime {
    /// How often it rang. Changed under the lock.
    count: AtomicU64,
    waiting: Mutex<Waiting>,
}

/// Who is to be woken by the next ring, and by which name the next listener goes.
#[derive(Debug, Default)]
struct Waiting {
    wakers: Vec<(u64, Waker)>,
    names: u64,
}

/// Somebody who listens.
#[derive(Debug)]
pub(crate) struct Listener {
    chime: Arc<Chime>,
    name: u64,
    /// The rings that were heard.
    heard: u64,
    /// As what it stands in the list, and since which ring: the next one takes it off.
    listed: Option<(Waker, u64)>,
}

impl Chime {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner) // Every change is made whole.
    }

    pub(crate) fn ring(&self) {
        let mut waiting = self.waiting();
        self.count.fetch_add(1, Ordering::Release);
        waiting.wakers.drain(..).for_each(|(_, waker)| waker.wake());
    }

    /// Listens from now on.
    pub(crate) fn listen(self: &Arc<Self>) -> Listener {
        let mut waiting = self.waiting();
        waiting.names += 1;
        Listener { chime: self.clone(), name: waiting.names, heard: self.count.load(Ordering::Acquire), listed: None }
    }
}

impl Listener {
    /// Whatever rang so far is heard.
    pub(crate) fn mark(&mut self) {
        self.heard = self.chime.count.load(Ordering::Acquire);
    }

    /// Waits until it rings, unless it has since the last mark. Dropping the future loses nothing.
    pub(crate) async fn rung(&mut self) {
        poll_fn(|context| self.poll_rung(context)).await;
    }

    fn poll_rung(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.chime.count.load(Ordering::Acquire) != self.heard {
            return Poll::Ready(());
        }
        let is_listed = |(waker, since): &(Waker, u64)| *since == self.heard && waker.will_wake(context.waker());
        if self.listed.as_ref().is_some_and(is_listed) {
            return Poll::Pending;
        }
        let mut waiting = self.chime.waiting();
        if self.chime.count.load(Ordering::Acquire) != self.heard {
            return Poll::Ready(());
        }
        if self.listed.as_ref().is_some_and(|(_, since)| *since == self.heard) {
            waiting.wakers.retain(|(name, _)| *name != self.name); // Another task waits now.
        }
        waiting.wakers.push((self.name, context.waker().clone()));
        drop(waiting);
        self.listed = Some((context.waker().clone(), self.heard));
        Poll::Pending
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.listed.is_some() {
            self.chime.waiting().wakers.retain(|(name, _)| *name != self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn has_rung(listener: &mut Listener) -> bool {
        listener.rung().now_or_never().is_some()
    }

    #[test]
    fn it_is_heard_until_it_is_marked() {
        let chime = Arc::new(Chime::default());
        chime.ring();
        let mut listener = chime.listen();
        assert!(!has_rung(&mut listener), "that was before");
        chime.ring();
        assert!(has_rung(&mut listener) && has_rung(&mut listener));
        listener.mark();
        assert!(!has_rung(&mut listener));
    }

    #[tokio::test]
    async fn everybody_is_woken_by_each_ring_also_who_has_moved() {
        let chime = Arc::new(Chime::default());
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let mut listener = chime.listen();
            assert!(!has_rung(&mut listener), "it was asked by another task before");
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
            chime.ring();
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
        }
        let all = tokio::time::timeout(std::time::Duration::from_secs(10), tasks.join_all());
        assert_eq!(all.await.expect("nobody waits for ever").len(), 100);
    }

    #[test]
    fn who_leaves_is_forgotten_and_nobody_stands_there_twice() {
        let chime = Arc::new(Chime::default());
        let (mut one, mut other) = (chime.listen(), chime.listen());
        for _ in 0..3 {
            has_rung(&mut one);
            has_rung(&mut other);
            assert_eq!(chime.waiting().wakers.len(), 2);
        }
        let waker = std::task::Waker::from(Arc::new(Nobody));
        assert!(other.poll_rung(&Context::from_waker(&waker)).is_pending());
        assert_eq!(chime.waiting().wakers.len(), 2, "one for another task instead");
        drop(other);
        assert_eq!(chime.waiting().wakers.len(), 1);
    }

    struct Nobody;

    impl std::task::Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }

    /// Two who answer each other from different threads: each ring meets somebody who is just about to wait.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_ring_is_lost_between_threads() {
        const ROUNDS: usize = 20_000;
        let (ping, pong) = (Arc::new(Chime::default()), Arc::new(Chime::default()));
        let answers = |mut hears: Listener, says: Arc<Chime>| async move {
            for _ in 0..ROUNDS {
                hears.rung().await;
                hears.mark();
                says.ring();
            }
        };
        let runtime = tokio::runtime::Handle::current();
        // A thread each: a worker goes on with whom it has woken, and nobody would meet anybody.
        let players = [answers(ping.listen(), pong.clone()), answers(pong.listen(), ping.clone())].map(|player| {
            let runtime = runtime.clone();
            tokio::task::spawn_blocking(move || runtime.block_on(player))
        });
        ping.ring();
        for player in players {
            tokio::time::timeout(std::time::Duration::from_secs(60), player)
                .await
                .expect("somebody waits for ever")
                .unwrap();
        }
    }
}
