//! Request bodies, keys and queries, with their limits.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::EXPECT;
use axum::http::request::Parts;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use memchr::memchr2;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::api::problem::{Problem, ProblemKind};
use crate::app::SharedApp;
use crate::setup::limits::ServerLimits;

/// Limit of most bodies.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Limit of a body with text or files: 20 MiB of file, in base64.
pub const FILES_BYTES_MAX: usize = 28 * 1024 * 1024;
/// Largest body that does not count towards the byte budget of bodies.
const SMALL_BYTES_MAX: usize = 64 * 1024;
/// Copies of a large body in memory: as received, and parsed. Base64 is in memory beside the bytes it encodes.
const COPIES: usize = 2;
/// Further copies of a string with escapes: it is unescaped into a buffer that grows by doubling.
const ESCAPED_COPIES: usize = 2;
/// Memory of a parsed JSON value beside its bytes, at most. Measured by a test, like the copies.
const VALUE_BYTES: usize = 160;
/// How long the rest of a refused body is read and dropped before the refusal is sent.
const HEARING: Duration = Duration::from_secs(1);
/// Deepest nesting of JSON.
const DEPTH_MAX: usize = 64;
/// Most values in a body: each takes memory beside its bytes. A message of 1,000 parts has a quarter.
const VALUES_MAX: usize = 20_000;
/// The header with a client's idempotency key.
pub const KEY: &str = "idempotency-key";
/// The longest idempotency key.
pub const KEY_LEN_MAX: usize = 255;

/// A JSON body without files. An empty one counts as `{}`.
pub struct Json<T>(pub T);

/// A JSON body that may carry files, with its part of the byte budget of bodies until its content is handed on.
pub struct LargeJson<T>(pub T, pub BodyPermit);

/// A large body's part of the byte budget; given back when dropped. Small bodies need none.
pub type BodyPermit = Option<OwnedSemaphorePermit>;

impl<T: DeserializeOwned> FromRequest<SharedApp> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &SharedApp) -> Result<Self, Problem> {
        let (bytes, room) = read(request, BODY_BYTES_MAX, &app.limits, &app.bodies).await?;
        parse(bytes, room, &app.limits, &app.bodies).map(|(it, _)| Self(it))
    }
}

impl<T: DeserializeOwned> FromRequest<SharedApp> for LargeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &SharedApp) -> Result<Self, Problem> {
        let (bytes, room) = read(request, FILES_BYTES_MAX, &app.limits, &app.bodies).await?;
        parse(bytes, room, &app.limits, &app.bodies).map(|(it, room)| Self(it, room))
    }
}

