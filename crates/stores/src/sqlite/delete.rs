//! A chat, and nothing left of it.

use rusqlite::params;

use super::desk::Desk;
use super::heads::Told;
use super::trouble::Halt;
use super::value::id;
use crate::store::{Pen, WriteError};

/// Where a chat has rows. Messages twice: those that are gone have an index of their own.
const ROWS: [&str; 7] = [
    "DELETE FROM inbox WHERE chat = ?1",
    "DELETE FROM messages WHERE chat = ?1 AND gone IS NULL",
    "DELETE FROM messages WHERE chat = ?1 AND gone IS NOT NULL",
    "DELETE FROM spoken WHERE chat = ?1",
    "DELETE FROM attempts WHERE chat = ?1",
    "DELETE FROM calls WHERE chat = ?1",
    "DELETE FROM blobs WHERE chat = ?1", // Bytes belong to one chat, so nobody else can be using them.
];

impl Desk<'_> {
    /// Deletes a chat with all that is kept of it.
    pub(super) fn delete(&mut self, pen: Pen) -> Result<(), Halt<WriteError>> {
        let fence = self.held(pen)?.fence;
        self.heads.raise_floor(fence);
        for sql in ROWS {
            self.connection.prepare_cached(sql)?.execute(params![id(pen.chat)])?;
        }
        self.connection.prepare_cached("DELETE FROM chats WHERE id = ?1")?.execute(params![id(pen.chat)])?;
        self.seats.remove(&pen.chat);
        self.told.push(Told::Deleted(pen.chat));
        Ok(())
    }
}
