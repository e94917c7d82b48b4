//! Work in the background of the journal: filing, and deleting drafts of steps that are over.
//!
//! Journalled rows are in `tail` as they came, many chats per row. Filing moves them into `drafts`, where each chat has a
//! few larger rows of its own; rows of steps that are over are left out. Filing late, or never, does little harm: reads
//! look in both places.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use everturn_core::ids::{Seq, StepId, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio::task::consume_budget;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::failpoint::failpoint;
use crate::postgres::Inner;
use crate::postgres::closed;
use crate::postgres::connection::columns::{big, count, text};
use crate::postgres::connection::pool::{Conn, ConnectionPool, Param, TxMode};
use crate::postgres::connection::retry::DbFault;
use crate::shape::{BadShape, bundle, rows};
use crate::store::StoreError;

/// Queued jobs at most. A step that finds no room is cleaned up with the next one of its chat.
pub(crate) const QUEUE_LEN_MAX: usize = 4096;
/// Text of a row, unless one append is longer: as much as fits without TOAST.
pub(crate) const ROW_BYTES_MAX: usize = 1_500;
/// Chats per filing before more appends are collected.
const FILE_CHATS_MAX: usize = 32;
/// If appends are larger than this on average, fewer are collected before they are filed: every read of the tail reads all.
const APPEND_BYTES_MAX: usize = 256;

/// First row number that marks damage: no delta has one as large.
const DAMAGED_FIRST: i64 = 1 << 60;

pub(crate) enum FilingJob {
    /// A step of a chat has begun: those before it are over.
    Begun(i64, StepId),
    /// What a worker has journalled is to be filed.
    File(i64, Option<oneshot::Sender<Result<(), StoreError>>>),
}

/// Approximate amount of rows that a worker journalled since the last filing.
#[derive(Default)]
pub(crate) struct UnfiledCount {
    len: usize,
    bytes: usize,
    chats: HashSet<i64>,
}

impl UnfiledCount {
    /// An append to the chat with this short name.
    pub(crate) fn add(&mut self, no: i64, bytes: usize) {
        self.len += 1;
        self.bytes += bytes;
        self.chats.insert(no);
    }

    /// Whether filing is worth it; `len_min` is the threshold for a few chats. Each chat gets a row of its own, so many chats need more.
    pub(crate) fn is_due(&self, len_min: usize) -> bool {
        let len_min = len_min.max(self.chats.len() * len_min / FILE_CHATS_MAX);
        self.len >= len_min || self.bytes >= len_min * APPEND_BYTES_MAX
    }
}

impl Inner {
    /// Files what a worker has journalled until now.
    pub(crate) async fn file(&self, worker: i64) -> Result<(), StoreError> {
        let (done, is_done) = oneshot::channel();
        self.filing_jobs.send(FilingJob::File(worker, Some(done))).await.map_err(|_| closed())?;
        is_done.await.map_err(|_| closed())?
    }
}

/// Runs filing jobs.
pub(crate) async fn run(inner: Arc<Inner>, mut filing_jobs: mpsc::Receiver<FilingJob>) {
    if let Err(fault) = file_left_behind(&inner.reads.pool).await {
        tracing::debug!(?fault, "what others have left behind stays for now");
    }
    let mut taken = Vec::new();
    while filing_jobs.recv_many(&mut taken, QUEUE_LEN_MAX).await > 0 {
        let (mut newest, mut workers) = (HashMap::new(), HashMap::<i64, Vec<_>>::new());
        for job in taken.drain(..) {
            match job {
                FilingJob::Begun(no, step) => drop(newest.insert(no, step)),
                FilingJob::File(worker, done) => workers.entry(worker).or_default().extend(done),
            }
        }
        for (worker, waiting) in workers {
            let filed = inner.reads.retry().run(|| try_file(&inner.reads.pool, worker)).await;
            if let Err(error) = &filed {
                tracing::debug!(%error, "what was journalled stays where it is for now");
            }
            for done in waiting {
                let _ = done.send(filed.clone()); // The caller may have dropped its future.
            }
        }
        // Afterwards: what was filed of a step that ended meanwhile goes too.
        if let Err(fault) = trim(&inner.reads.pool, newest).await {
            tracing::debug!(?fault, "drafts of steps that are over stay for now");
        }
    }
}

