//! A store that is closed and opened again while it is used.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use everturn_core::budget::{BudgetUse, Day};
use everturn_core::command::Refusal;
use everturn_core::fact::{AttemptRecord, Fact};
use everturn_core::ids::{ChatId, InboxSeq, MessageId, Version};
use everturn_core::limits::Limits;
use everturn_core::message::Message;
use everturn_core::view::{Cursor, JournalRow, Standing};
use everturn_stores::sqlite::{Options, Sqlite};
use everturn_stores::{
    CallRecord, Heading, InboxCommand, Lease, Loaded, MakeError, New, News, Pen, Query, Receipt, Store, StoreError,
    Submission, SubmitError, Unsettled, WriteError,
};
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::scratch::Scratch;

/// A store in a directory of its own. Nobody outside can tell that it was opened anew in between.
pub(crate) struct Housed {
    store: RwLock<Option<Sqlite>>,
    asked: AtomicU64,
    /// It is opened anew every so many questions.
    every: u64,
    dir: Scratch,
}

impl Housed {
    pub(crate) fn new(every: u64) -> Self {
        let dir = Scratch::new();
        let store = open(&dir);
        Self { store: RwLock::new(Some(store)), asked: AtomicU64::new(0), every, dir }
    }

    async fn at_hand(&self) -> impl Deref<Target = Sqlite> {
        if self.asked.fetch_add(1, Ordering::Relaxed) % self.every == self.every - 1 {
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
    Sqlite::open(dir.as_ref(), &Options::default()).expect("the directory can be used")
}

#[async_trait]
impl Store for Housed {
    async fn create(&self, id: ChatId, agent: &str, owner: &str) -> Result<(), StoreError> {
        self.at_hand().await.create(id, agent, owner).await
    }

    async fn make(&self, new: &New) -> Result<ChatId, MakeError> {
        self.at_hand().await.make(new).await
    }

    async fn made(&self, new: &New) -> Result<Option<ChatId>, MakeError> {
        self.at_hand().await.made(new).await
    }

    async fn delete(&self, lease: Lease) -> Result<(), WriteError> {
        self.at_hand().await.delete(lease).await
    }

    async fn heading(&self, chat: ChatId) -> Result<Heading, StoreError> {
        self.at_hand().await.heading(chat).await
    }

    async fn headings(&self, query: &Query) -> Result<Vec<Heading>, StoreError> {
        self.at_hand().await.headings(query).await
    }

    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError> {
        self.at_hand().await.submit(chat, submission, limits).await
    }

    async fn receipt(&self, chat: ChatId, key: &str) -> Result<Option<Receipt>, StoreError> {
        self.at_hand().await.receipt(chat, key).await
    }

    async fn outcome(&self, chat: ChatId, seq: InboxSeq) -> Result<Option<Result<(), Refusal>>, StoreError> {
        self.at_hand().await.outcome(chat, seq).await
    }

    async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError> {
        self.at_hand().await.acquire(chat).await
    }

    async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        self.at_hand().await.release(lease).await
    }

    async fn load(&self, lease: &Lease) -> Result<Loaded, WriteError> {
        self.at_hand().await.load(lease).await
    }

    async fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
        self.at_hand().await.inbox(chat).await
    }

    async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        self.at_hand().await.unsettled().await
    }

    async fn append(&self, pen: Pen, rows: Vec<JournalRow>) -> Result<(), WriteError> {
        self.at_hand().await.append(pen, rows).await
    }

    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError> {
        self.at_hand().await.commit(lease, facts).await
    }

    async fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> Result<Option<News>, StoreError> {
        self.at_hand().await.since(chat, cursor).await
    }

    async fn standing(&self, chat: ChatId) -> Result<Standing, StoreError> {
        self.at_hand().await.standing(chat).await
    }

    async fn message(&self, chat: ChatId, id: MessageId) -> Result<Option<Arc<Message>>, StoreError> {
        self.at_hand().await.message(chat, id).await
    }

    async fn transcript(&self, chat: ChatId) -> Result<Vec<Arc<Message>>, StoreError> {
        self.at_hand().await.transcript(chat).await
    }

    async fn page(&self, chat: ChatId, before: Option<MessageId>, len: usize) -> Result<Vec<Arc<Message>>, StoreError> {
        self.at_hand().await.page(chat, before, len).await
    }

    async fn after(&self, chat: ChatId, after: MessageId, len: usize) -> Result<Vec<Arc<Message>>, StoreError> {
        self.at_hand().await.after(chat, after, len).await
    }

    async fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError> {
        self.at_hand().await.attempts(chat, seen, len).await
    }

    async fn working(&self, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, StoreError> {
        self.at_hand().await.working(owner, besides).await
    }

    async fn used(&self, owner: &str, days: RangeInclusive<Day>) -> Result<BudgetUse, StoreError> {
        self.at_hand().await.used(owner, days).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.at_hand().await.ready().await
    }

    async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError> {
        self.at_hand().await.calls(chat).await
    }
}
