//! A store in a directory of this machine, in SQLite.
//!
//! One process uses the directory at a time, so every lease is granted, and after a restart all chats continue at once.
//! One thread writes, for all chats together; a few connections read beside it. Positions of journalled deltas are kept
//! in memory, because an index for them would cost more than the deltas.

mod columns;
mod error;

/// Opening a data directory: lock, settings, migrations, backups.
mod setup {
    pub(super) mod backup;
    pub(super) mod connect;
    pub(super) mod migrate;
    pub(super) mod open;
}

/// The one thread that writes: its queue, its transactions, and the threads that sync behind it.
mod writer {
    pub(super) mod queue;
    pub(super) mod sync;
    pub(super) mod thread;
    pub(super) mod tx;
}

/// Deltas of open drafts: where they are in the log, how they are found again, how the log is kept short.
mod journal {
    pub(super) mod open_drafts;
    pub(super) mod scan;
    pub(super) mod trim;
}

/// What a transaction of the writer does, one file per operation.
mod commits {
    pub(super) mod commit;
    pub(super) mod create;
    pub(super) mod delete;
    pub(super) mod submit;
    pub(super) mod tokens;
}

/// MessageReader connections, and everything that is read with them.
mod reads {
    pub(super) mod chat;
    pub(super) mod damage;
    pub(super) mod inspect;
    pub(super) mod list;
    pub(super) mod pool;
    pub(super) mod rows;
}

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use async_trait::async_trait;
use everturn_core::budget::{BudgetUse, Day};
use everturn_core::command::InboxCommand;
use everturn_core::fact::{AttemptRecord, Fact};
use everturn_core::ids::{ChatId, MessageId, Version};
use everturn_core::limits::Limits;
use everturn_core::message::Message;
use everturn_core::view::{Cursor, JournalRow, Standing};
use tokio::sync::oneshot;

use crate::ack::Ack;
use crate::clock;
use crate::heading::{ChatQuery, Heading};
use crate::new_chat::{MakeError, NewChat};
use crate::shape;
use crate::shape::rows::Piece;
use crate::store::{
    AppendRight, CallRecord, CommandRef, Lease, LoadPart, Loaded, MessageRange, MessageReader, NewsRead, Receipt,
    Store, StoreError, Submission, SubmitError, Submitted, Unsettled, WriteError,
};
use crate::tables::{CommitRows, Durability, Fetch};
use commits::create;
use commits::submit;
use commits::submit::InboxEntry;
use error::TxError;
use journal::open_drafts::OpenDrafts;
use journal::scan;
use reads::damage::DamageLog;
pub use reads::inspect::{SqliteInspection, StoredDefect};
use reads::pool::ReaderPool;
use reads::{chat, list};
pub use setup::backup::{Backup, BackupError};
use setup::open;
use setup::open::LockedDir;
pub use setup::open::OpenError;
use writer::queue::{GROUP_COMMIT, Queue};
use writer::sync::{Checkpointer, Syncer, WriterHealth};
use writer::thread;
use writer::thread::{AppendJob, ClosureJob, DurabilityNeed, Writer};
use writer::tx::WriteTx;

/// Retries of a read during which rows of the log were moved.
const MOVES_MAX: usize = 100;

/// Settings of a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteOptions {
    /// What deltas survive before they are shown.
    pub drafts: Durability,
    /// Reads at the same time.
    pub readers_len: usize,
    /// Appends per open draft before the older half of them is merged into a few large ones.
    pub appends_len_max: usize,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { drafts: Durability::Process, readers_len: 4, appends_len_max: 2_048 }
    }
}

/// A store in a data directory.
#[derive(Debug)]
pub struct Sqlite {
    dir: PathBuf,
    append_need: DurabilityNeed,
    drafts: Arc<OpenDrafts>,
    health: Arc<WriterHealth>,
    damage: Arc<DamageLog>,
    readers: ReaderPool,
    queue: Arc<Queue>,
    stop: Option<std::sync::mpsc::SyncSender<()>>,
    threads: Vec<JoinHandle<()>>,
    /// Released last.
    _place: LockedDir,
}

