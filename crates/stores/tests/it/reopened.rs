//! A store that is closed and opened again while it is used.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use everturn_stores::sqlite::{Sqlite, SqliteOptions};
use everturn_testkit::{Access, Layered, StoreLayer};
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::scratch::Scratch;

/// A store in a directory of its own, which is closed and opened again every so many calls.
pub(crate) struct Reopened {
    store: RwLock<Option<Sqlite>>,
    calls: AtomicU64,
    /// Calls between two openings.
    every: u64,
    dir: Scratch,
}

impl Reopened {
    pub(crate) fn store(every: u64) -> Layered<Self> {
        let dir = Scratch::new();
        let store = open(&dir);
        Layered(Self { store: RwLock::new(Some(store)), calls: AtomicU64::new(0), every, dir })
    }
}

#[async_trait]
impl StoreLayer for Reopened {
    type Store = Sqlite;
    type Inner<'a> = RwLockReadGuard<'a, Sqlite>;

    async fn inner(&self, _access: Access) -> RwLockReadGuard<'_, Sqlite> {
        if self.calls.fetch_add(1, Ordering::Relaxed) % self.every == self.every - 1 {
            let mut store = self.store.write().await;
            tokio::task::block_in_place(|| {
                drop(store.take());
                *store = Some(open(&self.dir));
            });
        }
        RwLockReadGuard::map(self.store.read().await, |store| store.as_ref().expect("it is only ever exchanged"))
    }
}

fn open(dir: &Scratch) -> Sqlite {
    Sqlite::open(dir.as_ref(), &SqliteOptions::default()).expect("the directory can be used")
}
