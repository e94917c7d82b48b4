//! What a process does when others work on the same store.
//!
//! Chats that nobody drives are taken up, whoever watches here what is written elsewhere is woken, and a process that
//! could not say in time that it is alive stops everything, because another may be at it already.

mod damaged;

use std::sync::{Arc, Weak};
use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::chat::TurnFailure;
use everturn_core::draft::Draft;
use everturn_core::error::ErrorKind;
use everturn_core::ids::ChatId;
use everturn_core::message::Stop;
use everturn_core::status::Status;
use everturn_stores::{Hint, Loaded, Store, StoreError, StoreExt as _, WriteError};
use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::admission::slots::{Seat, Waiting};
use crate::drive::{Driver, Parked};
use crate::engine::{Ports, lock};
use crate::watch::feed::Changed;

/// About how long a driver waits before it looks whether its store is back, at first and at most.
pub(crate) const STORE_RETRY: Duration = Duration::from_secs(1);
pub(crate) const STORE_RETRY_MAX: Duration = Duration::from_secs(15);
/// A driver that got on for so long begins anew with its waits.
const STORE_WELL: Duration = Duration::from_secs(60);
/// How often in a row a driver may panic before its chat is left alone.
const PANICS_MAX: u32 = 3;

/// Does what hints say until the engine is gone.
pub(crate) async fn heed_hints(store: Arc<dyn Store>, ports: Weak<Ports>, gone: CancellationToken) {
    while let Some(hint) = gone.run_until_cancelled(store.hint()).await {
        match ports.upgrade() {
            Some(ports) if !ports.shutdown.is_cancelled() => heed(&ports, hint).await,
            Some(_) | None => return,
        }
    }
}

async fn heed(ports: &Arc<Ports>, hint: Hint) {
    match hint {
        Hint::News(chat) => {
            ports.hub.ring(chat);
            ports.feeds.heard(&ports.store, chat);
        }
        Hint::Inbox(chat) => {
            ports.hub.ring_for_accepted(chat);
            ports.feeds.heard(&ports.store, chat);
            if ports.is_driven(chat) {
                ports.wake(chat); // If not: the process that accepted it drives the chat, or the next look finds it.
            }
        }
        Hint::Late => ports.metrics.heartbeat_failed(),
        Hint::Missed => {
            ports.hub.ring_all();
            ports.feeds.tell_all(Changed::Anything);
            look(ports);
        }
        Hint::Look => {
            ports.feeds.are_shared();
            look(ports);
        }
        Hint::Lost => {
            tracing::warn!("the store was not reached in time: every turn is let go, and taken up again later");
            ports.metrics.leases_lost();
            ports.halt_all();
        }
    }
}

/// Looks for chats that nobody drives; beside what is heard next, for a store that does not answer is about to be the
/// reason for `Lost`.
fn look(ports: &Arc<Ports>) {
    let Ok(looking) = ports.looking.clone().try_acquire_owned() else { return };
    let ports = ports.clone();
    tokio::spawn(async move {
        if let Err(error) = ports.resume().await {
            tracing::debug!(%error, "chats without a driver cannot be looked for, later then");
        }
        drop(looking);
    });
}

impl Ports {
    pub(crate) async fn drive(self: Arc<Self>, chat: ChatId) {
        let (mut panics, mut line, mut pause) = (0, None, STORE_RETRY);
        loop {
            let Some(seat) = self.admit(chat, line.take()).await else {
                lock(&self.driven).remove(&chat);
                return;
            };
            // A task of its own, so that a panic is caught here instead of leaving the chat to nobody.
            let began = Instant::now();
            let ended = tokio::spawn(self.clone().advance_on(chat, seat)).await;
            self.metrics.driver_ended(&ended);
            if began.elapsed() >= STORE_WELL {
                pause = STORE_RETRY;
            }
            match ended {
                Ok(Ok(Parked::InLine(waiting))) => {
                    line = waiting;
                    continue;
                }
                Ok(Err(WriteError::Store(StoreError::Unavailable(why)))) => {
                    tracing::warn!(%chat, why, "the store is not available, trying again");
                    if self.bide(chat, pause).await {
                        pause = (pause * 2).min(STORE_RETRY_MAX);
                        continue;
                    }
                }
                Err(join) if join.is_panic() && panics + 1 < PANICS_MAX => {
                    tracing::error!(%chat, %join, "the driver panicked, trying again");
                    panics += 1;
                    continue;
                }
                Err(join) if join.is_panic() => drop(tokio::spawn(self.clone().give_up(chat)).await),
                Ok(Ok(Parked::Resting | Parked::HandedOver)) | Err(_) => {}
                Ok(Err(WriteError::Store(StoreError::Damaged(why)))) => {
                    self.set_aside(chat, why).await;
                    lock(&self.driven).remove(&chat);
                    return;
                }
                Ok(Err(error)) => {
                    tracing::info!(%chat, %error, "the chat cannot be driven here");
                    if let WriteError::Store(error @ StoreError::Unreadable(_)) = error {
                        lock(&self.unreadable).insert(chat, error);
                    }
                    lock(&self.driven).remove(&chat);
                    self.hub.ring(chat); // Whoever waits for a commit hears that none comes.
                    return; // Nor can what its inbox holds; its owner has been told.
                }
            }
            lock(&self.driven).remove(&chat);
            let missed = matches!(self.store.inbox(chat).await, Ok(pending) if !pending.is_empty());
            if self.drain.is_cancelled() || !missed || !lock(&self.driven).insert(chat) {
                return;
            }
        }
    }

