//! The scan of the log when a store is opened.
//!
//! It finds the positions of the open drafts, and keeps the rows that it reads on the way: all their chats are about to
//! be loaded, and each would otherwise read the log again.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use everturn_core::ids::{ChatId, Seq, StepId, Version};
use everturn_core::view::JournalRow;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::shape::rows::Rows;
use crate::shape::{Bytes, Stored, bundle};
use crate::sqlite::columns::{chat_id, text, unsigned};
use crate::sqlite::error::is_damage;
use crate::sqlite::journal::open_drafts::{JournalPosition, OpenDraft};
use crate::sqlite::reads::damage;
use crate::sqlite::setup::open::OpenError;
use crate::sqlite::writer::tx::LogEnd;

/// Bytes of rows kept from the scan. The oldest go first.
const KEPT_BYTES_MAX: usize = 48 << 20;
/// Memory of a row beside its content, roughly.
const ROW_BYTES: usize = 128;

/// Scans the log and finds all open drafts. A log with damaged pages is replaced by a copy of what can be read: it could
/// neither grow nor be trimmed.
pub(crate) fn scan(connection: &Connection) -> Result<(LogEnd, HashMap<ChatId, OpenDraft>), OpenError> {
    match scan_keeping(connection, KEPT_BYTES_MAX) {
        Err(OpenError::Damaged(why)) => {
            tracing::error!(
                why,
                "journal page is damaged: its deltas are lost; run `everturn doctor` and restore a backup"
            );
            replace(connection)?;
            scan_keeping(connection, KEPT_BYTES_MAX)
        }
        scanned => scanned,
    }
}

/// Begins a new log with the rows that can be read. The damaged one stays in the file under another name.
fn replace(connection: &Connection) -> Result<(), OpenError> {
    let mut kept = Vec::new();
    damage::walk(connection, "SELECT place, body FROM drafts WHERE place > ?1 ORDER BY place", i64::MAX, |row| {
        let place = row.get(0)?;
        kept.push((place, row.get::<_, Value>(1)?));
        Ok(place)
    })?;
    let tx = connection.unchecked_transaction()?;
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'drafts_damaged_%'";
    let number = tx.query_row(tables, [], |row| row.get::<_, i64>(0))? + 1;
    tx.execute_batch(&format!(
        "ALTER TABLE drafts RENAME TO drafts_damaged_{number};
        CREATE TABLE drafts (place INTEGER PRIMARY KEY, body TEXT NOT NULL);"
    ))?;
    for (place, body) in kept {
        tx.prepare_cached("INSERT INTO drafts (place, body) VALUES (?1, ?2)")?.execute(params![place, body])?;
    }
    Ok(tx.commit()?)
}

pub(crate) fn scan_keeping(
    connection: &Connection,
    bytes_max: usize,
) -> Result<(LogEnd, HashMap<ChatId, OpenDraft>), OpenError> {
    let mut chat_of = connection.prepare("SELECT id, step, version FROM chats WHERE number = ?1")?;
    let mut known = HashMap::new();
    let (mut log, mut drafts, mut read) = (LogEnd { next: 1, len: 0 }, HashMap::new(), ScannedRows::default());
    visit(connection, |place, text| {
        log.next = place + 1;
        for (bundle::Head { chat: number, step, first }, rows) in appends(place, text) {
            log.len += 1;
            let chat = match known.entry(number) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => {
                    let asked = |row: &rusqlite::Row<'_>| {
                        Ok((chat_id(row, 0)?, StepId(unsigned(row, 1)?), Version(unsigned(row, 2)?)))
                    };
                    let found = chat_of.query_row(params![number], asked).optional();
                    *unknown.insert(found.or_else(|error| if is_damage(&error) { Ok(None) } else { Err(error) })?)
                }
            };
            let Some((chat, _, version)) = chat.filter(|(_, open, _)| *open == step) else { continue }; // It is over.
            let count = rows.as_ref().map_or(1, Stored::count);
            let head = drafts.entry(chat).or_insert(OpenDraft::new(number, version, step));
            head.put(JournalPosition { first: first.0, place }, count);
            head.seq = head.seq.max(Seq(first.0 + count.saturating_sub(1)));
            read.keep(chat, first, rows, bytes_max);
        }
        Ok(())
    })?;
    read.give(&mut drafts);
    Ok((log, drafts))
}

/// The appends of a row, with their deltas if they can be read; reading the draft later reports those that cannot. A
/// row without readable heads is lost, as if the power had failed before it was written.
fn appends(place: i64, text: Option<&str>) -> Vec<(bundle::Head, Option<Stored<Rows>>)> {
    let text = text.unwrap_or_default();
    match bundle::parse(text) {
        Ok(entries) => entries.iter().map(|entry| (entry.head, entry.rows().ok())).collect(),
        Err(bad) => {
            tracing::error!(place, %bad, "journal row is damaged: chats with deltas in it cannot continue; run `everturn doctor`");
            bundle::heads_of_damaged(text).into_iter().map(|head| (head, None)).collect()
        }
    }
}

/// Visits the rows of the log in order, without the text if it cannot be read.
fn visit(
    connection: &Connection,
    mut visit: impl FnMut(i64, Option<&str>) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let mut select = connection.prepare("SELECT place, body FROM drafts ORDER BY place")?;
    let mut found = select.query([])?;
    while let Some(row) = found.next()? {
        visit(row.get(0)?, text(row, 1).ok())?;
    }
    Ok(())
}

/// The newest rows that were read.
#[derive(Default)]
struct ScannedRows {
    /// The appends of each chat, by their first delta.
    appends: HashMap<ChatId, BTreeMap<u64, Arc<[JournalRow]>>>,
    /// Order in which they were read, with their bytes.
    order: VecDeque<(ChatId, u64, usize)>,
    bytes: usize,
}

impl ScannedRows {
    /// Keeps an append, unless it has bytes that are stored elsewhere.
    fn keep(&mut self, chat: ChatId, first: Seq, rows: Option<Stored<Rows>>, bytes_max: usize) {
        let rows = rows.filter(|rows| rows.wants().is_empty()).and_then(|rows| rows.build(&Bytes::new()).ok());
        let Some(rows) = rows else { return };
        let bytes = rows.iter().map(|row| ROW_BYTES + row.delta.weight()).sum();
        self.bytes += bytes;
        self.order.push_back((chat, first.0, bytes));
        self.appends.entry(chat).or_default().insert(first.0, rows.into());
        while self.bytes > bytes_max
            && let Some((chat, first, bytes)) = self.order.pop_front()
        {
            self.bytes -= bytes;
            if let Some(appends) = self.appends.get_mut(&chat) {
                appends.remove(&first);
            }
        }
    }

    /// Gives each draft its newest rows, back to the first that were not kept.
    fn give(self, drafts: &mut HashMap<ChatId, OpenDraft>) {
        for (chat, mut appends) in self.appends {
            let Some(head) = drafts.get_mut(&chat) else { continue };
            let mut end = head.seq.0 + 1;
            for position in head.positions.clone().into_iter().rev() {
                let rows = appends.remove(&position.first).filter(|rows| position.first + rows.len() as u64 == end);
                let Some(rows) = rows else { break };
                head.newest.push_front(rows);
                end = position.first;
            }
        }
    }
}
