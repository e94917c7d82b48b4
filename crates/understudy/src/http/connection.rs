//! One connection, and the ways to lose it.
//!
//! A broken answer must break the connection as real networks do: closed, reset, or ended with GOAWAY. The
//! answer's player requests it through its [`ConnectionHandle`], and the task with the socket does it.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::act::Break;
use super::answer;
use super::state::ServerState;

/// How long a connection that is given up may take to say so.
const FAREWELL: Duration = Duration::from_millis(20);
/// How long to wait when no connection can be accepted.
const BACKOFF: Duration = Duration::from_millis(5);

/// A handle on a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionHandle {
    lost: CancellationToken,
    how: Arc<Mutex<Option<Break>>>,
}

impl ConnectionHandle {
    /// Loses the connection, this way unless it is being lost already.
    pub(super) fn lose(&self, how: Break) {
        self.how.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(how);
        self.lost.cancel();
    }

    fn how(&self) -> Option<Break> {
        *self.how.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts connections until told to stop.
pub(super) async fn accept(listener: TcpListener, state: Arc<ServerState>, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, state.clone(), stop.clone()));
            }
            Err(_) => tokio::time::sleep(BACKOFF).await, // No descriptors left, most likely: some will be.
        }
    }
}

async fn serve(stream: TcpStream, state: Arc<ServerState>, stop: CancellationToken) {
    let _open = state.connected();
    let _ = stream.set_nodelay(true); // Then it is a little slower.
    let line = ConnectionHandle::default();
    let io = TokioIo::new(Socket { stream, line: line.clone() });
    let service = service_fn(|request| {
        let (state, line) = (state.clone(), line.clone());
        async move { Ok::<_, Infallible>(answer::answer(state, line, request).await) }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let mut connection = pin!(builder.serve_connection(io, service));
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        () = line.lost.cancelled() => {}
        _ = connection.as_mut() => return, // However it ended, the client knows.
    }
    if line.how() == Some(Break::GoAway) {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(FAREWELL, connection).await; // Streams do not end; that is the point.
    }
}

/// A socket that is closed the way its line was lost.
struct Socket {
    stream: TcpStream,
    line: ConnectionHandle,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.line.how() == Some(Break::Reset) {
            let _ = self.stream.set_zero_linger(); // Then it is closed, not reset.
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
