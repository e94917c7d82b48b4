//! A connection whose other side must go on reading.
//!
//! Nobody waits for a slow reader: its stream reads the store when there is room on its connection, so it costs one
//! batch of events and not more. But one that has stopped reading would hold its connection for ever. So a write that
//! makes no progress for too long ends it; whoever it was comes back with the cursor it has.

use std::future::Future as _;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection with a bound on how long a write may make no progress.
pub struct Stall<T> {
    io: T,
    stall_max: Duration,
    /// When it is over. Armed while a write waits.
    deadline: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<T> Stall<T> {
    /// The same connection, cut when a write waits so long.
    pub fn new(io: T, stall_max: Duration) -> Self {
        Self { io, stall_max, deadline: Box::pin(sleep(stall_max)), is_waiting: false }
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_cut_and_one_that_goes_on_is_not() {
        let (ours, mut theirs) = duplex(8);
        let mut ours = Stall::new(ours, Duration::from_secs(30));
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
    }
}
