//! Who is to be woken.
//!
//! A wake-up is a hint and carries nothing: whoever wakes reads the store. Losing one costs a poll, never an event, so
//! nobody is ever waited for here, however slow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use everturn_core::ids::ChatId;
use everturn_core::view::JournalRow;
use tokio::sync::Notify;

use crate::watch::signal::Chime;

/// Hears every delta of every chat that an engine drives: see [`Builder::delta_log`](crate::Builder::delta_log).
///
/// [`ChatHandle::events`](crate::ChatHandle::events) is a view: whoever reads it slowly is told of a finished message and
/// not of the deltas it came in. This is for those who want each of them, for example to keep or to measure them.
pub trait DeltaLog: Send + Sync + 'static {
    /// These deltas of a chat are stored. Called before anything is committed that stands for them, so none is left out,
    /// whatever crashes; some may come again after a crash or a takeover, under the same step and number.
    ///
    /// Called while streams wait: hand the rows to a queue or a thread, and never wait here.
    fn stored(&self, chat: ChatId, rows: &[JournalRow]);
}

/// The bells of all chats somebody listens to.
#[derive(Default)]
pub(crate) struct Hub {
    bells: Mutex<HashMap<ChatId, Arc<Bell>>>,
    log: Option<Arc<dyn DeltaLog>>,
}

/// One chat's bell.
#[derive(Default)]
pub(crate) struct Bell {
    /// Hears of deltas, and of which chat.
    log: Option<(ChatId, Arc<dyn DeltaLog>)>,
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
    pub(crate) fn new(log: Option<Arc<dyn DeltaLog>>) -> Self {
        Self { log, ..Self::default() }
    }

    /// The bell of a chat. Bells that nobody holds are forgotten along the way.
    pub(crate) fn bell(&self, chat: ChatId) -> Arc<Bell> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        if bells.len() >= 64 && bells.len().is_power_of_two() {
            bells.retain(|_, bell| Arc::strong_count(bell) > 1);
        }
        let ring = || Arc::new(Bell { log: self.log.clone().map(|log| (chat, log)), ..Bell::default() });
        bells.entry(chat).or_insert_with(ring).clone()
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
    /// Whether anybody wants to hear of every delta.
    pub(crate) const fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// These deltas are stored.
    pub(crate) fn log(&self, rows: &[JournalRow]) {
        if let Some((chat, log)) = self.log.as_ref().filter(|_| !rows.is_empty()) {
            log.stored(*chat, rows);
        }
    }

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