impl Sqlite {
    /// Opens a data directory, and creates it if it does not exist. Blocks while the database is checked and migrated.
    pub fn open(dir: &Path, options: &SqliteOptions) -> Result<Self, OpenError> {
        let place = LockedDir::take(dir)?;
        let mut connection = open::prepare(&place.file)?;
        let (log, found) = scan::scan(&connection)?;
        let (drafts, health) = (Arc::new(OpenDrafts::new(options.appends_len_max)), Arc::new(WriterHealth::default()));
        drafts.fill(found);
        health.count_pages(&mut connection)?;
        let ((syncer, written), (keeper, long)) = (sync_channel(1), sync_channel(1));
        let (stop, stopped) = sync_channel(0);
        let queue = Arc::new(Queue::new(GROUP_COMMIT));
        let jobs = queue.clone();
        let file = place.file.clone();
        let syncs = Syncer { file: file.clone(), health: health.clone(), woken: written, stop: stopped, keeper };
        let keeps = Checkpointer { file: file.clone(), health: health.clone(), woken: long };
        let writer = Writer {
            file: file.clone(),
            connection: Some(connection),
            drafts: drafts.clone(),
            health: health.clone(),
            syncer,
            cache: HashMap::new(),
            log,
            synchronous: DurabilityNeed::Full,
            long: Vec::new(),
            runtime: thread::runtime(),
        };
        let failed = |why| OpenError::Dir { dir: dir.into(), why };
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let threads = vec![
            named("sqlite-writer").spawn(move || writer.run(&jobs)).map_err(failed)?,
            named("sqlite-syncer").spawn(move || syncs.run()).map_err(failed)?,
            named("sqlite-keeper").spawn(move || keeps.run()).map_err(failed)?,
        ];
        let append_need = match options.drafts {
            Durability::Process => DurabilityNeed::Process,
            Durability::Full => DurabilityNeed::Full,
        };
        let readers = ReaderPool::new(file, options.readers_len.max(1));
        Ok(Self {
            dir: dir.into(),
            append_need,
            drafts,
            health,
            damage: Arc::default(),
            readers,
            queue,
            stop: Some(stop),
            threads,
            _place: place,
        })
    }

    /// The data directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Sends a job to the writer and waits until its result is durable.
    async fn write<T, E>(
        &self,
        needs: DurabilityNeed,
        run: impl FnMut(&mut WriteTx<'_>) -> Result<T, TxError<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let closed = || StoreError::Unavailable("the store is closed".into());
        let (reply, answer) = oneshot::channel();
        self.queue.put(Box::new(ClosureJob { needs, run, done: None, reply })).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?.0
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> Result<T, TxError<StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.read(move |snapshot| read(snapshot)).await
    }
}

impl Drop for Sqlite {
    /// Waits until every queued job is written.
    fn drop(&mut self) {
        self.queue.close();
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // A panic was logged when it happened.
        }
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn create(&self, new: &NewChat) -> Result<ChatId, MakeError> {
        let new = new.clone();
        let Some(fork) = new.fork else {
            return self.write(DurabilityNeed::Full, move |tx| tx.make(&new, None)).await;
        };
        for _ in 0..MOVES_MAX {
            if let Some(made) = self.created(&new).await? {
                return Ok(made); // Even if the source chat is deleted by now.
            }
            let source = Arc::new(self.readers.read(move |snapshot| create::source(snapshot, fork)).await?);
            let new = new.clone();
            let made = self.write(DurabilityNeed::Full, move |tx| tx.fork(&new, fork, &source)).await?;
            if let Some(made) = made {
                return Ok(made);
            }
        }
        Err(moving().into())
    }

    async fn created(&self, new: &NewChat) -> Result<Option<ChatId>, MakeError> {
        let Some(key) = new.key.clone() else { return Ok(None) };
        let (owner, digest) = (new.owner.clone(), new.digest());
        self.readers.read(move |snapshot| create::made(snapshot, &owner, &key, &digest)).await
    }

    async fn keyed(&self, owner: &str, key: &str) -> Result<Option<ChatId>, StoreError> {
        let (owner, key) = (owner.to_owned(), key.to_owned());
        self.read(move |snapshot| create::keyed(snapshot, &owner, &key)).await
    }

    async fn delete(&self, lease: Lease) -> Result<(), WriteError> {
        let right = lease.append_right();
        self.write(DurabilityNeed::Full, move |tx| tx.delete(right)).await
    }

    async fn headings(&self, query: &ChatQuery) -> Result<Vec<Heading>, StoreError> {
        if let Some(chat) = query.only {
            let found = self.read(move |snapshot| list::heading(snapshot, chat)).await;
            return match found {
                Ok(heading) => Ok(vec![heading]),
                Err(StoreError::NoSuchChat) => Ok(Vec::new()),
                Err(error) => Err(error),
            };
        }
        let (query, log) = (query.clone(), self.damage.clone());
        if query.text.is_empty() {
            return self.read(move |snapshot| list::headings(snapshot, &query, &log)).await;
        }
        self.readers.search(move |snapshot| list::headings(snapshot, &query, &log)).await
    }

    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError> {
        let Submission { command, key, at } = submission;
        let (text, limits) = (shape::command::write(&command), limits.clone());
        let entry = InboxEntry { command, text, key, at };
        let seq = self.write(DurabilityNeed::Full, move |tx| tx.submit(chat, &entry, &limits)).await?;
        Ok(Receipt { chat, seq })
    }

