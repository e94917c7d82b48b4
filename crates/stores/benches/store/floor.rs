//! The floor: the bytes that a store writes, written with nothing around them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everturn_props::PostgresServer;
use everturn_stores::{Postgres, Sqlite, Store, postgres, sqlite};
use tokio_postgres::NoTls;

use crate::meter;

/// A row as the journal writes it: chat, position, time, and one delta.
const CHAT: i64 = 1_234;
const AT: i64 = 1_790_000_000_000;
const BODY: &str = r#"["and so it goes on, "]"#;

/// Less writing than this per interval counts as idle: heartbeats remain.
const REST: Duration = Duration::from_secs(1);
const REST_BYTES_MAX: u64 = 64 << 10;

/// SQLite as the store opens it.
pub fn sqlite_store(dir: &Path) -> Arc<dyn Store> {
    Arc::new(Sqlite::open(&dir.join("store"), &sqlite::SqliteOptions::default()).unwrap())
}

/// Postgres as the store opens it.
pub async fn postgres_store(server: &PostgresServer) -> Arc<dyn Store> {
    Arc::new(Postgres::open(&server.url("postgres"), postgres::PostgresOptions::default()).await.unwrap())
}

/// A database that rows are put into as directly as can be.
pub enum Floor<'a> {
    Sqlite(&'a Path),
    Postgres(&'a PostgresServer),
}

/// Rows to put in: how many, how many in a transaction, and how far apart transactions begin at least.
#[derive(Debug, Clone, Copy)]
pub struct Rows {
    pub len: usize,
    pub batch: usize,
    pub gap: Duration,
}

impl Rows {
    /// So many rows, as fast as they go in.
    pub const fn at_once(len: usize, batch: usize) -> Self {
        Self { len, batch, gap: Duration::ZERO }
    }

    /// How many go into each transaction, and when it is due.
    fn batches(self) -> impl Iterator<Item = (usize, Duration)> {
        let starts = (0..self.len).step_by(self.batch.max(1));
        starts.zip(0..).map(move |(start, number)| (self.batch.min(self.len - start), self.gap * number))
    }
}

/// What putting rows in took: seconds, seconds of CPU, and each transaction.
pub struct Took {
    pub seconds: f64,
    pub cpu: f64,
    pub delays: Vec<Duration>,
}

impl Floor<'_> {
    /// Puts rows in.
    pub async fn insert(&self, rows: Rows) -> Took {
        match self {
            Self::Sqlite(dir) => sqlite(dir, rows),
            Self::Postgres(server) => postgres(server, rows).await,
        }
    }

    /// CPU time so far of processes that work for the store.
    pub async fn cpu_elsewhere(&self) -> f64 {
        let Self::Postgres(server) = self else { return 0.0 };
        let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'everturn'";
        let pids: Vec<i32> = client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        drop(client);
        drop(connection.await);
        pids.into_iter().map(|pid| meter::cpu_of(&pid.to_string()).as_secs_f64()).sum()
    }

    /// Waits until what was measured before is over: a flood leaves much to be filed and written back.
    pub async fn rest(&self) {
        let mut before = self.written().await;
        loop {
            tokio::time::sleep(REST).await;
            let now = self.written().await;
            if now - before < REST_BYTES_MAX {
                return;
            }
            before = now;
        }
    }

    /// Bytes that were handed to write calls so far, or to the log of Postgres.
    pub async fn written(&self) -> u64 {
        match self {
            Self::Sqlite(_) => meter::written(),
            Self::Postgres(server) => {
                let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls).await.unwrap();
                let connection = tokio::spawn(connection);
                let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
                let written: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
                drop(client);
                drop(connection.await);
                written.unsigned_abs()
            }
        }
    }
}

fn sqlite(dir: &Path, rows: Rows) -> Took {
    let mut connection = rusqlite::Connection::open(dir.join("floor.db")).unwrap();
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; DROP TABLE IF EXISTS floor;
        CREATE TABLE floor (place INTEGER PRIMARY KEY, chat INTEGER, step INTEGER, first INTEGER, at INTEGER, body TEXT)";
    connection.execute_batch(pragmas).unwrap();
    let (started, cpu) = (Instant::now(), meter::cpu());
    let mut delays = Vec::new();
    for (len, due) in rows.batches() {
        std::thread::sleep((started + due).saturating_duration_since(Instant::now()));
        let begun = Instant::now();
        let transaction = connection.transaction().unwrap();
        let sql = "INSERT INTO floor (chat, step, first, at, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut insert = transaction.prepare_cached(sql).unwrap();
        for first in 0..len {
            insert.execute(rusqlite::params![CHAT, 1, first as i64, AT, BODY]).unwrap();
        }
        drop(insert);
        transaction.commit().unwrap();
        delays.push(begun.elapsed());
    }
    Took { seconds: started.elapsed().as_secs_f64(), cpu: (meter::cpu() - cpu).as_secs_f64(), delays }
}

async fn postgres(server: &PostgresServer, rows: Rows) -> Took {
    let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let tables = "SET synchronous_commit = off; DROP TABLE IF EXISTS floor;
        CREATE TABLE floor (chat BIGINT, step BIGINT, first BIGINT, at BIGINT, body TEXT)";
    client.batch_execute(tables).await.unwrap();
    let sql =
        "INSERT INTO floor SELECT * FROM UNNEST($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])";
    let insert = client.prepare(sql).await.unwrap();
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let both = || (meter::cpu() + meter::cpu_of(&pid.to_string())).as_secs_f64();
    let (started, cpu) = (Instant::now(), both());
    let mut delays = Vec::new();
    for (len, due) in rows.batches() {
        tokio::time::sleep_until((started + due).into()).await;
        let (chats, ones, times, bodies) = (vec![CHAT; len], vec![1_i64; len], vec![AT; len], vec![BODY; len]);
        let firsts: Vec<i64> = (0..len as i64).collect();
        let begun = Instant::now();
        client.execute(&insert, &[&chats, &ones, &firsts, &times, &bodies]).await.unwrap();
        delays.push(begun.elapsed());
    }
    let took = Took { seconds: started.elapsed().as_secs_f64(), cpu: both() - cpu, delays };
    drop(client);
    drop(connection.await);
    took
}
