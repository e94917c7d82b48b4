//! The newest journal rows of an open draft, in memory.
//!
//! Subscribers of a chat that is answered right now get its deltas from here, without a read. Only stored rows are in
//! here, and never more than a few: what is missing is read from the store.

use std::collections::VecDeque;
use std::sync::Arc;

use everturn_core::ids::Seq;
use everturn_core::view::{Cursor, Event, JournalRow};

use crate::store::News;

/// Rows kept at most: half a second of an answer, and more.
const LEN_MAX: usize = 32;
/// Bytes of content kept at most.
const BYTES_MAX: usize = 16 << 10;

/// The newest rows of one draft, append by append.
#[derive(Debug, Clone, Default)]
pub(crate) struct NewestRows {
    /// Each append with its bytes of content.
    appends: VecDeque<(Arc<[JournalRow]>, usize)>,
    len: usize,
    bytes: usize,
}

impl NewestRows {
    /// Adds an append, and drops old ones over the limits.
    pub(crate) fn push(&mut self, rows: Arc<[JournalRow]>) {
        let append = self.counted(rows);
        self.appends.push_back(append);
        while self.len > LEN_MAX || self.bytes > BYTES_MAX {
            let Some((oldest, bytes)) = self.appends.pop_front() else { break };
            self.len -= oldest.len();
            self.bytes -= bytes;
        }
    }

    /// Puts an append in front of the others, over the limits too: after a start, until the draft continues.
    #[cfg(feature = "sqlite")]
    pub(crate) fn push_front(&mut self, rows: Arc<[JournalRow]>) {
        let append = self.counted(rows);
        self.appends.push_front(append);
    }

    fn counted(&mut self, rows: Arc<[JournalRow]>) -> (Arc<[JournalRow]>, usize) {
        let bytes = rows.iter().map(|row| row.delta.bytes()).sum();
        self.len += rows.len();
        self.bytes += bytes;
        (rows, bytes)
    }

    /// All rows, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &JournalRow> {
        self.appends.iter().flat_map(|(rows, _)| rows.iter())
    }

    /// Number of the first row.
    pub(crate) fn first(&self) -> Option<Seq> {
        self.iter().next().map(|row| row.seq)
    }

    /// Rows after `seen`. Does not visit the appends before it.
    fn after(&self, seen: Seq) -> impl Iterator<Item = &JournalRow> {
        let begin = self.appends.partition_point(|(rows, _)| rows.last().is_none_or(|row| row.seq <= seen));
        self.appends.range(begin..).flat_map(|(rows, _)| rows.iter()).filter(move |row| row.seq > seen)
    }

    /// News for a subscriber at `seen` of a draft at `now`; the outer `None` if the rows here do not suffice.
    pub(crate) fn since(&self, seen: Cursor, now: Cursor) -> Option<Option<News>> {
        if seen == now {
            return Some(None);
        }
        let is_same_draft = (seen.version, seen.step) == (now.version, now.step) && seen.seq < now.seq;
        let has_all = self.first().is_some_and(|first| first.0 <= seen.seq.0 + 1);
        (is_same_draft && has_all).then(|| {
            let events = self.after(seen.seq).map(JournalRow::without_bytes).map(Event::Delta).collect();
            Some(News { cursor: now, events })
        })
    }
}
