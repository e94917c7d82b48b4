//! Writing one change whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use everturn_core::budget::{BudgetUse, Day};
use everturn_core::chat::Chat;
use everturn_core::fact::Fact;
use everturn_core::ids::{Fence, Version};
use tokio_postgres::types::Type;

use crate::call_log::{self, Entry};
use crate::postgres::Inner;
use crate::postgres::Turn;
use crate::postgres::connection::columns::{ChatCells, big, count, id_bytes, put_bytes};
use crate::postgres::connection::pool::{Conn, Mode, Param};
use crate::postgres::connection::retry::Fault;
use crate::postgres::leases::cache::Desk;
use crate::postgres::notify::channel::Haste;
use crate::store::{AppendRight, Hint, WriteError};
use crate::tables::{self, Split};

/// How many rows count what an owner used on a day.
const USED_SHARDS: u8 = 16;

/// What a commit writes, made before anything is.
struct Sheet {
    fence: i64,
    worker: i64,
    before: i64,
    chat: Arc<Chat>,
    cells: ChatCells,
    split: Split,
    used: BTreeMap<Day, BudgetUse>,
    /// The number of the first attempt, if there is one.
    attempt: i64,
    entries: Vec<Line>,
    closes_step: bool,
}

/// A line of the ledger, with nothing borrowed.
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

impl Sheet {
    fn new(before: &Chat, facts: &[Fact], fence: Fence, worker: i64) -> Self {
        let mut chat = before.clone();
        chat.apply(facts); // A move that is not in the table panics here, before anything has changed.
        Self {
            fence: big(fence.0),
            worker,
            before: big(before.version.0),
            cells: ChatCells::from(&chat),
            closes_step: before.step < chat.step,
            chat: Arc::new(chat),
            split: Split::of(facts),
            used: tables::used(before, facts),
            attempt: big(before.totals.attempts) + 1,
            entries: call_log::entries(before, facts).map(Line::from).collect(),
        }
    }
}

/// How a try ended.
enum Tried {
    Done,
    /// The chat is not as it was thought to be.
    Differs,
}

impl Inner {
    pub(crate) async fn commit(
        self: Arc<Self>,
        _turn: Turn,
        pen: AppendRight,
        facts: Vec<Fact>,
    ) -> Result<Version, WriteError> {
        let desk = self.desks.at(pen.chat);
        let worker = self.life().current();
        let (true, Some(worker)) = (desk.is_open_to(pen, worker), worker) else {
            return Err(self.why_not(pen.chat).await);
        };
        let known = desk.held().as_ref().and_then(|held| held.chat.clone());
        let before = match known {
            Some(chat) => chat,
            None => match self.chat_under(pen, worker).await? {
                Some(chat) => chat,
                None => return Err(shut_out(&desk, pen)),
            },
        };
        let sheet = Sheet::new(&before, &facts, pen.fence, worker);
        let written = self.write(&desk, pen, &sheet).await;
        if matches!(written, Err(WriteError::Store(_))) {
            desk.clear(pen.fence); // It may still happen. Taking the chat anew waits for that, or prevents it.
        }
        written
    }

    async fn write(&self, desk: &Desk, pen: AppendRight, sheet: &Sheet) -> Result<Version, WriteError> {
        let mut patience = self.patience();
        loop {
            let fault = match self.try_commit(sheet).await {
                Ok(Tried::Done) => break,
                Ok(Tried::Differs) => None,
                Err(fault) => Some(fault),
            };
            if let Some(fault) = fault {
                patience.wait(fault).await?;
            }
            // Under our fence nobody else commits: one more commit than before is this one, whose answer was lost.
            match self.version_under(pen, sheet.worker).await {
                Ok(Some(version)) if version == sheet.cells.version => break,
                Ok(Some(version)) if version == sheet.before => {}
                Ok(_) => return Err(shut_out(desk, pen)),
                Err(fault) => patience.wait(fault).await?,
            }
        }
        if let Some(held) = desk.held().as_mut().filter(|held| held.fence == pen.fence) {
            held.committed(sheet.chat.clone());
            if sheet.closes_step {
                self.trim(held.no, sheet.chat.step);
            }
        }
        self.tell(Hint::News(pen.chat), Haste::Now);
        Ok(sheet.chat.version)
    }

