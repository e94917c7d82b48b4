//! Deltas of one stream that are folded and stored together.
//!
//! What is ready is taken together: one batch, one append, one wake-up. So a fast model costs little per delta, and a
//! slow store makes batches larger instead of the stream slower.
//!
//! A handle says how far a generation was read. So it is stored with what it covers, never before it or without it: a
//! frame is not divided between batches, and while a seam holds the head of a continuation back, it holds its handle too.

use everturn_core::delta::{Delta, GenerationHandle};
use everturn_core::draft::Draft;
use everturn_core::error::ProviderError;
use everturn_core::message::{Stop, text_of};
use everturn_core::seam::{Joined, Joiner};
use everturn_providers::{Frame, FrameStream};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::drive::step::attempt::{CallLimits, StreamOpening};

/// Deltas that are folded and stored together.
pub(crate) struct Batch {
    deltas: Vec<Delta>,
    len: usize,
    bytes: usize,
    progressed: bool,
    /// Whether the provider sent a ping.
    pub(crate) pinged: bool,
    /// The head of a continuation, until it is decided how much of it repeats the draft.
    head: Option<ContinuationHead>,
}

/// The text of a continuation that is not in the draft yet.
struct ContinuationHead {
    joiner: Joiner,
    /// Whether any text has come.
    begun: bool,
    /// The newest handle after that text. It goes into the draft together with the text it covers, or not at all.
    handle: Option<Box<GenerationHandle>>,
}

/// Why a stream brings no more.
pub(crate) enum EndOfStream {
    Stop(Stop),
    Error(ProviderError),
    Eof,
}

impl Batch {
    /// An empty batch for this draft. A continuation is joined to what was shown; any other answer begins by itself.
    pub(crate) fn new(draft: &Draft, opening: &StreamOpening) -> Self {
        let head = (draft.awaits_seam() && !opening.is_echo()).then(|| {
            let joiner = Joiner::new(&text_of(draft.parts()));
            ContinuationHead { joiner, begun: false, handle: None }
        });
        Self { deltas: Vec::new(), len: 0, bytes: 0, progressed: false, pinged: false, head }
    }

    /// Takes `frame` and every other frame that is ready, up to the limit of a batch.
    pub(crate) fn gather(
        &mut self,
        frame: Option<Result<Frame, ProviderError>>,
        frames: &mut FrameStream,
        call_limits: CallLimits,
    ) -> Option<EndOfStream> {
        let mut next = Some(frame);
        while let Some(frame) = next {
            let end = match frame {
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
                Some(Ok(Frame::Stop(stop))) => Some(EndOfStream::Stop(stop)),
                Some(Err(error)) => Some(EndOfStream::Error(error)),
                None => Some(EndOfStream::Eof),
            };
            if let Some(end) = end {
                // What a broken stream leaves undecided was never shown and may be a repeat: the next attempt brings it again.
                if let EndOfStream::Stop(_) = end {
                    self.end_head();
                }
                return Some(end);
            }
            next = if self.has_room(call_limits) { frames.next().now_or_never() } else { None };
        }
        None
    }

    pub(crate) const fn has_room(&self, call_limits: CallLimits) -> bool {
        self.len < call_limits.batch_len_max && self.bytes < call_limits.batch_bytes_max
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.deltas.is_empty()
    }

    /// Whether content has come since this was last asked.
    pub(crate) const fn take_progress(&mut self) -> bool {
        std::mem::replace(&mut self.progressed, false)
    }

    /// Bytes of a continuation that were held back and not shown.
    pub(crate) fn held_bytes(&self) -> usize {
        self.head.as_ref().map_or(0, |head| head.joiner.held_bytes())
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
            (Some(ContinuationHead { begun: true, handle, .. }), Delta::Handle(newest)) => *handle = Some(newest),
            (Some(ContinuationHead { begun: true, .. }), delta)
                if delta.is_progress() || matches!(delta, Delta::PartMeta(_)) =>
            {
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

    pub(crate) fn take(&mut self) -> Vec<Delta> {
        self.len = 0;
        self.bytes = 0;
        std::mem::take(&mut self.deltas)
    }
}
