//! Connection pools and transactions.
//!
//! Everything is said so that a pooler may hand each transaction to another server process: statements have no name,
//! settings last for one transaction, and nothing is kept in a session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::failpoint::failpoint;
use crate::postgres::PostgresOptions;
use crate::postgres::connection::retry::DbFault;
use crate::postgres::setup::address::DbAddress;
use crate::store::StoreError;

/// A parameter, with the type it goes as.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// What a transaction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TxMode {
    /// Everything it reads is of one moment.
    Read,
    /// What it wrote is on disk when it is over.
    Write,
    /// What it wrote is on disk a little later.
    WriteLater,
}

/// A pool of connections.
pub(crate) struct ConnectionPool {
    pool: Pool,
    answer_max: Duration,
    statement_ms: u128,
}

impl ConnectionPool {
    pub(crate) fn new(
        DbAddress { config, tls }: DbAddress,
        len: usize,
        options: &PostgresOptions,
    ) -> Result<Self, StoreError> {
        let manager = Manager::from_config(config, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let pool = Pool::builder(manager)
            .max_size(len.max(1))
            .wait_timeout(Some(options.statement_max))
            .create_timeout(Some(options.connect_max))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let answer_max = options.statement_max * 2;
        Ok(Self { pool, answer_max, statement_ms: options.statement_max.as_millis().max(1) })
    }

    pub(crate) async fn conn(&self) -> Result<Conn, DbFault> {
        use deadpool_postgres::PoolError;
        let object = self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => DbFault::from(error),
            error => DbFault::Passing(format!("no connection to the database: {error}")),
        })?;
        let (answer_max, statement_ms) = (self.answer_max, self.statement_ms);
        Ok(Conn {
            object: Some(object),
            is_open: AtomicBool::new(false),
            is_writing: AtomicBool::new(false),
            answer_max,
            statement_ms,
        })
    }

    /// One statement in a transaction of its own.
    pub(crate) async fn query_once(&self, mode: TxMode, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, DbFault> {
        let conn = self.conn().await?;
        let (_, rows, ()) = tokio::try_join!(conn.begin(mode), conn.query(sql, params), conn.commit())?;
        Ok(rows)
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }
}

/// A connection on loan. One that is given back in the middle of a transaction is closed instead, which undoes it.
pub(crate) struct Conn {
    object: Option<Object>,
    is_open: AtomicBool,
    is_writing: AtomicBool,
    answer_max: Duration,
    statement_ms: u128,
}

impl Conn {
    fn client(&self) -> &Client {
        self.object.as_ref().expect("it is taken on drop alone")
    }

    /// Begins a transaction. Can be joined with its first statement: then both go at once.
    pub(crate) async fn begin(&self, mode: TxMode) -> Result<(), DbFault> {
        self.is_open.store(true, Ordering::Relaxed);
        if mode != TxMode::Read {
            failpoint!("postgres-begin");
            self.is_writing.store(true, Ordering::Relaxed);
        }
        let ms = self.statement_ms;
        let (level, durable) = match mode {
            TxMode::Read => ("ISOLATION LEVEL REPEATABLE READ READ ONLY", "on"),
            TxMode::Write => ("ISOLATION LEVEL READ COMMITTED READ WRITE", "on"),
            TxMode::WriteLater => ("ISOLATION LEVEL READ COMMITTED READ WRITE", "off"),
        };
        // A process that is stopped in the middle of a transaction keeps its locks no longer than a statement may take.
        let begin = format!(
            "BEGIN {level}; SET LOCAL statement_timeout = {ms}; SET LOCAL idle_in_transaction_session_timeout = {ms}; \
             SET LOCAL synchronous_commit = {durable}"
        );
        self.simple(&begin).await
    }

    /// Makes the transaction happen. Can be joined with its last statement, which undoes it if it fails.
    pub(crate) async fn commit(&self) -> Result<(), DbFault> {
        let is_writing = self.is_writing.swap(false, Ordering::Relaxed);
        if is_writing {
            failpoint!("postgres-commit");
        }
        self.simple("COMMIT").await?;
        self.is_open.store(false, Ordering::Relaxed);
        if is_writing {
            failpoint!("postgres-committed");
        }
        Ok(())
    }

    /// Undoes the transaction.
    pub(crate) async fn rollback(&self) -> Result<(), DbFault> {
        self.simple("ROLLBACK").await?;
        self.is_open.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Some statements without parameters.
    pub(crate) async fn simple(&self, sql: &str) -> Result<(), DbFault> {
        self.answer(self.client().batch_execute(sql)).await
    }

    pub(crate) async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, DbFault> {
        let params: Vec<(&(dyn ToSql + Sync), Type)> =
            params.iter().map(|(value, kind)| (*value, kind.clone())).collect();
        self.answer(self.client().query_typed(sql, &params)).await
    }

    pub(crate) async fn query_opt(&self, sql: &str, params: &[Param<'_>]) -> Result<Option<Row>, DbFault> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Does something, and says how many rows were touched.
    pub(crate) async fn execute(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, DbFault> {
        let params: Vec<(&(dyn ToSql + Sync), Type)> =
            params.iter().map(|(value, kind)| (*value, kind.clone())).collect();
        self.answer(self.client().execute_typed(sql, &params)).await
    }

    /// The database stops a long statement by itself. One that does not even do that is frozen or out of reach.
    async fn answer<T>(&self, asked: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, DbFault> {
        match tokio::time::timeout(self.answer_max, asked).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                self.is_open.store(true, Ordering::Relaxed);
                Err(DbFault::Passing("the database does not answer".into()))
            }
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        if self.is_open.load(Ordering::Relaxed)
            && let Some(object) = self.object.take()
        {
            drop(Object::take(object));
        }
    }
}
