//! Chats that cannot be read because what is stored of them is damaged.
//!
//! Such a chat cannot go on, and what it was sent must not pile up unread. Its turn ends with the reason, and it takes no
//! commands until this process ends: it is read as far as it is whole, and deleted. Other chats go on.

use everturn_core::change::Change;
use everturn_core::chat::TurnFailure;
use everturn_core::error::ErrorKind;
use everturn_core::ids::ChatId;
use everturn_core::status::Status;
use everturn_stores::{StoreError, StoreExt as _, WriteError};

use crate::engine::{Ports, lock};

impl Ports {
    /// Ends the turn of a damaged chat with the reason, if that can still be written, and has the chat take nothing more.
    pub(crate) async fn set_aside(&self, chat: ChatId, why: String) {
        tracing::error!(%chat, why, "the chat is damaged: its turn ends, and it takes nothing more");
        lock(&self.damaged).insert(chat, why.clone());
        if let Err(error) = self.end_damaged(chat, why).await {
            tracing::warn!(%chat, %error, "the turn of the damaged chat could not be ended");
        }
        self.hub.bell(chat).ring();
    }

    async fn end_damaged(&self, chat: ChatId, why: String) -> Result<(), WriteError> {
        let message =
            "What is stored of this chat is damaged, so it cannot go on: restore a backup, or begin another chat.";
        let failure = TurnFailure { kind: ErrorKind::Generic, message: message.into(), detail: why, attempts: 0 };
        let mut lease = self.acquire(chat).await?;
        let state = self.store.state(&lease).await?;
        let mut change = Change::new(&state, self.clock.now());
        match state.status {
            Status::Running => drop(change.fail(None, failure)),
            Status::Interrupting => drop(change.settle(None)),
            Status::Idle | Status::Awaiting | Status::Failed => return Ok(()),
        }
        self.store.commit(&mut lease, &change.facts()).await?;
        Ok(self.store.release(lease).await?)
    }

    pub(crate) fn is_damaged(&self, chat: ChatId) -> bool {
        lock(&self.damaged).contains_key(&chat)
    }

    /// Refuses a chat that is known to be damaged.
    pub(crate) fn refuse_damaged(&self, chat: ChatId) -> Result<(), StoreError> {
        match lock(&self.damaged).get(&chat) {
            Some(why) => Err(StoreError::Damaged(why.clone())),
            None => Ok(()),
        }
    }
}
