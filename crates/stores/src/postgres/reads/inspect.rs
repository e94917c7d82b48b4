//! A database, inspected without joining it.
//!
//! An inspection changes nothing: it creates and migrates no table, and has no worker row. Each answer is of one moment,
//! however busy the processes are that use the database.

use std::sync::Arc;

use everturn_core::fact::AttemptRecord;
use everturn_core::ids::ChatId;
use everturn_core::message::Message;

use crate::chat_snapshot::ChatSnapshot;
use crate::heading::{ChatQuery, Heading};
use crate::postgres::PostgresOptions;
use crate::postgres::connection::pool::ConnectionPool;
use crate::postgres::connection::retry::RetryWindow;
use crate::postgres::reads::chat::Reads;
use crate::postgres::setup::address::DbAddress;
use crate::postgres::setup::migrate;
use crate::store::{CallRecord, StoreError};

/// A database that is only read.
pub struct PostgresInspection(Reads);

impl PostgresInspection {
    /// Connects to the database at `url`, which other processes may be using. Needs a tokio runtime with time and IO.
    ///
    /// # Errors
    /// The database cannot be reached, or has another schema than this program reads.
    pub async fn open(url: &str, options: &PostgresOptions) -> Result<Self, StoreError> {
        let pool = ConnectionPool::new(DbAddress::parse(url, options)?, options.connections_max, options)?;
        migrate::refuse_other(&pool, RetryWindow::new(options.retry_max)).await?;
        let pool = Arc::new(pool);
        Ok(Self(Reads { watching: pool.clone(), pool, retry_max: options.retry_max }))
    }

    /// List entry of a chat.
    ///
    /// # Errors
    /// The chat does not exist, or cannot be read.
    pub async fn heading(&self, chat: ChatId) -> Result<Heading, StoreError> {
        self.0.heading(chat).await
    }

    /// List entries of chats, most recently touched first.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn headings(&self, query: &ChatQuery) -> Result<Vec<Heading>, StoreError> {
        self.0.headings(query).await
    }

    /// The whole transcript of a chat, rewound messages left out.
    ///
    /// # Errors
    /// The chat does not exist, or cannot be read.
    pub async fn transcript(&self, chat: ChatId) -> Result<Vec<Arc<Message>>, StoreError> {
        self.0.transcript(chat).await
    }

    /// Provider calls made for a chat: `len` of them after the first `seen`.
    ///
    /// # Errors
    /// The chat does not exist, or they cannot be read.
    pub async fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError> {
        self.0.attempts(chat, seen, len).await
    }

    /// Every tool call that was ever started in a chat.
    ///
    /// # Errors
    /// The chat does not exist, or they cannot be read.
    pub async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError> {
        self.0.calls(chat).await
    }

    /// A chat at one moment.
    ///
    /// # Errors
    /// The chat does not exist, or cannot be read.
    pub async fn snapshot(&self, chat: ChatId) -> Result<ChatSnapshot, StoreError> {
        self.0.snapshot(chat).await
    }
}
