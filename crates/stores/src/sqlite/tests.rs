//! What cannot be seen from outside.

mod batches;
mod trimming;
mod walking;

use std::path::PathBuf;
use std::sync::Arc;

use super::{Sqlite, SqliteOptions};

/// A directory for one test, empty.
pub(crate) fn dir(test: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("everturn-{test}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir); // Of an earlier process of the same number.
    dir
}

pub(crate) fn open(dir: &std::path::Path) -> Arc<Sqlite> {
    Arc::new(Sqlite::open(dir, &SqliteOptions::default()).expect("the directory can be used"))
}

/// How many rows the log has.
async fn log_len(store: &Sqlite) -> usize {
    let count = |snapshot: &rusqlite::Connection| {
        Ok(snapshot.query_row("SELECT count(*) FROM drafts", [], |row| row.get::<_, i64>(0))?)
    };
    store.read(count).await.expect("it can be asked").unsigned_abs() as usize
}
