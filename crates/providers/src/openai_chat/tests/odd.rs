//! Chunks that should not be, and what becomes of them.

use bytes::Bytes;
use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::limits::Limits;
use everturn_core::message::Stop;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::Completions;
use crate::provider::{Frame, FrameStream};
use crate::sse::SseBounds;
use crate::tests::cuts::{Decoded, told};
use crate::tests::snapshot::shown;
use crate::wire::{Fold, ResponseBody, frames};

fn read(data: &[&str]) -> Decoded {
    let text: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
    told([text.as_bytes()], Completions::new("x"))
}

fn finish(reason: &str) -> String {
    json!({"choices": [{"delta": {"content": "Well."}, "finish_reason": reason}]}).to_string()
}

/// P16: what is not JSON, or twice the same, or without end.
#[test]
fn a_malformed_chunk_ends_the_attempt() {
    let deep = format!("{{\"choices\":{}", "[".repeat(10_000));
    let twice = r#"{"choices":[],"choices":[]}"#;
    for data in ["{\"cho", "nonsense", "[1]", "7", "null", &deep, twice, r#"{"choices":7}"#, r#"{"choices":[7]}"#] {
        let error = read(&[data]).end.expect_err(data);
        assert_eq!(
            (error.kind, error.cause, error.retry),
            (ErrorKind::Malformed, Cause::Malformed, Retry::Backoff),
            "{data}"
        );
    }
}

/// P17: unexpected fields and values are no reason to fail.
#[test]
fn anything_may_be_missing_or_odd() {
    let odd = [
        "{}",
        r#"{"choices":null}"#,
        r#"{"choices":[]}"#,
        r#"{"choices":[{}]}"#,
        r#"{"choices":[{"delta":null,"finish_reason":null}]}"#,
        r#"{"choices":[{"delta":{"content":7,"reasoning":{"a":1},"refusal":false,"role":"assistant"},"finish_reason":""}]}"#,
        r#"{"choices":[{"delta":{"content":[{"type":"image"}],"tool_calls":null,"function_call":null}}],"usage":7}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"another answer"},"finish_reason":"stop"}]}"#,
        r#"{"id":7,"model":["x"],"created":"now","error":null,"usage":{}}"#,
        r#"{"choices":[],"error":{}}"#,
        r#"{"choices":[],"error":""}"#,
        r#"{"choices":[],"error":false}"#,
        "",
        "   ",
    ];
    let told = read(&odd);
    assert_eq!(told.end.unwrap_err().kind, ErrorKind::Truncated);
    assert!(told.frames.iter().all(|frame| *frame == Frame::Ping), "{:?}", told.frames);
}

