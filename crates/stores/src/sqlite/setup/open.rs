//! Opening a data directory.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::sqlite::error::is_damage;
use crate::sqlite::setup::connect;
use crate::sqlite::setup::migrate;

/// The database in a data directory.
const FILE: &str = "everturn.db";
/// File that holds the lock, with the process id of its owner.
const LOCK: &str = "lock";
/// How many steps the check at the start may take, in thousands: about two seconds, or half a gigabyte.
const CHECK_STEPS_MAX: u32 = 5_000;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("the data directory {} is in use by process {holder}: stop it, or choose another directory", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// Its user, as far as known.
        holder: String,
    },
    /// There is no such database.
    #[error("there is no database in {}", .0.display())]
    Missing(PathBuf),
    /// The directory or a file in it cannot be used.
    #[error("the data directory {} cannot be used: {why}", dir.display())]
    Dir {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// A later release has written it.
    #[error("the database has schema {found}, and this program knows up to {known}: upgrade it")]
    Newer {
        /// The version found.
        found: i64,
        /// The newest one known.
        known: i64,
    },
    /// It is a database, and not ours.
    #[error("the file everturn.db is another program's database")]
    Foreign,
    /// It is damaged.
    #[error("the database is damaged: restore a backup ({0})")]
    Damaged(String),
    /// SQLite did not take a setting.
    #[error("SQLite has {name} at {found} and not at {wanted}, so nothing could be promised")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it should be.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// The library is too old.
    #[error("SQLite {found} can damage databases: 3.51.3 or later is needed")]
    Old {
        /// Its version.
        found: String,
    },
    /// Anything else SQLite says.
    #[error(transparent)]
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => Self::Damaged(error.to_string()),
            Some(_) | None => Self::Sqlite(error),
        }
    }
}

/// A data directory, locked for this process until this is dropped.
#[derive(Debug)]
pub(crate) struct LockedDir {
    pub(crate) file: PathBuf,
    _lock: File,
}

impl LockedDir {
    /// Locks the directory, and creates it if it does not exist.
    pub(crate) fn take(dir: &Path) -> Result<Self, OpenError> {
        let failed = |why| OpenError::Dir { dir: dir.into(), why };
        private_dir(dir).map_err(failed)?;
        let mut lock = private_file(&dir.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder); // It may not have written its name yet.
                let holder = if holder.trim().is_empty() { "unknown".into() } else { holder.trim().into() };
                return Err(OpenError::InUse { dir: dir.into(), holder });
            }
            Err(TryLockError::Error(why)) => return Err(failed(why)),
        }
        let named =
            lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| writeln!(lock, "{}", std::process::id()));
        private_file(&file_in(dir)).map_err(failed)?; // SQLite gives its other files the same mode.
        drop(named); // On a full disk the lock still holds, without the process id.
        Ok(Self { file: file_in(dir), _lock: lock })
    }
}

/// Creates a directory with access for its owner only. An existing one stays as it is.
fn private_dir(dir: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(dir)
}

/// Opens a file; creates it with access for its owner only.
fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.read(true).write(true).create(true).truncate(false).open(path)
}

/// Where the database of a data directory is.
pub(crate) fn file_in(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Opens the database for writing, checks it, and brings it up to date.
pub(crate) fn prepare(file: &Path) -> Result<Connection, OpenError> {
    connect::refuse_old_library()?;
    migrate::refuse_newer(&connect::peeking(file)?)?; // Before the other connection, which settles how the file is written.
    let mut connection = connect::writing(file)?;
    check(&mut connection)?;
    migrate::migrate(&mut connection)?;
    Ok(connection)
}

/// Checks for damage for a limited time: of a very large database only a part. Damage is logged and does not prevent the
/// start: other chats continue, and reads of damaged pages report it.
pub(crate) fn check(connection: &mut Connection) -> Result<(), OpenError> {
    let mut steps = 0;
    connection.progress_handler(
        1_000,
        Some(move || {
            steps += 1;
            steps > CHECK_STEPS_MAX
        }),
    )?;
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    connection.progress_handler(0, None::<fn() -> bool>)?;
    match found {
        Ok(found) if found == "ok" => Ok(()),
        Ok(found) => log_damage(&found),
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => Ok(()),
        Err(error) if is_damage(&error) => log_damage(&error.to_string()),
        Err(error) => Err(error.into()),
    }
}

fn log_damage(damage: &str) -> Result<(), OpenError> {
    tracing::error!(
        damage,
        "database is damaged: chats on damaged pages cannot continue; list them with `everturn doctor`, then restore a backup"
    );
    Ok(())
}

/// Checks the whole file, indexes too, however long that takes.
pub(crate) fn check_whole(connection: &Connection) -> Result<(), OpenError> {
    is_sound(connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?)
}

fn is_sound(found: String) -> Result<(), OpenError> {
    if found == "ok" { Ok(()) } else { Err(OpenError::Damaged(found)) }
}
