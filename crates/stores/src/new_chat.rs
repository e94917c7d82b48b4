//! Chats to be made.

use std::sync::Arc;

use everturn_core::chat::Chat;
use everturn_core::fork::{UnansweredCall, titled};
use everturn_core::ids::{ChatId, MessageId, ModelId};
use everturn_core::setup::Setup;
use sha2::{Digest as _, Sha256};

use crate::store::StoreError;

/// A chat to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChat {
    /// Its name, if it is made now.
    pub id: ChatId,
    /// The agent it talks to.
    pub agent: String,
    /// Whether somebody has asked for that agent. There may be one for whoever asks for none, and another one later.
    pub is_named: bool,
    /// The model it asks first, if that is not its agent's.
    pub model: Option<ModelId>,
    /// Whether somebody has asked for that model. A fork may have it from the other chat.
    pub is_chosen: bool,
    /// Whether whatever is exchanged with providers for it is recorded.
    pub debug: bool,
    /// Whose it is.
    pub owner: String,
    /// What people call it; empty to call it after what is said first.
    pub title: String,
    /// Whether somebody has asked for that title. A fork may have it from the other chat.
    pub is_titled: bool,
    /// What it has of its own beside its agent. A fork has it from the other chat.
    pub setup: Option<Arc<Setup>>,
    /// What it begins with, if not with nothing.
    pub fork: Option<Fork>,
    /// SHA-256 of what its engine begins it with, if that is neither nothing nor a fork: so that another one is another
    /// request.
    pub transcript: Option<[u8; 32]>,
    /// The owner's name for this request, remembered as long as the chat is there: the same one again finds it.
    pub key: Option<String>,
}

/// The beginning of another chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// Which.
    pub chat: ChatId,
    /// Up to this message, and with it.
    pub at: MessageId,
}

/// A chat was not made. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// The same key came with another request before.
    #[error("this request id was used for something else")]
    Conflict,
    /// There is no such message in the other chat.
    #[error("message {0} is not in the chat")]
    NoSuchMessage(MessageId),
    /// A transcript cannot end there.
    #[error(transparent)]
    Open(#[from] UnansweredCall),
    /// The store cannot say.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NewChat {
    /// An empty chat with an agent, which is called after what is said first.
    pub fn of(id: ChatId, agent: impl Into<String>, owner: impl Into<String>) -> Self {
        Self {
            id,
            agent: agent.into(),
            is_named: true,
            model: None,
            is_chosen: false,
            debug: false,
            owner: owner.into(),
            title: String::new(),
            is_titled: false,
            setup: None,
            fork: None,
            transcript: None,
            key: None,
        }
    }

    /// What the request asks for, in short: the same for the same request, whatever id it came with.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        // What a fork has from the other chat is not asked for: that may be called something else by now, or be gone.
        let agent = if self.fork.is_none() && self.is_named { &self.agent } else { "" };
        let title = if self.fork.is_some() && !self.is_titled { "" } else { &self.title };
        for text in [agent, title] {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        if self.is_chosen {
            let model = self.model.as_ref().map(ToString::to_string).unwrap_or_default();
            hash.update((model.len() as u64).to_be_bytes());
            hash.update(model);
        }
        if self.debug {
            hash.update(b"debug"); // Requests of before have no word of it.
        }
        if let (Some(setup), None) = (&self.setup, self.fork) {
            hash.update(setup.to_json().to_string()); // Requests of before have none.
        }
        if let Some(Fork { chat, at }) = self.fork {
            hash.update(chat.as_u128().to_be_bytes());
            hash.update(at.0.to_be_bytes());
        }
        if let Some(transcript) = self.transcript {
            hash.update(b"transcript");
            hash.update(transcript);
        }
        hash.finalize().into()
    }

    /// The chat, if it begins with nothing.
    pub(crate) fn empty(&self) -> Chat {
        let (model, debug, setup) = (self.model.clone(), self.debug, self.setup.clone());
        Chat { model, debug, setup, ..titled(self.id, &self.agent, &self.owner, &self.title) }
    }
}
