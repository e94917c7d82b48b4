//! A store in Postgres, for several processes at the same time.
//!
//! Every process has a row in `workers` that it renews; chats are held by workers, and every write of a driver is checked
//! against the fence of the chat in the same transaction. Processes hint each other with `NOTIFY`; hints may be lost.
//! Sessions are used to listen, and to let other processes notice at once that this one has died. Nothing else needs a
//! session, so a pooler may stand in between.
/// Addresses, TLS, and bringing the schema up to date.
mod setup {
    pub(super) mod address;
    pub(super) mod migrate;
    pub(super) mod tls;
}

/// Pools of connections, retries, and how values go into columns.
mod connection {
    pub(super) mod columns;
    pub(super) mod pool;
    pub(super) mod retry;
}

/// Which process holds which chat: worker rows, the lock by which a death is noticed, leases, and what is cached of
/// chats that are held here.
mod leases {
    pub(super) mod cache;
    pub(super) mod lease;
    pub(super) mod session;
    pub(super) mod worker;
}

/// `LISTEN` and `NOTIFY`: hints between processes.
mod notify {
    pub(super) mod channel;
    pub(super) mod hints;
}

/// Deltas of open drafts: one writer for all chats, filing by chat, syncing.
mod journal {
    pub(super) mod filing;
    pub(super) mod sync;
    pub(super) mod writer;
}

/// Everything else that writes, one file per operation.
mod commits {
    pub(super) mod commit;
    pub(super) mod create;
    pub(super) mod delete;
    pub(super) mod submit;
    pub(super) mod tokens;
}

/// Everything that only reads.
mod reads {
    pub(super) mod chat;
    pub(super) mod inspect;
    pub(super) mod news;
}

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use async_trait::async_trait;
use everturn_core::budget::{BudgetUse, Day};
use everturn_core::command::InboxCommand;
use everturn_core::fact::{AttemptRecord, Fact};
use everturn_core::ids::{ChatId, MessageId, StepId, Version};
use everturn_core::limits::Limits;
use everturn_core::message::Message;
use everturn_core::view::{Cursor, JournalRow, Standing};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio_util::task::AbortOnDropHandle;

use crate::ack::Ack;
use crate::entropy;
use crate::heading::{ChatQuery, Heading};
use crate::new_chat::{MakeError, NewChat};
use crate::shape::rows::Piece;
use crate::store::{
    AppendRight, CallRecord, CommandRef, Hint, Lease, LoadPart, Loaded, MessageRange, MessageReader, NewsRead, Receipt,
    Store, StoreError, Submission, SubmitError, Submitted, Unsettled, WriteError,
};
use crate::tables::{Durability, Fetch, PageBudget};
use connection::columns::id_bytes;
use connection::pool::{ConnectionPool, TxMode};
use connection::retry::{DbFault, RetryWindow};
use journal::filing::FilingJob;
use journal::writer::Job;
use leases::cache::ChatCaches;
use leases::worker::{Worker, WorkerState};
use notify::channel::{Notifier, Urgency};
use notify::hints::HintQueue;
use reads::chat::Reads;
pub use reads::inspect::PostgresInspection;
use setup::address::DbAddress;

/// Settings of a Postgres store.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Connections at most, beside the four with one purpose each. A third of them serves clients, so that many clients do
    /// not delay drivers; with fewer than three connections all are shared. Searches use half of that third, or one
    /// connection, so that they do not delay other clients.
    pub connections_max: usize,
    /// Limit for one statement.
    pub statement_max: Duration,
    /// Limit for opening a connection.
    pub connect_max: Duration,
    /// How long an operation is retried while the database is unavailable.
    pub retry_max: Duration,
    /// Time without a heartbeat after which other processes take the chats of a process.
    pub lease_max: Duration,
    /// Interval of heartbeats.
    pub heartbeat: Duration,
    /// What the rows of a draft survive. A crash of the database server counts as a power cut.
    pub durability: Durability,
    /// Address of the database itself, if the store reaches it through a pooler: `LISTEN` needs a session, and so does the
    /// lock by which other processes notice at once that this one has died. Without sessions they poll every few seconds,
    /// and wait for `lease_max`.
    pub listen_url: Option<String>,
    /// Name of this process that stays the same after a restart, and that no two running processes share. Chats still held
    /// under it are free as soon as the process registers again.
    pub instance: Option<String>,
    /// Appends that are filed by chat together, at least. A lower number makes reading a draft cheaper for other processes,
    /// and writing more expensive.
    pub file_len_min: usize,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            connections_max: 16,
            statement_max: Duration::from_secs(10),
            connect_max: Duration::from_secs(5),
            retry_max: Duration::from_secs(10),
            lease_max: Duration::from_secs(15),
            heartbeat: Duration::from_secs(5),
            durability: Durability::Process,
            listen_url: None,
            instance: None,
            file_len_min: 256,
        }
    }
}

