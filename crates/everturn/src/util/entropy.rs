//! Randomness. No other module draws random numbers.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream of random numbers, from a random seed or a given one.
#[derive(Debug)]
pub(crate) struct Entropy(AtomicU64);

impl Entropy {
    /// Numbers from a random seed: good against collisions, not for secrets.
    pub(crate) fn system() -> Self {
        Self::seeded(RandomState::new().hash_one("everturn"))
    }

    /// Reproducible numbers, for tests.
    pub(crate) const fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next number (splitmix64).
    pub(crate) fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to, not including, 1.
    pub(crate) fn unit(&self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_they_spread() {
        let (a, b) = (Entropy::seeded(7), Entropy::seeded(7));
        let first: Vec<u64> = (0..100).map(|_| a.next()).collect();
        assert_eq!(first, (0..100).map(|_| b.next()).collect::<Vec<_>>());
        let units: Vec<f64> = (0..1000).map(|_| a.unit()).collect();
        assert!(units.iter().all(|u| (0.0..1.0).contains(u)));
        let low = units.iter().filter(|u| **u < 0.5).count();
        assert!((400..600).contains(&low), "{low}");
    }
}
