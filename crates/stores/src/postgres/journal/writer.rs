//! The journal: one writer for the drafts of all chats.
//!
//! It takes the appends that arrived while the last batch was written, and stores them in bundles with one statement. The
//! statement counts the batch in this process's row of `workers`, and stores nothing if the row is gone or the count is
//! not the expected one. A process that takes over chats removes the row first, so one row lock protects all chats for
//! the length of a batch. The count also shows whether a batch with a lost answer was stored, and whether a database
//! that crashed has lost one.
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use everturn_core::ids::ChatId;
use everturn_core::view::JournalRow;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::Type;

use crate::ack::Ack;
use crate::failpoint::failpoint;
use crate::postgres::Inner;
use crate::postgres::connection::columns::put_bytes;
use crate::postgres::connection::pool::{Param, TxMode};
use crate::postgres::connection::retry::DbFault;
use crate::postgres::journal::filing::{FilingJob, ROW_BYTES_MAX, UnfiledCount};
use crate::postgres::leases::cache::ChatCache;
use crate::postgres::notify::channel::Urgency;
use crate::shape::bundle::{Bundle, Head};
use crate::shape::rows::Piece;
use crate::store::{AppendRight, Hint, StoreError, WriteError};
use crate::tables::Durability;

/// Queued appends before callers wait.
pub(crate) const QUEUE_LEN_MAX: usize = 4096;
/// Appends per batch at most.
const BATCH_LEN_MAX: usize = 2048;

pub(crate) enum Job {
    Append {
        right: AppendRight,
        rows: Vec<JournalRow>,
        piece: Piece,
        ack: Ack,
    },
    /// Answered when everything before it was.
    Barrier(oneshot::Sender<Result<(), StoreError>>),
}

/// Rows of one chat that go together.
struct Entry {
    right: AppendRight,
    cache: Arc<ChatCache>,
    no: i64,
    rows: Vec<JournalRow>,
    piece: Piece,
    ack: Ack,
    /// Acknowledgements of further appends in this entry.
    others: Vec<Ack>,
}

/// Runs the journal writer.
pub(crate) async fn run(inner: Arc<Inner>, mut jobs: mpsc::Receiver<Job>) {
    let unfiled = UnfiledCount::default();
    let mut writer = Writer { inner, worker: 0, journalled: 0, is_in_doubt: false, unsettled: None, unfiled };
    let mut taken = Vec::new();
    loop {
        if jobs.is_empty() {
            writer.settle();
        }
        if jobs.recv_many(&mut taken, BATCH_LEN_MAX).await == 0 {
            return;
        }
        let mut barriers = Vec::new();
        let mut batch = Batch { worker: writer.inner.state().current(), ..Batch::default() };
        for job in taken.drain(..) {
            match job {
                Job::Append { right, rows, piece, ack } => {
                    writer.settle_before(right.chat);
                    batch.add(&writer.inner, right, (rows, piece), ack);
                }
                Job::Barrier(passed) => barriers.push(passed),
            }
        }
        writer.store(batch).await;
        for passed in barriers {
            writer.settle();
            let _ = passed.send(writer.worker().await.map(drop)); // The caller may have dropped its future.
        }
    }
}

struct Writer {
    inner: Arc<Inner>,
    /// Number of this worker, and how many batches the database has counted.
    worker: i64,
    journalled: i64,
    /// Whether the newest batch may still happen.
    is_in_doubt: bool,
    /// The newest batch and its result. Callers are answered while the database writes the next one.
    unsettled: Option<(Batch, Result<(), WriteError>)>,
    unfiled: UnfiledCount,
}

#[derive(Default)]
struct Batch {
    /// The worker that holds the chats.
    worker: Option<i64>,
    entries: Vec<Entry>,
    places: HashMap<ChatId, usize>,
    unheld: Vec<(ChatId, Ack)>,
    /// Appends of nothing, which are answered with the rest.
    empty: Vec<Ack>,
}

