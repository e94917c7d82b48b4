//! Drafts that others wrote: [`everturn_core::inherited`].

use everturn_core::chat::Chat;
use everturn_core::draft::Draft;
use everturn_core::fact::Fact;
use everturn_core::ids::Seq;
use everturn_core::status::Status;
use everturn_core::view::Cursor;
use everturn_stores::WriteError;

use crate::drive::{Driver, Parked};
use crate::engine::{Ports, lock};

impl Ports {
    /// How far the journal of the open step goes, if more of it may have been shown than there is: a database can lose
    /// its newest rows while its clients live on, so this process's own count as well. Only a chat that runs has any.
    pub(crate) fn found(&self, chat: &Chat, seq: Seq) -> Option<Seq> {
        let parked = lock(&self.parked).remove(&chat.id);
        let stands = Cursor { version: chat.version, step: chat.step, seq };
        (chat.status == Status::Running && parked != Some(stands)).then_some(seq)
    }
}

impl Driver {
    /// Writes down how far the draft goes that was found, before it grows.
    pub(crate) async fn inherit(&mut self) -> Result<(), WriteError> {
        match self.found.take() {
            Some(seq) => self.change(|change| change.fact(Fact::Inherited(seq))).await,
            None => Ok(()),
        }
    }

    /// Remembers where the chat stands that waits for a place here.
    pub(crate) fn stay_in_line(&self, parked: &Result<Parked, WriteError>) {
        if let (Ok(Parked::InLine(_)), None) = (parked, self.found) {
            let seq = self.draft.as_ref().map_or(Seq(0), Draft::seq);
            let stands = Cursor { version: self.chat.version, step: self.chat.step, seq };
            lock(&self.ports.parked).insert(self.chat.id, stands);
        }
    }
}
