//! Seeing to it that a draft is on the database's disk a moment after it was stored.
//!
//! The journal does not wait for the disk, because every stream would. By itself the database syncs such commits within
//! three times its `wal_writer_delay`: more than half a second, and not ours to set. So as long as there are any, something
//! is committed ten times a second that does wait: whatever was written before it is on the disk with it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::postgres::Inner;
use crate::postgres::connection::pool::TxMode;
use crate::postgres::connection::retry::DbFault;

/// How old a batch gets before it is synced.
const UNSYNCED_MAX: Duration = Duration::from_millis(100);
/// A transaction that writes nothing waits for nothing. This writes into the log alone: no row, no lock, nothing to clean
/// up, and anybody may.
const SYNC: &str = "SELECT pg_logical_emit_message(true, 'everturn', ''::text)";

/// Syncs for ever, and does nothing while nothing is journalled.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut is_told = false;
    loop {
        inner.unsynced.notified().await;
        sleep(UNSYNCED_MAX).await; // What is journalled meanwhile goes along.
        match inner.reads.query_once(TxMode::Write, SYNC, &[]).await {
            Ok(_) => is_told = false,
            Err(DbFault::Passing(why)) => {
                tracing::debug!(why, "drafts are not synced, later then");
                inner.unsynced.notify_one();
            }
            Err(DbFault::Lasting(error)) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(%error, "drafts are synced when the database does so by itself");
                }
            }
        }
    }
}
