//! The disk is full, read-only or broken, and then it is not: I21.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::command::{Command, Delivery};
use everturn_core::ids::{InboxSeq, Timestamp};
use everturn_core::view::JournalRow;
use everturn_stores::sqlite::{OpenError, Sqlite, SqliteOptions};
use everturn_stores::{
    Durability, NewChat, Store as _, StoreError, StoreExt as _, Submission, SubmitError, WriteError,
};
use everturn_testkit::conformance::Witness;
use everturn_testkit::rehearsal::sample::{attempt, chat_id, send, text};

use super::{given, open, other};
use crate::scratch::Scratch;

/// What goes wrong, under which number, and what people are told.
const TROUBLES: [(&str, i32, &str); 5] = [
    ("write", 28, "the disk is full: free some space"),
    ("write", 5, "the disk fails"),
    ("write", 30, "the disk fails"),
    ("sync", 5, "the disk fails"),
    ("sync", 28, "the disk fails"),
];

/// Builds what makes the disk fail.
fn shim(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sqlite/trouble.c");
    let library = dir.join("trouble.so");
    let mut build = process::Command::new("cc");
    build.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
    let built = build.output().expect("a build of SQLite needs a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

/// I21, CS04, CS06: a write that the disk refuses fails and notifies no subscriber, accepted data stays, reading goes on,
/// and once the disk works everything does: without a restart, and after one.
#[test]
fn accepted_data_outlives_a_failing_disk() {
    plays("lives_with_a_failing_disk", &[("EVERTURN_TROUBLE", "trouble")]);
}

/// Runs a part in another process with a disk that behaves as a file says.
fn plays(part: &str, files: &[(&str, &str)]) {
    let dir = Scratch::new();
    let library = shim(dir.as_ref());
    let mut plays = other(&format!("sqlite::trouble::{part}"), &dir);
    let played = plays
        .env("LD_PRELOAD", library)
        .envs(files.iter().map(|(variable, file)| (variable, dir.as_ref().join(file))))
        .output()
        .expect("this program can be started");
    let (out, err) = (String::from_utf8_lossy(&played.stdout), String::from_utf8_lossy(&played.stderr));
    assert!(played.status.success() && out.contains("1 passed"), "{out}{err}");
}

#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn lives_with_a_failing_disk() {
    let dir = given();
    let (control, data) = (dir.join("trouble"), dir.join("data"));
    let store = open(&data);
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.limits.queue_len_max = 1_000;
    witness.journal(vec![attempt(), text("Hel")]).await;
    for (round, (what, number, told)) in TROUBLES.into_iter().enumerate() {
        let seen = witness.now().await;
        std::fs::write(&control, format!("{what} {number}")).unwrap();
        for _ in 0..3 {
            let error = submit(&witness, round).await.expect_err("the disk refuses");
            assert!(is_told(&error, told), "{what} {number}: {error}");
            if what == "write" {
                let row = next_row(&witness);
                let refused = store.append_and_wait(witness.lease.append_right(), vec![row]).await;
                assert!(matches!(refused, Err(WriteError::Store(StoreError::Unavailable(_)))), "{refused:?}");
            }
        }
        assert_eq!(
            store.inbox(witness.chat()).await,
            Ok(witness.stage.pending().cloned().collect()),
            "reading goes on"
        );
        assert_eq!(witness.since(Some(seen)).await, None, "no reader sees it");
        assert_eq!(witness.now().await, seen);
        std::fs::write(&control, "").unwrap();
        let receipt = submit(&witness, round).await.expect("the disk works again");
        witness
            .stage
            .submit_as(Some(&round.to_string()), send(&round.to_string(), Delivery::Queue), &witness.limits)
            .unwrap();
        assert_eq!(receipt, InboxSeq(round as u64 + 2), "nothing of what was refused is there");
        witness.agrees().await;
        witness.journal(vec![text("lo")]).await;
        witness.obey_next().await;
        witness.agrees().await;
    }
    let lease = witness.lease;
    drop((store, witness.store));
    let witness = Witness { store: open(&data), lease, ..witness };
    witness.agrees().await;
}

async fn submit(witness: &Witness<Sqlite>, round: usize) -> Result<InboxSeq, SubmitError> {
    let (command, key) = (send(&round.to_string(), Delivery::Queue), Some(round.to_string()));
    let submission = Submission { command, key, at: witness.stage.now };
    witness.store.submit(witness.chat(), submission, &witness.limits).await.map(|receipt| receipt.seq)
}

fn is_told(error: &SubmitError, told: &str) -> bool {
    matches!(error, SubmitError::Store(StoreError::Unavailable(why)) if why.contains(told))
}

fn next_row(witness: &Witness<Sqlite>) -> JournalRow {
    let newest = witness.stage.rows.last().expect("some were journalled");
    JournalRow { seq: newest.seq.next(), at: Timestamp(0), delta: Arc::new(text("never")), ..newest.clone() }
}

/// I21: a store on a disk that refuses writes is not ready, even if nothing was written yet; and it is ready again once
/// the disk works, although only the health check writes.
#[test]
fn a_store_that_cannot_write_is_not_ready() {
    plays("asks_whether_it_is_ready", &[("EVERTURN_TROUBLE", "trouble")]);
}

#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn asks_whether_it_is_ready() {
    let dir = given();
    let control = dir.join("trouble");
    for (round, (what, number, told)) in TROUBLES.into_iter().enumerate() {
        let store = open(dir.join(round.to_string()));
        let is_refused = async || store.ready().await.is_err_and(|error| is_told(&error.into(), told));
        std::fs::write(&control, format!("{what} {number}")).unwrap();
        assert!(is_refused().await, "{what} {number}: the first try");
        assert!(is_refused().await, "{what} {number}: it still does not work");
        std::fs::write(&control, "").unwrap();
        assert_eq!(store.ready().await, Ok(()), "the disk works again");
        std::fs::write(&control, format!("{what} {number}")).unwrap();
        store.create(&NewChat::of(chat_id(1), "agent", "owner")).await.expect_err("the disk refuses");
        assert!(is_refused().await, "{what} {number}: a later try");
        std::fs::write(&control, "").unwrap();
        store.create(&NewChat::of(chat_id(1), "agent", "owner")).await.expect("the disk works again");
        assert_eq!(store.ready().await, Ok(()));
    }
}

