//! When a server that died may be started again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::connection::StartFailure;
use crate::entropy;

const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// So many deaths within this time, and it rests.
const DEATHS_MAX: usize = 5;
const WITHIN: Duration = Duration::from_secs(10 * 60);
const REST: Duration = Duration::from_secs(10 * 60);

/// The deaths of a server's process.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    deaths: VecDeque<Instant>,
    not_before: Option<Instant>,
}

impl Restarts {
    /// Records that the process died, or would not start.
    pub(super) fn died(&mut self) {
        let now = Instant::now();
        self.deaths.retain(|death| now.duration_since(*death) < WITHIN);
        let pause = PAUSE_MIN.saturating_mul(1 << self.deaths.len().min(6)).min(PAUSE_MAX);
        let jitter = pause.mul_f64(entropy::fraction() / 4.0);
        self.deaths.push_back(now);
        let pause = if self.deaths.len() >= DEATHS_MAX { REST } else { pause + jitter };
        self.not_before = Some(now + pause);
    }

    /// Waits until it may be started again, unless it rests.
    pub(super) async fn wait(&self) -> Result<(), StartFailure> {
        if let Some(rest) = self.rests() {
            let seconds = rest.as_secs().max(1);
            return Err(StartFailure::new(format!(
                "it died {DEATHS_MAX} times within {} minutes and is not started again for {seconds} s",
                WITHIN.as_secs() / 60
            )));
        }
        if let Some(at) = self.not_before {
            sleep_until(at).await;
        }
        Ok(())
    }

    /// How long it rests.
    pub(super) fn rests(&self) -> Option<Duration> {
        let left = self.not_before?.saturating_duration_since(Instant::now());
        (self.deaths.len() >= DEATHS_MAX && !left.is_zero()).then_some(left)
    }

    /// Whether it rests.
    pub(super) fn is_resting(&self) -> bool {
        self.rests().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end_in_a_rest() {
        let mut restarts = Restarts::default();
        let mut pauses = Vec::new();
        for _ in 1..DEATHS_MAX {
            restarts.died();
            let before = Instant::now();
            restarts.wait().await.unwrap();
            pauses.push(before.elapsed());
        }
        for (pause, seconds) in pauses.iter().zip([1, 2, 4, 8].map(Duration::from_secs)) {
            assert!((seconds..=seconds.mul_f64(1.26)).contains(pause), "{pauses:?}");
        }
        restarts.died();
        let resting = restarts.wait().await.unwrap_err().to_string();
        assert_eq!(resting, "it died 5 times within 10 minutes and is not started again for 600 s");
        tokio::time::sleep(REST).await;
        restarts.wait().await.unwrap();
    }
}
