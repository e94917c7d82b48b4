//! What is waited for beside something that comes often.
//!
//! A task that waits for several things asks all of them whenever one has come. Where one comes fifty times a second, and the
//! others (an interrupt, a deadline, the end of the server) once an hour, that is most of what the task does, and some of
//! the others are shared by all tasks, lock and all. So the others sleep here: they are asked once, and again when they
//! were woken themselves.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Something that is polled only after it was woken.
#[derive(Debug)]
pub struct Dormant<T> {
    inner: T,
    state: Arc<State>,
    /// Wakes `state`; made once.
    waker: Waker,
    /// Who is woken then, kept here too: to compare it takes no lock.
    task: Waker,
}

#[derive(Debug)]
struct State {
    is_woken: AtomicBool,
    task: Mutex<Waker>,
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release); // Before the look at who waits: a new one looks after it has come.
        self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }
}

impl<T> Dormant<T> {
    /// One that was not polled yet.
    pub fn new(inner: T) -> Self {
        let task = Waker::noop().clone();
        let state = Arc::new(State { is_woken: AtomicBool::new(true), task: Mutex::new(task.clone()) });
        Self { inner, waker: state.clone().into(), state, task }
    }

    /// What is inside, to be changed. It is polled again at the next chance.
    pub fn get_mut(&mut self) -> &mut T {
        self.state.is_woken.store(true, Ordering::Release);
        &mut self.inner
    }

    /// Asks what is inside, if it was woken since it was asked last.
    pub fn poll_with<R>(
        &mut self,
        context: &Context<'_>,
        poll: impl FnOnce(&mut T, &mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        if !self.task.will_wake(context.waker()) {
            self.task.clone_from(context.waker());
            self.state.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(context.waker());
        }
        // First a look, which is all that most of these cost. Then, before the poll: what wakes it from now on is new.
        if !self.state.is_woken.load(Ordering::Acquire) || !self.state.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let polled = poll(&mut self.inner, &mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            self.state.is_woken.store(true, Ordering::Release); // Whoever asks again means it.
        }
        polled
    }
}

impl<F: Future + Unpin> Future for Dormant<F> {
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
    fn it_is_asked_once_and_then_when_it_was_woken() {
        let (polls, tasks) = (AtomicUsize::new(0), [Arc::new(Counter::default()), Arc::new(Counter::default())]);
        let wakers = tasks.clone().map(Waker::from);
        let (say, word) = oneshot::channel();
        let mut dormant = Dormant::new(counting(word, &polls));
        let mut ask = |task: usize| Pin::new(&mut dormant).poll(&mut Context::from_waker(&wakers[task]));
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
    async fn what_is_changed_is_asked_again() {
        use std::time::Duration;
        use tokio::time::{Instant, Sleep, sleep, timeout};
        let mut dormant: Dormant<Pin<Box<Sleep>>> = Dormant::new(Box::pin(sleep(Duration::from_secs(100))));
        timeout(Duration::from_secs(1), &mut dormant).await.unwrap_err();
        let begun = Instant::now();
        dormant.get_mut().as_mut().reset(begun + Duration::from_secs(2));
        dormant.await;
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
    }

    /// A waking that comes while it is being asked is for the next time.
    #[tokio::test(start_paused = true)]
    async fn what_is_woken_while_it_is_asked_is_asked_again() {
        let mut polls = 0;
        let thrice = std::future::poll_fn(|context: &mut Context<'_>| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls < 3 { Poll::Pending } else { Poll::Ready(polls) }
        });
        let asked = tokio::time::timeout(std::time::Duration::from_secs(1), Dormant::new(thrice)).await;
        assert_eq!(asked, Ok(3));
    }
}
