//! A store that yields around every operation.
//!
//! Memory answers at once, so between two of its answers no other task would ever run: a watcher would see only the last
//! of several commits, and a crash could only happen where something else waits. This store yields before and after
//! every operation, which makes each of them two points at which a driver can be watched, or die.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::command::InboxCommand;
use everturn::core::fact::Fact;
use everturn::core::ids::{ChatId, MessageId, Version};
use everturn::core::limits::Limits;
use everturn::core::message::Message;
use everturn::core::view::{Cursor, JournalRow};
use everturn::stores::{
    Ack, AppendRight, CommandRef, Hint, Lease, LoadPart, Loaded, MakeError, Memory, MessageReader, NewChat, NewsRead,
    Receipt, Store as _, StoreError, StoreExt as _, Submission, SubmitError, Submitted, Unsettled, WriteError,
};
use everturn_testkit::{Access, Layered, StoreLayer};
use tokio::sync::Notify;
use tokio::task::yield_now;

/// A store in memory that yields around every operation, and counts, delays or fails some of them.
pub type Stepwise = Layered<Steps>;

#[derive(Default)]
pub struct Steps {
    memory: Memory,
    fault: Mutex<Option<(usize, Fault)>>,
    writes: AtomicUsize,
    fetches: AtomicUsize,
    loads: AtomicUsize,
    append_time: Mutex<Duration>,
    inbox_time: Mutex<Duration>,
    inbox_faults: AtomicUsize,
    inbox_reads: AtomicUsize,
    looks: AtomicUsize,
    outcome_reads: AtomicUsize,
    hints: Mutex<VecDeque<Hint>>,
    hinted: Notify,
    is_mute: AtomicBool,
    is_away: AtomicBool,
    at_start: Mutex<Option<Between>>,
    has_lapsed: AtomicBool,
    is_damaged: AtomicBool,
}

/// How a write goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The write does not happen.
    Refused,
    /// The write does not happen, because the lease is not valid any more.
    Fenced,
    /// The write happens, and its answer is lost.
    Unanswered,
}

/// What happens to a process between committing a tool's start and starting it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// It is suspended until its lease has expired.
    Lapsed,
    /// It is told to stop all turns.
    Halted,
}

impl Steps {
    /// What happens the next time that a tool is to start.
    pub fn at_start(&self, between: Between) {
        *self.at_start.lock().unwrap() = Some(between);
    }

    /// After `writes` more writes, one goes wrong.
    pub fn fail_after(&self, writes: usize, fault: Fault) {
        *self.fault.lock().unwrap() = Some((writes, fault));
    }

    /// Takes so long for every append from now on.
    pub fn append_in(&self, time: Duration) {
        *self.append_time.lock().unwrap() = time;
    }

    /// Takes so long to say what an inbox holds from now on.
    pub fn read_inbox_in(&self, time: Duration) {
        *self.inbox_time.lock().unwrap() = time;
    }

    /// Cannot say so many times what an inbox holds.
    pub fn fail_inboxes(&self, len: usize) {
        self.inbox_faults.store(len, Ordering::SeqCst);
    }

    /// Cannot write any more.
    pub fn fail_always(&self) {
        self.is_away.store(true, Ordering::SeqCst);
    }

    /// Cannot read messages any more. Commands are still stored, as in Postgres when a page of messages is damaged.
    pub fn damage(&self) {
        self.is_damaged.store(true, Ordering::SeqCst);
    }

    /// Can write again.
    pub fn recover(&self) {
        self.is_away.store(false, Ordering::SeqCst);
    }

    /// Answers no write and no look at everything from now on.
    pub fn fall_silent(&self) {
        self.is_mute.store(true, Ordering::SeqCst);
    }

    async fn unless_mute(&self) {
        if self.is_mute.load(Ordering::SeqCst) {
            std::future::pending().await
        }
    }

    /// Whether that one is still to come.
    pub fn is_to_fail(&self) -> bool {
        self.fault.lock().unwrap().is_some()
    }

    /// Tells an engine what another process did.
    pub fn tell(&self, hint: Hint) {
        self.hints.lock().unwrap().push_back(hint);
        self.hinted.notify_one();
    }

    /// How many writes have happened.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// How often a chat was loaded.
    pub fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    /// How often an inbox was read.
    pub fn inbox_reads(&self) -> usize {
        self.inbox_reads.load(Ordering::SeqCst)
    }

