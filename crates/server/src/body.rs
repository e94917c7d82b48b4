//! What comes in, within bounds.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::EXPECT;
use axum::http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::app::Shared;
use crate::bounds::Bounds;
use crate::problem::{Kind, Problem};

/// What most bodies may measure.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// What a body may measure that carries words or files: 20 MiB of file, in base64.
pub const FILES_BYTES_MAX: usize = 28 * 1024 * 1024;
/// What a body may measure without asking whether there is room for it.
const SMALL_BYTES_MAX: usize = 64 * 1024;
/// How often a large body is here at once: as it came, and as what is made of it. Base64 is there beside what it stands for.
const COPIES: usize = 2;
/// How long what nobody wants is taken in before that is said.
const HEARING: Duration = Duration::from_secs(1);
/// How deep JSON may be nested.
const DEPTH_MAX: usize = 64;
/// Under which a client names a request.
pub const KEY: &str = "idempotency-key";
/// The longest request id.
pub const KEY_LEN_MAX: usize = 255;

/// A JSON body without files. An empty one counts as `{}`.
pub struct Json<T>(pub T);

/// A JSON body that may carry files, and its room among all that are here, until what it carries is handed on.
pub struct Laden<T>(pub T, pub Room);

/// Room for a large body; given back when dropped. Small ones need none.
pub type Room = Option<OwnedSemaphorePermit>;

impl<T: DeserializeOwned> FromRequest<Shared> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        let (bytes, _room) = read(request, BODY_BYTES_MAX, &app.bounds, &app.bodies).await?;
        parse(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned> FromRequest<Shared> for Laden<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        let (bytes, room) = read(request, FILES_BYTES_MAX, &app.bounds, &app.bodies).await?;
        Ok(Self(parse(&bytes)?, room))
    }
}

/// Reads a body of at most so many bytes, as long as it goes on coming, and if there is room for it. One that says itself
/// that it is too large, or finds no room, is refused before anything of it is read.
async fn read(
    request: Request,
    bytes_max: usize,
    bounds: &Bounds,
    bodies: &Arc<Semaphore>,
) -> Result<(Vec<u8>, Room), Problem> {
    // Whoever asks whether to send it has not begun to, and would take being heard for a yes.
    let is_asking = request.headers().contains_key(EXPECT);
    let mut body = request.into_body();
    let declared = body.size_hint().exact().map(|len| usize::try_from(len).unwrap_or(usize::MAX));
    let mut room = match enter(declared.unwrap_or(0), bytes_max, bounds, bodies) {
        Ok(room) => room,
        Err(refusal) if is_asking => return Err(refusal),
        Err(refusal) => return Err(heard(body, refusal).await),
    };
    let mut bytes = Vec::with_capacity(declared.unwrap_or(0));
    let mut until = Instant::now() + bounds.arrival_max;
    let refusal = loop {
        let late = |_| Problem::new(Kind::Slow, "The body did not arrive in time.");
        let Some(frame) = timeout_at(until, body.frame()).await.map_err(late)? else { return Ok((bytes, room)) };
        let frame = frame.map_err(|_| Problem::new(Kind::Invalid, "The body could not be read to its end."))?;
        let Ok(data) = frame.into_data() else { continue };
        let len = bytes.len() + data.len();
        if room.is_none() && len > SMALL_BYTES_MAX {
            // It has not said how large it is, so it may be anything.
            match enter(len.max(bytes_max), bytes_max, bounds, bodies) {
                Ok(entered) => room = entered,
                Err(refusal) => break refusal,
            }
        }
        if len > bytes_max {
            break too_long(bytes_max);
        }
        until += earned_by(data.len());
        bytes.extend_from_slice(&data);
    };
    drop((bytes, room));
    Err(heard(body, refusal).await)
}

/// Room for a body of so many bytes, if it may be as large as that, and if there is any.
fn enter(len: usize, bytes_max: usize, bounds: &Bounds, bodies: &Arc<Semaphore>) -> Result<Room, Problem> {
    if len > bytes_max {
        return Err(too_long(bytes_max));
    }
    if len <= SMALL_BYTES_MAX {
        return Ok(None);
    }
    let weight = len.saturating_mul(COPIES).min(bounds.bodies_bytes_max);
    let room = bodies.clone().try_acquire_many_owned(u32::try_from(weight).unwrap_or(u32::MAX)).ok();
    let full = || Problem::new(Kind::Unavailable, "Too much is being sent at once; try again.");
    room.map(Some).ok_or_else(full)
}

