//! Exponential backoff.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
const MAX: Duration = Duration::from_secs(2);

/// How long to wait before the next try.
#[derive(Debug)]
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// The delay before the next try; the one after it will be longer.
    pub fn next(&mut self) -> Duration {
        let delay = self.0;
        self.0 = (delay * 2).min(MAX);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_stay_bounded() {
        let mut backoff = Backoff::default();
        let delays: Vec<u128> = (0..9).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(delays, [20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
    }
}