/// Lock of a chat within this process, for one write.
type ChatLock = tokio::sync::OwnedMutexGuard<()>;

/// A store that several processes share.
pub struct Postgres {
    inner: Arc<Inner>,
    /// Stopped before the worker unregisters.
    _tasks: JoinSet<()>,
    _worker: Worker,
}

struct Inner {
    /// Read operations, with the pools for drivers and clients.
    reads: Reads,
    /// Connection of the journal writer alone, so that other operations do not delay it.
    writing: ConnectionPool,
    /// Permits for searches, which read every message.
    searches: Arc<Semaphore>,
    draft_mode: TxMode,
    file_len_min: usize,
    /// Factor on another worker's lease before its chats are taken; random per process, so that processes do not take over all at once.
    lease_tolerance: f64,
    state: Arc<WorkerState>,
    caches: ChatCaches,
    hints: Arc<HintQueue>,
    notifier: Arc<Notifier>,
    jobs: mpsc::Sender<Job>,
    filing_jobs: mpsc::Sender<FilingJob>,
    /// Notified when rows were journalled that are not synced yet.
    unsynced: Notify,
    /// Random id sent with every NOTIFY, so that a process ignores its own.
    sender: i64,
    tickets: AtomicI64,
    /// Highest fence of a chat that was deleted by this process: such a lease is never granted again.
    floor: AtomicI64,
}

impl Postgres {
    /// Connects to the database at `url`, migrates its schema and registers this process. Needs a tokio runtime with time
    /// and IO.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let address = DbAddress::parse(url, &options)?;
        let elsewhere = options.listen_url.as_deref().map(|url| DbAddress::parse(url, &options)).transpose()?;
        let listening = elsewhere.unwrap_or_else(|| address.clone());
        let watching_len = options.connections_max / 3;
        let pool = Arc::new(ConnectionPool::new(address.clone(), options.connections_max - watching_len, &options)?);
        let (watching, searches_max) = match watching_len {
            0 => (pool.clone(), options.connections_max / 2),
            len => (Arc::new(ConnectionPool::new(address.clone(), len, &options)?), len / 2),
        };
        setup::migrate::migrate(&pool, RetryWindow::new(options.retry_max)).await?;
        let hints = Arc::new(HintQueue::default());
        let chance = entropy::number();
        let lease_tolerance = 1.0 + (chance % 1000) as f64 / 10_000.0;
        let worker = Worker::start(address.clone(), &options, lease_tolerance, hints.clone()).await?;
        let (jobs, taken) = mpsc::channel(journal::writer::QUEUE_LEN_MAX);
        let (filing_jobs, due) = mpsc::channel(journal::filing::QUEUE_LEN_MAX);
        let inner = Arc::new(Inner {
            reads: Reads { pool, watching, retry_max: options.retry_max },
            writing: ConnectionPool::new(address, 1, &options)?,
            searches: Arc::new(Semaphore::new(searches_max.max(1))),
            draft_mode: journal::writer::draft_mode(options.durability),
            file_len_min: options.file_len_min,
            lease_tolerance,
            state: worker.state.clone(),
            caches: ChatCaches::default(),
            hints: hints.clone(),
            notifier: Arc::default(),
            jobs,
            filing_jobs,
            unsynced: Notify::new(),
            sender: (chance >> 1) as i64,
            tickets: AtomicI64::new(0),
            floor: AtomicI64::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(journal::writer::run(inner.clone(), taken));
        tasks.spawn(journal::filing::run(inner.clone(), due));
        tasks.spawn(journal::sync::run(inner.clone()));
        tasks.spawn(inner.notifier.clone().run(inner.sender, inner.reads.pool.clone()));
        tasks.spawn(notify::channel::listen(listening, inner.sender, hints.clone(), worker.state.clone()));
        tasks.spawn(notify::hints::remind(hints, options.heartbeat / 2));
        Ok(Self { inner, _tasks: tasks, _worker: worker })
    }

    /// Unique name of the database, for files that other parts store about its chats. It changes when the database is
    /// created anew or moved to another server.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn name(&self) -> Result<String, StoreError> {
        self.inner.reads.name().await
    }

