//! Chats that their processes die of are left alone: [`everturn_core::quarantine`].

use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::fact::Fact;
use everturn_core::ids::ChatId;
use everturn_core::quarantine::TakeoverCount;
use everturn_core::status::Status;
use everturn_stores::{Lease, StoreError, WriteError};

use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::drive::{Driver, Parked};
use crate::engine::{Ports, lock};
use crate::observe::log;

/// How long a chat that may be deadly is alone, at most.
const ALONE_MAX: Duration = Duration::from_secs(10);

impl Ports {
    /// Takes the chat. Whoever takes it again before anybody else had it still knows it, whatever became of the lease in
    /// between.
    pub(crate) async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError> {
        let lease = self.store.acquire(chat).await?;
        if let Some(known) = lock(&self.known).get_mut(&chat).filter(|known| **known == lease.before()) {
            *known = lease.fence();
        }
        Ok(lease)
    }

    /// Whether this process finds the chat in the middle of something another left. Whoever lost its lease, and takes
    /// the next one before anybody else, finds what it left itself.
    pub(crate) fn is_left_behind(&self, lease: &Lease, status: Status) -> bool {
        let is_under_way = matches!(status, Status::Running | Status::Interrupting);
        let mut known = lock(&self.known);
        let is_ours = known.get(&lease.chat()) == Some(&lease.fence());
        if !is_under_way {
            known.insert(lease.chat(), lease.fence());
        }
        is_under_way && !is_ours
    }

    /// What becomes of the chat is no longer of interest here, unless it goes on here.
    pub(crate) fn forget(&self, chat: ChatId, parked: &Result<Parked, WriteError>) {
        match parked {
            Ok(Parked::Resting) | Err(WriteError::Store(StoreError::NoSuchChat)) => {
                lock(&self.known).remove(&chat);
            }
            Ok(Parked::InLine(_) | Parked::HandedOver) | Err(_) => {}
        }
    }
}

impl Driver {
    /// Writes down that the chat is taken up, before anything is done that may have killed its last process; or ends its
    /// turn, if that was once too often.
    pub(crate) async fn take_up(&mut self) -> Result<(), WriteError> {
        let taken = TakeoverCount::again(&self.chat, self.draft.as_ref());
        let limits = &self.agent.limits;
        if taken.is_deadly(limits) {
            tracing::error!(chat = %self.chat.id, ?taken, "the process died of this chat again and again, its turn is ended");
            let provider = self.asked().map(|asked| asked.model.provider().to_owned()).unwrap_or_default();
            self.fail(&ProviderError::new(provider, ErrorKind::Quarantine), None).await?;
        } else if taken.is_suspect(limits) && !self.isolate().await? {
            return Ok(()); // The top of the loop knows why.
        } else {
            let found = self.found.take().map(Fact::Inherited);
            self.change(|change| found.into_iter().fold(change.fact(Fact::TakenUp(taken)), Change::fact)).await?;
        }
        self.left_behind = false;
        self.ports.metrics.took_over();
        log::took_over(&self.chat, self.draft.is_some());
        lock(&self.ports.known).insert(self.chat.id, self.lease.fence());
        Ok(())
    }

    /// Waits until no other suspect works, and keeps others out for a moment, or until it has got on. False if somebody
    /// wants something else meanwhile.
    async fn isolate(&mut self) -> Result<bool, WriteError> {
        let (ports, cancel) = (self.ports.clone(), CancellationToken::new());
        let stop = cancel.clone();
        let alone = async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => None,
                () = ports.drain.cancelled() => None,
                alone = ports.suspects.clone().acquire_owned() => alone.ok(),
            }
        };
        let Some(alone) = self.listening(alone, &cancel).await? else { return Ok(false) };
        let over = CancellationToken::new();
        let has_got_on = over.clone();
        tokio::spawn(async move {
            let _ = timeout(ALONE_MAX, has_got_on.cancelled()).await;
            drop(alone);
        });
        self.alone = Some(over.drop_guard());
        Ok(true)
    }

    /// Lets others in again, once whoever took it up now would find nothing against it.
    pub(crate) fn rejoin(&mut self) {
        let taken = || TakeoverCount::again(&self.chat, self.draft.as_ref());
        if self.alone.is_some() && !taken().is_suspect(&self.agent.limits) {
            self.alone = None;
        }
    }

    /// Gives it to an attempt, which lets others in as soon as content is stored; but not if that would clear nobody.
    pub(crate) fn lend_alone(&mut self) -> Option<DropGuard> {
        self.alone.take_if(|_| !self.chat.taken.are_tools_suspect(&self.agent.limits))
    }

    /// An end in good order is no death.
    pub(crate) async fn hand_over(&mut self) -> Result<(), WriteError> {
        if self.chat.taken == TakeoverCount::default() || !self.ports.drain.is_cancelled() {
            return Ok(());
        }
        self.change(|change| change.fact(Fact::TakenUp(TakeoverCount::default()))).await
    }
}
