//! The journal: one writer for the drafts of all chats.
//!
//! It takes what has come while the last batch was written, and stores it with one statement. Whoever takes chats over
//! from this process first removes its row from `workers`, so holding that row for the length of a batch keeps all of
//! them ours, at the price of one lock.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use everturn_core::ids::{ChatId, Seq};
use everturn_core::view::Row;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::Type;

use super::Inner;
use super::cells::{big, id_bytes, id_of, put_bytes};
use super::desk::Desk;
use super::fault::Fault;
use super::link::{Conn, Mode, Param};
use super::wire::Haste;
use crate::failpoint::failpoint;
use crate::shape::{Written, rows};
use crate::sql::Durability;
use crate::store::{Hint, Pen, StoreError, WriteError};

/// How many appends wait at most before those who append do.
pub(super) const QUEUE_LEN_MAX: usize = 4096;
/// How many appends go into one batch at most.
const BATCH_LEN_MAX: usize = 2048;

pub(super) enum Job {
    Append {
        pen: Pen,
        rows: Vec<Row>,
        done: Done,
    },
    /// Answered when everything before it was.
    Barrier(oneshot::Sender<()>),
}

type Done = oneshot::Sender<Result<(), WriteError>>;

/// Rows of one chat that go together.
struct Entry {
    pen: Pen,
    desk: Arc<Desk>,
    after: Seq,
    rows: Vec<Row>,
    text: Written,
    waiting: Vec<Done>,
}

/// Writes for ever.
pub(super) async fn run(inner: Arc<Inner>, mut jobs: mpsc::Receiver<Job>) {
    let mut taken = Vec::new();
    while jobs.recv_many(&mut taken, BATCH_LEN_MAX).await > 0 {
        let mut barriers = Vec::new();
        let mut batch = Batch::default();
        for job in taken.drain(..) {
            match job {
                Job::Append { pen, rows, done } => batch.add(&inner, pen, rows, done),
                Job::Barrier(passed) => barriers.push(passed),
            }
        }
        batch.store(&inner).await;
        for passed in barriers {
            let _ = passed.send(());
        }
    }
}

#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    places: HashMap<ChatId, usize>,
    strangers: Vec<(ChatId, Done)>,
    /// Appends of nothing, which are answered with the rest.
    empty: Vec<Done>,
}

impl Batch {
    /// Puts rows where they belong, or refuses them.
    fn add(&mut self, inner: &Inner, pen: Pen, rows: Vec<Row>, done: Done) {
        let desk = inner.desks.at(pen.chat);
        let place = {
            let held = desk.held();
            let worker = inner.life().current();
            let ours = held.as_ref().filter(|held| held.fence == pen.fence && Some(held.worker) == worker);
            ours.map(|held| (held.step, held.end, held.newest))
        };
        let Some((step, stored, newest)) = place else {
            return self.strangers.push((pen.chat, done));
        };
        let known = self.places.get(&pen.chat).copied();
        let end = known.map_or(stored, |i| self.entries[i].rows.last().map_or(stored, |row| row.seq));
        let fits = |(i, row): (usize, &Row)| row.step == step && row.seq.0 == end.0 + 1 + i as u64;
        if !rows.iter().enumerate().all(fits) {
            let _ = done.send(Err(WriteError::OutOfPlace)); // Here and below: whoever asked may be gone.
        } else if rows.is_empty() {
            self.empty.push(done);
        } else if let Some(i) = known {
            self.entries[i].rows.extend(rows);
            self.entries[i].waiting.push(done);
        } else {
            self.places.insert(pen.chat, self.entries.len());
            let text = Written { json: String::new(), blobs: Vec::new() };
            self.entries.push(Entry { pen, desk, after: newest, rows, text, waiting: vec![done] });
        }
    }

    async fn store(mut self, inner: &Arc<Inner>) {
        for (chat, done) in self.strangers {
            let _ = done.send(Err(inner.why_not(chat).await));
        }
        for done in self.empty {
            let _ = done.send(Ok(()));
        }
        if self.entries.is_empty() {
            return;
        }
        for entry in &mut self.entries {
            entry.text = rows::write(&entry.rows);
        }
        let worker = inner.life().current();
        let stored = match worker {
            Some(worker) => insert(inner, worker, &self.entries).await,
            None => Ok(HashSet::new()),
        };
        match stored {
            Ok(stored) => self.entries.into_iter().for_each(|entry| entry.settle(inner, &stored)),
            Err(error) => self.entries.into_iter().for_each(|entry| entry.fail(&error)),
        }
    }
}

