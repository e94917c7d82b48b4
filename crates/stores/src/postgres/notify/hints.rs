//! Queue of hints from other processes.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::store::Hint;

/// Hints in the queue at most. More become one [`Hint::Missed`].
const WAITING_LEN_MAX: usize = 4096;

/// Hints in order without duplicates, the most urgent first.
#[derive(Default)]
pub(crate) struct HintQueue {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

#[derive(Default)]
struct Waiting {
    is_lost: bool,
    late: u32,
    missed: bool,
    is_to_look: bool,
    queue: VecDeque<Hint>,
    known: HashSet<Hint>,
}

impl HintQueue {
    pub(crate) fn put(&self, hint: Hint) {
        let mut waiting = self.waiting();
        match hint {
            Hint::Lost => waiting.is_lost = true,
            Hint::Late => waiting.late = waiting.late.saturating_add(1),
            Hint::Missed => waiting.miss(),
            Hint::Look => waiting.is_to_look = true,
            Hint::News(_) | Hint::Inbox(_) if waiting.missed => {} // Every chat will be read anyway.
            Hint::News(_) | Hint::Inbox(_) if waiting.queue.len() >= WAITING_LEN_MAX => waiting.miss(),
            Hint::News(_) | Hint::Inbox(_) => {
                if waiting.known.insert(hint) {
                    waiting.queue.push_back(hint);
                }
            }
        }
        drop(waiting);
        self.bell.notify_one();
    }

    pub(crate) async fn next(&self) -> Hint {
        loop {
            let taken = self.waiting().take();
            match taken {
                Some(hint) => return hint,
                None => self.bell.notified().await,
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner) // A set and a list: whole after every line.
    }
}

impl Waiting {
    fn miss(&mut self) {
        self.missed = true;
        self.queue.clear();
        self.known.clear();
    }

    fn take(&mut self) -> Option<Hint> {
        if std::mem::take(&mut self.is_lost) {
            return Some(Hint::Lost);
        }
        if let Some(late) = self.late.checked_sub(1) {
            self.late = late;
            return Some(Hint::Late);
        }
        if std::mem::take(&mut self.missed) {
            self.is_to_look = false; // A missed hint includes looking.
            return Some(Hint::Missed);
        }
        if std::mem::take(&mut self.is_to_look) {
            return Some(Hint::Look);
        }
        let hint = self.queue.pop_front()?;
        self.known.remove(&hint);
        Some(hint)
    }
}

/// Adds [`Hint::Look`] at intervals: a notification may be lost, and a process that dies sends none. Nothing more than
/// that, because subscribers poll by themselves at different times.
pub(crate) async fn remind(hints: Arc<HintQueue>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        hints.put(Hint::Look);
    }
}

#[cfg(test)]
mod tests {
    use everturn_core::ids::ChatId;

    use super::*;

    #[test]
    fn hints_come_once_in_order_and_the_gravest_first() {
        let hints = HintQueue::default();
        let (one, two) = (Hint::News(ChatId::from_u128(1)), Hint::Inbox(ChatId::from_u128(1)));
        [one, two, one, Hint::Lost].into_iter().for_each(|hint| hints.put(hint));
        let take = || hints.waiting().take();
        assert_eq!([take(), take(), take(), take()], [Some(Hint::Lost), Some(one), Some(two), None]);
        hints.put(one);
        assert_eq!(take(), Some(one), "what was taken can come again");
    }

    #[test]
    fn each_late_heartbeat_is_told() {
        let hints = HintQueue::default();
        [Hint::Late, Hint::Missed, Hint::Late].into_iter().for_each(|hint| hints.put(hint));
        let take = || hints.waiting().take();
        assert_eq!([take(), take(), take(), take()], [Some(Hint::Late), Some(Hint::Late), Some(Hint::Missed), None]);
    }

    #[test]
    fn a_reminder_throws_nothing_away_and_comes_once() {
        let hints = HintQueue::default();
        let news = Hint::News(ChatId::from_u128(1));
        [news, Hint::Look, Hint::Look].into_iter().for_each(|hint| hints.put(hint));
        let take = || hints.waiting().take();
        assert_eq!([take(), take(), take()], [Some(Hint::Look), Some(news), None]);
        [Hint::Look, Hint::Missed].into_iter().for_each(|hint| hints.put(hint));
        assert_eq!([take(), take()], [Some(Hint::Missed), None], "a look at everything includes the chats");
    }

    #[test]
    fn too_many_hints_are_told_as_one() {
        let hints = HintQueue::default();
        for n in 0..=WAITING_LEN_MAX as u128 {
            hints.put(Hint::News(ChatId::from_u128(n)));
        }
        hints.put(Hint::News(ChatId::from_u128(0)));
        let take = || hints.waiting().take();
        assert_eq!([take(), take()], [Some(Hint::Missed), None]);
    }
}
