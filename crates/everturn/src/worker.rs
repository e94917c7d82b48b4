//! What a process does when others work on the same store.
//!
//! Chats that nobody drives are taken up, whoever watches here what is written elsewhere is woken, and a process that
//! could not say in time that it is alive stops everything, because another may be at it already.

use std::sync::{Arc, Weak};

use everturn_stores::{Hint, Store};
use tokio_util::sync::CancellationToken;

use crate::engine::Ports;
use crate::feed::Changed;

/// Does what hints say until the engine is gone.
pub(crate) async fn heed_hints(store: Arc<dyn Store>, ports: Weak<Ports>, gone: CancellationToken) {
    while let Some(hint) = gone.run_until_cancelled(store.hint()).await {
        match ports.upgrade() {
            Some(ports) if !ports.shutdown.is_cancelled() => heed(&ports, hint).await,
            Some(_) | None => return,
        }
    }
}

async fn heed(ports: &Arc<Ports>, hint: Hint) {
    match hint {
        Hint::News(chat) => {
            ports.hub.ring(chat);
            ports.feeds.heard(&ports.store, chat);
        }
        Hint::Inbox(chat) if ports.is_driven(chat) => ports.wake(chat),
        Hint::Inbox(_) => {} // Whoever accepted it sees to it; should they be gone, a look at everything does.
        Hint::Missed => {
            ports.hub.ring_all();
            ports.feeds.tell_all(Changed::Anything);
            if let Err(error) = ports.resume().await {
                tracing::debug!(%error, "chats without a driver cannot be looked for, later then");
            }
        }
        Hint::Lost => {
            tracing::warn!("the store was not reached in time: every turn is let go, and taken up again later");
            ports.halt_all();
        }
    }
}
