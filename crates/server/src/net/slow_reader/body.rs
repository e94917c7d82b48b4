//! Response bodies of HTTP/2 whose client must keep reading.
//!
//! An HTTP/2 connection is shared, and a client can stop reading one stream while it reads the others. The server cannot
//! end that stream alone, but it can free the memory that the stream holds.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::OptionFuture;
use hyper::body::{Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::auth::token_watch::CutSignal;
use crate::net::activity::ActiveRequest;
use crate::net::slow_reader::budget::CHUNK_BYTES;
use crate::net::slow_reader::connection::made_good_by;

/// A response body that is dropped when its next piece was not requested in time.
pub struct TimedBody {
    slot: Arc<Mutex<Slot>>,
    /// The task that checks for progress; ends with the body.
    _looks: AbortOnDropHandle<()>,
}

struct Slot {
    /// The body, and the request that it answers.
    body: Option<(Body, ActiveRequest)>,
    /// The deadline for the next poll, while it is the client's turn.
    until: Option<Instant>,
    stall_max: Duration,
}

impl TimedBody {
    /// Wraps a body. It is dropped when nothing of it is taken for `stall_max`, or up to twice as long; a piece of 64 KiB
    /// may take a minute longer. It is dropped too when `ends` is due.
    pub fn new(body: Body, piece: ActiveRequest, stall_max: Duration, ends: Option<CutSignal>, cut: Counter) -> Self {
        let slot = Arc::new(Mutex::new(Slot { body: Some((body, piece)), until: None, stall_max }));
        let looks = tokio::spawn(look_after(Arc::downgrade(&slot), stall_max, ends, cut));
        Self { slot, _looks: AbortOnDropHandle::new(looks) }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        lock(&self.slot)
    }
}

/// Drops the body when it is stalled or has to end, and counts that.
async fn look_after(slot: Weak<Mutex<Slot>>, stall_max: Duration, ends: Option<CutSignal>, cut: Counter) {
    tokio::select! {
        biased;
        Some(()) = OptionFuture::from(ends.map(CutSignal::due)) => {}
        () = stalled(&slot, stall_max) => {}
    }
    if let Some(slot) = slot.upgrade() {
        lock(&slot).body = None;
        cut.inc();
    }
}

/// Waits until the next piece was not requested in time, or the body is gone.
async fn stalled(slot: &Weak<Mutex<Slot>>, stall_max: Duration) {
    loop {
        sleep(stall_max).await;
        let Some(slot) = slot.upgrade() else { return };
        if lock(&slot).until.is_some_and(|until| until <= Instant::now()) {
            return;
        }
    }
}

fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

impl hyper::body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut slot = self.slot();
        slot.until = None;
        let Some((body, _)) = &mut slot.body else {
            let stalled = Error::new(ErrorKind::TimedOut, "the client did not read");
            return Poll::Ready(Some(Err(axum::Error::new(stalled))));
        };
        let polled = Pin::new(body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let bytes = frame.data_ref().map_or(0, Bytes::len).min(CHUNK_BYTES);
            slot.until = Some(Instant::now() + slot.stall_max + made_good_by(bytes));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.slot().body.as_ref().is_some_and(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.slot().body.as_ref().map(|(body, _)| body.size_hint()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;
    use hyper::Version;

    use super::*;
    use crate::net::activity::Activity;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_body_is_dropped_when_the_client_stalls_and_not_when_the_server_does() {
        let (held, is_held) = (Arc::new(()), |held: &Arc<()>| Arc::strong_count(held) > 1);
        let cut = Counter::default();
        let slow = {
            let held = held.clone();
            stream::unfold(0, move |n: u64| {
                let held = held.clone();
                async move {
                    sleep(if n == 1 { SECOND * 100 } else { Duration::ZERO }).await;
                    let _ = &held;
                    Some((Ok::<_, Infallible>(Bytes::from("piece")), n + 1))
                }
            })
        };
        let mut body = TimedBody::new(
            Body::from_stream(slow),
            Activity::default().begin(Version::HTTP_2),
            SECOND * 30,
            None,
            cut.clone(),
        );
        for _ in 0..2 {
            body.frame().await.unwrap().unwrap(); // The server takes a hundred seconds for the second.
            sleep(SECOND * 29).await;
        }
        body.frame().await.unwrap().unwrap();
        assert!(is_held(&held) && cut.get() == 0);
        sleep(SECOND * 61).await;
        assert!(!is_held(&held), "its memory is freed");
        assert_eq!(cut.get(), 1);
        body.frame().await.unwrap().unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_piece_may_take_a_minute_longer_and_no_more() {
        let pieces = stream::repeat(Bytes::from(vec![0; 20_000_000])).map(Ok::<_, Infallible>);
        let piece = Activity::default().begin(Version::HTTP_2);
        let mut body = TimedBody::new(Body::from_stream(pieces), piece, SECOND * 30, None, Counter::default());
        for _ in 0..3 {
            body.frame().await.unwrap().unwrap();
            sleep(SECOND * 90).await;
        }
        sleep(SECOND * 40).await;
        body.frame().await.unwrap().unwrap_err();
    }
}
