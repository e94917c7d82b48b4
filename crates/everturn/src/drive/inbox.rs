//! Hearing what the inbox says while something else goes on.
//!
//! A store may take its time, or be away for a moment. Neither is a reason to keep deltas waiting or to give up an answer
//! that is being paid for: whatever has to be written finds out by itself that there is no store, and a command that could
//! not be obeyed just now stays where it is.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use everturn_core::command::Command;
use everturn_core::ids::ChatId;
use everturn_stores::{InboxCommand, StoreError, StoreExt as _, WriteError};
use futures_util::FutureExt as _;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::drive::Driver;
use crate::engine::Ports;
use crate::util::poll_on_wake::Dormant;

/// About how long it is until an inbox that could not be read is read again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

type Reading = Pin<Box<dyn Future<Output = Result<Vec<InboxCommand>, StoreError>> + Send>>;

/// What listens. At most one read is under way.
#[derive(Default)]
struct Ear(Option<Reading>);

impl Ear {
    const fn is_reading(&self) -> bool {
        self.0.is_some()
    }

    /// Begins to read the inbox.
    fn read(&mut self, ports: &Arc<Ports>, chat: ChatId) {
        let ports = ports.clone();
        self.0 = Some(Box::pin(async move { inbox(&ports, chat).await }));
    }

    /// Begins to read it a little later.
    fn read_later(&mut self, ports: &Arc<Ports>, chat: ChatId) {
        let ports = ports.clone();
        self.0 = Some(Box::pin(async move {
            sleep(LOOK_AGAIN.mul_f64(0.5 + ports.entropy.unit())).await;
            inbox(&ports, chat).await
        }));
    }

    /// What the inbox held. Dropping the future loses nothing.
    async fn heard(&mut self) -> Result<Vec<InboxCommand>, StoreError> {
        let Some(reading) = &mut self.0 else { return std::future::pending().await };
        let pending = reading.await;
        self.0 = None;
        pending
    }
}

impl Driver {
    /// How long the turn may still work.
    pub(crate) fn time_left(&self) -> Duration {
        let worked = self.chat.turn.as_ref().map_or(Duration::ZERO, |turn| turn.worked(self.turn_clock.now()));
        self.agent.limits.turn_time_max.saturating_sub(worked)
    }

    /// Runs `act` to its end while listening. Whoever wants the turn stopped makes `cancel` fire, and so do a halt and the
    /// end of the turn's time; everyone else is obeyed at once, or when the store can write that down.
    pub(crate) async fn listening<T>(
        &mut self,
        act: impl Future<Output = T>,
        cancel: &CancellationToken,
    ) -> Result<T, WriteError> {
        let mut act = pin!(act);
        let (bell, halt) = (self.bell.clone(), self.halt.clone());
        let (halted, late) = (pin!(halt.cancelled()), pin!(sleep(self.time_left())));
        let (mut ear, mut halted, mut late) = (Ear::default(), Dormant::new(halted), Dormant::new(late));
        loop {
            let letter = pin!(bell.inbox.notified());
            let mut letter = Dormant::new(letter);
            tokio::select! {
                biased;
                () = &mut letter, if !ear.is_reading() => ear.read(&self.ports, self.chat.id),
                pending = ear.heard(), if ear.is_reading() => match self.heed(pending?, cancel).await {
                    Err(WriteError::Store(away @ StoreError::Unavailable(_))) => {
                        (self.doubt, self.shaken) = (Some(away.clone()), Some(away));
                        ear.read_later(&self.ports, self.chat.id);
                    }
                    Err(WriteError::Fenced) if self.doubt.is_some() => {} // Until the chat is taken anew, below.
                    heeded => heeded?,
                },
                () = &mut halted, if !cancel.is_cancelled() => cancel.cancel(),
                done = &mut act => {
                    if ear.is_reading() || self.doubt.is_some() {
                        bell.inbox.notify_one(); // For whoever listens next.
                    }
                    if let Some(away) = self.doubt.take() {
                        self.chat = self.retake(away).await?;
                    }
                    return Ok(done);
                }
                () = &mut late, if !cancel.is_cancelled() => match self.time_left() {
                    Duration::ZERO => cancel.cancel(), // The plan knows why.
                    left => late.get_mut().set(sleep(left)), // The clock was put back.
                },
            }
        }
    }

    /// Does what the inbox said, unless somebody wants the turn stopped.
    async fn heed(&mut self, mut pending: Vec<InboxCommand>, cancel: &CancellationToken) -> Result<(), WriteError> {
        let stops = |inbound: &InboxCommand| inbound.stops(&self.chat, |id| self.is_users(id));
        if pending.iter().any(stops) {
            cancel.cancel(); // Obeyed once the draft is back, or the tools are.
            return Ok(());
        }
        if self.doubt.is_some() {
            self.chat = self.ports.store.load(&self.lease).await?.chat;
            self.doubt = None;
        }
        pending.retain(|inbound| inbound.seq > self.chat.obeyed);
        for inbound in pending {
            let facts = self.obeyed(inbound);
            self.commit_now(facts).await?;
        }
        Ok(())
    }

    /// Obeys at once who wants the turn stopped, so that everybody sees that it stops. Who replaces what is still being
    /// said has to wait until it is.
    pub(crate) async fn acknowledge(&mut self) -> Result<(), WriteError> {
        let Some(pending) = self.halt.run_until_cancelled(inbox(&self.ports, self.chat.id)).await else {
            return Ok(()); // The process stops: the turn goes on elsewhere.
        };
        for inbound in pending?.into_iter().take_while(|inbound| !matches!(inbound.command, Command::Edit { .. })) {
            self.obey(inbound).await?;
        }
        Ok(())
    }

    /// Listens if the bell has rung. For where nothing may begin any more once somebody wants the turn stopped.
    pub(crate) async fn listen_if_rung(&mut self, cancel: &CancellationToken) -> Result<(), WriteError> {
        if self.bell.inbox.notified().now_or_never().is_none() {
            return Ok(());
        }
        let pending = self.halt.run_until_cancelled(inbox(&self.ports, self.chat.id)).await;
        let Some(pending) = pending else {
            return Err(StoreError::Unavailable("the inbox could not be read in time".into()).into());
        };
        match self.heed(pending?, cancel).await {
            Err(WriteError::Store(away @ StoreError::Unavailable(_))) => {
                self.bell.inbox.notify_one(); // For whoever listens next.
                self.chat = self.retake(away).await?;
                Ok(())
            }
            heeded => heeded,
        }
    }
}

/// What the inbox holds, as soon as the store can say so.
async fn inbox(ports: &Ports, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
    loop {
        match ports.store.inbox(chat).await {
            Err(StoreError::Unavailable(why)) => {
                tracing::debug!(%chat, why, "the inbox cannot be read, later then");
                sleep(LOOK_AGAIN.mul_f64(0.5 + ports.entropy.unit())).await;
            }
            read => return read,
        }
    }
}
