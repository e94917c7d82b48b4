//! One provider call.
//!
//! Frames come in, deltas go into the draft and the journal, and only what the journal has taken is shown. The draft is
//! lent to the attempt and always comes back, whatever ended it: an answer, a break, an interrupt.
//!
//! What is ready is taken together: one batch, one append, one wake-up. So a fast model costs little per delta, and a
//! slow store makes batches larger instead of the stream slower.
//!
//! A handle says how far a generation was read. So it is stored with what it covers, never before it or without it: a
//! frame is not divided between batches, and while a seam holds the head of a continuation back, it holds its handle too.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::delta::{AttemptBegan, Delta, GenerationHandle};
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind, ProviderError};
use everturn_core::message::Stop;
use everturn_core::prompt::Request;
use everturn_core::seam::{Joined, Joiner};
use everturn_core::view::JournalRow;
use everturn_providers::{Frame, Frames, Provider};
use everturn_stores::{AppendRight, Store, StoreError, StoreExt as _, WriteError};
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::admission::governor::Permit;
use crate::drive::step::append::{Heed, Storing};
use crate::observe::metrics::Metrics;
use crate::util::clock::Clock;
use crate::util::poll_on_wake::Dormant;
use crate::watch::hub::Bell;

/// How much longer than the adapter we wait for a stream to open. It keeps the same bound and knows what it waited for;
/// this is for one that does not come back.
const OPEN_GRACE: Duration = Duration::from_secs(1);

/// How long it is until rows that could not be stored are tried again.
const APPEND_AGAIN: Duration = Duration::from_secs(1);

/// Everything one provider call needs.
pub(crate) struct Attempt {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) pen: AppendRight,
    pub(crate) bell: Arc<Bell>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) permit: Permit,
    pub(crate) windows: Windows,
    pub(crate) cancel: CancellationToken,
    pub(crate) draft: Draft,
    /// Dropped once content is stored: that is what the next process sees, if this one dies now.
    pub(crate) alone: Option<DropGuard>,
    /// Whether somebody there showed that they live.
    pub(crate) pinged: bool,
    /// Whether a store that is away is waited for.
    pub(crate) insists: bool,
}

/// How long and how much.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
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

/// How the stream is come by.
pub(crate) enum Opening {
    Ask(Box<Request>),
    Reattach(GenerationHandle),
}

impl Opening {
    /// Whether the answer goes on behind what the provider's own tools found: there is no seam, and no word comes twice.
    fn is_echo(&self) -> bool {
        matches!(self, Self::Ask(request) if request.is_echo())
    }
}

/// How it ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Answered(Stop),
    Broke(ProviderError),
    Cancelled,
}

/// What comes back: the attempt with what was lent to it, how it ended, and when the first content came.
pub(crate) struct Outcome {
    pub(crate) attempt: Box<Attempt>,
    pub(crate) ended: Result<Ended, WriteError>,
    pub(crate) first_after: Option<Duration>,
}

impl Attempt {
    /// Takes back `retract`, begins the attempt in the draft, and streams until it is over.
    pub(crate) async fn run(
        mut self: Box<Self>,
        retract: Vec<Delta>,
        began: AttemptBegan,
        opening: Opening,
    ) -> Outcome {
        let mut first_after = None;
        let ended = self.stream(retract, began, opening, &mut first_after).await;
        Outcome { attempt: self, ended, first_after }
    }

