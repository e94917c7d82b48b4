//! Copies, made while everything goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everturn_core::command::Delivery;
use everturn_stores::sqlite::{BackupError, OpenError, Sqlite};
use everturn_stores::{NewChat, Store as _, StoreExt as _};
use everturn_testkit::conformance::Witness;
use everturn_testkit::rehearsal::sample::{attempt, chat_id, send, text};

use super::open;
use crate::scratch::Scratch;

/// Everything that was accepted when it began is in the copy, and the copy is a store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_holds_everything_accepted_before_it() {
    let (dir, to) = (Scratch::new(), Scratch::new());
    let store = open(&dir);
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.journal(vec![attempt(), text("Hel")]).await;
    witness.submit(send("and then", Delivery::Queue)).await.unwrap();
    let (goes_on, made) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let busy = tokio::spawn({
        let (store, goes_on, made) = (store.clone(), goes_on.clone(), made.clone());
        async move {
            while goes_on.load(Ordering::Relaxed) {
                let number = u128::from(made.load(Ordering::Relaxed)) + 2;
                store.create(&NewChat::of(chat_id(number), "agent", "owner")).await.unwrap();
                made.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    while made.load(Ordering::Relaxed) < 20 {
        tokio::task::yield_now().await;
    }
    let before = made.load(Ordering::Relaxed) + 1;
    let file = to.as_ref().join("everturn.db");
    let copied = {
        let (store, file) = (store.clone(), file.clone());
        tokio::task::spawn_blocking(move || store.backup(&file)).await.unwrap().unwrap()
    };
    goes_on.store(false, Ordering::Relaxed);
    busy.await.unwrap();
    assert!(copied.chats >= before && copied.chats <= made.load(Ordering::Relaxed) + 1, "{copied:?}");
    assert_eq!((copied.schema, copied.messages), (9, 1));
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1, "and nothing beside it");
    let restored = open(&to);
    let witness = Witness { store: restored.clone(), ..witness };
    witness.agrees().await;
    for number in 2..=before {
        restored.heading(chat_id(number.into())).await.unwrap();
    }
}

#[tokio::test]
async fn nothing_is_overwritten_and_nothing_half_is_left() {
    let (dir, to) = (Scratch::new(), Scratch::new());
    let file = to.as_ref().join("monday.db");
    let missing = Sqlite::backup_of(dir.as_ref(), &file).unwrap_err();
    assert!(matches!(missing, BackupError::Database(OpenError::Missing(_))), "{missing}");
    drop(open(&dir));
    std::fs::write(to.as_ref().join("monday.db.part"), "of a process that was killed").unwrap();
    Sqlite::backup_of(dir.as_ref(), &file).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    let again = Sqlite::backup_of(dir.as_ref(), &file).unwrap_err();
    assert!(matches!(again, BackupError::Exists(_)), "{again}");
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    let nowhere = to.as_ref().join("nowhere").join("monday.db");
    Sqlite::backup_of(dir.as_ref(), &nowhere).unwrap_err();
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1);
}
