//! Reading. Everything that is read together is of one moment, and no more rows are read than are returned.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::budget::{BudgetUse, Day};
use everturn_core::chat::Chat;
use everturn_core::command::InboxCommand;
use everturn_core::cost::Micros;
use everturn_core::fact::AttemptRecord;
use everturn_core::ids::{CallUid, ChatId, InboxSeq, MessageId, Seq, StepId, Timestamp};
use everturn_core::message::Message;
use everturn_core::status::Status;
use everturn_core::view::{self, Standing};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::chat_snapshot::ChatSnapshot;
use crate::heading::{ChatQuery, Heading, SubAgentChats, searchable};
use crate::postgres::Inner;
use crate::postgres::commits::submit::pending;
use crate::postgres::connection::columns::{
    HEADING, big, bytes, count, damaged, heading, id_bytes, id_of, name, text, unreadable,
};
use crate::postgres::connection::pool::{Conn, ConnectionPool, Param, TxMode};
use crate::postgres::connection::retry::{DbFault, RetryWindow};
use crate::postgres::journal::filing;
use crate::postgres::lasting;
use crate::postgres::reads::news::with_inbox;
use crate::postgres::to_the_end;
use crate::search;
use crate::shape::{self, attempted, command, message, outcome, rows};
use crate::store::{AppendRight, CallRecord, CommandRef, Loaded, StoreError, Submitted, WriteError};
use crate::tables::{self, Fetch, ORPHANS_LEN_MAX, PageBudget};

/// The calls that were started in a chat; one row without a call if there are none, and none if there is no chat.
pub(crate) const CALLS: &str = "
    SELECT calls.step, ordinal, tool, effect, started, starts, ended, verdict
    FROM chats LEFT JOIN calls ON chat = id WHERE id = $1 ORDER BY calls.step, ordinal";

/// Everything that is read, over one pool for drivers and one for clients, so that a crowd of clients keeps no driver
/// waiting.
pub(crate) struct Reads {
    pub(crate) pool: Arc<ConnectionPool>,
    /// For requests and subscribers; the same pool if there are few connections.
    pub(crate) watching: Arc<ConnectionPool>,
    pub(crate) retry_max: Duration,
}

impl Reads {
    pub(crate) fn retry(&self) -> RetryWindow {
        RetryWindow::new(self.retry_max)
    }

