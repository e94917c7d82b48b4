//! Reading around damage.
//!
//! A list that meets a damaged page or row is read again, each chat by itself, and leaves out the damaged ones. That
//! takes longer, so it is done only then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use everturn_core::ids::{ChatId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::sqlite::columns::chat_id;
use crate::sqlite::error::{TxError, is_damage};
use crate::store::StoreError;

/// Damaged chats that lists left out. Each is logged once.
#[derive(Debug, Default)]
pub(crate) struct DamageLog(Mutex<BTreeSet<ChatId>>);

impl DamageLog {
    /// What was read of a chat; `None` if the chat is damaged.
    pub(crate) fn spare<T>(
        &self,
        chat: ChatId,
        read: Result<T, TxError<StoreError>>,
    ) -> Result<Option<T>, TxError<StoreError>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.is_damage() => {
                if self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(chat) {
                    let error = StoreError::from(error);
                    tracing::error!(%chat, %error, "chat damaged: lists leave it out; restore a backup");
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Every chat that can still be named, with its time in lists: by the index of all chats, and if that is damaged, by the
/// table too.
pub(crate) fn all(connection: &Connection) -> Result<Vec<(Timestamp, ChatId)>, rusqlite::Error> {
    let mut chats = BTreeMap::new();
    let mut note = |row: &Row<'_>| {
        chats.insert(chat_id(row, 0)?, Timestamp(row.get(1)?));
        Ok(())
    };
    if each(connection, "SELECT id, touched FROM chats INDEXED BY chats_of_all", &mut note)
        .is_err_and(|e| is_damage(&e))
    {
        let last = "SELECT seq FROM sqlite_sequence WHERE name = 'chats'";
        let end: Option<i64> = connection.query_row(last, [], |row| row.get(0)).optional()?;
        let rows = "SELECT id, touched, number FROM chats NOT INDEXED WHERE number > ?1 ORDER BY number";
        walk(connection, rows, end.unwrap_or(0), |row| {
            if let Err(error) = note(row)
                && !is_damage(&error)
            {
                return Err(error);
            }
            row.get(2)
        })?;
    }
    Ok(chats.into_iter().map(|(chat, touched)| (touched, chat)).collect())
}

/// Chats that are busy or have commands to apply, by the index of these; every chat if that is damaged.
pub(crate) fn unsettled(connection: &Connection) -> Result<BTreeSet<ChatId>, rusqlite::Error> {
    let mut chats = BTreeSet::new();
    let sql = "SELECT id FROM chats INDEXED BY chats_unsettled WHERE unsettled = 1";
    let read = each(connection, sql, &mut |row| {
        chats.insert(chat_id(row, 0)?);
        Ok(())
    });
    match read {
        Err(error) if is_damage(&error) => Ok(all(connection)?.into_iter().map(|(_, chat)| chat).collect()),
        read => read.map(|()| chats),
    }
}

fn each(
    connection: &Connection,
    sql: &str,
    note: &mut impl FnMut(&Row<'_>) -> Result<(), rusqlite::Error>,
) -> Result<(), rusqlite::Error> {
    let mut select = connection.prepare(sql)?;
    let mut found = select.query([])?;
    while let Some(row) = found.next()? {
        note(row)?;
    }
    Ok(())
}

/// Numbers in a row without a readable row after which a walk ends. A damaged page hides far fewer.
const SKIPPED_MAX: u32 = 1 << 18;

/// Visits rows in order of their numbers, which `visit` returns, up to `end`. `sql` selects those after a number. Rows on
/// damaged pages are skipped.
pub(crate) fn walk(
    connection: &Connection,
    sql: &str,
    end: i64,
    mut visit: impl FnMut(&Row<'_>) -> Result<i64, rusqlite::Error>,
) -> Result<(), rusqlite::Error> {
    let mut select = connection.prepare(sql)?;
    let (mut last, mut skipped) = (0, 0);
    while last < end && skipped < SKIPPED_MAX {
        let mut found = select.query([last])?;
        loop {
            match found.next() {
                Ok(Some(row)) => {
                    last = visit(row)?;
                    skipped = 0;
                }
                Ok(None) => return Ok(()),
                Err(error) if is_damage(&error) => {
                    last += 1; // There may be readable rows behind the page.
                    skipped += 1;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
