//! Creating chats: empty, or as a fork of another one.
//!
//! What a fork copies is determined outside the writer thread; the writer copies rows without parsing them. Messages
//! never change, so it only has to check that none of them was rewound in between.

use std::collections::BTreeSet;

use everturn_core::chat::Chat;
use everturn_core::fork;
use everturn_core::ids::{ChatId, InboxSeq, StepId, Version};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::heading::searchable;
use crate::new_chat::{Fork, MakeError, NewChat};
use crate::shape::{self, BlobId};
use crate::sqlite::columns::{chat_id, id, number, unsigned};
use crate::sqlite::error::TxError;
use crate::sqlite::reads::chat;
use crate::sqlite::writer::tx::WriteTx;
use crate::store::StoreError;
use crate::tables::{self, Fetch};

/// What a fork copies.
#[derive(Debug)]
pub(crate) struct ForkSource {
    /// Version of the source chat when it was read.
    version: Version,
    /// Newest command the source chat had applied then.
    obeyed: InboxSeq,
    /// First step of the fork.
    step: StepId,
    blobs: BTreeSet<BlobId>,
}

/// The chat created under a key, if the request was equal.
pub(crate) fn made(
    connection: &Connection,
    owner: &str,
    key: &str,
    digest: &[u8; 32],
) -> Result<Option<ChatId>, TxError<MakeError>> {
    match under_key(connection, owner, key)? {
        Some((chat, request)) if request == digest => Ok(Some(chat)),
        Some(_) => Err(MakeError::Conflict.into()),
        None => Ok(None),
    }
}

/// The chat created under a key, whatever the request was.
pub(crate) fn keyed(connection: &Connection, owner: &str, key: &str) -> Result<Option<ChatId>, TxError<StoreError>> {
    Ok(under_key(connection, owner, key)?.map(|(chat, _)| chat))
}

fn under_key(connection: &Connection, owner: &str, key: &str) -> rusqlite::Result<Option<(ChatId, Vec<u8>)>> {
    let mut select = connection.prepare_cached("SELECT id, request FROM chats WHERE owner = ?1 AND key = ?2")?;
    let found = select.query_row(params![owner.as_bytes(), key.as_bytes()], |row| Ok((chat_id(row, 0)?, row.get(1)?)));
    found.optional()
}

/// What a fork would copy now.
pub(crate) fn source(connection: &Connection, Fork { chat, at }: Fork) -> Result<ForkSource, TxError<MakeError>> {
    let mut select = connection.prepare_cached("SELECT version, obeyed FROM chats WHERE id = ?1")?;
    let found =
        select.query_row(params![id(chat)], |row| Ok((Version(unsigned(row, 0)?), InboxSeq(unsigned(row, 1)?))));
    let (version, obeyed) = found.optional()?.ok_or(StoreError::NoSuchChat)?;
    let missing = || MakeError::NoSuchMessage(at);
    let end = i64::try_from(at.0).map_err(|_| missing())?;
    let there = "SELECT 1 FROM messages WHERE chat = ?1 AND id = ?2 AND gone IS NULL";
    if !connection.prepare_cached(there)?.exists(params![id(chat), end])? {
        return Err(missing().into());
    }
    let tail = "SELECT body FROM messages WHERE chat = ?1 AND id <= ?2 AND gone IS NULL AND id >= coalesce((SELECT \
        id FROM messages WHERE chat = ?1 AND id <= ?2 AND gone IS NULL AND kind = 'reply' ORDER BY id DESC LIMIT 1), ?2) \
        ORDER BY id";
    let mut select = connection.prepare_cached(tail)?;
    let mut found = select.query(params![id(chat), end])?;
    let mut newest = Vec::new();
    while let Some(row) = found.next()? {
        newest.push(chat::message(connection, chat, row, Fetch::Lengths)?);
    }
    let step = fork::next_step(&newest).map_err(MakeError::from)?;
    Ok(ForkSource { version, obeyed, step, blobs: blobs(connection, chat, end)? })
}

