//! Read-only inspection of a data directory.
//!
//! A directory that is inspected may be in use, or too damaged to be opened as a store. The inspection only reads, beside
//! the process that writes, and relies on nothing: every row of a chat is read, and unreadable rows are reported.

mod rows;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use everturn_core::fact::AttemptRecord;
use everturn_core::ids::ChatId;
use everturn_core::message::Message;
use rusqlite::Connection;

use crate::chat_snapshot::ChatSnapshot;
use crate::heading::Heading;
use crate::shape::bundle;
use crate::sqlite::error::store_error;
use crate::sqlite::reads::chat;
use crate::sqlite::reads::damage;
use crate::sqlite::reads::list;
use crate::sqlite::setup::connect;
use crate::sqlite::setup::migrate;
use crate::sqlite::setup::open::{self, OpenError};
use crate::store::{CallRecord, MessageRange, StoreError};

/// Steps of SQLite's virtual machine between two calls of `alive`.
const STEPS: i32 = 1_000_000;
/// Faults of the file reported at most.
const FAULTS_LEN_MAX: u32 = 100;
/// Tables with rows of chats.
const TABLES: [&str; 6] = ["messages", "spoken", "inbox", "attempts", "calls", "blobs"];

/// A data directory that is only read.
#[derive(Debug)]
pub struct SqliteInspection {
    connection: Connection,
}

/// A defect of stored data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredDefect {
    /// A row cannot be read.
    Unreadable {
        /// Which.
        what: String,
        /// Why not.
        why: String,
    },
    /// Two places that must say the same do not.
    Disagrees {
        /// What they are about.
        what: String,
        /// What one says.
        one: String,
        /// What the other says.
        other: String,
    },
    /// Something that is counted has a gap.
    Gap {
        /// What.
        what: String,
    },
    /// Bytes that a text refers to are gone.
    NoBytes {
        /// What refers to them.
        what: String,
    },
    /// Bytes are not those that were stored.
    WrongBytes {
        /// Their name.
        blob: String,
    },
    /// Rows belong to no chat.
    OrphanRows {
        /// The table.
        table: &'static str,
        /// How many.
        rows: u64,
    },
    /// Bytes that nothing refers to any more. They do no harm.
    Unused {
        /// How many blobs.
        blobs: u64,
        /// How large they are together.
        bytes: u64,
    },
}

impl StoredDefect {
    /// Whether it only wastes space.
    #[must_use]
    pub const fn is_harmless(&self) -> bool {
        matches!(self, Self::Unused { .. })
    }
}

impl fmt::Display for StoredDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { what, why } => write!(f, "{what} cannot be read: {why}"),
            Self::Disagrees { what, one, other } => write!(f, "{what} is {one} in one place and {other} in another"),
            Self::Gap { what } => write!(f, "{what} has a gap"),
            Self::NoBytes { what } => write!(f, "bytes of {what} are gone"),
            Self::WrongBytes { blob } => write!(f, "the bytes stored as {blob} are not those"),
            Self::OrphanRows { table, rows } => write!(f, "{rows} rows of {table} belong to no chat"),
            Self::Unused { blobs, bytes } => write!(f, "{blobs} stored files of {bytes} bytes are not used any more"),
        }
    }
}

