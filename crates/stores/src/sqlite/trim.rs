//! The log is kept short.
//!
//! When a step is over, its rows are dead and stay where they are. Once half the log is, rows are deleted from its front,
//! a few hundred at a time; one that is still alive there is first copied to the end. So a long answer never keeps the
//! rows of others from going, and copying never costs more than was gained. Trimming late, or never, harms nobody.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everturn_core::ids::{ChatId, Seq, StepId, Version};
use rusqlite::{Connection, params};

use super::desk::{Desk, Log};
use super::heads::{Head, MARKS_LEN_MAX, Mark, Told};
use super::rows;
use super::trouble::Halt;
use super::value::{chat_id, id, number, unsigned};
use super::writer::{Needs, Writer};
use crate::failpoint::failpoint;
use crate::shape;
use crate::store::StoreError;

/// A log that is shorter is left alone.
const TRIM_LEN_MIN: usize = 1_024;
/// How many rows are looked at in one transaction.
const TRIM_LEN_MAX: usize = 512;
/// How many rows of a long draft are merged at once.
const MERGE_LEN: usize = MARKS_LEN_MAX / 2;
/// How much text one merged row has.
const MERGED_BYTES_MAX: usize = 32 << 10;
/// How long SQLite's own log may get, in pages, before the writer waits for it to be written back.
const PAGES_MAX: u32 = 16 << 10;
/// How long it waits for those who read.
const READERS_MAX: Duration = Duration::from_millis(50);

impl Writer {
    /// Does what nobody waits for, as long as nobody comes; and at least as much as `jobs` may have made necessary, or
    /// under load the log would grow for ever.
    pub(super) fn tidy(&mut self, jobs: usize, is_idle: impl Fn() -> bool) {
        for round in 0_usize.. {
            let done = if let Some(chat) = self.long.pop() {
                self.transact(Needs::Process, |desk| desk.merge(chat))
            } else if self.is_trim_due() {
                self.transact(Needs::Process, |desk| desk.trim())
            } else {
                break;
            };
            if done.is_err() || (round > 2 * jobs / TRIM_LEN_MAX && !is_idle()) {
                break; // A later one will do.
            }
        }
        if self.health.pages.load(Ordering::Relaxed) >= PAGES_MAX {
            self.write_back();
        }
    }

    fn is_trim_due(&self) -> bool {
        let len = self.log.len;
        len >= TRIM_LEN_MIN && len - self.heads.rows_len().min(len) >= len / 2
    }

    /// The keeper does not get to the end of the log while it grows. Here it does not.
    fn write_back(&mut self) {
        if let Some(connection) = &self.connection {
            let _ = connection.busy_timeout(READERS_MAX);
            let _ = connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())); // Or at the next chance.
            let _ = connection.busy_timeout(super::connect::BUSY_MAX);
        }
    }
}