/// The bytes that messages up to one refer to.
fn blobs(connection: &Connection, chat: ChatId, end: i64) -> Result<BTreeSet<BlobId>, TxError<MakeError>> {
    let mut blobs = BTreeSet::new();
    if !connection.prepare_cached("SELECT 1 FROM blobs WHERE chat = ?1")?.exists(params![id(chat)])? {
        return Ok(blobs);
    }
    let sql = "SELECT body FROM messages WHERE chat = ?1 AND id <= ?2 AND gone IS NULL";
    let mut select = connection.prepare_cached(sql)?;
    let mut found = select.query(params![id(chat), end])?;
    while let Some(row) = found.next()? {
        blobs.extend(shape::message::parse(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?.wants());
    }
    Ok(blobs)
}

impl WriteTx<'_> {
    /// Creates an empty chat, or finds the one created under its key.
    pub(crate) fn make(&mut self, new: &NewChat, chat: Option<Chat>) -> Result<ChatId, TxError<MakeError>> {
        let digest = new.digest();
        if let Some(key) = &new.key
            && let Some(made) = made(self.connection, &new.owner, key, &digest)?
        {
            return Ok(made);
        }
        if let Some(parent) = &new.parent {
            let mut select = self.connection.prepare_cached("SELECT 1 FROM chats WHERE id = ?1")?;
            if !select.exists(params![id(parent.parent())])? {
                return Err(MakeError::from(StoreError::NoSuchChat).into());
            }
        }
        let key = new.key.as_ref().map(|key| (key.as_bytes(), digest));
        self.put_new(&chat.unwrap_or_else(|| new.empty()), key)?;
        Ok(new.id)
    }

    /// Creates a fork; `None` if the source chat has changed since it was read.
    pub(crate) fn fork(
        &mut self,
        new: &NewChat,
        from: Fork,
        source: &ForkSource,
    ) -> Result<Option<ChatId>, TxError<MakeError>> {
        let from_id = id(from.chat);
        let end = number(from.at.0)?;
        let gone = "SELECT 1 FROM messages WHERE chat = ?1 AND gone > ?2 AND id <= ?3";
        let is_there = self.connection.prepare_cached("SELECT 1 FROM chats WHERE id = ?1")?.exists(params![from_id])?;
        let is_gone = self.connection.prepare_cached(gone)?.exists(params![from_id, number(source.version.0)?, end])?;
        if !is_there || is_gone {
            return Ok(None);
        }
        let chat = fork::fork(new.empty(), from.at, source.step, source.obeyed);
        let version = number(chat.version.0)?;
        let made = self.make(new, Some(chat))?;
        if made != new.id {
            return Ok(Some(made));
        }
        let copy = "INSERT INTO messages (chat, id, version, kind, body) SELECT ?1, id, ?4, kind, body FROM messages \
            WHERE chat = ?2 AND id <= ?3 AND gone IS NULL ORDER BY id";
        self.connection.prepare_cached(copy)?.execute(params![id(new.id), from_id, end, version])?;
        let copy = "INSERT INTO spoken (chat, id, words) SELECT ?1, id, words FROM spoken WHERE chat = ?2 AND id <= ?3";
        self.connection.prepare_cached(copy)?.execute(params![id(new.id), from_id, end])?;
        for blob in &source.blobs {
            let copy =
                "INSERT INTO blobs (chat, id, bytes) SELECT ?1, id, bytes FROM blobs WHERE chat = ?2 AND id = ?3";
            self.connection.prepare_cached(copy)?.execute(params![id(new.id), from_id, blob.as_bytes()])?;
        }
        Ok(Some(new.id))
    }

    fn put_new<E>(&self, chat: &Chat, key: Option<(&[u8], [u8; 32])>) -> Result<(), TxError<E>> {
        let sql = "INSERT OR IGNORE INTO chats (id, agent, owner, title, searchable, status, archived, touched, version, \
            step, obeyed, submitted, unsettled, fence, body, key, request, parent, internal) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9, ?10, ?10, 0, 0, ?11, ?12, ?13, ?14, ?15)";
        let (key, request) = key.unzip();
        self.connection.prepare_cached(sql)?.execute(params![
            id(chat.id),
            chat.agent.as_bytes(),
            chat.owner.as_bytes(),
            chat.title.as_bytes(),
            searchable(&chat.title).as_bytes(),
            tables::status_word(chat.status),
            chat.touched.0,
            number(chat.version.0)?,
            number(chat.step.0)?,
            number(chat.obeyed.0)?,
            shape::chat::write(chat).json,
            key,
            request,
            chat.parent.as_deref().map(|parent| id(parent.parent())),
            chat.internal,
        ])?;
        Ok(())
    }
}
