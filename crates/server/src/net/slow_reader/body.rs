//! Response bodies whose client must keep reading.
//!
//! An HTTP/2 connection is shared, and a client can stop reading one stream while it reads the others. The server cannot
//! end that stream alone, but it can free the memory that the stream holds. Over HTTP/1.1 the connection has the time
//! limit, and a response that has to end takes the connection with it.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::OptionFuture;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::budget::CHUNK_BYTES;
use super::{CutSignal, SlowReaders, reading_time};
use crate::net::activity::ActiveRequest;

/// A response body over HTTP/2, dropped when its next piece was not requested in time.
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
    pub fn new(body: Body, request: ActiveRequest, readers: SlowReaders, ends: Option<CutSignal>) -> Self {
        let stall_max = readers.stall_max;
        let slot = Arc::new(Mutex::new(Slot { body: Some((body, request)), until: None, stall_max }));
        let looks = tokio::spawn(look_after(Arc::downgrade(&slot), readers, ends));
        Self { slot, _looks: AbortOnDropHandle::new(looks) }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        lock(&self.slot)
    }
}

/// Drops the body when it is stalled or has to end, and counts that.
async fn look_after(slot: Weak<Mutex<Slot>>, readers: SlowReaders, ends: Option<CutSignal>) {
    tokio::select! {
        biased;
        Some(()) = OptionFuture::from(ends.map(CutSignal::due)) => {}
        () = stalled(&slot, readers.stall_max) => {}
    }
    if let Some(slot) = slot.upgrade() {
        lock(&slot).body = None;
        readers.cut.inc();
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
            slot.until = Some(Instant::now() + slot.stall_max + reading_time(bytes));
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

/// A response body over HTTP/1.1, with its request.
pub struct SentBody {
    body: Body,
    _request: ActiveRequest,
    /// The task that waits until the body has to be cut; ends with the body.
    _looks: Option<AbortOnDropHandle<()>>,
}

impl SentBody {
    /// Wraps a body. If it has to end and the client does not take the end, the connection is cut.
    pub fn new(body: Body, request: ActiveRequest, readers: SlowReaders, ends: Option<CutSignal>) -> Self {
        let looks = ends.map(|ends| {
            let connection = request.connection().clone();
            AbortOnDropHandle::new(tokio::spawn(async move {
                ends.due().await;
                readers.cut.inc();
                connection.cut();
            }))
        });
        Self { body, _request: request, _looks: looks }
    }
}

impl hyper::body::Body for SentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;
    use hyper::Version;
    use prometheus_client::metrics::counter::Counter;

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
            SlowReaders::new(SECOND * 30, cut.clone()),
            None,
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
        let readers = SlowReaders::new(SECOND * 30, Counter::default());
        let mut body = TimedBody::new(Body::from_stream(pieces), piece, readers, None);
        for _ in 0..3 {
            body.frame().await.unwrap().unwrap();
            sleep(SECOND * 90).await;
        }
        sleep(SECOND * 40).await;
        body.frame().await.unwrap().unwrap_err();
    }
}
