//! A store that stops for breath.
//!
//! Memory answers at once, so between two of its answers nobody else would ever run: a watcher would see only the last
//! of several commits, and a crash could only happen where something else waits. This store yields before and after
//! every operation, which makes each of them two points at which a driver can be watched, or die.

use std::sync::Arc;

use async_trait::async_trait;
use everturn::core::command::Refusal;
use everturn::core::fact::{Attempted, Fact};
use everturn::core::ids::{ChatId, InboxSeq, Version};
use everturn::core::limits::Limits;
use everturn::core::message::Message;
use everturn::core::view::{Cursor, Row};
use everturn::stores::{
    Inbound, Lease, Loaded, Memory, News, Pen, Receipt, Store, StoreError, Submission, SubmitError, WriteError,
};
use tokio::task::yield_now;

#[derive(Default)]
pub struct Stepwise(Memory);

async fn slowly<T>(answer: impl Future<Output = T>) -> T {
    yield_now().await;
    let answer = answer.await;
    yield_now().await;
    answer
}

#[async_trait]
impl Store for Stepwise {
    async fn create(&self, id: ChatId, agent: &str) -> Result<(), StoreError> {
        self.0.create(id, agent).await
    }

    async fn agent(&self, chat: ChatId) -> Result<String, StoreError> {
        self.0.agent(chat).await
    }

    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError> {
        slowly(self.0.submit(chat, submission, limits)).await
    }

    async fn outcome(&self, chat: ChatId, seq: InboxSeq) -> Result<Option<Result<(), Refusal>>, StoreError> {
        self.0.outcome(chat, seq).await
    }

    async fn acquire(&self, chat: ChatId) -> Result<Lease, StoreError> {
        slowly(self.0.acquire(chat)).await
    }

    async fn load(&self, lease: &Lease) -> Result<Loaded, WriteError> {
        slowly(self.0.load(lease)).await
    }

    async fn inbox(&self, chat: ChatId) -> Result<Vec<Inbound>, StoreError> {
        slowly(self.0.inbox(chat)).await
    }

    async fn unsettled(&self) -> Result<Vec<ChatId>, StoreError> {
        self.0.unsettled().await
    }

    async fn append(&self, pen: Pen, rows: Vec<Row>) -> Result<(), WriteError> {
        slowly(self.0.append(pen, rows)).await
    }

    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError> {
        slowly(self.0.commit(lease, facts)).await
    }

    async fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> Result<Option<News>, StoreError> {
        self.0.since(chat, cursor).await
    }

    async fn transcript(&self, chat: ChatId) -> Result<Vec<Arc<Message>>, StoreError> {
        self.0.transcript(chat).await
    }

    async fn attempts(&self, chat: ChatId) -> Result<Vec<Attempted>, StoreError> {
        self.0.attempts(chat).await
    }
}
