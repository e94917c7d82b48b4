//! The schema, and how an older one becomes it.
//!
//! Each migration is one transaction together with the number it leads to: a process that dies in the middle of one leaves
//! the database at the number before, and the next start does it again.

use rusqlite::{Connection, TransactionBehavior};

use crate::failpoint::failpoint;
use crate::sqlite::setup::connect;
use crate::sqlite::setup::open::OpenError;

/// All there ever were; the number of one is its place, from 1. One that was released is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
    include_str!("schema/0006.sql"),
    include_str!("schema/0007.sql"),
    include_str!("schema/0008.sql"),
    include_str!("schema/0009.sql"),
];
/// Marks a file as ours: "ever".
const APPLICATION_ID: i64 = 0x6576_6572;

/// The newest schema there is.
pub(crate) const SCHEMA: i64 = MIGRATIONS.len() as i64;

/// The schema of a database; 0 for a new one.
pub(crate) fn schema_of(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Refuses databases of later releases and of other programs.
pub(crate) fn refuse_newer(connection: &Connection) -> Result<(), OpenError> {
    let found = schema_of(connection)?;
    let id = connect::read(connection, "application_id")?;
    let is_new = || connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0));
    if id != APPLICATION_ID.to_string() && !is_new()? {
        return Err(OpenError::Foreign);
    }
    if found > SCHEMA {
        return Err(OpenError::Newer { found, known: SCHEMA });
    }
    Ok(())
}

/// Brings a database to the newest schema.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    let found = schema_of(connection)?;
    for (migration, number) in MIGRATIONS.iter().zip(1_i64..).filter(|(_, number)| *number > found) {
        failpoint!("sqlite-migrate-begin");
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration)?;
        failpoint!("sqlite-migrate-middle");
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", number)?;
        failpoint!("sqlite-migrate-commit");
        transaction.commit()?;
        failpoint!("sqlite-migrate-end");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that was made, as it was written.
    fn shape(connection: &Connection) -> Vec<(String, String)> {
        let sql = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
        let mut select = connection.prepare(sql).unwrap();
        select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    }

    /// A database of any schema there ever was becomes the same as a new one.
    #[test]
    fn every_older_schema_becomes_the_newest() {
        let mut new = Connection::open_in_memory().unwrap();
        migrate(&mut new).unwrap();
        for number in 0..MIGRATIONS.len() {
            let mut old = Connection::open_in_memory().unwrap();
            MIGRATIONS[..number].iter().for_each(|migration| old.execute_batch(migration).unwrap());
            old.pragma_update(None, "user_version", number as i64).unwrap();
            migrate(&mut old).unwrap();
            assert_eq!(schema_of(&old).unwrap(), SCHEMA, "{number}");
            assert_eq!(shape(&old), shape(&new), "{number}");
        }
    }
}
