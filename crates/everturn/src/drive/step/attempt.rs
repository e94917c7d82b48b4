//! One provider call.
//!
//! Frames come in, deltas go into the draft and the journal, and only what the journal has taken is shown. The draft is
//! lent to the attempt and always comes back, whatever ended it: an answer, a break, an interrupt.
//!
//! What arrives while the store writes goes into the next [`Batch`].

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::delta::{AttemptBegan, Delta, GenerationHandle};
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind, ProviderError};
use everturn_core::message::Stop;
use everturn_core::prompt::Request;
use everturn_core::view::JournalRow;
use everturn_providers::{FrameStream, Provider};
use everturn_stores::{AppendRight, Store, StoreError, StoreExt as _, WriteError};
use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::admission::governor::Permit;
use crate::drive::step::append::{PendingAppend, WakeOn};
use crate::drive::step::batch::{Batch, EndOfStream};
use crate::drive::target::ModelTarget;
use crate::observe::metrics::Metrics;
use crate::util::clock::Clock;
use crate::util::poll_on_wake::PollOnWake;
use crate::watch::hub::ChatSignals;

/// How much longer than the adapter the engine waits for a stream to open. The adapter keeps the same limit and reports
/// what it waited for; this is for one that does not return.
const OPEN_GRACE: Duration = Duration::from_secs(1);

/// The wait before rows that could not be stored are appended again.
const APPEND_RETRY: Duration = Duration::from_secs(1);

/// Everything one provider call needs.
pub(crate) struct Attempt {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) right: AppendRight,
    pub(crate) signals: Arc<ChatSignals>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) permit: Permit,
    pub(crate) call_limits: CallLimits,
    pub(crate) cancel: CancellationToken,
    pub(crate) draft: Draft,
    /// While held, no other chat that may have killed a process works here. Dropped once content is stored: if this
    /// process died then, the next one would see progress.
    pub(crate) isolation: Option<DropGuard>,
    /// Whether the provider sent a ping.
    pub(crate) pinged: bool,
    /// Whether appends wait for a store that is unavailable.
    pub(crate) waits_for_store: bool,
}

/// The time and size limits of one provider call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLimits {
    /// Until the stream is open.
    pub(crate) open_max: Duration,
    /// Between two pieces of content.
    pub(crate) silence_max: Duration,
    /// Deltas in one batch.
    pub(crate) batch_len_max: usize,
    /// Bytes in one batch.
    pub(crate) batch_bytes_max: usize,
    /// Bytes in one draft.
    pub(crate) draft_bytes_max: usize,
}

/// How the stream is opened.
pub(crate) enum StreamOpening {
    Ask(Box<Request>),
    Reattach(GenerationHandle),
}

impl StreamOpening {
    /// Asks a model, with the request made fit for its wire.
    pub(crate) fn ask(request: Request, target: &ModelTarget) -> Self {
        Self::Ask(Box::new(request.fit(&target.facts.target)))
    }

    /// Whether the answer goes on behind the results of the provider's own tools: there is no seam, and no word comes
    /// twice.
    pub(crate) fn is_echo(&self) -> bool {
        matches!(self, Self::Ask(request) if request.is_echo())
    }
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum StreamOutcome {
    Answered(Stop),
    Broke(ProviderError),
    Cancelled,
}

/// An attempt that is over: everything lent to it, how it ended, and when the first content came.
pub(crate) struct FinishedAttempt {
    pub(crate) attempt: Box<Attempt>,
    pub(crate) ended: Result<StreamOutcome, WriteError>,
    pub(crate) first_after: Option<Duration>,
}

impl Attempt {
    /// Takes back `retract`, begins the attempt in the draft, and streams until it is over.
    pub(crate) async fn run(
        mut self: Box<Self>,
        retract: Vec<Delta>,
        began: AttemptBegan,
        opening: StreamOpening,
    ) -> FinishedAttempt {
        let mut first_after = None;
        let ended = self.stream(retract, began, opening, &mut first_after).await;
        FinishedAttempt { attempt: self, ended, first_after }
    }

