//! What this process knows of the chats it holds.
//!
//! While a lease is ours nobody else changes the chat, so what was read or written last is what is there. That spares a
//! read before every write, and lets those who watch here have new rows without asking the database.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::chat::Chat;
use everturn_core::ids::{ChatId, Fence, Seq, StepId, Version};
use everturn_core::view::{Cursor, Event, JournalRow};

use crate::store::{AppendRight, News};

/// How many of the newest rows of a draft are kept: half a second of an answer, and more.
const RING_LEN_MAX: usize = 32;
/// From how many desks on those that nobody uses are cleared away.
const DESKS_LEN_MIN: usize = 1024;

/// One for each chat that something is done with.
#[derive(Default)]
pub(crate) struct Desks {
    desks: Mutex<(HashMap<ChatId, Arc<Desk>>, usize)>,
}

/// Where one chat is worked on.
#[derive(Default)]
pub(crate) struct Desk {
    /// Writes to one chat take turns here, so that they wait for each other without keeping a connection each.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    held: Mutex<Option<Held>>,
    taking: Mutex<Option<Taking>>,
}

/// Tries to take a chat of which nobody knows whether they did: what was taken by them was given to nobody.
#[derive(Clone, Copy)]
pub(crate) struct Taking {
    pub(crate) worker: i64,
    /// The fence of the newest lease that somebody was given.
    pub(crate) before: Fence,
}

/// A chat that is ours.
pub(crate) struct Held {
    pub(crate) fence: Fence,
    pub(crate) worker: i64,
    pub(crate) version: Version,
    pub(crate) step: StepId,
    /// The chat's short name.
    pub(crate) no: i64,
    /// Where the journal of the open step ends.
    pub(crate) end: Seq,
    pub(crate) chat: Option<Arc<Chat>>,
    pub(crate) ring: VecDeque<JournalRow>,
}

impl Desks {
    pub(crate) fn at(&self, chat: ChatId) -> Arc<Desk> {
        let mut guard = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        let (desks, len_max) = &mut *guard;
        if desks.len() >= (*len_max).max(DESKS_LEN_MIN) {
            desks.retain(|_, desk| Arc::strong_count(desk) > 1 || desk.held().is_some() || desk.taking().is_some());
            *len_max = desks.len() * 2;
        }
        desks.entry(chat).or_default().clone()
    }

    /// Nothing is known of any chat any more.
    pub(crate) fn clear(&self) {
        let guard = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        guard.0.values().for_each(|desk| *desk.held() = None);
    }
}

impl Desk {
    pub(crate) fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn taking(&self) -> MutexGuard<'_, Option<Taking>> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `pen` is the newest that was given here, by the worker this process is now.
    pub(crate) fn is_open_to(&self, pen: AppendRight, worker: Option<i64>) -> bool {
        self.held().as_ref().is_some_and(|held| held.fence == pen.fence && Some(held.worker) == worker)
    }

    /// Nothing is known any more, and nothing can be written before the chat was taken again.
    pub(crate) fn clear(&self, fence: Fence) {
        self.held().take_if(|held| held.fence == fence);
    }

    /// News of the draft alone, if all of it is here; nothing if the database has to be asked.
    pub(crate) fn since(&self, seen: Cursor, worker: Option<i64>) -> Option<Option<News>> {
        let guard = self.held();
        let held = guard.as_ref().filter(|held| Some(held.worker) == worker)?;
        if (seen.version, seen.step) != (held.version, held.step) || seen.seq > held.end {
            return None;
        }
        let missed = (held.end.0 - seen.seq.0) as usize;
        let known = held.ring.len().checked_sub(missed)?;
        let events = held.ring.range(known..).map(JournalRow::without_bytes).map(Event::Delta).collect();
        let cursor = Cursor { seq: held.end, ..seen };
        Some((missed > 0).then_some(News { cursor, events }))
    }
}

impl Held {
    /// Notes rows that are stored now.
    pub(crate) fn appended(&mut self, rows: Vec<JournalRow>) {
        let Some(first) = rows.first().filter(|row| row.step == self.step) else { return };
        self.end = Seq(first.seq.0 + rows.len() as u64 - 1);
        self.ring.extend(rows);
        let surplus = self.ring.len().saturating_sub(RING_LEN_MAX);
        self.ring.drain(..surplus);
    }

    /// Notes a commit.
    pub(crate) fn committed(&mut self, chat: Arc<Chat>) {
        self.version = chat.version;
        if chat.step != self.step {
            self.step = chat.step;
            self.end = Seq(0);
            self.ring.clear();
        }
        self.chat = chat.is_busy().then_some(chat); // One at rest may rest for long.
    }
}
