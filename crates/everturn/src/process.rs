//! One process: the state that its drivers share, and which chats it drives.

pub(crate) mod damaged;
pub(crate) mod hints;
pub(crate) mod orphans;
pub(crate) mod supervisor;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everturn_core::ids::{ChatId, ModelId};
use everturn_providers::record::Recorder;
use everturn_providers::{ApiAddress, Provider};
use everturn_stores::{Lease, Store, StoreError, StoreExt as _, WriteError};
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::admission::budget::Budgets;
use crate::admission::governor::Governors;
use crate::admission::slots::WorkSlots;
use crate::agent::Agent;
use crate::drive::takeover::Takeovers;
use crate::engine::Drivers;
use crate::observe::metrics::Metrics;
use crate::util::clock::Clock;
use crate::util::entropy::Entropy;
use crate::util::lock;
use crate::watch::feed::Feeds;
use crate::watch::hub::SignalHub;

/// The first and the longest pause, about, before a driver tries again that met an unavailable store.
pub(crate) const STORE_RETRY: Duration = Duration::from_secs(1);
pub(crate) const STORE_RETRY_MAX: Duration = Duration::from_secs(15);

/// What all drivers and handles of an engine share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) providers: BTreeMap<String, Arc<dyn Provider>>,
    pub(crate) agents: BTreeMap<String, Arc<Agent>>,
    /// Whether another process has an agent that is not among them.
    pub(crate) agents_elsewhere: fn(&str) -> bool,
    pub(crate) signals: SignalHub,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) metrics: Metrics,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    pub(crate) stop: StopTokens,
    pub(crate) governors: Governors,
    pub(crate) budgets: Budgets,
    pub(crate) slots: WorkSlots,
    /// Limits how many chats without a work slot are loaded at once, to apply their commands.
    pub(crate) loading: Arc<Semaphore>,
    /// One permit: one scan for chats without a driver at a time.
    pub(crate) scanning: Arc<Semaphore>,
    /// One permit: one search for chats of sub-agents without a parent at a time.
    pub(crate) orphans: Arc<Semaphore>,
    pub(crate) takeovers: Takeovers,
    pub(crate) drivers: Drivers,
    pub(crate) driven: DrivenChats,
    pub(crate) tasks: TaskTracker,
    /// The task of [`hints::follow`].
    pub(crate) hints: TaskTracker,
    /// Ends [`hints::follow`] when the last engine is dropped without a shutdown.
    pub(crate) _hints: DropGuard,
}

/// The ways in which work stops.
pub(crate) struct StopTokens {
    /// Fires when nothing new may begin. What is under way goes on until `shutdown`.
    pub(crate) drain: CancellationToken,
    pub(crate) shutdown: CancellationToken,
    /// The halt token of drivers that start now: a child of `shutdown`, replaced whenever this process loses its leases.
    halt: Mutex<CancellationToken>,
}

impl StopTokens {
    pub(crate) fn new() -> Self {
        let shutdown = CancellationToken::new();
        Self { drain: shutdown.child_token(), halt: Mutex::new(shutdown.child_token()), shutdown }
    }

    pub(crate) fn halt(&self) -> CancellationToken {
        lock(&self.halt).clone()
    }

    /// Stops every driver where it is. Drivers that start from now on are not affected.
    pub(crate) fn halt_all(&self) {
        std::mem::replace(&mut *lock(&self.halt), self.shutdown.child_token()).cancel();
    }
}

/// The chats that this process drives, or cannot drive.
#[derive(Default)]
pub(crate) struct DrivenChats {
    driven: Mutex<HashSet<ChatId>>,
    /// Chats with stored state that this version cannot read. Waiting handles get the error.
    unreadable: Mutex<HashMap<ChatId, StoreError>>,
    /// Chats with damaged stored state, and what is wrong.
    damaged: Mutex<HashMap<ChatId, String>>,
}

impl DrivenChats {
    pub(crate) fn contains(&self, chat: ChatId) -> bool {
        lock(&self.driven).contains(&chat)
    }

