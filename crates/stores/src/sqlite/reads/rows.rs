//! Reading stored texts and the bytes they refer to.

use everturn_core::blob::Blob;
use everturn_core::ids::{ChatId, Seq, Timestamp};
use everturn_core::view::JournalRow;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::shape::{self, Bytes, Shape, Stored, bundle};
use crate::sqlite::columns::{self, id};
use crate::sqlite::error::TxError;
use crate::sqlite::journal::open_drafts::{JournalPosition, OpenDraft};
use crate::store::StoreError;
use crate::tables::Fetch;

/// What a text says, with the bytes it refers to.
pub(crate) fn build<S: Shape, E: From<StoreError>>(
    connection: &Connection,
    chat: ChatId,
    stored: Stored<S>,
    fetch: Fetch,
) -> Result<S::Core, TxError<E>> {
    let mut bytes = Bytes::new();
    for name in stored.wants() {
        let found = match fetch {
            Fetch::Bytes => {
                let mut select = connection.prepare_cached("SELECT bytes FROM blobs WHERE chat = ?1 AND id = ?2")?;
                let found = select.query_row(params![id(chat), name.as_bytes()], |row| row.get::<_, Vec<u8>>(0));
                found.optional()?.map(|bytes| shape::checked(name, bytes)).transpose()?
            }
            // The length stands before the bytes: they are not read for it.
            Fetch::Lengths => {
                let sql = "SELECT length(bytes) FROM blobs WHERE chat = ?1 AND id = ?2";
                let mut select = connection.prepare_cached(sql)?;
                let kept = |row: &rusqlite::Row<'_>| Ok(Blob::Kept(columns::unsigned(row, 0)? as usize));
                select.query_row(params![id(chat), name.as_bytes()], kept).optional()?
            }
        };
        bytes.extend(found.map(|found| (name, found)));
    }
    Ok(stored.build(&bytes)?)
}

/// The rows of an open draft behind `after`; `None` if some have been moved meanwhile.
pub(crate) fn journal<E: From<StoreError>>(
    connection: &Connection,
    chat: ChatId,
    head: &OpenDraft,
    after: Seq,
    fetch: Fetch,
) -> Result<Option<Vec<JournalRow>>, TxError<E>> {
    let kept = head.newest_first();
    let mut rows = Vec::new();
    if after.0 + 1 < kept {
        let begin = head.positions.partition_point(|position| position.first <= after.0 + 1).saturating_sub(1);
        for position in head.positions[begin..].iter().take_while(|position| position.first < kept) {
            let Some(found) = append(connection, chat, head, *position, fetch)? else { return Ok(None) };
            rows.extend(found.into_iter().filter(|row| row.seq > after && row.seq.0 < kept));
        }
    }
    let newest = head.newest.iter().filter(|row| row.seq > after);
    match fetch {
        Fetch::Bytes => rows.extend(newest.cloned()),
        Fetch::Lengths => rows.extend(newest.map(JournalRow::without_bytes)),
    }
    let follows = rows.iter().zip(after.0 + 1..).all(|(row, seq)| row.seq.0 == seq);
    if !follows || rows.len() as u64 != head.seq.0 - after.0 {
        return Err(
            StoreError::Unreadable(format!("the journal of chat {chat} has a gap in step {}", head.step)).into()
        );
    }
    Ok(Some(rows))
}

/// The deltas of one append, if it is where it was.
fn append<E: From<StoreError>>(
    connection: &Connection,
    chat: ChatId,
    head: &OpenDraft,
    position: JournalPosition,
    fetch: Fetch,
) -> Result<Option<Vec<JournalRow>>, TxError<E>> {
    match find(connection, head, position, |entry| entry.rows())? {
        Some(stored) => build(connection, chat, stored?, fetch).map(Some),
        None => Ok(None),
    }
}

/// The stored text of one append, and its time.
pub(crate) fn text<E: From<StoreError>>(
    connection: &Connection,
    head: &OpenDraft,
    position: JournalPosition,
) -> Result<Option<(Timestamp, String)>, TxError<E>> {
    find(connection, head, position, |entry| (entry.at, entry.text().to_owned()))
}

fn find<T, E: From<StoreError>>(
    connection: &Connection,
    head: &OpenDraft,
    position: JournalPosition,
    read: impl FnOnce(&bundle::Entry<'_>) -> T,
) -> Result<Option<T>, TxError<E>> {
    let wanted = bundle::Head { chat: head.number, step: head.step, first: Seq(position.first) };
    let mut select = connection.prepare_cached("SELECT body FROM drafts WHERE place = ?1")?;
    let mut found = select.query(params![position.place])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let entries = bundle::parse(columns::text(row, 0)?)?;
    Ok(entries.iter().rfind(|entry| entry.head == wanted).map(read))
}