    /// For tests: suspends heartbeats, as if the process were stopped.
    #[cfg(feature = "failpoints")]
    pub fn pause_heartbeat(&self, is_paused: bool) {
        self.inner.state.pause(is_paused);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.inner.reads.pool.close();
        self.inner.reads.watching.close();
        self.inner.writing.close();
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store was closed".into())
}

/// The error for a caller, without further retries.
fn lasting(fault: DbFault) -> StoreError {
    match fault {
        DbFault::Lasting(error) => error,
        DbFault::Passing(why) => StoreError::Unavailable(why),
    }
}

impl Inner {
    fn state(&self) -> &WorkerState {
        &self.state
    }

    fn tell(&self, hint: Hint, urgency: Urgency) {
        self.notifier.tell([hint], urgency);
    }

    /// Waits for earlier writes to the chat. An operation that runs to its end keeps the lock until then, so later ones come
    /// after it.
    async fn turn(&self, chat: ChatId) -> ChatLock {
        self.caches.at(chat).turn.clone().lock_owned().await
    }

    /// Waits until every queued append is stored or refused.
    async fn flush(&self) -> Result<(), StoreError> {
        let (passed, is_passed) = oneshot::channel();
        self.jobs.send(Job::Barrier(passed)).await.map_err(|_| closed())?;
        is_passed.await.map_err(|_| closed())?
    }

    /// The error for a lease that this process does not hold.
    async fn refusal(&self, chat: ChatId) -> WriteError {
        let id = id_bytes(chat);
        let sql = "SELECT 1 FROM chats WHERE id = $1";
        match self.reads.read(sql, &[(&&id[..], tokio_postgres::types::Type::BYTEA)]).await {
            Ok(rows) if rows.is_empty() => StoreError::NoSuchChat.into(),
            _ => WriteError::Fenced,
        }
    }

    fn trim(&self, no: i64, step: StepId) {
        let _ = self.filing_jobs.try_send(FilingJob::Begun(no, step)); // Queue full: the commit of the next step tries again.
    }
}

/// Runs an operation to its end even if its future is dropped, so that the next operation on the chat finds it done or
/// not done.
async fn to_the_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    ended(tokio::spawn(work)).await
}

/// Runs an operation as a task: it progresses while its future is not polled, and is cancelled when the future is dropped.
/// A caller that holds several reads and polls one would otherwise wait for a connection that another one has.
async fn by_itself<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    ended(AbortOnDropHandle::new(tokio::spawn(work))).await
}

async fn ended<T>(task: impl Future<Output = Result<T, JoinError>>) -> T {
    match task.await {
        Ok(done) => done,
        Err(join) => match join.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await, // The runtime stops, and with it this task.
        },
    }
}

#[async_trait]
impl Store for Postgres {
    async fn create(&self, new: &NewChat) -> Result<ChatId, MakeError> {
        self.inner.create(new).await
    }

    async fn created(&self, new: &NewChat) -> Result<Option<ChatId>, MakeError> {
        self.inner.created(new).await
    }

    async fn keyed(&self, owner: &str, key: &str) -> Result<Option<ChatId>, StoreError> {
        self.inner.keyed(owner, key).await
    }

    async fn delete(&self, lease: Lease) -> Result<(), WriteError> {
        let turn = self.inner.turn(lease.chat()).await;
        to_the_end(self.inner.clone().delete(turn, lease)).await
    }

    async fn headings(&self, query: &ChatQuery) -> Result<Vec<Heading>, StoreError> {
        let (inner, query) = (self.inner.clone(), query.clone());
        if let Some(chat) = query.only {
            return match by_itself(async move { inner.reads.heading(chat).await }).await {
                Ok(heading) => Ok(vec![heading]),
                Err(StoreError::NoSuchChat) => Ok(Vec::new()),
                Err(error) => Err(error),
            };
        }
        if query.text.is_empty() {
            return by_itself(async move { inner.reads.headings(&query).await }).await;
        }
        by_itself(inner.search(query)).await
    }

    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError> {
        let turn = self.inner.turn(chat).await;
        to_the_end(self.inner.clone().submit(turn, chat, submission, limits.clone())).await
    }

