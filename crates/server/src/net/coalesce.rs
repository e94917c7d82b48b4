//! Write coalescing for connections with many streams.
//!
//! Over HTTP/2 many streams share a connection, and one commit makes dozens of them ready in the same moment. The first
//! wakes the connection's task, which would write that one event alone: a system call and a packet per delta. So the task
//! yields once, lets the other ready streams add their events, and writes once for all. Without other ready tasks this
//! costs nothing.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that yields once before each write.
pub struct CoalescedWrites<T> {
    io: T,
    /// Whether it has yielded since the last complete write.
    has_yielded: bool,
}

impl<T> CoalescedWrites<T> {
    pub const fn new(io: T) -> Self {
        Self { io, has_yielded: false }
    }

    /// Yields once.
    fn poll_turn(&mut self, context: &Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut self.has_yielded, true) {
            context.waker().wake_by_ref(); // A task that wakes itself goes to the end of the run queue.
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for CoalescedWrites<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for CoalescedWrites<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        ready!(self.poll_turn(context));
        Pin::new(&mut self.io).poll_write(context, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        ready!(self.poll_turn(context));
        Pin::new(&mut self.io).poll_write_vectored(context, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.has_yielded = false;
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use tokio::io::{DuplexStream, duplex};
    use tokio::sync::watch;

    use super::*;

    const READERS: usize = 20;

    /// Counts writes.
    struct Counting(DuplexStream, Arc<AtomicUsize>);

    impl AsyncRead for Counting {
        fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
            Pin::new(&mut self.0).poll_read(context, buf)
        }
    }

    impl AsyncWrite for Counting {
        fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut self.0).poll_write(context, buf)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
            Pin::new(&mut self.0).poll_flush(context)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(context)
        }
    }

    /// How many writes it takes until all streams have received an event that came for all of them at once.
    async fn writes<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(io: fn(Counting) -> T) -> usize {
        let (ours, theirs) = duplex(1 << 20);
        let (count, (say, word)) = (Arc::new(AtomicUsize::new(0)), watch::channel(false));
        let io = io(Counting(ours, count.clone()));
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(io).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let (mut body, mut word) =
                    (respond.send_response(axum::http::Response::new(()), false).unwrap(), word.clone());
                tokio::spawn(async move {
                    word.wait_for(|is_said| *is_said).await.unwrap();
                    body.send_data(Bytes::from_static(b"word"), true).unwrap();
                });
            }
        });
        let (mut client, connection) = h2::client::handshake(theirs).await.unwrap();
        tokio::spawn(connection);
        let mut answers = Vec::new();
        for _ in 0..READERS {
            let request = axum::http::Request::get("http://it/").body(()).unwrap();
            answers.push(client.send_request(request, true).unwrap().0.await.unwrap().into_body());
        }
        let before = count.load(Ordering::Relaxed);
        say.send(true).unwrap();
        for mut answer in answers {
            assert_eq!(answer.data().await.unwrap().unwrap(), "word");
        }
        count.load(Ordering::Relaxed) - before
    }

    /// On a worker of the real runtime, which continues with the task that was woken last: without `CoalescedWrites`, the writer.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn events_ready_together_are_written_together() {
        let apart = tokio::spawn(writes(|io| io)).await.unwrap();
        let together = tokio::spawn(writes(CoalescedWrites::new)).await.unwrap();
        assert!(together * 4 <= apart, "{READERS} words in {together} writes, and in {apart} without coalescing");
    }
}
