//! A store that waits or fails on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use everturn::core::fact::{AttemptRecord, Fact};
use everturn::core::ids::{ChatId, Timestamp, Version};
use everturn::core::limits::Limits;
use everturn::core::view::Cursor;
use everturn::stores::{
    ChatQuery, CommandRef, Heading, IdempotencyRecord, Lease, Memory, NewsRead, Receipt, Store as _, StoreError,
    Submission, SubmitError, Submitted, Token, TokenHash, Tokens, WriteError,
};
use everturn_testkit::{Access, Layered, StoreLayer};
use tokio::sync::watch;

/// The in-memory store, with gates that hold up its operations.
#[derive(Default)]
pub struct Sluggish {
    pub memory: Arc<Memory>,
    /// Holds up reads of the list of chats.
    pub lists: Gate,
    /// Holds up reads of one chat's list entry.
    pub glances: Gate,
    /// Holds up reads of a command's outcome.
    pub outcomes: Gate,
    /// Holds up every write of a driver.
    pub commits: Gate,
    /// Holds up tokens before they are written, and the answers after they are.
    pub puts: Gate,
    pub tokens: Gate,
    /// Writes fail; reads work.
    pub is_broken: AtomicBool,
    /// Largest number of attempts requested in one read.
    pub attempts_len_max: AtomicUsize,
    /// Reads for subscribers panic.
    pub panics: AtomicBool,
}

/// A point where operations wait while it is shut.
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

    /// Waits until `len` operations have been at the gate at the same time.
    pub async fn until(&self, len: usize) {
        self.most.subscribe().wait_for(|most| *most >= len).await.unwrap();
    }

    /// Largest number of operations at the gate at the same time.
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

impl Sluggish {
    /// The store that waits at the gates of `self`.
    pub fn store(self: &Arc<Self>) -> Arc<Layered<Behind>> {
        Arc::new(Layered(Behind(self.clone())))
    }
}

/// The layer that waits at the gates.
pub struct Behind(Arc<Sluggish>);

#[async_trait]
impl StoreLayer for Behind {
    type Store = Memory;
    type Inner<'a> = &'a Memory;

    async fn inner(&self, _access: Access) -> &Memory {
        &self.0.memory
    }

    async fn headings(&self, query: &ChatQuery) -> Result<Vec<Heading>, StoreError> {
        let gate = if query.only.is_some() { &self.0.glances } else { &self.0.lists };
        gate.pass(self.0.memory.headings(query)).await
    }

    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError> {
        if self.0.is_broken.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("on purpose".into()).into());
        }
        self.0.memory.submit(chat, submission, limits).await
    }

    async fn submitted(&self, chat: ChatId, command: CommandRef<'_>) -> Result<Option<Submitted>, StoreError> {
        let submitted = self.0.memory.submitted(chat, command);
        match command {
            CommandRef::Key(_) => submitted.await,
            CommandRef::Seq(_) => self.0.outcomes.pass(submitted).await,
        }
    }

    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError> {
        self.0.commits.pass(self.0.memory.commit(lease, facts)).await
    }

    fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> NewsRead<'_> {
        assert!(!self.0.panics.load(Ordering::SeqCst), "this store is broken, as it should be");
        self.0.memory.since(chat, cursor)
    }

    async fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError> {
        self.0.attempts_len_max.fetch_max(len, Ordering::SeqCst);
        self.0.memory.attempts(chat, seen, len).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        if self.0.is_broken.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("on purpose".into()));
        }
        self.0.memory.ready().await
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

    async fn exchange(&self, code: &TokenHash, session: &Token) -> Result<bool, StoreError> {
        self.memory.exchange(code, session).await
    }

    async fn forget(&self, before: Timestamp) -> Result<(), StoreError> {
        self.memory.forget(before).await
    }

    async fn remember(&self, asked: &IdempotencyRecord) -> Result<IdempotencyRecord, StoreError> {
        self.memory.remember(asked).await
    }

    async fn recall(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.memory.recall(owner, key).await
    }
}
