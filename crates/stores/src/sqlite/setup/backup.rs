//! A copy of everything, while everything goes on.
//!
//! The copy is what the database held when it began, in a file of its own that is complete or not there. It is opened and
//! looked through before it is called a backup: one that cannot be restored is worse than none.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::sqlite::Sqlite;
use crate::sqlite::setup::connect;
use crate::sqlite::setup::migrate;
use crate::sqlite::setup::open::{self, OpenError};

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Its schema.
    pub schema: i64,
    /// How many chats.
    pub chats: u64,
    /// How many messages, rewound ones too.
    pub messages: u64,
    /// How large the file is.
    pub bytes: u64,
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file is there already.
    #[error("{} is there already: choose another name, or delete it", .0.display())]
    Exists(PathBuf),
    /// It could not be written.
    #[error("{} cannot be written: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// The copy is not what was copied.
    #[error("the copy is not what it should be: {0}")]
    Differs(String),
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] OpenError),
}

impl From<rusqlite::Error> for BackupError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

impl Sqlite {
    /// Copies the database into the file `to`, which must not exist yet, and verifies the copy. Blocks meanwhile; other
    /// calls of the store do not wait for it.
    pub fn backup(&self, to: &Path) -> Result<Backup, BackupError> {
        Self::backup_of(&self.dir, to)
    }

    /// Copies the database of a data directory that another process may be using.
    pub fn backup_of(dir: &Path, to: &Path) -> Result<Backup, BackupError> {
        if to.exists() {
            return Err(BackupError::Exists(to.into()));
        }
        let file = open::file_in(dir);
        if !file.exists() {
            return Err(OpenError::Missing(dir.into()).into());
        }
        let mut part = to.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let failed = |why| BackupError::File { file: to.into(), why };
        if part.exists() {
            std::fs::remove_file(&part).map_err(failed)?; // Of a backup that was ended in the middle.
        }
        let done = copy(&file, &part).and_then(|()| check(&part));
        let backup = match done {
            Ok(backup) => backup,
            Err(error) => {
                let _ = std::fs::remove_file(&part); // What went wrong before says more.
                return Err(error);
            }
        };
        std::fs::rename(&part, to).map_err(failed)?;
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
        Ok(backup)
    }
}

fn copy(file: &Path, part: &Path) -> Result<(), BackupError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(file, flags)?;
    source.busy_timeout(connect::BUSY_MAX)?;
    migrate::refuse_newer(&source)?;
    let name = part.to_str().ok_or_else(|| BackupError::Differs("its name is not Unicode".into()))?;
    source.execute("VACUUM INTO ?1", [name])?;
    let failed = |why| BackupError::File { file: part.into(), why };
    File::open(part).and_then(|copy| copy.sync_all()).map_err(failed)
}

/// Opens a copy as a restore would, and reads all of it.
fn check(part: &Path) -> Result<Backup, BackupError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copy = Connection::open_with_flags(part, flags)?;
    open::check_whole(&copy)?;
    migrate::refuse_newer(&copy)?;
    let count = |table: &str| copy.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0));
    let (chats, messages) = (count("chats")?.unsigned_abs(), count("messages")?.unsigned_abs());
    let schema = migrate::schema_of(&copy)?;
    if schema == 0 {
        return Err(BackupError::Differs("it has no schema".into()));
    }
    let sql = "SELECT count(*) FROM messages WHERE chat NOT IN (SELECT id FROM chats)";
    let orphans: i64 = copy.query_row(sql, [], |row| row.get(0))?;
    if orphans > 0 {
        return Err(BackupError::Differs(format!("{orphans} messages belong to no chat")));
    }
    let failed = |why| BackupError::File { file: part.into(), why };
    let bytes = std::fs::metadata(part).map_err(failed)?.len();
    Ok(Backup { schema, chats, messages, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::SqliteOptions;

    /// A copy is looked through to its end, in its indexes too, which a start only counts: one of them says
    /// something else than its table here.
    #[test]
    fn a_copy_that_is_damaged_in_an_index_alone_is_no_backup() {
        let dir = tempfile::tempdir().unwrap();
        drop(Sqlite::open(dir.path(), &SqliteOptions::default()).unwrap());
        let file = dir.path().join("copy.db");
        assert_eq!(Sqlite::backup_of(dir.path(), &file).unwrap().chats, 0);
        let kept = "CREATE TEMP TABLE kept AS SELECT * FROM main.sqlite_schema WHERE name = 'asked_at'";
        let hidden = "DELETE FROM main.sqlite_schema WHERE name = 'asked_at'";
        let filled = "INSERT INTO asked VALUES (x'01', x'02', x'03', x'04', 5)";
        let unseen =
            format!("PRAGMA writable_schema = ON; {hidden}; PRAGMA writable_schema = RESET; UPDATE asked SET at = 6");
        let copy = Connection::open(&file).unwrap();
        copy.execute_batch(&format!("{kept}; {filled}")).unwrap();
        Connection::open(&file).unwrap().execute_batch(&unseen).unwrap();
        copy.execute_batch("PRAGMA writable_schema = ON; INSERT INTO main.sqlite_schema SELECT * FROM kept").unwrap();
        drop(copy);
        open::check(&mut Connection::open(&file).unwrap()).unwrap();
        let told = check(&file).unwrap_err();
        assert!(matches!(&told, BackupError::Database(OpenError::Damaged(why)) if why.contains("asked_at")), "{told}");
    }
}