/// P28: every reason there is, in any case.
#[test]
fn every_reason_means_something() {
    let filtered = |reason: &str| format!("{:?}", Stop::Filtered { category: reason.into(), detail: String::new() });
    let cases = [
        ("stop", "End".to_owned()),
        ("STOP", "End".to_owned()),
        ("eos_token", "End".to_owned()),
        ("end_turn", "End".to_owned()),
        ("tool_calls", "End".to_owned()), // There are none.
        ("function_call", "End".to_owned()),
        ("length", "Length".to_owned()),
        ("MAX_TOKENS", "Length".to_owned()),
        ("model_length", "Length".to_owned()),
        ("content_filter", filtered("content_filter")),
        ("content-filter", filtered("content-filter")),
        ("SAFETY", filtered("SAFETY")),
        ("sensitive", filtered("sensitive")),
        ("refusal", filtered("refusal")),
        ("boredom", "End".to_owned()),
    ];
    for (reason, stop) in cases {
        let read = read(&[&finish(reason), "[DONE]"]);
        assert_eq!(read.end, Ok(()), "{reason}");
        assert_eq!(shown(&read).lines().last(), Some(format!("stop {stop}").as_str()), "{reason}");
    }
    let unknown = shown(&read(&[&finish("boredom"), "[DONE]"]));
    assert!(unknown.contains(r#"reply x={"finish_reason":"boredom"}"#), "{unknown}");
}

/// A count alone is no end, and neither is `[DONE]`; a finish reason is, with or without them.
#[test]
fn the_finish_reason_is_the_evidence() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#;
    let text = r#"{"choices":[{"delta":{"content":"Well."}}]}"#;
    for data in [vec![text], vec![text, "[DONE]"], vec![text, usage], vec![text, usage, "[DONE]"], vec!["[DONE]"]] {
        assert_eq!(read(&data).end.unwrap_err().kind, ErrorKind::Truncated, "{data:?}");
    }
    let done = finish("stop");
    for data in [vec![done.as_str()], vec![&done, "[DONE]"], vec![&done, usage], vec![&done, usage, "[DONE]"]] {
        assert_eq!(read(&data).end, Ok(()), "{data:?}");
    }
}

/// What fails behind the finish reason is not the answer. What fails behind words that took it back is.
#[test]
fn an_error_behind_the_end_is_none() {
    let text = r#"{"choices":[{"delta":{"content":"Well."}}]}"#;
    let error = r#"{"error":{"message":"Internal error","code":500}}"#;
    let done = finish("stop");
    let whole = read(&[text, &done, error]);
    assert_eq!((whole.end, whole.frames.last()), (Ok(()), Some(&Frame::Stop(Stop::End))));
    assert!(read(&[text, error]).end.is_err());
    assert!(read(&[text, &done, text, error]).end.is_err());
}

/// An empty part is ignored: it does not undo an end and is no sign of life.
#[test]
fn an_empty_part_says_nothing() {
    let done = finish("stop");
    for part in [json!({"type": "text", "text": ""}), json!({"type": "thinking", "thinking": [{"text": ""}]})] {
        let empty = json!({"choices": [{"delta": {"content": [part]}}]}).to_string();
        assert_eq!(read(&[&empty]).frames, [Frame::Ping], "{part}");
        assert_eq!(read(&[&done, &empty]).end, Ok(()), "{part}");
    }
}

/// An answer as it comes: these events, and then what comes behind them.
fn arriving(data: &[String], then: ResponseBody) -> FrameStream {
    let bytes: Vec<_> = data.iter().map(|data| Ok(Bytes::from(format!("data: {data}\n\n")))).collect();
    let limits = Limits::default();
    let fold = Fold::new("x", SseBounds::from(&limits), Completions::new("x"));
    frames(stream::iter(bytes).chain(then).boxed(), fold, limits.tail_max())
}

/// P12: silence behind the finish reason is the end; behind words that took it back it is silence.
#[tokio::test(start_paused = true)]
async fn a_stall_behind_the_end_is_none() {
    let words = || json!({"choices": [{"delta": {"content": "Well."}}]}).to_string();
    let ended = arriving(&[words(), finish("stop")], stream::pending().boxed());
    let ended = timeout(Limits::default().silence_max, ended.collect::<Vec<_>>()).await.unwrap();
    assert_eq!(ended.last(), Some(&Ok(Frame::Stop(Stop::End))));
    let stalled = arriving(&[words(), finish("stop"), words()], stream::pending().boxed());
    assert!(timeout(Limits::default().silence_max, stalled.collect::<Vec<_>>()).await.is_err());
}

/// P23: a connection that breaks behind the finish reason breaks nothing.
#[test]
fn a_reset_behind_the_end_is_none() {
    let reset = || ProviderError::new("x", ErrorKind::Timeout).with_cause(Cause::Reset);
    let play = |data: String| {
        arriving(&[data], stream::iter([Err(reset())]).boxed()).collect::<Vec<_>>().now_or_never().unwrap()
    };
    assert_eq!(play(finish("stop")).last(), Some(&Ok(Frame::Stop(Stop::End))));
    let cut = json!({"choices": [{"delta": {"content": "Well."}}]}).to_string();
    assert_eq!(play(cut).last(), Some(&Err(reset())));
}

/// P21: counts that cannot be are not counted, and a wrong one does not replace a right one.
#[test]
fn usage_may_be_absurd() {
    let usage = |usage: Value| json!({"choices": [], "usage": usage}).to_string();
    let right = usage(json!({"prompt_tokens": 10, "completion_tokens": 2}));
    let wrong = usage(json!({"prompt_tokens": -10, "completion_tokens": 1e40, "total_tokens": "x"}));
    let told = shown(&read(&[&right, &wrong, &finish("stop"), "[DONE]"]));
    let counts: Vec<&str> = told.lines().filter(|line| line.starts_with("usage")).collect();
    assert_eq!(counts, ["usage 10 + ? read + ? written -> 2 (? thought)"]);
}
