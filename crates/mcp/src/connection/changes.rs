//! How a connection learns that a server's tools have changed.
//!
//! Servers before 2026 say so on any open connection. Later ones say so on a subscription.

use rmcp::model::{ServerPeerInfo, SubscriptionFilter};
use rmcp::service::Subscription;
use rmcp::{Peer, RoleClient};
use tokio::sync::watch;

/// The changes of a server's tools, for as long as the connection lasts.
pub(crate) struct ToolChanges {
    peer: Peer<RoleClient>,
    told: watch::Receiver<()>,
    subscription: Subscribed,
}

enum Subscribed {
    /// It is to be made.
    Wanted,
    Made(Box<Subscription>),
    /// The server has none.
    No,
}

impl ToolChanges {
    pub(super) fn new(peer: Peer<RoleClient>, info: &ServerPeerInfo, told: watch::Receiver<()>) -> Self {
        let announces = info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
        let subscription =
            if announces && !info.protocol_version.has_initialize() { Subscribed::Wanted } else { Subscribed::No };
        Self { peer, told, subscription }
    }

    /// Waits for the next change. `None`: the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<()> {
        if matches!(self.subscription, Subscribed::Wanted) {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            self.subscription = match self.peer.listen(filter).await {
                Ok(subscription) => Subscribed::Made(Box::new(subscription)),
                Err(_) => Subscribed::No,
            };
        }
        if let Subscribed::Made(subscription) = &mut self.subscription {
            tokio::select! {
                biased;
                changed = subscription.next() => match changed {
                    Ok(Some(_)) => return Some(()),
                    Ok(None) | Err(_) => self.subscription = Subscribed::No,
                },
                told = self.told.changed() => return told.ok(),
            }
        }
        self.told.changed().await.ok()
    }
}
