//! Chats with damaged stored state.
//!
//! Such a chat cannot go on, and commands to it must not pile up unread. Its turn ends with the reason, and it takes no
//! commands until this process ends; it can still be read as far as it is whole, and deleted. Other chats go on.

use everturn_core::change::Change;
use everturn_core::chat::TurnFailure;
use everturn_core::error::ErrorKind;
use everturn_core::ids::ChatId;
use everturn_core::status::Status;
use everturn_stores::{StoreExt as _, WriteError};

use crate::process::Shared;

/// Ends the turn of a damaged chat with the reason, if that can still be written, and refuses commands from now on.
pub(crate) async fn set_aside(shared: &Shared, chat: ChatId, why: String) {
    tracing::error!(%chat, why, "chat damaged: its turn ends and it takes no commands; restore a backup or delete it");
    shared.driven.set_damaged(chat, why.clone());
    if let Err(error) = end_turn(shared, chat, why).await {
        tracing::warn!(%chat, %error, "turn of the damaged chat not ended");
    }
    shared.signals.of(chat).ring();
}

async fn end_turn(shared: &Shared, chat: ChatId, why: String) -> Result<(), WriteError> {
    let message =
        "What is stored of this chat is damaged, so it cannot go on: restore a backup, or begin another chat.";
    let failure = TurnFailure { kind: ErrorKind::Generic, message: message.into(), detail: why, attempts: 0 };
    let mut lease = shared.acquire(chat).await?;
    let state = shared.store.state(&lease).await?;
    let mut change = Change::new(&state, shared.clock.now());
    match state.status {
        Status::Running => drop(change.fail(None, failure)),
        Status::Interrupting => drop(change.settle(None)),
        Status::Idle | Status::Awaiting | Status::Failed => return Ok(()),
    }
    shared.store.commit(&mut lease, &change.facts()).await?;
    Ok(shared.store.release(lease).await?)
}
