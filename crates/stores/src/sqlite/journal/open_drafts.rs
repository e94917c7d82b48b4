//! Where the open drafts are in the log.
//!
//! The journal has no index, because every chat would dirty a page of its own with every delta. So the addresses are kept
//! here, a few kilobytes a draft, and are found again by one walk along the log when the store is opened. The newest rows
//! are kept beside them: whoever watches an answer arrive is told from memory.
//!
//! Only what is durable is in here. Readers look here first and into the database second: what they find there is then
//! at least as new.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::ids::{ChatId, Fence, Seq, StepId, Version};
use everturn_core::view::{Cursor, Event, JournalRow};

use crate::store::News;

/// How many of the newest rows of a draft are kept: half a second of an answer, and more.
const RING_LEN_MAX: usize = 32;
/// How many bytes they may have together.
const RING_BYTES_MAX: usize = 16 << 10;

/// A stored append: the first delta it tells, and the place in the log of the bundle it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) first: u64,
    pub(crate) place: i64,
}

/// What a transaction did to drafts. Told once it is durable.
#[derive(Debug)]
pub(crate) enum Told {
    /// Rows were added to the open draft.
    Appended { chat: ChatId, number: i64, version: Version, place: i64, rows: Arc<[JournalRow]> },
    /// A change was committed.
    Committed { chat: ChatId, version: Version, step: StepId },
    /// An append lies elsewhere now.
    Moved { chat: ChatId, mark: Mark },
    /// The chat is gone.
    Deleted(ChatId),
    /// Some appends are one now, the oldest that were not yet.
    Merged { chat: ChatId, mark: Mark, count: u64 },
}

/// The open draft of a chat.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    /// The chat's short name.
    pub(crate) number: i64,
    pub(crate) version: Version,
    pub(crate) step: StepId,
    pub(crate) seq: Seq,
    pub(crate) marks: Vec<Mark>,
    /// So many marks in front are of appends that were merged.
    pub(crate) merged: usize,
    /// The newest appends, each with how many bytes it has. More than usual as long as nothing was appended since the store
    /// was opened.
    ring: VecDeque<(Arc<[JournalRow]>, usize)>,
    ring_len: usize,
    ring_bytes: usize,
}

/// All open drafts.
#[derive(Debug)]
pub(crate) struct Heads {
    open: Mutex<Open>,
    /// How many marks a draft may have before some of them are merged.
    marks_len_max: usize,
    /// The highest fence of a chat that was deleted since this process began: no lease of it is ever given again.
    floor: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    heads: HashMap<ChatId, Head>,
    /// Their chats by number.
    chats: HashMap<i64, ChatId>,
    /// How many marks they have together.
    marks_len: usize,
}

impl Heads {
    /// None yet.
    pub(crate) fn new(marks_len_max: usize) -> Self {
        Self { open: Mutex::default(), marks_len_max: marks_len_max.max(2), floor: AtomicU64::default() }
    }

    /// How many marks are merged at once.
    pub(crate) const fn merge_len(&self) -> usize {
        self.marks_len_max / 2
    }

    /// Whether a draft has so many that some should be merged.
    pub(crate) fn is_long(&self, head: &Head) -> bool {
        head.marks.len() - head.merged >= self.marks_len_max
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner) // Every change below is made whole.
    }

    /// No lease may have this number or a lower one.
    pub(crate) fn floor(&self) -> Fence {
        Fence(self.floor.load(Ordering::Relaxed))
    }

    pub(crate) fn raise_floor(&self, fence: Fence) {
        self.floor.fetch_max(fence.0, Ordering::Relaxed);
    }

    /// Takes over what the walk along the log has found.
    pub(crate) fn fill(&self, heads: HashMap<ChatId, Head>) {
        let chats = heads.iter().map(|(chat, head)| (head.number, *chat)).collect();
        let marks_len = heads.values().map(|head| head.marks.len()).sum();
        *self.lock() = Open { heads, chats, marks_len };
    }

    /// Whose open draft the append at `mark` is part of, if any.
    pub(crate) fn owner(&self, number: i64, step: StepId, mark: Mark) -> Option<ChatId> {
        let open = self.lock();
        let chat = open.chats.get(&number)?;
        let head = open.heads.get(chat).filter(|head| head.step == step)?;
        let found = head.marks.binary_search_by_key(&mark.first, |mark| mark.first);
        found.is_ok_and(|i| head.marks[i] == mark).then_some(*chat)
    }

    /// The open draft of a chat.
    pub(crate) fn get(&self, chat: ChatId) -> Option<Head> {
        self.lock().heads.get(&chat).cloned()
    }

    /// How many deltas are journalled of `step`.
    pub(crate) fn seq(&self, chat: ChatId, step: StepId) -> Seq {
        self.lock().heads.get(&chat).filter(|head| head.step == step).map_or(Seq(0), |head| head.seq)
    }

    /// How many appends of the log are part of open drafts.
    pub(crate) fn marks_len(&self) -> usize {
        self.lock().marks_len
    }

    /// What somebody is told who has seen everything but the newest rows; `None` if that cannot be said from here.
    pub(crate) fn since(&self, chat: ChatId, seen: Cursor) -> Option<Option<News>> {
        let open = self.lock();
        let head = open.heads.get(&chat)?;
        let now = Cursor { version: head.version, step: head.step, seq: head.seq };
        if seen == now {
            return Some(None);
        }
        let follows = (seen.version, seen.step) == (now.version, now.step)
            && seen.seq < now.seq
            && head.ring_first() <= seen.seq.0 + 1;
        follows.then(|| {
            let news = head.rows_after(seen.seq).map(JournalRow::without_bytes);
            Some(News { cursor: now, events: news.map(Event::Delta).collect() })
        })
    }

    /// Takes in what has become durable. Chats with too many marks are added to `long`.
    pub(crate) fn tell(&self, told: impl Iterator<Item = Told>, long: &mut Vec<ChatId>) {
        let mut open = self.lock();
        for told in told {
            match told {
                Told::Appended { chat, number, version, place, rows } => {
                    let Some(first) = rows.first() else { continue };
                    let head = open.head(chat, number, version, first.step);
                    head.append(version, place, rows);
                    if self.is_long(head) && (head.marks.len() - head.merged).is_multiple_of(self.merge_len()) {
                        long.push(chat);
                    }
                    open.marks_len += 1;
                }
                Told::Committed { chat, version, step } => match open.heads.get_mut(&chat) {
                    Some(head) if head.step == step => head.version = version,
                    Some(_) => open.close(chat),
                    None => {}
                },
                Told::Deleted(chat) => open.close(chat),
                Told::Moved { chat, mark } => {
                    if let Some(head) = open.heads.get_mut(&chat) {
                        head.put(mark, 1);
                    }
                }
                Told::Merged { chat, mark, count } => {
                    if let Some(head) = open.heads.get_mut(&chat) {
                        let before = head.marks.len();
                        head.put(mark, count);
                        head.merged += 1;
                        let gone = before - head.marks.len();
                        open.marks_len -= gone;
                    }
                }
            }
        }
    }
}