impl Batch {
    /// Puts rows where they belong, or refuses them.
    fn add(&mut self, inner: &Inner, right: AppendRight, (rows, piece): (Vec<JournalRow>, Piece), ack: Ack) {
        let cache = inner.caches.at(right.chat);
        let place = {
            let held = cache.held();
            let ours = held.as_ref().filter(|held| held.fence == right.fence && Some(held.worker) == self.worker);
            ours.map(|held| (held.step, held.end, held.no))
        };
        let Some((step, stored, no)) = place else {
            return self.unheld.push((right.chat, ack));
        };
        let known = self.places.get(&right.chat).copied();
        let end = known.map_or(stored, |i| self.entries[i].rows.last().map_or(stored, |row| row.seq));
        let fits = |(i, row): (usize, &JournalRow)| row.step == step && row.seq.0 == end.0 + 1 + i as u64;
        if !rows.iter().enumerate().all(fits) {
            ack.tell(Err(WriteError::OutOfPlace));
        } else if rows.is_empty() {
            self.empty.push(ack);
        } else if let Some(i) = known {
            let entry = &mut self.entries[i];
            entry.rows.extend(rows);
            entry.piece = Piece::of(&entry.rows);
            entry.others.push(ack);
        } else {
            self.places.insert(right.chat, self.entries.len());
            self.entries.push(Entry { right, cache, no, rows, piece, ack, others: Vec::new() });
        }
    }
}

impl Writer {
    /// Stores a batch. Its callers are answered when it is settled.
    async fn store(&mut self, mut batch: Batch) {
        for (chat, ack) in batch.unheld.drain(..) {
            let inner = self.inner.clone();
            tokio::spawn(async move { ack.tell(Err(inner.refusal(chat).await)) }); // Not in the way of other appends.
        }
        batch.empty.drain(..).for_each(|ack| ack.tell(Ok(())));
        if batch.entries.is_empty() {
            return;
        }
        let (inner, before) = (self.inner.clone(), self.unsettled.take());
        let stored = {
            let mut insert = pin!(self.insert(&batch));
            let at_once = poll_fn(|context| Poll::Ready(insert.as_mut().poll(context))).await;
            settle(&inner, before); // The rows are on their way.
            match at_once {
                Poll::Ready(stored) => stored,
                Poll::Pending => insert.await,
            }
        };
        let answer = match stored {
            Ok(Stored::Yes) => {
                if self.inner.draft_mode == TxMode::WriteLater {
                    self.inner.unsynced.notify_one();
                }
                self.count_unfiled(&batch);
                Ok(())
            }
            Ok(Stored::No) => Err(WriteError::Fenced),
            Err(error) => Err(error.into()),
        };
        self.unsettled = Some((batch, answer));
    }

    fn count_unfiled(&mut self, batch: &Batch) {
        batch.entries.iter().for_each(|entry| self.unfiled.add(entry.no, entry.piece.json.len()));
        if self.unfiled.is_due(self.inner.file_len_min)
            && self.inner.filing_jobs.try_send(FilingJob::File(self.worker, None)).is_ok()
        {
            self.unfiled = UnfiledCount::default();
        }
    }

    /// Answers the callers of the newest batch.
    fn settle(&mut self) {
        settle(&self.inner, self.unsettled.take());
    }

    /// Settles the newest batch if it has rows of `chat`, so that the end of its journal is known.
    fn settle_before(&mut self, chat: ChatId) {
        if self.unsettled.as_ref().is_some_and(|(batch, _)| batch.places.contains_key(&chat)) {
            self.settle();
        }
    }

