//! The same bytes, written with nothing around them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everturn_props::Server;
use everturn_stores::{Postgres, Sqlite, Store, postgres, sqlite};
use tokio_postgres::NoTls;

use crate::meter;

/// A row as the journal writes it: whose, where, when, and one delta.
const CHAT: i64 = 1_234;
const AT: i64 = 1_790_000_000_000;
const BODY: &str = r#"["and so it goes on, "]"#;

/// Whoever writes less than this in such a time rests: it is only said now and then that a process lives.
const REST: Duration = Duration::from_secs(1);
const REST_BYTES_MAX: u64 = 64 << 10;

/// SQLite as the store opens it.
pub fn sqlite_store(dir: &Path) -> Arc<dyn Store> {
    Arc::new(Sqlite::open(&dir.join("store"), &sqlite::Options::default()).unwrap())
}

/// Postgres as the store opens it.
pub async fn postgres_store(server: &Server) -> Arc<dyn Store> {
    Arc::new(Postgres::open(&server.url("postgres"), postgres::Options::default()).await.unwrap())
}

/// A database that rows are put into as directly as can be.
pub enum Floor<'a> {
    Sqlite(&'a Path),
    Postgres(&'a Server),
}

impl Floor<'_> {
    /// What `rows` take in transactions of `batch`: seconds, and seconds of CPU.
    pub async fn insert(&self, rows: usize, batch: usize) -> (f64, f64) {
        match self {
            Self::Sqlite(dir) => sqlite(dir, rows, batch),
            Self::Postgres(server) => postgres(server, rows, batch).await,
        }
    }

    /// CPU time so far of those who work for the store outside this process.
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

fn sqlite(dir: &Path, rows: usize, batch: usize) -> (f64, f64) {
    let mut connection = rusqlite::Connection::open(dir.join("floor.db")).unwrap();
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; DROP TABLE IF EXISTS floor;
        CREATE TABLE floor (place INTEGER PRIMARY KEY, chat INTEGER, step INTEGER, first INTEGER, at INTEGER, body TEXT)";
    connection.execute_batch(pragmas).unwrap();
    let (started, cpu) = (Instant::now(), meter::cpu());
    let mut left = rows;
    while left > 0 {
        let transaction = connection.transaction().unwrap();
        let sql = "INSERT INTO floor (chat, step, first, at, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut insert = transaction.prepare_cached(sql).unwrap();
        for first in 0..batch.min(left) {
            insert.execute(rusqlite::params![CHAT, 1, first as i64, AT, BODY]).unwrap();
        }
        drop(insert);
        transaction.commit().unwrap();
        left -= batch.min(left);
    }
    (started.elapsed().as_secs_f64(), (meter::cpu() - cpu).as_secs_f64())
}

async fn postgres(server: &Server, rows: usize, batch: usize) -> (f64, f64) {
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
    let mut left = rows;
    while left > 0 {
        let len = batch.min(left);
        let (chats, ones, times, bodies) = (vec![CHAT; len], vec![1_i64; len], vec![AT; len], vec![BODY; len]);
        let firsts: Vec<i64> = (0..len as i64).collect();
        client.execute(&insert, &[&chats, &ones, &firsts, &times, &bodies]).await.unwrap();
        left -= len;
    }
    let took = (started.elapsed().as_secs_f64(), both() - cpu);
    drop(client);
    drop(connection.await);
    took
}
