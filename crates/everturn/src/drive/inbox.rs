//! The inbox of a chat: reading it, and applying its commands, also while something else runs.
//!
//! The store may be slow, or unavailable for a moment. Neither is a reason to hold deltas back or to give up an answer
//! that is being paid for: a write that is due meets the outage by itself, and a command that could not be applied stays
//! in the inbox.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::command::{Command, InboxCommand, check};
use everturn_core::fact::{AttemptOutcome, Fact};
use everturn_core::ids::ChatId;
use everturn_stores::{Store, StoreError, WriteError};
use futures_util::FutureExt as _;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::drive::compaction::Fitting;
use crate::drive::session::{ChatSession, OnOutage};
use crate::drive::step::record::{EndedAttempt, end_attempt};
use crate::drive::tools::{rest, result};
use crate::process::Shared;
use crate::util::poll_on_wake::PollOnWake;

/// About how long a driver waits before it reads an inbox again that could not be read.
const READ_RETRY: Duration = Duration::from_secs(1);

type Reading = Pin<Box<dyn Future<Output = Result<Vec<InboxCommand>, StoreError>> + Send>>;

/// The commands in the inbox, oldest first.
async fn read(store: &dyn Store, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
    store.inbox(chat).await
}

/// Whether the inbox holds no command.
pub(crate) async fn is_empty(store: &dyn Store, chat: ChatId) -> Result<bool, StoreError> {
    Ok(read(store, chat).await?.is_empty())
}