    async fn stream(
        &mut self,
        retract: Vec<Delta>,
        began: AttemptBegan,
        opening: StreamOpening,
        first_after: &mut Option<Duration>,
    ) -> Result<StreamOutcome, WriteError> {
        let model = began.model.name().to_string();
        let rows = retract.into_iter().chain([Delta::Attempt(Box::new(began))]);
        let (rows, folded) = self.fold(rows.collect());
        let store = self.store.clone();
        let mut pending = PendingAppend::new(&*store, self.right, self.signals.clone(), self.metrics.clone());
        pending.begin(rows);
        self.stored(&mut pending).await?;
        if let Err(error) = folded {
            return Ok(StreamOutcome::Broke(error));
        }
        let mut batch = Batch::new(&self.draft, &opening);
        let started = Instant::now();
        let frames = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Ok(StreamOutcome::Cancelled),
            opened = timeout(self.call_limits.open_max + OPEN_GRACE, open(&*self.provider, &model, opening)) => opened,
        };
        let frames = match frames {
            Ok(Ok(frames)) => frames,
            Ok(Err(error)) => return Ok(StreamOutcome::Broke(error)),
            Err(_) => return Ok(StreamOutcome::Broke(self.error(ErrorKind::Silence, Cause::IdleStall))),
        };
        self.permit.opened();
        let ended = self.pump(frames, &mut batch, &mut pending, started, first_after).await;
        self.draft.drop_unshown(batch.held_bytes());
        self.pinged = batch.pinged;
        ended
    }

    async fn pump(
        &mut self,
        mut frames: FrameStream,
        batch: &mut Batch,
        pending: &mut PendingAppend<'_>,
        started: Instant,
        first_after: &mut Option<Duration>,
    ) -> Result<StreamOutcome, WriteError> {
        let mut progress = started;
        let mut end = None;
        // Both wait for the whole stream, and are polled only after they were woken.
        let cancel = self.cancel.clone();
        let cancelled = pin!(cancel.cancelled());
        let mut cancelled = PollOnWake::new(cancelled);
        let watchdog = pin!(sleep_until(started + self.call_limits.silence_max));
        let mut watchdog = PollOnWake::new(watchdog);
        loop {
            if cancel.is_cancelled() {
                return self.stored(pending).await.map(|()| StreamOutcome::Cancelled);
            }
            if end.is_none() && batch.is_empty() {
                let wake_on = if self.isolation.is_some() { WakeOn::Completion } else { WakeOn::Failure };
                let frame = tokio::select! {
                    biased;
                    () = &mut cancelled => continue,
                    () = pending.changed(wake_on) => None,
                    frame = frames.next() => Some(frame),
                    () = &mut watchdog => {
                        if !self.is_silent(progress) {
                            watchdog.get_mut().as_mut().reset(progress + self.call_limits.silence_max);
                            continue;
                        }
                        Some(Some(Err(self.error(ErrorKind::Silence, Cause::IdleStall))))
                    }
                };
                end = frame.and_then(|frame| batch.gather(frame, &mut frames, self.call_limits));
            }
            self.stored_reading(pending, batch, &mut frames, &mut end).await?;
            if batch.take_progress() {
                progress = Instant::now();
                first_after.get_or_insert(progress - started);
                self.permit.spoke();
            }
            let (rows, folded) = self.fold(batch.take());
            pending.begin(rows);
            let ended = match (end.take(), folded) {
                (_, Err(error)) => StreamOutcome::Broke(error),
                (None, Ok(())) if self.draft.weight() > self.call_limits.draft_bytes_max => {
                    StreamOutcome::Answered(Stop::Length)
                }
                (None, Ok(())) => continue,
                (Some(EndOfStream::Stop(stop)), Ok(())) => StreamOutcome::Answered(stop),
                (Some(EndOfStream::Error(error)), Ok(())) => StreamOutcome::Broke(error),
                (Some(EndOfStream::Eof), Ok(())) => {
                    StreamOutcome::Broke(self.error(ErrorKind::Truncated, Cause::Truncated))
                }
            };
            return self.stored(pending).await.map(|()| ended);
        }
    }

