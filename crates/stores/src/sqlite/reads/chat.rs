//! Reads of one chat. No more rows are read than are returned.

use std::sync::Arc;

use everturn_core::chat::Chat;
use everturn_core::fact::AttemptRecord;
use everturn_core::ids::{CallUid, ChatId, Fence, InboxSeq, MessageId, Seq, StepId, Timestamp, Version};
use everturn_core::message::Message;
use everturn_core::view::{Cursor, Event, JournalRow, Snapshot, Standing};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::memory::is_usable;
use crate::shape;
use crate::sqlite::columns::{id, name, unsigned};
use crate::sqlite::commits::submit::pending;
use crate::sqlite::error::TxError;
use crate::sqlite::journal::open_drafts::OpenDraft;
use crate::sqlite::reads::rows;
use crate::store::{AppendRight, CallRecord, Loaded, MessageRange, News, StoreError, WriteError};
use crate::tables::{self, ChatWithInbox, Fetch, PAGE_LEN_MAX, PageBudget};

/// Where the transcript begins for a model. The kind is no parameter: there is an index for this one alone.
pub(crate) const NEWEST_SUMMARY: &str =
    "SELECT max(id) FROM messages WHERE chat = ?1 AND kind = 'summary' AND gone IS NULL";

/// Fails with [`StoreError::NoSuchChat`] if the chat does not exist.
pub(crate) fn is_there(connection: &Connection, chat: ChatId) -> Result<(), TxError<StoreError>> {
    let found = connection.prepare_cached("SELECT 1 FROM chats WHERE id = ?1")?.exists(params![id(chat)])?;
    if found { Ok(()) } else { Err(StoreError::NoSuchChat.into()) }
}

/// The chat, its fence, and the newest command in its inbox.
fn chat_of<E: From<StoreError>>(
    connection: &Connection,
    chat: ChatId,
    fetch: Fetch,
) -> Result<(Chat, Fence, InboxSeq), TxError<E>> {
    let mut select = connection.prepare_cached("SELECT fence, submitted, body FROM chats WHERE id = ?1")?;
    let found = select.query_row(params![id(chat)], |row| {
        Ok((Fence(unsigned(row, 0)?), InboxSeq(unsigned(row, 1)?), row.get::<_, String>(2)?))
    });
    let (fence, submitted, body) = found.optional()?.ok_or(StoreError::NoSuchChat)?;
    Ok((rows::build(connection, chat, shape::chat::parse(&body)?, fetch)?, fence, submitted))
}

/// The chat with its inbox, which is read only if commands wait.
fn with_inbox(connection: &Connection, chat: ChatId) -> Result<ChatWithInbox, TxError<StoreError>> {
    let (state, _, submitted) = chat_of::<StoreError>(connection, chat, Fetch::Lengths)?;
    let has_commands = submitted > state.obeyed;
    let pending = if has_commands { pending(connection, chat, Fetch::Lengths)? } else { Vec::new() };
    Ok(ChatWithInbox { chat: state, pending })
}

/// State of a chat for clients.
pub(crate) fn standing(connection: &Connection, chat: ChatId) -> Result<Standing, TxError<StoreError>> {
    Ok(with_inbox(connection, chat)?.standing())
}

/// State of the chat, if the fence is the newest.
pub(crate) fn state(
    connection: &Connection,
    AppendRight { chat, fence }: AppendRight,
) -> Result<Chat, TxError<WriteError>> {
    let (state, now, _) = chat_of(connection, chat, Fetch::Bytes)?;
    if now == fence { Ok(state) } else { Err(WriteError::Fenced.into()) }
}

/// Everything a driver needs; `None` if rows were moved meanwhile and the read has to be repeated.
pub(crate) fn load(
    connection: &Connection,
    AppendRight { chat, fence }: AppendRight,
    head: Option<&OpenDraft>,
) -> Result<Option<Loaded>, TxError<WriteError>> {
    let state = state(connection, AppendRight { chat, fence })?;
    let Some(rows) = draft(connection, &state, head, Seq(0), Fetch::Bytes)? else { return Ok(None) };
    let mut select = connection.prepare_cached(NEWEST_SUMMARY)?;
    let summary: Option<i64> = select.query_row(params![id(chat)], |row| row.get(0))?;
    let sql = "SELECT body FROM messages WHERE chat = ?1 AND id >= ?2 AND gone IS NULL ORDER BY id";
    let mut messages = Vec::new();
    let mut select = connection.prepare_cached(sql)?;
    let mut found = select.query(params![id(chat), summary.unwrap_or(0)])?;
    while let Some(row) = found.next()? {
        messages.push(message(connection, chat, row, Fetch::Lengths)?);
    }
    Ok(Some(Loaded { chat: state, messages, rows }))
}

