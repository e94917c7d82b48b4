//! What exists only because another process may have died: turns taken over in the middle, drafts found in the journal,
//! and chats that kill the processes that drive them.
//!
//! **Counting.** Before the first work on a turn that another process left, the takeover is committed
//! ([`everturn_core::quarantine`]): if this process dies of it too, the next one sees that. A chat that was taken over too
//! often is suspect and works alone for a while, and one beyond that has its turn ended.
//!
//! **Cursors.** A database can lose its newest rows while its clients live on. So the end of a journal that was found is
//! committed before it grows, and cursors beyond it are refused ([`everturn_core::takeover`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::chat::Chat;
use everturn_core::draft::Draft;
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::fact::Fact;
use everturn_core::ids::{ChatId, Fence, Seq, StepId};
use everturn_core::quarantine::TakeoverCount;
use everturn_core::status::Status;
use everturn_core::view::Cursor;
use everturn_stores::{Lease, StoreError, WriteError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::drive::Parked;
use crate::drive::compaction::Fitting;
use crate::drive::inbox;
use crate::drive::session::ChatSession;
use crate::drive::step::fail;
use crate::observe::log;
use crate::util::lock;

/// How long a suspect chat works alone, at most.
const ISOLATION_MAX: Duration = Duration::from_secs(10);

/// What this process remembers of chats, to tell its own from those that another process left.
pub(crate) struct Takeovers {
    /// Chats under way that this process began or has committed the takeover of, and under which lease.
    known: Mutex<HashMap<ChatId, Fence>>,
    /// Where chats stood when this process parked them. One that is found there again has lost nothing meanwhile.
    parked: Mutex<HashMap<ChatId, Cursor>>,
    /// One permit: suspect chats work one at a time.
    suspects: Arc<Semaphore>,
}

impl Default for Takeovers {
    fn default() -> Self {
        Self { known: Mutex::default(), parked: Mutex::default(), suspects: Arc::new(Semaphore::new(1)) }
    }
}

impl Takeovers {
    /// Notes a new lease. A process that acquires a chat again before any other had it still knows the chat, whatever
    /// became of the lease in between.
    pub(crate) fn acquired(&self, lease: &Lease) {
        if let Some(known) = lock(&self.known).get_mut(&lease.chat()).filter(|known| **known == lease.before()) {
            *known = lease.fence();
        }
    }

    /// Whether no other process had the chat since this one began it or took it over.
    pub(crate) fn is_own(&self, lease: &Lease) -> bool {
        lock(&self.known).get(&lease.chat()) == Some(&lease.fence())
    }

    fn own(&self, lease: &Lease) {
        lock(&self.known).insert(lease.chat(), lease.fence());
    }

    /// Whether the chat is in the middle of a turn that another process left. Any other chat is this process's own from
    /// now on.
    fn take(&self, lease: &Lease, status: Status) -> bool {
        let is_under_way = matches!(status, Status::Running | Status::Interrupting);
        if !is_under_way {
            self.own(lease);
        }
        is_under_way && !self.is_own(lease)
    }

    /// The end of the open step's journal, if subscribers may have seen more than there is: only if the chat runs, and
    /// unless this process parked it just there.
    fn journal_end(&self, chat: &Chat, seq: Seq) -> Option<Seq> {
        let parked = lock(&self.parked).remove(&chat.id);
        let stands = Cursor { version: chat.version, step: chat.step, seq };
        (chat.status == Status::Running && parked != Some(stands)).then_some(seq)
    }

    /// Forgets a chat that rests or is gone.
    pub(crate) fn driver_ended(&self, chat: ChatId, parked: &Result<Parked, WriteError>) {
        match parked {
            Ok(Parked::Resting) | Err(WriteError::Store(StoreError::NoSuchChat)) => {
                lock(&self.known).remove(&chat);
            }
            Ok(Parked::InLine(_) | Parked::HandedOver) | Err(_) => {}
        }
    }
}

/// How a driver came by its chat.
pub(crate) struct Takeover {
    /// The end of the journal that was found, until it is committed as [`Fact::Inherited`].
    journal_end: Option<(StepId, Seq)>,
    phase: Phase,
}

enum Phase {
    /// The turn was begun here, or its takeover is committed.
    Own,
    /// The turn was left by another process, and its takeover is not committed yet.
    LeftBehind,
    /// A suspect turn works alone. Dropping the guard lets the next suspect work.
    Isolated(DropGuard),
}

impl Takeover {
    pub(crate) fn of(session: &ChatSession) -> Self {
        let takeovers = &session.env.shared.takeovers;
        let chat = &session.chat;
        let left_behind = takeovers.take(session.lease(), chat.status);
        let end = takeovers.journal_end(chat, seq_of(session));
        let phase = if left_behind { Phase::LeftBehind } else { Phase::Own };
        Self { journal_end: end.map(|seq| (chat.step, seq)), phase }
    }

    /// Whether the takeover has to be committed before anything is done that may have killed the last process.
    pub(crate) const fn is_due(&self) -> bool {
        matches!(self.phase, Phase::LeftBehind)
    }

    /// Commits that the turn was taken over, or ends it if that happened too often.
    pub(crate) async fn record(&mut self, session: &mut ChatSession, fitting: &mut Fitting) -> Result<(), WriteError> {
        let taken = TakeoverCount::again(&session.chat, session.step.draft.as_ref());
        let agent = session.env.agent.clone();
        let mut phase = Phase::Own;
        if taken.is_deadly(&agent.limits) {
            let chat = session.chat.id;
            tracing::error!(%chat, ?taken, "chat quarantined: every process that drove it died, its turn is ended");
            let provider = session.target().map(|target| target.model.provider().to_owned()).unwrap_or_default();
            fail(session, fitting, &ProviderError::new(provider, ErrorKind::Quarantine), None).await?;
        } else {
            if taken.is_suspect(&agent.limits) {
                let Some(guard) = isolate(session).await? else { return Ok(()) }; // The next plan knows why.
                phase = Phase::Isolated(guard);
            }
            let end = self.take_journal_end(session).map(Fact::Inherited);
            session.change(|change| end.into_iter().fold(change.fact(Fact::TakenUp(taken)), Change::fact)).await?;
        }
        self.phase = phase;
        session.env.shared.metrics.took_over();
        log::took_over(&session.chat, session.step.draft.is_some());
        session.env.shared.takeovers.own(session.lease());
        Ok(())
    }

    /// Commits the end of the journal that was found, before the draft grows.
    pub(crate) async fn record_journal_end(&mut self, session: &mut ChatSession) -> Result<(), WriteError> {
        match self.take_journal_end(session) {
            Some(seq) => session.change(|change| change.fact(Fact::Inherited(seq))).await,
            None => Ok(()),
        }
    }

    /// The end that was found, unless the chat is at another step by now.
    fn take_journal_end(&mut self, session: &ChatSession) -> Option<Seq> {
        self.journal_end.take().filter(|(step, _)| *step == session.chat.step).map(|(_, seq)| seq)
    }

    /// Lets the next suspect work, once a process that took over this chat now would find nothing against it.
    pub(crate) fn end_isolation_if_cleared(&mut self, session: &ChatSession) {
        let taken = || TakeoverCount::again(&session.chat, session.step.draft.as_ref());
        if matches!(self.phase, Phase::Isolated(_)) && !taken().is_suspect(&session.env.agent.limits) {
            self.phase = Phase::Own;
        }
    }

    /// Moves the isolation guard into an attempt, which drops it at the first stored delta. Kept here if tools are the
    /// suspect: output of the model proves nothing about them.
    pub(crate) fn lend_guard(&mut self, session: &ChatSession) -> Option<DropGuard> {
        if session.chat.taken.are_tools_suspect(&session.env.agent.limits) {
            return None;
        }
        match std::mem::replace(&mut self.phase, Phase::Own) {
            Phase::Isolated(guard) => Some(guard),
            phase => {
                self.phase = phase;
                None
            }
        }
    }

    /// Takes back what [`Takeover::lend_guard`] lent, if the attempt still has it.
    pub(crate) fn take_back_guard(&mut self, guard: Option<DropGuard>) {
        if let Some(guard) = guard {
            self.phase = Phase::Isolated(guard);
        }
    }

    /// Remembers where a chat stands that waits in line for a work slot of this process.
    pub(crate) fn remember_parked(&self, session: &ChatSession, parked: &Result<Parked, WriteError>) {
        let chat = &session.chat;
        let is_recorded = self.journal_end.is_none_or(|(step, _)| step != chat.step);
        if matches!(parked, Ok(Parked::InLine(_))) && is_recorded {
            let stands = Cursor { version: chat.version, step: chat.step, seq: seq_of(session) };
            lock(&session.env.shared.takeovers.parked).insert(chat.id, stands);
        }
    }
}

/// Resets the takeover counter before a graceful shutdown, which does not count as a crash.
pub(crate) async fn reset_count(session: &mut ChatSession) -> Result<(), WriteError> {
    if session.chat.taken == TakeoverCount::default() || !session.env.shared.stop.drain.is_cancelled() {
        return Ok(());
    }
    session.change(|change| change.fact(Fact::TakenUp(TakeoverCount::default()))).await
}

/// How far the open step's journal goes.
fn seq_of(session: &ChatSession) -> Seq {
    session.step.draft.as_ref().map_or(Seq(0), Draft::seq)
}

/// Waits until no other suspect chat works, and keeps others out for a moment, or until the guard is dropped. `None` if the
/// turn is to stop meanwhile.
async fn isolate(session: &mut ChatSession) -> Result<Option<DropGuard>, WriteError> {
    let shared = session.env.shared.clone();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let permit = async move {
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = shared.stop.drain.cancelled() => None,
            permit = shared.takeovers.suspects.clone().acquire_owned() => permit.ok(),
        }
    };
    let permit = inbox::listen_during(session, permit, &cancel).await?;
    Ok(permit.map(hold_for_a_while))
}

fn hold_for_a_while(permit: OwnedSemaphorePermit) -> DropGuard {
    let over = CancellationToken::new();
    let guard = over.clone().drop_guard();
    tokio::spawn(async move {
        let _ = timeout(ISOLATION_MAX, over.cancelled()).await;
        drop(permit);
    });
    guard
}
