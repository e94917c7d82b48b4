//! Chance that can be had again: the same seed throws the same numbers.

use std::ops::RangeInclusive;

/// A stream of numbers from a seed (SplitMix64).
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of this range.
    pub(super) const fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        *range.start() + self.next() % (*range.end() - *range.start() + 1)
    }
}