    /// The worker to write as, if its lease is valid. After this returns, no earlier batch can still be stored.
    async fn worker(&mut self) -> Result<Option<i64>, StoreError> {
        let Some(worker) = self.inner.state().current() else { return Ok(None) };
        if worker != self.worker {
            (self.worker, self.journalled, self.is_in_doubt) = (worker, 0, false);
        }
        if self.is_in_doubt {
            let sql = "UPDATE workers SET journalled = journalled + 1 WHERE id = $1 RETURNING journalled";
            let params: [Param<'_>; 1] = [(&worker, Type::INT8)];
            let count = || self.inner.reads.query_once(TxMode::Write, sql, &params);
            let rows = self.inner.reads.retry().run(count).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            (self.journalled, self.is_in_doubt) = (row.get(0), false);
        }
        Ok(Some(worker))
    }

    /// Stores the rows of all entries, or none.
    async fn insert(&mut self, batch: &Batch) -> Result<Stored, StoreError> {
        let Some(worker) = self.worker().await?.filter(|worker| batch.worker == Some(*worker)) else {
            return Ok(Stored::No);
        };
        let mut retry = self.inner.reads.retry();
        self.is_in_doubt = true;
        loop {
            let tried = match try_insert(&self.inner, worker, self.journalled, &batch.entries).await {
                Ok(0) => self.counted(worker).await,
                Ok(_) => Ok(Some(self.journalled + 1)),
                Err(fault) => Err(fault),
            };
            match tried {
                Ok(Some(counted)) if counted == self.journalled + 1 => break,
                Ok(Some(counted)) if counted == self.journalled => {} // The attempt before was not stored.
                Ok(Some(_)) => {
                    tracing::warn!("database lost its newest rows (crash or failover): reloading all chats");
                    self.inner.caches.clear();
                    return Ok(Stored::No);
                }
                Ok(None) => return Ok(Stored::No),
                Err(fault) => retry.wait(fault).await?,
            }
        }
        self.journalled += 1;
        self.is_in_doubt = false;
        Ok(Stored::Yes)
    }

    /// How many batches the database has counted of this process, if it knows it.
    async fn counted(&self, worker: i64) -> Result<Option<i64>, DbFault> {
        let sql = "SELECT journalled FROM workers WHERE id = $1";
        let rows = self.inner.reads.query_once(TxMode::Read, sql, &[(&worker, Type::INT8)]).await?;
        Ok(rows.first().map(|row| row.get(0)))
    }
}

enum Stored {
    Yes,
    No,
}

fn settle(inner: &Inner, unsettled: Option<(Batch, Result<(), WriteError>)>) {
    let Some((batch, answer)) = unsettled else { return };
    if answer.is_ok() {
        inner.notifier.tell(batch.entries.iter().map(|entry| Hint::News(entry.right.chat)), Urgency::Soon);
    }
    batch.entries.into_iter().for_each(|entry| entry.settle(&answer));
}

impl Entry {
    /// Answers the callers. Unless the rows are stored, the chat must be acquired again, because they still may be.
    fn settle(self, answer: &Result<(), WriteError>) {
        if answer.is_ok() {
            if let Some(held) = self.cache.held().as_mut().filter(|held| held.fence == self.right.fence) {
                held.appended(self.rows);
            }
        } else {
            self.cache.clear(self.right.fence);
        }
        self.others.into_iter().chain([self.ack]).for_each(|ack| ack.tell(answer.clone()));
    }
}

const INSERT: &str = "
    WITH alive AS (UPDATE workers SET journalled = $2 + 1 WHERE id = $1 AND journalled = $2 RETURNING id, journalled)
    INSERT INTO tail (worker, batch, nos, body)
    SELECT id, journalled, nos::bigint[], body FROM alive, unnest($3, $4) AS new (nos, body)";

async fn try_insert(inner: &Inner, worker: i64, journalled: i64, entries: &[Entry]) -> Result<u64, DbFault> {
    let (numbers, bodies) = bundles(entries);
    let blobs = entries.iter().map(|entry| (entry.right.chat, &entry.piece.blobs[..]));
    let blobs: Vec<_> = blobs.filter(|(_, blobs)| !blobs.is_empty()).collect();
    let params: [Param<'_>; 4] =
        [(&worker, Type::INT8), (&journalled, Type::INT8), (&numbers, Type::TEXT_ARRAY), (&bodies, Type::TEXT_ARRAY)];
    let conn = inner.writing.conn().await?;
    failpoint!("postgres-journal");
    let (begin, insert) = (conn.begin(inner.draft_mode), conn.execute(INSERT, &params));
    let stored = if blobs.is_empty() {
        let (_, stored, ()) = tokio::try_join!(begin, insert, conn.commit())?;
        stored
    } else {
        let (_, stored) = tokio::try_join!(begin, insert)?;
        if stored > 0 {
            put_bytes(&conn, &blobs).await?; // Not before: a worker that lost its chats stores no bytes.
        }
        conn.commit().await?;
        stored
    };
    failpoint!("postgres-journalled");
    Ok(stored)
}

/// Entries in bundles: for each the short names of its chats, as Postgres writes such a list, and the text.
fn bundles(entries: &[Entry]) -> (Vec<String>, Vec<String>) {
    let (mut numbers, mut bodies) = (Vec::new(), Vec::new());
    let (mut bundle, mut list) = (Bundle::default(), String::new());
    for (i, entry) in entries.iter().enumerate() {
        let head = Head { chat: entry.no, step: entry.rows[0].step, first: entry.rows[0].seq };
        bundle.add(head, entry.piece.at, &entry.piece.json);
        list.push(if list.is_empty() { '{' } else { ',' });
        list.push_str(&entry.no.to_string());
        let next = entries.get(i + 1).map(|next| next.piece.json.len());
        if next.is_none_or(|next| bundle.len() + next > ROW_BYTES_MAX) {
            list.push('}');
            numbers.push(std::mem::take(&mut list));
            bodies.push(bundle.take());
        }
    }
    (numbers, bodies)
}

/// What journals are written with.
pub(crate) const fn draft_mode(durability: Durability) -> TxMode {
    match durability {
        Durability::Process => TxMode::WriteLater,
        Durability::Full => TxMode::Write,
    }
}
