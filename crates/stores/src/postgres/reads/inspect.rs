//! A database, looked at from outside.
//!
//! Whoever only looks changes nothing: no table is made or brought up to date, and no other process hears of them. What
//! is looked at together is of one moment, however busy the processes are that use the database.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::ids::ChatId;
use everturn_core::message::Message;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::chat_snapshot::ChatSnapshot;
use crate::postgres::PostgresOptions;
use crate::postgres::connection::columns::{HEADING, count, heading, id_bytes};
use crate::postgres::connection::pool::{Link, Mode, Param};
use crate::postgres::connection::retry::{Fault, Patience};
use crate::postgres::reads::chat::{CALLS, calls, messages, page};
use crate::postgres::setup::address::Address;
use crate::postgres::setup::migrate;
use crate::store::StoreError;
use crate::tables::{Fetch, Sheet};

/// A database that is only looked at.
pub struct PostgresInspection {
    pub(crate) link: Arc<Link>,
    /// For what requests and subscribers read; the same if there are few.
    pub(crate) watching: Arc<Link>,
    pub(crate) patience: Duration,
}

impl PostgresInspection {
    /// Looks at the database at `url`, which other processes may be using. Needs a tokio runtime with time and IO.
    ///
    /// # Errors
    /// It cannot be reached, or has another schema than this program reads.
    pub async fn open(url: &str, options: &PostgresOptions) -> Result<Self, StoreError> {
        let link = Link::new(Address::parse(url, options)?, options.connections_max, options)?;
        migrate::refuse_other(&link, Patience::new(options.patience)).await?;
        let link = Arc::new(link);
        Ok(Self { watching: link.clone(), link, patience: options.patience })
    }

    pub(crate) fn patience(&self) -> Patience {
        Patience::new(self.patience)
    }

    /// One statement in a transaction of its own.
    pub(crate) async fn query_once(&self, mode: Mode, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Fault> {
        self.link.query_once(mode, sql, params).await
    }

    /// One statement that reads for a driver, tried as long as patience lasts.
    pub(crate) async fn read(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        self.read_over(&self.link, sql, params).await
    }

    /// The same for whoever watches or asks.
    pub(crate) async fn look(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        self.read_over(&self.watching, sql, params).await
    }

    async fn read_over(&self, link: &Link, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let mut patience = self.patience();
        loop {
            match link.query_once(Mode::Read, sql, params).await {
                Ok(rows) => return Ok(rows),
                Err(fault) => patience.wait(fault).await?,
            }
        }
    }

    /// A chat at one moment.
    ///
    /// # Errors
    /// It is not there, or cannot be read.
    pub async fn picture(&self, chat: ChatId) -> Result<ChatSnapshot, StoreError> {
        let mut patience = self.patience();
        loop {
            match self.try_picture(chat).await {
                Ok(picture) => return Ok(picture),
                Err(fault) => patience.wait(fault).await?,
            }
        }
    }

    async fn try_picture(&self, chat: ChatId) -> Result<ChatSnapshot, Fault> {
        let (conn, id) = (self.link.conn().await?, id_bytes(chat));
        let params: [Param<'_>; 1] = [(&&id[..], Type::BYTEA)];
        let sql = format!("SELECT {HEADING} FROM chats WHERE id = $1");
        let sheet = Sheet::endless();
        let page = page(&conn, chat, i64::MAX, (usize::MAX, &sheet));
        let (_, about, found, called) =
            tokio::try_join!(conn.begin(Mode::Read), conn.query_opt(&sql, &params), page, conn.query(CALLS, &params))?;
        let heading = heading(&about.ok_or(StoreError::NoSuchChat)?)?;
        let transcript: Vec<Arc<Message>> = messages(&conn, chat, &found, Fetch::Bytes).await?;
        conn.commit().await?;
        Ok(ChatSnapshot { heading, transcript, calls: calls(&called)? })
    }

    /// A name that no other database has, nor this one after it was made anew, or moved.
    pub(crate) async fn name(&self) -> Result<String, StoreError> {
        let sql = "
            SELECT (SELECT system_identifier FROM pg_control_system()) AS system,
                (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database,
                'everturn_schema'::regclass::oid::bigint AS made";
        let rows = self.read(sql, &[]).await?;
        let row = rows.first().ok_or_else(|| StoreError::Unavailable("the database has no name".into()))?;
        Ok(format!("{:016x}-{}-{}", row.get::<_, i64>("system"), count(row, "database"), count(row, "made")))
    }
}
