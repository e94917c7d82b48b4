//! Columns: how numbers, names and texts go into them and come out.

use std::sync::Arc;

use everturn_core::blob::Blob;
use everturn_core::chat::Chat;
use everturn_core::ids::{ChatId, InboxSeq, Timestamp, Version};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::heading::Heading;
use crate::postgres::connection::pool::{Conn, Param};
use crate::postgres::connection::retry::DbFault;
use crate::shape::{self, BlobId, Bytes, Written, command};
use crate::store::StoreError;
use crate::tables::{Fetch, status_of, status_word};

/// A count as the database has it. None comes near the end.
pub(crate) fn big(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn count(row: &Row, column: &str) -> u64 {
    row.get::<_, i64>(column).unsigned_abs()
}

pub(crate) fn id_bytes(chat: ChatId) -> [u8; 16] {
    chat.as_u128().to_be_bytes()
}

pub(crate) fn id_of(bytes: &[u8]) -> Result<ChatId, DbFault> {
    let bytes = bytes.try_into().map_err(|_| unreadable("a chat has an id of another length"))?;
    Ok(ChatId::from_u128(u128::from_be_bytes(bytes)))
}

pub(crate) fn unreadable(why: impl Into<String>) -> DbFault {
    StoreError::Unreadable(why.into()).into()
}

/// A stored text. A damaged one may not be text at all.
pub(crate) fn text<'a>(row: &'a Row, column: &str) -> Result<&'a str, DbFault> {
    row.try_get(column).map_err(|_| damaged())
}

/// A column is not even text.
pub(crate) fn damaged() -> DbFault {
    StoreError::Damaged("a text in the database cannot be read".into()).into()
}

/// A name that may hold anything.
pub(crate) fn name(bytes: &[u8]) -> Result<String, DbFault> {
    String::from_utf8(bytes.to_vec()).map_err(|_| unreadable("a name is not text"))
}

/// Columns beside the body, for queries.
pub(crate) struct ChatColumns {
    pub(crate) id: [u8; 16],
    pub(crate) agent: Vec<u8>,
    pub(crate) owner: Vec<u8>,
    pub(crate) title: Vec<u8>,
    pub(crate) searchable: Vec<u8>,
    pub(crate) status: &'static str,
    pub(crate) archived: bool,
    pub(crate) busy: bool,
    pub(crate) touched: i64,
    pub(crate) version: i64,
    pub(crate) step: i64,
    pub(crate) obeyed: i64,
    pub(crate) not_before: Option<i64>,
    pub(crate) parent: Option<Vec<u8>>,
    pub(crate) body: Written,
}

impl From<&Chat> for ChatColumns {
    fn from(chat: &Chat) -> Self {
        Self {
            id: id_bytes(chat.id),
            agent: chat.agent.clone().into(),
            owner: chat.owner.clone().into(),
            title: chat.title.clone().into(),
            searchable: crate::heading::searchable(&chat.title).into(),
            status: status_word(chat.status),
            archived: chat.archived,
            busy: chat.is_busy(),
            touched: chat.touched.0,
            version: big(chat.version.0),
            step: big(chat.step.0),
            obeyed: big(chat.obeyed.0),
            not_before: chat.wait.as_ref().map(|wait| wait.until.0),
            parent: chat.parent.as_deref().map(|parent| id_bytes(parent.parent()).to_vec()),
            body: crate::shape::chat::write(chat),
        }
    }
}

/// Columns that [`heading`] reads. Commands are read only of a chat at rest that has some to apply.
pub(crate) const HEADING: &str =
    "id, agent, owner, parent, title, status, archived, internal, version, touched, submitted,
    CASE WHEN submitted > obeyed AND NOT busy THEN ARRAY(
        SELECT inbox.body FROM inbox WHERE inbox.chat = chats.id AND inbox.seq > chats.obeyed) END AS pending";

pub(crate) fn heading(row: &Row) -> Result<Heading, DbFault> {
    let pending: Option<Vec<&str>> = row.try_get("pending").map_err(|_| damaged())?;
    let mut begins_a_turn = false;
    for command in pending.into_iter().flatten() {
        begins_a_turn |= command::begins_a_turn(command)?;
    }
    Ok(Heading {
        id: id_of(row.get("id"))?,
        agent: name(row.get("agent"))?,
        owner: name(row.get("owner"))?,
        parent: row.get::<_, Option<&[u8]>>("parent").map(id_of).transpose()?,
        title: name(row.get("title"))?,
        status: status_of(text(row, "status")?)?.shown(begins_a_turn),
        archived: row.get("archived"),
        internal: row.get("internal"),
        version: Version(count(row, "version")),
        received: InboxSeq(count(row, "submitted")),
        touched: Timestamp(row.get("touched")),
    })
}

/// Fetches bytes by name, or how many they are. Those that are not there are left out.
pub(crate) async fn bytes(conn: &Conn, chat: ChatId, mut wanted: Vec<BlobId>, fetch: Fetch) -> Result<Bytes, DbFault> {
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(Bytes::new());
    }
    let (id, names) = (id_bytes(chat), wanted.iter().map(|name| &name.as_bytes()[..]).collect::<Vec<_>>());
    let sql = match fetch {
        Fetch::Bytes => "SELECT id, bytes FROM blobs WHERE chat = $1 AND id = ANY ($2)",
        // The length stands before the bytes: they are not read for it.
        Fetch::Lengths => "SELECT id, octet_length(bytes) FROM blobs WHERE chat = $1 AND id = ANY ($2)",
    };
    let params: [Param<'_>; 2] = [(&&id[..], Type::BYTEA), (&names, Type::BYTEA_ARRAY)];
    let named = |row: &Row| {
        let name = row.get::<_, &[u8]>(0).try_into().map_err(|_| unreadable("bytes with a bad name"))?;
        let blob = match fetch {
            Fetch::Bytes => shape::checked(BlobId::from_bytes(name), row.get(1))?,
            Fetch::Lengths => Blob::Kept(row.get::<_, i32>(1).unsigned_abs() as usize),
        };
        Ok((BlobId::from_bytes(name), blob))
    };
    conn.query(sql, &params).await?.iter().map(named).collect()
}

/// Bytes and their name.
type Named = (BlobId, Arc<[u8]>);

/// Stores bytes that are not there yet.
pub(crate) async fn put_bytes(conn: &Conn, blobs: &[(ChatId, &[Named])]) -> Result<(), DbFault> {
    let (mut chats, mut names, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for (chat, blobs) in blobs {
        for (name, bytes) in *blobs {
            chats.push(id_bytes(*chat).to_vec());
            names.push(&name.as_bytes()[..]);
            all.push(&bytes[..]);
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO blobs (chat, id, bytes) SELECT * FROM unnest($1, $2, $3) ON CONFLICT DO NOTHING";
    let params: [Param<'_>; 3] = [(&chats, Type::BYTEA_ARRAY), (&names, Type::BYTEA_ARRAY), (&all, Type::BYTEA_ARRAY)];
    conn.execute(sql, &params).await?;
    Ok(())
}