async fn trim(pool: &ConnectionPool, newest: HashMap<i64, StepId>) -> Result<(), DbFault> {
    if newest.is_empty() {
        return Ok(());
    }
    let (chats, steps): (Vec<i64>, Vec<i64>) = newest.into_iter().map(|(no, step)| (no, big(step.0))).unzip();
    let sql = "DELETE FROM drafts USING unnest($1, $2) AS newest (no, step)
        WHERE drafts.no = newest.no AND drafts.step < newest.step";
    let params: [Param<'_>; 2] = [(&chats, Type::INT8_ARRAY), (&steps, Type::INT8_ARRAY)];
    failpoint!("postgres-trim");
    let conn = pool.conn().await?;
    tokio::try_join!(conn.begin(TxMode::WriteLater), conn.execute(sql, &params), conn.commit())?;
    Ok(())
}

/// Files the rows of workers that no longer exist.
async fn file_left_behind(pool: &ConnectionPool) -> Result<(), DbFault> {
    let sql = "SELECT DISTINCT worker FROM tail WHERE NOT EXISTS (SELECT 1 FROM workers WHERE id = tail.worker)";
    for row in pool.query_once(TxMode::Read, sql, &[]).await? {
        try_file(pool, row.get(0)).await?;
    }
    Ok(())
}

async fn try_file(pool: &ConnectionPool, worker: i64) -> Result<(), DbFault> {
    let conn = pool.conn().await?;
    let (_, filed) = tokio::try_join!(conn.begin(TxMode::WriteLater), file(&conn, worker))?;
    conn.commit().await?;
    failpoint!("postgres-filed");
    let Some(batch) = filed else { return Ok(()) };
    // By itself, so that the journal never waits for its row in `workers`.
    let sql = "UPDATE workers SET filed = greatest(filed, $2) WHERE id = $1";
    pool.query_once(TxMode::WriteLater, sql, &[(&worker, Type::INT8), (&batch, Type::INT8)]).await?;
    Ok(())
}

/// Files what a worker has journalled, in the transaction that is open. Says up to which batch, if there was anything.
pub(crate) async fn file(conn: &Conn, worker: i64) -> Result<Option<i64>, DbFault> {
    let sql = "
        DELETE FROM tail WHERE worker = $1 AND batch > coalesce((SELECT filed FROM workers WHERE id = $1), 0)
        RETURNING batch, nos, body";
    let mut found = conn.query(sql, &[(&worker, Type::INT8)]).await?;
    let batch = |row: &Row| row.get::<_, i64>("batch");
    found.sort_unstable_by_key(batch);
    let Some(newest) = found.last().map(batch) else { return Ok(None) };
    let (appends, damaged) = by_chat(&found).await;
    let numbers: Vec<i64> = appends.keys().chain(&damaged).copied().collect();
    let sql = "SELECT no, step FROM chats WHERE no = ANY ($1)";
    let steps = conn.query(sql, &[(&numbers, Type::INT8_ARRAY)]).await?;
    let steps: HashMap<i64, StepId> = steps.iter().map(|row| (row.get("no"), StepId(count(row, "step")))).collect();
    let mut drafts = Drafts::default();
    for (no, entries) in appends {
        let open = steps.get(&no).copied();
        drafts.add(entries.into_iter().filter(|entry| Some(entry.head.step) == open))?;
        consume_budget().await;
    }
    for (no, step) in damaged.iter().filter_map(|no| Some((*no, *steps.get(no)?))) {
        drafts.damaged(no, step);
    }
    failpoint!("postgres-file");
    drafts.insert(conn).await?;
    Ok(Some(newest))
}

/// Appends by chat, and the chats that have some in a row that is damaged.
async fn by_chat(rows: &[Row]) -> (BTreeMap<i64, Vec<bundle::Entry<'_>>>, BTreeSet<i64>) {
    let (mut appends, mut damaged) = (BTreeMap::<_, Vec<_>>::new(), BTreeSet::new());
    for row in rows {
        consume_budget().await;
        match text(row, "body").and_then(|text| Ok(bundle::parse(text)?)) {
            Ok(entries) => {
                for entry in entries {
                    appends.entry(entry.head.chat).or_default().push(entry);
                }
            }
            Err(fault) => {
                tracing::error!(
                    ?fault,
                    "journal rows of some chats are damaged: those chats cannot continue; run `everturn doctor`, then restore a backup or delete them"
                );
                damaged.extend(row.get::<_, Vec<i64>>("nos"));
            }
        }
    }
    (appends, damaged)
}

/// Rows of `drafts`, column by column.
#[derive(Default)]
struct Drafts {
    numbers: Vec<i64>,
    steps: Vec<i64>,
    firsts: Vec<i64>,
    lens: Vec<i32>,
    bodies: Vec<String>,
}

impl Drafts {
    /// Appends of one step that follow each other, joined to rows that are not too long.
    fn add<'a>(&mut self, entries: impl Iterator<Item = bundle::Entry<'a>>) -> Result<(), BadShape> {
        let (mut pieces, mut bytes, mut head) = (Vec::new(), 0, None);
        for entry in entries {
            if bytes + entry.text().len() > ROW_BYTES_MAX {
                self.row(head.take(), std::mem::take(&mut pieces))?;
                bytes = 0;
            }
            bytes += entry.text().len();
            head.get_or_insert(entry.head);
            pieces.push((entry.at, entry.text()));
        }
        self.row(head, pieces)
    }

    fn row(&mut self, head: Option<bundle::Head>, pieces: Vec<(Timestamp, &str)>) -> Result<(), BadShape> {
        let (Some(head), Some((at, _))) = (head, pieces.first()) else { return Ok(()) };
        let (text, len) = rows::join(&pieces)?;
        self.numbers.push(head.chat);
        self.steps.push(big(head.step.0));
        self.firsts.push(big(head.first.0));
        self.lens.push(len as i32);
        self.bodies.push(rows::alone(*at, &text));
        Ok(())
    }

    /// A row that marks deltas of this step as damaged for readers: behind all others, with a checksum that
    /// does not match.
    fn damaged(&mut self, no: i64, step: StepId) {
        self.numbers.push(no);
        self.steps.push(big(step.0));
        self.firsts.push(DAMAGED_FIRST);
        self.lens.push(1);
        self.bodies.push(r#"{"v":1,"is":[0],"sum":"00000000"}"#.into());
    }

    async fn insert(&self, conn: &Conn) -> Result<(), DbFault> {
        let params: [Param<'_>; 5] = [
            (&self.numbers, Type::INT8_ARRAY),
            (&self.steps, Type::INT8_ARRAY),
            (&self.firsts, Type::INT8_ARRAY),
            (&self.lens, Type::INT4_ARRAY),
            (&self.bodies, Type::TEXT_ARRAY),
        ];
        let sql = "INSERT INTO drafts (no, step, first, len, body) SELECT * FROM unnest($1, $2, $3, $4, $5)";
        conn.execute(sql, &params).await?;
        Ok(())
    }
}

/// Rows of a step in the tail of the worker that holds the chat, in order. To be read in one snapshot with `drafts`.
pub(crate) async fn unfiled(conn: &Conn, worker: Option<i64>, no: i64) -> Result<Vec<Row>, DbFault> {
    let sql = "
        SELECT body FROM tail WHERE worker = $1 AND $2 = ANY (nos)
        AND batch > coalesce((SELECT filed FROM workers WHERE id = $1), 0) ORDER BY batch";
    conn.query(sql, &[(&worker, Type::INT8), (&no, Type::INT8)]).await
}

/// The appends to a step of a chat among what [`unfiled`] found.
pub(crate) fn appends(rows: &[Row], no: i64, step: StepId) -> Result<Vec<bundle::Entry<'_>>, DbFault> {
    let mut appends = Vec::new();
    for row in rows {
        let is_its = |entry: &bundle::Entry<'_>| (entry.head.chat, entry.head.step) == (no, step);
        appends.extend(bundle::parse(text(row, "body")?)?.into_iter().filter(is_its));
    }
    Ok(appends)
}

/// Where the newest of some appends ends.
pub(crate) fn end_of(appends: &[bundle::Entry<'_>]) -> Result<Option<Seq>, BadShape> {
    let Some(newest) = appends.last() else { return Ok(None) };
    Ok(Some(Seq(newest.head.first.0 + newest.rows()?.count() - 1)))
}
