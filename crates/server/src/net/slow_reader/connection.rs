//! Time limits for the heads of requests, and for clients that stop reading.
//!
//! Each connection counts towards the connection limit. So the first request has to be there in time, whatever comes
//! before it: silence, half a preface, a handshake. After a response a connection may be idle, because proxies keep some
//! in reserve; but a head that has begun has to be complete within the same time.
//!
//! A slow client delays no other: its stream reads the store when there is room on its connection, so it costs one batch
//! of events and not more. But a client that has stopped reading would hold its connection for ever, and so would one that
//! takes a byte now and then. So the time that writes wait is added up: too much of it ends the connection, and only bytes
//! that are taken reduce it. The client resumes with its cursor.

use std::future::Future as _;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::{SlowReaders, reading_time};
use crate::net::activity::Activity;

/// A connection with a time limit for heads, the first one counted from now on, and for waiting writes.
pub struct TimedConnection<T> {
    io: T,
    readers: SlowReaders,
    /// When the connection is cut. Armed while a write waits.
    deadline: Pin<Box<Sleep>>,
    waits_since: Option<Instant>,
    /// Waiting time before that, minus what taken bytes have cancelled.
    waited: Duration,
    activity: Activity,
    head_max: Duration,
    /// The number of the request whose head has begun, and the deadline for its end.
    head: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<T> TimedConnection<T> {
    /// Wraps a connection: it is cut when writes have waited for `stall_max`, or when a head takes longer than `head_max`.
    pub fn new(io: T, readers: SlowReaders, head_max: Duration, activity: Activity) -> Self {
        let deadline = Box::pin(sleep(readers.stall_max));
        let head = Some((0, Box::pin(sleep(head_max))));
        Self { io, readers, deadline, waits_since: None, waited: Duration::ZERO, activity, head_max, head }
    }

    /// The wrapped connection.
    pub const fn inner(&self) -> &T {
        &self.io
    }

    fn watch(&mut self, context: &mut Context<'_>, polled: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let Poll::Ready(written) = polled {
            if let Some(since) = self.waits_since.take() {
                self.waited += since.elapsed();
                self.activity.taken();
            }
            if let (Ok(bytes), false) = (&written, self.waited.is_zero()) {
                self.waited = self.waited.saturating_sub(reading_time(*bytes));
            }
            return Poll::Ready(written);
        }
        if self.waits_since.is_none() {
            let now = Instant::now();
            self.waits_since = Some(now);
            self.deadline.as_mut().reset(now + self.readers.stall_max.saturating_sub(self.waited));
        }
        ready!(self.deadline.as_mut().poll(context));
        self.readers.cut.inc();
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read")))
    }

    /// Handles received bytes: between requests, the first of them begins a head.
    fn heard(&mut self) {
        let Some(awaited) = self.activity.awaited() else { return };
        if self.head.as_ref().is_none_or(|(begun, _)| *begun != awaited) {
            self.head = Some((awaited, Box::pin(sleep(self.head_max))));
        }
    }

    /// Whether a head is not complete in time.
    fn poll_late(&mut self, context: &mut Context<'_>) -> bool {
        let Some((begun, deadline)) = &mut self.head else { return false };
        if self.activity.awaited() != Some(*begun) {
            self.head = None;
            return false;
        }
        deadline.as_mut().poll(context).is_ready()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimedConnection<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, buf);
        if buf.filled().len() > before {
            self.heard();
        }
        match polled {
            Poll::Pending if self.poll_late(context) => {
                Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client sent no complete request head in time")))
            }
            polled => polled,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TimedConnection<T> {
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
        Pin::new(&mut self.io).poll_flush(context) // A socket buffers nothing here.
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use hyper::Version;
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn stalling(room: usize) -> (TimedConnection<DuplexStream>, DuplexStream, Activity) {
        let ((ours, theirs), work) = (duplex(room), Activity::default());
        let readers = SlowReaders::new(SECOND * 30, Counter::default());
        (readers.connection(ours, SECOND * 10, work.clone()), theirs, work)
    }

    /// How long writes go on to a client that takes `bytes` bytes after each pause; `None` if it takes all.
    async fn cut_after(pause: Duration, bytes: usize) -> Option<Duration> {
        let (mut ours, mut theirs, _work) = stalling(bytes);
        let began = Instant::now();
        let reader = tokio::spawn(async move {
            let mut taken = vec![0; bytes];
            loop {
                sleep(pause).await;
                if theirs.read_exact(&mut taken).await.is_err() {
                    return;
                }
            }
        });
        let wrote = ours.write_all(&vec![0; 100 * bytes]).await;
        reader.abort();
        wrote.err().map(|error| {
            assert_eq!((error.kind(), ours.readers.cut.get()), (ErrorKind::TimedOut, 1));
            began.elapsed()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_cut_and_one_that_goes_on_is_not() {
        assert_eq!(cut_after(SECOND * 1_000, 8).await, Some(SECOND * 30));
        assert_eq!(cut_after(SECOND * 29, 40_000).await, None, "slow, and still good");
    }

    #[tokio::test(start_paused = true)]
    async fn a_byte_now_and_then_does_not_keep_a_connection() {
        let cut = cut_after(SECOND * 29, 1).await.unwrap();
        assert!(cut < SECOND * 31, "{cut:?}");
        let cut = cut_after(SECOND, 500).await.unwrap();
        assert!((SECOND * 58..SECOND * 62).contains(&cut), "each second is half made good: {cut:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_head_has_a_time_limit_and_an_idle_connection_does_not() {
        let (mut ours, mut theirs, _work) = stalling(8);
        let began = Instant::now();
        theirs.write_all(b"PRI").await.unwrap();
        let error = ours.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::TimedOut, SECOND * 10));
        let (mut ours, mut theirs, work) = stalling(8);
        drop(work.begin(Version::HTTP_11));
        let late = async {
            sleep(SECOND * 100).await;
            theirs.write_all(b"more").await.unwrap();
        };
        let mut more = [0; 4];
        let (read, ()) = tokio::join!(ours.read_exact(&mut more), late);
        assert_eq!((read.unwrap(), &more), (4, b"more"));
    }

    /// Each head has its time from its first byte on, however long the connection was idle before; bytes that come while a
    /// request is under way, and any in HTTP/2, are no head.
    #[tokio::test(start_paused = true)]
    async fn a_head_that_has_begun_has_to_be_whole_in_time() {
        for (version, piece_is_kept, cut) in
            [(Version::HTTP_11, false, true), (Version::HTTP_11, true, false), (Version::HTTP_2, false, false)]
        {
            let (mut ours, mut theirs, work) = stalling(8);
            theirs.write_all(b"one").await.unwrap();
            ours.read_exact(&mut [0; 3]).await.unwrap();
            let piece = Some(work.begin(version)).filter(|_| piece_is_kept);
            for (pause, word) in [(100, b"G"), (5, b"E"), (4, b"T")] {
                sleep(SECOND * pause).await;
                theirs.write_all(word).await.unwrap();
                ours.read_exact(&mut [0]).await.unwrap();
            }
            let began = Instant::now();
            let silent = tokio::time::timeout(SECOND * 100, ours.read(&mut [0])).await;
            let is_cut = silent.is_ok_and(|read| read.unwrap_err().kind() == ErrorKind::TimedOut);
            assert_eq!(is_cut, cut, "{version:?}");
            assert_eq!(began.elapsed(), SECOND * if cut { 1 } else { 100 });
            drop(piece);
        }
    }
}
