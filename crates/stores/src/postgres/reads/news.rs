//! Events after a cursor.

use std::sync::Arc;

use everturn_core::ids::{ChatId, MessageId, Seq, StepId, Version};
use everturn_core::view::{Cursor, Event, JournalRow, Snapshot};
use tokio_postgres::types::Type;

use crate::memory::is_usable;
use crate::postgres::Inner;
use crate::postgres::commits::submit::pending;
use crate::postgres::connection::columns::{big, count, id_bytes, text};
use crate::postgres::connection::pool::{Conn, Param, TxMode};
use crate::postgres::connection::retry::DbFault;
use crate::postgres::reads::chat::{JournalPlace, chat_of, journal, messages, page};
use crate::store::{News, StoreError};
use crate::tables::{ChatWithInbox, Fetch, PAGE_LEN_MAX, PageBudget, draft_of};

impl Inner {
    /// What is known without asking the database; `None` if nothing is.
    pub(crate) fn cached_since(&self, chat: ChatId, cursor: Cursor) -> Option<Option<News>> {
        self.caches.at(chat).since(cursor, self.state().current())
    }

    pub(crate) async fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> Result<Option<News>, StoreError> {
        self.reads.retry().run(|| self.try_since(chat, cursor)).await
    }

    async fn try_since(&self, chat: ChatId, cursor: Option<Cursor>) -> Result<Option<News>, DbFault> {
        let conn = self.reads.watching.conn().await?;
        let id = id_bytes(chat);
        let sql = "SELECT version, step, no, worker, submitted, obeyed, body FROM chats WHERE id = $1";
        let params: [Param<'_>; 1] = [(&&id[..], Type::BYTEA)];
        let (_, row) = tokio::try_join!(conn.begin(TxMode::Read), conn.query_opt(sql, &params))?;
        let Some(row) = row else {
            conn.rollback().await?;
            return Err(StoreError::NoSuchChat.into());
        };
        let (version, step) = (Version(count(&row, "version")), StepId(count(&row, "step")));
        let place = JournalPlace { no: row.get("no"), step, worker: row.get("worker") };
        // A subscriber that saw part of this draft needs the rest, any other all of it.
        let seen = cursor.filter(|seen| seen.step == step).map_or(Seq(0), |seen| seen.seq);
        let mut rows = journal(&conn, chat, place, seen, Fetch::Lengths).await?;
        let now = Cursor { version, step, seq: rows.last().map_or(Seq(0), |row| row.seq) };
        if cursor == Some(now) {
            conn.commit().await?;
            return Ok(None);
        }
        let follows = cursor.filter(|seen| is_usable(*seen, now));
        let commits = match follows {
            Some(before) if before.version == version => Some(Vec::new()),
            Some(before) => {
                let shown = with_inbox(&conn, chat, &row).await?;
                match shown.chat.denies(before) {
                    true => None,
                    false => commits_since(&conn, &shown, before.version).await?,
                }
            }
            None => None,
        };
        let events = match commits {
            Some(mut events) => {
                events.extend(rows.into_iter().filter(|row| row.seq > seen).map(Event::Delta));
                events
            }
            None => {
                if seen > Seq(0) {
                    rows = journal(&conn, chat, place, Seq(0), Fetch::Lengths).await?;
                }
                let shown = with_inbox(&conn, chat, &row).await?;
                vec![Event::Reset(Box::new(snapshot(&conn, &shown, &rows).await?))]
            }
        };
        conn.commit().await?;
        Ok(Some(News { cursor: now, events }))
    }
}

/// The chat of a row with `submitted`, `obeyed` and `body`, with its inbox, which is read only if commands wait.
pub(crate) async fn with_inbox(conn: &Conn, chat: ChatId, row: &tokio_postgres::Row) -> Result<ChatWithInbox, DbFault> {
    let submitted = count(row, "submitted");
    let obeyed = count(row, "obeyed");
    let pending = if submitted > obeyed { pending(conn, chat, obeyed, Fetch::Lengths).await? } else { Vec::new() };
    Ok(ChatWithInbox { chat: chat_of(conn, chat, text(row, "body")?, Fetch::Lengths).await?, pending })
}

/// What was committed after `seen`; `None` if that is more than a page.
async fn commits_since(conn: &Conn, shown: &ChatWithInbox, seen: Version) -> Result<Option<Vec<Event>>, DbFault> {
    let chat = shown.chat.id;
    let (id, seen, len) = (id_bytes(chat), big(seen.0), PAGE_LEN_MAX as i64 + 1);
    let bytes = big(PageBudget::page().bytes_max() as u64);
    let params: [Param<'_>; 4] =
        [(&&id[..], Type::BYTEA), (&seen, Type::INT8), (&len, Type::INT8), (&bytes, Type::INT8)];
    let gone = "SELECT min(id) AS id FROM messages WHERE chat = $1 AND gone > $2";
    let said = "
        SELECT id, body, found FROM (
            SELECT *, sum(octet_length(body)) OVER (ORDER BY version, id) AS bytes, count(*) OVER () AS found FROM (
                SELECT id, body, version FROM messages WHERE chat = $1 AND version > $2 AND gone IS NULL
                ORDER BY version, id LIMIT $3
            ) AS missed
        ) AS page WHERE bytes <= $4 OR bytes = octet_length(body) ORDER BY version, id";
    let (gone, said) = tokio::try_join!(conn.query_opt(gone, &params[..2]), conn.query(said, &params))?;
    let found = said.first().map_or(0, |row| count(row, "found") as usize);
    if found > PAGE_LEN_MAX || said.len() < found {
        return Ok(None);
    }
    let from = gone.and_then(|row| row.get::<_, Option<i64>>("id"));
    let rewound = from.map(|from| Event::Rewound(MessageId(from.unsigned_abs())));
    let said = messages(conn, chat, &said, Fetch::Lengths).await?.into_iter().map(Event::Message);
    Ok(Some(rewound.into_iter().chain(said).chain([Event::Standing(Box::new(shown.standing()))]).collect()))
}

async fn snapshot(conn: &Conn, shown: &ChatWithInbox, rows: &[JournalRow]) -> Result<Snapshot, DbFault> {
    let newest = page(conn, shown.chat.id, i64::MAX, (PAGE_LEN_MAX, &PageBudget::page())).await?;
    let messages: Vec<Arc<_>> = messages(conn, shown.chat.id, &newest, Fetch::Lengths).await?;
    Ok(Snapshot { messages, standing: shown.standing(), draft: draft_of(rows)? })
}
