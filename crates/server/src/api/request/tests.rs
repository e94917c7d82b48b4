use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use tokio::time::sleep;

use super::*;
use crate::api::wire;

const SECOND: Duration = Duration::from_secs(1);

/// Reads a body that arrives in `pieces` pieces of `bytes` bytes, one per second. Returns the result and the time it took.
async fn arrives(pieces: usize, bytes: usize) -> (Result<usize, ProblemKind>, Duration) {
    let slow = stream::iter(0..pieces).then(move |_| async move {
        sleep(SECOND).await;
        Ok::<_, Infallible>(Bytes::from(vec![b'x'; bytes]))
    });
    let (limits, began) = (ServerLimits::default(), Instant::now());
    let room = Arc::new(Semaphore::new(limits.bodies_bytes_max));
    let read = read(Request::new(Body::from_stream(slow)), FILES_BYTES_MAX, &limits, &room).await;
    (read.map(|(bytes, _)| bytes.len()).map_err(|problem| problem.kind()), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_body_may_take_as_long_as_it_goes_on_coming() {
    assert_eq!(arrives(1_000, 10_000).await, (Ok(10_000_000), SECOND * 1_000));
    assert_eq!(arrives(1_000, 0).await, (Err(ProblemKind::Slow), SECOND * 30));
    let (read, took) = arrives(1_000, 5_000).await;
    assert_eq!(read, Err(ProblemKind::Slow));
    assert!((SECOND * 58..SECOND * 61).contains(&took), "each second is half earned: {took:?}");
}

/// I19: large bodies share a byte budget, with or without a Content-Length, and small ones need none. The parsed value
/// counts too.
#[tokio::test]
async fn large_bodies_share_a_room() {
    let limits = ServerLimits { bodies_bytes_max: 600_000, ..ServerLimits::default() };
    let bodies = Arc::new(Semaphore::new(limits.bodies_bytes_max));
    let streamed = |bytes: usize| {
        let pieces = stream::repeat(Bytes::from(vec![b'x'; 1_000])).take(bytes / 1_000);
        Body::from_stream(pieces.map(Ok::<_, Infallible>))
    };
    let read =
        async |body: Body| read(Request::new(body), 200_000, &limits, &bodies).await.map_err(|problem| problem.kind());
    let (_, one) = read(Body::from(vec![b'x'; 150_000])).await.unwrap();
    assert_eq!(bodies.available_permits(), 300_000, "as it came, and what is made of it");
    assert_eq!(
        read(streamed(100_000)).await.unwrap_err(),
        ProblemKind::Unavailable,
        "it may be anything up to 200,000"
    );
    assert_eq!(read(Body::from(vec![b'x'; 150_001])).await.unwrap_err(), ProblemKind::Unavailable);
    let small = [Body::from(vec![b'x'; SMALL_BYTES_MAX]), streamed(60_000)];
    for body in small {
        assert!(read(body).await.unwrap().1.is_none());
    }
    let (_, _two) = read(Body::from(vec![b'x'; 150_000])).await.unwrap();
    assert_eq!(read(Body::from(vec![b'x'; 100_000])).await.unwrap_err(), ProblemKind::Unavailable);
    drop(one);
    assert_eq!(read(Body::from(vec![b'x'; 150_000])).await.unwrap().0.len(), 150_000);
    let tight = ServerLimits { bodies_bytes_max: 100_000, ..ServerLimits::default() };
    let bodies = Arc::new(Semaphore::new(tight.bodies_bytes_max));
    let whole = super::read(Request::new(streamed(200_000)), 200_000, &tight, &bodies).await.unwrap();
    assert_eq!(whole.0.len(), 200_000, "one alone is taken, however tight it is");
}

/// A body with a known length, and whether anything of it was read.
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

/// A body whose Content-Length is too large is refused at once and without a reservation; a client that sent
/// `Expect: 100-continue` is not asked to send it.
#[tokio::test(start_paused = true)]
async fn a_body_that_says_it_is_too_large_is_not_read() {
    let limits = ServerLimits { bodies_bytes_max: 100_000, ..ServerLimits::default() };
    let bodies = Arc::new(Semaphore::new(limits.bodies_bytes_max));
    let _all = bodies.clone().try_acquire_many_owned(100_000).unwrap();
    let tries =
        [(200_001, ProblemKind::TooLong), (u64::MAX, ProblemKind::TooLong), (200_000, ProblemKind::Unavailable)];
    for (len, kind) in tries {
        for is_asking in [true, false] {
            let (is_read, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
            let mut request = Request::new(Body::new(Declared(len, is_read.clone())));
            if is_asking {
                request.headers_mut().insert(EXPECT, "100-continue".parse().unwrap());
            }
            let refused = read(request, 200_000, &limits, &bodies).await.unwrap_err();
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
        assert!(read_object::<Two>(list.as_bytes()).is_err(), "{list}");
    }
    assert!(read_object::<Two>(b" {}").is_ok() && read_object::<Two>(b"").is_ok());
    // The message names no Rust type.
    let problem = format!("{:?}", read_object::<Two>(br#"{"_a": "x"}"#).unwrap_err());
    assert!(problem.contains("expected a whole number") && !problem.contains("u8"), "{problem}");
}

#[test]
fn depth_is_counted_outside_of_strings() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let is_too_deep = |json: &str| Shape::of(json.as_bytes()).is_err();
    assert!(!is_too_deep(&nested(DEPTH_MAX)));
    assert!(is_too_deep(&nested(DEPTH_MAX + 1)));
    let quoted = format!(r#"{{"a": "\"{}\\"}}"#, "[".repeat(100));
    assert!(!is_too_deep(&quoted));
    let behind = format!(r#"["\\", {}]"#, nested(DEPTH_MAX));
    assert!(is_too_deep(&behind));
}

/// The bytes that a body takes at its worst, itself and what the core makes of it included.
fn memory_of<T: DeserializeOwned>(json: String, make: impl Fn(T) -> usize) -> u64 {
    let len = json.len() as u64;
    let taken = allocation_counter::measure(|| {
        let bytes = json.into_bytes();
        let read = read_object(&bytes).map_err(|problem| problem.kind());
        drop(bytes);
        std::hint::black_box(read.map(make).unwrap());
    });
    len + taken.bytes_max
}

/// A parsed body takes no more memory than was reserved for it, whatever it contains.
#[test]
fn a_body_becomes_no_more_than_its_room() {
    let part = |text: &str| format!(r#"{{"parts": [{{"text": "{text}", "type": "text"}}]}}"#);
    let file = |data: &str| format!(r#"{{"parts": [{{"type": "file", "media_type": "a/b", "data": "{data}"}}]}}"#);
    let list = |of: &str, item: &str, len: usize| format!(r#"{{"{of}": [{}]}}"#, vec![item; len].join(","));
    let long = "x".repeat((1 << 22) + 9); // Just beyond what a buffer doubles to.
    let sent = [
        ("words", format!(r#"{{"text": "{long}"}}"#)),
        ("words with an escape", format!(r#"{{"text": "{long}\n"}}"#)),
        ("a part", part(&long)),
        ("a part with an escape", part(&format!(r"\n{long}"))),
        ("a part of escapes", part(&r"\n".repeat(1 << 21))),
        ("a file", file(&"AAAA".repeat(1 << 20))),
        ("a file with escapes", file(&r"\/".repeat((1 << 22) + 12))),
        ("small parts", list("parts", r#"{"type":"text","text":"x"}"#, 6_000)),
        ("small files", list("parts", r#"{"type":"file","media_type":"a/b","data":""}"#, 4_000)),
    ];
    let answers = [
        ("refusals", list("answers", r#"{"kind":"deny","call":"3.0"}"#, 6_000)),
        ("results", list("answers", r#"{"kind":"result","call":"3.0","output":"x"}"#, 4_000)),
    ];
    let check = |what: &str, json: &str, taken: u64| {
        let room = Shape::of(json.as_bytes()).unwrap().weight();
        assert!(taken <= room as u64, "{what}: {} bytes became {taken}, with room for {room}", json.len());
    };
    for (what, json) in sent {
        let taken = memory_of(json.clone(), |send: wire::Send| send.said().unwrap().len());
        check(what, &json, taken);
    }
    for (what, json) in answers {
        let made = |answers: wire::Answers| {
            answers.answers.into_iter().map(|answer| answer.into_core("laptop")).collect::<Vec<_>>()
        };
        let taken = memory_of(json.clone(), |answers| made(answers).len());
        check(what, &json, taken);
    }
}

/// Values are counted before they are parsed, and the parsed body has to fit into the budget too.
#[test]
fn values_need_room_and_too_many_are_refused() {
    let limits = ServerLimits { bodies_bytes_max: 3_000_000, ..ServerLimits::default() };
    let bodies = Arc::new(Semaphore::new(limits.bodies_bytes_max));
    let parts = |len: usize| format!(r#"{{"parts": [{}]}}"#, vec![r#"{"type":"text","text":"x"}"#; len].join(","));
    let take = |json: String| {
        let parsed = parse::<wire::Send>(json.into_bytes(), None, &limits, &bodies);
        parsed.map(|(_, room)| room).map_err(|problem| problem.kind())
    };
    assert!(take(parts(100)).unwrap().is_none(), "a small one needs none");
    let held = take(parts(4_000)).unwrap().unwrap();
    assert!(held.num_permits() > 2_000_000, "a hundred thousand bytes become two million");
    assert_eq!(take(parts(4_000)).unwrap_err(), ProblemKind::Unavailable);
    assert_eq!(take(parts(700_000)).unwrap_err(), ProblemKind::TooLong);
    let quoted = format!(r#"{{"text": "{}"}}"#, ",[{".repeat(VALUES_MAX));
    assert_eq!(Shape::of(quoted.as_bytes()).unwrap().values, 2);
}
