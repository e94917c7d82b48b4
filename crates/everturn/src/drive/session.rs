//! Waiting for a store that is away.
//!
//! What a driver has to write may be all there is of it: what came of a tool that must not run twice, or the end of an
//! answer that was paid for. So it waits for its store with that in hand, for as long as its process may drive. Whoever
//! drives by hand is told instead, and decides.
//!
//! A write that failed may have happened all the same, or happen yet. Once the chat is taken anew nothing of before can
//! happen any more, and the version says what did.

use everturn_core::chat::Chat;
use everturn_core::draft::Draft;
use everturn_core::fact::Fact;
use everturn_core::ids::Seq;
use everturn_stores::{Loaded, StoreError, StoreExt as _, WriteError};
use tokio::time::sleep;

use crate::drive::Driver;
use crate::engine::{Drivers, lock};
use crate::process::{STORE_RETRY, STORE_RETRY_MAX};

impl Driver {
    /// Writes a change, whenever the store is there to take it.
    pub(crate) async fn write(&mut self, facts: &[Fact]) -> Result<(), WriteError> {
        loop {
            let away = match self.ports.store.commit(&mut self.lease, facts).await {
                Err(WriteError::Store(away @ StoreError::Unavailable(_))) => away,
                written => return written.map(|_| ()),
            };
            if self.retake(away).await?.version != self.chat.version {
                return Ok(()); // It did happen.
            }
        }
    }

    /// Takes the chat anew as soon as that can be done, and says where it stands. Not while an attempt goes on: it could
    /// not write any more.
    pub(crate) async fn retake(&mut self, away: StoreError) -> Result<Chat, WriteError> {
        let mut pause = STORE_RETRY;
        while self.insists() {
            tracing::warn!(chat = %self.chat.id, %away, "a driver waits with what it has to write");
            let span = pause.mul_f64(0.5 + self.ports.entropy.unit()); // Or all chats would ask at the same moment.
            if self.halt.run_until_cancelled(sleep(span)).await.is_none() {
                break;
            }
            pause = (pause * 2).min(STORE_RETRY_MAX);
            match self.take_again().await {
                Err(WriteError::Store(StoreError::Unavailable(_))) => {}
                Err(WriteError::OutOfPlace) => break, // Somebody else has to find out where it stands.
                taken => return taken,
            }
        }
        Err(away.into())
    }

    /// Whether it waits for its store: if the engine drives, and nobody else can have had the chat since it was loaded.
    pub(crate) fn insists(&self) -> bool {
        let is_known = lock(&self.ports.known).get(&self.chat.id) == Some(&self.lease.fence());
        self.ports.drivers == Drivers::Spawned && is_known
    }

    async fn take_again(&mut self) -> Result<Chat, WriteError> {
        self.lease = self.ports.acquire(self.chat.id).await?;
        if !self.insists() {
            return Err(WriteError::OutOfPlace); // Another process had it meanwhile.
        }
        let Loaded { chat, rows, .. } = self.ports.store.load(&self.lease).await?;
        let is_ours = [self.chat.version, self.chat.version.next()].contains(&chat.version);
        let end = rows.last().map_or(Seq(0), |row| row.seq);
        // A database that crashed may have lost the newest of a draft.
        let is_whole = chat.step != self.chat.step || self.draft.as_ref().map_or(end, Draft::seq) == end;
        if is_ours && is_whole { Ok(chat) } else { Err(WriteError::OutOfPlace) }
    }
}
