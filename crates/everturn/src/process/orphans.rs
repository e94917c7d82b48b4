//! Chats of sub-agents whose parent was deleted.
//!
//! The store marks them in the transaction that deletes the parent. So whatever dies in between, they are found: by the
//! process that deletes, by the next one that starts, or by another one on the same store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::ids::ChatId;
use everturn_stores::StoreError;
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::timeout;

use crate::engine::Engine;
use crate::process::Shared;

/// Chats that are deleted at once.
const AT_ONCE_MAX: usize = 8;
/// How long the deletion of one chat may take. Another process may hold it.
const DELETION_MAX: Duration = Duration::from_secs(30);

/// Deletes all chats whose parent was deleted, and those below them. One that cannot be deleted now is left for the next
/// time, and named in the log.
pub(crate) async fn delete_all(shared: &Arc<Shared>) -> Result<(), StoreError> {
    let mut failed = BTreeSet::new();
    loop {
        let found = shared.store.orphans().await?;
        let orphans: Vec<ChatId> = found.into_iter().filter(|chat| !failed.contains(chat)).collect();
        if orphans.is_empty() {
            return Ok(());
        }
        let engine = Engine::of(shared.clone());
        let deletions = stream::iter(orphans).map(|chat| {
            let chat = engine.chat(chat);
            async move { (chat.id(), timeout(DELETION_MAX, chat.delete_alone()).await) }
        });
        let mut deletions = std::pin::pin!(deletions.buffer_unordered(AT_ONCE_MAX));
        while let Some((chat, deleted)) = deletions.next().await {
            let why = match deleted {
                Ok(Ok(()) | Err(StoreError::NoSuchChat)) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("not deleted within {} seconds", DELETION_MAX.as_secs()),
            };
            tracing::warn!(%chat, why, "chat of a sub-agent cannot be deleted with its parent, tried again later");
            failed.insert(chat);
        }
    }
}