    async fn submitted(&self, chat: ChatId, command: CommandRef<'_>) -> Result<Option<Submitted>, StoreError> {
        self.inner.reads.submitted(chat, command).await
    }

    async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError> {
        let turn = self.inner.turn(chat).await;
        to_the_end(self.inner.clone().acquire(turn, chat)).await
    }

    fn holds(&self, lease: &Lease) -> bool {
        self.inner.caches.at(lease.chat()).is_open_to(lease.append_right(), self.inner.state().current())
    }

    async fn release(&self, lease: Lease) -> Result<(), StoreError> {
        let turn = self.inner.turn(lease.chat()).await;
        to_the_end(self.inner.clone().release(turn, lease)).await
    }

    async fn load_held(&self, lease: &Lease, part: LoadPart) -> Result<Loaded, WriteError> {
        if part == LoadPart::State {
            let Some(worker) = self.inner.state().current() else { return Err(WriteError::Fenced) };
            let state = self.inner.chat_under(lease.append_right(), worker).await?;
            let chat = state.map(Arc::unwrap_or_clone).ok_or(WriteError::Fenced)?;
            return Ok(Loaded { chat, messages: Vec::new(), rows: Vec::new() });
        }
        let _turn = self.inner.turn(lease.chat()).await; // A write with a dropped future is over now.
        self.inner.load(lease.append_right()).await
    }

    async fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
        self.inner.reads.inbox(chat).await
    }

    async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        self.inner.unsettled().await
    }

    async fn append(&self, right: AppendRight, rows: Vec<JournalRow>, ack: Ack) {
        let piece = Piece::of(&rows); // Serialized here, so that the journal writer does not do it for all chats.
        let _ = self.inner.jobs.send(Job::Append { right, rows, piece, ack }).await; // If it is refused, its ack reports that.
    }

    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError> {
        let turn = self.inner.turn(lease.chat()).await;
        to_the_end(self.inner.clone().commit(turn, lease.append_right(), facts.to_vec())).await
    }

    fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> NewsRead<'_> {
        if let Some(news) = cursor.and_then(|cursor| self.inner.cached_since(chat, cursor)) {
            return NewsRead::known(Ok(news));
        }
        let inner = self.inner.clone();
        NewsRead::reading(by_itself(async move { inner.since(chat, cursor).await }))
    }

    async fn standing(&self, chat: ChatId) -> Result<Standing, StoreError> {
        self.inner.reads.standing(chat).await
    }

    async fn message(
        &self,
        chat: ChatId,
        id: MessageId,
        reader: MessageReader,
    ) -> Result<Option<Arc<Message>>, StoreError> {
        let pool = match reader {
            MessageReader::Driver => &self.inner.reads.pool,
            MessageReader::Client => &self.inner.reads.watching,
        };
        self.inner.reads.message(chat, id, pool).await
    }

    async fn messages(&self, chat: ChatId, range: MessageRange) -> Result<Vec<Arc<Message>>, StoreError> {
        match range {
            MessageRange::All => self.inner.reads.transcript(chat).await,
            MessageRange::Before(before, len) => {
                let page = (PageBudget::page(), Fetch::Lengths);
                self.inner.reads.page(&self.inner.reads.watching, chat, before, len, page).await
            }
            MessageRange::After(after, len) => self.inner.reads.after(chat, after, len).await,
        }
    }

    async fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError> {
        self.inner.reads.attempts(chat, seen, len).await
    }

    async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError> {
        self.inner.reads.calls(chat).await
    }

    async fn working(&self, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, StoreError> {
        self.inner.reads.working(owner, besides).await
    }

    async fn used(&self, owner: &str, days: RangeInclusive<Day>) -> Result<BudgetUse, StoreError> {
        self.inner.reads.used(owner, days).await
    }

    async fn used_below(&self, chat: ChatId) -> Result<BudgetUse, StoreError> {
        self.inner.reads.used_below(chat).await
    }

    async fn orphans(&self) -> Result<Vec<ChatId>, StoreError> {
        self.inner.reads.orphans().await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.inner.state.ready()?;
        self.inner.reads.look("SELECT 1", &[]).await.map(drop)
    }

    async fn hint(&self) -> Hint {
        self.inner.hints.next().await
    }
}
