//! Hearing what the inbox says while something else goes on.
//!
//! A store may take its time, or be away for a moment. Neither is a reason to keep deltas waiting or to give up an answer
//! that is being paid for: whatever has to be written finds out by itself that there is no store.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::ids::ChatId;
use everturn_stores::{Inbound, StoreError};
use tokio::time::sleep;

use crate::engine::Ports;

/// About how long it is until an inbox that could not be read is read again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

type Reading = Pin<Box<dyn Future<Output = Result<Vec<Inbound>, StoreError>> + Send>>;

/// What listens. At most one read is under way.
#[derive(Default)]
pub(crate) struct Ear(Option<Reading>);

impl Ear {
    pub(crate) const fn is_reading(&self) -> bool {
        self.0.is_some()
    }

    /// Begins to read the inbox.
    pub(crate) fn read(&mut self, ports: &Arc<Ports>, chat: ChatId) {
        let ports = ports.clone();
        self.0 = Some(Box::pin(async move { inbox(&ports, chat).await }));
    }

    /// What the inbox held. Dropping the future loses nothing.
    pub(crate) async fn heard(&mut self) -> Result<Vec<Inbound>, StoreError> {
        let Some(reading) = &mut self.0 else { return std::future::pending().await };
        let pending = reading.await;
        self.0 = None;
        pending
    }
}

/// What the inbox holds, as soon as the store can say so.
pub(crate) async fn inbox(ports: &Ports, chat: ChatId) -> Result<Vec<Inbound>, StoreError> {
    loop {
        match ports.store.inbox(chat).await {
            Err(StoreError::Unavailable(why)) => {
                tracing::debug!(%chat, why, "the inbox cannot be read, later then");
                sleep(LOOK_AGAIN.mul_f64(0.5 + ports.entropy.unit())).await;
            }
            read => return read,
        }
    }
}
