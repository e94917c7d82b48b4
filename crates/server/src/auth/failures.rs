//! Failed logins per address.
//!
//! A token cannot be guessed, but attempts cost time and fill logs. An address with too many failures gets 429 with
//! Retry-After.
//! A valid token always passes: another program on the same machine must not be able to lock the owner out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(60);
/// Addresses remembered at once; when there are more, all are forgotten.
const ADDRESSES_MAX: usize = 4096;

/// Failed logins by address.
#[derive(Debug, Default)]
pub struct FailedLogins(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl FailedLogins {
    /// Counts a failure, and returns whether there were more than `max` in the last minute.
    pub fn is_over(&self, peer: IpAddr, max: u32) -> bool {
        let now = Instant::now();
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= ADDRESSES_MAX {
            failures.clear();
        }
        let (since, count) = failures.entry(peer).or_insert((now, 0));
        if now.duration_since(*since) >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count > max
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_are_forgotten_after_a_minute() {
        let (failures, peer) = (FailedLogins::default(), IpAddr::from(Ipv4Addr::LOCALHOST));
        assert!(!failures.is_over(peer, 2));
        assert!(!failures.is_over(peer, 2));
        assert!(failures.is_over(peer, 2));
        assert!(!failures.is_over(IpAddr::from([10, 0, 0, 1]), 2));
        tokio::time::advance(WINDOW).await;
        assert!(!failures.is_over(peer, 2));
    }
}
