//! Where the open drafts are in the log.
//!
//! The journal has no index, because every chat would dirty an index page of its own with every delta. The positions
//! are kept in memory instead, a few kilobytes per draft, and one scan of the log finds them again when the store is
//! opened. The newest rows are kept beside them, so that subscribers of a running answer cause no reads.
//!
//! Only durable rows are in here. Readers look here first and into the database second, so the database is at least
//! as new as what they found here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::ids::{ChatId, Fence, Seq, StepId, Version};
use everturn_core::view::{Cursor, JournalRow};

use crate::newest_rows::NewestRows;
use crate::store::News;

/// Position of a stored append: its first delta, and the row of the log that holds its bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalPosition {
    pub(crate) first: u64,
    pub(crate) place: i64,
}

/// What a transaction did to drafts. Applied once the transaction is durable.
#[derive(Debug)]
pub(crate) enum TxEffect {
    /// Rows were added to the open draft.
    Appended { chat: ChatId, number: i64, version: Version, place: i64, rows: Arc<[JournalRow]> },
    /// A change was committed.
    Committed { chat: ChatId, version: Version, step: StepId },
    /// An append was copied to another row of the log.
    Moved { chat: ChatId, position: JournalPosition },
    /// The chat was deleted.
    Deleted(ChatId),
    /// The oldest appends that were not merged yet became one.
    Merged { chat: ChatId, position: JournalPosition, count: u64 },
}

/// The open draft of a chat.
#[derive(Debug, Clone)]
pub(crate) struct OpenDraft {
    /// The chat's number, its short id in the log.
    pub(crate) number: i64,
    pub(crate) version: Version,
    pub(crate) step: StepId,
    pub(crate) seq: Seq,
    pub(crate) positions: Vec<JournalPosition>,
    /// How many positions at the front are of merged appends.
    pub(crate) merged: usize,
    /// More than usual as long as nothing was appended since the store was opened.
    pub(crate) newest: NewestRows,
}

/// All open drafts.
#[derive(Debug)]
pub(crate) struct OpenDrafts {
    open: Mutex<Open>,
    /// Positions per draft before some of them are merged.
    positions_len_max: usize,
    /// Highest fence of a chat that was deleted since this process started: such a lease is never granted again.
    floor: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    drafts: HashMap<ChatId, OpenDraft>,
    /// Chats of the drafts by number.
    chats: HashMap<i64, ChatId>,
    /// Positions of all drafts together.
    positions_len: usize,
}

impl OpenDrafts {
    pub(crate) fn new(positions_len_max: usize) -> Self {
        Self { open: Mutex::default(), positions_len_max: positions_len_max.max(2), floor: AtomicU64::default() }
    }

    /// Positions merged at once.
    pub(crate) const fn merge_len(&self) -> usize {
        self.positions_len_max / 2
    }

