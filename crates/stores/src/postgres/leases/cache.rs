//! Cache of the chats that this process holds.
//!
//! While this process holds the lease, no other changes the chat, so the last value read or written is current. That saves
//! a read before every write, and gives subscribers of this process new rows without a query.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::chat::Chat;
use everturn_core::ids::{ChatId, Fence, Seq, StepId, Version};
use everturn_core::view::{Cursor, JournalRow};

use crate::newest_rows::NewestRows;
use crate::store::{AppendRight, News};

/// Number of caches from which on unused ones are removed.
const CACHES_LEN_MIN: usize = 1024;

/// One cache per chat in use.
#[derive(Default)]
pub(crate) struct ChatCaches {
    caches: Mutex<(HashMap<ChatId, Arc<ChatCache>>, usize)>,
}

/// Cache of one chat.
#[derive(Default)]
pub(crate) struct ChatCache {
    /// Serializes writes to one chat, so that they wait without a connection each.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    held: Mutex<Option<HeldChat>>,
    uncertain: Mutex<Option<UncertainAcquire>>,
}

/// Lease acquisitions with unknown outcome. A lease granted by one of them was never handed to a driver.
#[derive(Clone, Copy)]
pub(crate) struct UncertainAcquire {
    pub(crate) worker: i64,
    /// Fence of the newest lease that a driver got.
    pub(crate) before: Fence,
}

/// A held chat.
pub(crate) struct HeldChat {
    pub(crate) fence: Fence,
    pub(crate) worker: i64,
    pub(crate) version: Version,
    pub(crate) step: StepId,
    /// The chat's number.
    pub(crate) no: i64,
    /// Where the journal of the open step ends.
    pub(crate) end: Seq,
    pub(crate) chat: Option<Arc<Chat>>,
    pub(crate) newest: NewestRows,
}

impl ChatCaches {
    pub(crate) fn at(&self, chat: ChatId) -> Arc<ChatCache> {
        let mut guard = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let (caches, len_max) = &mut *guard;
        if caches.len() >= (*len_max).max(CACHES_LEN_MIN) {
            caches.retain(|_, cache| {
                Arc::strong_count(cache) > 1 || cache.held().is_some() || cache.uncertain().is_some()
            });
            *len_max = caches.len() * 2;
        }
        caches.entry(chat).or_default().clone()
    }

    /// Drops the held state of all chats.
    pub(crate) fn clear(&self) {
        let guard = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        guard.0.values().for_each(|cache| *cache.held() = None);
    }
}

impl ChatCache {
    pub(crate) fn held(&self) -> MutexGuard<'_, Option<HeldChat>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn uncertain(&self) -> MutexGuard<'_, Option<UncertainAcquire>> {
        self.uncertain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `right` belongs to the newest lease, granted to the current worker of this process.
    pub(crate) fn is_open_to(&self, right: AppendRight, worker: Option<i64>) -> bool {
        self.held().as_ref().is_some_and(|held| held.fence == right.fence && Some(held.worker) == worker)
    }

    /// Drops the held state: nothing can be written before the chat is acquired again.
    pub(crate) fn clear(&self, fence: Fence) {
        self.held().take_if(|held| held.fence == fence);
    }

    /// News of the draft, if memory has all of it; the outer `None` if the database has to be read.
    pub(crate) fn since(&self, seen: Cursor, worker: Option<i64>) -> Option<Option<News>> {
        let guard = self.held();
        let held = guard.as_ref().filter(|held| Some(held.worker) == worker)?;
        let now = Cursor { version: held.version, step: held.step, seq: held.end };
        held.newest.since(seen, now)
    }
}

impl HeldChat {
    /// Adds rows that were stored.
    pub(crate) fn appended(&mut self, rows: Vec<JournalRow>) {
        let Some(first) = rows.first().filter(|row| row.step == self.step) else { return };
        self.end = Seq(first.seq.0 + rows.len() as u64 - 1);
        self.newest.push(rows.into());
    }

    /// Applies a commit.
    pub(crate) fn committed(&mut self, chat: Arc<Chat>) {
        self.version = chat.version;
        if chat.step != self.step {
            self.step = chat.step;
            self.end = Seq(0);
            self.newest = NewestRows::default();
        }
        self.chat = chat.is_busy().then_some(chat); // A chat at rest may rest for long.
    }
}
