//! What clients may have, all of them by name.

use std::time::Duration;

/// The bounds of a server.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Connections at once: 20,000.
    pub connections_max: usize,
    /// Streams of one token at once: 100.
    pub streams_max: usize,
    /// Chats of one owner that work at once: 2,000.
    pub running_max: usize,
    /// How long a stream lasts before it ends in good order, sooner than proxies cut it: 1 h, or up to a
    /// fifth less.
    pub stream_time_max: Duration,
    /// How often a stream without events says that it lives: 15 s.
    pub heartbeat: Duration,
    /// How often it is asked whether the token of open streams is still good: 3 s.
    pub recheck: Duration,
    /// How long a reader may not read before it is cut: 30 s.
    pub stall_max: Duration,
    /// How long a connection may have nothing to do, longer than proxies keep theirs at hand: 2 min.
    pub idle_max: Duration,
    /// How long the head of a request may take from its first byte, and the first from the moment somebody connects: 10 s.
    pub head_time_max: Duration,
    /// How long its body may take: 30 s, and a second more for every 10,000 bytes that have come.
    pub arrival_max: Duration,
    /// How many bytes the larger bodies may have that are on their way or being handled, with what is made of them, all
    /// together: 256 MiB.
    pub bodies_bytes_max: usize,
    /// How many bytes the larger answers may have that are on their way out, all together: 256 MiB.
    pub answers_bytes_max: usize,
    /// How large the head may be: 16 KiB.
    pub head_bytes_max: usize,
    /// Failed logins a minute and address: 10.
    pub failures_max: u32,
    /// How long a request waits for its command to be obeyed, longer than the chats of a dead server wait for another: 25 s.
    pub outcome_max: Duration,
    /// How long a shutdown waits for requests under way: 10 s.
    pub drain_max: Duration,
    /// How long it waits for steps that may be nearly done, before turns are handed over where they are: 5 s.
    pub grace_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: 20_000,
            streams_max: 100,
            running_max: 2_000,
            stream_time_max: Duration::from_secs(60 * 60),
            heartbeat: Duration::from_secs(15),
            recheck: Duration::from_secs(3),
            stall_max: Duration::from_secs(30),
            idle_max: Duration::from_secs(120),
            head_time_max: Duration::from_secs(10),
            arrival_max: Duration::from_secs(30),
            bodies_bytes_max: 256 * 1024 * 1024,
            answers_bytes_max: 256 * 1024 * 1024,
            head_bytes_max: 16 * 1024,
            failures_max: 10,
            outcome_max: Duration::from_secs(25),
            drain_max: Duration::from_secs(10),
            grace_max: Duration::from_secs(5),
        }
    }
}
