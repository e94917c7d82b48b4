//! The task that keeps one chat driven: it admits the driver, starts it again after outages and panics, and ends the turn
//! of a chat that no driver survives.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::chat::TurnFailure;
use everturn_core::draft::Draft;
use everturn_core::error::ErrorKind;
use everturn_core::ids::ChatId;
use everturn_core::message::Stop;
use everturn_core::status::Status;
use everturn_stores::{Loaded, StoreError, StoreExt as _, WriteError};
use futures_util::FutureExt as _;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};

use crate::admission::slots::{Admission, SlotWait};
use crate::drive::{Driver, Parked, inbox};
use crate::process::{STORE_RETRY, STORE_RETRY_MAX, Shared, damaged};

/// A driver that ran this long resets the pause before the next try.
const STORE_WELL: Duration = Duration::from_secs(60);
/// Panics in a row after which a chat's turn is ended.
const PANICS_MAX: u32 = 3;

/// What a supervisor remembers from one driver to the next.
struct Attempts {
    panics: u32,
    /// The pause before the next try on an unavailable store.
    pause: Duration,
    line: Option<SlotWait>,
}

/// Drives a chat until it rests, is handed over or cannot be driven here.
pub(crate) async fn drive(shared: Arc<Shared>, chat: ChatId) {
    let mut attempts = Attempts { panics: 0, pause: STORE_RETRY, line: None };
    loop {
        let Some(admission) = admit(&shared, chat, attempts.line.take()).await else {
            shared.driven.remove(chat);
            return;
        };
        // A task of its own, so that a panic is caught here instead of leaving the chat without a driver.
        let began = Instant::now();
        let ended = tokio::spawn(advance_with(shared.clone(), chat, admission)).await;
        shared.metrics.driver_ended(&ended);
        if began.elapsed() >= STORE_WELL {
            attempts.pause = STORE_RETRY;
        }
        match after_driver(&shared, chat, ended, &mut attempts).await {
            AfterDriver::Restart => continue,
            AfterDriver::LeaveAlone => {
                shared.driven.remove(chat);
                shared.signals.ring(chat); // Waiting handles learn that no commit comes.
                return;
            }
            AfterDriver::Rest => {}
        }
        shared.driven.remove(chat);
        let missed = matches!(inbox::is_empty(&*shared.store, chat).await, Ok(false));
        if shared.stop.drain.is_cancelled() || !missed || !shared.driven.insert(chat) {
            return;
        }
    }
}

/// What a supervisor does after a driver.
enum AfterDriver {
    Restart,
    /// Nothing, unless a command arrived meanwhile.
    Rest,
    /// Nothing: not even commands can be applied.
    LeaveAlone,
}

async fn after_driver(
    shared: &Arc<Shared>,
    chat: ChatId,
    ended: Result<Result<Parked, WriteError>, JoinError>,
    attempts: &mut Attempts,
) -> AfterDriver {
    match ended {
        Ok(Ok(Parked::InLine(line))) => {
            attempts.line = line;
            AfterDriver::Restart
        }
        Ok(Err(WriteError::Store(StoreError::Unavailable(why)))) => {
            tracing::warn!(%chat, why, "store unavailable: the driver is started again later");
            if wait_for_store(shared, chat, attempts.pause).await.is_break() {
                return AfterDriver::Rest;
            }
            attempts.pause = (attempts.pause * 2).min(STORE_RETRY_MAX);
            AfterDriver::Restart
        }
        Err(join) if join.is_panic() && attempts.panics + 1 < PANICS_MAX => {
            tracing::error!(%chat, %join, "driver panicked, started again");
            attempts.panics += 1;
            AfterDriver::Restart
        }
        Err(join) if join.is_panic() => {
            drop(tokio::spawn(end_turn(shared.clone(), chat)).await);
            AfterDriver::Rest
        }
        Ok(Ok(Parked::Resting | Parked::HandedOver)) | Err(_) => AfterDriver::Rest,
        Ok(Err(WriteError::Store(StoreError::Damaged(why)))) => {
            damaged::set_aside(shared, chat, why).await;
            AfterDriver::LeaveAlone
        }
        Ok(Err(error)) => {
            tracing::info!(%chat, %error, "chat cannot be driven by this process");
            if let WriteError::Store(error @ StoreError::Unreadable(_)) = error {
                shared.driven.set_unreadable(chat, error);
            }
            AfterDriver::LeaveAlone
        }
    }
}

