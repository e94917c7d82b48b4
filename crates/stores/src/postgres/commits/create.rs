//! Creating chats: empty, or as a fork of another one.
//!
//! What a fork copies is determined in a read-only transaction. Messages never change, so under the lock of the source
//! chat it only has to be checked that none of them was rewound in between; then rows are copied in the database.

use std::collections::BTreeSet;

use everturn_core::fork;
use everturn_core::ids::{ChatId, InboxSeq, StepId};
use tokio_postgres::types::Type;

use crate::new_chat::{Fork, MakeError, NewChat};
use crate::postgres::Inner;
use crate::postgres::connection::columns::{ChatColumns, big, count, id_bytes, id_of, text};
use crate::postgres::connection::pool::{Conn, Param, TxMode};
use crate::postgres::connection::retry::DbFault;
use crate::postgres::notify::channel::Urgency;
use crate::postgres::reads::chat::messages;
use crate::shape::{BlobId, message};
use crate::store::{Hint, StoreError};
use crate::tables::Fetch;

/// Messages read per query.
const PAGE_LEN: i64 = 500;

/// What a fork copies.
struct ForkSource {
    /// Version of the source chat when it was read.
    version: i64,
    /// Newest command the source chat had applied then.
    obeyed: InboxSeq,
    /// First step of the fork.
    step: StepId,
    blobs: BTreeSet<BlobId>,
}

/// How a try ended.
enum Tried {
    Created(ChatId),
    Refused(MakeError),
    /// The source chat has changed since it was read.
    SourceChanged,
}

impl Inner {
    pub(crate) async fn create(&self, new: &NewChat) -> Result<ChatId, MakeError> {
        let create = || async {
            match self.try_create(new).await? {
                Tried::Created(chat) => Ok(Ok(chat)),
                Tried::Refused(error) => Ok(Err(error)),
                Tried::SourceChanged => Err(DbFault::Passing("the source chat keeps changing".into())),
            }
        };
        let chat = self.reads.retry().run(create).await??;
        self.tell(Hint::News(chat), Urgency::Soon);
        Ok(chat)
    }

    pub(crate) async fn created(&self, new: &NewChat) -> Result<Option<ChatId>, MakeError> {
        match self.reads.retry().run(|| self.earlier_creation(new)).await? {
            Some(Tried::Created(chat)) => Ok(Some(chat)),
            Some(Tried::Refused(error)) => Err(error),
            None | Some(Tried::SourceChanged) => Ok(None),
        }
    }

    pub(crate) async fn keyed(&self, owner: &str, key: &str) -> Result<Option<ChatId>, StoreError> {
        let find = || async { Ok(self.under_key(owner, key).await?.map(|(chat, _)| chat)) };
        self.reads.retry().run(find).await
    }

    async fn try_create(&self, new: &NewChat) -> Result<Tried, DbFault> {
        if let Some(earlier) = self.earlier_creation(new).await? {
            return Ok(earlier);
        }
        let source = match new.fork {
            Some(fork) => match self.source(fork).await? {
                Ok(source) => Some((fork, source)),
                Err(error) => return Ok(Tried::Refused(error)),
            },
            None => None,
        };
        let chat = match &source {
            Some((fork, source)) => fork::fork(new.empty(), fork.at, source.step, source.obeyed),
            None => new.empty(),
        };
        let conn = self.reads.pool.conn().await?;
        conn.begin(TxMode::Write).await?;
        if let Some((fork, source)) = &source
            && !is_as_seen(&conn, *fork, source).await?
        {
            conn.rollback().await?;
            return Ok(Tried::SourceChanged);
        }
        if !has_parent(&conn, new).await? {
            conn.rollback().await?;
            return Ok(Tried::Refused(StoreError::NoSuchChat.into()));
        }
        let inserted = insert(&conn, &ChatColumns::from(&chat), new).await?;
        if inserted == 0 {
            conn.rollback().await?; // The key exists: of another request, or of this one after a lost answer.
            drop(conn); // Many callers could otherwise hold all connections and wait for one more.
            let unkeyed = Tried::Created(new.id);
            return Ok(self.earlier_creation(new).await?.unwrap_or(unkeyed));
        }
        if let Some((fork, source)) = &source {
            copy(&conn, new.id, *fork, source).await?;
        }
        conn.commit().await?;
        Ok(Tried::Created(new.id))
    }

