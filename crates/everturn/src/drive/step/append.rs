//! Rows on their way into the journal.
//!
//! When rows are stored, those who watch want to know, and whoever handed them in mostly does not: it waits for the next
//! word of its model. So the store rings the bell itself, and wakes whoever handed the rows in only if that waits for
//! them, or if they could not be stored. With a thousand chats, that is a turn less for each delta.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use everturn_core::view::JournalRow;
use everturn_stores::{Ack, AppendRight, Store, Stored};
use tokio::time::Instant;

use crate::observe::metrics::Metrics;
use crate::watch::hub::Bell;

/// What is handed in by one who goes on meanwhile: one append at a time.
pub(crate) struct Storing<'a> {
    store: &'a dyn Store,
    pen: AppendRight,
    slot: Arc<Slot>,
    /// Until it stands in line.
    handing: Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
    /// What was handed in last.
    rows: Vec<JournalRow>,
}

/// What whoever handed rows in wants to be woken for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heed {
    Trouble,
    Anything,
}

struct Slot {
    bell: Arc<Bell>,
    metrics: Metrics,
    state: Mutex<State>,
}

enum State {
    /// Nothing is on its way.
    Free,
    UnderWay {
        since: Instant,
        waits: Option<(Waker, Heed)>,
    },
    Known(Stored),
}

impl<'a> Storing<'a> {
    pub(crate) fn new(store: &'a dyn Store, pen: AppendRight, bell: Arc<Bell>, metrics: Metrics) -> Self {
        let slot = Arc::new(Slot { bell, metrics, state: Mutex::new(State::Free) });
        Self { store, pen, slot, handing: None, rows: Vec::new() }
    }

    /// Hands rows in, as soon as somebody waits below. Those before them are stored.
    pub(crate) fn begin(&mut self, rows: Vec<JournalRow>) {
        if rows.is_empty() {
            return;
        }
        *self.slot.state() = State::UnderWay { since: Instant::now(), waits: None };
        self.rows.clone_from(&rows);
        let slot = self.slot.clone();
        let logged = slot.bell.is_logged().then(|| rows.clone());
        let ack = Ack::new(move |stored| {
            if let Some(rows) = logged.filter(|_| stored.is_ok()) {
                slot.bell.log(&rows); // Before whoever handed them in goes on: nothing stands for them yet.
            }
            slot.tell(stored);
        });
        self.handing = Some(self.store.append(self.pen, rows, ack));
    }

    /// What was handed in last.
    pub(crate) fn rows(&self) -> &[JournalRow] {
        &self.rows
    }

    /// Waits until there is something to heed. Dropping the future loses nothing.
    pub(crate) async fn stirs(&mut self, heed: Heed) {
        poll_fn(|context| {
            self.poll_hand_in(context);
            self.slot.poll_stirs(context, heed)
        })
        .await;
    }

    /// Waits until what was handed in is stored, or cannot be. Dropping the future loses nothing.
    pub(crate) async fn over(&mut self) -> Stored {
        if matches!(*self.slot.state(), State::Free) {
            return Ok(());
        }
        self.stirs(Heed::Anything).await;
        match std::mem::replace(&mut *self.slot.state(), State::Free) {
            State::Known(stored) => stored,
            State::Free | State::UnderWay { .. } => unreachable!("it is known once it stirs"),
        }
    }

    fn poll_hand_in(&mut self, context: &mut Context<'_>) {
        let Some(handing) = &mut self.handing else { return };
        self.slot.wake_nobody(); // A store may know at once, and whoever asks is awake.
        if handing.as_mut().poll(context).is_ready() {
            self.handing = None;
        }
    }
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner) // Every change is one assignment.
    }

    fn wake_nobody(&self) {
        if let State::UnderWay { waits, .. } = &mut *self.state() {
            *waits = None;
        }
    }

    fn poll_stirs(&self, context: &Context<'_>, heed: Heed) -> Poll<()> {
        match (&mut *self.state(), heed) {
            (State::UnderWay { waits, .. }, heed) => {
                *waits = Some((context.waker().clone(), heed));
                Poll::Pending
            }
            (State::Free, _) | (State::Known(Ok(())), Heed::Trouble) => Poll::Pending,
            (State::Known(_), _) => Poll::Ready(()),
        }
    }

    /// What became of the rows. Whoever watches is told after they are stored, and not before.
    fn tell(&self, stored: Stored) {
        let is_stored = stored.is_ok();
        let before = std::mem::replace(&mut *self.state(), State::Known(stored));
        let State::UnderWay { since, waits } = before else { return }; // An append is told of once.
        if is_stored {
            self.metrics.appended(since.elapsed());
            self.bell.ring_for_deltas();
        }
        if let Some((waker, _)) = waits.filter(|(_, heed)| !is_stored || *heed == Heed::Anything) {
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

    /// Who is woken, and whether the bell rings, when rows have become `stored` and somebody heeds this much.
    fn woken_and_rung(heed: Heed, stored: Stored) -> (usize, bool) {
        let (bell, task) = (Arc::<Bell>::default(), Arc::<Counter>::default());
        let mut watcher = bell.news.listen();
        let under_way = State::UnderWay { since: Instant::now(), waits: None };
        let slot = Slot { bell, metrics: Metrics::unregistered(), state: Mutex::new(under_way) };
        let waker = Waker::from(task.clone());
        let context = Context::from_waker(&waker);
        assert!(slot.poll_stirs(&context, heed).is_pending());
        slot.tell(stored);
        assert!(slot.poll_stirs(&context, Heed::Anything).is_ready(), "whoever asks is told");
        (task.0.load(Ordering::Relaxed), watcher.rung().now_or_never().is_some())
    }

    #[test]
    fn the_bell_rings_for_what_is_stored_and_wakes_only_who_waits() {
        let fenced = || Err(WriteError::Fenced);
        let cases = [
            (Heed::Trouble, Ok(()), (0, true)),
            (Heed::Anything, Ok(()), (1, true)),
            (Heed::Trouble, fenced(), (1, false)),
            (Heed::Anything, fenced(), (1, false)),
        ];
        for (heed, stored, expected) in cases {
            assert_eq!(woken_and_rung(heed, stored.clone()), expected, "{stored:?}");
        }
    }
}