    /// Whether a draft has so many positions that some should be merged.
    pub(crate) fn is_long(&self, draft: &OpenDraft) -> bool {
        draft.positions.len() - draft.merged >= self.positions_len_max
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner) // No method leaves a change half made.
    }

    /// New leases must have a higher fence than this.
    pub(crate) fn floor(&self) -> Fence {
        Fence(self.floor.load(Ordering::Relaxed))
    }

    pub(crate) fn raise_floor(&self, fence: Fence) {
        self.floor.fetch_max(fence.0, Ordering::Relaxed);
    }

    /// Takes over the drafts that the scan of the log found.
    pub(crate) fn fill(&self, drafts: HashMap<ChatId, OpenDraft>) {
        let chats = drafts.iter().map(|(chat, draft)| (draft.number, *chat)).collect();
        let positions_len = drafts.values().map(|draft| draft.positions.len()).sum();
        *self.lock() = Open { drafts, chats, positions_len };
    }

    /// The chat with an open draft that contains the append at `position`, if any.
    pub(crate) fn owner(&self, number: i64, step: StepId, position: JournalPosition) -> Option<ChatId> {
        let open = self.lock();
        let chat = open.chats.get(&number)?;
        let draft = open.drafts.get(chat).filter(|draft| draft.step == step)?;
        let found = draft.positions.binary_search_by_key(&position.first, |position| position.first);
        found.is_ok_and(|i| draft.positions[i] == position).then_some(*chat)
    }

    /// The open draft of a chat.
    pub(crate) fn get(&self, chat: ChatId) -> Option<OpenDraft> {
        self.lock().drafts.get(&chat).cloned()
    }

    /// Number of journalled deltas of `step`.
    pub(crate) fn seq(&self, chat: ChatId, step: StepId) -> Seq {
        self.lock().drafts.get(&chat).filter(|draft| draft.step == step).map_or(Seq(0), |draft| draft.seq)
    }

    /// Number of appends in the log that belong to open drafts.
    pub(crate) fn positions_len(&self) -> usize {
        self.lock().positions_len
    }

    /// News for a subscriber that misses only the newest rows; the outer `None` if memory does not suffice.
    pub(crate) fn since(&self, chat: ChatId, seen: Cursor) -> Option<Option<News>> {
        let open = self.lock();
        let draft = open.drafts.get(&chat)?;
        let now = Cursor { version: draft.version, step: draft.step, seq: draft.seq };
        draft.newest.since(seen, now)
    }

    /// Applies what has become durable. Adds chats with too many positions to `long`.
    pub(crate) fn apply(&self, effects: impl Iterator<Item = TxEffect>, long: &mut Vec<ChatId>) {
        let mut open = self.lock();
        for effect in effects {
            match effect {
                TxEffect::Appended { chat, number, version, place, rows } => {
                    let Some(first) = rows.first() else { continue };
                    let draft = open.draft(chat, number, version, first.step);
                    draft.append(version, place, rows);
                    if self.is_long(draft) && (draft.positions.len() - draft.merged).is_multiple_of(self.merge_len()) {
                        long.push(chat);
                    }
                    open.positions_len += 1;
                }
                TxEffect::Committed { chat, version, step } => match open.drafts.get_mut(&chat) {
                    Some(draft) if draft.step == step => draft.version = version,
                    Some(_) => open.close(chat),
                    None => {}
                },
                TxEffect::Deleted(chat) => open.close(chat),
                TxEffect::Moved { chat, position } => {
                    if let Some(draft) = open.drafts.get_mut(&chat) {
                        draft.put(position, 1);
                    }
                }
                TxEffect::Merged { chat, position, count } => {
                    if let Some(draft) = open.drafts.get_mut(&chat) {
                        let before = draft.positions.len();
                        draft.put(position, count);
                        draft.merged += 1;
                        let gone = before - draft.positions.len();
                        open.positions_len -= gone;
                    }
                }
            }
        }
    }
}

impl Open {
    fn draft(&mut self, chat: ChatId, number: i64, version: Version, step: StepId) -> &mut OpenDraft {
        self.drafts.entry(chat).or_insert_with(|| {
            self.chats.insert(number, chat);
            OpenDraft::new(number, version, step)
        })
    }

    fn close(&mut self, chat: ChatId) {
        if let Some(draft) = self.drafts.remove(&chat) {
            self.chats.remove(&draft.number);
            self.positions_len -= draft.positions.len();
        }
    }
}

impl OpenDraft {
    pub(crate) fn new(number: i64, version: Version, step: StepId) -> Self {
        Self { number, version, step, seq: Seq(0), positions: Vec::new(), merged: 0, newest: NewestRows::default() }
    }

    fn append(&mut self, version: Version, place: i64, rows: Arc<[JournalRow]>) {
        self.version = version;
        self.positions.push(JournalPosition { first: self.seq.0 + 1, place });
        self.seq = Seq(self.seq.0 + rows.len() as u64);
        self.newest.push(rows);
    }

    /// Replaces the appends that hold the same `count` deltas by one.
    pub(crate) fn put(&mut self, position: JournalPosition, count: u64) {
        let begin = self.positions.partition_point(|other| other.first < position.first);
        let end = self.positions.partition_point(|other| other.first < position.first + count);
        self.positions.splice(begin..end, [position]);
    }

    /// Number of the first row that is in memory, or of the next row if none is.
    pub(crate) fn newest_first(&self) -> u64 {
        self.newest.first().map_or(self.seq.0 + 1, |first| first.0)
    }
}
