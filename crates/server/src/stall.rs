//! A connection whose other side must go on reading.
//!
//! Nobody waits for a slow reader: its stream reads the store when there is room on its connection, so it costs one
//! batch of events and not more. But one that has stopped reading would hold its connection for ever. So a write that
//! makes no progress for too long ends it; whoever it was comes back with the cursor it has.
//!
//! In HTTP/2 a connection is shared, and one of its readers can stop while the others go on. Nobody can end that one from
//! here, but what it holds can be let go: [`Taking`].

use std::future::Future as _;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection with a bound on how long a write may make no progress.
pub struct Stall<T> {
    io: T,
    stall_max: Duration,
    /// When it is over. Armed while a write waits.
    deadline: Pin<Box<Sleep>>,
    is_waiting: bool,
    /// Counts those that are cut.
    cut: Counter,
}

impl<T> Stall<T> {
    /// The same connection, cut when a write waits so long.
    pub fn new(io: T, stall_max: Duration, cut: Counter) -> Self {
        Self { io, stall_max, deadline: Box::pin(sleep(stall_max)), is_waiting: false, cut }
    }

    fn watch<R>(&mut self, context: &mut Context<'_>, polled: Poll<Result<R>>) -> Poll<Result<R>> {
        if polled.is_ready() {
            self.is_waiting = false;
            return polled;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.deadline.as_mut().reset(Instant::now() + self.stall_max);
        }
        ready!(self.deadline.as_mut().poll(context));
        self.cut.inc();
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the other side does not read")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stall<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stall<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(context, buf);
        self.watch(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(context, bufs);
        self.watch(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(context);
        self.watch(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

/// A body whose reader must go on taking. What it holds is let go when a piece was not asked for in time.
pub struct Taking(Arc<Mutex<Slot>>);

struct Slot {
    body: Option<Body>,
    /// When a piece was handed out, if no other was asked for since.
    given: Option<Instant>,
}

impl Taking {
    /// The same body, let go when nothing is taken of it for so long, or up to twice as long.
    pub fn new(body: Body, stall_max: Duration, cut: Counter) -> Self {
        let slot = Arc::new(Mutex::new(Slot { body: Some(body), given: None }));
        tokio::spawn(look_after(Arc::downgrade(&slot), stall_max, cut));
        Self(slot)
    }
}

async fn look_after(slot: Weak<Mutex<Slot>>, stall_max: Duration, cut: Counter) {
    loop {
        sleep(stall_max).await;
        let Some(slot) = slot.upgrade() else { return };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.given.is_some_and(|given| given.elapsed() >= stall_max) {
            slot.body = None;
            cut.inc();
            return;
        }
    }
}

impl hyper::body::Body for Taking {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.given = None;
        let Some(body) = &mut slot.body else {
            let stalled = Error::new(ErrorKind::TimedOut, "the other side did not read");
            return Poll::Ready(Some(Err(axum::Error::new(stalled))));
        };
        let polled = Pin::new(body).poll_frame(context);
        if polled.is_ready() {
            slot.given = Some(Instant::now());
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_cut_and_one_that_goes_on_is_not() {
        let (ours, mut theirs) = duplex(8);
        let cut = Counter::default();
        let mut ours = Stall::new(ours, Duration::from_secs(30), cut.clone());
        ours.write_all(b"12345678").await.unwrap();
        let slow = async {
            sleep(Duration::from_secs(29)).await;
            theirs.read_exact(&mut [0; 4]).await.unwrap();
        };
        let (wrote, ()) = tokio::join!(ours.write_all(b"abcd"), slow);
        wrote.unwrap();
        let began = Instant::now();
        let error = ours.write_all(b"efgh").await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::TimedOut, Duration::from_secs(30)));
        assert_eq!(cut.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_takes_is_let_go_and_one_that_waits_for_us_is_not() {
        use futures_util::stream;
        use http_body_util::BodyExt as _;
        let (held, witness) = (Arc::new(()), |held: &Arc<()>| Arc::strong_count(held) > 1);
        let second = Duration::from_secs(1);
        let slow = {
            let held = held.clone();
            stream::unfold(0, move |n: u64| {
                let held = held.clone();
                async move {
                    sleep(if n == 1 { second * 100 } else { Duration::ZERO }).await;
                    let _ = &held;
                    Some((Ok::<_, std::convert::Infallible>(Bytes::from("piece")), n + 1))
                }
            })
        };
        let cut = Counter::default();
        let mut body = Taking::new(Body::from_stream(slow), second * 30, cut.clone());
        for _ in 0..2 {
            body.frame().await.unwrap().unwrap(); // The second takes a hundred seconds, which is not the reader's fault.
            sleep(second * 29).await;
        }
        body.frame().await.unwrap().unwrap();
        assert!(witness(&held) && cut.get() == 0);
        sleep(second * 60).await;
        assert!(!witness(&held), "what it held is let go");
        body.frame().await.unwrap().unwrap_err();
        assert_eq!(cut.get(), 1);
    }
}
