//! What a peer can make us hold.
//!
//! A binary of its own, because its allocator counts: the most bytes that were alive at a time, on the thread that reads.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod answers;
mod socket;

use std::time::Duration;

use allocation_counter::measure;
use bytes::Bytes;
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::limits::Limits;
use everturn_providers::FrameStream;
use everturn_providers::anthropic::Messages;
use everturn_providers::gemini::{GenerateContent, Interaction};
use everturn_providers::openai_chat::Completions;
use everturn_providers::openai_responses::{ResponseRetention, Responses};
use everturn_providers::sse::SseBounds;
use everturn_providers::wire::{Decode, Fold, frames};
use futures_util::{StreamExt as _, stream};

const MIB: u64 = 1 << 20;
/// What reading one answer may take, whatever the answer is: three times the longest.
const PEAK_MAX: u64 = 96 * MIB;
/// What a socket brings at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// What came of an answer, and the most memory it took.
struct Read {
    deltas: usize,
    end: Result<(), ProviderError>,
    peak: u64,
}

/// Reads an answer of `head`, then `piece` over and over for `times`, as the engine does: each delta is taken and dropped.
fn read<D: Decode>(bounds: SseBounds, head: &str, piece: &str, times: usize, decode: D) -> Read {
    let again = PIECE_BYTES.div_ceil(piece.len()).min(times);
    let block = Bytes::from(piece.repeat(again));
    let body = stream::iter([Bytes::from(head.to_owned())]).chain(stream::repeat(block).take(times / again));
    counted(move || frames(body.map(Ok).boxed(), Fold::new("test", bounds, decode), Duration::MAX))
}

/// Takes every frame of a stream on this thread, and counts.
fn counted(open: impl FnOnce() -> FrameStream) -> Read {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut deltas, mut end) = (0, Ok(()));
    let taken = measure(|| {
        let mut frames = open();
        runtime.block_on(async {
            while let Some(frame) = frames.next().await {
                match frame {
                    Ok(frame) => deltas += frame.deltas().len(),
                    Err(error) => end = Err(error),
                }
            }
        });
    });
    Read { deltas, end, peak: taken.bytes_max }
}

fn bounds() -> SseBounds {
    SseBounds::from(&Limits::default())
}

/// Runs a check on every wire: with the beginning of an answer, a piece of its text, and a decoder.
macro_rules! every_wire {
    ($check:expr) => {{
        let check = $check;
        check.of("anthropic", &answers::ANTHROPIC, || Messages::new("anthropic"));
        check.of("responses", &answers::RESPONSES, || Responses::new("openai", ResponseRetention::Generation));
        check.of("chat", &answers::CHAT, || Completions::new("openai"));
        check.of("gemini", &answers::GEMINI, || GenerateContent::new("google"));
        check.of("interactions", &answers::INTERACTIONS, || Interaction::new("google"));
    }};
}

/// Something to send to every wire.
struct Check {
    /// Over and over, for this many times.
    piece: &'static str,
    times: usize,
    /// How reading it ends.
    says: &'static str,
    peak_max: u64,
}

impl Check {
    fn of<D: Decode>(&self, name: &str, answer: &answers::Answer, decode: impl Fn() -> D) {
        let Read { end, peak, .. } = read(bounds(), answer.head, self.piece, self.times, decode());
        let error = end.unwrap_err();
        assert_eq!((error.kind, error.detail.as_str()), (ErrorKind::Malformed, self.says), "{name}");
        assert!(peak <= self.peak_max, "{name}: {peak} bytes at a time");
    }
}

/// P15: a line of 100 MiB is cut at its bound, and no more than three times that was ever held, while its room doubled.
#[test]
fn a_line_of_100_mib() {
    let says = "a line of more than 8388608 bytes";
    every_wire!(Check { piece: "x", times: 100 << 20, says, peak_max: 25 * MIB });
}