fn too_long(bytes_max: usize) -> Problem {
    Problem::new(Kind::TooLong, format!("A body here may have {bytes_max} bytes."))
}

/// What a sender is refused with, once the rest is taken in: whoever still sends when the connection is closed may not
/// hear why.
async fn heard(mut body: Body, refusal: Problem) -> Problem {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = timeout(HEARING, rest).await; // A moment has to do.
    refusal
}

/// How much more time so many bytes get those behind them: whoever sends ten thousand a second is never too slow.
const fn earned_by(bytes: usize) -> Duration {
    Duration::from_micros(100 * bytes as u64)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    if is_too_deep(bytes) {
        return Err(Problem::new(Kind::Invalid, format!("JSON may be nested {DEPTH_MAX} deep.")));
    }
    // Every body is an object; a list would be taken for the fields of one, in order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::new(Kind::Invalid, "A body is a JSON object."));
    }
    // The message names a field and a place, and quotes nothing but names and single values.
    serde_json::from_slice(bytes).map_err(|error| Problem::new(Kind::Invalid, in_plain_words(&error.to_string())))
}

/// A parser's message without the names of our types, which nobody knows who writes a body or a file.
#[must_use]
pub fn in_plain_words(message: &str) -> String {
    let types = ["a nonzero u32", "a nonzero usize", "usize", "u64", "u32", "u16", "u8"];
    types.iter().fold(message.to_owned(), |message, name| {
        message.replace(&format!("expected {name}"), "expected a whole number")
    })
}

/// Whether JSON is nested too deep. Looks at brackets outside of strings, before anything is built.
fn is_too_deep(bytes: &[u8]) -> bool {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'[' | b'{' if !is_string => depth += 1,
            b']' | b'}' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return true;
        }
    }
    false
}

/// The client's name for a request: the same one again has no second effect.
#[derive(Debug, Clone)]
pub struct Key(pub Option<String>);

impl FromRequestParts<Shared> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        let mut keys = parts.headers.get_all(KEY).iter();
        let Some(key) = keys.next() else { return Ok(Self(None)) };
        let text = key.to_str().unwrap_or_default();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if keys.next().is_some() || text.is_empty() || text.len() > KEY_LEN_MAX || !is_plain {
            let detail = format!("An Idempotency-Key is 1 to {KEY_LEN_MAX} visible ASCII characters without spaces.");
            return Err(Problem::new(Kind::Invalid, detail));
        }
        Ok(Self(Some(text.into())))
    }
}

