//! Chance that can be repeated.
//!
//! The same bytes must be cut in the same places whenever they are tried, or a finding could not be kept. So chance is
//! drawn from the bytes themselves, or from a number that the caller has.

/// A source of numbers: xorshift, which is random enough to cut a text.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice that fall as this number says.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed ^ 0x9e37_79b9_7f4a_7c15 | 1)
    }

    /// Dice that fall as these bytes say.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let fold = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self::new(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold))
    }

    /// The next number below `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) as usize).checked_rem(end).unwrap_or(0)
    }

    /// One of some.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Bytes in some pieces, in order; a piece may be empty.
    pub fn cut<'b>(&mut self, bytes: &'b [u8]) -> Vec<&'b [u8]> {
        let count = self.below(12);
        let mut cuts: Vec<usize> = (0..count).map(|_| self.below(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
    }
}