    /// Result of an earlier request with the same key.
    async fn earlier_creation(&self, new: &NewChat) -> Result<Option<Tried>, DbFault> {
        let Some(key) = &new.key else { return Ok(None) };
        let Some((chat, request)) = self.under_key(&new.owner, key).await? else { return Ok(None) };
        let is_same = request == new.digest();
        Ok(Some(if is_same { Tried::Created(chat) } else { Tried::Refused(MakeError::Conflict) }))
    }

    /// The chat that was created under a key, and the digest of the request.
    async fn under_key(&self, owner: &str, key: &str) -> Result<Option<(ChatId, Vec<u8>)>, DbFault> {
        let sql = "
            SELECT id, request FROM chats
            WHERE key IS NOT NULL AND sha256(owner) = sha256($1) AND sha256(key) = sha256($2)";
        let params: [Param<'_>; 2] = [(&owner.as_bytes(), Type::BYTEA), (&key.as_bytes(), Type::BYTEA)];
        let rows = self.reads.query_once(TxMode::Read, sql, &params).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some((id_of(row.get("id"))?, row.get("request"))))
    }

    /// What a fork would copy now.
    async fn source(&self, Fork { chat, at }: Fork) -> Result<Result<ForkSource, MakeError>, DbFault> {
        let (id, end) = (id_bytes(chat), big(at.0));
        let params: [Param<'_>; 2] = [(&&id[..], Type::BYTEA), (&end, Type::INT8)];
        let about = "SELECT version, obeyed, $2 AS at FROM chats WHERE id = $1";
        let tail = "
            SELECT id, body FROM messages WHERE chat = $1 AND id <= $2 AND gone IS NULL AND id >= coalesce((
                SELECT id FROM messages WHERE chat = $1 AND id <= $2 AND gone IS NULL AND kind = 'reply'
                ORDER BY id DESC LIMIT 1), $2)
            ORDER BY id";
        let conn = self.reads.pool.conn().await?;
        let (_, about, tail) =
            tokio::try_join!(conn.begin(TxMode::Read), conn.query_opt(about, &params), conn.query(tail, &params))?;
        let Some(about) = about else { return Ok(Err(StoreError::NoSuchChat.into())) };
        if tail.last().is_none_or(|row| count(row, "id") != at.0) {
            return Ok(Err(MakeError::NoSuchMessage(at)));
        }
        let step = match fork::next_step(&messages(&conn, chat, &tail, Fetch::Lengths).await?) {
            Ok(step) => step,
            Err(open) => return Ok(Err(open.into())),
        };
        let blobs = blobs(&conn, chat, end).await?;
        conn.commit().await?;
        let obeyed = InboxSeq(count(&about, "obeyed"));
        Ok(Ok(ForkSource { version: about.get("version"), obeyed, step, blobs }))
    }
}

/// The bytes that messages up to one refer to.
async fn blobs(conn: &Conn, chat: ChatId, end: i64) -> Result<BTreeSet<BlobId>, DbFault> {
    let id = id_bytes(chat);
    let mut blobs = BTreeSet::new();
    let any = conn.query_opt("SELECT 1 FROM blobs WHERE chat = $1 LIMIT 1", &[(&&id[..], Type::BYTEA)]).await?;
    let mut after = if any.is_some() { 0 } else { end };
    while after < end {
        let sql = "
            SELECT id, body FROM messages WHERE chat = $1 AND id > $2 AND id <= $3 AND gone IS NULL
            ORDER BY id LIMIT $4";
        let params: [Param<'_>; 4] =
            [(&&id[..], Type::BYTEA), (&after, Type::INT8), (&end, Type::INT8), (&PAGE_LEN, Type::INT8)];
        let rows = conn.query(sql, &params).await?;
        for row in &rows {
            blobs.extend(message::parse(text(row, "body")?)?.wants());
        }
        after = rows.last().map_or(end, |row| row.get("id"));
    }
    Ok(blobs)
}

/// Whether the messages are unchanged. The source chat stays locked until the transaction ends.
async fn is_as_seen(conn: &Conn, Fork { chat, at }: Fork, source: &ForkSource) -> Result<bool, DbFault> {
    let (id, end) = (id_bytes(chat), big(at.0));
    let there = "SELECT 1 FROM chats WHERE id = $1 FOR SHARE";
    let there = conn.query_opt(there, &[(&&id[..], Type::BYTEA)]).await?;
    let gone = "SELECT 1 FROM messages WHERE chat = $1 AND gone > $2 AND id <= $3 LIMIT 1";
    let params: [Param<'_>; 3] = [(&&id[..], Type::BYTEA), (&source.version, Type::INT8), (&end, Type::INT8)];
    Ok(there.is_some() && conn.query_opt(gone, &params).await?.is_none())
}

/// Whether the parent of a sub-agent's chat is there. It stays until the transaction ends.
async fn has_parent(conn: &Conn, new: &NewChat) -> Result<bool, DbFault> {
    let Some(parent) = &new.parent else { return Ok(true) };
    let id = id_bytes(parent.parent());
    let sql = "SELECT 1 FROM chats WHERE id = $1 FOR KEY SHARE";
    Ok(conn.query_opt(sql, &[(&&id[..], Type::BYTEA)]).await?.is_some())
}

async fn insert(conn: &Conn, columns: &ChatColumns, new: &NewChat) -> Result<u64, DbFault> {
    let sql = "
        INSERT INTO chats (id, agent, owner, title, searchable, status, archived, busy, touched, version, step, obeyed, submitted,
            body, key, request, parent, internal)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12, $13, $14, $15, $16, $17) ON CONFLICT DO NOTHING";
    let keyed = new.key.as_ref().map(|key| (key.as_bytes(), new.digest()));
    let (key, request) = (keyed.map(|(key, _)| key), keyed.map(|(_, digest)| digest.to_vec()));
    let params: [Param<'_>; 17] = [
        (&&columns.id[..], Type::BYTEA),
        (&columns.agent, Type::BYTEA),
        (&columns.owner, Type::BYTEA),
        (&columns.title, Type::BYTEA),
        (&columns.searchable, Type::BYTEA),
        (&columns.status, Type::TEXT),
        (&columns.archived, Type::BOOL),
        (&columns.busy, Type::BOOL),
        (&columns.touched, Type::INT8),
        (&columns.version, Type::INT8),
        (&columns.step, Type::INT8),
        (&columns.obeyed, Type::INT8),
        (&columns.body.json, Type::TEXT),
        (&key, Type::BYTEA),
        (&request, Type::BYTEA),
        (&columns.parent, Type::BYTEA),
        (&new.internal, Type::BOOL),
    ];
    conn.execute(sql, &params).await
}

/// Copies messages, their search words and their bytes.
async fn copy(conn: &Conn, to: ChatId, Fork { chat, at }: Fork, source: &ForkSource) -> Result<(), DbFault> {
    let (to, from, end) = (id_bytes(to), id_bytes(chat), big(at.0));
    let params: [Param<'_>; 3] = [(&&to[..], Type::BYTEA), (&&from[..], Type::BYTEA), (&end, Type::INT8)];
    let said = "
        INSERT INTO messages (chat, id, version, kind, body)
        SELECT $1, id, 1, kind, body FROM messages WHERE chat = $2 AND id <= $3 AND gone IS NULL";
    let words = "
        INSERT INTO spoken (chat, id, words) SELECT $1, id, words FROM spoken WHERE chat = $2 AND id <= $3";
    tokio::try_join!(conn.execute(said, &params), conn.execute(words, &params))?;
    if !source.blobs.is_empty() {
        let names: Vec<&[u8]> = source.blobs.iter().map(|name| &name.as_bytes()[..]).collect();
        let sql = "
            INSERT INTO blobs (chat, id, bytes) SELECT $1, id, bytes FROM blobs WHERE chat = $2 AND id = ANY ($3)";
        let params: [Param<'_>; 3] = [(&&to[..], Type::BYTEA), (&&from[..], Type::BYTEA), (&names, Type::BYTEA_ARRAY)];
        conn.execute(sql, &params).await?;
    }
    Ok(())
}
