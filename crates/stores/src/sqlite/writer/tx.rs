//! A transaction of the writer.
//!
//! **Invariant:** a job that refuses does so before it writes. It leaves nothing behind, and the other jobs of its
//! transaction are not affected.

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
use crate::sqlite::error::TxError;
use crate::sqlite::journal::open_drafts::{OpenDrafts, TxEffect};
use crate::sqlite::reads::rows;
use crate::sqlite::setup::migrate;
use crate::store::{AppendRight, Lease, StoreError, WriteError};
use crate::tables::{self, Fetch};

/// A chat in the cache of the writer.
#[derive(Debug)]
pub(crate) struct CachedChat {
    /// The chat's number.
    pub(crate) number: i64,
    pub(crate) chat: Chat,
    pub(crate) fence: Fence,
    /// The newest command.
    pub(crate) submitted: InboxSeq,
    /// The newest row of the open draft.
    pub(crate) seq: Seq,
}

impl CachedChat {
    fn find<E: From<StoreError>>(
        connection: &Connection,
        drafts: &OpenDrafts,
        chat: ChatId,
    ) -> Result<Self, TxError<E>> {
        let mut select = connection.prepare_cached("SELECT number, fence, submitted, body FROM chats WHERE id = ?1")?;
        let found = select.query_row(params![id(chat)], |row| {
            Ok((row.get(0)?, Fence(unsigned(row, 1)?), InboxSeq(unsigned(row, 2)?), row.get::<_, String>(3)?))
        });
        let (number, fence, submitted, body) = found.optional()?.ok_or(StoreError::NoSuchChat)?;
        let chat: Chat = rows::build(connection, chat, shape::chat::parse(&body)?, Fetch::Bytes)?;
        let seq = drafts.seq(chat.id, chat.step);
        Ok(Self { number, chat, fence, submitted, seq })
    }
}

/// How long a bundle gets at most, unless one append is longer: four of them fill a page of 4 KiB.
const BUNDLE_BYTES_MAX: usize = 1_000;

/// How long the log is, and where it ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogEnd {
    /// The next row's place. Never used twice.
    pub(crate) next: i64,
    /// How many appends it has.
    pub(crate) len: usize,
}

/// A transaction in progress. Its effects are applied once it is durable.
pub(crate) struct WriteTx<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) drafts: &'a OpenDrafts,
    pub(crate) cache: &'a mut HashMap<ChatId, CachedChat>,
    pub(crate) effects: &'a mut Vec<TxEffect>,
    pub(crate) log: LogEnd,
    /// The end of the log that is not written yet.
    pub(crate) bundle: Bundle,
}

impl WriteTx<'_> {
    /// Writes an unchanged value, to test that writing works.
    pub(crate) fn touch(&self) -> Result<(), TxError<StoreError>> {
        Ok(self.connection.pragma_update(None, "user_version", migrate::SCHEMA)?)
    }

    /// The cached chat, read if it is not in the cache.
    pub(crate) fn cached<E: From<StoreError>>(&mut self, chat: ChatId) -> Result<&mut CachedChat, TxError<E>> {
        match self.cache.entry(chat) {
            Entry::Occupied(cached) => Ok(cached.into_mut()),
            Entry::Vacant(free) => Ok(free.insert(CachedChat::find(self.connection, self.drafts, chat)?)),
        }
    }

    /// The cached chat, if the fence is the newest.
    pub(crate) fn held(
        &mut self,
        AppendRight { chat, fence }: AppendRight,
    ) -> Result<&mut CachedChat, TxError<WriteError>> {
        let cached = self.cached(chat)?;
        if cached.fence == fence { Ok(cached) } else { Err(WriteError::Fenced.into()) }
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
    pub(crate) fn keep<E>(&self, chat: ChatId, blobs: &[(BlobId, Arc<[u8]>)]) -> Result<(), TxError<E>> {
        for (blob, bytes) in blobs {
            let sql = "INSERT OR IGNORE INTO blobs (chat, id, bytes) VALUES (?1, ?2, ?3)";
            let insert = self.connection.prepare_cached(sql);
            insert?.execute(params![id(chat), BlobId::as_bytes(blob), &bytes[..]])?;
        }
        Ok(())
    }

    /// Grants a lease by raising the fence, which ends every earlier lease.
    pub(crate) fn acquire(&mut self, chat: ChatId) -> Result<Lease, TxError<WriteError>> {
        let floor = self.drafts.floor();
        let cached = self.cached(chat)?;
        let before = cached.fence;
        let fence = before.max(floor).next();
        cached.fence = fence;
        let update = self.connection.prepare_cached("UPDATE chats SET fence = ?2 WHERE id = ?1");
        update?.execute(params![id(chat), number(fence.0)?])?;
        Ok(Lease::granted(chat, fence, before))
    }

    /// Writes the row of a chat that has changed.
    pub(crate) fn put(&self, chat: &Chat, submitted: InboxSeq) -> Result<(), TxError<WriteError>> {
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
