//! The same bytes, written with nothing around them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use everturn_props::Server;
use everturn_stores::{Postgres, Sqlite, Store, postgres, sqlite};
use tokio_postgres::NoTls;

/// A row as the journal writes it: whose, where, and one delta.
const CHAT: [u8; 16] = [7; 16];
const BODY: &str = r#"{"v":1,"is":[1790000000000,"and so it goes on, "]}"#;

/// SQLite as the store opens it.
pub fn sqlite_store(dir: &Path) -> Arc<dyn Store> {
    Arc::new(Sqlite::open(&dir.join("store"), &sqlite::Options::default()).unwrap())
}

/// How many seconds `rows` take in transactions of `batch`.
pub fn sqlite(dir: &Path, rows: usize, batch: usize) -> f64 {
    let mut connection = rusqlite::Connection::open(dir.join("floor.db")).unwrap();
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; DROP TABLE IF EXISTS floor;
        CREATE TABLE floor (place INTEGER PRIMARY KEY, chat BLOB, step INTEGER, first INTEGER, count INTEGER, body TEXT)";
    connection.execute_batch(pragmas).unwrap();
    let started = Instant::now();
    let mut left = rows;
    while left > 0 {
        let transaction = connection.transaction().unwrap();
        let sql = "INSERT INTO floor (chat, step, first, count, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        let mut insert = transaction.prepare_cached(sql).unwrap();
        for first in 0..batch.min(left) {
            insert.execute(rusqlite::params![&CHAT[..], 1, first as i64, 1, BODY]).unwrap();
        }
        drop(insert);
        transaction.commit().unwrap();
        left -= batch.min(left);
    }
    started.elapsed().as_secs_f64()
}

/// Postgres as the store opens it.
pub async fn postgres_store(server: &Server) -> Arc<dyn Store> {
    Arc::new(Postgres::open(&server.url("postgres"), postgres::Options::default()).await.unwrap())
}

/// The same for Postgres.
pub async fn postgres(server: &Server, rows: usize, batch: usize) -> f64 {
    let (client, connection) = tokio_postgres::connect(&server.url("postgres"), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let tables = "SET synchronous_commit = off; DROP TABLE IF EXISTS floor;
        CREATE TABLE floor (chat BYTEA, step BIGINT, first BIGINT, count BIGINT, body TEXT)";
    client.batch_execute(tables).await.unwrap();
    let sql =
        "INSERT INTO floor SELECT * FROM UNNEST($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[])";
    let insert = client.prepare(sql).await.unwrap();
    let started = Instant::now();
    let mut left = rows;
    while left > 0 {
        let len = batch.min(left);
        let (chats, ones, bodies) = (vec![&CHAT[..]; len], vec![1_i64; len], vec![BODY; len]);
        let firsts: Vec<i64> = (0..len as i64).collect();
        client.execute(&insert, &[&chats, &ones, &firsts, &ones, &bodies]).await.unwrap();
        left -= len;
    }
    let took = started.elapsed().as_secs_f64();
    drop(client);
    drop(connection.await);
    took
}
