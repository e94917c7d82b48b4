//! What the writer has at hand inside a transaction.
//!
//! **Invariant:** a job says no before it writes. So one that is refused leaves nothing behind, and the others of its
//! transaction need not know.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use everturn_core::chat::Chat;
use everturn_core::ids::{ChatId, Fence, InboxSeq, Seq, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::heading::searchable;
use crate::shape::bundle::{self, Bundle};
use crate::shape::{self, BlobId};
use crate::sqlite::columns::{id, number, unsigned};
use crate::sqlite::error::Halt;
use crate::sqlite::journal::open_drafts::{Heads, Told};
use crate::sqlite::reads::rows;
use crate::sqlite::setup::migrate;
use crate::store::{AppendRight, Lease, StoreError, WriteError};
use crate::tables::{self, Fetch};

/// What the writer knows of a chat it has written to.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The chat's short name.
    pub(crate) number: i64,
    pub(crate) chat: Chat,
    pub(crate) fence: Fence,
    /// The newest command.
    pub(crate) submitted: InboxSeq,
    /// The newest row of the open draft.
    pub(crate) seq: Seq,
}

impl Seat {
    fn find<E: From<StoreError>>(connection: &Connection, heads: &Heads, chat: ChatId) -> Result<Self, Halt<E>> {
        let mut select = connection.prepare_cached("SELECT number, fence, submitted, body FROM chats WHERE id = ?1")?;
        let found = select.query_row(params![id(chat)], |row| {
            Ok((row.get(0)?, Fence(unsigned(row, 1)?), InboxSeq(unsigned(row, 2)?), row.get::<_, String>(3)?))
        });
        let (number, fence, submitted, body) = found.optional()?.ok_or(StoreError::NoSuchChat)?;
        let chat: Chat = rows::build(connection, chat, shape::chat::parse(&body)?, Fetch::Bytes)?;
        let seq = heads.seq(chat.id, chat.step);
        Ok(Self { number, chat, fence, submitted, seq })
    }
}

/// How long a bundle gets at most, unless one append is longer: four of them fill a page of 4 KiB.
const BUNDLE_BYTES_MAX: usize = 1_000;

/// How long the log is, and where it ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Log {
    /// The next row's place. Never used twice.
    pub(crate) next: i64,
    /// How many appends it has.
    pub(crate) len: usize,
}

/// A transaction under way. What it leaves here counts once it is durable.
pub(crate) struct Desk<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) heads: &'a Heads,
    pub(crate) seats: &'a mut HashMap<ChatId, Seat>,
    pub(crate) told: &'a mut Vec<Told>,
    pub(crate) log: Log,
    /// The end of the log that is not written yet.
    pub(crate) bundle: Bundle,
}

impl Desk<'_> {
    /// Writes what is there already: whether that works is all that is asked.
    pub(crate) fn touch(&self) -> Result<(), Halt<StoreError>> {
        Ok(self.connection.pragma_update(None, "user_version", migrate::SCHEMA)?)
    }

    /// What is known of a chat.
    pub(crate) fn seat<E: From<StoreError>>(&mut self, chat: ChatId) -> Result<&mut Seat, Halt<E>> {
        match self.seats.entry(chat) {
            Entry::Occupied(seat) => Ok(seat.into_mut()),
            Entry::Vacant(free) => Ok(free.insert(Seat::find(self.connection, self.heads, chat)?)),
        }
    }

    /// What is known of a chat, for whoever holds it.
    pub(crate) fn held(&mut self, AppendRight { chat, fence }: AppendRight) -> Result<&mut Seat, Halt<WriteError>> {
        let seat = self.seat(chat)?;
        if seat.fence == fence { Ok(seat) } else { Err(WriteError::Fenced.into()) }
    }

    /// Adds an append to the log, and says at which place.
    pub(crate) fn log(&mut self, head: bundle::Head, at: Timestamp, deltas: &str) -> Result<i64, rusqlite::Error> {
        if self.bundle.len() + deltas.len() > BUNDLE_BYTES_MAX {
            self.flush()?;
        }
        self.bundle.add(head, at, deltas);
        self.log.len += 1;
        Ok(self.log.next)
    }

    /// Writes the end of the log.
    pub(crate) fn flush(&mut self) -> Result<(), rusqlite::Error> {
        if !self.bundle.is_empty() {
            let insert = self.connection.prepare_cached("INSERT INTO drafts (place, body) VALUES (?1, ?2)");
            insert?.execute(params![self.log.next, self.bundle.take()])?;
            self.log.next += 1;
        }
        Ok(())
    }

    /// Stores bytes that are not there yet.
    pub(crate) fn keep<E>(&self, chat: ChatId, blobs: &[(BlobId, Arc<[u8]>)]) -> Result<(), Halt<E>> {
        for (blob, bytes) in blobs {
            let sql = "INSERT OR IGNORE INTO blobs (chat, id, bytes) VALUES (?1, ?2, ?3)";
            let insert = self.connection.prepare_cached(sql);
            insert?.execute(params![id(chat), BlobId::as_bytes(blob), &bytes[..]])?;
        }
        Ok(())
    }

    /// Raises the fence: whoever held the chat before does not any more.
    pub(crate) fn acquire(&mut self, chat: ChatId) -> Result<Lease, Halt<WriteError>> {
        let floor = self.heads.floor();
        let seat = self.seat(chat)?;
        let before = seat.fence;
        let fence = before.max(floor).next();
        seat.fence = fence;
        let update = self.connection.prepare_cached("UPDATE chats SET fence = ?2 WHERE id = ?1");
        update?.execute(params![id(chat), number(fence.0)?])?;
        Ok(Lease::granted(chat, fence, before))
    }

    /// Writes the row of a chat that has changed.
    pub(crate) fn put(&self, chat: &Chat, submitted: InboxSeq) -> Result<(), Halt<WriteError>> {
        let sql = "UPDATE chats SET title = ?2, searchable = ?3, status = ?4, archived = ?5, touched = ?6, version = ?7, \
            step = ?8, obeyed = ?9, unsettled = ?10, not_before = ?11, body = ?12 WHERE id = ?1";
        let body = shape::chat::write(chat);
        self.keep(chat.id, &body.blobs)?;
        self.connection.prepare_cached(sql)?.execute(params![
            id(chat.id),
            chat.title.as_bytes(),
            searchable(&chat.title).as_bytes(),
            tables::status_word(chat.status),
            chat.archived,
            chat.touched.0,
            number(chat.version.0)?,
            number(chat.step.0)?,
            number(chat.obeyed.0)?,
            tables::is_unsettled(chat, submitted),
            chat.wait.as_ref().map(|wait| wait.until.0),
            body.json,
        ])?;
        Ok(())
    }
}