impl SqliteInspection {
    /// Opens a data directory for inspection. Another process may be using it.
    ///
    /// # Errors
    /// There is no database, or it is not ours, or a later release has written it.
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        connect::refuse_old_library()?;
        let file = open::file_in(dir);
        if !file.exists() {
            return Err(OpenError::Missing(dir.into()));
        }
        let connection = connect::reading(&file)?;
        migrate::refuse_newer(&connection)?;
        Ok(Self { connection })
    }

    /// The schema it has, and the newest one known. An older one is brought up to date when the directory is next used.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn schema(&self) -> Result<(i64, i64), StoreError> {
        Ok((migrate::schema_of(&self.connection).map_err(|error| store_error(&error))?, migrate::SCHEMA))
    }

    /// Checks the whole file for damage, and returns what SQLite reports; nothing if it is sound. `alive` is called now
    /// and then.
    ///
    /// # Errors
    /// It cannot be looked through.
    pub fn damage(&mut self, mut alive: impl FnMut() + Send + 'static) -> Result<Vec<String>, StoreError> {
        let failed = |error: rusqlite::Error| store_error(&error);
        let beat = move || {
            alive();
            false
        };
        self.connection.progress_handler(STEPS, Some(beat)).map_err(failed)?;
        let mut found = Vec::new();
        let checked = self.connection.pragma(None, "integrity_check", FAULTS_LEN_MAX, |row| {
            found.push(row.get::<_, String>(0)?);
            Ok(())
        });
        self.connection.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
        match checked {
            Ok(()) => Ok(found.into_iter().filter(|line| line != "ok").collect()),
            // A file can be too broken to be looked through.
            Err(error) => match OpenError::from(error) {
                OpenError::Damaged(why) => Ok(found.into_iter().chain([why]).collect()),
                OpenError::Sqlite(error) => Err(failed(error)),
                other => Err(StoreError::Unavailable(other.to_string())),
            },
        }
    }

    /// All chats, oldest first, damaged ones too as far as they can be named.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn chats(&self) -> Result<Vec<ChatId>, StoreError> {
        let all = damage::all(&self.connection).map_err(|error| store_error(&error))?;
        Ok(all.into_iter().map(|(_, chat)| chat).collect())
    }

    /// List entry of a chat.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn heading(&self, chat: ChatId) -> Result<Heading, StoreError> {
        Ok(list::heading(&self.connection, chat)?)
    }

    /// The whole transcript of a chat, rewound messages left out.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn transcript(&self, chat: ChatId) -> Result<Vec<Arc<Message>>, StoreError> {
        chat::is_there(&self.connection, chat)?;
        Ok(chat::messages::<StoreError>(&self.connection, chat, MessageRange::All)?)
    }

    /// Every provider call ever made for a chat.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn attempts(&self, chat: ChatId) -> Result<Vec<AttemptRecord>, StoreError> {
        Ok(chat::attempts(&self.connection, chat, 0, usize::MAX)?)
    }

    /// Every tool call that was ever started in a chat.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError> {
        Ok(chat::calls(&self.connection, chat)?)
    }

    /// A chat at one moment.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub fn snapshot(&self, chat: ChatId) -> Result<ChatSnapshot, StoreError> {
        let _moment = self.connection.unchecked_transaction().map_err(|error| store_error(&error))?;
        Ok(ChatSnapshot { heading: self.heading(chat)?, transcript: self.transcript(chat)?, calls: self.calls(chat)? })
    }

    /// Defects in the rows of a chat. Whether they form a valid transcript is checked elsewhere.
    ///
    /// # Errors
    /// There is no such chat, or the database cannot be read at all.
    pub fn defects(&self, chat: ChatId) -> Result<Vec<StoredDefect>, StoreError> {
        // In one transaction, because half of a concurrent commit would look like a fault.
        let picture = self.connection.unchecked_transaction().map_err(|error| store_error(&error))?;
        Ok(rows::defects(&picture, chat)?)
    }

    /// Rows that belong to no chat.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn orphans(&self) -> Result<Vec<StoredDefect>, StoreError> {
        let mut orphans = Vec::new();
        for table in TABLES {
            let sql = format!("SELECT count(*) FROM {table} WHERE chat NOT IN (SELECT id FROM chats)");
            let counted = self.connection.query_row(&sql, [], |row| row.get::<_, i64>(0));
            match counted.map_err(|error| store_error(&error)) {
                Ok(0) => {}
                Ok(rows) => orphans.push(StoredDefect::OrphanRows { table, rows: rows.unsigned_abs() }),
                Err(StoreError::Damaged(why)) => orphans.push(StoredDefect::Unreadable { what: table.into(), why }),
                Err(error) => return Err(error),
            }
        }
        match self.journal_orphans().map_err(|error| store_error(&error)) {
            Err(StoreError::Damaged(why)) => orphans.push(StoredDefect::Unreadable { what: "drafts".into(), why }),
            found => orphans.extend(found?),
        }
        Ok(orphans)
    }

    /// Appends in the journal that belong to no chat, and rows of it that cannot be read.
    fn journal_orphans(&self) -> rusqlite::Result<Vec<StoredDefect>> {
        let mut known = self.connection.prepare("SELECT 1 FROM chats WHERE number = ?1")?;
        let mut select = self.connection.prepare("SELECT place, body FROM drafts")?;
        let (mut found, mut defects, mut orphans) = (select.query([])?, Vec::new(), 0);
        while let Some(row) = found.next()? {
            let text: String = row.get(1)?;
            match bundle::parse(&text) {
                Ok(entries) => {
                    for entry in entries {
                        orphans += u64::from(!known.exists([entry.head.chat])?);
                    }
                }
                Err(bad) => defects.push(StoredDefect::Unreadable {
                    what: format!("row {} of the journal", row.get::<_, i64>(0)?),
                    why: bad.to_string(),
                }),
            }
        }
        defects.extend((orphans > 0).then_some(StoredDefect::OrphanRows { table: "drafts", rows: orphans }));
        Ok(defects)
    }
}
