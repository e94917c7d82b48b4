//! Finds a chat by the beginning or the end of its id.

use anyhow::bail;
use everturn::core::ids::ChatId;
use everturn_server::wire::Chat;

use crate::client::Client;
use crate::offline_store::OfflineStore;

/// Letters of a short id, taken from the end: ids of one day begin alike.
const SHORT_LEN: usize = 6;
/// Letters of a full id.
const ID_LEN: usize = 26;
/// Pages of chats that are searched.
const PAGES_MAX: usize = 50;

/// The short form of an id.
pub fn short(id: &str) -> &str {
    &id[id.len().saturating_sub(SHORT_LEN)..]
}

/// Normalises a piece of an id.
pub fn piece(text: &str) -> anyhow::Result<String> {
    let piece = text.trim().to_ascii_lowercase();
    if piece.is_empty() || piece.len() > ID_LEN || !piece.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        bail!("`{piece}` is not a piece of a chat's id: `everturn chats` lists them");
    }
    Ok(piece)
}

/// The one chat whose id begins or ends with this piece.
pub async fn find(client: &Client, text: &str) -> anyhow::Result<Chat> {
    let piece = piece(text)?;
    if piece.len() == ID_LEN {
        return Ok(client.chat(&piece).await?);
    }
    let mut found: Vec<String> = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let from = after.map(|after: String| format!("&after={after}")).unwrap_or_default();
        let page = client.list(&format!("limit=200&sub_agents=true{from}")).await?;
        found.extend(page.chats.into_iter().map(|chat| chat.id).filter(|id| fits(id, &piece)));
        after = page.after;
        if after.is_none() || found.len() > 1 {
            break;
        }
    }
    Ok(client.chat(only(&found, &piece)?).await?)
}

/// The one chat of a store whose id begins or ends with this piece, without a daemon.
pub async fn find_kept(kept: &OfflineStore, text: &str) -> anyhow::Result<ChatId> {
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
