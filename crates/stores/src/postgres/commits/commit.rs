//! Writing one change whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use everturn_core::budget::{BudgetUse, Day};
use everturn_core::chat::Chat;
use everturn_core::fact::Fact;
use everturn_core::ids::{Fence, Version};
use tokio_postgres::types::Type;

use crate::call_log::{self, Entry};
use crate::postgres::ChatLock;
use crate::postgres::Inner;
use crate::postgres::connection::columns::{ChatColumns, big, count, id_bytes, put_bytes};
use crate::postgres::connection::pool::{Conn, Param, TxMode};
use crate::postgres::connection::retry::DbFault;
use crate::postgres::leases::cache::ChatCache;
use crate::postgres::notify::channel::Urgency;
use crate::store::{AppendRight, Hint, WriteError};
use crate::tables::{self, CommitRows};

/// How many rows count what an owner used on a day.
const USED_SHARDS: u8 = 16;

/// Everything that a commit writes, prepared before the transaction.
struct PreparedCommit {
    fence: i64,
    worker: i64,
    before: i64,
    chat: Arc<Chat>,
    columns: ChatColumns,
    split: CommitRows,
    used: BTreeMap<Day, BudgetUse>,
    /// The number of the first attempt, if there is one.
    attempt: i64,
    entries: Vec<Line>,
    closes_step: bool,
}

/// An owned entry of the call log.
enum Line {
    Started { step: i64, ordinal: i32, tool: Vec<u8>, effect: &'static str, at: i64 },
    Ended { step: i64, ordinal: i32, verdict: &'static str, at: i64 },
}

impl From<Entry<'_>> for Line {
    fn from(entry: Entry<'_>) -> Self {
        match entry {
            Entry::Started { uid, tool, effect, at } => Self::Started {
                step: big(uid.step.0),
                ordinal: uid.ordinal.into(),
                tool: tool.as_bytes().to_vec(),
                effect: tables::effect_word(effect),
                at: at.0,
            },
            Entry::Ended { uid, verdict, at } => Self::Ended {
                step: big(uid.step.0),
                ordinal: uid.ordinal.into(),
                verdict: tables::verdict_word(verdict),
                at: at.0,
            },
        }
    }
}

impl PreparedCommit {
    fn new(before: &Chat, facts: &[Fact], fence: Fence, worker: i64) -> Self {
        let mut chat = before.clone();
        chat.apply(facts); // A move that is not in the table panics here, before anything has changed.
        Self {
            fence: big(fence.0),
            worker,
            before: big(before.version.0),
            columns: ChatColumns::from(&chat),
            closes_step: before.step < chat.step,
            chat: Arc::new(chat),
            split: CommitRows::of(facts),
            used: tables::used(before, facts),
            attempt: big(before.totals.attempts) + 1,
            entries: call_log::entries(before, facts).map(Line::from).collect(),
        }
    }
}

/// How a try ended.
enum Tried {
    Done,
    /// The chat has another version than expected.
    Differs,
}

impl Inner {
    pub(crate) async fn commit(
        self: Arc<Self>,
        _turn: ChatLock,
        right: AppendRight,
        facts: Vec<Fact>,
    ) -> Result<Version, WriteError> {
        let cache = self.caches.at(right.chat);
        let worker = self.state().current();
        let (true, Some(worker)) = (cache.is_open_to(right, worker), worker) else {
            return Err(self.refusal(right.chat).await);
        };
        let known = cache.held().as_ref().and_then(|held| held.chat.clone());
        let before = match known {
            Some(chat) => chat,
            None => match self.chat_under(right, worker).await? {
                Some(chat) => chat,
                None => return Err(shut_out(&cache, right)),
            },
        };
        let commit = PreparedCommit::new(&before, &facts, right.fence, worker);
        let written = self.write(&cache, right, &commit).await;
        if matches!(written, Err(WriteError::Store(_))) {
            cache.clear(right.fence); // It may still be applied. Acquiring the chat again waits for that, or prevents it.
        }
        written
    }

