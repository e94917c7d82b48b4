//! Every row of one chat, read.

use std::collections::BTreeSet;

use everturn_core::chat::Chat;
use everturn_core::ids::ChatId;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::shape::{self, BadShape, BlobId, Bytes, Shape, Stored, bundle};
use crate::sqlite::StoredDefect;
use crate::sqlite::columns::{id, unsigned};
use crate::sqlite::error::TxError;
use crate::store::StoreError;
use crate::tables;

type Found<T> = Result<T, TxError<StoreError>>;

/// A chat under inspection.
struct Look<'c> {
    connection: &'c Connection,
    chat: ChatId,
    defects: Vec<StoredDefect>,
    /// Bytes that are there.
    there: BTreeSet<BlobId>,
    /// Bytes that something refers to.
    wanted: BTreeSet<BlobId>,
}

pub(crate) fn defects(connection: &Connection, chat: ChatId) -> Found<Vec<StoredDefect>> {
    let (defects, there, wanted) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let mut look = Look { connection, chat, defects, there, wanted };
    let sizes = look.blobs()?;
    let state = look.chat_row()?;
    look.messages(state.as_ref())?;
    look.drafts(state.as_ref())?;
    look.inbox(state.as_ref())?;
    look.attempts()?;
    let unused: Vec<u64> = sizes.iter().filter(|(blob, _)| !look.wanted.contains(blob)).map(|(_, len)| *len).collect();
    if !unused.is_empty() {
        look.defects.push(StoredDefect::Unused { blobs: unused.len() as u64, bytes: unused.iter().sum() });
    }
    Ok(look.defects)
}

