//! Databases of every schema there ever was, with chats in them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::path::Path;

use everturn_core::command::Delivery;
use everturn_core::ids::Timestamp;
use everturn_core::limits::Limits;
use everturn_stores::sqlite::SqliteInspection;
use everturn_stores::{Store as _, StoreExt as _, Submission};
use everturn_testkit::rehearsal::sample::{chat_id, send};
use rusqlite::Connection;
use rusqlite::types::Value;

use super::open;
use crate::scratch::Scratch;

/// How each schema was made of the one before it, and what was written into the tables that it brought. Rows are never made
/// anew: they are what stores of that time have left.
const SCHEMAS: [(&str, &str); 9] = [
    (include_str!("../../../src/sqlite/setup/schema/0001.sql"), include_str!("../../../fixtures/schema/1.sql")),
    (include_str!("../../../src/sqlite/setup/schema/0002.sql"), include_str!("../../../fixtures/schema/2.sql")),
    (include_str!("../../../src/sqlite/setup/schema/0003.sql"), include_str!("../../../fixtures/schema/3.sql")),
    (include_str!("../../../src/sqlite/setup/schema/0004.sql"), ""),
    (include_str!("../../../src/sqlite/setup/schema/0005.sql"), ""),
    (include_str!("../../../src/sqlite/setup/schema/0006.sql"), ""),
    (include_str!("../../../src/sqlite/setup/schema/0007.sql"), include_str!("../../../fixtures/schema/7.sql")),
    (include_str!("../../../src/sqlite/setup/schema/0008.sql"), ""),
    (include_str!("../../../src/sqlite/setup/schema/0009.sql"), ""),
];

type Tables = BTreeMap<String, Vec<Vec<Value>>>;

/// Makes a database of an older schema, with rows in every table that has any by then; none for schema 0.
fn make(dir: &Path, schema: usize) -> Tables {
    let database = Connection::open(dir.join("everturn.db")).unwrap();
    let mark = format!("PRAGMA journal_mode = wal; PRAGMA application_id = 0x65766572; PRAGMA user_version = {schema}");
    for sql in
        SCHEMAS[..schema].iter().flat_map(|(tables, rows)| [*tables, *rows]).chain((schema > 0).then_some(&*mark))
    {
        database.execute_batch(sql).unwrap();
    }
    drop(database);
    let tables = rows(dir);
    assert!(tables.values().all(|rows| !rows.is_empty()), "a table that is empty shows nothing");
    tables
}

/// Every row of every table.
fn rows(dir: &Path) -> Tables {
    let database = Connection::open(dir.join("everturn.db")).unwrap();
    let mut names = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let all = |name: &String| {
        let mut select = database.prepare(&format!("SELECT * FROM {name} ORDER BY 1, 2")).unwrap();
        let len = select.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..len).map(|i| row.get(i)).collect::<Result<Vec<Value>, _>>();
        select.query_map([], row).unwrap().map(Result::unwrap).collect()
    };
    names.iter().map(|name| (name.clone(), all(name))).collect()
}

/// Everything is there that was, and nothing is wrong with it. Tables may have columns that they had not.
fn is_kept(dir: &Path, before: &Tables, what: &str) {
    let mut after = rows(dir);
    for (table, rows) in before {
        let found = after.get_mut(table).unwrap();
        found.iter_mut().zip(rows).for_each(|(found, row)| found.truncate(row.len()));
        assert_eq!(found, rows, "{what}: {table}");
    }
    let mut inspection = SqliteInspection::open(dir).unwrap();
    assert_eq!(inspection.schema(), Ok((9, 9)), "{what}");
    assert_eq!(inspection.damage(|| ()), Ok(Vec::new()), "{what}");
    let of_chats = inspection.chats().unwrap().into_iter().flat_map(|chat| inspection.defects(chat).unwrap());
    let all = of_chats.chain(inspection.orphans().unwrap());
    let troubles: Vec<_> = all.filter(|trouble| !trouble.is_harmless()).collect();
    assert_eq!(troubles, [], "{what}");
}

/// PR18: what older releases have stored is brought up to date row by row, and its chats go on.
#[tokio::test]
async fn data_of_older_releases_is_readable() {
    for schema in 1..=SCHEMAS.len() {
        let dir = Scratch::new();
        let before = make(dir.as_ref(), schema);
        drop(open(&dir));
        is_kept(dir.as_ref(), &before, &format!("schema {schema}"));
        let store = open(&dir);
        let transcript = store.transcript(chat_id(1)).await.unwrap();
        assert_eq!(transcript.len(), 6, "schema {schema}");
        let more = Submission { command: send("and now?", Delivery::Queue), key: None, at: Timestamp(9) };
        store.submit(chat_id(1), more, &Limits::default()).await.unwrap();
    }
}

/// A process that dies while it brings a database up to date, at whichever step of whichever migration, leaves one that the
/// next can open, with everything in it.
#[cfg(feature = "failpoints")]
#[test]
fn a_killed_migration_runs_again() {
    use std::os::unix::process::ExitStatusExt as _;

    for schema in 0..SCHEMAS.len() {
        for (point, step) in ["begin", "middle", "commit", "end"]
            .into_iter()
            .flat_map(|point| (1..=SCHEMAS.len() - schema).map(move |step| (point, step)))
        {
            let (dir, what) = (Scratch::new(), format!("sqlite-migrate-{point}:{step} from {schema}"));
            let before = make(dir.as_ref(), schema);
            let mut dies = super::other("sqlite::opening::is_free", &dir);
            let died = dies.env("EVERTURN_FAILPOINT", format!("sqlite-migrate-{point}:{step}")).output().unwrap();
            assert_eq!(died.status.signal(), Some(6), "{what}: {died:?}");
            drop(open(&dir));
            is_kept(dir.as_ref(), &before, &what);
        }
    }
}
