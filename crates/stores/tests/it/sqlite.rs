//! The store in a data directory, held to the rules of stores and to its own.

mod backup;
mod damaged;
mod deleted;
mod inspecting;
mod long;
mod older;
mod opening;
mod trouble;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use everturn_stores::sqlite::{Sqlite, SqliteOptions};
use everturn_testkit::Layered;
use rusqlite::Connection;

use crate::reopened::Reopened;

fn open(dir: impl AsRef<Path>) -> Arc<Sqlite> {
    Arc::new(Sqlite::open(dir.as_ref(), &SqliteOptions::default()).expect("the directory can be used"))
}

/// Damages half of a closed database. The log is removed first: its pages would replace the damaged ones.
fn damage(dir: impl AsRef<Path>) {
    let file = dir.as_ref().join("everturn.db");
    let database = Connection::open(&file).expect("it is whole");
    let log: i64 = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).expect("it is ours");
    assert_eq!(log, 0, "no other process has it open");
    drop(database);
    let mut bytes = std::fs::read(&file).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xa5); // Whatever lies where: some of it is in use.
    std::fs::write(&file, bytes).expect("it is ours");
}

/// Where a process that plays `part` is told its directory.
const DIR: &str = "EVERTURN_TEST_DIR";

/// Another process, which plays one of the parts below in `dir`.
fn other(part: &str, dir: impl AsRef<Path>) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test knows itself"));
    command.args(["--exact", part, "--ignored", "--nocapture"]).env(DIR, dir.as_ref()).env_remove("EVERTURN_FAILPOINT");
    command
}

/// The directory, in a process that plays a part.
fn given() -> std::path::PathBuf {
    std::env::var_os(DIR).expect("played by another test alone").into()
}

everturn_testkit::conformance! {
    /// CS02, CS03, CS05, CS10, CS13, CS15, CS17, CS23, CS24, PR13: SQLite keeps the rules of stores.
    #[test]
    fn kept_open() -> Layered<Reopened> {
        Reopened::store(u64::MAX)
    }
}

everturn_testkit::conformance! {
    /// CS05, CS24: closing and opening the store in between makes no difference.
    #[test]
    fn opened_again() -> Layered<Reopened> {
        Reopened::store(101)
    }
}
