//! Creating chats: empty, or as a fork of another one.

use std::sync::Arc;

use everturn_core::fork;
use everturn_core::ids::{ChatId, MessageId};
use everturn_core::message::{Body, Message};

use super::{Chats, StoredChat};
use crate::new_chat::{Fork, MakeError, NewChat};
use crate::store::StoreError;

impl Chats {
    /// What was made under the same key.
    pub(super) fn created(&self, new: &NewChat) -> Result<Option<ChatId>, MakeError> {
        let key = new.key.as_ref().map(|key| (new.owner.clone(), key.clone()));
        match key.and_then(|key| self.made.get(&key)) {
            Some((chat, request)) if *request == new.digest() => Ok(Some(*chat)),
            Some(_) => Err(MakeError::Conflict),
            None => Ok(None),
        }
    }

    pub(super) fn create(&mut self, new: &NewChat) -> Result<ChatId, MakeError> {
        if let Some(made) = self.created(new)? {
            return Ok(made);
        }
        if new.parent.as_ref().is_some_and(|above| !self.by_id.contains_key(&above.parent())) {
            return Err(StoreError::NoSuchChat.into());
        }
        let stored = match &new.fork {
            Some(Fork { chat, at }) => self.by_id.get(chat).ok_or(StoreError::NoSuchChat)?.fork(new, *at)?,
            None => StoredChat::new(new.empty()),
        };
        self.by_id.entry(new.id).or_insert(stored);
        let key = new.key.as_ref().map(|key| (new.owner.clone(), key.clone()));
        self.made.extend(key.map(|key| (key, (new.id, new.digest()))));
        Ok(new.id)
    }
}

impl StoredChat {
    fn fork(&self, new: &NewChat, at: MessageId) -> Result<Self, MakeError> {
        let there = self.messages.binary_search_by_key(&at, |(_, message)| message.id);
        let end = there.map_err(|_| MakeError::NoSuchMessage(at))? + 1;
        let messages: Vec<Arc<Message>> = self.messages[..end].iter().map(|(_, message)| message.clone()).collect();
        let reply = messages.iter().rposition(|message| matches!(message.body, Body::Reply(_)));
        let step = fork::next_step(&messages[reply.unwrap_or(0)..])?;
        let mut stored = Self::new(fork::fork(new.empty(), at, step, self.chat.obeyed));
        stored.messages = messages.into_iter().map(|message| (stored.chat.version, message)).collect();
        Ok(stored)
    }
}