    async fn stream(
        &mut self,
        retract: Vec<Delta>,
        began: AttemptBegan,
        opening: Opening,
        first_after: &mut Option<Duration>,
    ) -> Result<Ended, WriteError> {
        let model = began.model.name().to_string();
        let rows = retract.into_iter().chain([Delta::Attempt(Box::new(began))]);
        let (rows, broke) = self.fold(rows.collect());
        let store = self.store.clone();
        let mut storing = Storing::new(&*store, self.pen, self.bell.clone(), self.metrics.clone());
        storing.begin(rows);
        self.stored(&mut storing).await?;
        if let Err(broke) = broke {
            return Ok(Ended::Broke(broke));
        }
        let mut batch = Batch::of(&self.draft, &opening);
        let started = Instant::now();
        let frames = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Ok(Ended::Cancelled),
            opened = timeout(self.windows.open_max + OPEN_GRACE, open(&*self.provider, &model, opening)) => opened,
        };
        let frames = match frames {
            Ok(Ok(frames)) => frames,
            Ok(Err(error)) => return Ok(Ended::Broke(error)),
            Err(_) => return Ok(Ended::Broke(self.error(ErrorKind::Silence, Cause::IdleStall))),
        };
        self.permit.opened();
        let ended = self.pump(frames, &mut batch, &mut storing, (started, first_after)).await;
        self.draft.drop_unshown(batch.head.map_or(0, |head| head.joiner.held_bytes()));
        self.pinged = batch.pinged;
        ended
    }

    async fn pump(
        &mut self,
        mut frames: Frames,
        batch: &mut Batch,
        storing: &mut Storing<'_>,
        (started, first_after): (Instant, &mut Option<Duration>),
    ) -> Result<Ended, WriteError> {
        let (mut progress, mut over) = (started, None);
        let watchdog = sleep_until(started + self.windows.silence_max);
        // Both wait for the whole stream, and sleep meanwhile.
        let cancel = self.cancel.clone();
        let (cancelled, watchdog) = (pin!(cancel.cancelled()), pin!(watchdog));
        let (mut cancelled, mut watchdog) = (Dormant::new(cancelled), Dormant::new(watchdog));
        loop {
            if cancel.is_cancelled() {
                return self.stored(storing).await.map(|()| Ended::Cancelled);
            }
            if over.is_none() && batch.deltas.is_empty() {
                let heed = if self.alone.is_some() { Heed::Anything } else { Heed::Trouble };
                let frame = tokio::select! {
                    biased;
                    () = &mut cancelled => continue,
                    () = storing.stirs(heed) => None,
                    frame = frames.next() => Some(frame),
                    () = &mut watchdog => {
                        if !self.is_silent(progress, watchdog.get_mut().as_mut()) {
                            continue;
                        }
                        Some(Some(Err(self.error(ErrorKind::Silence, Cause::IdleStall))))
                    }
                };
                over = frame.and_then(|frame| batch.gather(frame, &mut frames, self.windows));
            }
            self.stored_reading(storing, batch, &mut frames, &mut over).await?;
            if std::mem::take(&mut batch.progressed) {
                progress = Instant::now();
                first_after.get_or_insert(progress - started);
                self.permit.spoke();
            }
            let (rows, broke) = self.fold(batch.take());
            storing.begin(rows);
            let ended = match (over.take(), broke) {
                (_, Err(broke)) => Ended::Broke(broke),
                (None, Ok(())) if self.draft.weight() > self.windows.draft_bytes_max => Ended::Answered(Stop::Length),
                (None, Ok(())) => continue,
                (Some(Over::Stop(stop)), Ok(())) => Ended::Answered(stop),
                (Some(Over::Error(error)), Ok(())) => Ended::Broke(error),
                (Some(Over::Eof), Ok(())) => Ended::Broke(self.error(ErrorKind::Truncated, Cause::Truncated)),
            };
            return self.stored(storing).await.map(|()| ended);
        }
    }

    /// Waits until what was handed in is stored, and meanwhile takes what comes into the next batch: whoever is fast is stored
    /// in larger pieces.
    async fn stored_reading(
        &mut self,
        storing: &mut Storing<'_>,
        batch: &mut Batch,
        frames: &mut Frames,
        over: &mut Option<Over>,
    ) -> Result<(), WriteError> {
        let windows = self.windows;
        let stored = self.stored(storing);
        tokio::pin!(stored);
        loop {
            tokio::select! {
                biased;
                stored = &mut stored => return stored,
                frame = frames.next(), if over.is_none() && batch.has_room(windows) => {
                    *over = batch.gather(frame, frames, windows);
                }
            }
        }
    }

    /// Waits until what was handed in is stored.
    async fn stored(&mut self, storing: &mut Storing<'_>) -> Result<(), WriteError> {
        match storing.over().await {
            Err(WriteError::Store(away @ StoreError::Unavailable(_))) if self.insists => {
                self.append_later(storing.rows(), away).await?;
                self.bell.ring_for_deltas();
            }
            stored => stored?,
        }
        if self.draft.current_bytes() > 0 {
            self.alone = None;
        }
        Ok(())
    }

    /// The timer is not moved with every delta. When it fires, it asks when content last came, and goes on from there.
    fn is_silent(&self, progress: Instant, watchdog: std::pin::Pin<&mut Sleep>) -> bool {
        let deadline = progress + self.windows.silence_max;
        if Instant::now() >= deadline {
            return true;
        }
        watchdog.reset(deadline);
        false
    }

    /// Folds deltas into the draft, up to one that does not fit.
    fn fold(&mut self, deltas: Vec<Delta>) -> (Vec<JournalRow>, Result<(), ProviderError>) {
        let (at, step) = (self.clock.now(), self.draft.step());
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

    /// Stores rows as soon as the store can take them, unless somebody wants the attempt stopped meanwhile: what is still to
    /// come would be paid for twice.
    async fn append_later(&self, rows: &[JournalRow], away: StoreError) -> Result<(), WriteError> {
        tracing::warn!(chat = %self.pen.chat, %away, "an answer waits until it can be stored");
        while self.cancel.run_until_cancelled(sleep(APPEND_AGAIN)).await.is_some() {
            match self.store.append_and_wait(self.pen, rows.to_vec()).await {
                Err(WriteError::Store(StoreError::Unavailable(_))) => {}
                Err(WriteError::OutOfPlace) => return Ok(()), // They are stored: nobody else writes here.
                Err(WriteError::Fenced) => break,             // A store in doubt wants the chat to be taken anew.
                stored => return stored,
            }
        }
        Err(away.into())
    }

    fn error(&self, kind: ErrorKind, cause: Cause) -> ProviderError {
        ProviderError::new(self.provider.name(), kind).with_cause(cause)
    }
}