impl Entry {
    fn settle(self, inner: &Inner, stored: &HashSet<ChatId>) {
        let answer = if stored.contains(&self.pen.chat) {
            if let Some(held) = self.desk.held().as_mut().filter(|held| held.fence == self.pen.fence) {
                held.appended(&self.rows);
            }
            inner.tell(Hint::News(self.pen.chat), Haste::Soon);
            Ok(())
        } else {
            self.desk.clear(self.pen.fence);
            Err(WriteError::Fenced)
        };
        for done in self.waiting {
            let _ = done.send(answer.clone());
        }
    }

    /// Whether the rows are stored is not known, so the chat must be taken anew.
    fn fail(self, error: &StoreError) {
        self.desk.clear(self.pen.fence);
        for done in self.waiting {
            let _ = done.send(Err(error.clone().into()));
        }
    }
}

/// Stores the rows of all chats that are still ours, and says which.
async fn insert(inner: &Inner, worker: i64, entries: &[Entry]) -> Result<HashSet<ChatId>, StoreError> {
    let mut patience = inner.patience();
    let mut is_again = false;
    loop {
        match try_insert(inner, worker, entries, is_again).await {
            Ok(stored) => return Ok(stored),
            Err(fault) => patience.wait(fault).await?,
        }
        is_again = true;
    }
}

/// A row goes in if the chat is ours and what it follows is there: a database that crashed may have lost the newest rows
/// of a draft, and a draft has no gaps.
const INSERT: &str = "
    WITH alive AS MATERIALIZED (SELECT id FROM workers WHERE id = $1 FOR SHARE)
    INSERT INTO drafts (chat, step, first, len, body)
    SELECT new.chat, new.step, new.first, new.len, new.body
    FROM alive, unnest($2, $3, $4, $5, $6, $7, $8) AS new (chat, fence, step, first, after, len, body)
    WHERE EXISTS (SELECT 1 FROM chats WHERE id = new.chat AND fence = new.fence AND worker = alive.id AND step = new.step)
    AND (new.after = 0 OR EXISTS (
        SELECT 1 FROM drafts WHERE chat = new.chat AND step = new.step AND first = new.after))
    ON CONFLICT DO NOTHING
    RETURNING chat";

/// What an insert whose answer was lost has left.
const THERE: &str = "
    SELECT new.chat FROM unnest($1, $2, $3, $4) AS new (chat, step, first, len)
    JOIN drafts USING (chat, step, first, len)";

async fn try_insert(inner: &Inner, worker: i64, entries: &[Entry], is_again: bool) -> Result<HashSet<ChatId>, Fault> {
    let chats: Vec<Vec<u8>> = entries.iter().map(|entry| id_bytes(entry.pen.chat).to_vec()).collect();
    let fences: Vec<i64> = entries.iter().map(|entry| big(entry.pen.fence.0)).collect();
    let steps: Vec<i64> = entries.iter().map(|entry| big(entry.rows[0].step.0)).collect();
    let firsts: Vec<i64> = entries.iter().map(|entry| big(entry.rows[0].seq.0)).collect();
    let afters: Vec<i64> = entries.iter().map(|entry| big(entry.after.0)).collect();
    let lens: Vec<i32> = entries.iter().map(|entry| entry.rows.len() as i32).collect();
    let texts: Vec<&str> = entries.iter().map(|entry| entry.text.json.as_str()).collect();
    let blobs: Vec<(ChatId, &Written)> = entries.iter().map(|entry| (entry.pen.chat, &entry.text)).collect();
    let params: [Param<'_>; 8] = [
        (&worker, Type::INT8),
        (&chats, Type::BYTEA_ARRAY),
        (&fences, Type::INT8_ARRAY),
        (&steps, Type::INT8_ARRAY),
        (&firsts, Type::INT8_ARRAY),
        (&afters, Type::INT8_ARRAY),
        (&lens, Type::INT4_ARRAY),
        (&texts, Type::TEXT_ARRAY),
    ];
    let conn: Conn = inner.writing.conn().await?;
    failpoint!("postgres-journal");
    let (_, _, rows, ()) = tokio::try_join!(
        conn.begin(inner.draft_mode),
        put_bytes(&conn, &blobs),
        conn.query(INSERT, &params),
        conn.commit()
    )?;
    failpoint!("postgres-journalled");
    let mut stored = rows.iter().map(|row| id_of(row.get(0))).collect::<Result<HashSet<_>, _>>()?;
    if is_again && stored.len() < entries.len() {
        let params: [Param<'_>; 4] = [
            (&chats, Type::BYTEA_ARRAY),
            (&steps, Type::INT8_ARRAY),
            (&firsts, Type::INT8_ARRAY),
            (&lens, Type::INT4_ARRAY),
        ];
        for row in conn.query(THERE, &params).await? {
            stored.insert(id_of(row.get(0))?);
        }
    }
    Ok(stored)
}

/// What journals are written with.
pub(super) const fn draft_mode(durability: Durability) -> Mode {
    match durability {
        Durability::Process => Mode::WriteLater,
        Durability::Full => Mode::Write,
    }
}
