//! Chats by a piece of their name.

use anyhow::bail;
use everturn::core::ids::ChatId;
use everturn_server::wire::Chat;

use crate::client::Client;
use crate::offline_store::Kept;

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

/// A piece of an id, as ids are written.
pub fn piece(text: &str) -> anyhow::Result<String> {
    let piece = text.trim().to_ascii_lowercase();
    if piece.is_empty() || piece.len() > ID_LEN || !piece.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        bail!("`{piece}` is not a piece of a chat's id: `everturn chats` lists them");
    }
    Ok(piece)
}

/// The one chat whose id begins or ends so.
pub async fn find(client: &Client, text: &str) -> anyhow::Result<Chat> {
    let piece = piece(text)?;
    if piece.len() == ID_LEN {
        return Ok(client.chat(&piece).await?);
    }
    let mut found: Vec<String> = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let from = after.map(|after: String| format!("&after={after}")).unwrap_or_default();
        let page = client.list(&format!("limit=200{from}")).await?;
        found.extend(page.chats.into_iter().map(|chat| chat.id).filter(|id| fits(id, &piece)));
        after = page.after;
        if after.is_none() || found.len() > 1 {
            break;
        }
    }
    Ok(client.chat(only(&found, &piece)?).await?)
}

/// The same where no daemon is asked.
pub async fn find_kept(kept: &Kept, text: &str) -> anyhow::Result<ChatId> {
    let piece = piece(text)?;
    if let Some(id) = piece.parse().ok().filter(|_| piece.len() == ID_LEN) {
        return Ok(id);
    }
    let all = kept.chats().await?;
    let found: Vec<String> = all.iter().map(ChatId::to_string).filter(|id| fits(id, &piece)).collect();
    Ok(only(&found, &piece)?.parse()?)
}

fn fits(id: &str, piece: &str) -> bool {
    id.starts_with(piece) || id.ends_with(piece)
}

fn only<'a>(found: &'a [String], piece: &str) -> anyhow::Result<&'a str> {
    match found {
        [one] => Ok(one),
        [] => bail!("no chat's id begins or ends with {piece}: `everturn chats` lists them"),
        [one, other, ..] => bail!("several chats' ids begin or end with {piece}, such as {one} and {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_means_one_chat() {
        let ids = ["01kdg1qg7v3m8s1t1j0a9n2x4c", "01kdg1qg7v3m8s1t1j0a9n2x4d"].map(str::to_owned);
        let meant = |text: &str| {
            let piece = piece(text)?;
            let found: Vec<String> = ids.iter().filter(|id| fits(id, &piece)).cloned().collect();
            only(&found, &piece).map(str::to_owned)
        };
        assert_eq!(meant(" 9N2X4C ").unwrap(), ids[0]);
        assert_eq!(meant("9n2x4d").unwrap(), ids[1]);
        for (text, said) in [("01kdg", "several"), ("zz", "no chat's id"), ("", "not a piece"), ("a-b", "not a piece")]
        {
            assert!(meant(text).unwrap_err().to_string().contains(said), "{text}");
        }
    }
}
