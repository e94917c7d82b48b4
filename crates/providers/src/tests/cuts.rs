//! What every wire must withstand: its bytes cut anywhere.

use everturn_core::error::ProviderError;
use everturn_core::limits::Limits;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::provider::Frame;
use crate::sse::SseBounds;
use crate::wire::{Decode, Fold};

/// What came of some bytes: the frames, and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    /// The frames, in order.
    pub frames: Vec<Frame>,
    /// Whether the answer is whole.
    pub end: Result<(), ProviderError>,
}

/// Reads pieces of a stream, and then its end.
pub(crate) fn told<'b, D: Decode>(pieces: impl IntoIterator<Item = &'b [u8]>, decode: D) -> Decoded {
    let mut frames = Vec::new();
    let mut fold = Fold::new("test", SseBounds::from(&Limits::default()), decode);
    let read = pieces.into_iter().try_for_each(|piece| fold.push(piece, &mut frames));
    let end = read.and_then(|()| fold.end(&mut frames));
    Decoded { frames, end }
}

/// A recorded stream means the same however the network cuts it, and a part of it is never taken for the whole.
pub(crate) fn check<D: Decode>(name: &str, bytes: &[u8], decode: impl Fn() -> D) {
    every_cut(name, bytes, &decode);
    every_end(name, bytes, &decode, &told([bytes], decode()));
}

/// A recorded stream means the same however the network cuts it.
pub(crate) fn every_cut<D: Decode>(name: &str, bytes: &[u8], decode: impl Fn() -> D) {
    let whole = told([bytes], decode());
    every_cut_into_two(name, bytes, &decode, &whole);
    random_cuts_into_many(name, bytes, &decode, &whole);
}

fn every_cut_into_two<D: Decode>(name: &str, bytes: &[u8], decode: &impl Fn() -> D, whole: &Decoded) {
    for cut in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        assert_eq!(&told([head, tail], decode()), whole, "{name} cut in two at byte {cut}");
    }
    assert_eq!(&told(bytes.chunks(1), decode()), whole, "{name} byte by byte");
}

fn random_cuts_into_many<D: Decode>(name: &str, bytes: &[u8], decode: &impl Fn() -> D, whole: &Decoded) {
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let cuts = prop::collection::vec(0..=bytes.len(), 0..40);
    let held = runner.run(&cuts, |mut cuts| {
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        prop_assert_eq!(&told(pieces, decode()), whole);
        Ok(())
    });
    held.unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn every_end<D: Decode>(name: &str, bytes: &[u8], decode: &impl Fn() -> D, whole: &Decoded) {
    for end in 0..bytes.len() {
        let part = told([&bytes[..end]], decode());
        match part.end {
            Ok(()) => assert_eq!(part.frames, whole.frames, "{name} ended at byte {end} is a silent partial"),
            Err(_) => assert!(whole.frames.starts_with(&part.frames), "{name} ended at byte {end} says something else"),
        }
    }
}