    async fn submitted(&self, chat: ChatId, command: CommandRef<'_>) -> Result<Option<Submitted>, StoreError> {
        match command {
            CommandRef::Key(key) => {
                let key = key.to_owned();
                self.read(move |snapshot| submit::submitted(snapshot, chat, CommandRef::Key(&key))).await
            }
            CommandRef::Seq(seq) => {
                self.read(move |snapshot| submit::submitted(snapshot, chat, CommandRef::Seq(seq))).await
            }
        }
    }

    async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError> {
        self.write(DurabilityNeed::Full, move |tx| tx.acquire(chat)).await
    }

    async fn release(&self, _lease: Lease) -> Result<(), StoreError> {
        Ok(()) // No other process can be waiting for it, and the cache is bounded.
    }

    async fn load_held(&self, lease: &Lease, part: LoadPart) -> Result<Loaded, WriteError> {
        let right = lease.append_right();
        if part == LoadPart::State {
            let chat = self.readers.read(move |snapshot| chat::state(snapshot, right)).await?;
            return Ok(Loaded { chat, messages: Vec::new(), rows: Vec::new() });
        }
        // After every write with a dropped future: the load then shows its result.
        self.write(DurabilityNeed::Nothing, move |tx| tx.held(right).map(|_| ())).await?;
        for _ in 0..MOVES_MAX {
            let head = self.drafts.get(right.chat);
            let loaded = self.readers.read(move |snapshot| chat::load(snapshot, right, head.as_ref())).await?;
            if let Some(loaded) = loaded {
                return Ok(loaded);
            }
        }
        Err(moving().into())
    }

    async fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
        let inbox = move |snapshot: &rusqlite::Connection| {
            chat::is_there(snapshot, chat)?;
            submit::pending(snapshot, chat, Fetch::Bytes)
        };
        self.read(inbox).await
    }

    async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        self.read(list::unsettled).await
    }

    async fn append(&self, right: AppendRight, rows: Vec<JournalRow>, ack: Ack) {
        let needs = if rows.is_empty() { DurabilityNeed::Nothing } else { self.append_need };
        let append = AppendJob { right, piece: Piece::of(&rows), rows: rows.into(), needs, done: None, ack };
        let _ = self.queue.put(Box::new(append)).await; // A job that is refused is dropped, and its ack reports that.
    }

    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError> {
        let (right, facts, split) = (lease.append_right(), facts.to_vec(), CommitRows::of(facts));
        self.write(DurabilityNeed::Full, move |tx| tx.commit(right, &facts, &split)).await
    }

    fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> NewsRead<'_> {
        if let Some(news) = cursor.and_then(|seen| self.drafts.since(chat, seen)) {
            return NewsRead::known(Ok(news));
        }
        NewsRead::reading(async move {
            for _ in 0..MOVES_MAX {
                let head = self.drafts.get(chat);
                let read = self.read(move |snapshot| chat::since(snapshot, chat, cursor, head.as_ref()));
                if let Some(news) = read.await? {
                    return Ok(news);
                }
            }
            Err(moving())
        })
    }

    async fn standing(&self, chat: ChatId) -> Result<Standing, StoreError> {
        self.read(move |snapshot| chat::standing(snapshot, chat)).await
    }

    async fn message(
        &self,
        chat: ChatId,
        id: MessageId,
        _reader: MessageReader,
    ) -> Result<Option<Arc<Message>>, StoreError> {
        self.read(move |snapshot| chat::whole(snapshot, chat, id)).await
    }

    async fn messages(&self, chat: ChatId, range: MessageRange) -> Result<Vec<Arc<Message>>, StoreError> {
        self.read(move |snapshot| {
            chat::is_there(snapshot, chat)?;
            chat::messages(snapshot, chat, range)
        })
        .await
    }

    async fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError> {
        self.read(move |snapshot| chat::attempts(snapshot, chat, seen, len)).await
    }

    async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError> {
        self.read(move |snapshot| chat::calls(snapshot, chat)).await
    }

    async fn working(&self, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, StoreError> {
        let (owner, besides, log) = (owner.to_owned(), besides.clone(), self.damage.clone());
        self.read(move |snapshot| list::working(snapshot, &owner, &besides, &log)).await
    }

    async fn used(&self, owner: &str, days: RangeInclusive<Day>) -> Result<BudgetUse, StoreError> {
        let owner = owner.to_owned();
        self.read(move |snapshot| list::used(snapshot, &owner, &days)).await
    }

    async fn used_below(&self, chat: ChatId) -> Result<BudgetUse, StoreError> {
        self.read(move |snapshot| list::used_below(snapshot, chat)).await
    }

    async fn orphans(&self) -> Result<Vec<ChatId>, StoreError> {
        self.read(list::orphans).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        if self.health.has_written(clock::now()) {
            return Ok(()); // A store that can write can read.
        }
        self.write(DurabilityNeed::Full, |tx| tx.touch()).await
    }
}

fn moving() -> StoreError {
    StoreError::Unavailable("the draft kept moving while it was read: try again".into())
}