impl Open {
    fn head(&mut self, chat: ChatId, number: i64, version: Version, step: StepId) -> &mut Head {
        self.heads.entry(chat).or_insert_with(|| {
            self.chats.insert(number, chat);
            Head::new(number, version, step)
        })
    }

    fn close(&mut self, chat: ChatId) {
        if let Some(head) = self.heads.remove(&chat) {
            self.chats.remove(&head.number);
            self.marks_len -= head.marks.len();
        }
    }
}

impl Head {
    pub(crate) fn new(number: i64, version: Version, step: StepId) -> Self {
        let (seq, marks, ring) = (Seq(0), Vec::new(), VecDeque::new());
        Self { number, version, step, seq, marks, merged: 0, ring, ring_len: 0, ring_bytes: 0 }
    }

    fn append(&mut self, version: Version, place: i64, rows: Arc<[JournalRow]>) {
        self.version = version;
        self.marks.push(Mark { first: self.seq.0 + 1, place });
        self.seq = Seq(self.seq.0 + rows.len() as u64);
        let newest = self.weighed(rows);
        self.ring.push_back(newest);
        while self.ring_len > RING_LEN_MAX || self.ring_bytes > RING_BYTES_MAX {
            let Some((oldest, bytes)) = self.ring.pop_front() else { break };
            self.ring_len -= oldest.len();
            self.ring_bytes -= bytes;
        }
    }

    /// Puts an append before the newest that are kept here.
    pub(crate) fn recall(&mut self, rows: Arc<[JournalRow]>) {
        let before = self.weighed(rows);
        self.ring.push_front(before);
    }

    fn weighed(&mut self, rows: Arc<[JournalRow]>) -> (Arc<[JournalRow]>, usize) {
        let bytes = rows.iter().map(|row| row.delta.bytes()).sum();
        self.ring_len += rows.len();
        self.ring_bytes += bytes;
        (rows, bytes)
    }

    /// Puts an append in place of those that tell the same `count` deltas.
    pub(crate) fn put(&mut self, mark: Mark, count: u64) {
        let begin = self.marks.partition_point(|other| other.first < mark.first);
        let end = self.marks.partition_point(|other| other.first < mark.first + count);
        self.marks.splice(begin..end, [mark]);
    }

    /// Where the newest rows begin that are kept here.
    pub(crate) fn ring_first(&self) -> u64 {
        self.newest_rows().next().map_or(self.seq.0 + 1, |row| row.seq.0)
    }

    /// Those of the newest rows that come after `seen`. Costs nothing for the others.
    fn rows_after(&self, seen: Seq) -> impl Iterator<Item = &JournalRow> {
        let begin = self.ring.partition_point(|(rows, _)| rows.last().is_none_or(|row| row.seq <= seen));
        self.ring.range(begin..).flat_map(|(rows, _)| rows.iter()).filter(move |row| row.seq > seen)
    }

    /// The newest rows, as many as are kept here.
    pub(crate) fn newest_rows(&self) -> impl Iterator<Item = &JournalRow> {
        self.ring.iter().flat_map(|(rows, _)| rows.iter())
    }
}