    async fn version_under(&self, pen: AppendRight, worker: i64) -> Result<Option<i64>, Fault> {
        let (id, fence) = (id_bytes(pen.chat), big(pen.fence.0));
        let sql = "SELECT version FROM chats WHERE id = $1 AND fence = $2 AND worker = $3";
        let params: [Param<'_>; 3] = [(&&id[..], Type::BYTEA), (&fence, Type::INT8), (&worker, Type::INT8)];
        let rows = self.query_once(Mode::Read, sql, &params).await?;
        Ok(rows.first().map(|row| count(row, "version") as i64))
    }

    async fn try_commit(&self, sheet: &Sheet) -> Result<Tried, Fault> {
        let conn = self.link.conn().await?;
        let (_, updated) = tokio::try_join!(conn.begin(Mode::Write), update_chat(&conn, sheet))?;
        if updated == 0 {
            conn.rollback().await?;
            return Ok(Tried::Differs);
        }
        let mut texts: Vec<_> = sheet.split.messages.iter().map(|said| (sheet.chat.id, &said.body.blobs[..])).collect();
        texts.push((sheet.chat.id, &sheet.cells.body.blobs));
        tokio::try_join!(
            put_bytes(&conn, &texts),
            write_messages(&conn, sheet),
            write_attempts(&conn, sheet),
            write_ledger(&conn, sheet),
            write_outcomes(&conn, sheet),
            write_used(&conn, sheet),
        )?;
        conn.commit().await?;
        Ok(Tried::Done)
    }
}

fn shut_out(desk: &Desk, pen: AppendRight) -> WriteError {
    desk.clear(pen.fence);
    WriteError::Fenced
}

async fn update_chat(conn: &Conn, sheet: &Sheet) -> Result<u64, Fault> {
    let sql = "
        UPDATE chats SET title = $5, searchable = $6, status = $7, archived = $8, busy = $9, touched = $10, version = $11,
            step = $12, obeyed = $13, not_before = $14, body = $15
        WHERE id = $1 AND fence = $2 AND worker = $3 AND version = $4";
    let cells = &sheet.cells;
    let params: [Param<'_>; 15] = [
        (&&cells.id[..], Type::BYTEA),
        (&sheet.fence, Type::INT8),
        (&sheet.worker, Type::INT8),
        (&sheet.before, Type::INT8),
        (&cells.title, Type::BYTEA),
        (&cells.searchable, Type::BYTEA),
        (&cells.status, Type::TEXT),
        (&cells.archived, Type::BOOL),
        (&cells.busy, Type::BOOL),
        (&cells.touched, Type::INT8),
        (&cells.version, Type::INT8),
        (&cells.step, Type::INT8),
        (&cells.obeyed, Type::INT8),
        (&cells.not_before, Type::INT8),
        (&cells.body.json, Type::TEXT),
    ];
    conn.execute(sql, &params).await
}

async fn write_messages(conn: &Conn, sheet: &Sheet) -> Result<(), Fault> {
    let id = &sheet.cells.id[..];
    if let Some(from) = sheet.split.gone {
        let from = big(from.0);
        let sql = "UPDATE messages SET gone = $2 WHERE chat = $1 AND id >= $3 AND gone IS NULL";
        let params: [Param<'_>; 3] = [(&id, Type::BYTEA), (&sheet.cells.version, Type::INT8), (&from, Type::INT8)];
        conn.execute(sql, &params).await?;
        let sql = "DELETE FROM spoken WHERE chat = $1 AND id >= $2";
        conn.execute(sql, &[(&id, Type::BYTEA), (&from, Type::INT8)]).await?;
    }
    if sheet.split.messages.is_empty() {
        return Ok(());
    }
    let said = &sheet.split.messages;
    let ids: Vec<i64> = said.iter().map(|said| big(said.id.0)).collect();
    let kinds: Vec<&str> = said.iter().map(|said| said.kind).collect();
    let bodies: Vec<&str> = said.iter().map(|said| said.body.json.as_str()).collect();
    let sql = "INSERT INTO messages (chat, version, id, kind, body) SELECT $1, $2, * FROM unnest($3, $4, $5)";
    let params: [Param<'_>; 5] = [
        (&id, Type::BYTEA),
        (&sheet.cells.version, Type::INT8),
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

async fn write_attempts(conn: &Conn, sheet: &Sheet) -> Result<(), Fault> {
    let bodies = &sheet.split.attempts;
    if bodies.is_empty() {
        return Ok(());
    }
    let numbers: Vec<i64> = (sheet.attempt..).take(bodies.len()).collect();
    let sql = "INSERT INTO attempts (chat, number, body) SELECT $1, * FROM unnest($2, $3)";
    let params: [Param<'_>; 3] =
        [(&&sheet.cells.id[..], Type::BYTEA), (&numbers, Type::INT8_ARRAY), (bodies, Type::TEXT_ARRAY)];
    conn.execute(sql, &params).await?;
    Ok(())
}

async fn write_ledger(conn: &Conn, sheet: &Sheet) -> Result<(), Fault> {
    let id = &sheet.cells.id[..];
    for line in &sheet.entries {
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

async fn write_used(conn: &Conn, sheet: &Sheet) -> Result<(), Fault> {
    let shard = i16::from(sheet.cells.id[15] % USED_SHARDS);
    for (day, used) in &sheet.used {
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
            (&sheet.cells.owner, Type::BYTEA),
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

async fn write_outcomes(conn: &Conn, sheet: &Sheet) -> Result<(), Fault> {
    if sheet.split.outcomes.is_empty() {
        return Ok(());
    }
    let (seqs, bodies): (Vec<i64>, Vec<&str>) =
        sheet.split.outcomes.iter().map(|(seq, body)| (big(seq.0), body.as_str())).unzip();
    let sql = "
        UPDATE inbox SET outcome = new.outcome FROM unnest($2, $3) AS new (seq, outcome)
        WHERE inbox.chat = $1 AND inbox.seq = new.seq";
    let params: [Param<'_>; 3] =
        [(&&sheet.cells.id[..], Type::BYTEA), (&seqs, Type::INT8_ARRAY), (&bodies, Type::TEXT_ARRAY)];
    conn.execute(sql, &params).await?;
    Ok(())
}