/// Waits for the store to come back: about this long, or until it accepted a command for the chat. Breaks if the process
/// ends first.
async fn wait_for_store(shared: &Shared, chat: ChatId, pause: Duration) -> ControlFlow<()> {
    let chance = 0.5 + shared.entropy.unit(); // Or all chats would ask the store at the same moment.
    let signals = shared.signals.of(chat);
    let _ = signals.inbox.notified().now_or_never(); // It was for the driver that is gone.
    tokio::select! {
        () = shared.stop.drain.cancelled() => ControlFlow::Break(()),
        () = signals.inbox.notified() => ControlFlow::Continue(()),
        () = sleep(pause.mul_f64(chance)) => ControlFlow::Continue(()),
    }
}

/// Ends the turn of a chat that no driver survives, so that it rests and says why. What was shown is kept.
async fn end_turn(shared: Arc<Shared>, chat: ChatId) {
    let message = format!("This turn crashed its driver {PANICS_MAX} times and was ended; see the log.");
    let failure = TurnFailure { kind: ErrorKind::Generic, message, detail: String::new(), attempts: 0 };
    let ended = async {
        let mut lease = shared.acquire(chat).await?;
        let Loaded { chat, rows, .. } = shared.store.load(&lease).await?;
        let shown = |stop| {
            let draft = Draft::of_rows(&rows).ok().flatten()?;
            let ended = draft.newest_at();
            draft.seal(stop, ended, None).filter(|reply| !reply.parts.is_empty())
        };
        let mut change = Change::new(&chat, shared.clock.now());
        match chat.status {
            Status::Running => change.fail(shown(Stop::Broken), failure),
            Status::Interrupting => change.settle(shown(Stop::Interrupted)),
            Status::Idle | Status::Awaiting | Status::Failed => return Ok(()),
        };
        shared.store.commit(&mut lease, &change.facts()).await.map(|_| ())
    };
    let ended: Result<(), WriteError> = ended.await;
    shared.signals.of(chat).ring();
    tracing::error!(%chat, ?ended, panics = PANICS_MAX, "driver keeps panicking, the turn is ended");
}

/// Waits until a chat may be driven: with a work slot, or without one to apply its commands. `None` if the process ends
/// first.
async fn admit(shared: &Shared, chat: ChatId, line: Option<SlotWait>) -> Option<Admission> {
    if shared.stop.drain.is_cancelled() {
        return None;
    }
    let mut line = match line {
        Some(line) => line,
        None => {
            if let Some(slot) = shared.slots.take() {
                return Some(Admission::Slot(slot));
            }
            // If the store cannot name the owner, the driver will meet the same error.
            let owner = shared.store.heading(chat).await.map(|heading| heading.owner).unwrap_or_default();
            shared.slots.line_up(&owner)
        }
    };
    let signals = shared.signals.of(chat);
    loop {
        tokio::select! {
            biased;
            () = shared.stop.drain.cancelled() => return None,
            slot = line.slot() => return Some(Admission::Slot(slot)),
            () = signals.inbox.notified() => {}
        }
        if matches!(inbox::is_empty(&*shared.store, chat).await, Ok(false)) {
            let _loading = shared.loading.clone().acquire_owned().await.ok();
            return Some(Admission::Waiting { line, _loading });
        }
    }
}

async fn advance_with(shared: Arc<Shared>, chat: ChatId, admission: Admission) -> Result<Parked, WriteError> {
    let lease = shared.acquire(chat).await?;
    Driver::load(shared, lease, admission).await?.run().await
}

/// Advances a chat for a program that drives by hand.
pub(crate) async fn advance(shared: Arc<Shared>, chat: ChatId) -> Result<(), WriteError> {
    let admission = shared.slots.take().map_or(Admission::None, Admission::Slot);
    advance_with(shared, chat, admission).await.map(|_| ())
}