    /// How often a subscriber looked for news.
    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }

    /// How often the outcome of a command was read.
    pub fn outcome_reads(&self) -> usize {
        self.outcome_reads.load(Ordering::SeqCst)
    }

    /// How many messages were fetched with their bytes.
    pub fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    async fn write<T>(&self, write: impl Future<Output = Result<T, WriteError>>) -> Result<T, WriteError> {
        self.unless_mute().await;
        let fault = {
            let mut fault = self.fault.lock().unwrap();
            let due = fault.take_if(|(left, _)| *left == 0);
            fault.iter_mut().for_each(|(left, _)| *left -= 1);
            due.map(|(_, fault)| fault)
        };
        let write = async {
            let written = write.await;
            self.writes.fetch_add(1, Ordering::SeqCst);
            written
        };
        let lost = || StoreError::Unavailable("on purpose".into()).into();
        if self.has_lapsed.load(Ordering::SeqCst) {
            return Err(WriteError::Fenced);
        }
        if self.is_away.load(Ordering::SeqCst) {
            return Err(lost());
        }
        match fault {
            None => slowly(write).await,
            Some(Fault::Refused) => Err(lost()),
            Some(Fault::Fenced) => Err(WriteError::Fenced),
            Some(Fault::Unanswered) => slowly(write).await.and(Err(lost())),
        }
    }
}

async fn slowly<T>(answer: impl Future<Output = T>) -> T {
    yield_now().await;
    let answer = answer.await;
    yield_now().await;
    answer
}

#[async_trait]
impl StoreLayer for Steps {
    type Store = Memory;
    type Inner<'a> = &'a Memory;

    async fn inner(&self, _access: Access) -> &Memory {
        &self.memory
    }

    async fn create(&self, new: &NewChat) -> Result<ChatId, MakeError> {
        slowly(self.memory.create(new)).await
    }

    async fn created(&self, new: &NewChat) -> Result<Option<ChatId>, MakeError> {
        slowly(self.memory.created(new)).await
    }

    async fn keyed(&self, owner: &str, key: &str) -> Result<Option<ChatId>, StoreError> {
        slowly(self.memory.keyed(owner, key)).await
    }

    async fn delete(&self, lease: Lease) -> Result<(), WriteError> {
        slowly(self.memory.delete(lease)).await
    }

    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError> {
        slowly(self.memory.submit(chat, submission, limits)).await
    }

    async fn submitted(&self, chat: ChatId, command: CommandRef<'_>) -> Result<Option<Submitted>, StoreError> {
        if let CommandRef::Seq(_) = command {
            self.outcome_reads.fetch_add(1, Ordering::SeqCst);
        }
        self.memory.submitted(chat, command).await
    }

    async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError> {
        self.has_lapsed.store(false, Ordering::SeqCst);
        slowly(self.memory.acquire(chat)).await
    }

    fn holds(&self, _lease: &Lease) -> bool {
        !self.has_lapsed.load(Ordering::SeqCst)
    }

    async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        slowly(self.memory.release(lease)).await
    }

    async fn load_held(&self, lease: &Lease, part: LoadPart) -> Result<Loaded, WriteError> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        if part == LoadPart::All && self.is_damaged.load(Ordering::SeqCst) {
            return Err(StoreError::Damaged("on purpose".into()).into());
        }
        slowly(self.memory.load_held(lease, part)).await
    }

    async fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
        self.inbox_reads.fetch_add(1, Ordering::SeqCst);
        let time = *self.inbox_time.lock().unwrap();
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        let spend = |left: usize| left.checked_sub(1);
        if self.inbox_faults.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend).is_ok() {
            return Err(StoreError::Unavailable("on purpose".into()));
        }
        slowly(self.memory.inbox(chat)).await
    }

    async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        self.unless_mute().await;
        self.memory.unsettled().await
    }

    async fn append(&self, right: AppendRight, rows: Vec<JournalRow>, ack: Ack) {
        let time = *self.append_time.lock().unwrap();
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        ack.tell(self.write(self.memory.append_and_wait(right, rows)).await);
    }

    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError> {
        let written = self.write(self.memory.commit(lease, facts)).await?;
        let starts = facts.iter().any(|fact| matches!(fact, Fact::Started { .. }));
        let between = self.at_start.lock().unwrap().take_if(|_| starts);
        match between {
            Some(Between::Lapsed) => self.has_lapsed.store(true, Ordering::SeqCst),
            Some(Between::Halted) => {
                self.tell(Hint::Lost);
                while !self.hints.lock().unwrap().is_empty() {
                    yield_now().await;
                }
            }
            None => {}
        }
        Ok(written)
    }

    fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> NewsRead<'_> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.memory.since(chat, cursor)
    }

    async fn message(
        &self,
        chat: ChatId,
        id: MessageId,
        reader: MessageReader,
    ) -> Result<Option<Arc<Message>>, StoreError> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        self.memory.message(chat, id, reader).await
    }

    async fn hint(&self) -> Hint {
        loop {
            let next = self.hints.lock().unwrap().pop_front();
            match next {
                Some(hint) => return hint,
                None => self.hinted.notified().await,
            }
        }
    }
}
