//! A change, written whole.

use std::sync::Arc;

use everturn_core::budget::{BudgetUse, Day};
use everturn_core::fact::Fact;
use everturn_core::ids::{ChatId, Seq, Version};
use everturn_core::view::JournalRow;
use rusqlite::params;

use crate::call_log::{self, Entry};
use crate::shape::bundle;
use crate::shape::rows::Piece;
use crate::sqlite::columns::{id, number};
use crate::sqlite::error::TxError;
use crate::sqlite::journal::open_drafts::TxEffect;
use crate::sqlite::writer::tx::WriteTx;
use crate::store::{AppendRight, WriteError};
use crate::tables::{self, CommitRows, MessageRow};

impl WriteTx<'_> {
    /// Adds rows to the journal of the open step.
    pub(crate) fn append(
        &mut self,
        right: AppendRight,
        rows: &Arc<[JournalRow]>,
        piece: &Piece,
    ) -> Result<(), TxError<WriteError>> {
        let cached = self.held(right)?;
        let next = cached.seq.next();
        let fits = |(i, row): (usize, &JournalRow)| row.step == cached.chat.step && row.seq.0 == next.0 + i as u64;
        if !rows.iter().enumerate().all(fits) {
            return Err(WriteError::OutOfPlace.into());
        }
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(()) };
        cached.seq = last.seq;
        let (number, version) = (cached.number, cached.chat.version);
        self.keep(right.chat, &piece.blobs)?;
        let head = bundle::Head { chat: number, step: first.step, first: first.seq };
        let place = self.log(head, piece.at, &piece.json)?;
        self.effects.push(TxEffect::Appended { chat: right.chat, number, version, place, rows: rows.clone() });
        Ok(())
    }

    /// Writes one change whole.
    pub(crate) fn commit(
        &mut self,
        right: AppendRight,
        facts: &[Fact],
        split: &CommitRows,
    ) -> Result<Version, TxError<WriteError>> {
        let cached = self.held(right)?;
        let before = cached.chat.clone();
        let mut chat = before.clone();
        chat.apply(facts); // A move that is not in the table panics here, before anything has changed.
        let submitted = cached.submitted;
        if chat.step != before.step {
            cached.seq = Seq(0);
        }
        cached.chat.clone_from(&chat);
        if let Some(gone) = split.gone {
            let sql = "UPDATE messages SET gone = ?3 WHERE chat = ?1 AND id >= ?2 AND gone IS NULL";
            let update = self.connection.prepare_cached(sql);
            update?.execute(params![id(right.chat), number(gone.0)?, number(chat.version.0)?])?;
            let forget = self.connection.prepare_cached("DELETE FROM spoken WHERE chat = ?1 AND id >= ?2");
            forget?.execute(params![id(right.chat), number(gone.0)?])?;
        }
        for message in &split.messages {
            self.say(right.chat, chat.version, message)?;
        }
        for entry in call_log::entries(&before, facts) {
            self.note(right.chat, entry)?;
        }
        for body in &split.attempts {
            let insert = self.connection.prepare_cached("INSERT INTO attempts (chat, body) VALUES (?1, ?2)");
            insert?.execute(params![id(right.chat), body])?;
        }
        for (seq, outcome) in &split.outcomes {
            let update = self.connection.prepare_cached("UPDATE inbox SET outcome = ?3 WHERE chat = ?1 AND seq = ?2");
            update?.execute(params![id(right.chat), number(seq.0)?, outcome])?;
        }
        let used = tables::used(&before, facts);
        for (above, used) in tables::used_below(&before, &used) {
            self.count_below(above, used)?;
        }
        for (day, used) in used {
            self.count(&chat.owner, day, used)?;
        }
        self.put(&chat, submitted)?;
        self.effects.push(TxEffect::Committed { chat: right.chat, version: chat.version, step: chat.step });
        Ok(chat.version)
    }

    fn say(&self, chat: ChatId, version: Version, message: &MessageRow) -> Result<(), TxError<WriteError>> {
        self.keep(chat, &message.body.blobs)?;
        let sql = "INSERT INTO messages (chat, id, version, kind, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        let row = params![id(chat), number(message.id.0)?, number(version.0)?, message.kind, message.body.json];
        self.connection.prepare_cached(sql)?.execute(row)?;
        if let Some(words) = &message.words {
            let insert = self.connection.prepare_cached("INSERT INTO spoken (chat, id, words) VALUES (?1, ?2, ?3)");
            insert?.execute(params![id(chat), number(message.id.0)?, words])?;
        }
        Ok(())
    }

    fn count(&self, owner: &str, day: Day, used: BudgetUse) -> Result<(), TxError<WriteError>> {
        let sql = "INSERT INTO used (owner, day, steps, time_ms, tokens, cost, alive_ms) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
            ON CONFLICT DO UPDATE SET steps = steps + excluded.steps, time_ms = time_ms + excluded.time_ms, \
            tokens = tokens + excluded.tokens, cost = cost + excluded.cost, alive_ms = alive_ms + excluded.alive_ms";
        let BudgetUse { steps, time, alive, tokens, cost } = used;
        let (steps, time, alive) = (number(steps)?, number(tables::millis(time))?, number(tables::millis(alive))?);
        let row = params![owner.as_bytes(), day.0, steps, time, number(tokens)?, number(cost.0)?, alive];
        self.connection.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    fn count_below(&self, chat: ChatId, used: BudgetUse) -> Result<(), TxError<WriteError>> {
        // A chat above that was deleted counts no more: its chats below are about to be deleted too.
        let sql = "INSERT INTO used_below (chat, steps, time_ms, alive_ms, tokens, cost) \
            SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS (SELECT 1 FROM chats WHERE id = ?1) \
            ON CONFLICT DO UPDATE SET steps = steps + excluded.steps, time_ms = time_ms + excluded.time_ms, \
            tokens = tokens + excluded.tokens, cost = cost + excluded.cost, alive_ms = alive_ms + excluded.alive_ms";
        let BudgetUse { steps, time, alive, tokens, cost } = used;
        let (steps, time, alive) = (number(steps)?, number(tables::millis(time))?, number(tables::millis(alive))?);
        let row = params![id(chat), steps, time, alive, number(tokens)?, number(cost.0)?];
        self.connection.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    fn note(&self, chat: ChatId, entry: Entry<'_>) -> Result<(), TxError<WriteError>> {
        match entry {
            Entry::Started { uid, tool, effect, at } => {
                let sql = "INSERT INTO calls (chat, step, ordinal, tool, effect, started, starts) \
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1) \
                    ON CONFLICT DO UPDATE SET started = excluded.started, starts = starts + 1";
                let (effect, tool) = (tables::effect_word(effect), tool.as_bytes());
                let row = params![id(chat), number(uid.step.0)?, uid.ordinal, tool, effect, at.0];
                self.connection.prepare_cached(sql)?.execute(row)?;
            }
            Entry::Ended { uid, verdict, at } => {
                let sql = "UPDATE calls SET ended = ?4, verdict = ?5 WHERE chat = ?1 AND step = ?2 AND ordinal = ?3";
                let row = params![id(chat), number(uid.step.0)?, uid.ordinal, at.0, tables::verdict_word(verdict)];
                self.connection.prepare_cached(sql)?.execute(row)?;
            }
        }
        Ok(())
    }
}
