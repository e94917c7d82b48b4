//! Polling: when to read the store although no wake-up came.
//!
//! A wake-up may be lost, so every waiting task also reads the store now and then. Thousands may wait: each at its own
//! moment, or the store would be idle for seconds and then serve all of them at once.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use crate::util::entropy::Entropy;
use crate::util::poll_on_wake::PollOnWake;

/// About how long a task waits for a wake-up that may have been lost.
const POLL: Duration = Duration::from_secs(5);
/// The part of that by which it is longer or shorter for some.
const SPREAD: f64 = 0.2;

/// The pause of the task with this name: always the same, and different from most others.
pub(crate) fn pause(name: &[u8]) -> Duration {
    let seed = name.iter().fold(0, |seed: u64, byte| seed.wrapping_mul(257).wrapping_add(u64::from(*byte)));
    POLL.mul_f64(1.0 - SPREAD + 2.0 * SPREAD * Entropy::seeded(seed).unit())
}

/// A timer that says when to read the store.
#[derive(Debug)]
pub(crate) struct Polling {
    every: Duration,
    /// One timer for all waits: a new one per wait costs more than the wait itself.
    timer: Option<PollOnWake<Pin<Box<Sleep>>>>,
}

impl Polling {
    pub(crate) fn of(name: &[u8]) -> Self {
        Self { every: pause(name), timer: None }
    }

    /// Waits until it is time. Dropping the future loses nothing.
    pub(crate) async fn due(&mut self) {
        let timer = self.timer.get_or_insert_with(|| PollOnWake::new(Box::pin(sleep(self.every))));
        (&mut *timer).await;
        timer.get_mut().as_mut().reset(Instant::now() + self.every);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn pauses_are_about_as_long_and_few_the_same() {
        let pauses: BTreeSet<Duration> = (0..100u128).map(|n| pause(&n.to_be_bytes())).collect();
        assert!(pauses.iter().all(|pause| (POLL.mul_f64(0.8)..=POLL.mul_f64(1.2)).contains(pause)), "{pauses:?}");
        assert!(pauses.len() > 80, "{}", pauses.len());
        let (first, last) = (pauses.first().unwrap(), pauses.last().unwrap());
        assert!(*last - *first > POLL.mul_f64(0.35), "{first:?} {last:?}");
        assert_eq!(pause(b"a name"), pause(b"a name"));
    }
}
