//! Limits on clients that read slowly.
//!
//! A client that does not read holds memory and its connection. Each part of that has a limit:
//!
//! - `connection`: writes that wait too long end the connection. All that HTTP/1.1 needs, since it has one response at a
//!   time.
//! - `body`: over HTTP/2 a client can stop reading one stream while it reads the others; the body of that stream is
//!   dropped. A response whose token is invalid is cut in both protocols.
//! - `budget`: the bytes of all large responses together.
//!
//! All count time in the same way: writes may wait for `stall_max`, and a client that takes [`BYTES_PER_SECOND`] is in time.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod connection;

use std::future::pending;
use std::time::Duration;

use axum::body::Body;
use hyper::Version;
use prometheus_client::metrics::counter::Counter;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::body::{SentBody, TimedBody};
use self::connection::TimedConnection;
use crate::net::activity::{ActiveRequest, Activity};

/// The pace of the slowest client that is never cut.
const BYTES_PER_SECOND: u64 = 1_000;
/// Time for a response to end by itself after its token has become invalid.
const FAREWELL: Duration = Duration::from_secs(1);

/// The time limits on readers, and the count of those that were cut.
#[derive(Clone)]
pub(crate) struct SlowReaders {
    /// Time that a client may not read.
    stall_max: Duration,
    cut: Counter,
}

impl SlowReaders {
    /// Limits with this time; `cut` counts the clients that exceed it.
    pub(crate) const fn new(stall_max: Duration, cut: Counter) -> Self {
        Self { stall_max, cut }
    }

    /// A connection that is cut when the client does not read, or when a request head takes longer than `head_max`.
    pub(crate) fn connection<T>(&self, io: T, head_max: Duration, activity: Activity) -> TimedConnection<T> {
        TimedConnection::new(io, self.clone(), head_max, activity)
    }

    /// The body of a response, with its request, in this version of HTTP. It is cut when `ends` is due.
    pub(crate) fn body(&self, version: Version, body: Body, request: ActiveRequest, ends: Option<CutSignal>) -> Body {
        match version {
            Version::HTTP_2 => Body::new(TimedBody::new(body, request, self.clone(), ends)),
            _ => Body::new(SentBody::new(body, request, self.clone(), ends)),
        }
    }
}

/// The time that a client may need for so many bytes.
const fn reading_time(bytes: usize) -> Duration {
    Duration::from_millis(bytes as u64 * 1_000 / BYTES_PER_SECOND)
}

/// When to cut a response whose token is invalid and that has not ended by itself. An extension of the response.
#[derive(Clone)]
pub(crate) struct CutSignal {
    over: CancellationToken,
    shutdown: CancellationToken,
}

impl CutSignal {
    /// Due a moment after `over`, but not at shutdown: requests under way have a time limit of their own then.
    pub(crate) const fn new(over: CancellationToken, shutdown: CancellationToken) -> Self {
        Self { over, shutdown }
    }

    /// Waits until the response has to be cut.
    async fn due(self) {
        self.over.cancelled().await;
        if self.shutdown.is_cancelled() {
            pending().await
        }
        sleep(FAREWELL).await;
    }
}