    /// One statement in a transaction of its own.
    pub(crate) async fn query_once(&self, mode: TxMode, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, DbFault> {
        self.pool.query_once(mode, sql, params).await
    }

    /// One statement that reads for a driver, with retries.
    pub(crate) async fn read(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        self.read_over(&self.pool, sql, params).await
    }

    /// One statement that reads for a client, with retries.
    pub(crate) async fn look(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        self.read_over(&self.watching, sql, params).await
    }

    async fn read_over(&self, pool: &ConnectionPool, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        self.retry().run(|| pool.query_once(TxMode::Read, sql, params)).await
    }

    /// What a list says about a chat.
    pub(crate) async fn heading(&self, chat: ChatId) -> Result<Heading, StoreError> {
        let id = id_bytes(chat);
        let sql = format!("SELECT {HEADING} FROM chats WHERE id = $1");
        let rows = self.look(&sql, &[(&&id[..], Type::BYTEA)]).await?;
        heading(rows.first().ok_or(StoreError::NoSuchChat)?).map_err(lasting)
    }

    /// List entries of chats, most recently touched first. Chats that cannot be read are left out.
    pub(crate) async fn headings(&self, query: &ChatQuery) -> Result<Vec<Heading>, StoreError> {
        let mut headings = Vec::new();
        let mut rest = query.clone();
        loop {
            let rows = self.heading_rows(&rest).await?;
            for row in &rows {
                let chat = id_of(row.get("id")).map_err(lasting)?;
                rest.after = Some((Timestamp(row.get("touched")), chat));
                match heading(row).map_err(lasting) {
                    Ok(heading) => headings.push(heading),
                    Err(error) => {
                        tracing::error!(%chat, %error, "chat damaged: lists leave it out; restore a backup");
                    }
                }
            }
            let is_last = rows.len() < rest.len;
            rest.len = query.len - headings.len();
            if is_last || rest.len == 0 {
                return Ok(headings);
            }
        }
    }

    async fn heading_rows(&self, query: &ChatQuery) -> Result<Vec<Row>, StoreError> {
        let only = match query.status {
            Some(Status::Running | Status::Interrupting | Status::Awaiting) => {
                " AND status = $8 AND (busy OR submitted > obeyed)" // They are few, and lie together in an index.
            }
            Some(Status::Idle | Status::Failed) => " AND status = $8",
            None => " AND ($8::text IS NULL)",
        };
        let (below, parent) = match query.sub_agents {
            SubAgentChats::Listed => (" AND ($9::bytea IS NULL)", None),
            SubAgentChats::LeftOut => (" AND parent IS NULL AND ($9::bytea IS NULL)", None),
            SubAgentChats::Of(parent) => (" AND parent = $9", Some(id_bytes(parent).to_vec())),
        };
        let sql = format!(
            "SELECT {HEADING} FROM chats
             WHERE ($1::bytea IS NULL OR owner = $1) AND ($2::bool IS NULL OR archived = $2) AND ($10::bool IS NULL OR internal = $10)
             AND ($3::bytea = '' OR position($3 IN searchable) > 0 OR cardinality($7::bytea[]) > 0 AND EXISTS (
                SELECT 1 FROM spoken WHERE chat = chats.id AND (
                    SELECT bool_and(position(word IN words) > 0) FROM unnest($7) AS word)))
             AND ($4::bigint IS NULL OR (touched, id) < ($4, $5)){only}{below}
             ORDER BY touched DESC, id DESC LIMIT $6"
        );
        let owner = query.owner.as_ref().map(|owner| owner.as_bytes());
        let text = searchable(&query.text).into_bytes();
        let touched = query.after.map(|(touched, _)| touched.0);
        let id = query.after.map(|(_, chat)| id_bytes(chat).to_vec());
        let len = big(query.len as u64);
        let wanted = search::wanted(&query.text);
        let status = query.status.map(tables::status_word);
        let params: [Param<'_>; 10] = [
            (&owner, Type::BYTEA),
            (&query.archived, Type::BOOL),
            (&text, Type::BYTEA),
            (&touched, Type::INT8),
            (&id, Type::BYTEA),
            (&len, Type::INT8),
            (&wanted, Type::BYTEA_ARRAY),
            (&status, Type::TEXT),
            (&parent, Type::BYTEA),
            (&query.internal, Type::BOOL),
        ];
        self.look(&sql, &params).await
    }

    pub(crate) async fn working(&self, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, StoreError> {
        let sql = "
            SELECT count(*) AS working FROM chats WHERE owner = $1 AND (busy OR submitted > obeyed)
            AND (status IN ('running', 'interrupting') OR submitted > obeyed) AND id <> ALL ($2)";
        let besides: Vec<Vec<u8>> = besides.iter().map(|chat| id_bytes(*chat).to_vec()).collect();
        let rows = self.look(sql, &[(&owner.as_bytes(), Type::BYTEA), (&besides, Type::BYTEA_ARRAY)]).await?;
        Ok(rows.first().map_or(0, |row| count(row, "working") as usize))
    }

    pub(crate) async fn used_below(&self, chat: ChatId) -> Result<BudgetUse, StoreError> {
        let sql = "SELECT steps, time_ms, tokens, cost, alive_ms FROM used_below WHERE chat = $1";
        let rows = self.read(sql, &[(&&id_bytes(chat)[..], Type::BYTEA)]).await?;
        Ok(rows.first().map(budget_use).unwrap_or_default())
    }

    pub(crate) async fn orphans(&self) -> Result<Vec<ChatId>, StoreError> {
        let sql = "SELECT id FROM chats WHERE orphaned ORDER BY id LIMIT $1";
        let rows = self.look(sql, &[(&big(ORPHANS_LEN_MAX as u64), Type::INT8)]).await?;
        rows.iter().map(|row| id_of(row.get("id")).map_err(lasting)).collect()
    }

    pub(crate) async fn used(&self, owner: &str, days: RangeInclusive<Day>) -> Result<BudgetUse, StoreError> {
        let sql = "
            SELECT coalesce(sum(steps), 0)::bigint AS steps, coalesce(sum(time_ms), 0)::bigint AS time_ms,
            coalesce(sum(tokens), 0)::bigint AS tokens, coalesce(sum(cost), 0)::bigint AS cost,
            coalesce(sum(alive_ms), 0)::bigint AS alive_ms FROM used WHERE owner = $1 AND day BETWEEN $2 AND $3";
        let (owner, from, to) = (owner.as_bytes(), days.start().0, days.end().0);
        let rows = self.read(sql, &[(&owner, Type::BYTEA), (&from, Type::INT8), (&to, Type::INT8)]).await?;
        Ok(rows.first().map(budget_use).unwrap_or_default())
    }

    /// A command that was accepted before, and its outcome.
    pub(crate) async fn submitted(
        &self,
        chat: ChatId,
        command: CommandRef<'_>,
    ) -> Result<Option<Submitted>, StoreError> {
        let id = id_bytes(chat);
        let rows = match command {
            CommandRef::Key(key) => {
                let sql = "
                    SELECT seq, outcome FROM chats LEFT JOIN inbox ON inbox.chat = chats.id
                    AND inbox.key IS NOT NULL AND sha256(inbox.key) = sha256($2) WHERE chats.id = $1";
                self.look(sql, &[(&&id[..], Type::BYTEA), (&key.as_bytes(), Type::BYTEA)]).await?
            }
            CommandRef::Seq(seq) => {
                let sql = "
                    SELECT seq, outcome FROM chats LEFT JOIN inbox ON inbox.chat = chats.id AND seq = $2
                    WHERE chats.id = $1";
                self.look(sql, &[(&&id[..], Type::BYTEA), (&big(seq.0), Type::INT8)]).await?
            }
        };
        let row = rows.first().ok_or(StoreError::NoSuchChat)?;
        let Some(seq) = row.get::<_, Option<i64>>(0) else { return Ok(None) };
        let text: Option<&str> = row.try_get(1).map_err(|_| lasting(damaged()))?;
        let outcome = text.map(outcome::read).transpose().map_err(|bad| lasting(bad.into()))?;
        Ok(Some(Submitted { seq: InboxSeq(seq.unsigned_abs()), outcome }))
    }

    /// The whole transcript of a chat, rewound messages left out.
    pub(crate) async fn transcript(&self, chat: ChatId) -> Result<Vec<Arc<Message>>, StoreError> {
        self.page(&self.watching, chat, None, usize::MAX, (PageBudget::endless(), Fetch::Bytes)).await
    }
}

impl Inner {
    /// Headings of chats that match a search. It reads every message, so only some run at once. One that has begun keeps its
    /// permit to its end even if its future is dropped, because the database continues with it: clients that come and go
    /// cause no more of them.
    pub(crate) async fn search(self: Arc<Self>, query: ChatQuery) -> Result<Vec<Heading>, StoreError> {
        let place = tokio::time::timeout(self.reads.retry_max, self.searches.clone().acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            return Err(StoreError::Unavailable("too many searches at once: try again in a moment".into()));
        };
        to_the_end(async move {
            let found = self.reads.headings(&query).await;
            drop(place);
            found
        })
        .await
    }

    pub(crate) async fn load(&self, right: AppendRight) -> Result<Loaded, WriteError> {
        let cache = self.caches.at(right.chat);
        let worker = self.state().current();
        let (true, Some(worker)) = (cache.is_open_to(right, worker), worker) else {
            return Err(self.refusal(right.chat).await);
        };
        self.flush().await?;
        let Some(loaded) = self.reads.retry().run(|| self.try_load(right, worker)).await? else {
            cache.clear(right.fence);
            return Err(WriteError::Fenced);
        };
        if let Some(held) = cache.held().as_mut().filter(|held| held.fence == right.fence) {
            held.committed(Arc::new(loaded.chat.clone()));
        }
        Ok(loaded)
    }

    async fn try_load(&self, right: AppendRight, worker: i64) -> Result<Option<Loaded>, DbFault> {
        let conn = self.reads.pool.conn().await?;
        let id = id_bytes(right.chat);
        let sql = "
            SELECT id, body FROM messages WHERE chat = $1 AND gone IS NULL AND id >= coalesce((
                SELECT max(id) FROM messages WHERE chat = $1 AND gone IS NULL AND kind = 'summary'), 0)
            ORDER BY id";
        let params: [Param<'_>; 1] = [(&&id[..], Type::BYTEA)];
        let (_, chat, rows) =
            tokio::try_join!(conn.begin(TxMode::Read), chat_under(&conn, right, worker), conn.query(sql, &params),)?;
        let Some((chat, no)) = chat else { return Ok(None) };
        let messages = messages(&conn, right.chat, &rows, Fetch::Lengths).await?;
        let place = JournalPlace { no, step: chat.step, worker: Some(worker) };
        let rows = journal(&conn, right.chat, place, Seq(0), Fetch::Bytes).await?;
        conn.commit().await?;
        Ok(Some(Loaded { chat, messages, rows }))
    }

    /// The chat, if it is still ours.
    pub(crate) async fn chat_under(&self, right: AppendRight, worker: i64) -> Result<Option<Arc<Chat>>, StoreError> {
        let read = || async {
            let conn = self.reads.pool.conn().await?;
            let (_, chat) = tokio::try_join!(conn.begin(TxMode::Read), chat_under(&conn, right, worker))?;
            conn.commit().await?;
            Ok(chat.map(|(chat, _)| Arc::new(chat)))
        };
        self.reads.retry().run(read).await
    }
}

fn budget_use(row: &Row) -> BudgetUse {
    BudgetUse {
        steps: count(row, "steps"),
        time: Duration::from_millis(count(row, "time_ms")),
        alive: Duration::from_millis(count(row, "alive_ms")),
        tokens: count(row, "tokens"),
        cost: Micros(count(row, "cost")),
    }
}

impl Reads {
    /// A chat at one moment.
    pub(crate) async fn snapshot(&self, chat: ChatId) -> Result<ChatSnapshot, StoreError> {
        self.retry().run(|| self.try_snapshot(chat)).await
    }

    async fn try_snapshot(&self, chat: ChatId) -> Result<ChatSnapshot, DbFault> {
        let (conn, id) = (self.pool.conn().await?, id_bytes(chat));
        let params: [Param<'_>; 1] = [(&&id[..], Type::BYTEA)];
        let sql = format!("SELECT {HEADING} FROM chats WHERE id = $1");
        let budget = PageBudget::endless();
        let page = page(&conn, chat, i64::MAX, (usize::MAX, &budget));
        let (_, about, found, called) = tokio::try_join!(
            conn.begin(TxMode::Read),
            conn.query_opt(&sql, &params),
            page,
            conn.query(CALLS, &params)
        )?;
        let heading = heading(&about.ok_or(StoreError::NoSuchChat)?)?;
        let transcript: Vec<Arc<Message>> = messages(&conn, chat, &found, Fetch::Bytes).await?;
        conn.commit().await?;
        Ok(ChatSnapshot { heading, transcript, calls: calls(&called)? })
    }

    /// Unique name of the database. It changes when the database is created anew or moved.
    pub(crate) async fn name(&self) -> Result<String, StoreError> {
        let sql = "
            SELECT (SELECT system_identifier FROM pg_control_system()) AS system,
                (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database,
                'everturn_schema'::regclass::oid::bigint AS made";
        let rows = self.read(sql, &[]).await?;
        let row = rows.first().ok_or_else(|| StoreError::Unavailable("the database has no name".into()))?;
        Ok(format!("{:016x}-{}-{}", row.get::<_, i64>("system"), count(row, "database"), count(row, "made")))
    }

    pub(crate) async fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
        let read = || async {
            let conn = self.pool.conn().await?;
            let id = id_bytes(chat);
            let params: [Param<'_>; 1] = [(&&id[..], Type::BYTEA)];
            let sql = "SELECT obeyed FROM chats WHERE id = $1";
            let (_, row) = tokio::try_join!(conn.begin(TxMode::Read), conn.query_opt(sql, &params))?;
            let Some(row) = row else { return Err(StoreError::NoSuchChat.into()) };
            let pending = pending(&conn, chat, count(&row, "obeyed"), Fetch::Bytes).await?;
            conn.commit().await?;
            Ok(pending)
        };
        self.retry().run(read).await
    }

    /// The newest `len` messages before one of them, or before the end; oldest first.
    pub(crate) async fn page(
        &self,
        pool: &ConnectionPool,
        chat: ChatId,
        before: Option<MessageId>,
        len: usize,
        (budget, fetch): (PageBudget, Fetch),
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        let before = before.map_or(i64::MAX, |id| big(id.0));
        let read = || async {
            let conn = pool.conn().await?;
            let page = page(&conn, chat, before, (len, &budget));
            let (_, is_there, found) = tokio::try_join!(conn.begin(TxMode::Read), is_there(&conn, chat), page)?;
            is_there?;
            let messages = messages(&conn, chat, &found, fetch).await?;
            conn.commit().await?;
            Ok(messages)
        };
        self.retry().run(read).await
    }

    /// One message, with its bytes.
    pub(crate) async fn message(
        &self,
        chat: ChatId,
        number: MessageId,
        pool: &ConnectionPool,
    ) -> Result<Option<Arc<Message>>, StoreError> {
        let Some(next) = number.0.checked_add(1).map(MessageId) else { return Ok(None) };
        let newest = self.page(pool, chat, Some(next), 1, (PageBudget::page(), Fetch::Bytes)).await?;
        Ok(newest.into_iter().find(|message| message.id == number))
    }

    /// Where the chat stands.
    pub(crate) async fn standing(&self, chat: ChatId) -> Result<Standing, StoreError> {
        let id = id_bytes(chat);
        let read = || async {
            let conn = self.watching.conn().await?;
            let sql = "SELECT submitted, obeyed, body FROM chats WHERE id = $1";
            let params: [Param<'_>; 1] = [(&&id[..], Type::BYTEA)];
            let (_, row) = tokio::try_join!(conn.begin(TxMode::Read), conn.query_opt(sql, &params))?;
            let Some(row) = row else {
                conn.rollback().await?;
                return Err(StoreError::NoSuchChat.into());
            };
            let shown = with_inbox(&conn, chat, &row).await?;
            conn.commit().await?;
            Ok(shown.standing())
        };
        self.retry().run(read).await
    }

    /// The oldest `len` messages after one of them, oldest first.
    pub(crate) async fn after(
        &self,
        chat: ChatId,
        after: MessageId,
        len: usize,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        let (id, after, len) = (id_bytes(chat), big(after.0), big(len as u64));
        let bytes = big(PageBudget::page().bytes_max() as u64);
        let sql = "
            SELECT id, body FROM (
                SELECT id, body, sum(octet_length(body)) OVER (ORDER BY id) AS bytes FROM (
                    SELECT id, body FROM messages WHERE chat = $1 AND id > $2 AND gone IS NULL ORDER BY id LIMIT $3
                ) AS oldest
            ) AS page WHERE bytes <= $4 OR bytes = octet_length(body) ORDER BY id";
        let params: [Param<'_>; 4] =
            [(&&id[..], Type::BYTEA), (&after, Type::INT8), (&len, Type::INT8), (&bytes, Type::INT8)];
        let read = || async {
            let conn = self.watching.conn().await?;
            let (_, is_there, found) =
                tokio::try_join!(conn.begin(TxMode::Read), is_there(&conn, chat), conn.query(sql, &params))?;
            is_there?;
            let messages = messages(&conn, chat, &found, Fetch::Lengths).await?;
            conn.commit().await?;
            Ok(messages)
        };
        self.retry().run(read).await
    }

    /// Provider calls made for a chat, from the first that was not seen on.
    pub(crate) async fn attempts(
        &self,
        chat: ChatId,
        seen: usize,
        len: usize,
    ) -> Result<Vec<AttemptRecord>, StoreError> {
        let sql = "
            SELECT page.body FROM chats LEFT JOIN LATERAL (
                SELECT number, body FROM attempts WHERE chat = chats.id ORDER BY number LIMIT $3 OFFSET $2
            ) AS page ON true WHERE id = $1 ORDER BY number";
        let (id, seen, len) = (id_bytes(chat), big(seen as u64), big(len as u64));
        let rows = self.look(sql, &[(&&id[..], Type::BYTEA), (&seen, Type::INT8), (&len, Type::INT8)]).await?;
        if rows.is_empty() {
            return Err(StoreError::NoSuchChat);
        }
        let text = |row| Row::try_get::<_, Option<&str>>(row, 0).map_err(|_| damaged()).transpose();
        let texts = rows.iter().filter_map(text);
        texts.map(|text| Ok(attempted::read(text?)?)).collect::<Result<_, DbFault>>().map_err(lasting)
    }

    /// Every tool call that was ever started in a chat.
    pub(crate) async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError> {
        let id = id_bytes(chat);
        let rows = self.look(CALLS, &[(&&id[..], Type::BYTEA)]).await?;
        calls(&rows).map_err(lasting)
    }
}

/// The calls that the rows of [`CALLS`] stand for.
pub(crate) fn calls(rows: &[Row]) -> Result<Vec<CallRecord>, DbFault> {
    if rows.is_empty() {
        return Err(StoreError::NoSuchChat.into());
    }
    rows.iter().filter(|row| row.get::<_, Option<i64>>("step").is_some()).map(call).collect()
}

async fn is_there(conn: &Conn, chat: ChatId) -> Result<Result<(), StoreError>, DbFault> {
    let id = id_bytes(chat);
    let row = conn.query_opt("SELECT 1 FROM chats WHERE id = $1", &[(&&id[..], Type::BYTEA)]).await?;
    Ok(row.map(drop).ok_or(StoreError::NoSuchChat))
}

/// The newest messages before one of them, oldest first, as many as the budget allows. The first of them always fits.
pub(crate) async fn page(
    conn: &Conn,
    chat: ChatId,
    before: i64,
    (len, budget): (usize, &PageBudget),
) -> Result<Vec<Row>, DbFault> {
    let (id, len, bytes) = (id_bytes(chat), big(len as u64), big(budget.bytes_max() as u64));
    let sql = "
        SELECT id, body FROM (
            SELECT id, body, sum(octet_length(body)) OVER (ORDER BY id DESC) AS bytes FROM (
                SELECT id, body FROM messages WHERE chat = $1 AND id < $2 AND gone IS NULL ORDER BY id DESC LIMIT $3
            ) AS newest
        ) AS page WHERE bytes <= $4 OR bytes = octet_length(body) ORDER BY id";
    let params: [Param<'_>; 4] =
        [(&&id[..], Type::BYTEA), (&before, Type::INT8), (&len, Type::INT8), (&bytes, Type::INT8)];
    conn.query(sql, &params).await
}

/// The chat and its short name, if it is still ours.
async fn chat_under(conn: &Conn, right: AppendRight, worker: i64) -> Result<Option<(Chat, i64)>, DbFault> {
    let (id, fence) = (id_bytes(right.chat), big(right.fence.0));
    let sql = "SELECT body, no FROM chats WHERE id = $1 AND fence = $2 AND worker = $3";
    let params: [Param<'_>; 3] = [(&&id[..], Type::BYTEA), (&fence, Type::INT8), (&worker, Type::INT8)];
    match conn.query_opt(sql, &params).await? {
        Some(row) => Ok(Some((chat_of(conn, right.chat, text(&row, "body")?, Fetch::Bytes).await?, row.get("no")))),
        None => Ok(None),
    }
}

/// The chat that a text stands for.
pub(crate) async fn chat_of(conn: &Conn, chat: ChatId, text: &str, fetch: Fetch) -> Result<Chat, DbFault> {
    let stored = shape::chat::parse(text)?;
    let bytes = bytes(conn, chat, stored.wants(), fetch).await?;
    Ok(stored.build(&bytes)?)
}

/// The messages that rows with a `body` stand for.
pub(crate) async fn messages(
    conn: &Conn,
    chat: ChatId,
    rows: &[Row],
    fetch: Fetch,
) -> Result<Vec<Arc<Message>>, DbFault> {
    let stored = rows.iter().map(|row| Ok(message::parse(text(row, "body")?)?)).collect::<Result<Vec<_>, DbFault>>()?;
    let wanted = stored.iter().flat_map(|stored| stored.wants()).collect();
    let bytes = bytes(conn, chat, wanted, fetch).await?;
    Ok(stored.into_iter().map(|stored| stored.build(&bytes).map(Arc::new)).collect::<Result<_, _>>()?)
}

/// The commands that rows with `seq`, `aimed`, `at`, `key` and `body` stand for.
pub(crate) async fn inbound(
    conn: &Conn,
    chat: ChatId,
    rows: &[Row],
    fetch: Fetch,
) -> Result<Vec<InboxCommand>, DbFault> {
    let stored = rows.iter().map(|row| Ok(command::parse(text(row, "body")?)?)).collect::<Result<Vec<_>, DbFault>>()?;
    let wanted = stored.iter().flat_map(|stored| stored.wants()).collect();
    let bytes = bytes(conn, chat, wanted, fetch).await?;
    let built = rows.iter().zip(stored).map(|(row, stored)| {
        let (seq, aimed, at) = (InboxSeq(count(row, "seq")), StepId(count(row, "aimed")), Timestamp(row.get("at")));
        let key = row.get::<_, Option<&[u8]>>("key").map(name).transpose()?;
        Ok(InboxCommand { seq, aimed, at, key, command: stored.build(&bytes)? })
    });
    built.collect()
}

/// Where the journal of a step lies.
#[derive(Clone, Copy)]
pub(crate) struct JournalPlace {
    /// The chat's number.
    pub(crate) no: i64,
    pub(crate) step: StepId,
    /// The worker that holds the chat, or held it last.
    pub(crate) worker: Option<i64>,
}

/// The journal of a step of a chat, from the stored row on that holds the delta after `seen`.
pub(crate) async fn journal(
    conn: &Conn,
    chat: ChatId,
    JournalPlace { no, step, worker }: JournalPlace,
    seen: Seq,
    fetch: Fetch,
) -> Result<Vec<view::JournalRow>, DbFault> {
    let (number, seen) = (big(step.0), big(seen.0));
    let sql = "
        SELECT first, body FROM drafts WHERE no = $1 AND step = $2 AND first >= coalesce((
            SELECT first FROM drafts WHERE no = $1 AND step = $2 AND first <= $3 ORDER BY first DESC LIMIT 1), 0)
        ORDER BY first";
    let params: [Param<'_>; 3] = [(&no, Type::INT8), (&number, Type::INT8), (&seen, Type::INT8)];
    let (filed, unfiled) = tokio::try_join!(conn.query(sql, &params), filing::unfiled(conn, worker, no))?;
    let filed = filed.iter().map(|row| Ok(rows::parse(step, Seq(count(row, "first")), text(row, "body")?)?));
    let unfiled = filing::appends(&unfiled, no, step)?;
    let unfiled = unfiled.iter().map(|entry| Ok(entry.rows()?));
    let stored = filed.chain(unfiled).collect::<Result<Vec<_>, DbFault>>()?;
    let wanted = stored.iter().flat_map(|stored| stored.wants()).collect();
    let bytes = bytes(conn, chat, wanted, fetch).await?;
    let mut journal = Vec::new();
    for stored in stored {
        journal.extend(stored.build(&bytes)?);
    }
    Ok(journal)
}

fn call(row: &Row) -> Result<CallRecord, DbFault> {
    let (effect, verdict): (&str, Option<&str>) = (row.get("effect"), row.get("verdict"));
    let verdict = verdict.map(tables::verdict_of).transpose()?;
    let ended: Option<i64> = row.get("ended");
    let ordinal =
        row.get::<_, i32>("ordinal").try_into().map_err(|_| unreadable("a call has a number out of range"))?;
    Ok(CallRecord {
        uid: CallUid { step: StepId(count(row, "step")), ordinal },
        tool: name(row.get("tool"))?,
        effect: tables::effect_of(effect)?,
        started: Timestamp(row.get("started")),
        starts: row.get::<_, i32>("starts").unsigned_abs(),
        ended: ended.map(Timestamp).zip(verdict),
    })
}