pub(crate) fn message<E: From<StoreError>>(
    connection: &Connection,
    chat: ChatId,
    row: &rusqlite::Row<'_>,
    fetch: Fetch,
) -> Result<Arc<Message>, TxError<E>> {
    let stored = shape::message::parse(&row.get::<_, String>(0)?)?;
    rows::build(connection, chat, stored, fetch).map(Arc::new)
}

/// One message, with its bytes.
pub(crate) fn whole(
    connection: &Connection,
    chat: ChatId,
    number: MessageId,
) -> Result<Option<Arc<Message>>, TxError<StoreError>> {
    is_there(connection, chat)?;
    let Ok(number) = i64::try_from(number.0) else { return Ok(None) };
    let sql = "SELECT body FROM messages WHERE chat = ?1 AND id = ?2 AND gone IS NULL";
    let mut select = connection.prepare_cached(sql)?;
    let mut found = select.query(params![id(chat), number])?;
    found.next()?.map(|row| message(connection, chat, row, Fetch::Bytes)).transpose()
}

/// Rows of the open step after `after`; `None` if the read has to be repeated.
fn draft<E: From<StoreError>>(
    connection: &Connection,
    chat: &Chat,
    head: Option<&OpenDraft>,
    after: Seq,
    fetch: Fetch,
) -> Result<Option<Vec<JournalRow>>, TxError<E>> {
    match head.filter(|head| head.step == chat.step) {
        Some(head) => rows::journal(connection, chat.id, head, after, fetch),
        None => Ok(Some(Vec::new())),
    }
}

/// How long the text of a message is.
fn text_len(row: &rusqlite::Row<'_>) -> Result<usize, rusqlite::Error> {
    Ok(row.get_ref(0)?.as_bytes().map_or(0, <[u8]>::len))
}

/// The newest messages before one of them, or before the end; oldest first, as many as the budget allows.
fn page<E: From<StoreError>>(
    connection: &Connection,
    chat: ChatId,
    before: Option<MessageId>,
    len: usize,
    (mut budget, fetch): (PageBudget, Fetch),
) -> Result<Vec<Arc<Message>>, TxError<E>> {
    let before = before.and_then(|id| i64::try_from(id.0).ok()).unwrap_or(i64::MAX);
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let sql = "SELECT body FROM messages WHERE chat = ?1 AND id < ?2 AND gone IS NULL ORDER BY id DESC LIMIT ?3";
    let mut select = connection.prepare_cached(sql)?;
    let mut found = select.query(params![id(chat), before, len])?;
    let mut messages = Vec::new();
    while let Some(row) = found.next()?
        && budget.take(text_len(row)?)
    {
        messages.push(message(connection, chat, row, fetch)?);
    }
    messages.reverse();
    Ok(messages)
}

/// Messages of a chat in order.
pub(crate) fn messages<E: From<StoreError>>(
    connection: &Connection,
    chat: ChatId,
    range: MessageRange,
) -> Result<Vec<Arc<Message>>, TxError<E>> {
    match range {
        MessageRange::All => page(connection, chat, None, usize::MAX, (PageBudget::endless(), Fetch::Bytes)),
        MessageRange::Before(before, len) => page(connection, chat, before, len, (PageBudget::page(), Fetch::Lengths)),
        MessageRange::After(id, len) => after(connection, chat, id, len),
    }
}

/// The oldest messages after one of them, oldest first.
fn after<E: From<StoreError>>(
    connection: &Connection,
    chat: ChatId,
    after: MessageId,
    len: usize,
) -> Result<Vec<Arc<Message>>, TxError<E>> {
    let (after, len) = (i64::try_from(after.0).unwrap_or(i64::MAX), i64::try_from(len).unwrap_or(i64::MAX));
    let sql = "SELECT body FROM messages WHERE chat = ?1 AND id > ?2 AND gone IS NULL ORDER BY id LIMIT ?3";
    let mut select = connection.prepare_cached(sql)?;
    let mut found = select.query(params![id(chat), after, len])?;
    let (mut messages, mut budget) = (Vec::new(), PageBudget::page());
    while let Some(row) = found.next()?
        && budget.take(text_len(row)?)
    {
        messages.push(message(connection, chat, row, Fetch::Lengths)?);
    }
    Ok(messages)
}

/// Events after `cursor`. The outer `None`: the read has to be repeated.
pub(crate) fn since(
    connection: &Connection,
    chat: ChatId,
    cursor: Option<Cursor>,
    head: Option<&OpenDraft>,
) -> Result<Option<Option<News>>, TxError<StoreError>> {
    let shown = with_inbox(connection, chat)?;
    let state = &shown.chat;
    let seq = head.filter(|head| head.step == state.step).map_or(Seq(0), |head| head.seq);
    let now = Cursor { version: state.version, step: state.step, seq };
    let Some(seen) = cursor.filter(|seen| is_usable(*seen, now) && !state.denies(*seen)) else {
        return snapshot(connection, &shown, now, head);
    };
    if seen == now {
        return Ok(Some(None));
    }
    let after = if seen.step == now.step { seen.seq } else { Seq(0) };
    let Some(rows) = draft(connection, state, head, after, Fetch::Lengths)? else { return Ok(None) };
    let mut events = Vec::new();
    if seen.version < now.version {
        match commits_since(connection, &shown, seen.version)? {
            Some(commits) => events = commits,
            None => return snapshot(connection, &shown, now, head),
        }
    }
    events.extend(rows.into_iter().map(Event::Delta));
    Ok(Some(Some(News { cursor: now, events })))
}