    /// Waits for the store to come back: about so long, or until it took a command for the chat. False if the process ends
    /// first.
    async fn bide(&self, chat: ChatId, pause: Duration) -> bool {
        let chance = 0.5 + self.entropy.unit(); // Or all chats would ask the store at the same moment.
        let bell = self.hub.bell(chat);
        let _ = bell.inbox.notified().now_or_never(); // It rang for the driver that is gone.
        tokio::select! {
            () = self.drain.cancelled() => false,
            () = bell.inbox.notified() => true,
            () = sleep(pause.mul_f64(chance)) => true,
        }
    }

    /// Ends the turn of a chat that no driver survives, so that it rests and says why. What was shown is kept.
    async fn give_up(self: Arc<Self>, chat: ChatId) {
        let message = format!("This turn crashed its driver {PANICS_MAX} times and was ended; see the log.");
        let failure = TurnFailure { kind: ErrorKind::Generic, message, detail: String::new(), attempts: 0 };
        let ended = async {
            let mut lease = self.acquire(chat).await?;
            let Loaded { chat, rows, .. } = self.store.load(&lease).await?;
            let shown = |stop| {
                let draft = Draft::of_rows(&rows).ok().flatten()?;
                let ended = draft.newest_at();
                draft.seal(stop, ended, None).filter(|reply| !reply.parts.is_empty())
            };
            let mut change = Change::new(&chat, self.clock.now());
            match chat.status {
                Status::Running => change.fail(shown(Stop::Broken), failure),
                Status::Interrupting => change.settle(shown(Stop::Interrupted)),
                Status::Idle | Status::Awaiting | Status::Failed => return Ok(()),
            };
            self.store.commit(&mut lease, &change.facts()).await.map(|_| ())
        };
        let ended: Result<(), WriteError> = ended.await;
        self.hub.bell(chat).ring();
        tracing::error!(%chat, ?ended, "the driver keeps panicking, the turn is ended");
    }

    /// Waits until the chat may be driven: on a place, or without one if somebody wants something of it meanwhile. None
    /// if the process ends first.
    async fn admit(&self, chat: ChatId, line: Option<Waiting>) -> Option<Seat> {
        if self.drain.is_cancelled() {
            return None;
        }
        let mut waiting = match line {
            Some(waiting) => waiting,
            None => {
                if let Some(place) = self.places.take() {
                    return Some(Seat::on(place));
                }
                // A store that cannot say whose it is will tell the driver so.
                let owner = self.store.heading(chat).await.map(|heading| heading.owner).unwrap_or_default();
                self.places.line_up(&owner)
            }
        };
        let bell = self.hub.bell(chat);
        loop {
            tokio::select! {
                biased;
                () = self.drain.cancelled() => return None,
                place = waiting.place() => return Some(Seat::on(place)),
                () = bell.inbox.notified() => {}
            }
            if matches!(self.store.inbox(chat).await, Ok(pending) if !pending.is_empty()) {
                let obeying = self.obeying.clone().acquire_owned().await.ok();
                return Some(Seat { line: Some(waiting), obeying, ..Seat::default() });
            }
        }
    }

    async fn advance_on(self: Arc<Self>, chat: ChatId, seat: Seat) -> Result<Parked, WriteError> {
        let lease = self.acquire(chat).await?;
        Driver::take(self, lease, seat).await?.run().await
    }

    /// Advances a chat for whoever drives by hand.
    pub(crate) async fn advance(self: Arc<Self>, chat: ChatId) -> Result<(), WriteError> {
        let seat = Seat { place: self.places.take(), ..Seat::default() };
        self.advance_on(chat, seat).await.map(|_| ())
    }
}