    async fn write(
        &self,
        cache: &ChatCache,
        right: AppendRight,
        commit: &PreparedCommit,
    ) -> Result<Version, WriteError> {
        let mut retry = self.reads.retry();
        loop {
            let fault = match self.try_commit(commit).await {
                Ok(Tried::Done) => break,
                Ok(Tried::Differs) => None,
                Err(fault) => Some(fault),
            };
            if let Some(fault) = fault {
                retry.wait(fault).await?;
            }
            // No other process commits under our fence: one more commit than before is this one, with its answer lost.
            match self.version_under(right, commit.worker).await {
                Ok(Some(version)) if version == commit.columns.version => break,
                Ok(Some(version)) if version == commit.before => {}
                Ok(_) => return Err(shut_out(cache, right)),
                Err(fault) => retry.wait(fault).await?,
            }
        }
        if let Some(held) = cache.held().as_mut().filter(|held| held.fence == right.fence) {
            held.committed(commit.chat.clone());
            if commit.closes_step {
                self.trim(held.no, commit.chat.step);
            }
        }
        self.tell(Hint::News(right.chat), Urgency::Now);
        Ok(commit.chat.version)
    }

    async fn version_under(&self, right: AppendRight, worker: i64) -> Result<Option<i64>, DbFault> {
        let (id, fence) = (id_bytes(right.chat), big(right.fence.0));
        let sql = "SELECT version FROM chats WHERE id = $1 AND fence = $2 AND worker = $3";
        let params: [Param<'_>; 3] = [(&&id[..], Type::BYTEA), (&fence, Type::INT8), (&worker, Type::INT8)];
        let rows = self.reads.query_once(TxMode::Read, sql, &params).await?;
        Ok(rows.first().map(|row| count(row, "version") as i64))
    }

    async fn try_commit(&self, commit: &PreparedCommit) -> Result<Tried, DbFault> {
        let conn = self.reads.pool.conn().await?;
        let (_, updated) = tokio::try_join!(conn.begin(TxMode::Write), update_chat(&conn, commit))?;
        if updated == 0 {
            conn.rollback().await?;
            return Ok(Tried::Differs);
        }
        let mut texts: Vec<_> =
            commit.split.messages.iter().map(|said| (commit.chat.id, &said.body.blobs[..])).collect();
        texts.push((commit.chat.id, &commit.columns.body.blobs));
        tokio::try_join!(
            put_bytes(&conn, &texts),
            write_messages(&conn, commit),
            write_attempts(&conn, commit),
            write_ledger(&conn, commit),
            write_outcomes(&conn, commit),
            write_used(&conn, commit),
            write_used_below(&conn, commit),
        )?;
        conn.commit().await?;
        Ok(Tried::Done)
    }
}

fn shut_out(cache: &ChatCache, right: AppendRight) -> WriteError {
    cache.clear(right.fence);
    WriteError::Fenced
}

async fn update_chat(conn: &Conn, commit: &PreparedCommit) -> Result<u64, DbFault> {
    let sql = "
        UPDATE chats SET title = $5, searchable = $6, status = $7, archived = $8, busy = $9, touched = $10, version = $11,
            step = $12, obeyed = $13, not_before = $14, body = $15
        WHERE id = $1 AND fence = $2 AND worker = $3 AND version = $4";
    let columns = &commit.columns;
    let params: [Param<'_>; 15] = [
        (&&columns.id[..], Type::BYTEA),
        (&commit.fence, Type::INT8),
        (&commit.worker, Type::INT8),
        (&commit.before, Type::INT8),
        (&columns.title, Type::BYTEA),
        (&columns.searchable, Type::BYTEA),
        (&columns.status, Type::TEXT),
        (&columns.archived, Type::BOOL),
        (&columns.busy, Type::BOOL),
        (&columns.touched, Type::INT8),
        (&columns.version, Type::INT8),
        (&columns.step, Type::INT8),
        (&columns.obeyed, Type::INT8),
        (&columns.not_before, Type::INT8),
        (&columns.body.json, Type::TEXT),
    ];
    conn.execute(sql, &params).await
}

async fn write_messages(conn: &Conn, commit: &PreparedCommit) -> Result<(), DbFault> {
    let id = &commit.columns.id[..];
    if let Some(from) = commit.split.gone {
        let from = big(from.0);
        let sql = "UPDATE messages SET gone = $2 WHERE chat = $1 AND id >= $3 AND gone IS NULL";
        let params: [Param<'_>; 3] = [(&id, Type::BYTEA), (&commit.columns.version, Type::INT8), (&from, Type::INT8)];
        conn.execute(sql, &params).await?;
        let sql = "DELETE FROM spoken WHERE chat = $1 AND id >= $2";
        conn.execute(sql, &[(&id, Type::BYTEA), (&from, Type::INT8)]).await?;
    }
    if commit.split.messages.is_empty() {
        return Ok(());
    }
    let said = &commit.split.messages;
    let ids: Vec<i64> = said.iter().map(|said| big(said.id.0)).collect();
    let kinds: Vec<&str> = said.iter().map(|said| said.kind).collect();
    let bodies: Vec<&str> = said.iter().map(|said| said.body.json.as_str()).collect();
    let sql = "INSERT INTO messages (chat, version, id, kind, body) SELECT $1, $2, * FROM unnest($3, $4, $5)";
    let params: [Param<'_>; 5] = [
        (&id, Type::BYTEA),
        (&commit.columns.version, Type::INT8),
        (&ids, Type::INT8_ARRAY),
        (&kinds, Type::TEXT_ARRAY),
        (&bodies, Type::TEXT_ARRAY),
    ];
    conn.execute(sql, &params).await?;
    let spoken = said.iter().filter_map(|said| Some((big(said.id.0), said.words.as_deref()?)));
    let (ids, words): (Vec<i64>, Vec<&[u8]>) = spoken.unzip();
    if !ids.is_empty() {
        let sql = "INSERT INTO spoken (chat, id, words) SELECT $1, * FROM unnest($2, $3)";
        let params: [Param<'_>; 3] = [(&id, Type::BYTEA), (&ids, Type::INT8_ARRAY), (&words, Type::BYTEA_ARRAY)];
        conn.execute(sql, &params).await?;
    }
    Ok(())
}

async fn write_attempts(conn: &Conn, commit: &PreparedCommit) -> Result<(), DbFault> {
    let bodies = &commit.split.attempts;
    if bodies.is_empty() {
        return Ok(());
    }
    let numbers: Vec<i64> = (commit.attempt..).take(bodies.len()).collect();
    let sql = "INSERT INTO attempts (chat, number, body) SELECT $1, * FROM unnest($2, $3)";
    let params: [Param<'_>; 3] =
        [(&&commit.columns.id[..], Type::BYTEA), (&numbers, Type::INT8_ARRAY), (bodies, Type::TEXT_ARRAY)];
    conn.execute(sql, &params).await?;
    Ok(())
}

async fn write_ledger(conn: &Conn, commit: &PreparedCommit) -> Result<(), DbFault> {
    let id = &commit.columns.id[..];
    for line in &commit.entries {
        match line {
            Line::Started { step, ordinal, tool, effect, at } => {
                let sql = "
                    INSERT INTO calls (chat, step, ordinal, tool, effect, started, starts)
                    VALUES ($1, $2, $3, $4, $5, $6, 1)
                    ON CONFLICT (chat, step, ordinal)
                    DO UPDATE SET started = excluded.started, starts = calls.starts + 1";
                let params: [Param<'_>; 6] = [
                    (&id, Type::BYTEA),
                    (step, Type::INT8),
                    (ordinal, Type::INT4),
                    (tool, Type::BYTEA),
                    (effect, Type::TEXT),
                    (at, Type::INT8),
                ];
                conn.execute(sql, &params).await?;
            }
            Line::Ended { step, ordinal, verdict, at } => {
                let sql = "UPDATE calls SET ended = $4, verdict = $5 WHERE chat = $1 AND step = $2 AND ordinal = $3";
                let params: [Param<'_>; 5] = [
                    (&id, Type::BYTEA),
                    (step, Type::INT8),
                    (ordinal, Type::INT4),
                    (at, Type::INT8),
                    (verdict, Type::TEXT),
                ];
                conn.execute(sql, &params).await?;
            }
        }
    }
    Ok(())
}

/// Counts what was used for the chats above. One that was deleted counts no more.
async fn write_used_below(conn: &Conn, commit: &PreparedCommit) -> Result<(), DbFault> {
    for (above, used) in tables::used_below(&commit.chat, &commit.used) {
        let sql = "
            INSERT INTO used_below (chat, steps, time_ms, alive_ms, tokens, cost)
            SELECT $1, $2, $3, $4, $5, $6 WHERE EXISTS (SELECT 1 FROM chats WHERE id = $1)
            ON CONFLICT (chat) DO UPDATE SET steps = used_below.steps + excluded.steps,
            time_ms = used_below.time_ms + excluded.time_ms, alive_ms = used_below.alive_ms + excluded.alive_ms,
            tokens = used_below.tokens + excluded.tokens, cost = used_below.cost + excluded.cost";
        let id = id_bytes(above);
        let (steps, time_ms) = (big(used.steps), big(tables::millis(used.time)));
        let (alive_ms, tokens, cost) = (big(tables::millis(used.alive)), big(used.tokens), big(used.cost.0));
        let params: [Param<'_>; 6] = [
            (&&id[..], Type::BYTEA),
            (&steps, Type::INT8),
            (&time_ms, Type::INT8),
            (&alive_ms, Type::INT8),
            (&tokens, Type::INT8),
            (&cost, Type::INT8),
        ];
        conn.execute(sql, &params).await?;
    }
    Ok(())
}

async fn write_used(conn: &Conn, commit: &PreparedCommit) -> Result<(), DbFault> {
    let shard = i16::from(commit.columns.id[15] % USED_SHARDS);
    for (day, used) in &commit.used {
        let sql = "
            INSERT INTO used (owner, day, shard, steps, time_ms, tokens, cost, alive_ms)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
            ON CONFLICT (owner, day, shard)
            DO UPDATE SET steps = used.steps + excluded.steps, time_ms = used.time_ms + excluded.time_ms,
            tokens = used.tokens + excluded.tokens, cost = used.cost + excluded.cost,
            alive_ms = used.alive_ms + excluded.alive_ms";
        let (steps, time_ms) = (big(used.steps), big(tables::millis(used.time)));
        let (tokens, cost, alive_ms) = (big(used.tokens), big(used.cost.0), big(tables::millis(used.alive)));
        let params: [Param<'_>; 8] = [
            (&commit.columns.owner, Type::BYTEA),
            (&day.0, Type::INT8),
            (&shard, Type::INT2),
            (&steps, Type::INT8),
            (&time_ms, Type::INT8),
            (&tokens, Type::INT8),
            (&cost, Type::INT8),
            (&alive_ms, Type::INT8),
        ];
        conn.execute(sql, &params).await?;
    }
    Ok(())
}

async fn write_outcomes(conn: &Conn, commit: &PreparedCommit) -> Result<(), DbFault> {
    if commit.split.outcomes.is_empty() {
        return Ok(());
    }
    let (seqs, bodies): (Vec<i64>, Vec<&str>) =
        commit.split.outcomes.iter().map(|(seq, body)| (big(seq.0), body.as_str())).unzip();
    let sql = "
        UPDATE inbox SET outcome = new.outcome FROM unnest($2, $3) AS new (seq, outcome)
        WHERE inbox.chat = $1 AND inbox.seq = new.seq";
    let params: [Param<'_>; 3] =
        [(&&commit.columns.id[..], Type::BYTEA), (&seqs, Type::INT8_ARRAY), (&bodies, Type::TEXT_ARRAY)];
    conn.execute(sql, &params).await?;
    Ok(())
}