impl Look<'_> {
    fn unreadable(&mut self, what: String, why: &dyn ToString) {
        self.defects.push(StoredDefect::Unreadable { what, why: why.to_string() });
    }

    fn agree(&mut self, what: &str, one: impl ToString, other: impl ToString) {
        let (one, other) = (one.to_string(), other.to_string());
        if one != other {
            self.defects.push(StoredDefect::Disagrees { what: what.into(), one, other });
        }
    }

    /// The stored bytes and how large they are, each looked at.
    fn blobs(&mut self) -> Found<Vec<(BlobId, u64)>> {
        let mut sizes = Vec::new();
        let mut select = self.connection.prepare("SELECT id, bytes FROM blobs WHERE chat = ?1")?;
        let mut found = select.query(params![id(self.chat)])?;
        while let Some(row) = found.next()? {
            let (name, bytes): ([u8; 32], Vec<u8>) = (row.get(0)?, row.get(1)?);
            let blob = BlobId::from_bytes(name);
            if BlobId::of(&bytes) != blob {
                self.defects.push(StoredDefect::WrongBytes { blob: blob.to_string() });
            }
            self.there.insert(blob);
            sizes.push((blob, bytes.len() as u64));
        }
        Ok(sizes)
    }

    /// Content of a text, if it can be read, with empty bytes in place of its own.
    fn build<S: Shape>(&mut self, what: &str, stored: Result<Stored<S>, BadShape>) -> Option<S::Core> {
        let built = stored.and_then(|stored| {
            let wants = stored.wants();
            self.wanted.extend(&wants);
            let gone = wants.iter().any(|blob| !self.there.contains(blob));
            let bytes: Bytes = wants.into_iter().map(|blob| (blob, [].into())).collect();
            Ok((stored.build(&bytes)?, gone))
        });
        match built {
            Ok((core, gone)) => {
                if gone {
                    self.defects.push(StoredDefect::NoBytes { what: what.into() });
                }
                Some(core)
            }
            Err(error) => {
                self.unreadable(what.into(), &error);
                None
            }
        }
    }

    /// The chat itself, and whether its columns say what it says.
    fn chat_row(&mut self) -> Found<Option<Chat>> {
        let sql = "SELECT body, version, step, obeyed, status, title FROM chats WHERE id = ?1";
        let found = self.connection.query_row(sql, params![id(self.chat)], |row| {
            let numbers = [unsigned(row, 1)?, unsigned(row, 2)?, unsigned(row, 3)?];
            let title = String::from_utf8_lossy(row.get_ref(5)?.as_bytes()?).into_owned();
            Ok((row.get::<_, String>(0)?, numbers, (row.get::<_, String>(4)?, title)))
        });
        let (body, [version, step, obeyed], (status, title)) = found.optional()?.ok_or(StoreError::NoSuchChat)?;
        let Some(chat) = self.build("the chat", shape::chat::parse(&body)) else { return Ok(None) };
        self.agree("the version", chat.version, version);
        self.agree("the step", chat.step, step);
        self.agree("the newest command obeyed", chat.obeyed, obeyed);
        self.agree("the status", tables::status_word(chat.status), status);
        self.agree("the title", &chat.title, title);
        Ok(Some(chat))
    }

    /// Messages, rewound ones too. Versions of the others grow with their numbers, up to the chat's.
    fn messages(&mut self, chat: Option<&Chat>) -> Found<()> {
        let sql = "SELECT id, version, gone IS NULL, body FROM messages WHERE chat = ?1 ORDER BY id, number";
        let mut select = self.connection.prepare(sql)?;
        let mut found = select.query(params![id(self.chat)])?;
        let mut newest = 0;
        while let Some(row) = found.next()? {
            let (number, version, is_there) = (unsigned(row, 0)?, unsigned(row, 1)?, row.get::<_, bool>(2)?);
            let what = format!("message {number}");
            let message = self.build(&what, shape::message::parse(&row.get::<_, String>(3)?));
            if let Some(message) = message {
                self.agree(&format!("the number of {what}"), message.id, number);
            }
            if is_there && version < newest {
                self.defects.push(StoredDefect::Gap { what: format!("the order of commits at {what}") });
            }
            newest = if is_there { version } else { newest };
            if let Some(chat) = chat.filter(|chat| version > chat.version.0 || number > chat.newest.0) {
                let (what, one) = (format!("the newest commit or message, by {what},"), format!("{version}, {number}"));
                let other = format!("{}, {}", chat.version, chat.newest);
                self.defects.push(StoredDefect::Disagrees { what, one, other });
            }
        }
        Ok(())
    }

    /// What the journal has of the chat. The appends of the open step follow each other from the first delta.
    fn drafts(&mut self, chat: Option<&Chat>) -> Found<()> {
        let number = "SELECT number FROM chats WHERE id = ?1";
        let number: i64 = self.connection.query_row(number, params![id(self.chat)], |row| row.get(0))?;
        let mut select = self.connection.prepare("SELECT place, body FROM drafts ORDER BY place")?;
        let (mut found, mut appends) = (select.query([])?, Vec::new());
        while let Some(row) = found.next()? {
            let (place, text): (i64, String) = (row.get(0)?, row.get(1)?);
            let Ok(entries) = bundle::parse(&text) else { continue }; // TxEffect with what belongs to no chat.
            for entry in entries.iter().filter(|entry| entry.head.chat == number) {
                let what = format!("row {place} of the journal");
                if let Some(rows) = self.build(&what, entry.rows()) {
                    appends.push((entry.head.step.0, entry.head.first.0, rows.len() as u64, what));
                }
            }
        }
        let Some(open) = chat.map(|chat| chat.step.0) else { return Ok(()) };
        appends.sort();
        let mut next = 1;
        for (step, first, count, what) in appends.into_iter().filter(|(step, ..)| *step >= open) {
            if step > open {
                self.agree(&format!("the newest step, by {what},"), step, open);
                continue;
            }
            if first > next {
                self.defects.push(StoredDefect::Gap { what: format!("the journal of step {step} before {first}") });
            }
            next = next.max(first + count);
        }
        Ok(())
    }

    /// Commands are numbered 1, 2, 3…, and applied ones have an outcome.
    fn inbox(&mut self, chat: Option<&Chat>) -> Found<()> {
        let mut select =
            self.connection.prepare("SELECT seq, outcome, body FROM inbox WHERE chat = ?1 ORDER BY seq")?;
        let mut found = select.query(params![id(self.chat)])?;
        let mut next = 1;
        while let Some(row) = found.next()? {
            let seq = unsigned(row, 0)?;
            let what = format!("command {seq}");
            if seq != next {
                self.defects.push(StoredDefect::Gap { what: format!("the inbox before {what}") });
            }
            next = seq + 1;
            let outcome: Option<String> = row.get(1)?;
            if let Some(Err(error)) = outcome.as_deref().map(shape::outcome::read) {
                self.unreadable(format!("the outcome of {what}"), &error);
            }
            if let Some(chat) = chat {
                let is_obeyed = if seq <= chat.obeyed.0 { "obeyed" } else { "waiting" };
                self.agree(&what, is_obeyed, if outcome.is_some() { "obeyed" } else { "waiting" });
            }
            let _ = self.build(&what, shape::command::parse(&row.get::<_, String>(2)?)); // Its defects are noted.
        }
        Ok(())
    }

    fn attempts(&mut self) -> Found<()> {
        let mut select =
            self.connection.prepare("SELECT number, body FROM attempts WHERE chat = ?1 ORDER BY number")?;
        let mut found = select.query(params![id(self.chat)])?;
        while let Some(row) = found.next()? {
            if let Err(error) = shape::attempted::read(&row.get::<_, String>(1)?) {
                self.unreadable(format!("attempt {}", row.get::<_, i64>(0)?), &error);
            }
        }
        Ok(())
    }
}