/// I21: the same on a file system that is really full. Needs the right to mount one; where there is none, the test above
/// says the same, and CI has it.
#[tokio::test]
async fn a_full_disk_is_survived() {
    let dir = Scratch::new();
    let Some(disk) = Disk::mount(dir.as_ref()) else { return };
    let store = open(disk.0.join("data"));
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.limits.queue_len_max = 10_000;
    witness.journal(vec![attempt(), text("Hel")]).await;
    let filler = disk.0.join("filler");
    for round in 0..3 {
        let full = std::fs::write(&filler, vec![0; 8 << 20]).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        let refused = loop {
            // What is left of the log takes some more.
            let command = send(&"much ".repeat(2_000), Delivery::Queue);
            let submission = Submission { command: command.clone(), key: None, at: witness.stage.now };
            match store.submit(witness.chat(), submission, &witness.limits).await {
                Ok(_) => drop(witness.stage.submit(command, &witness.limits).unwrap()),
                Err(error) => break error,
            }
        };
        assert!(is_told(&refused, "the disk is full"), "{refused}");
        std::fs::remove_file(&filler).unwrap();
        witness.agrees().await;
        witness.submit(send(&format!("{round}"), Delivery::Queue)).await.unwrap();
        witness.journal(vec![text("lo")]).await;
        witness.agrees().await;
    }
    let lease = witness.lease;
    drop((store, witness.store));
    let witness = Witness { store: open(disk.0.join("data")), lease, ..witness };
    witness.agrees().await;
}

/// I21: and on one that is really read-only for a while.
#[tokio::test]
async fn a_read_only_disk_is_survived() {
    let dir = Scratch::new();
    let Some(disk) = Disk::mount(dir.as_ref()) else { return };
    let store = open(disk.0.join("data"));
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.journal(vec![attempt(), text("Hel")]).await;
    drop((store, witness.store)); // A file that is open for writing cannot become read-only.
    disk.remount("ro");
    let refused = Sqlite::open(&disk.0.join("data"), &SqliteOptions::default()).unwrap_err();
    assert!(matches!(&refused, OpenError::Dir { why, .. } if why.kind() == ErrorKind::ReadOnlyFilesystem), "{refused}");
    disk.remount("rw");
    let witness = Witness { store: open(disk.0.join("data")), ..witness };
    witness.agrees().await;
}

