//! Deleting a chat with all its rows.

use rusqlite::params;

use crate::shape::bundle::{self, Bundle};
use crate::sqlite::columns::{id, text};
use crate::sqlite::error::TxError;
use crate::sqlite::journal::open_drafts::TxEffect;
use crate::sqlite::writer::tx::{CachedChat, WriteTx};
use crate::store::{AppendRight, WriteError};

/// Tables with rows of chats. Messages occur twice: rewound ones have an index of their own.
const ROWS: [&str; 9] = [
    "DELETE FROM inbox WHERE chat = ?1",
    "DELETE FROM messages WHERE chat = ?1 AND gone IS NULL",
    "DELETE FROM messages WHERE chat = ?1 AND gone IS NOT NULL",
    "DELETE FROM spoken WHERE chat = ?1",
    "DELETE FROM attempts WHERE chat = ?1",
    "DELETE FROM calls WHERE chat = ?1",
    "DELETE FROM blobs WHERE chat = ?1", // Bytes belong to one chat.
    "DELETE FROM used_below WHERE chat = ?1",
    "UPDATE chats SET orphaned = 1 WHERE parent = ?1",
];

impl WriteTx<'_> {
    /// Deletes a chat with all its rows.
    pub(crate) fn delete(&mut self, right: AppendRight) -> Result<(), TxError<WriteError>> {
        let CachedChat { fence, number, .. } = *self.held(right)?;
        self.drafts.raise_floor(fence);
        for sql in ROWS {
            self.connection.prepare_cached(sql)?.execute(params![id(right.chat)])?;
        }
        self.erase(number)?;
        self.connection.prepare_cached("DELETE FROM chats WHERE id = ?1")?.execute(params![id(right.chat)])?;
        self.cache.remove(&right.chat);
        self.effects.push(TxEffect::Deleted(right.chat));
        Ok(())
    }

    /// Rewrites rows of the log without the chat's appends. The log has no index, but it is short.
    fn erase(&mut self, number: i64) -> Result<(), rusqlite::Error> {
        self.flush()?;
        self.log.len = 0; // Counted anew.
        let mut select = self.connection.prepare_cached("SELECT place, body FROM drafts")?;
        let (mut rows, mut changed) = (select.query([])?, Vec::new());
        while let Some(row) = rows.next()? {
            let place: i64 = row.get(0)?;
            let text = text(row, 1).unwrap_or_default();
            let Ok(entries) = bundle::parse(text) else {
                let heads = bundle::heads_of_damaged(text);
                if !heads.is_empty() && heads.iter().all(|head| head.chat == number) {
                    changed.push((place, None));
                }
                continue; // Other chats report the damage.
            };
            let mut others = Bundle::default();
            for entry in entries.iter().filter(|entry| entry.head.chat != number) {
                others.add(entry.head, entry.at, entry.text());
                self.log.len += 1;
            }
            if entries.iter().any(|entry| entry.head.chat == number) {
                changed.push((place, (!others.is_empty()).then(|| others.take())));
            }
        }
        drop(rows);
        for (place, body) in changed {
            match body {
                Some(body) => self
                    .connection
                    .prepare_cached("UPDATE drafts SET body = ?2 WHERE place = ?1")?
                    .execute(params![place, body])?,
                None => {
                    self.connection.prepare_cached("DELETE FROM drafts WHERE place = ?1")?.execute(params![place])?
                }
            };
        }
        Ok(())
    }
}
