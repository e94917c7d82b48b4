//! Wake-ups between the tasks of one process.
//!
//! A wake-up is a hint and carries nothing: the task that wakes reads the store. Losing one costs a poll, never an event,
//! so a slow reader holds nothing up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::ids::ChatId;
use everturn_core::view::JournalRow;
use tokio::sync::Notify;

use crate::watch::signal::Signal;

/// Receives every delta of every chat that an engine drives: see [`Builder::delta_log`](crate::Builder::delta_log).
///
/// [`ChatHandle::events`](crate::ChatHandle::events) is a view: a slow reader gets a finished message without the deltas
/// it came in. A delta log is for programs that want each delta, for example to keep or to measure them.
pub trait DeltaLog: Send + Sync + 'static {
    /// Called with deltas of a chat once they are stored, and before anything is committed that replaces them: none is
    /// left out, whatever crashes. Some may come again after a crash or a takeover, under the same step and number.
    ///
    /// Called while streams wait: hand the rows to a queue or a thread, and never wait here.
    fn stored(&self, chat: ChatId, rows: &[JournalRow]);
}

/// The signals of all chats that have a driver, a subscriber or a waiting handle in this process.
#[derive(Default)]
pub(crate) struct SignalHub {
    chats: Mutex<HashMap<ChatId, Arc<ChatSignals>>>,
    log: Option<Arc<dyn DeltaLog>>,
}

/// The signals of one chat.
#[derive(Default)]
pub(crate) struct ChatSignals {
    /// The delta log, and the chat to name there.
    log: Option<(ChatId, Arc<dyn DeltaLog>)>,
    /// After anything became durable, each delta too.
    pub(crate) news: Arc<Signal>,
    /// After a commit, for readers that do not need deltas.
    pub(crate) commits: Arc<Signal>,
    /// After a command was accepted, for the driver.
    pub(crate) inbox: Notify,
    /// After a command was accepted, for subscribers.
    pub(crate) accepted: Arc<Signal>,
}

impl SignalHub {
    pub(crate) fn new(log: Option<Arc<dyn DeltaLog>>) -> Self {
        Self { log, ..Self::default() }
    }

    fn chats(&self) -> MutexGuard<'_, HashMap<ChatId, Arc<ChatSignals>>> {
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The signals of a chat. Unused ones are dropped along the way.
    pub(crate) fn of(&self, chat: ChatId) -> Arc<ChatSignals> {
        let mut chats = self.chats();
        if chats.len() >= 64 && chats.len().is_power_of_two() {
            chats.retain(|_, signals| Arc::strong_count(signals) > 1);
        }
        let new = || Arc::new(ChatSignals { log: self.log.clone().map(|log| (chat, log)), ..ChatSignals::default() });
        chats.entry(chat).or_insert_with(new).clone()
    }

    /// Something in a chat became durable in another process.
    pub(crate) fn ring(&self, chat: ChatId) {
        if let Some(signals) = self.chats().get(&chat) {
            signals.ring();
        }
    }

    /// A command for a chat was accepted, here or in another process.
    pub(crate) fn ring_for_accepted(&self, chat: ChatId) {
        if let Some(signals) = self.chats().get(&chat) {
            signals.accepted.ring();
        }
    }

    /// Something became durable in another process, and it is not known what.
    pub(crate) fn ring_all(&self) {
        self.chats().values().for_each(|signals| signals.ring());
    }
}

impl ChatSignals {
    /// Whether there is a delta log.
    pub(crate) const fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// Passes stored deltas to the delta log.
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
