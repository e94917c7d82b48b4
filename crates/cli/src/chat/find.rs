//! Chats by a piece of their name.

use anyhow::bail;
use everturn_server::wire::{Chat, Heading};

use crate::client::Client;

/// How many letters of an id are shown, from its end: the beginning is much the same in chats of one day.
const SHORT_LEN: usize = 6;
/// An id has so many letters.
const ID_LEN: usize = 26;
/// The most chats that are looked through.
const PAGES_MAX: usize = 50;

/// An id as people write it.
pub fn short(id: &str) -> &str {
    &id[id.len().saturating_sub(SHORT_LEN)..]
}

/// The one chat whose id begins or ends so.
pub async fn find(client: &Client, piece: &str) -> anyhow::Result<Chat> {
    let piece = piece.trim().to_ascii_lowercase();
    if piece.is_empty() || !piece.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        bail!("`{piece}` is not a piece of a chat's id: `everturn chats` lists them");
    }
    if piece.len() == ID_LEN {
        return Ok(client.chat(&piece).await?);
    }
    let mut found: Vec<Heading> = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let from = after.map(|after: String| format!("&after={after}")).unwrap_or_default();
        let page = client.list(&format!("limit=200{from}")).await?;
        found.extend(page.chats.into_iter().filter(|chat| chat.id.starts_with(&piece) || chat.id.ends_with(&piece)));
        after = page.after;
        if after.is_none() || found.len() > 1 {
            break;
        }
    }
    match &found[..] {
        [one] => Ok(client.chat(&one.id).await?),
        [] => bail!("no chat's id begins or ends with {piece}: `everturn chats` lists them"),
        [one, other, ..] => bail!("several chats' ids begin or end with {piece}, such as {} and {}", one.id, other.id),
    }
}