/// Reads a body of at most `bytes_max` bytes, as long as bytes keep arriving, and within the byte budget. A body whose
/// Content-Length is too large, or that exceeds the budget, is refused before anything of it is read.
async fn read(
    request: Request,
    bytes_max: usize,
    limits: &ServerLimits,
    bodies: &Arc<Semaphore>,
) -> Result<(Vec<u8>, BodyPermit), Problem> {
    // A client that sent `Expect: 100-continue` has not begun the body, and reading it would send the `100 Continue`.
    let is_asking = request.headers().contains_key(EXPECT);
    let mut body = request.into_body();
    let declared = body.size_hint().exact().map(|len| usize::try_from(len).unwrap_or(usize::MAX));
    let mut room = match enter(declared.unwrap_or(0), bytes_max, limits, bodies) {
        Ok(room) => room,
        Err(refusal) if is_asking => return Err(refusal),
        Err(refusal) => return Err(heard(body, refusal).await),
    };
    let mut bytes = Vec::with_capacity(declared.unwrap_or(0));
    let mut until = Instant::now() + limits.arrival_max;
    let refusal = loop {
        let late = |_| Problem::new(ProblemKind::Slow, "The body did not arrive in time.");
        let Some(frame) = timeout_at(until, body.frame()).await.map_err(late)? else { return Ok((bytes, room)) };
        let frame = frame.map_err(|_| Problem::new(ProblemKind::Invalid, "The body could not be read to its end."))?;
        let Ok(data) = frame.into_data() else { continue };
        let len = bytes.len() + data.len();
        if room.is_none() && len > SMALL_BYTES_MAX {
            // Without a Content-Length, reserve the limit.
            match enter(len.max(bytes_max), bytes_max, limits, bodies) {
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

/// Reserves the budget for a body of `len` bytes, if that is within the limit.
fn enter(len: usize, bytes_max: usize, limits: &ServerLimits, bodies: &Arc<Semaphore>) -> Result<BodyPermit, Problem> {
    if len > bytes_max {
        return Err(too_long(bytes_max));
    }
    if len <= SMALL_BYTES_MAX {
        return Ok(None);
    }
    let room = widen(None, len.saturating_mul(COPIES), limits, bodies)?;
    Ok(Some(room))
}

/// Extends a reservation to `weight` bytes in all.
fn widen(
    room: BodyPermit,
    weight: usize,
    limits: &ServerLimits,
    bodies: &Arc<Semaphore>,
) -> Result<OwnedSemaphorePermit, Problem> {
    let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = weight.min(limits.bodies_bytes_max).saturating_sub(held);
    let more = bodies.clone().try_acquire_many_owned(u32::try_from(more).unwrap_or(u32::MAX));
    let mut more = more.map_err(|_| {
        Problem::new(ProblemKind::Unavailable, "Too many bytes of request bodies are being handled; try again.")
    })?;
    if let Some(room) = room {
        more.merge(room);
    }
    Ok(more)
}

fn too_long(bytes_max: usize) -> Problem {
    Problem::new(ProblemKind::TooLong, format!("The body may have at most {bytes_max} bytes."))
}

/// Reads and drops the rest of a refused body, and returns the refusal: a client that is still sending when the connection
/// is closed may not receive the response.
async fn heard(mut body: Body, refusal: Problem) -> Problem {
    let rest = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = timeout(HEARING, rest).await; // After that the connection is closed.
    refusal
}

/// How much longer the following bytes may take: a client that sends 10,000 bytes per second is never too slow.
const fn earned_by(bytes: usize) -> Duration {
    Duration::from_micros(100 * bytes as u64)
}

/// Parses a body, and extends its reservation if the parsed value may take more memory than reserved.
fn parse<T: DeserializeOwned>(
    bytes: Vec<u8>,
    mut room: BodyPermit,
    limits: &ServerLimits,
    bodies: &Arc<Semaphore>,
) -> Result<(T, BodyPermit), Problem> {
    let shape = Shape::of(&bytes)?;
    if room.is_some() || shape.weight() > COPIES * SMALL_BYTES_MAX {
        room = Some(widen(room, shape.weight(), limits, bodies)?);
    }
    Ok((read_object(&bytes)?, room))
}

fn read_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    // Every body is an object; serde would accept a list as the fields of one, in order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::new(ProblemKind::Invalid, "The body must be a JSON object."));
    }
    // serde's message names a field and a position, and quotes nothing but names and single values.
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(ProblemKind::Invalid, in_plain_words(&error.to_string())))
}

/// A parser's message without the names of Rust types, which mean nothing to the author of a body or a file.
#[must_use]
pub fn in_plain_words(message: &str) -> String {
    let counts = ["a nonzero u32", "a nonzero usize"].map(|name| (name, "a whole number of 1 or more"));
    let numbers = ["usize", "u64", "u32", "u16", "u8"].map(|name| (name, "a whole number"));
    counts.iter().chain(&numbers).fold(message.to_owned(), |message, (name, plain)| {
        message.replace(&format!("expected {name}"), &format!("expected {plain}"))
    })
}

/// The figures that bound the memory of parsed JSON. Counted from brackets, commas and quotes before anything is parsed.
#[derive(Debug, PartialEq)]
struct Shape {
    len: usize,
    /// Upper bound of the number of values.
    values: usize,
    /// The length of the longest string with an escape.
    escaped: usize,
}

impl Shape {
    /// The shape of a body; a problem if it is nested too deep or has too many values.
    fn of(bytes: &[u8]) -> Result<Self, Problem> {
        let mut shape = Self { len: bytes.len(), values: 1, escaped: 0 };
        let (mut depth, mut at) = (0_usize, 0);
        while let Some(byte) = bytes.get(at) {
            at += 1;
            match byte {
                b'"' => {
                    let end = end_of_string(bytes, at);
                    if end.is_escaped {
                        shape.escaped = shape.escaped.max(end.at - at);
                    }
                    at = end.at;
                }
                b'[' | b'{' => (depth, shape.values) = (depth + 1, shape.values + 1),
                b']' | b'}' => depth = depth.saturating_sub(1),
                b',' => shape.values += 1,
                _ => {}
            }
            if depth > DEPTH_MAX {
                return Err(Problem::new(
                    ProblemKind::Invalid,
                    format!("JSON may be nested at most {DEPTH_MAX} deep."),
                ));
            }
            if shape.values > VALUES_MAX {
                return Err(Problem::new(
                    ProblemKind::TooLong,
                    format!("The body may have at most {VALUES_MAX} JSON values."),
                ));
            }
        }
        Ok(shape)
    }

    /// Upper bound of the memory that the body and its parsed value take, in bytes.
    const fn weight(&self) -> usize {
        self.len * COPIES + self.escaped * ESCAPED_COPIES + self.values * VALUE_BYTES
    }
}

/// The end of a string.
struct StringEnd {
    /// The position after the closing quote.
    at: usize,
    is_escaped: bool,
}

/// The end of the string whose first character is at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> StringEnd {
    let mut is_escaped = false;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return StringEnd { at, is_escaped };
        }
        (at, is_escaped) = (at + 1, true); // After the escaped character.
    }
    StringEnd { at: bytes.len(), is_escaped }
}

/// A request's idempotency key: a repeat under the same key has no second effect.
#[derive(Debug, Clone)]
pub struct IdempotencyKey(pub Option<String>);

impl FromRequestParts<SharedApp> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &SharedApp) -> Result<Self, Problem> {
        let mut keys = parts.headers.get_all(KEY).iter();
        let Some(key) = keys.next() else { return Ok(Self(None)) };
        let text = key.to_str().unwrap_or_default();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if keys.next().is_some() || text.is_empty() || text.len() > KEY_LEN_MAX || !is_plain {
            let detail = format!("An Idempotency-Key is 1 to {KEY_LEN_MAX} visible ASCII characters without spaces.");
            return Err(Problem::new(ProblemKind::Invalid, detail));
        }
        Ok(Self(Some(text.into())))
    }
}

/// The query string of the URL.
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<SharedApp> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &SharedApp) -> Result<Self, Problem> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        let query = query.map_err(|error| Problem::new(ProblemKind::Invalid, error.body_text()))?;
        Ok(Self(query.0))
    }
}

#[cfg(test)]
mod tests;