    /// Adds a chat. False if it is driven already.
    pub(crate) fn insert(&self, chat: ChatId) -> bool {
        lock(&self.driven).insert(chat)
    }

    pub(crate) fn remove(&self, chat: ChatId) {
        lock(&self.driven).remove(&chat);
    }

    /// The error because of which this process does not drive a chat.
    pub(crate) fn unreadable(&self, chat: ChatId) -> Option<StoreError> {
        lock(&self.unreadable).get(&chat).cloned()
    }

    pub(crate) fn set_unreadable(&self, chat: ChatId, error: StoreError) {
        lock(&self.unreadable).insert(chat, error);
    }

    pub(crate) fn is_damaged(&self, chat: ChatId) -> bool {
        lock(&self.damaged).contains_key(&chat)
    }

    pub(crate) fn set_damaged(&self, chat: ChatId, why: String) {
        lock(&self.damaged).insert(chat, why);
    }

    /// Refuses a chat that is known to be damaged.
    pub(crate) fn refuse_damaged(&self, chat: ChatId) -> Result<(), StoreError> {
        match lock(&self.damaged).get(&chat) {
            Some(why) => Err(StoreError::Damaged(why.clone())),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// Acquires the lease of a chat.
    pub(crate) async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError> {
        let lease = self.store.acquire(chat).await?;
        self.takeovers.acquired(&lease);
        Ok(lease)
    }

    /// The server that requests to a model go to, if they leave the process.
    pub(crate) fn server_of(&self, model: &ModelId) -> Option<ApiAddress> {
        self.providers.get(model.provider())?.server()
    }

    pub(crate) fn agent(&self, name: &str) -> Option<Arc<Agent>> {
        self.agents.get(name).cloned()
    }

    /// Makes sure that a chat with commands or unfinished work is driven.
    pub(crate) fn wake(self: &Arc<Self>, chat: ChatId) {
        self.signals.of(chat).inbox.notify_one();
        if self.drivers == Drivers::Spawned && !self.driven.is_damaged(chat) && self.driven.insert(chat) {
            lock(&self.driven.unreadable).remove(&chat); // The new driver will see whether it still is.
            self.tasks.spawn(supervisor::drive(self.clone(), chat));
        }
    }

    /// Wakes every chat with unfinished work. Chats driven here already are left alone, unless they have commands.
    pub(crate) async fn resume(self: &Arc<Self>) -> Result<usize, StoreError> {
        let unsettled = self.store.unsettled().await?;
        let wanted = unsettled.iter().filter(|found| found.has_commands || !self.driven.contains(found.chat));
        wanted.for_each(|found| self.wake(found.chat));
        self.delete_orphans();
        Ok(unsettled.len())
    }

    /// Deletes chats whose parent a process that died has deleted, unless that is being done.
    fn delete_orphans(self: &Arc<Self>) {
        let Ok(alone) = self.orphans.clone().try_acquire_owned() else { return };
        let shared = self.clone();
        self.spawn(async move {
            let drain = shared.stop.drain.clone();
            if let Some(Err(error)) = drain.run_until_cancelled(orphans::delete_all(&shared)).await {
                tracing::warn!(%error, "chats of deleted chats' sub-agents cannot be deleted, tried again later");
            }
            drop(alone);
        });
    }

    /// Deletes recordings of chats that were deleted by another process, or by one that died of it.
    pub(crate) async fn delete_orphan_recordings(&self) {
        let Some(recorder) = &self.recorder else { return };
        for chat in recorder.kept() {
            if matches!(self.store.heading(chat).await, Err(StoreError::NoSuchChat)) {
                recorder.forget(chat);
            }
        }
    }

    /// Runs `work` to its end, also when the caller drops this future.
    pub(crate) async fn to_the_end<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        match self.tasks.spawn(work.in_current_span()).await.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => resume_unwind(panic),
            Err(Err(_cancelled)) => pending().await, // The runtime shuts down, and the caller with it.
        }
    }

    /// Runs a task that only a shutdown waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }
}
