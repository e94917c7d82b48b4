//! Chance that can be had again: the same seed throws the same numbers.

/// A small stream of numbers from a seed (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct SeededDice(u64);

impl SeededDice {
    #[cfg(any(test, feature = "http"))]
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice that also depend on what they are thrown for.
    pub(crate) fn about(seed: u64, what: &str) -> Self {
        // FNV-1a, so that equal words give equal throws in every build.
        let hash = what
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(seed ^ hash)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// Whether something of this probability happens.
    #[cfg(feature = "http")]
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        // The top 53 bits are an exact fraction.
        ((self.next() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_throws_the_same() {
        let throw = |seed| {
            let mut dice = SeededDice::new(seed);
            (0..5).map(|_| dice.below(100)).collect::<Vec<_>>()
        };
        assert_eq!(throw(7), throw(7));
        assert_ne!(throw(7), throw(8));
        assert_ne!(SeededDice::about(7, "a").next(), SeededDice::about(7, "b").next());
    }

    #[cfg(feature = "http")]
    #[test]
    fn certain_events_happen_and_impossible_ones_do_not() {
        let mut dice = SeededDice::new(1);
        assert!((0..100).all(|_| dice.happens(1.0)));
        assert!((0..100).all(|_| !dice.happens(0.0)));
        let often = (0..1000).filter(|_| dice.happens(0.5)).count();
        assert!((400..600).contains(&often), "{often}");
    }
}