/// P15: so is an event of 100 MiB, in a hundred thousand lines or in millions.
#[test]
fn an_event_of_100_mib() {
    let says = "an event of more than 8388608 bytes";
    for piece in ["data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", "data: xxxxxx\n"]
    {
        every_wire!(Check { piece, times: (100 << 20) / piece.len(), says, peak_max: 25 * MIB });
    }
}

/// P15: ten million events end where an answer does.
#[test]
fn ten_million_tiny_events() {
    let says = "an answer of more than 33554432 bytes";
    every_wire!(Check { piece: "data: {}\n\n", times: 10_000_000, says, peak_max: 4 * MIB });
}

/// Were an answer not bounded at all, its events would still leave nothing behind but what was said.
struct Endless {
    times: usize,
    peak_max: u64,
}

impl Endless {
    fn of<D: Decode>(&self, name: &str, answer: &answers::Answer, decode: impl Fn() -> D) {
        let endless = SseBounds { response_bytes_max: usize::MAX, ..bounds() };
        let Read { deltas, end, peak } = read(endless, answer.head, answer.piece, self.times, decode());
        assert_eq!(end.unwrap_err().kind, ErrorKind::Truncated, "{name}");
        assert!(deltas + PIECE_BYTES > self.times, "{name}: {deltas} deltas");
        assert!(peak <= self.peak_max, "{name}: {peak} bytes at a time");
    }
}

/// P13: a long answer of small events takes no more than a short one, but for the words (1 MB here, in a string that
/// doubles) on the wire that says them twice and is held to it.
#[test]
fn two_hundred_thousand_words_leave_nothing_behind() {
    every_wire!(Endless { times: 200_000, peak_max: 4 * MIB });
}

/// The longest answer there can be, in the longest lines: text, or one call's input.
struct Fullest(fn(&answers::Answer) -> (&'static str, &'static str, &'static str));

impl Fullest {
    fn of<D: Decode>(&self, name: &str, answer: &answers::Answer, decode: impl Fn() -> D) {
        let (head, before, after) = (self.0)(answer);
        let word = "x".repeat((8 << 20) - before.len() - after.len());
        let piece = format!("{before}{word}{after}");
        let Read { end, peak, deltas } = read(bounds(), head, &piece, 5, decode());
        assert_eq!(end.unwrap_err().detail, "an answer of more than 33554432 bytes", "{name}");
        assert!(deltas >= 3, "{name}: {deltas} deltas");
        assert!(peak <= PEAK_MAX, "{name}: {peak} bytes at a time");
    }
}

/// P15: the longest text an answer may have.
#[test]
fn the_longest_text() {
    every_wire!(Fullest(|answer| {
        let (before, after) = answer.piece.split_once("token").unwrap();
        (answer.head, before, after)
    }));
}

/// P22: the longest input a call may have.
#[test]
fn the_longest_input() {
    every_wire!(Fullest(|answer| {
        let (before, after) = answer.input.split_once("token").unwrap();
        (answer.call, before, after)
    }));
}

/// P15: an event with few bytes and too many values is not parsed; one at the limit is.
#[test]
fn values_weigh_more_than_their_bytes() {
    struct Values;
    impl Values {
        fn of<D: Decode>(&self, name: &str, answer: &answers::Answer, decode: impl Fn() -> D) {
            for place in answer.anything {
                let (before, after) = place.split_once("anything").unwrap();
                for (times, refused) in [(24_000, false), (500_000, true)] {
                    let lines = "data: {\"\":0},\n".repeat(times);
                    let event = format!("data: {before}[\n{lines}data: 0]{after}\n\n");
                    let Read { end, peak, .. } = read(bounds(), answer.head, &event, 1, decode());
                    let says = end.err().map(|error| error.detail).unwrap_or_default();
                    assert_eq!(says == "an event of more than 50000 values", refused, "{name}: {says} {place}");
                    // The event itself was there before.
                    assert!(peak <= PEAK_MAX, "{name}: {peak} bytes at a time for {place}");
                }
            }
        }
    }
    every_wire!(Values);
}