/// What stands behind the question mark.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let query = query.map_err(|error| Problem::new(Kind::Invalid, error.body_text()))?;
        Ok(Self(query.0))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use futures_util::stream::{self, StreamExt as _};
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What becomes of a body that comes in so many pieces of so many bytes, one a second, and how long that takes.
    async fn arrives(pieces: usize, bytes: usize) -> (Result<usize, Kind>, Duration) {
        let slow = stream::iter(0..pieces).then(move |_| async move {
            sleep(SECOND).await;
            Ok::<_, Infallible>(Bytes::from(vec![b'x'; bytes]))
        });
        let (bounds, began) = (Bounds::default(), Instant::now());
        let room = Arc::new(Semaphore::new(bounds.bodies_bytes_max));
        let read = read(Request::new(Body::from_stream(slow)), FILES_BYTES_MAX, &bounds, &room).await;
        (read.map(|(bytes, _)| bytes.len()).map_err(|problem| problem.kind()), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_as_long_as_it_goes_on_coming() {
        assert_eq!(arrives(1_000, 10_000).await, (Ok(10_000_000), SECOND * 1_000));
        assert_eq!(arrives(1_000, 0).await, (Err(Kind::Slow), SECOND * 30));
        let (read, took) = arrives(1_000, 5_000).await;
        assert_eq!(read, Err(Kind::Slow));
        assert!((SECOND * 58..SECOND * 61).contains(&took), "each second is half earned: {took:?}");
    }

    /// I19: large bodies share a room, whether they say how large they are or not, and small ones need none. What is made of
    /// a body counts too.
    #[tokio::test]
    async fn large_bodies_share_a_room() {
        let bounds = Bounds { bodies_bytes_max: 600_000, ..Bounds::default() };
        let bodies = Arc::new(Semaphore::new(bounds.bodies_bytes_max));
        let streamed = |bytes: usize| {
            let pieces = stream::repeat(Bytes::from(vec![b'x'; 1_000])).take(bytes / 1_000);
            Body::from_stream(pieces.map(Ok::<_, Infallible>))
        };
        let read = async |body: Body| {
            read(Request::new(body), 200_000, &bounds, &bodies).await.map_err(|problem| problem.kind())
        };
        let (_, one) = read(Body::from(vec![b'x'; 150_000])).await.unwrap();
        assert_eq!(bodies.available_permits(), 300_000, "as it came, and what is made of it");
        assert_eq!(read(streamed(100_000)).await.unwrap_err(), Kind::Unavailable, "it may be anything up to 200,000");
        assert_eq!(read(Body::from(vec![b'x'; 150_001])).await.unwrap_err(), Kind::Unavailable);
        let small = [Body::from(vec![b'x'; SMALL_BYTES_MAX]), streamed(60_000)];
        for body in small {
            assert!(read(body).await.unwrap().1.is_none());
        }
        let (_, _two) = read(Body::from(vec![b'x'; 150_000])).await.unwrap();
        assert_eq!(read(Body::from(vec![b'x'; 100_000])).await.unwrap_err(), Kind::Unavailable);
        drop(one);
        assert_eq!(read(Body::from(vec![b'x'; 150_000])).await.unwrap().0.len(), 150_000);
        let tight = Bounds { bodies_bytes_max: 100_000, ..Bounds::default() };
        let bodies = Arc::new(Semaphore::new(tight.bodies_bytes_max));
        let whole = super::read(Request::new(streamed(200_000)), 200_000, &tight, &bodies).await.unwrap();
        assert_eq!(whole.0.len(), 200_000, "one alone is taken, however tight it is");
    }

    /// A body of so many bytes that says so, and whether anything of it was asked for.
    struct Declared(u64, Arc<AtomicBool>);

    impl hyper::body::Body for Declared {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
            self.1.store(true, Ordering::Relaxed);
            Poll::Pending
        }

        fn size_hint(&self) -> hyper::body::SizeHint {
            hyper::body::SizeHint::with_exact(self.0)
        }
    }

    /// S14: what says that it is too large is refused for that, at once and without room; whoever asked before sending is
    /// not made to send.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_says_it_is_too_large_is_not_read() {
        let bounds = Bounds { bodies_bytes_max: 100_000, ..Bounds::default() };
        let bodies = Arc::new(Semaphore::new(bounds.bodies_bytes_max));
        let _all = bodies.clone().try_acquire_many_owned(100_000).unwrap();
        let tries = [(200_001, Kind::TooLong), (u64::MAX, Kind::TooLong), (200_000, Kind::Unavailable)];
        for (len, kind) in tries {
            for is_asking in [true, false] {
                let (is_read, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
                let mut request = Request::new(Body::new(Declared(len, is_read.clone())));
                if is_asking {
                    request.headers_mut().insert(EXPECT, "100-continue".parse().unwrap());
                }
                let refused = read(request, 200_000, &bounds, &bodies).await.unwrap_err();
                assert_eq!((refused.kind(), is_read.load(Ordering::Relaxed)), (kind, !is_asking), "{len}");
                assert_eq!(began.elapsed(), if is_asking { Duration::ZERO } else { HEARING });
            }
        }
    }

    #[test]
    fn a_body_is_an_object() {
        #[derive(serde::Deserialize, Debug)]
        struct Two {
            _a: Option<u8>,
        }
        for list in ["[null]", " [1]", "null", "7"] {
            assert!(parse::<Two>(list.as_bytes()).is_err(), "{list}");
        }
        assert!(parse::<Two>(b" {}").is_ok() && parse::<Two>(b"").is_ok());
        // C9: whoever writes a body does not know what our types are called.
        let problem = format!("{:?}", parse::<Two>(br#"{"_a": "x"}"#).unwrap_err());
        assert!(problem.contains("expected a whole number") && !problem.contains("u8"), "{problem}");
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(nested(DEPTH_MAX).as_bytes()));
        assert!(is_too_deep(nested(DEPTH_MAX + 1).as_bytes()));
        let quoted = format!(r#"{{"a": "\"{}\\"}}"#, "[".repeat(100));
        assert!(!is_too_deep(quoted.as_bytes()));
        let behind = format!(r#"["\\", {}]"#, nested(DEPTH_MAX));
        assert!(is_too_deep(behind.as_bytes()));
    }
}
