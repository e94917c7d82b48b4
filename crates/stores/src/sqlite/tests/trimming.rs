//! The log is kept short, whatever lies in it.

use everturn_core::chat::TurnEnd;
use everturn_core::delta::Delta;
use everturn_core::ids::Seq;
use everturn_core::message::{File, Meta, Stop};
use everturn_core::view::{Event, View};
use everturn_testkit::rehearsal::sample::{attempt, text};

use super::{dir, log_len, open};
use crate::sqlite::reads::chat as reads;
use crate::sqlite::{Sqlite, SqliteOptions};
use crate::witness::Witness;
use crate::{Store as _, StoreExt as _};

/// Length of a log of dead rows at most, with the rows that one round adds.
const DEAD_LEN_MAX: usize = 1_024 + 64;

/// Journals `rows` rows, one at a time, and ends the turn.
async fn answer(witness: &mut Witness<Sqlite>, rows: usize) {
    witness.say("and?").await;
    witness.journal(vec![attempt()]).await;
    for _ in 1..rows {
        witness.journal(vec![text("word ")]).await;
    }
    let reply = witness.stage.draft.clone().and_then(|draft| draft.seal(Stop::End, witness.stage.now, None));
    witness.change(|change| change.stop(reply, TurnEnd::Done)).await;
}

/// Waits until the writer has come to what was handed in last.
async fn settled(witness: &Witness<Sqlite>) {
    witness.store.load(&witness.lease).await.expect("the lease is ours");
}

#[tokio::test]
async fn rows_of_steps_that_are_over_go() {
    let dir = dir("go");
    let store = open(&dir);
    let mut witness = Witness::new(&store, 1).await;
    for _ in 0..40 {
        answer(&mut witness, 60).await;
        settled(&witness).await;
        assert!(log_len(&store).await <= DEAD_LEN_MAX);
    }
    witness.agrees().await;
    std::fs::remove_dir_all(dir).unwrap();
}

/// A long answer does not delay trimming: its rows are copied along, and it stays complete, also after a restart.
#[tokio::test]
async fn a_long_answer_does_not_keep_the_rows_of_others() {
    let dir = dir("long");
    let store = open(&dir);
    let mut long = Witness::in_a_turn(&store, 1).await;
    let mut short = Witness::new(&store, 2).await;
    long.journal(vec![attempt()]).await;
    let seen = long.now().await;
    let mut moved = 0;
    for round in 0..60 {
        let before = store.drafts.get(long.chat()).unwrap().positions;
        answer(&mut short, 40).await;
        long.journal(vec![text(&format!("{round} ")), text("and ")]).await;
        settled(&short).await;
        let positions = store.drafts.get(long.chat()).unwrap().positions;
        moved += usize::from(before[..] != positions[..before.len()]);
        assert!(log_len(&store).await <= DEAD_LEN_MAX, "round {round}");
        assert_eq!(positions.len(), round + 2);
        long.agrees().await;
    }
    assert!(moved >= 2, "its rows have been copied");
    let late = long.since(Some(seen)).await.unwrap();
    assert_eq!(late.events.len(), 120);
    drop((short, store));
    let lease = long.lease;
    drop(long.store);
    let store = open(&dir);
    let long = Witness { store, lease, ..long };
    long.agrees().await;
    std::fs::remove_dir_all(dir).unwrap();
}

