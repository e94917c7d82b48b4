//! Rows on their way into the journal.
//!
//! When rows are stored, subscribers are to be woken at once; the driver that appended them mostly waits for the model's
//! next words and need not be. So the store's acknowledgement rings the chat's signals itself, and wakes the driver only
//! if it waits for the rows or they could not be stored. With a thousand chats, that saves one task wake-up per delta.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use everturn_core::view::JournalRow;
use everturn_stores::{Ack, AppendRight, Store, Stored};
use tokio::time::Instant;

use crate::observe::metrics::Metrics;
use crate::watch::hub::ChatSignals;

/// The appends of one attempt, one at a time. The attempt goes on reading meanwhile.
pub(crate) struct PendingAppend<'a> {
    store: &'a dyn Store,
    right: AppendRight,
    slot: Arc<Slot>,
    /// The call into the store, until the rows are in its queue.
    entering: Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
    /// The rows of the newest append.
    rows: Vec<JournalRow>,
}

/// What the appending task is woken for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeOn {
    /// Only if the rows could not be stored.
    Failure,
    /// In any case.
    Completion,
}

/// The state that the appending task shares with the store's acknowledgement.
struct Slot {
    signals: Arc<ChatSignals>,
    metrics: Metrics,
    state: Mutex<AppendState>,
}

enum AppendState {
    /// Nothing is pending.
    Free,
    Pending {
        since: Instant,
        waiting: Option<(Waker, WakeOn)>,
    },
    Done(Stored),
}

impl<'a> PendingAppend<'a> {
    pub(crate) fn new(store: &'a dyn Store, right: AppendRight, signals: Arc<ChatSignals>, metrics: Metrics) -> Self {
        let slot = Arc::new(Slot { signals, metrics, state: Mutex::new(AppendState::Free) });
        Self { store, right, slot, entering: None, rows: Vec::new() }
    }

    /// Appends rows. The call enters the store when `changed` or `done` is first polled; earlier rows are stored by then.
    pub(crate) fn begin(&mut self, rows: Vec<JournalRow>) {
        if rows.is_empty() {
            return;
        }
        *self.slot.state() = AppendState::Pending { since: Instant::now(), waiting: None };
        self.rows.clone_from(&rows);
        let slot = self.slot.clone();
        let logged = slot.signals.is_logged().then(|| rows.clone());
        let ack = Ack::new(move |stored| {
            if let Some(rows) = logged.filter(|_| stored.is_ok()) {
                slot.signals.log(&rows); // Before the attempt goes on, so before any commit that replaces them.
            }
            slot.complete(stored);
        });
        self.entering = Some(self.store.append(self.right, rows, ack));
    }

    /// The rows of the newest append.
    pub(crate) fn rows(&self) -> &[JournalRow] {
        &self.rows
    }

    /// Waits until the pending append failed, or ended at all. Dropping the future loses nothing.
    pub(crate) async fn changed(&mut self, wake_on: WakeOn) {
        poll_fn(|context| {
            self.poll_enter(context);
            self.slot.poll_changed(context, wake_on)
        })
        .await;
    }

    /// Waits until the pending rows are stored, or cannot be. Dropping the future loses nothing.
    pub(crate) async fn done(&mut self) -> Stored {
        if matches!(*self.slot.state(), AppendState::Free) {
            return Ok(());
        }
        self.changed(WakeOn::Completion).await;
        match std::mem::replace(&mut *self.slot.state(), AppendState::Free) {
            AppendState::Done(stored) => stored,
            AppendState::Free | AppendState::Pending { .. } => unreachable!("it has changed, so it is done"),
        }
    }

    fn poll_enter(&mut self, context: &mut Context<'_>) {
        let Some(entering) = &mut self.entering else { return };
        self.slot.forget_waker(); // A store may acknowledge at once, and the task that polls is awake.
        if entering.as_mut().poll(context).is_ready() {
            self.entering = None;
        }
    }
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, AppendState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // Every change is one assignment.
    }

    fn forget_waker(&self) {
        if let AppendState::Pending { waiting, .. } = &mut *self.state() {
            *waiting = None;
        }
    }

    fn poll_changed(&self, context: &Context<'_>, wake_on: WakeOn) -> Poll<()> {
        match (&mut *self.state(), wake_on) {
            (AppendState::Pending { waiting, .. }, wake_on) => {
                *waiting = Some((context.waker().clone(), wake_on));
                Poll::Pending
            }
            (AppendState::Free, _) | (AppendState::Done(Ok(())), WakeOn::Failure) => Poll::Pending,
            (AppendState::Done(_), _) => Poll::Ready(()),
        }
    }

    /// Notes what became of the rows. Subscribers are woken only after rows were stored.
    fn complete(&self, stored: Stored) {
        let is_stored = stored.is_ok();
        let before = std::mem::replace(&mut *self.state(), AppendState::Done(stored));
        let AppendState::Pending { since, waiting } = before else { return }; // An append is acknowledged once.
        if is_stored {
            self.metrics.appended(since.elapsed());
            self.signals.ring_for_deltas();
        }
        if let Some((waker, _)) = waiting.filter(|(_, wake_on)| !is_stored || *wake_on == WakeOn::Completion) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use everturn_stores::WriteError;
    use futures_util::FutureExt as _;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often the task is woken, and whether the signal rings, when an append ends as `stored`.
    fn woken_and_rung(wake_on: WakeOn, stored: Stored) -> (usize, bool) {
        let signals = Arc::<ChatSignals>::default();
        let task = Arc::<Counter>::default();
        let mut watcher = signals.news.listen();
        let pending = AppendState::Pending { since: Instant::now(), waiting: None };
        let slot = Slot { signals, metrics: Metrics::unregistered(), state: Mutex::new(pending) };
        let waker = Waker::from(task.clone());
        let context = Context::from_waker(&waker);
        assert!(slot.poll_changed(&context, wake_on).is_pending());
        slot.complete(stored);
        assert!(slot.poll_changed(&context, WakeOn::Completion).is_ready(), "a task that asks gets the answer");
        (task.0.load(Ordering::Relaxed), watcher.rung().now_or_never().is_some())
    }

    #[test]
    fn stored_rows_ring_and_wake_only_a_waiting_task() {
        let fenced = || Err(WriteError::Fenced);
        let cases = [
            (WakeOn::Failure, Ok(()), (0, true)),
            (WakeOn::Completion, Ok(()), (1, true)),
            (WakeOn::Failure, fenced(), (1, false)),
            (WakeOn::Completion, fenced(), (1, false)),
        ];
        for (wake_on, stored, expected) in cases {
            assert_eq!(woken_and_rung(wake_on, stored.clone()), expected, "{stored:?}");
        }
    }
}