async fn open(provider: &dyn Provider, model: &str, opening: Opening) -> Result<Frames, ProviderError> {
    match opening {
        Opening::Ask(request) => provider.open(*request).await,
        Opening::Reattach(handle) => provider.reattach(model, &handle).await,
    }
}

/// Deltas taken together.
struct Batch {
    deltas: Vec<Delta>,
    len: usize,
    bytes: usize,
    progressed: bool,
    pinged: bool,
    /// The head of a continuation, until it is decided how much of it was said before.
    head: Option<Head>,
}

/// What was said of a continuation and is not in the draft yet.
struct Head {
    joiner: Joiner,
    /// Whether there is any text.
    begun: bool,
    /// The newest handle behind that. It comes into the draft with what it covers, or not at all.
    handle: Option<Box<GenerationHandle>>,
}

/// Why a stream gives no more.
enum Over {
    Stop(Stop),
    Error(ProviderError),
    Eof,
}

impl Batch {
    /// An empty one, for this draft. A continuation is joined to what was shown; anything else begins by itself.
    fn of(draft: &Draft, opening: &Opening) -> Self {
        let head = (draft.awaits_seam() && !opening.is_echo()).then(|| {
            let joiner = Joiner::new(&everturn_core::message::text_of(draft.parts()));
            Head { joiner, begun: false, handle: None }
        });
        Self { deltas: Vec::new(), len: 0, bytes: 0, progressed: false, pinged: false, head }
    }

    /// Takes `frame` and whatever else is ready, up to a bound.
    fn gather(
        &mut self,
        frame: Option<Result<Frame, ProviderError>>,
        frames: &mut Frames,
        windows: Windows,
    ) -> Option<Over> {
        let mut next = Some(frame);
        while let Some(frame) = next {
            let over = match frame {
                Some(Ok(Frame::Delta(delta))) => {
                    self.push(delta);
                    None
                }
                Some(Ok(Frame::Together(deltas))) => {
                    deltas.into_iter().for_each(|delta| self.push(delta));
                    None
                }
                Some(Ok(Frame::Ping)) => {
                    self.pinged = true;
                    None
                }
                Some(Ok(Frame::Stop(stop))) => Some(Over::Stop(stop)),
                Some(Err(error)) => Some(Over::Error(error)),
                None => Some(Over::Eof),
            };
            if let Some(over) = over {
                // What a broken stream leaves undecided was never shown, and may be a repeat: the next attempt has it again.
                if let Over::Stop(_) = over {
                    self.end_head();
                }
                return Some(over);
            }
            next = if self.has_room(windows) { frames.next().now_or_never() } else { None };
        }
        None
    }

    const fn has_room(&self, windows: Windows) -> bool {
        self.len < windows.batch_len_max && self.bytes < windows.batch_bytes_max
    }

    fn push(&mut self, delta: Delta) {
        self.len += 1;
        self.bytes += delta.weight();
        self.progressed |= delta.is_progress();
        match (&mut self.head, delta) {
            (Some(head), Delta::Text(text)) => {
                head.begun = true;
                if let Some(joined) = head.joiner.push(&text) {
                    let handle = head.handle.take();
                    self.head = None;
                    self.add_joined(joined, handle);
                }
            }
            (Some(Head { begun: true, handle, .. }), Delta::Handle(newest)) => *handle = Some(newest),
            (Some(Head { begun: true, .. }), delta) if delta.is_progress() || matches!(delta, Delta::PartMeta(_)) => {
                self.end_head();
                self.add(delta);
            }
            (_, delta) => self.add(delta), // The model may think again before it goes on.
        }
    }

    /// No more text will come to decide the seam with.
    fn end_head(&mut self) {
        if let Some(head) = self.head.take() {
            let joined = head.joiner.finish();
            self.add_joined(joined, head.handle);
        }
    }

    fn add_joined(&mut self, joined: Joined, handle: Option<Box<GenerationHandle>>) {
        self.add(Delta::Seam(joined.seam));
        if !joined.text.is_empty() {
            self.add(Delta::Text(joined.text));
        }
        if let Some(handle) = handle {
            self.add(Delta::Handle(handle));
        }
    }

    fn add(&mut self, delta: Delta) {
        let rest = match self.deltas.last_mut() {
            Some(last) => last.absorb(delta),
            None => Some(delta),
        };
        self.deltas.extend(rest);
    }

    fn take(&mut self) -> Vec<Delta> {
        (self.len, self.bytes) = (0, 0);
        std::mem::take(&mut self.deltas)
    }
}
