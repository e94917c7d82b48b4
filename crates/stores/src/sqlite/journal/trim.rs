//! Keeps the log short.
//!
//! When a step is over, its rows are dead and stay where they are. Once half of the log is dead, rows are deleted from
//! its front, a few hundred at a time; live ones there are first copied to the end. So a long answer never keeps dead
//! rows of other chats, and copying costs no more than was gained. Trimming late, or never, does no harm.

// tidy: allow(checkpoint) because SQLite calls it so: moving the write-ahead log into the database file
use std::sync::atomic::Ordering;
use std::time::Duration;

use everturn_core::ids::{ChatId, Seq, Timestamp};
use rusqlite::params;

use crate::failpoint::failpoint;
use crate::shape::{self, BadShape, bundle};
use crate::sqlite::columns::text;
use crate::sqlite::error::TxError;
use crate::sqlite::journal::open_drafts::{JournalPosition, OpenDraft, TxEffect};
use crate::sqlite::reads::rows;
use crate::sqlite::writer::thread::{DurabilityNeed, Writer};
use crate::sqlite::writer::tx::WriteTx;
use crate::store::StoreError;

/// Shorter logs are not trimmed.
const TRIM_LEN_MIN: usize = 1_024;
/// Appends examined per transaction, not counting the rest of the last row.
const TRIM_LEN_MAX: usize = 512;
/// Text of a merged append.
const MERGED_BYTES_MAX: usize = 32 << 10;
/// Text merged at once, while other jobs wait.
const MERGE_BYTES_MAX: usize = 256 << 10;
/// Pages in SQLite's write-ahead log before the writer waits for a checkpoint.
const PAGES_MAX: u32 = 16 << 10;
/// How long a checkpoint waits for readers.
const READERS_MAX: Duration = Duration::from_millis(50);

impl Writer {
    /// Merges and trims while no job waits; and at least as much as `jobs` may have made necessary, or the log would grow
    /// without limit under load.
    pub(crate) fn tidy(&mut self, jobs: usize, is_idle: impl Fn() -> bool) {
        for round in 0_usize.. {
            let done = if let Some(chat) = self.long.pop() {
                self.transact(DurabilityNeed::Process, |tx| tx.merge(chat))
            } else if self.is_trim_due() {
                self.transact(DurabilityNeed::Process, |tx| tx.trim())
            } else {
                break;
            };
            if done.is_err() || (round > 2 * jobs / TRIM_LEN_MAX && !is_idle()) {
                break; // The next batch continues.
            }
        }
        if self.health.pages.load(Ordering::Relaxed) >= PAGES_MAX {
            self.write_back();
        }
    }

    fn is_trim_due(&self) -> bool {
        let len = self.log.len;
        len >= TRIM_LEN_MIN && len - self.drafts.positions_len().min(len) >= len / 2
    }

    /// The checkpointer does not reach the end of a log that grows. Here, between two batches, it does not grow.
    fn write_back(&mut self) {
        if let Some(connection) = &self.connection {
            let _ = connection.busy_timeout(READERS_MAX);
            let _ = connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())); // Tried again after the next batch.
            let _ = connection.busy_timeout(crate::sqlite::setup::connect::BUSY_MAX);
        }
    }
}

impl WriteTx<'_> {
    /// Deletes the oldest rows of the log, and copies their live appends to its end.
    pub(crate) fn trim(&mut self) -> Result<(), rusqlite::Error> {
        failpoint!("sqlite-trim");
        let connection = self.connection;
        let mut select = connection.prepare_cached("SELECT place, body FROM drafts ORDER BY place")?;
        let mut oldest = select.query([])?;
        let (mut last, mut len, mut live, mut damaged) = (None, 0, Vec::new(), Vec::new());
        while len < TRIM_LEN_MAX
            && let Some(row) = oldest.next()?
        {
            let place: i64 = row.get(0)?;
            let Ok(entries) = text(row, 1).map_err(drop).and_then(|text| bundle::parse(text).map_err(drop)) else {
                damaged.push(place); // It stays: reading the chat it belongs to reports the damage.
                continue;
            };
            for entry in entries {
                let position = JournalPosition { first: entry.head.first.0, place };
                if let Some(chat) = self.drafts.owner(entry.head.chat, entry.head.step, position) {
                    live.push((chat, entry.head, entry.at, entry.text().to_owned()));
                }
                len += 1;
            }
            last = Some(place);
        }
        drop(oldest);
        for (chat, head, at, deltas) in live {
            let place = self.log(head, at, &deltas)?;
            self.effects.push(TxEffect::Moved { chat, position: JournalPosition { first: head.first.0, place } });
        }
        self.flush()?;
        failpoint!("sqlite-trim-middle");
        if let Some(last) = last {
            let kept = damaged.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
            let delete = format!("DELETE FROM drafts WHERE place <= ?1 AND place NOT IN ({kept})");
            connection.prepare_cached(&delete)?.execute(params![last])?;
            self.log.len -= len.min(self.log.len);
        }
        Ok(())
    }

    /// Merges the older appends of a long draft into a few large ones. The small ones are dead then.
    pub(crate) fn merge(&mut self, chat: ChatId) -> Result<(), rusqlite::Error> {
        let Some(head) = self.drafts.get(chat).filter(|head| self.drafts.is_long(head)) else {
            return Ok(());
        };
        let (mut merged, mut all_bytes) = (Merged::default(), 0);
        for (i, position) in head.positions.iter().enumerate().skip(head.merged).take(self.drafts.merge_len()) {
            let (at, text) = match rows::text::<StoreError>(self.connection, &head, *position) {
                Ok(Some(found)) => found,
                Err(TxError::Failed(error)) => return Err(error),
                Ok(None) | Err(TxError::Refused(_)) => break, // Reading the draft reports it.
            };
            if merged.bytes + text.len() > MERGED_BYTES_MAX {
                self.log_merged(chat, &head, std::mem::take(&mut merged))?;
            }
            if all_bytes > MERGE_BYTES_MAX {
                break; // Other jobs wait. The rest is merged later.
            }
            all_bytes += text.len();
            merged.first.get_or_insert(*position);
            merged.end = head.positions.get(i + 1).map_or(head.seq.0 + 1, |next| next.first);
            merged.bytes += text.len();
            merged.pieces.push((at, text));
        }
        self.log_merged(chat, &head, merged)
    }

    fn log_merged(&mut self, chat: ChatId, head: &OpenDraft, merged: Merged) -> Result<(), rusqlite::Error> {
        let (Some(position), Some((at, _))) = (merged.first, merged.pieces.first()) else { return Ok(()) };
        failpoint!("sqlite-merge");
        let (text, _) = shape::rows::join(&merged.pieces).map_err(unreadable)?;
        let head = bundle::Head { chat: head.number, step: head.step, first: Seq(position.first) };
        let place = self.log(head, *at, &text)?;
        self.effects.push(TxEffect::Merged {
            chat,
            position: JournalPosition { place, ..position },
            count: merged.end - position.first,
        });
        Ok(())
    }
}

/// Appends that become one.
#[derive(Default)]
struct Merged {
    first: Option<JournalPosition>,
    /// The delta behind the last.
    end: u64,
    pieces: Vec<(Timestamp, String)>,
    bytes: usize,
}

pub(crate) fn unreadable(bad: BadShape) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, bad.into())
}
