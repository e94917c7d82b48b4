//! Requests to create a chat.

use std::sync::Arc;

use everturn_core::chat::Chat;
use everturn_core::fork::{UnansweredCall, titled};
use everturn_core::ids::{ChatId, MessageId, ModelId};
use everturn_core::parent::ParentCall;
use everturn_core::setup::Setup;
use sha2::{Digest as _, Sha256};

use crate::store::StoreError;

/// Request to create a chat.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChat {
    /// Id of the chat, if it is created now.
    pub id: ChatId,
    /// Name of its agent. The default one may be another one later.
    pub agent: Chosen<String>,
    /// Model to use first, if it is not the agent's. A fork may have it from its source chat.
    pub model: Chosen<Option<ModelId>>,
    /// Whether requests to providers and their responses are recorded.
    pub debug: bool,
    /// Whether no list shows the chat.
    pub internal: bool,
    /// Owner of the chat.
    pub owner: String,
    /// Title; empty to derive it from the first message. A fork may have it from its source chat.
    pub title: Chosen<String>,
    /// Settings beside the agent's. A fork has those of its source chat.
    pub setup: Option<Arc<Setup>>,
    /// The call it is created for, if it is a sub-agent's. It is part of no digest: the key names the call.
    pub parent: Option<Arc<ParentCall>>,
    /// Source of a fork; `None` for an empty chat.
    pub fork: Option<Fork>,
    /// SHA-256 of the transcript that the engine imports, if any. Another transcript makes another request under the
    /// idempotency key.
    pub transcript: Option<[u8; 32]>,
    /// The owner's idempotency key, stored as long as the chat exists.
    pub key: Option<String>,
}

/// A property of a new chat, and where it is from. Only what the caller chose is part of the request: a default may
/// change, and the source of a fork may be renamed or deleted, before the request is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen<T> {
    /// Named in the request.
    ByCaller(T),
    /// The default, or that of the source chat.
    ByDefault(T),
}

/// The beginning of another chat, to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// Which.
    pub chat: ChatId,
    /// Up to this message, and with it.
    pub at: MessageId,
}

/// The chat was not created. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// The idempotency key belongs to another request.
    #[error("this request id was used for something else")]
    Conflict,
    /// The source chat has no such message.
    #[error("message {0} is not in the chat")]
    NoSuchMessage(MessageId),
    /// A transcript cannot end there: a tool call has no result yet.
    #[error(transparent)]
    Open(#[from] UnansweredCall),
    /// The store cannot say.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<T> Chosen<T> {
    /// What the caller chose, if it chose.
    pub fn of(chosen: Option<T>, default: T) -> Self {
        chosen.map_or(Self::ByDefault(default), Self::ByCaller)
    }

    /// The caller's choice, or this default.
    #[must_use]
    pub fn or(self, default: T) -> Self {
        match self {
            Self::ByCaller(_) => self,
            Self::ByDefault(_) => Self::ByDefault(default),
        }
    }

    /// The value, from wherever it is.
    pub const fn value(&self) -> &T {
        match self {
            Self::ByCaller(value) | Self::ByDefault(value) => value,
        }
    }

    /// The value if the caller chose it.
    pub const fn by_caller(&self) -> Option<&T> {
        match self {
            Self::ByCaller(value) => Some(value),
            Self::ByDefault(_) => None,
        }
    }
}

impl NewChat {
    /// An empty chat with an agent, titled after its first message.
    pub fn of(id: ChatId, agent: impl Into<String>, owner: impl Into<String>) -> Self {
        Self {
            id,
            agent: Chosen::ByCaller(agent.into()),
            model: Chosen::ByDefault(None),
            debug: false,
            internal: false,
            owner: owner.into(),
            title: Chosen::ByDefault(String::new()),
            setup: None,
            parent: None,
            fork: None,
            transcript: None,
            key: None,
        }
    }

    /// Digest of the request, without the id: equal requests have equal digests.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let agent = self.agent.by_caller().filter(|_| self.fork.is_none()); // A fork has that of its source.
        for text in [agent, self.title.by_caller()] {
            let text = text.map(String::as_str).unwrap_or_default();
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        if let Some(model) = self.model.by_caller() {
            let model = model.as_ref().map(ToString::to_string).unwrap_or_default();
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

    /// The empty chat.
    pub(crate) fn empty(&self) -> Chat {
        let (model, debug, setup) = (self.model.value().clone(), self.debug, self.setup.clone());
        let (parent, internal) = (self.parent.clone(), self.internal);
        let named = titled(self.id, self.agent.value(), &self.owner, self.title.value());
        Chat { model, debug, setup, parent, internal, ..named }
    }
}
