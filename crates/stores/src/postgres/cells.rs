//! Columns: how numbers, names and texts go into them and come out.

use std::sync::Arc;

use everturn_core::blob::Blob;
use everturn_core::chat::Chat;
use everturn_core::ids::{ChatId, Timestamp, Version};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fault::Fault;
use super::link::{Conn, Param};
use crate::heading::Heading;
use crate::shape::{self, BlobId, Bytes, Written};
use crate::sql::{Fetch, status_of, status_word};
use crate::store::StoreError;

/// A count as the database has it. None comes near the end.
pub(super) fn big(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn count(row: &Row, column: &str) -> u64 {
    row.get::<_, i64>(column).unsigned_abs()
}

pub(super) fn id_bytes(chat: ChatId) -> [u8; 16] {
    chat.as_u128().to_be_bytes()
}

pub(super) fn id_of(bytes: &[u8]) -> Result<ChatId, Fault> {
    let bytes = bytes.try_into().map_err(|_| unreadable("a chat has an id of another length"))?;
    Ok(ChatId::from_u128(u128::from_be_bytes(bytes)))
}

pub(super) fn unreadable(why: impl Into<String>) -> Fault {
    StoreError::Unreadable(why.into()).into()
}

/// A stored text. A damaged one may not be text at all.
pub(super) fn text<'a>(row: &'a Row, column: &str) -> Result<&'a str, Fault> {
    row.try_get(column).map_err(|_| damaged())
}

/// A column is not even text.
pub(super) fn damaged() -> Fault {
    StoreError::Damaged("a text in the database cannot be read".into()).into()
}

/// A name that may hold anything.
pub(super) fn name(bytes: &[u8]) -> Result<String, Fault> {
    String::from_utf8(bytes.to_vec()).map_err(|_| unreadable("a name is not text"))
}

/// The columns that are kept beside the body, because something is asked by them.
pub(super) struct ChatCells {
    pub(super) id: [u8; 16],
    pub(super) agent: Vec<u8>,
    pub(super) owner: Vec<u8>,
    pub(super) title: Vec<u8>,
    pub(super) searchable: Vec<u8>,
    pub(super) status: &'static str,
    pub(super) archived: bool,
    pub(super) busy: bool,
    pub(super) touched: i64,
    pub(super) version: i64,
    pub(super) step: i64,
    pub(super) obeyed: i64,
    pub(super) not_before: Option<i64>,
    pub(super) body: Written,
}

impl From<&Chat> for ChatCells {
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
            body: crate::shape::chat::write(chat),
        }
    }
}

/// What [`heading`] reads.
pub(super) const HEADING: &str = "id, agent, owner, title, status, archived, version, touched";

pub(super) fn heading(row: &Row) -> Result<Heading, Fault> {
    Ok(Heading {
        id: id_of(row.get("id"))?,
        agent: name(row.get("agent"))?,
        owner: name(row.get("owner"))?,
        title: name(row.get("title"))?,
        status: status_of(row.get("status"))?,
        archived: row.get("archived"),
        version: Version(count(row, "version")),
        touched: Timestamp(row.get("touched")),
    })
}

/// Fetches bytes by name, or how many they are. Those that are not there are left out.
pub(super) async fn bytes(conn: &Conn, chat: ChatId, mut wanted: Vec<BlobId>, fetch: Fetch) -> Result<Bytes, Fault> {
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
pub(super) async fn put_bytes(conn: &Conn, blobs: &[(ChatId, &[Named])]) -> Result<(), Fault> {
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
