//! Direct access to stored chats, without a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use everturn::core::fact::AttemptRecord;
use everturn::core::ids::ChatId;
use everturn::core::message::Message;
use everturn::stores::sqlite::{self, Sqlite, SqliteInspection};
use everturn::stores::{CallRecord, ChatQuery, ChatSnapshot, Heading, Postgres, Store, StoreError, postgres};

use crate::config::{AGENT, Config, Flags, Sandbox};

/// Chats per page.
const PAGE_LEN: usize = 200;

/// Arguments that name the store.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct Where {
    /// Data directory; `everturn` in the XDG data directory if left out. With DATABASE_URL, chats are in
    /// Postgres.
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Configuration file; `everturn/config.toml` in the XDG configuration directory if left out.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Where {
    /// The data directory.
    pub fn dir(&self) -> anyhow::Result<PathBuf> {
        let flags = Flags::of_data(self.data.clone(), self.config.clone());
        Ok(Config::read(&flags, |name| std::env::var(name).ok())?.data.value)
    }

    /// How far commands of tools must be confined.
    pub fn sandbox(&self) -> anyhow::Result<Sandbox> {
        let flags = Flags::of_data(self.data.clone(), self.config.clone());
        Ok(Config::read(&flags, |name| std::env::var(name).ok())?.sandbox.value)
    }

    /// Names of the agents in the configuration.
    pub fn agents(&self) -> anyhow::Result<Vec<String>> {
        let flags = Flags::of_data(self.data.clone(), self.config.clone());
        let config = Config::read(&flags, |name| std::env::var(name).ok())?;
        Ok([AGENT.to_owned()].into_iter().chain(config.agents.into_keys()).collect())
    }

    /// The Postgres URL, if one is set. It overrides the data directory, as it does with `serve`.
    #[allow(clippy::unused_self, reason = "where chats are is for this to say")]
    pub fn url(&self) -> Option<String> {
        std::env::var("DATABASE_URL").ok().filter(|url| !url.trim().is_empty())
    }

    /// Opens the store for reading.
    pub async fn look(&self) -> anyhow::Result<OfflineStore> {
        match self.url() {
            Some(url) => Ok(OfflineStore::Shared(Box::new(seen(&url).await?))),
            None => Ok(OfflineStore::Ours(Box::new(SqliteInspection::open(&self.dir()?)?))),
        }
    }

    /// Opens the store for writing. A data directory must not be in use.
    pub async fn write(&self) -> anyhow::Result<Arc<dyn Store>> {
        match self.url() {
            Some(url) => shared(&url).await,
            None => Ok(Arc::new(opened(&self.dir()?)?)),
        }
    }
}

async fn seen(url: &str) -> anyhow::Result<postgres::PostgresInspection> {
    let opened = postgres::PostgresInspection::open(url, &postgres::PostgresOptions::default()).await;
    opened.context("the database in DATABASE_URL")
}

async fn shared(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let opened = Postgres::open(url, postgres::PostgresOptions::default()).await;
    Ok(Arc::new(opened.context("the database in DATABASE_URL")?))
}

fn opened(dir: &Path) -> anyhow::Result<Sqlite> {
    Ok(Sqlite::open(dir, &sqlite::SqliteOptions::default())?)
}

/// A store that is opened for reading.
pub enum OfflineStore {
    /// A data directory, which a server may be using.
    Ours(Box<SqliteInspection>),
    /// A database that several processes share.
    Shared(Box<postgres::PostgresInspection>),
}

impl OfflineStore {
    pub async fn heading(&self, chat: ChatId) -> Result<Heading, StoreError> {
        match self {
            Self::Ours(inspection) => inspection.heading(chat),
            Self::Shared(inspection) => inspection.heading(chat).await,
        }
    }

    /// A consistent snapshot of a chat: servers may be running.
    pub async fn picture(&self, chat: ChatId) -> Result<ChatSnapshot, StoreError> {
        match self {
            Self::Ours(inspection) => inspection.snapshot(chat),
            Self::Shared(inspection) => inspection.snapshot(chat).await,
        }
    }

    pub async fn transcript(&self, chat: ChatId) -> Result<Vec<Arc<Message>>, StoreError> {
        match self {
            Self::Ours(inspection) => inspection.transcript(chat),
            Self::Shared(inspection) => inspection.transcript(chat).await,
        }
    }

    pub async fn attempts(&self, chat: ChatId) -> Result<Vec<AttemptRecord>, StoreError> {
        match self {
            Self::Ours(inspection) => inspection.attempts(chat),
            Self::Shared(inspection) => inspection.attempts(chat, 0, usize::MAX).await,
        }
    }

    pub async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError> {
        match self {
            Self::Ours(inspection) => inspection.calls(chat),
            Self::Shared(inspection) => inspection.calls(chat).await,
        }
    }

    /// All chats.
    pub async fn chats(&self) -> Result<Vec<ChatId>, StoreError> {
        let shared = match self {
            Self::Ours(inspection) => return inspection.chats(),
            Self::Shared(inspection) => inspection,
        };
        let (mut chats, mut query) = (Vec::new(), ChatQuery { len: PAGE_LEN, ..ChatQuery::default() });
        loop {
            let page = shared.headings(&query).await?;
            chats.extend(page.iter().map(|heading| heading.id));
            match page.last() {
                Some(last) if page.len() == PAGE_LEN => query.after = Some(last.place()),
                _ => return Ok(chats),
            }
        }
    }
}
