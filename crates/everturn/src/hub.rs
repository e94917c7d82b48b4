//! Who is to be woken.
//!
//! A wake-up is a hint and carries nothing: whoever wakes reads the store. Losing one costs a poll, never an event, so
//! nobody is ever waited for here, however slow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use everturn_core::ids::ChatId;
use tokio::sync::Notify;

use crate::chime::Chime;

/// The bells of all chats somebody listens to.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    bells: Mutex<HashMap<ChatId, Arc<Bell>>>,
}

/// One chat's bell.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// Rung after something became durable, each delta of an answer too.
    pub(crate) news: Arc<Chime>,
    /// Rung after a commit, for whoever does not care for deltas.
    pub(crate) commits: Arc<Chime>,
    /// Rung after a command was accepted, for the driver.
    pub(crate) inbox: Notify,
    /// Rung after a command was accepted, for subscribers.
    pub(crate) accepted: Arc<Chime>,
}

impl Hub {
    /// The bell of a chat. Bells that nobody holds are forgotten along the way.
    pub(crate) fn bell(&self, chat: ChatId) -> Arc<Bell> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        if bells.len() >= 64 && bells.len().is_power_of_two() {
            bells.retain(|_, bell| Arc::strong_count(bell) > 1);
        }
        bells.entry(chat).or_default().clone()
    }

    /// Something in a chat became durable elsewhere.
    pub(crate) fn ring(&self, chat: ChatId) {
        if let Some(bell) = self.bells.lock().unwrap_or_else(PoisonError::into_inner).get(&chat) {
            bell.ring();
        }
    }

    /// A command for a chat was accepted, here or elsewhere.
    pub(crate) fn ring_for_accepted(&self, chat: ChatId) {
        if let Some(bell) = self.bells.lock().unwrap_or_else(PoisonError::into_inner).get(&chat) {
            bell.accepted.ring();
        }
    }

    /// Nobody knows what became durable elsewhere.
    pub(crate) fn ring_all(&self) {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|bell| bell.ring());
    }
}

impl Bell {
    /// Something became durable, perhaps a commit.
    pub(crate) fn ring(&self) {
        self.commits.ring();
        self.ring_for_deltas();
    }

    /// Deltas became durable, and nothing else.
    pub(crate) fn ring_for_deltas(&self) {
        self.news.ring();
    }
}
