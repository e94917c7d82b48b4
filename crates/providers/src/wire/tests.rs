use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everturn_core::delta::Delta;
use everturn_core::error::Cause;
use everturn_core::limits::Limits;
use everturn_core::message::Stop;
use futures_util::stream;

use super::*;
use crate::tests::cuts::{self, told};

mod errors;
mod halves;

/// A wire of single words.
#[derive(Clone, Copy)]
struct Words {
    /// Whether an end of the stream is as good as a stop.
    lenient: bool,
}

const STRICT: Words = Words { lenient: false };

impl Decode for Words {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        match event.data {
            "stop" => out.push(Frame::Stop(Stop::End)),
            "twice" => out.extend([Frame::Stop(Stop::End), Frame::Ping, Frame::Stop(Stop::Length)]),
            "fail" => return Err(ProviderError::new("test", ErrorKind::Overloaded)),
            "stop and fail" => {
                out.push(Frame::Stop(Stop::End));
                return Err(ProviderError::new("test", ErrorKind::Overloaded));
            }
            word => out.push(Frame::Delta(Delta::Text(word.to_owned()))),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<Frame>) {
        if self.lenient {
            out.push(Frame::Stop(Stop::End));
        }
    }

    fn is_finished(&self) -> bool {
        self.lenient
    }
}

fn say(words: &[&str]) -> Vec<u8> {
    words.iter().map(|word| format!("data: {word}\n\n")).collect::<String>().into_bytes()
}

fn text(word: &str) -> Frame {
    Frame::Delta(Delta::Text(word.to_owned()))
}

/// P20: a stream that ends without a stop was cut, also one that ends cleanly.
#[test]
fn no_stop_no_answer() {
    let cut = told([&say(&["a"])[..]], STRICT);
    let error = cut.end.unwrap_err();
    assert_eq!((cut.frames, error.kind, error.cause), (vec![text("a")], ErrorKind::Truncated, Cause::Truncated));
    assert_eq!(told([&b""[..]], STRICT).end.unwrap_err().kind, ErrorKind::Truncated);
    assert_eq!(told([&say(&["a"])[..]], Words { lenient: true }).end, Ok(()));
}

/// There is one stop, and nothing comes after it, not even trouble.
#[test]
fn a_stop_is_the_end() {
    for words in [&["a", "stop", "b", "fail"][..], &["a", "twice"], &["a", "stop and fail"]] {
        let whole = told([&say(words)[..]], STRICT);
        assert_eq!((whole.frames, whole.end), (vec![text("a"), Frame::Stop(Stop::End)], Ok(())), "{words:?}");
    }
    let endless = [say(&["stop"]), vec![b'x'; 9 << 20]].concat();
    assert_eq!(told([&endless[..]], STRICT).end, Ok(()), "what is too long comes too late to matter");
}

/// P15: too much is not the protocol, and what came before it is kept.
#[test]
fn too_much_is_refused() {
    let endless = [say(&["a"]), vec![b'x'; 9 << 20]].concat();
    let cut = told([&endless[..]], STRICT);
    let error = cut.end.unwrap_err();
    assert_eq!((cut.frames, error.kind), (vec![text("a")], ErrorKind::Malformed));
    assert_eq!(error.detail, "a line of more than 8388608 bytes");
    assert_eq!(error.retry, Retry::Once, "it would be as long again, and paid for again");
    let crowd = format!("data: [{}]\n\n", "0,".repeat(VALUES_MAX + 1));
    assert_eq!(told([crowd.as_bytes()], STRICT).end.unwrap_err().retry, Retry::Once);
    let image = format!("data: {}\n\n", "x".repeat(6 << 20));
    assert_eq!(told([image.as_bytes()], STRICT).frames.len(), 1, "an image fits");
}

/// P15: values are counted as JSON has them, not in its strings.
#[test]
fn values_are_counted() {
    let more = |json: &str, max| has_more_values(&format!("{json}{}", " ".repeat(64)), max);
    for (json, count) in
        [("{}", 1), ("[0,0,[]]", 4), (r#"{"a":",[{","b\",":"\\"}"#, 2), (r#"["unfinished,,,"#, 1), (r#"["\"#, 1)]
    {
        assert!(more(json, count - 1) && !more(json, count), "{json}");
    }
    assert!(
        !has_more_values(&",".repeat(VALUES_MAX), VALUES_MAX)
            && has_more_values(&",".repeat(VALUES_MAX + 1), VALUES_MAX)
    );
}

/// Every cut of a stream of this wire holds what every wire must hold.
#[test]
fn cuts_are_harmless() {
    cuts::check("words", &say(&["a", "b", "stop", "after"]), || STRICT);
    cuts::check("failing words", &say(&["a", "fail", "b"]), || STRICT);
}

/// Tells when it is dropped.
struct Held(Arc<AtomicBool>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A body that says `words`, one piece each, and then nothing for ever; and whether it was dropped.
fn hanging(words: &'static [&'static str]) -> (ResponseBody, Arc<AtomicBool>) {
    let dropped = Arc::new(AtomicBool::new(false));
    let held = Held(Arc::clone(&dropped));
    let said = stream::iter(words).map(move |word| {
        let _ = &held;
        Ok(Bytes::from(say(&[word])))
    });
    (said.chain(stream::pending()).boxed(), dropped)
}

fn reading(words: &'static [&'static str]) -> (FrameStream, Arc<AtomicBool>) {
    read_by(STRICT, words)
}

fn read_by(decode: Words, words: &'static [&'static str]) -> (FrameStream, Arc<AtomicBool>) {
    let ((body, dropped), limits) = (hanging(words), Limits::default());
    (frames(body, Fold::new("test", SseBounds::from(&limits), decode), limits.tail_max()), dropped)
}

/// P29: dropping the frames closes the socket, and so does the stop, and so does an error.
#[tokio::test]
async fn the_body_is_let_go_of_at_once() {
    let (mut frames, dropped) = reading(&["a"]);
    assert_eq!(frames.next().await, Some(Ok(text("a"))));
    assert!(!dropped.load(Ordering::SeqCst));
    drop(frames);
    assert!(dropped.load(Ordering::SeqCst), "by the receiver");

    let (mut frames, dropped) = reading(&["stop"]);
    assert_eq!(frames.next().await, Some(Ok(Frame::Stop(Stop::End))));
    assert!(dropped.load(Ordering::SeqCst), "by the stop");
    assert_eq!(frames.next().await, None);

    let (mut frames, dropped) = reading(&["a", "fail"]);
    assert_eq!(frames.next().await, Some(Ok(text("a"))));
    assert_eq!(frames.next().await.unwrap().unwrap_err().kind, ErrorKind::Overloaded);
    assert!(dropped.load(Ordering::SeqCst), "by the error");
    assert_eq!(frames.next().await, None);
}

/// P12: an answer that lacks nothing but its end is over when that does not come; any other may take its time.
#[tokio::test(start_paused = true)]
async fn silence_behind_everything_is_an_end() {
    let (mut frames, dropped) = read_by(Words { lenient: true }, &["a"]);
    let began = tokio::time::Instant::now();
    assert_eq!(frames.next().await, Some(Ok(text("a"))));
    assert_eq!(frames.next().await, Some(Ok(Frame::Stop(Stop::End))));
    assert_eq!((began.elapsed(), frames.next().await), (Limits::default().tail_max(), None));
    assert!(dropped.load(Ordering::SeqCst));

    let (mut frames, _) = reading(&["a"]);
    assert_eq!(frames.next().await, Some(Ok(text("a"))));
    assert!(tokio::time::timeout(Limits::default().silence_max * 9, frames.next()).await.is_err());
}
