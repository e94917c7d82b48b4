//! What one process writes another reads, whole and at once: nothing that others need is only in memory.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use everturn_core::budget::{BudgetUse, Day};
use everturn_core::command::Refusal;
use everturn_core::fact::{AttemptRecord, Fact};
use everturn_core::ids::{ChatId, InboxSeq, MessageId, Version};
use everturn_core::limits::Limits;
use everturn_core::message::Message;
use everturn_core::view::{Cursor, JournalRow, Standing};
use everturn_stores::conformance::{deleting, generated, inbox, journal, making, reads, watchers};
use everturn_stores::postgres::Options;
use everturn_stores::{
    CallRecord, Heading, InboxCommand, Lease, Loaded, MakeError, New, News, Pen, Postgres, Query, Receipt, Store,
    StoreError, Submission, SubmitError, Unsettled, WriteError,
};

use super::{database, open};

/// A chat that is driven here and watched there.
struct Elsewhere {
    here: Arc<Postgres>,
    there: Arc<Postgres>,
}

impl Elsewhere {
    async fn new() -> Arc<Self> {
        let url = database();
        let (here, there) = (open(&url, Options::default()).await, open(&url, Options::default()).await);
        Arc::new(Self { here, there })
    }
}

/// I3, CS04: those who watch in another process see the same, draft included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_another_process_see_what_is_there() {
    watchers::every_watcher_sees_what_is_there(Elsewhere::new().await).await;
}

/// I5: whatever a driver did is there for another process as soon as it was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_reads_any_life_as_it_was() {
    generated::any_life_of_a_chat_is_stored_as_it_was(Elsewhere::new().await).await;
}

/// Commands that come in by one process are obeyed by another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_cross_processes() {
    inbox::obeyed_commands_leave_the_inbox_in_order(Elsewhere::new().await).await;
    inbox::a_refused_command_leaves_no_trace(Elsewhere::new().await).await;
    journal::rows_go_with_their_step(Elsewhere::new().await).await;
    reads::a_catch_up_is_whole(Elsewhere::new().await).await;
}

/// What one process deletes or forks is gone or there for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_and_making_cross_processes() {
    deleting::nothing_is_left_of_a_deleted_chat(Elsewhere::new().await).await;
    deleting::a_deleted_chat_can_be_made_anew(Elsewhere::new().await).await;
    making::a_fork_is_a_chat_of_its_own(Elsewhere::new().await).await;
    making::what_was_said_is_found_by_its_words(Elsewhere::new().await).await;
}

#[async_trait]
impl Store for Elsewhere {
    async fn create(&self, id: ChatId, agent: &str, owner: &str) -> Result<(), StoreError> {
        self.there.create(id, agent, owner).await
    }

    async fn make(&self, new: &New) -> Result<ChatId, MakeError> {
        self.there.make(new).await
    }

    async fn made(&self, new: &New) -> Result<Option<ChatId>, MakeError> {
        self.there.made(new).await
    }

    async fn delete(&self, lease: Lease) -> Result<(), WriteError> {
        self.here.delete(lease).await
    }

    async fn heading(&self, chat: ChatId) -> Result<Heading, StoreError> {
        self.there.heading(chat).await
    }

    async fn headings(&self, query: &Query) -> Result<Vec<Heading>, StoreError> {
        self.there.headings(query).await
    }

    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError> {
        self.there.submit(chat, submission, limits).await
    }

    async fn receipt(&self, chat: ChatId, key: &str) -> Result<Option<Receipt>, StoreError> {
        self.there.receipt(chat, key).await
    }

    async fn outcome(&self, chat: ChatId, seq: InboxSeq) -> Result<Option<Result<(), Refusal>>, StoreError> {
        self.there.outcome(chat, seq).await
    }

    async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError> {
        self.here.acquire(chat).await
    }

    async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        self.here.release(lease).await
    }

    async fn load(&self, lease: &Lease) -> Result<Loaded, WriteError> {
        self.here.load(lease).await
    }

    async fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
        self.here.inbox(chat).await
    }

    async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        self.here.unsettled().await
    }

    async fn append(&self, pen: Pen, rows: Vec<JournalRow>) -> Result<(), WriteError> {
        self.here.append(pen, rows).await
    }

    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError> {
        self.here.commit(lease, facts).await
    }

    async fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> Result<Option<News>, StoreError> {
        self.there.since(chat, cursor).await
    }

    async fn standing(&self, chat: ChatId) -> Result<Standing, StoreError> {
        self.there.standing(chat).await
    }

    async fn message(&self, chat: ChatId, id: MessageId) -> Result<Option<Arc<Message>>, StoreError> {
        self.there.message(chat, id).await
    }

    async fn transcript(&self, chat: ChatId) -> Result<Vec<Arc<Message>>, StoreError> {
        self.there.transcript(chat).await
    }

    async fn page(&self, chat: ChatId, before: Option<MessageId>, len: usize) -> Result<Vec<Arc<Message>>, StoreError> {
        self.there.page(chat, before, len).await
    }

    async fn after(&self, chat: ChatId, after: MessageId, len: usize) -> Result<Vec<Arc<Message>>, StoreError> {
        self.there.after(chat, after, len).await
    }

    async fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError> {
        self.there.attempts(chat, seen, len).await
    }

    async fn working(&self, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, StoreError> {
        self.there.working(owner, besides).await
    }

    async fn used(&self, owner: &str, days: RangeInclusive<Day>) -> Result<BudgetUse, StoreError> {
        self.there.used(owner, days).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.there.ready().await
    }

    async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError> {
        self.there.calls(chat).await
    }
}
