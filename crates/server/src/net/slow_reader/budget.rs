//! Byte budget of responses.
//!
//! A client that reads slowly, or not at all, keeps its response in memory. So responses are sent in small pieces, each a
//! copy of its own: hyper holds a piece or two, and no piece keeps the whole alive. And a large response holds its part of
//! the budget until its last piece is taken, or the client is gone, so that all of them together are bounded.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use bytes::{Buf as _, Bytes};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::problem::{Problem, ProblemKind};

/// Size of a piece. A response up to this size does not count towards the budget.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// The byte budget of large responses.
pub struct ResponseBudget {
    room: Arc<Semaphore>,
    bytes_max: usize,
}

/// A response's part of the budget; given back when dropped. Small responses have none.
#[derive(Default)]
pub struct ResponsePermit(Option<OwnedSemaphorePermit>);

/// Marks a response that has its part of the budget already.
#[derive(Clone, Copy)]
struct HasPermit;

impl ResponseBudget {
    /// A budget of `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(u32::MAX as usize); // The most permits that can be acquired at once.
        Self { room: Arc::new(Semaphore::new(bytes_max)), bytes_max }
    }

    /// Reserves `len` bytes, or answers 503. A response that is alone always fits.
    pub fn enter(&self, len: usize) -> Result<ResponsePermit, Problem> {
        if len <= CHUNK_BYTES {
            return Ok(ResponsePermit::default());
        }
        let room = self.room.clone().try_acquire_many_owned(self.weight(len)).ok();
        let full = || Problem::new(ProblemKind::Unavailable, "Too much is being read at once; try again.");
        room.map(|room| ResponsePermit(Some(room))).ok_or_else(full)
    }

    /// Waits for `len` bytes. The caller must hold nothing of the response meanwhile.
    pub async fn wait(&self, len: usize) -> ResponsePermit {
        ResponsePermit(self.room.clone().acquire_many_owned(self.weight(len)).await.ok()) // The semaphore is never closed.
    }

    /// The response in small pieces, with its part of the budget if it is large; 503 if the budget is used up.
    pub fn send(&self, response: Response) -> Response {
        let len = response.body().size_hint().exact().map(|len| usize::try_from(len).unwrap_or(usize::MAX));
        if len.is_some_and(|len| len <= CHUNK_BYTES) {
            return response;
        }
        let has_room = response.extensions().get::<HasPermit>().is_some();
        match self.enter(len.filter(|_| !has_room).unwrap_or(0)) {
            Ok(room) => response.map(|body| Body::new(ChunkedBody { body, rest: Bytes::new(), _room: room })),
            Err(problem) => problem.into_response(),
        }
    }

    fn weight(&self, len: usize) -> u32 {
        u32::try_from(len.min(self.bytes_max)).unwrap_or(u32::MAX)
    }

    /// Free bytes.
    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.room.available_permits()
    }
}

impl ResponsePermit {
    /// Gives back what exceeds `len` bytes.
    pub fn shrink(&mut self, len: usize) {
        if let Some(room) = &mut self.0 {
            drop(room.split(room.num_permits().saturating_sub(len)));
        }
    }

    /// Keeps this part of the budget until the response is sent.
    pub fn until_sent(self, response: Response) -> Response {
        let mut response = response.map(|body| Body::new(ChunkedBody { body, rest: Bytes::new(), _room: self }));
        response.extensions_mut().insert(HasPermit);
        response
    }
}

/// A body in small pieces.
struct ChunkedBody {
    body: Body,
    /// The rest of the newest frame.
    rest: Bytes,
    _room: ResponsePermit,
}

impl hyper::body::Body for ChunkedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) if data.len() > CHUNK_BYTES => self.rest = data,
                Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        let piece = Bytes::copy_from_slice(&self.rest[..CHUNK_BYTES.min(self.rest.len())]);
        self.rest.advance(piece.len());
        if self.rest.is_empty() {
            self.rest = Bytes::new(); // An empty slice may still keep its whole buffer alive.
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    /// I14: responses are sent in small pieces that keep no larger buffer alive.
    #[tokio::test]
    async fn a_piece_does_not_keep_the_whole() {
        let (whole, answers) = (Arc::<[u8]>::from(vec![7; 5 * CHUNK_BYTES + 1]), ResponseBudget::new(1_000_000));
        let mut body = answers.send(Bytes::from_owner(whole.clone()).into_response()).into_body();
        assert_eq!(body.size_hint().exact(), Some(whole.len() as u64));
        let mut pieces = Vec::new();
        while let Some(piece) = body.frame().await {
            pieces.push(piece.unwrap().into_data().unwrap());
            assert_eq!(body.size_hint().exact(), Some((whole.len() - pieces.concat().len()) as u64));
        }
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [[CHUNK_BYTES; 5].as_slice(), &[1]].concat());
        assert_eq!(pieces.concat(), *whole);
        drop(body);
        assert_eq!((Arc::strong_count(&whole), pieces.len()), (1, 6), "the pieces are here, and it is let go");
    }

    /// I19: large responses share a budget; above it the answer is 503.
    #[tokio::test]
    async fn large_answers_share_a_budget() {
        let answers = ResponseBudget::new(300_000);
        let send = |len: usize| answers.send(vec![b'x'; len].into_response());
        let (one, small) = (send(200_000), send(CHUNK_BYTES));
        assert_eq!((one.status().as_u16(), small.status().as_u16(), answers.free()), (200, 200, 100_000));
        let refused = send(100_001);
        assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].as_bytes()), (503, b"1".as_slice()));
        let other = send(100_000);
        assert_eq!((other.status().as_u16(), answers.free()), (200, 0));
        drop(one);
        assert_eq!(answers.free(), 200_000);
        drop(other.into_body().collect().await.unwrap());
        assert_eq!(answers.free(), 300_000);
        let alone = send(1_000_000);
        assert_eq!((alone.status().as_u16(), answers.free()), (200, 0), "one alone is sent, however large it is");
        drop(alone);
        let mut room = answers.wait(250_000).await;
        room.shrink(100_000);
        assert_eq!(answers.free(), 200_000);
        let roomy = answers.send(room.until_sent(vec![b'x'; 250_000].into_response()));
        assert_eq!((roomy.status().as_u16(), answers.free()), (200, 200_000), "it has its room");
        drop(roomy);
        assert_eq!(answers.free(), 300_000);
    }
}
