//! Connections, with every setting verified.
//!
//! SQLite silently ignores unknown settings, and keeps another value where it cannot apply one. Settings that durability
//! depends on are therefore read back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::sqlite::setup::open::OpenError;

/// The oldest SQLite that can be trusted: before it, two connections could reset a log under each other.
const SQLITE_MIN: i32 = 3_051_003;
/// How long a connection waits for another's.
pub(crate) const BUSY_MAX: Duration = Duration::from_secs(5);
/// How much of the log is kept on disk once it was written back.
const WAL_BYTES_KEPT: i64 = 64 << 20;
/// How many KiB of pages a connection keeps at hand. The one that writes mostly appends.
const READING_KIB: u32 = 2_048;
const WRITING_KIB: u32 = 512;
/// So many cached statements are all there are.
const STATEMENTS: usize = 64;

/// The one that writes, and makes the file if there is none.
pub(crate) fn writing(file: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    set(&connection, "page_size", "4096", Applies::OfNewFiles)?;
    set(&connection, "journal_mode", "wal", Applies::Always)?;
    set(&connection, "synchronous", "2", Applies::Always)?;
    set(&connection, "wal_autocheckpoint", "0", Applies::Always)?;
    set(&connection, "journal_size_limit", &WAL_BYTES_KEPT.to_string(), Applies::Always)?;
    set(&connection, "secure_delete", "0", Applies::Always)?;
    usual(connection, WRITING_KIB)
}

/// One that only reads.
pub(crate) fn reading(file: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    set(&connection, "query_only", "1", Applies::Always)?;
    usual(connection, READING_KIB)
}

/// A connection that leaves no trace, for a file that may not be ours. Reading a database in WAL mode creates a log file,
/// so a database without one is opened as immutable.
pub(crate) fn peeking(file: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if log_of(file).exists() {
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(BUSY_MAX)?;
        return Ok(connection);
    }
    let name: String = file.as_os_str().as_encoded_bytes().iter().map(|byte| format!("%{byte:02x}")).collect();
    Ok(Connection::open_with_flags(format!("file:{name}?immutable=1"), flags | OpenFlags::SQLITE_OPEN_URI)?)
}

/// Where SQLite keeps what it has not yet written back into `file`.
pub(crate) fn log_of(file: &Path) -> PathBuf {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

fn usual(connection: Connection, cache_kib: u32) -> Result<Connection, OpenError> {
    connection.busy_timeout(BUSY_MAX)?;
    set(&connection, "mmap_size", "0", Applies::Always)?;
    set(&connection, "cache_size", &format!("-{cache_kib}"), Applies::Always)?;
    set(&connection, "trusted_schema", "0", Applies::Always)?;
    set(&connection, "cell_size_check", "1", Applies::Always)?;
    // A plan is for all values: otherwise some statements would be planned anew each time, because another index may serve.
    if !connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)? {
        return Err(OpenError::Setting { name: "enable_qpsg", wanted: "1".into(), found: "0".into() });
    }
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Which files a setting applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applies {
    Always,
    OfNewFiles,
}

fn set(connection: &Connection, name: &'static str, value: &str, asked: Applies) -> Result<(), OpenError> {
    connection.pragma_update_and_check(None, name, value, |_| Ok(())).or_else(|error| match error {
        rusqlite::Error::QueryReturnedNoRows => Ok(()),
        other => Err(other),
    })?;
    let found = read(connection, name)?;
    if found != value && asked == Applies::Always {
        return Err(OpenError::Setting { name, wanted: value.into(), found });
    }
    Ok(())
}

/// What a setting is.
pub(crate) fn read(connection: &Connection, name: &str) -> Result<String, rusqlite::Error> {
    use rusqlite::types::ValueRef;
    connection.pragma_query_value(None, name, |row| {
        Ok(match row.get_ref(0)? {
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => String::new(),
        })
    })
}

/// Whether the library is new enough.
pub(crate) fn refuse_old_library() -> Result<(), OpenError> {
    match rusqlite::version_number() {
        SQLITE_MIN.. => Ok(()),
        _ => Err(OpenError::Old { found: rusqlite::version().into() }),
    }
}

/// Why a connection could not be made again, as SQLite would say it.
pub(crate) fn as_sqlite(error: OpenError) -> rusqlite::Error {
    match error {
        OpenError::Sqlite(error) => error,
        other => {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
            rusqlite::Error::SqliteFailure(code, Some(other.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_was_not_taken_is_an_error() {
        let memory = Connection::open_in_memory().unwrap();
        let refused = set(&memory, "journal_mode", "wal", Applies::Always).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "SQLite has journal_mode at memory and not at wal, so nothing could be promised"
        );
        let unknown = set(&memory, "no_such_setting", "1", Applies::Always);
        assert!(unknown.is_err(), "SQLite itself is silent about it");
        set(&memory, "cache_size", "-2048", Applies::Always).unwrap();
    }

    #[test]
    fn the_library_is_new_enough() {
        refuse_old_library().unwrap();
    }
}
