//! What this process knows of the chats it holds.
//!
//! While a lease is ours nobody else changes the chat, so what was read or written last is what is there. That spares a
//! read before every write, and lets those who watch here have new rows without asking the database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::chat::Chat;
use everturn_core::ids::{ChatId, Fence, Seq, StepId, Version};
use everturn_core::view::{Cursor, JournalRow};

use crate::newest_rows::NewestRows;
use crate::store::{AppendRight, News};

/// From how many caches on those that nobody uses are cleared away.
const CACHES_LEN_MIN: usize = 1024;

/// One for each chat that something is done with.
#[derive(Default)]
pub(crate) struct ChatCaches {
    caches: Mutex<(HashMap<ChatId, Arc<ChatCache>>, usize)>,
}

/// Where one chat is worked on.
#[derive(Default)]
pub(crate) struct ChatCache {
    /// Writes to one chat take turns here, so that they wait for each other without keeping a connection each.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    held: Mutex<Option<HeldChat>>,
    uncertain: Mutex<Option<UncertainAcquire>>,
}

/// Tries to take a chat of which nobody knows whether they did: what was taken by them was given to nobody.
#[derive(Clone, Copy)]
pub(crate) struct UncertainAcquire {
    pub(crate) worker: i64,
    /// The fence of the newest lease that somebody was given.
    pub(crate) before: Fence,
}

/// A chat that is ours.
pub(crate) struct HeldChat {
    pub(crate) fence: Fence,
    pub(crate) worker: i64,
    pub(crate) version: Version,
    pub(crate) step: StepId,
    /// The chat's short name.
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

    /// Nothing is known of any chat any more.
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

    /// Whether `right` is the newest that was given here, by the worker this process is now.
    pub(crate) fn is_open_to(&self, right: AppendRight, worker: Option<i64>) -> bool {
        self.held().as_ref().is_some_and(|held| held.fence == right.fence && Some(held.worker) == worker)
    }

    /// Nothing is known any more, and nothing can be written before the chat was taken again.
    pub(crate) fn clear(&self, fence: Fence) {
        self.held().take_if(|held| held.fence == fence);
    }

    /// News of the draft alone, if all of it is here; nothing if the database has to be asked.
    pub(crate) fn since(&self, seen: Cursor, worker: Option<i64>) -> Option<Option<News>> {
        let guard = self.held();
        let held = guard.as_ref().filter(|held| Some(held.worker) == worker)?;
        let now = Cursor { version: held.version, step: held.step, seq: held.end };
        held.newest.since(seen, now)
    }
}

impl HeldChat {
    /// Notes rows that are stored now.
    pub(crate) fn appended(&mut self, rows: Vec<JournalRow>) {
        let Some(first) = rows.first().filter(|row| row.step == self.step) else { return };
        self.end = Seq(first.seq.0 + rows.len() as u64 - 1);
        self.newest.push(rows.into());
    }

    /// Notes a commit.
    pub(crate) fn committed(&mut self, chat: Arc<Chat>) {
        self.version = chat.version;
        if chat.step != self.step {
            self.step = chat.step;
            self.end = Seq(0);
            self.newest = NewestRows::default();
        }
        self.chat = chat.is_busy().then_some(chat); // One at rest may rest for long.
    }
}