/// The commands in the inbox, as soon as the store can be read.
async fn read_when_available(shared: &Shared, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError> {
    loop {
        match read(&*shared.store, chat).await {
            Err(StoreError::Unavailable(why)) => {
                tracing::debug!(%chat, why, "store unavailable: reading the inbox again later");
                sleep(READ_RETRY.mul_f64(0.5 + shared.entropy.unit())).await;
            }
            read => return read,
        }
    }
}

/// Applies every command in the inbox, oldest first. Nothing else runs.
pub(crate) async fn apply_all(session: &mut ChatSession, fitting: &mut Fitting) -> Result<(), WriteError> {
    for inbound in read(&*session.env.shared.store, session.chat.id).await? {
        session.reload().await?;
        let replaces = matches!(inbound.command, Command::Edit { .. }) && verdict(session, &inbound).is_ok();
        // An edit replaces the step under way: its attempt gets a row first.
        if replaces {
            rest::let_go_all(session).await;
        }
        let lost = if replaces { end_attempt(session, fitting, AttemptOutcome::Lost) } else { None };
        let facts = facts_of(session, inbound, lost.map(EndedAttempt::fact));
        session.commit(facts, OnOutage::Wait).await?;
    }
    Ok(())
}

/// Applies the commands that wait while tools wind down, so that readers see at once that the turn stops. An edit replaces
/// what is still being written, so it and those behind it wait until that is over.
pub(crate) async fn apply_up_to_edit(session: &mut ChatSession) -> Result<(), WriteError> {
    let shared = session.env.shared.clone();
    let pending = read_when_available(&shared, session.chat.id);
    let Some(pending) = session.env.halt.run_until_cancelled(pending).await else {
        return Ok(()); // The process stops: the turn goes on elsewhere.
    };
    for inbound in pending?.into_iter().take_while(|inbound| !matches!(inbound.command, Command::Edit { .. })) {
        let facts = facts_of(session, inbound, None);
        session.commit(facts, OnOutage::Wait).await?;
    }
    Ok(())
}

fn verdict(session: &ChatSession, inbound: &InboxCommand) -> Result<(), everturn_core::command::Refusal> {
    check(&session.chat, &inbound.command, |id| session.transcript.is_users(id))
}

/// The facts of applying a command, behind the row of an attempt that it ends.
fn facts_of(session: &ChatSession, inbound: InboxCommand, attempted: Option<Fact>) -> Vec<Fact> {
    let verdict = verdict(session, &inbound);
    let command = result::bounded_answers(session, inbound.command);
    let inbound = InboxCommand { command, ..inbound };
    let mut change = Change::new(&session.chat, session.now());
    if let Some(attempted) = attempted {
        change.fact(attempted);
    }
    change.obey(&inbound, verdict);
    change.facts()
}

/// Runs `act` to its end and applies commands meanwhile. A command that stops the turn makes `cancel` fire, and so do a
/// halt and the end of the turn's time; every other one is applied at once, or when the store can write it.
pub(crate) async fn listen_during<T>(
    session: &mut ChatSession,
    act: impl Future<Output = T>,
    cancel: &CancellationToken,
) -> Result<T, WriteError> {
    let mut act = pin!(act);
    let signals = session.env.signals.clone();
    let halt = session.env.halt.clone();
    let halted = pin!(halt.cancelled());
    let mut halted = PollOnWake::new(halted);
    let late = pin!(sleep(session.time_left()));
    let mut late = PollOnWake::new(late);
    let mut reader = InboxReader::default();
    loop {
        let command = pin!(signals.inbox.notified());
        let mut command = PollOnWake::new(command);
        tokio::select! {
            biased;
            () = &mut command, if !reader.is_reading() => reader.read(&session.env.shared, session.chat.id),
            pending = reader.done(), if reader.is_reading() => {
                match apply_during(session, pending?, cancel).await {
                    Err(WriteError::Store(outage @ StoreError::Unavailable(_))) => {
                        session.doubt(outage);
                        reader.read_later(&session.env.shared, session.chat.id);
                    }
                    Err(WriteError::Fenced) if session.is_in_doubt() => {} // The lease is acquired again below.
                    applied => applied?,
                }
            }
            () = &mut halted, if !cancel.is_cancelled() => cancel.cancel(),
            done = &mut act => {
                if reader.is_reading() || session.is_in_doubt() {
                    signals.inbox.notify_one(); // For the next read.
                }
                session.settle_doubt_anew().await?;
                return Ok(done);
            }
            () = &mut late, if !cancel.is_cancelled() => match session.time_left() {
                Duration::ZERO => cancel.cancel(), // The next plan ends the turn.
                left => late.get_mut().set(sleep(left)), // The clock was put back.
            },
        }
    }
}

/// Applies commands while something runs; only cancels it if one of them stops the turn.
async fn apply_during(
    session: &mut ChatSession,
    mut pending: Vec<InboxCommand>,
    cancel: &CancellationToken,
) -> Result<(), WriteError> {
    let stops = |inbound: &InboxCommand| inbound.stops(&session.chat, |id| session.transcript.is_users(id));
    if pending.iter().any(stops) {
        cancel.cancel(); // Applied once the draft is back, or the tools are.
        return Ok(());
    }
    session.settle_doubt().await?;
    pending.retain(|inbound| inbound.seq > session.chat.obeyed);
    for inbound in pending {
        let facts = facts_of(session, inbound, None);
        session.commit(facts, OnOutage::Fail).await?;
    }
    Ok(())
}

/// Applies commands now if the inbox has signalled any. For places where nothing may begin any more once a command stops
/// the turn.
pub(crate) async fn apply_if_signalled(
    session: &mut ChatSession,
    cancel: &CancellationToken,
) -> Result<(), WriteError> {
    if session.env.signals.inbox.notified().now_or_never().is_none() {
        return Ok(());
    }
    let shared = session.env.shared.clone();
    let pending = read_when_available(&shared, session.chat.id);
    let Some(pending) = session.env.halt.run_until_cancelled(pending).await else {
        return Err(StoreError::Unavailable("the inbox could not be read in time".into()).into());
    };
    match apply_during(session, pending?, cancel).await {
        Err(WriteError::Store(outage @ StoreError::Unavailable(_))) => {
            session.env.signals.inbox.notify_one(); // For the next read.
            session.resync(outage).await
        }
        applied => applied,
    }
}

/// Reads the inbox beside something else. At most one read is under way.
#[derive(Default)]
struct InboxReader(Option<Reading>);

impl InboxReader {
    const fn is_reading(&self) -> bool {
        self.0.is_some()
    }

    fn read(&mut self, shared: &Arc<Shared>, chat: ChatId) {
        let shared = shared.clone();
        self.0 = Some(Box::pin(async move { read_when_available(&shared, chat).await }));
    }

    fn read_later(&mut self, shared: &Arc<Shared>, chat: ChatId) {
        let shared = shared.clone();
        self.0 = Some(Box::pin(async move {
            sleep(READ_RETRY.mul_f64(0.5 + shared.entropy.unit())).await;
            read_when_available(&shared, chat).await
        }));
    }

    /// The commands that were read. Dropping the future loses nothing.
    async fn done(&mut self) -> Result<Vec<InboxCommand>, StoreError> {
        let Some(reading) = &mut self.0 else { return std::future::pending().await };
        let pending = reading.await;
        self.0 = None;
        pending
    }
}