/// I1, I3: what is accepted or committed is on the disk when it is answered. A delta is a moment later, or at once if that
/// is wanted.
#[test]
fn acknowledged_writes_are_synced() {
    plays("counts_syncs", &[("EVERTURN_SYNCS", "syncs")]);
}

#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn counts_syncs() {
    let dir = given();
    let syncs = || std::fs::metadata(dir.join("syncs")).map_or(0, |file| file.len());
    for drafts in [Durability::Process, Durability::Full] {
        let options = SqliteOptions { drafts, ..SqliteOptions::default() };
        let store = Arc::new(Sqlite::open(&dir.join(format!("{drafts:?}")), &options).unwrap());
        let mut witness = Witness::in_a_turn(&store, 1).await;
        for _ in 0..5 {
            let before = syncs();
            witness.submit(send("more", Delivery::Queue)).await.unwrap();
            assert!(syncs() > before, "accepted");
            let before = syncs();
            witness.obey_next().await;
            assert!(syncs() > before, "committed");
            let before = syncs();
            witness.submit(Command::Unqueue(witness.stage.chat.queue[0].id)).await.unwrap();
            witness.obey_next().await;
            assert!(syncs() > before + 1);
            let before = syncs();
            witness.journal(vec![attempt()]).await;
            assert!(drafts == Durability::Process || syncs() > before, "journalled");
            while syncs() == before {
                tokio::task::yield_now().await; // It comes without anybody asking.
            }
        }
    }
}

/// I3: what was journalled is synced a moment later, also while a long log is written back and that takes for ever.
#[test]
fn no_sync_waits_until_the_log_is_written_back() {
    plays("journals_while_the_log_is_written_back", &[("EVERTURN_SYNCS", "syncs"), ("EVERTURN_HOLD", "hold")]);
}

#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn journals_while_the_log_is_written_back() {
    let dir = given();
    let (hold, len) = (dir.join("hold"), |name: &str| std::fs::metadata(dir.join(name)).map_or(0, |file| file.len()));
    let store = open(dir.join("data"));
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.limits.queue_len_max = 10_000;
    std::fs::write(&hold, "").unwrap();
    for _ in 0..500 {
        witness.submit(send(&"much ".repeat(2_000), Delivery::Queue)).await.unwrap(); // More than a thousand pages.
    }
    while len("hold") == 0 {
        tokio::task::yield_now().await;
    }
    let mut late = 0;
    for _ in 0..3 {
        let before = len("syncs");
        witness.journal(vec![attempt()]).await;
        let synced = async {
            while len("syncs") == before {
                tokio::task::yield_now().await;
            }
        };
        late += usize::from(tokio::time::timeout(Duration::from_secs(10), synced).await.is_err());
    }
    assert_eq!(len("hold"), 1, "all the while it was being written back");
    std::fs::remove_file(&hold).unwrap(); // Or the store could not be closed.
    assert_eq!(late, 0, "a sync comes without anybody asking");
}

/// A small file system of its own.
struct Disk(PathBuf);

impl Disk {
    fn mount(dir: &Path) -> Option<Self> {
        let at = dir.join("disk");
        std::fs::create_dir(&at).expect("it is a directory of ours");
        let mut mount = process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&at);
        let is_mounted = mount.output().is_ok_and(|mounted| mounted.status.success());
        if !is_mounted {
            let told = "no file system could be mounted, so no disk was full or read-only";
            assert!(std::env::var_os("CI").is_none(), "{told}: let CI mount a tmpfs");
            eprintln!("{told}: not tested");
        }
        is_mounted.then_some(Self(at))
    }

    fn remount(&self, how: &str) {
        let mut mount = process::Command::new("mount");
        let mounted = mount.args(["-o", &format!("remount,{how}")]).arg(&self.0).output().expect("it was there before");
        assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = process::Command::new("umount").arg("-l").arg(&self.0).output(); // The system does when it ends.
    }
}
