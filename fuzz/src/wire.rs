//! What holds of any bytes as an answer.

use allocation_counter::measure;
use everturn_core::delta::{AttemptBegan, Delta, Rung};
use everturn_core::draft::Draft;
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::ids::{StepId, Timestamp};
use everturn_providers::Frame;
use everturn_providers::sse::SseBounds;
use everturn_providers::wire::{Decode, Fold};

use super::dice::Dice;

/// How an answer of a wire is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// With an event, behind which nothing is read.
    WithItsStop,
    /// With a reason, behind which counts and sources may still come, or even more words.
    WithItsReason,
}

/// What came of some bytes: the frames, and how it ended.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    frames: Vec<Frame>,
    end: Result<(), ProviderError>,
}

const WIDE: SseBounds = SseBounds { line_bytes_max: 1 << 20, frame_bytes_max: 4 << 20, response_bytes_max: 32 << 20 };

/// Bytes of memory for a byte on the wire, at the very most: a list of noughts as JSON values, in a vector that grows.
const BYTES_PER_BYTE_MAX: u64 = 128;
/// What a decoder takes before anything came.
const BYTES_AT_FIRST_MAX: u64 = 64 * 1024;

/// Checks that cuts change nothing, that no part passes for the whole, that a stop is the end, that the engine can take
/// what is told, and that memory stays within a multiple of the bytes.
pub fn hold<D: Decode>(bytes: &[u8], ends: Ends, decode: impl Fn() -> D) {
    let mut dice = Dice::of(bytes);
    let mut whole = None;
    let taken = measure(|| whole = Some(told(WIDE, [bytes], decode())));
    let whole = whole.expect("measured once");
    let bound = BYTES_AT_FIRST_MAX + BYTES_PER_BYTE_MAX * bytes.len() as u64;
    assert!(taken.bytes_max <= bound, "{} bytes of memory for {} on the wire", taken.bytes_max, bytes.len());
    a_stop_is_the_end(&whole);
    the_engine_can_take_it(&whole);
    cuts_change_nothing(WIDE, bytes, &whole, &decode, &mut dice);
    for _ in 0..4 {
        let part = told(WIDE, [&bytes[..dice.below(bytes.len())]], decode());
        no_part_passes_for_the_whole(&part, &whole, ends);
    }
    let line_bytes_max = 64 + dice.below(1024);
    let response_bytes_max = line_bytes_max + dice.below(4096);
    let tight = SseBounds { line_bytes_max, frame_bytes_max: line_bytes_max, response_bytes_max };
    let bounded = told(tight, [bytes], decode());
    a_stop_is_the_end(&bounded);
    no_part_passes_for_the_whole(&bounded, &whole, ends);
    cuts_change_nothing(tight, bytes, &bounded, &decode, &mut dice);
}

fn told<'b, D: Decode>(bounds: SseBounds, pieces: impl IntoIterator<Item = &'b [u8]>, decode: D) -> Told {
    let mut frames = Vec::new();
    let mut fold = Fold::new("test", bounds, decode);
    let read = pieces.into_iter().try_for_each(|piece| fold.push(piece, &mut frames));
    let end = read.and_then(|()| fold.end(&mut frames));
    Told { frames, end }
}

fn cuts_change_nothing<D: Decode>(
    bounds: SseBounds,
    bytes: &[u8],
    whole: &Told,
    decode: impl Fn() -> D,
    dice: &mut Dice,
) {
    let len = 1 + dice.below(8);
    assert_eq!(&told(bounds, bytes.chunks(len), decode()), whole, "{len} bytes at a time");
    let pieces = dice.cut(bytes);
    assert_eq!(&told(bounds, pieces.iter().copied(), decode()), whole, "in {} pieces", pieces.len());
}

/// One stop, at the end, and then only.
fn a_stop_is_the_end(told: &Told) {
    let stops = told.frames.iter().filter(|frame| matches!(frame, Frame::Stop(_))).count();
    let is_last = matches!(told.frames.last(), Some(Frame::Stop(_)));
    assert_eq!((stops, is_last), if told.end.is_ok() { (1, true) } else { (0, false) }, "{told:?}");
}

/// A part is cut, or it is the answer. What it says, the whole says too.
fn no_part_passes_for_the_whole(part: &Told, whole: &Told, ends: Ends) {
    match (&part.end, ends) {
        (Ok(()), Ends::WithItsStop) => assert_eq!(part.frames, whole.frames, "a silent partial"),
        (Err(error), Ends::WithItsStop) => {
            assert!(whole.frames.starts_with(&part.frames), "a part that says something else: {part:?}");
            let unread = part.frames.len() < whole.frames.len() || whole.end.is_ok();
            assert!(!unread || matches!(error.kind, ErrorKind::Truncated | ErrorKind::Malformed), "{error:?}");
        }
        // A count may be told at the end, or in its place; what was said is the same.
        (_, Ends::WithItsReason) => {
            let (part, whole) = (said(part), said(whole));
            assert!(whole.starts_with(&part), "a part that says something else: {part:?} of {whole:?}");
        }
    }
}

/// The words and calls, without what is told beside them.
fn said(told: &Told) -> Vec<&Delta> {
    let beside = |delta: &&Delta| matches!(delta, Delta::Usage(_) | Delta::Source(_) | Delta::ReplyMeta(_));
    told.frames.iter().flat_map(Frame::deltas).filter(|delta| !beside(delta)).collect()
}

/// A draft takes what is told or refuses it, and what it took can be sealed.
fn the_engine_can_take_it(told: &Told) {
    let mut draft = Draft::new(StepId(1));
    let began = AttemptBegan { number: 1, model: "test/test".parse().expect("a model"), rung: Rung::First };
    draft.push(Timestamp(0), &Delta::Attempt(Box::new(began))).expect("first");
    for frame in &told.frames {
        if frame.deltas().iter().any(|delta| draft.push(Timestamp(0), delta).is_err()) {
            return;
        }
        if let Frame::Stop(stop) = frame {
            drop(draft.clone().seal(stop.clone(), Timestamp(0), None));
        }
    }
}