impl Desk<'_> {
    /// Deletes the oldest rows of the log, and copies those to its end that are still needed.
    pub(super) fn trim(&mut self) -> Result<(), rusqlite::Error> {
        failpoint!("sqlite-trim");
        let connection = self.connection;
        let sql = "SELECT place, chat, step, first FROM drafts ORDER BY place LIMIT ?1";
        let mut select = connection.prepare_cached(sql)?;
        let mut oldest = select.query(params![TRIM_LEN_MAX as i64])?;
        let (mut last, mut live) = (None, Vec::new());
        while let Some(row) = oldest.next()? {
            let (place, first) = (row.get(0)?, unsigned(row, 3)?);
            let (chat, mark) = (chat_id(row, 1)?, Mark { first, place });
            if self.heads.is_live(chat, StepId(unsigned(row, 2)?), mark) {
                live.push((chat, mark));
            }
            last = Some(place);
        }
        for (chat, mark) in live {
            let sql = "INSERT INTO drafts (place, chat, step, first, count, body) \
                SELECT ?1, chat, step, first, count, body FROM drafts WHERE place = ?2";
            connection.prepare_cached(sql)?.execute(params![self.log.next, mark.place])?;
            self.told.push(Told::Moved { chat, mark: Mark { place: self.log.next, ..mark } });
            self.log.next += 1;
            self.log.len += 1;
        }
        failpoint!("sqlite-trim-middle");
        if let Some(last) = last {
            let deleted = connection.prepare_cached("DELETE FROM drafts WHERE place <= ?1")?.execute(params![last])?;
            self.log.len -= deleted.min(self.log.len);
        }
        Ok(())
    }

    /// Writes the older rows of a long draft again as a few large ones. The small ones are dead then.
    pub(super) fn merge(&mut self, chat: ChatId) -> Result<(), rusqlite::Error> {
        let Some(head) = self.heads.get(chat).filter(|head| head.marks.len() - head.merged >= MARKS_LEN_MAX) else {
            return Ok(());
        };
        let marks = &head.marks[head.merged..head.merged + MERGE_LEN];
        let (mut merged, mut bytes) = (Vec::new(), 0);
        for mark in marks {
            let found = match rows::row::<StoreError>(self.connection, chat, head.step, *mark) {
                Ok(Some(found)) => found,
                Err(Halt::Failed(error)) => return Err(error),
                Ok(None) | Err(Halt::No(_)) => return Ok(()), // Whoever reads it says so.
            };
            let len: usize = found.iter().map(|row| row.delta.bytes()).sum();
            if bytes + len > MERGED_BYTES_MAX && !merged.is_empty() {
                self.put_merged(chat, &head, &merged)?;
                merged.clear();
                bytes = 0;
            }
            bytes += len;
            merged.extend(found);
        }
        self.put_merged(chat, &head, &merged)
    }

    fn put_merged(
        &mut self,
        chat: ChatId,
        head: &Head,
        rows: &[everturn_core::view::Row],
    ) -> Result<(), rusqlite::Error> {
        let Some(first) = rows.first() else { return Ok(()) };
        failpoint!("sqlite-merge");
        let (place, count) = (self.log.next, rows.len() as u64);
        let sql = "INSERT INTO drafts (place, chat, step, first, count, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let body = shape::rows::write(rows).json; // Its bytes are stored.
        let row = params![place, id(chat), number(head.step.0)?, number(first.seq.0)?, number(count)?, body];
        self.connection.prepare_cached(sql)?.execute(row)?;
        self.log.next += 1;
        self.log.len += 1;
        self.told.push(Told::Merged { chat, mark: Mark { first: first.seq.0, place }, count });
        Ok(())
    }
}

/// Walks along the log and finds all open drafts.
pub(super) fn walk(connection: &Connection) -> Result<(Log, HashMap<ChatId, Head>), rusqlite::Error> {
    let sql = "SELECT drafts.place, drafts.chat, drafts.step, drafts.first, drafts.count, chats.version \
        FROM drafts LEFT JOIN chats ON chats.id = drafts.chat AND chats.step = drafts.step ORDER BY drafts.place";
    let mut select = connection.prepare(sql)?;
    let mut found = select.query([])?;
    let (mut log, mut heads) = (Log { next: 1, len: 0 }, HashMap::new());
    while let Some(row) = found.next()? {
        let (place, chat, step) = (row.get(0)?, chat_id(row, 1)?, StepId(unsigned(row, 2)?));
        let (first, count) = (unsigned(row, 3)?, unsigned(row, 4)?);
        log = Log { next: place + 1, len: log.len + 1 };
        if row.get_ref(5)? == rusqlite::types::ValueRef::Null {
            continue; // Its step is over.
        }
        let head = heads.entry(chat).or_insert(Head::new(Version(unsigned(row, 5)?), step));
        head.put(Mark { first, place }, count);
        head.seq = head.seq.max(Seq(first + count - 1));
    }
    Ok((log, heads))
}
