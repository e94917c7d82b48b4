//! Limits of the server.

use std::time::Duration;

/// The limits of a server.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Concurrent connections: 20,000.
    pub connections_max: usize,
    /// Concurrent streams per token: 100.
    pub streams_max: usize,
    /// Running chats per owner: 2,000.
    pub running_max: usize,
    /// How long a stream lasts before the server ends it cleanly, before proxies would cut it: 1 h, or up to a fifth less.
    pub stream_time_max: Duration,
    /// How often a stream without events sends a keep-alive comment: 15 s.
    pub heartbeat: Duration,
    /// How often the tokens of open streams are checked: 3 s.
    pub recheck: Duration,
    /// How long a client may not read before it is cut: 30 s.
    pub stall_max: Duration,
    /// How long a connection may be idle, longer than proxies keep idle ones: 2 min.
    pub idle_max: Duration,
    /// Time limit for a request's head, from its first byte, and for the first one from the connection's start: 10 s.
    pub head_time_max: Duration,
    /// Time limit for a request's body: 30 s, and a second more for every 10,000 bytes received.
    pub arrival_max: Duration,
    /// Memory of all large request bodies that are being received or handled, parsed values included: 256 MiB.
    pub bodies_bytes_max: usize,
    /// Memory of all large responses that are being sent: 256 MiB.
    pub answers_bytes_max: usize,
    /// Size of a request's head: 16 KiB.
    pub head_bytes_max: usize,
    /// Failed logins per minute and address: 10.
    pub failures_max: u32,
    /// How long a request waits for its command to be applied, longer than another server takes to take over: 25 s.
    pub outcome_max: Duration,
    /// How long generations for clients that keep their conversation themselves are kept: 1 h.
    pub generations_kept: Duration,
    /// How long a shutdown waits for requests under way: 10 s.
    pub drain_max: Duration,
    /// How long a shutdown waits for steps that may be nearly done, before turns are handed over as they are: 5 s.
    pub grace_max: Duration,
}

impl Default for ServerLimits {
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
            generations_kept: Duration::from_secs(60 * 60),
            drain_max: Duration::from_secs(10),
            grace_max: Duration::from_secs(5),
        }
    }
}