fn snapshot(
    connection: &Connection,
    shown: &ChatWithInbox,
    now: Cursor,
    head: Option<&OpenDraft>,
) -> Result<Option<Option<News>>, TxError<StoreError>> {
    let chat = &shown.chat;
    let Some(rows) = draft(connection, chat, head, Seq(0), Fetch::Lengths)? else { return Ok(None) };
    let messages = page(connection, chat.id, None, PAGE_LEN_MAX, (PageBudget::page(), Fetch::Lengths))?;
    let snapshot = Snapshot { messages, standing: shown.standing(), draft: tables::draft_of(&rows)? };
    Ok(Some(Some(News { cursor: now, events: vec![Event::Reset(Box::new(snapshot))] })))
}

/// What was committed after `version`; `None` if that is more than a page.
fn commits_since(
    connection: &Connection,
    shown: &ChatWithInbox,
    version: Version,
) -> Result<Option<Vec<Event>>, TxError<StoreError>> {
    let chat = shown.chat.id;
    let seen = i64::try_from(version.0).unwrap_or(i64::MAX);
    let sql = "SELECT min(id) FROM messages WHERE chat = ?1 AND gone > ?2";
    let mut select = connection.prepare_cached(sql)?;
    let gone: Option<i64> = select.query_row(params![id(chat), seen], |row| row.get(0))?;
    // Versions grow with ids: the first one that was seen ends it.
    let sql = "SELECT body, version FROM messages WHERE chat = ?1 AND gone IS NULL ORDER BY id DESC";
    let mut select = connection.prepare_cached(sql)?;
    let mut found = select.query(params![id(chat)])?;
    let (mut messages, mut budget) = (Vec::new(), PageBudget::page());
    while let Some(row) = found.next()?
        && row.get::<_, i64>(1)? > seen
    {
        if messages.len() == PAGE_LEN_MAX || !budget.take(text_len(row)?) {
            return Ok(None);
        }
        messages.push(message(connection, chat, row, Fetch::Lengths)?);
    }
    let rewound = gone.map(|id| Event::Rewound(MessageId(id.unsigned_abs())));
    let said = messages.into_iter().rev().map(Event::Message);
    Ok(Some(rewound.into_iter().chain(said).chain([Event::Standing(Box::new(shown.standing()))]).collect()))
}

/// Provider calls ever made, behind the first `seen`.
pub(crate) fn attempts(
    connection: &Connection,
    chat: ChatId,
    seen: usize,
    len: usize,
) -> Result<Vec<AttemptRecord>, TxError<StoreError>> {
    is_there(connection, chat)?;
    let (seen, len) = (i64::try_from(seen).unwrap_or(i64::MAX), i64::try_from(len).unwrap_or(i64::MAX));
    let sql = "SELECT body FROM attempts WHERE chat = ?1 ORDER BY number LIMIT ?3 OFFSET ?2";
    let mut select = connection.prepare_cached(sql)?;
    let mut found = select.query(params![id(chat), seen, len])?;
    let mut attempts = Vec::new();
    while let Some(row) = found.next()? {
        attempts.push(shape::attempted::read(&row.get::<_, String>(0)?)?);
    }
    Ok(attempts)
}

/// Every tool call that was ever started.
pub(crate) fn calls(connection: &Connection, chat: ChatId) -> Result<Vec<CallRecord>, TxError<StoreError>> {
    is_there(connection, chat)?;
    let sql = "SELECT step, ordinal, tool, effect, started, starts, ended, verdict FROM calls WHERE chat = ?1 \
        ORDER BY step, ordinal";
    let mut select = connection.prepare_cached(sql)?;
    let mut found = select.query(params![id(chat)])?;
    let mut calls = Vec::new();
    while let Some(row) = found.next()? {
        let ended: Option<i64> = row.get(6)?;
        let verdict: Option<String> = row.get(7)?;
        let verdict = verdict.map(|word| tables::verdict_of(&word)).transpose()?;
        calls.push(CallRecord {
            uid: CallUid { step: StepId(unsigned(row, 0)?), ordinal: row.get(1)? },
            tool: name(row, 2)?,
            effect: tables::effect_of(&row.get::<_, String>(3)?)?,
            started: Timestamp(row.get(4)?),
            starts: row.get(5)?,
            ended: ended.map(Timestamp).zip(verdict),
        });
    }
    Ok(calls)
}
