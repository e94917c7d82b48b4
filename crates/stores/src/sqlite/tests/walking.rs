//! What a store has found when it is open.

use std::collections::BTreeMap;

use everturn_core::delta::Delta;
use everturn_core::message::{File, Meta};
use everturn_testkit::rehearsal::sample::{attempt, text};
use everturn_testkit::rehearsal::tiny_limits;
use rusqlite::StatementStatus;

use super::{dir, open};
use crate::sqlite::journal::scan;
use crate::sqlite::reads::chat as reads;
use crate::sqlite::setup::{connect, open as opening};
use crate::sqlite::{Sqlite, SqliteOptions};
use crate::witness::Witness;

/// Three drafts in one log: one long enough that its rows are merged, one with a file in its middle, one that is short.
async fn drafts(store: &std::sync::Arc<Sqlite>) -> [Witness<Sqlite>; 3] {
    let mut long = Witness::in_a_turn(store, 1).await;
    let mut filed = Witness::in_a_turn(store, 2).await;
    let mut short = Witness::in_a_turn(store, 3).await;
    for witness in [&mut long, &mut filed, &mut short] {
        witness.journal(vec![attempt()]).await;
    }
    for n in 0..SqliteOptions::default().appends_len_max + 100 {
        long.journal(vec![text(&format!("{n} ")), text("and ")]).await;
    }
    let bytes = Some(b"\0\xff"[..].into());
    let file = File { name: "a.png".into(), media_type: "image/png".into(), bytes, meta: Meta::new() };
    filed.journal(vec![text("before"), Delta::File(Box::new(file))]).await;
    for witness in [&mut filed, &mut short] {
        witness.journal(vec![text("after "), text("that")]).await;
    }
    [long, filed, short]
}

/// Everybody's chat is taken up at once after a start, and none has to look through the log again for what was read.
#[tokio::test]
async fn rows_read_by_the_scan_are_not_read_again() {
    let dir = dir("walked");
    let drafts = drafts(&open(&dir)).await.map(|witness| (witness.lease, witness.stage));
    let store = open(&dir);
    for ((lease, stage), found) in drafts.into_iter().zip([None, Some(2), Some(3)]) {
        let (limits, calls) = (tiny_limits(), BTreeMap::new());
        let mut witness = Witness { store: store.clone(), lease, stage, limits, calls };
        let head = store.drafts.get(witness.chat()).unwrap();
        let all = usize::try_from(head.seq.0).unwrap();
        assert_eq!(head.newest.iter().count(), found.unwrap_or(all), "but for what came before a file");
        witness.agrees().await;
        witness.journal(vec![text("more")]).await;
        let kept = store.drafts.get(witness.chat()).unwrap().newest.iter().count();
        assert!(kept <= 48, "{kept} rows are kept once it goes on");
        witness.agrees().await;
    }
    std::fs::remove_dir_all(dir).unwrap();
}

/// I19: however much is open, what is kept of it has a bound, and the newest is kept.
#[tokio::test]
async fn no_more_is_kept_than_there_is_room_for() {
    let dir = dir("room");
    let store = open(&dir);
    let drafts = drafts(&store).await;
    let connection = connect::reading(&opening::file_in(&dir)).unwrap();
    let kept = |bytes_max| {
        let (_, found) = scan::scan_keeping(&connection, bytes_max).unwrap();
        drafts.each_ref().map(|witness| {
            let head = &found[&witness.chat()];
            let newest: Vec<u64> = head.newest.iter().map(|row| row.seq.0).collect();
            assert!(newest.iter().copied().eq(head.newest_first()..=head.seq.0), "none is missing in between");
            newest.len()
        })
    };
    assert_eq!(kept(0), [0, 0, 0]);
    assert_eq!(kept(600), [0, 2, 2], "a row is 128 bytes and its words");
    let [some, ..] = kept(60_000);
    let [all, ..] = kept(usize::MAX);
    assert!(some > 0 && some < all, "{some} of {all}");
    std::fs::remove_dir_all(dir).unwrap();
}

/// SQLite plans a statement again if an index may serve one value and not another. None of those that a driver begins with
/// is such a one.
#[tokio::test]
async fn statements_are_planned_once() {
    let dir = dir("planned");
    let store = open(&dir);
    let drafts = drafts(&store).await;
    let connection = connect::reading(&opening::file_in(&dir)).unwrap();
    for witness in &drafts {
        let head = store.drafts.get(witness.chat());
        reads::load(&connection, witness.lease.append_right(), head.as_ref()).unwrap();
    }
    let statement = connection.prepare_cached(reads::NEWEST_SUMMARY).unwrap();
    assert_eq!(statement.get_status(StatementStatus::Run), 3);
    assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    std::fs::remove_dir_all(dir).unwrap();
}
