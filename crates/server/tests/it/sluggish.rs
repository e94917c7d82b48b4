//! A store that keeps people waiting, or breaks, when it is told to.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use everturn::core::budget::{BudgetUse, Day};
use everturn::core::command::{InboxCommand, Refusal};
use everturn::core::fact::{AttemptRecord, Fact};
use everturn::core::ids::{ChatId, InboxSeq, MessageId, Timestamp, Version};
use everturn::core::limits::Limits;
use everturn::core::message::Message;
use everturn::core::view::{Cursor, JournalRow, Standing};
use everturn::stores::{
    Asked, CallRecord, Heading, Lease, Loaded, MakeError, Memory, New, News, Pen, Query, Receipt, Store, StoreError,
    Submission, SubmitError, Token, TokenHash, Tokens, Unsettled, WriteError,
};
use tokio::sync::watch;

/// A store in memory that can be slow.
#[derive(Default)]
pub struct Sluggish {
    pub memory: Arc<Memory>,
    /// Before lists of chats.
    pub lists: Gate,
    /// Before what a list says about one chat.
    pub glances: Gate,
    /// Before what became of a command.
    pub outcomes: Gate,
    /// Before a driver writes anything.
    pub commits: Gate,
    /// Before a token is written, and behind what is written of tokens.
    pub puts: Gate,
    pub tokens: Gate,
    /// Whether it can be read and no more.
    pub is_broken: AtomicBool,
    /// How many attempts were asked for at once, at most.
    pub attempts_len_max: AtomicUsize,
    /// Whether whoever watches finds it broken.
    pub panics: AtomicBool,
}

/// What people wait at while it is shut.
#[derive(Default)]
pub struct Gate {
    is_shut: watch::Sender<bool>,
    inside: watch::Sender<usize>,
    most: watch::Sender<usize>,
}

impl Gate {
    pub fn shut(&self) {
        self.is_shut.send_replace(true);
    }

    pub fn open(&self) {
        self.is_shut.send_replace(false);
    }

    /// Waits until so many have been there at once.
    pub async fn until(&self, len: usize) {
        self.most.subscribe().wait_for(|most| *most >= len).await.unwrap();
    }

    /// How many have been there at once, at most.
    pub fn most(&self) -> usize {
        *self.most.borrow()
    }

    async fn pass<T>(&self, answer: impl Future<Output = T>) -> T {
        self.inside.send_modify(|inside| *inside += 1);
        let inside = *self.inside.borrow();
        self.most.send_modify(|most| *most = inside.max(*most));
        self.is_shut.subscribe().wait_for(|is_shut| !is_shut).await.unwrap();
        self.inside.send_modify(|inside| *inside -= 1);
        answer.await
    }
}

#[async_trait]
impl Store for Sluggish {
    async fn create(&self, id: ChatId, agent: &str, owner: &str) -> Result<(), StoreError> {
        self.memory.create(id, agent, owner).await
    }

    async fn make(&self, new: &New) -> Result<ChatId, MakeError> {
        self.memory.make(new).await
    }

    async fn made(&self, new: &New) -> Result<Option<ChatId>, MakeError> {
        self.memory.made(new).await
    }

    async fn delete(&self, lease: Lease) -> Result<(), WriteError> {
        self.memory.delete(lease).await
    }

    async fn heading(&self, chat: ChatId) -> Result<Heading, StoreError> {
        self.glances.pass(self.memory.heading(chat)).await
    }

    async fn headings(&self, query: &Query) -> Result<Vec<Heading>, StoreError> {
        self.lists.pass(self.memory.headings(query)).await
    }

    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("on purpose".into()).into());
        }
        self.memory.submit(chat, submission, limits).await
    }

    async fn receipt(&self, chat: ChatId, key: &str) -> Result<Option<Receipt>, StoreError> {
        self.memory.receipt(chat, key).await
    }

    async fn outcome(&self, chat: ChatId, seq: InboxSeq) -> Result<Option<Result<(), Refusal>>, StoreError> {
        self.outcomes.pass(self.memory.outcome(chat, seq)).await
    }

    async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError> {
        self.memory.acquire(chat).await
    }

    async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        self.memory.release(lease).await
    }

    async fn load(&self, lease: &Lease) -> Result<Loaded, WriteError> {
        self.memory.load(lease).await
    }

    async fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
        self.memory.inbox(chat).await
    }

    async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        self.memory.unsettled().await
    }

    async fn append(&self, pen: Pen, rows: Vec<JournalRow>) -> Result<(), WriteError> {
        self.memory.append(pen, rows).await
    }

    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError> {
        self.commits.pass(self.memory.commit(lease, facts)).await
    }

    async fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> Result<Option<News>, StoreError> {
        assert!(!self.panics.load(Ordering::SeqCst), "this store is broken, as it should be");
        self.memory.since(chat, cursor).await
    }

    async fn standing(&self, chat: ChatId) -> Result<Standing, StoreError> {
        self.memory.standing(chat).await
    }

    async fn message(&self, chat: ChatId, id: MessageId) -> Result<Option<Arc<Message>>, StoreError> {
        self.memory.message(chat, id).await
    }

    async fn transcript(&self, chat: ChatId) -> Result<Vec<Arc<Message>>, StoreError> {
        self.memory.transcript(chat).await
    }

    async fn page(&self, chat: ChatId, before: Option<MessageId>, len: usize) -> Result<Vec<Arc<Message>>, StoreError> {
        self.memory.page(chat, before, len).await
    }

    async fn after(&self, chat: ChatId, after: MessageId, len: usize) -> Result<Vec<Arc<Message>>, StoreError> {
        self.memory.after(chat, after, len).await
    }

    async fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError> {
        self.attempts_len_max.fetch_max(len, Ordering::SeqCst);
        self.memory.attempts(chat, seen, len).await
    }

    async fn working(&self, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, StoreError> {
        self.memory.working(owner, besides).await
    }

    async fn used(&self, owner: &str, days: RangeInclusive<Day>) -> Result<BudgetUse, StoreError> {
        self.memory.used(owner, days).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("on purpose".into()));
        }
        self.memory.ready().await
    }

    async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError> {
        self.memory.calls(chat).await
    }
}

#[async_trait]
impl Tokens for Sluggish {
    async fn put(&self, token: &Token) -> Result<(), StoreError> {
        let put = self.puts.pass(self.memory.put(token)).await;
        self.tokens.pass(async { put }).await
    }

    async fn find(&self, hash: &TokenHash) -> Result<Option<Token>, StoreError> {
        self.memory.find(hash).await
    }

    async fn list(&self) -> Result<Vec<Token>, StoreError> {
        self.memory.list().await
    }

    async fn revoke(&self, hash: &TokenHash, at: Timestamp) -> Result<(), StoreError> {
        let revoked = self.memory.revoke(hash, at).await;
        self.tokens.pass(async { revoked }).await
    }

    async fn remember(&self, asked: &Asked) -> Result<Asked, StoreError> {
        self.memory.remember(asked).await
    }

    async fn recall(&self, owner: &str, key: &str) -> Result<Option<Asked>, StoreError> {
        self.memory.recall(owner, key).await
    }
}
