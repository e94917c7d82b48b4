//! Hints of the store: what other processes on it did, and whether this one still has its leases.

use std::sync::{Arc, Weak};

use everturn_stores::{Hint, Store};
use tokio_util::sync::CancellationToken;

use crate::process::Shared;
use crate::watch::feed::Changed;

/// Follows the hints of the store until the engine is gone.
pub(crate) async fn follow(store: Arc<dyn Store>, shared: Weak<Shared>, gone: CancellationToken) {
    while let Some(hint) = gone.run_until_cancelled(store.hint()).await {
        match shared.upgrade() {
            Some(shared) if !shared.stop.shutdown.is_cancelled() => apply(&shared, hint).await,
            Some(_) | None => return,
        }
    }
}

async fn apply(shared: &Arc<Shared>, hint: Hint) {
    match hint {
        Hint::News(chat) => {
            shared.signals.ring(chat);
            shared.feeds.heard(&shared.store, chat);
        }
        Hint::Inbox(chat) => {
            shared.signals.ring_for_accepted(chat);
            shared.feeds.heard(&shared.store, chat);
            if shared.driven.contains(chat) {
                shared.wake(chat); // Any other chat is driven by the process that accepted the command.
            }
        }
        Hint::Late => shared.metrics.heartbeat_failed(),
        Hint::Missed => {
            shared.signals.ring_all();
            shared.feeds.tell_all(Changed::Anything);
            scan(shared);
        }
        Hint::Look => {
            shared.feeds.are_shared();
            scan(shared);
        }
        Hint::Lost => {
            tracing::warn!(
                "lost all leases: the store was not reached in time; turns stop here and resume after reconnect"
            );
            shared.metrics.leases_lost();
            shared.stop.halt_all();
        }
    }
}

/// Looks for chats that no process drives. In a task of its own: the next hint may be `Lost`, because the store does not
/// answer.
fn scan(shared: &Arc<Shared>) {
    let Ok(scanning) = shared.scanning.clone().try_acquire_owned() else { return };
    let shared = shared.clone();
    tokio::spawn(async move {
        if let Err(error) = shared.resume().await {
            tracing::debug!(%error, "scan for chats without a driver failed, the next one comes later");
        }
        drop(scanning);
    });
}