/// A read that finds rows moved is repeated, and never returns half a draft.
#[tokio::test]
async fn a_row_that_moved_is_looked_up_again() {
    let dir = dir("moved");
    let store = open(&dir);
    let mut long = Witness::in_a_turn(&store, 1).await;
    let mut short = Witness::new(&store, 2).await;
    long.journal(vec![attempt()]).await;
    for _ in 0..200 {
        long.journal(vec![text("more than the ring holds ")]).await;
    }
    let (chat, stale) = (long.chat(), store.drafts.get(long.chat()));
    let positions = stale.as_ref().map(|head| head.positions.clone());
    let mut rounds = 0;
    while store.drafts.get(chat).map(|head| head.positions) == positions {
        answer(&mut short, 40).await;
        rounds += 1;
        assert!(rounds < 100, "its rows never move");
    }
    let right = long.lease.append_right();
    let (seen, loaded) = (stale.clone(), stale);
    let told = store.read(move |snapshot| reads::since(snapshot, chat, None, seen.as_ref())).await;
    assert_eq!(told, Ok(None));
    let told = store.readers.read(move |snapshot| reads::load(snapshot, right, loaded.as_ref())).await;
    assert!(matches!(told, Ok(None)), "{told:?}");
    long.agrees().await;
    std::fs::remove_dir_all(dir).unwrap();
}

/// However many rows are deleted and copied meanwhile, a reader sees a draft that only grows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_whole_drafts_while_rows_move() {
    let dir = dir("race");
    let store = open(&dir);
    let mut long = Witness::in_a_turn(&store, 1).await;
    long.journal(vec![attempt()]).await;
    for n in 0..300 {
        long.journal(vec![text(&format!("{n} "))]).await; // More than the ring holds.
    }
    let chat = long.chat();
    let (reading, watching) = (store.clone(), store.clone());
    let busy = tokio::spawn(async move {
        let mut short = Witness::new(&store, 2).await;
        for _ in 0..60 {
            answer(&mut short, 40).await;
        }
    });
    let reader = tokio::spawn(async move {
        let (mut reads, mut longest) = (0, Seq(0));
        while !busy.is_finished() {
            let news = reading.since(chat, None).await.unwrap().unwrap();
            assert!(news.cursor.seq >= longest);
            longest = news.cursor.seq;
            let [Event::Reset(snapshot)] = &news.events[..] else { panic!("{news:?}") };
            assert_eq!(snapshot.draft.as_ref().unwrap().seq(), longest);
            reads += 1;
        }
        busy.await.unwrap();
        reads
    });
    let watcher = tokio::spawn(async move {
        let (mut view, mut cursor) = (View::default(), None);
        while view.draft.as_ref().is_none_or(|draft| draft.seq() < Seq(360)) {
            let Some(news) = watching.since(chat, cursor).await.unwrap() else {
                tokio::task::yield_now().await;
                continue;
            };
            news.events.iter().for_each(|event| view.fold(event).unwrap());
            cursor = Some(news.cursor);
        }
    });
    while long.stage.rows.len() < 360 {
        long.journal(vec![text("and ")]).await;
    }
    assert!(reader.await.unwrap() > 10);
    watcher.await.unwrap();
    long.agrees().await;
    std::fs::remove_dir_all(dir).unwrap();
}

/// I19: an answer of any length has few places to remember; what was merged is as it was, files and all.
#[tokio::test]
async fn the_rows_of_a_very_long_answer_are_merged() {
    let dir = dir("merged");
    let store = open(&dir);
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let bytes = Some(b"\0\xff"[..].into());
    let file = File { name: "a.png".into(), media_type: "image/png".into(), bytes, meta: Meta::new() };
    witness.journal(vec![attempt(), Delta::File(Box::new(file))]).await;
    let len_max = SqliteOptions::default().appends_len_max;
    for n in 0..3 * len_max {
        witness.journal(vec![text(&format!("{n} "))]).await;
        let head = store.drafts.get(witness.chat()).unwrap();
        assert!(head.positions.len() <= len_max + 8, "{} rows", head.positions.len());
        assert!(head.newest.iter().count() <= 128);
    }
    let head = store.drafts.get(witness.chat()).unwrap();
    assert!(head.merged > 0 && head.merged < 8, "{} merged", head.merged);
    witness.agrees().await;
    let lease = witness.lease;
    drop((store, witness.store));
    let store = open(&dir);
    let mut witness = Witness { store, lease, ..witness };
    witness.agrees().await;
    witness.journal(vec![text("the end")]).await;
    witness.agrees().await;
    std::fs::remove_dir_all(dir).unwrap();
}
