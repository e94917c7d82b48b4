//! When to look at the store although nobody said so.
//!
//! A wake-up may be lost, so whoever waits for one looks now and then in any case. Thousands may wait: they look at moments
//! of their own, or the store would have nothing to do for seconds and then everything at once.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use crate::util::entropy::Entropy;
use crate::util::poll_on_wake::Dormant;

/// About how long somebody waits for a wake-up that may have been lost.
const POLL: Duration = Duration::from_secs(5);
/// By how much of that it is longer or shorter for some.
const SPREAD: f64 = 0.2;

/// How long whoever goes by this name waits: always as long, and not as long as others.
pub(crate) fn pause(name: &[u8]) -> Duration {
    let seed = name.iter().fold(0, |seed: u64, byte| seed.wrapping_mul(257).wrapping_add(u64::from(*byte)));
    POLL.mul_f64(1.0 - SPREAD + 2.0 * SPREAD * Entropy::seeded(seed).unit())
}

/// Says when it is time to look.
#[derive(Debug)]
pub(crate) struct Poll {
    every: Duration,
    /// One timer for all waits: to make one for each costs more than the wait.
    timer: Option<Dormant<Pin<Box<Sleep>>>>,
}

impl Poll {
    pub(crate) fn of(name: &[u8]) -> Self {
        Self { every: pause(name), timer: None }
    }

    /// Waits until it is time. Dropping the future loses nothing.
    pub(crate) async fn due(&mut self) {
        let timer = self.timer.get_or_insert_with(|| Dormant::new(Box::pin(sleep(self.every))));
        (&mut *timer).await;
        timer.get_mut().as_mut().reset(Instant::now() + self.every);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn everybody_waits_about_as_long_and_few_the_same() {
        let pauses: BTreeSet<Duration> = (0..100u128).map(|n| pause(&n.to_be_bytes())).collect();
        assert!(pauses.iter().all(|pause| (POLL.mul_f64(0.8)..=POLL.mul_f64(1.2)).contains(pause)), "{pauses:?}");
        assert!(pauses.len() > 80, "{}", pauses.len());
        let (first, last) = (pauses.first().unwrap(), pauses.last().unwrap());
        assert!(*last - *first > POLL.mul_f64(0.35), "{first:?} {last:?}");
        assert_eq!(pause(b"somebody"), pause(b"somebody"));
    }
}
