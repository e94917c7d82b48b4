//! Bringing a database up to date.
//!
//! Each migration and its number are one transaction, so one that was killed has not happened and is run again. Programs
//! that start at the same time queue for a lock that ends with the transaction.

use crate::failpoint::failpoint;
use crate::postgres::connection::pool::{Conn, ConnectionPool, TxMode};
use crate::postgres::connection::retry::{DbFault, RetryWindow};
use crate::store::StoreError;

const MIGRATIONS: [&str; 10] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
    include_str!("schema/10.sql"),
];
/// Advisory lock number: any that no other program uses in the same database.
const LOCK: i64 = 0x6576_6572_7475_726e;

/// The newest schema this program knows.
pub(crate) const NEWEST: usize = MIGRATIONS.len();

/// Brings the database to the newest schema; one that is newer still is refused.
pub(crate) async fn migrate(pool: &ConnectionPool, retry: RetryWindow) -> Result<(), StoreError> {
    retry.run(|| try_migrate(pool)).await
}

/// Refuses a database that has another schema than this program reads, and changes nothing.
pub(crate) async fn refuse_other(pool: &ConnectionPool, retry: RetryWindow) -> Result<(), StoreError> {
    let version = retry.run(|| version(pool)).await?;
    let why = match version {
        NEWEST => return Ok(()),
        0 => "the database has no chats of ours yet: start a server on it first".into(),
        newer if newer > NEWEST => too_new(newer),
        older => {
            format!("the database has schema {older}, and this program reads {NEWEST}: start its server on it first")
        }
    };
    Err(StoreError::Unreadable(why))
}

async fn version(pool: &ConnectionPool) -> Result<usize, DbFault> {
    let conn = pool.conn().await?;
    let sql = "SELECT 1 WHERE to_regclass('everturn_schema') IS NOT NULL";
    let (_, noted) = tokio::try_join!(conn.begin(TxMode::Read), conn.query_opt(sql, &[]))?;
    let row = match noted {
        Some(_) => conn.query_opt("SELECT version FROM everturn_schema", &[]).await?,
        None => None,
    };
    conn.commit().await?;
    Ok(row.map_or(0, |row| row.get::<_, i64>(0)) as usize)
}

fn too_new(version: usize) -> String {
    format!("the database has schema {version}, and this program knows up to {NEWEST}: upgrade it")
}

async fn try_migrate(pool: &ConnectionPool) -> Result<(), DbFault> {
    let conn = pool.conn().await?;
    while step(&conn).await? < NEWEST {}
    Ok(())
}

/// Does the next migration, if there is one, and says where that leaves the database.
async fn step(conn: &Conn) -> Result<usize, DbFault> {
    conn.begin(TxMode::Write).await?;
    let lock = format!(
        "SELECT pg_advisory_xact_lock({LOCK}); \
         CREATE TABLE IF NOT EXISTS everturn_schema (version bigint NOT NULL)"
    );
    conn.simple(&lock).await?;
    let row = conn.query_opt("SELECT version FROM everturn_schema", &[]).await?;
    let version = row.map_or(0, |row| row.get::<_, i64>(0)) as usize;
    if version > NEWEST {
        conn.rollback().await?;
        return Err(StoreError::Unreadable(too_new(version)).into());
    }
    let Some(migration) = MIGRATIONS.get(version) else {
        conn.commit().await?;
        return Ok(version);
    };
    failpoint!("postgres-migrate-begin");
    conn.simple(migration).await?;
    failpoint!("postgres-migrate-middle");
    let version = version + 1;
    let note = format!("DELETE FROM everturn_schema; INSERT INTO everturn_schema VALUES ({version})");
    conn.simple(&note).await?;
    failpoint!("postgres-migrate-commit");
    conn.commit().await?;
    failpoint!("postgres-migrate-end");
    Ok(version)
}
