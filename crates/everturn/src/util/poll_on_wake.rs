//! Futures that are polled only after they were woken.
//!
//! A task that waits for several futures polls all of them whenever one is ready. Where one is ready fifty times a second and
//! the others (an interrupt, a deadline, the end of the server) once an hour, polling the others is most of what the task
//! does, and some of them take a lock that all tasks share. Wrapped in [`PollOnWake`], they are polled once, and again
//! after they were woken themselves.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A future, or anything with a poll function, that is polled only after it was woken.
#[derive(Debug)]
pub struct PollOnWake<T> {
    inner: T,
    state: Arc<WakeState>,
    /// Wakes `state`; created once.
    waker: Waker,
    /// The task that is woken then. A copy of the one in `state`: comparing it takes no lock.
    task: Waker,
}

#[derive(Debug)]
struct WakeState {
    is_woken: AtomicBool,
    task: Mutex<Waker>,
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release); // Before reading the task: a new task checks this flag after it is stored.
        self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }
}

impl<T> PollOnWake<T> {
    /// Wraps something that was not polled yet.
    pub fn new(inner: T) -> Self {
        let task = Waker::noop().clone();
        let state = Arc::new(WakeState { is_woken: AtomicBool::new(true), task: Mutex::new(task.clone()) });
        Self { inner, waker: state.clone().into(), state, task }
    }

    /// The inner value, to be changed. It is polled again at the next chance.
    pub fn get_mut(&mut self) -> &mut T {
        self.state.is_woken.store(true, Ordering::Release);
        &mut self.inner
    }

    /// Polls the inner value if it was woken since the last poll.
    pub fn poll_with<R>(
        &mut self,
        context: &Context<'_>,
        poll: impl FnOnce(&mut T, &mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        if !self.task.will_wake(context.waker()) {
            self.task.clone_from(context.waker());
            self.state.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(context.waker());
        }
        // A plain load first: most calls end there. The swap comes before the poll, so that a wake-up during it counts.
        if !self.state.is_woken.load(Ordering::Acquire) || !self.state.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let polled = poll(&mut self.inner, &mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            self.state.is_woken.store(true, Ordering::Release); // A caller that polls again wants it polled.
        }
        polled
    }
}

impl<F: Future + Unpin> Future for PollOnWake<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.poll_with(context, |future, context| Pin::new(future).poll(context))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::oneshot;

    use super::*;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A receiver that counts how often it is polled.
    fn counting(mut inner: oneshot::Receiver<u8>, polls: &AtomicUsize) -> impl Future<Output = u8> + Unpin {
        std::future::poll_fn(move |context| {
            polls.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut inner).poll(context).map(Result::unwrap)
        })
    }

    #[test]
    fn it_is_polled_once_and_then_after_each_wake_up() {
        let (polls, tasks) = (AtomicUsize::new(0), [Arc::new(Counter::default()), Arc::new(Counter::default())]);
        let wakers = tasks.clone().map(Waker::from);
        let (say, word) = oneshot::channel();
        let mut wrapped = PollOnWake::new(counting(word, &polls));
        let mut ask = |task: usize| Pin::new(&mut wrapped).poll(&mut Context::from_waker(&wakers[task]));
        for _ in 0..5 {
            assert_eq!(ask(0), Poll::Pending);
        }
        assert_eq!(polls.load(Ordering::Relaxed), 1);
        assert_eq!(ask(1), Poll::Pending, "another task waits for it now");
        say.send(7).unwrap();
        assert_eq!(tasks.map(|task| task.0.load(Ordering::Relaxed)), [0, 1], "the newest is woken");
        assert_eq!(ask(1), Poll::Ready(7));
        assert_eq!(polls.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_value_is_polled_again() {
        use std::time::Duration;
        use tokio::time::{Instant, Sleep, sleep, timeout};
        let mut wrapped: PollOnWake<Pin<Box<Sleep>>> = PollOnWake::new(Box::pin(sleep(Duration::from_secs(100))));
        timeout(Duration::from_secs(1), &mut wrapped).await.unwrap_err();
        let begun = Instant::now();
        wrapped.get_mut().as_mut().reset(begun + Duration::from_secs(2));
        wrapped.await;
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
    }

    /// A wake-up during a poll counts for the next one.
    #[tokio::test(start_paused = true)]
    async fn a_wake_up_during_a_poll_polls_again() {
        let mut polls = 0;
        let thrice = std::future::poll_fn(|context: &mut Context<'_>| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls < 3 { Poll::Pending } else { Poll::Ready(polls) }
        });
        let asked = tokio::time::timeout(std::time::Duration::from_secs(1), PollOnWake::new(thrice)).await;
        assert_eq!(asked, Ok(3));
    }
}
