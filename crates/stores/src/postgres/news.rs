//! What happened after a cursor.

use std::sync::Arc;

use everturn_core::chat::Chat;
use everturn_core::ids::{ChatId, MessageId, Seq, StepId, Version};
use everturn_core::view::{Cursor, Event, Row, Snapshot, Standing};
use tokio_postgres::types::Type;

use super::Inner;
use super::cells::{big, count, id_bytes};
use super::fault::Fault;
use super::link::{Conn, Mode, Param};
use super::read::{chat_of, journal, messages, page};
use crate::memory::is_usable;
use crate::sql::{PAGE_LEN_MAX, draft_of};
use crate::store::{News, StoreError};

impl Inner {
    pub(super) async fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> Result<Option<News>, StoreError> {
        if let Some(seen) = cursor
            && let Some(news) = self.desks.at(chat).since(seen, self.life().current())
        {
            return Ok(news);
        }
        let mut patience = self.patience();
        loop {
            match self.try_since(chat, cursor).await {
                Ok(news) => return Ok(news),
                Err(fault) => patience.wait(fault).await?,
            }
        }
    }

    async fn try_since(&self, chat: ChatId, cursor: Option<Cursor>) -> Result<Option<News>, Fault> {
        let conn = self.link.conn().await?;
        let id = id_bytes(chat);
        let sql = "SELECT version, step, no, body FROM chats WHERE id = $1";
        let params: [Param<'_>; 1] = [(&&id[..], Type::BYTEA)];
        let (_, row) = tokio::try_join!(conn.begin(Mode::Read), conn.query_opt(sql, &params))?;
        let Some(row) = row else {
            conn.rollback().await?;
            return Err(StoreError::NoSuchChat.into());
        };
        let (version, step) = (Version(count(&row, "version")), StepId(count(&row, "step")));
        let place = (row.get("no"), step);
        // Those who saw something of this draft need the rest of it, the others all.
        let seen = cursor.filter(|seen| seen.step == step).map_or(Seq(0), |seen| seen.seq);
        let mut rows = journal(&conn, chat, place, seen).await?;
        let now = Cursor { version, step, seq: rows.last().map_or(Seq(0), |row| row.seq) };
        if cursor == Some(now) {
            conn.commit().await?;
            return Ok(None);
        }
        let events = match cursor.filter(|seen| is_usable(*seen, now)) {
            None => {
                if seen > Seq(0) {
                    rows = journal(&conn, chat, place, Seq(0)).await?;
                }
                let chat = chat_of(&conn, chat, row.get("body")).await?;
                vec![Event::Reset(Box::new(snapshot(&conn, chat, &rows).await?))]
            }
            Some(before) => {
                let mut events = Vec::new();
                if before.version < version {
                    let chat = chat_of(&conn, chat, row.get("body")).await?;
                    commits_since(&conn, &chat, before.version, &mut events).await?;
                }
                events.extend(rows.into_iter().filter(|row| row.seq > seen).map(Event::Delta));
                events
            }
        };
        conn.commit().await?;
        Ok(Some(News { cursor: now, events }))
    }
}

async fn commits_since(conn: &Conn, chat: &Chat, seen: Version, events: &mut Vec<Event>) -> Result<(), Fault> {
    let (id, seen) = (id_bytes(chat.id), big(seen.0));
    let params: [Param<'_>; 2] = [(&&id[..], Type::BYTEA), (&seen, Type::INT8)];
    let gone = "SELECT min(id) AS id FROM messages WHERE chat = $1 AND gone > $2";
    let said = "SELECT id, body FROM messages WHERE chat = $1 AND version > $2 AND gone IS NULL ORDER BY version, id";
    let (gone, said) = tokio::try_join!(conn.query_opt(gone, &params), conn.query(said, &params))?;
    let from = gone.and_then(|row| row.get::<_, Option<i64>>("id"));
    events.extend(from.map(|from| Event::Rewound(MessageId(from.unsigned_abs()))));
    events.extend(messages(conn, chat.id, &said).await?.into_iter().map(Event::Message));
    events.push(Event::Standing(Box::new(Standing::from(chat))));
    Ok(())
}

async fn snapshot(conn: &Conn, chat: Chat, rows: &[Row]) -> Result<Snapshot, Fault> {
    let newest = page(conn, chat.id, i64::MAX, PAGE_LEN_MAX as i64).await?;
    let messages: Vec<Arc<_>> = messages(conn, chat.id, &newest).await?;
    Ok(Snapshot { messages, standing: Standing::from(&chat), draft: draft_of(rows)? })
}
