//! What went wrong, and what may be done about it.

use rusqlite::{Error, ErrorCode};

use crate::new_chat::MakeError;
use crate::shape::BadShape;
use crate::store::{StoreError, SubmitError, WriteError};

/// Why a job was not done.
#[derive(Debug)]
pub(crate) enum TxError<E> {
    /// It is refused, and has written nothing.
    Refused(E),
    /// The database failed, perhaps in the middle.
    Failed(Error),
}

impl TxError<StoreError> {
    /// Whether it concerns what was read alone: other rows and pages can be read.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Refused(error) => matches!(error, StoreError::Damaged(_) | StoreError::Unreadable(_)),
            Self::Failed(error) => is_damage(error),
        }
    }
}

impl<E> From<Error> for TxError<E> {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<E: From<StoreError>> From<StoreError> for TxError<E> {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

impl<E: From<StoreError>> From<BadShape> for TxError<E> {
    fn from(bad: BadShape) -> Self {
        Self::Refused(StoreError::from(bad).into())
    }
}

impl From<WriteError> for TxError<WriteError> {
    fn from(error: WriteError) -> Self {
        Self::Refused(error)
    }
}

impl From<SubmitError> for TxError<SubmitError> {
    fn from(error: SubmitError) -> Self {
        Self::Refused(error)
    }
}

impl From<MakeError> for TxError<MakeError> {
    fn from(error: MakeError) -> Self {
        Self::Refused(error)
    }
}

impl From<TxError<Self>> for StoreError {
    fn from(halt: TxError<Self>) -> Self {
        match halt {
            TxError::Refused(error) => error,
            TxError::Failed(error) => store_error(&error),
        }
    }
}

/// Whether the connection must be reopened before it is used again. After a failed sync it is unknown what reached the
/// disk, so nothing that is held in memory is trusted either.
pub(crate) fn is_lost(error: &Error) -> bool {
    use ErrorCode::{CannotOpen, DatabaseCorrupt, NotADatabase, ReadOnly, SystemIoFailure};
    match error.sqlite_error_code() {
        Some(SystemIoFailure | ReadOnly | CannotOpen | DatabaseCorrupt | NotADatabase) => true,
        Some(_) | None => false,
    }
}

/// Whether what is stored is not what was written: a page of the file, or a value on it.
pub(crate) fn is_damage(error: &Error) -> bool {
    use Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    match error {
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..) => true,
        other => matches!(other.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt)),
    }
}

/// The error that callers get for an SQLite failure.
pub(crate) fn store_error(error: &Error) -> StoreError {
    use ErrorCode as Code;
    let why = match error.sqlite_error_code() {
        Some(Code::DiskFull) => "the disk is full: free some space, and it goes on by itself",
        Some(Code::ReadOnly) => "the data directory cannot be written to: make it writable, and it goes on by itself",
        Some(Code::SystemIoFailure) => {
            "the disk fails: look at the system's log; it goes on by itself once writing works"
        }
        Some(Code::CannotOpen) => "the database file cannot be opened: see that the data directory is there",
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => "another program holds the database: end it",
        Some(Code::OutOfMemory) => "there is no memory left",
        Some(Code::TooBig) => "that is more than the database takes in one piece: send less at a time",
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
            return StoreError::Damaged(format!("a page of the database cannot be read ({error}): restore a backup"));
        }
        None if is_damage(error) => {
            return StoreError::Damaged(format!("a value in the database cannot be read ({error})"));
        }
        Some(_) | None => return StoreError::Unavailable(error.to_string()),
    };
    StoreError::Unavailable(format!("{why} ({error})"))
}
