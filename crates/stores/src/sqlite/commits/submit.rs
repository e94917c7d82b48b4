//! A command on its way into an inbox.

use std::cell::Cell;

use everturn_core::change::admit_behind;
use everturn_core::command::{Command, InboxCommand};
use everturn_core::ids::{ChatId, InboxSeq, MessageId, StepId, Timestamp};
use everturn_core::limits::Limits;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::shape::{self, Written};
use crate::sqlite::columns::{id, number, optional_name, unsigned};
use crate::sqlite::error::TxError;
use crate::sqlite::reads::chat as reads;
use crate::sqlite::reads::rows;
use crate::sqlite::writer::tx::WriteTx;
use crate::store::{CommandRef, StoreError, SubmitError, Submitted};
use crate::tables::{Fetch, USER};

/// A command and its text.
#[derive(Debug)]
pub(crate) struct InboxEntry {
    pub(crate) command: Command,
    pub(crate) text: Written,
    pub(crate) key: Option<String>,
    pub(crate) at: Timestamp,
}

impl WriteTx<'_> {
    /// Takes a command in, once a key.
    pub(crate) fn submit(
        &mut self,
        chat: ChatId,
        entry: &InboxEntry,
        limits: &Limits,
    ) -> Result<InboxSeq, TxError<SubmitError>> {
        let connection = self.connection;
        let cached = self.cached(chat)?;
        if let Some(key) = &entry.key
            && let Some((seq, earlier)) = by_key(connection, chat, key)?
        {
            // A text of an earlier release may say the same in other words.
            let is_same = earlier == entry.text.json
                || rows::build(connection, chat, shape::command::parse(&earlier)?, Fetch::Bytes)? == entry.command;
            return if is_same { Ok(seq) } else { Err(SubmitError::Conflict.into()) };
        }
        let pending =
            if cached.submitted > cached.chat.obeyed { pending(connection, chat, Fetch::Lengths)? } else { Vec::new() };
        let failed = Cell::new(None);
        let is_users = |message| {
            is_users(connection, chat, message).unwrap_or_else(|error| {
                failed.set(Some(error));
                false
            })
        };
        let aimed = admit_behind(&cached.chat, pending.iter(), &entry.command, limits, entry.at, is_users);
        if let Some(error) = failed.take() {
            return Err(error.into());
        }
        let aimed = aimed.map_err(SubmitError::from)?;
        let seq = cached.submitted.next();
        cached.submitted = seq;
        self.keep(chat, &entry.text.blobs)?;
        let sql = "INSERT INTO inbox (chat, seq, aimed, key, at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let key = entry.key.as_ref().map(|key| key.as_bytes());
        let row = params![id(chat), number(seq.0)?, number(aimed.0)?, key, entry.at.0, entry.text.json];
        connection.prepare_cached(sql)?.execute(row)?;
        let update = connection.prepare_cached("UPDATE chats SET submitted = ?2, unsettled = 1 WHERE id = ?1");
        update?.execute(params![id(chat), number(seq.0)?])?;
        Ok(seq)
    }
}

/// The command a key was used for.
fn by_key(connection: &Connection, chat: ChatId, key: &str) -> Result<Option<(InboxSeq, String)>, rusqlite::Error> {
    let mut select = connection.prepare_cached("SELECT seq, body FROM inbox WHERE chat = ?1 AND key = ?2")?;
    let found =
        select.query_row(params![id(chat), key.as_bytes()], |row| Ok((InboxSeq(unsigned(row, 0)?), row.get(1)?)));
    found.optional()
}

/// A command that was accepted before, and its outcome.
pub(crate) fn submitted(
    connection: &Connection,
    chat: ChatId,
    command: CommandRef<'_>,
) -> Result<Option<Submitted>, TxError<StoreError>> {
    reads::is_there(connection, chat)?;
    let read = |row: &rusqlite::Row<'_>| Ok((InboxSeq(unsigned(row, 0)?), row.get::<_, Option<String>>(1)?));
    let found = match command {
        CommandRef::Key(key) => connection
            .prepare_cached("SELECT seq, outcome FROM inbox WHERE chat = ?1 AND key = ?2")?
            .query_row(params![id(chat), key.as_bytes()], read),
        CommandRef::Seq(seq) => {
            let Ok(seq) = i64::try_from(seq.0) else { return Ok(None) };
            connection
                .prepare_cached("SELECT seq, outcome FROM inbox WHERE chat = ?1 AND seq = ?2")?
                .query_row(params![id(chat), seq], read)
        }
    };
    let Some((seq, outcome)) = found.optional()? else { return Ok(None) };
    let outcome = outcome.map(|text| shape::outcome::read(&text)).transpose()?;
    Ok(Some(Submitted { seq, outcome }))
}

/// Whether a message is one that a person sent, and still there.
fn is_users(connection: &Connection, chat: ChatId, message: MessageId) -> Result<bool, rusqlite::Error> {
    let Ok(message) = i64::try_from(message.0) else { return Ok(false) };
    let sql = "SELECT kind FROM messages WHERE chat = ?1 AND id = ?2 AND gone IS NULL";
    let mut select = connection.prepare_cached(sql)?;
    let kind = select.query_row(params![id(chat), message], |row| row.get::<_, String>(0)).optional()?;
    Ok(kind.is_some_and(|kind| kind == USER))
}

/// Commands the driver has not applied yet, oldest first.
pub(crate) fn pending<E: From<StoreError>>(
    connection: &Connection,
    chat: ChatId,
    fetch: Fetch,
) -> Result<Vec<InboxCommand>, TxError<E>> {
    let sql = "SELECT inbox.seq, inbox.aimed, inbox.at, inbox.key, inbox.body FROM chats JOIN inbox ON inbox.chat = chats.id \
        AND inbox.seq > chats.obeyed WHERE chats.id = ?1 ORDER BY inbox.seq";
    let mut select = connection.prepare_cached(sql)?;
    let mut found = select.query(params![id(chat)])?;
    let mut pending = Vec::new();
    while let Some(row) = found.next()? {
        let (seq, aimed) = (InboxSeq(unsigned(row, 0)?), StepId(unsigned(row, 1)?));
        let command = rows::build(connection, chat, shape::command::parse(&row.get::<_, String>(4)?)?, fetch)?;
        pending.push(InboxCommand { seq, aimed, at: Timestamp(row.get(2)?), key: optional_name(row, 3)?, command });
    }
    Ok(pending)
}