    /// Waits until the pending rows are stored, and meanwhile takes what arrives into the next batch: a fast stream is
    /// stored in larger pieces.
    async fn stored_reading(
        &mut self,
        pending: &mut PendingAppend<'_>,
        batch: &mut Batch,
        frames: &mut FrameStream,
        end: &mut Option<EndOfStream>,
    ) -> Result<(), WriteError> {
        let call_limits = self.call_limits;
        let stored = self.stored(pending);
        tokio::pin!(stored);
        loop {
            tokio::select! {
                biased;
                stored = &mut stored => return stored,
                frame = frames.next(), if end.is_none() && batch.has_room(call_limits) => {
                    *end = batch.gather(frame, frames, call_limits);
                }
            }
        }
    }

    /// Waits until the pending rows are stored.
    async fn stored(&mut self, pending: &mut PendingAppend<'_>) -> Result<(), WriteError> {
        match pending.done().await {
            Err(WriteError::Store(outage @ StoreError::Unavailable(_))) if self.waits_for_store => {
                self.append_again(pending.rows(), outage).await?;
                self.signals.log(pending.rows()); // The acknowledgement said that they were not stored.
                self.signals.ring_for_deltas();
            }
            stored => stored?,
        }
        if self.draft.current_bytes() > 0 {
            self.isolation = None;
        }
        Ok(())
    }

    /// Whether no content came for too long. The timer is not moved with every delta: when it fires, the time of the
    /// newest content decides.
    fn is_silent(&self, progress: Instant) -> bool {
        Instant::now() >= progress + self.call_limits.silence_max
    }

    /// Folds deltas into the draft, up to one that does not fit.
    fn fold(&mut self, deltas: Vec<Delta>) -> (Vec<JournalRow>, Result<(), ProviderError>) {
        let at = self.clock.now();
        let step = self.draft.step();
        let mut rows = Vec::with_capacity(deltas.len());
        for delta in deltas {
            match self.draft.push(at, &delta) {
                Ok(seq) => rows.push(JournalRow { step, seq, at, delta: Arc::new(delta) }),
                Err(out_of_order) => {
                    let error = self.error(ErrorKind::Malformed, Cause::Malformed);
                    return (rows, Err(error.with_detail(&out_of_order.to_string())));
                }
            }
        }
        (rows, Ok(()))
    }

    /// Appends rows as soon as the store is back, unless the attempt is cancelled meanwhile. The stream stays open: asking
    /// again for what is still to come would cost twice.
    async fn append_again(&self, rows: &[JournalRow], outage: StoreError) -> Result<(), WriteError> {
        tracing::warn!(chat = %self.right.chat, error = %outage, "store unavailable: a streaming answer waits to be stored");
        while self.cancel.run_until_cancelled(sleep(APPEND_RETRY)).await.is_some() {
            match self.store.append_and_wait(self.right, rows.to_vec()).await {
                Err(WriteError::Store(StoreError::Unavailable(_))) => {}
                Err(WriteError::OutOfPlace) => return Ok(()), // They are stored: only this process writes here.
                Err(WriteError::Fenced) => break, // After an unknown write the chat has to be acquired again.
                stored => return stored,
            }
        }
        Err(outage.into())
    }

    fn error(&self, kind: ErrorKind, cause: Cause) -> ProviderError {
        ProviderError::new(self.provider.name(), kind).with_cause(cause)
    }
}

async fn open(provider: &dyn Provider, model: &str, opening: StreamOpening) -> Result<FrameStream, ProviderError> {
    match opening {
        StreamOpening::Ask(request) => provider.open(*request).await,
        StreamOpening::Reattach(handle) => provider.reattach(model, &handle).await,
    }
}
