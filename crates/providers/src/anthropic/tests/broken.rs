//! What is not the protocol, and what only looks so.

use everturn_core::delta::{AttemptBegan, Rung};
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind};
use everturn_core::ids::{StepId, Timestamp};
use everturn_core::message::Stop;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 1}}})
}

fn block(index: u32, kind: &str) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": {"type": kind, "id": "t", "name": "n"}})
}

fn piece(index: u32, kind: &str) -> Value {
    let delta = json!({"type": kind, "text": "x", "partial_json": "{}", "thinking": "x", "signature": "s"});
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn end(index: u32) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn why(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}})
}

fn stop() -> Value {
    json!({"type": "message_stop"})
}

fn say(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// P18, P19: things out of their order fail the attempt, and nothing is taken to be complete.
#[test]
fn disorder_is_malformed() {
    let (text, words) = (block(0, "text"), piece(0, "text_delta"));
    let cases = [
        ("a piece before its block", vec![start(), words.clone()]),
        ("a block before its message", vec![text.clone()]),
        ("a piece of another block", vec![start(), text.clone(), piece(1, "text_delta")]),
        ("a piece after its block", vec![start(), text.clone(), end(0), words.clone()]),
        ("a block inside another", vec![start(), text.clone(), block(1, "text")]),
        ("two calls on one index", vec![start(), block(0, "tool_use"), end(0), block(0, "tool_use")]),
        ("an index going back", vec![start(), block(5, "text"), end(5), block(3, "text")]),
        ("an end of nothing", vec![start(), end(0)]),
        ("an end of another block", vec![start(), text.clone(), end(1)]),
        ("why before its message", vec![why("end_turn")]),
        ("why inside a block", vec![start(), text.clone(), why("end_turn")]),
        ("a block after why", vec![start(), why("end_turn"), text.clone()]),
        ("a stop inside a block", vec![start(), text.clone(), stop()]),
        ("two messages", vec![start(), start()]),
        ("a block without index", vec![start(), json!({"type": "content_block_start", "content_block": {}})]),
        ("a block that is none", vec![start(), json!({"type": "content_block_start", "index": 0, "content_block": 3})]),
        ("a block that is missing", vec![start(), json!({"type": "content_block_start", "index": 0})]),
        ("a piece that is missing", vec![start(), text, json!({"type": "content_block_delta", "index": 0})]),
    ];
    for (name, events) in cases {
        let broken = read(&say(&events));
        assert_eq!((error(&broken).kind, error(&broken).cause), (ErrorKind::Malformed, Cause::Malformed), "{name}");
    }
}

/// P20: a message that stops without saying why was cut, and so was one that says why and does not stop.
#[test]
fn both_why_and_that_are_needed() {
    for events in [vec![start(), stop()], vec![start(), why("end_turn")], vec![start()], vec![stop()]] {
        let broken = read(&say(&events));
        assert_eq!((error(&broken).kind, error(&broken).cause), (ErrorKind::Truncated, Cause::Truncated), "{events:?}");
    }
    assert_eq!(read(&say(&[start(), why("end_turn"), stop()])).end, Ok(()), "P28: an empty answer is one");
    assert_eq!(read(&say(&[start(), why("tool_use"), why("end_turn"), stop()])).end, Ok(()));
}

/// What fails once a message has said why it stops is not the answer; one that only paused is not over.
#[test]
fn an_error_behind_the_end_is_none() {
    let overloaded = || json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let words = || vec![start(), block(0, "text"), piece(0, "text_delta"), end(0)];
    let whole = read(&say(&[words(), vec![why("end_turn"), overloaded()]].concat()));
    assert_eq!((&whole.end, whole.frames.last()), (&Ok(()), Some(&Frame::Stop(Stop::End))));
    for before in [vec![], vec![why("pause_turn")]] {
        let broken = read(&say(&[words(), before, vec![overloaded()]].concat()));
        assert_eq!(error(&broken).kind, ErrorKind::Overloaded);
    }
}

/// P16: what is not the JSON it should be fails the attempt, and nothing else.
#[test]
fn junk_is_malformed() {
    let deep = "[".repeat(10_000);
    for data in [
        "{",
        "[]",
        "3",
        "null",
        "\"ping\"",
        "{\"type\":3}",
        "{\"type\":\"ping\"",
        "{\"type\":\"ping\",\"type\":\"ping\"}",
        "{\"type\":\"content_block_delta\",\"index\":-1}",
        "{\"type\":\"content_block_delta\",\"index\":\"0\"}",
        "{\"type\":\"content_block_delta\",\"index\":99999999999}",
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"text\":7}}",
        &format!("{{\"type\":\"x\",\"message\":{deep}"),
        "\u{fffd}",
    ] {
        let broken = read(&format!("data: {data}\n\n"));
        assert_eq!(error(&broken).kind, ErrorKind::Malformed, "{data}");
    }
    // The name of the event is as good as the type in it.
    assert_eq!(read("event: ping\ndata: {}\n\n").frames, [Frame::Ping]);
}

/// P17: something new may have any shape, also in fields that we know by another.
#[test]
fn something_new_may_have_any_shape() {
    let events = [
        json!({"type": "news", "index": "first", "delta": "text", "message": [], "usage": 3}),
        start(),
        block(0, "text"),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "glyph_delta", "text": 7}}),
        piece(0, "text_delta"),
        end(0),
        why("end_turn"),
        stop(),
    ];
    let told = read(&say(&events));
    let others = told.frames.iter().filter(|frame| matches!(frame, Frame::Delta(Delta::Other(_)))).count();
    assert_eq!((told.end, others), (Ok(()), 2));
    for known in [json!({"type": "ping", "index": "x"}), json!({"type": "message_delta", "delta": "x"})] {
        assert_eq!(error(&read(&say(&[start(), known]))).kind, ErrorKind::Malformed);
    }
}

/// P15: however many unheard-of events come, few are kept.
#[test]
fn unheard_of_events_are_bounded() {
    let many: Vec<Value> = (0..10_000).map(|n| json!({"type": "news", "n": n})).collect();
    let kept = read(&say(&many)).frames.len();
    assert_eq!(kept, 64);
    let big = json!({"type": "news", "text": "x".repeat(300_000)});
    assert_eq!(read(&say(&[big])).frames.len(), 0);
}

fn any_event() -> impl Strategy<Value = Value> {
    let kinds =
        ["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "web_search_tool_result", "odd"];
    let pieces = ["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta", "odd"];
    let index = 0_u32..3;
    prop_oneof![
        4 => (index.clone(), prop::sample::select(kinds.to_vec())).prop_map(|(index, kind)| block(index, kind)),
        6 => (index.clone(), prop::sample::select(pieces.to_vec())).prop_map(|(index, kind)| piece(index, kind)),
        4 => index.prop_map(end),
        1 => Just(why("end_turn")),
        1 => Just(stop()),
        1 => Just(json!({"type": "odd"})),
        1 => Just(json!({"type": "ping"})),
    ]
}

proptest! {
    /// P18, P19: whatever a provider sends, the draft can take what is made of it, and there is one stop at most.
    #[test]
    fn whatever_is_decoded_fits_a_draft(events in prop::collection::vec(any_event(), 0..40)) {
        let told = read(&say(&[&[start()], &events[..]].concat()));
        let mut draft = Draft::new(StepId(1));
        let model = "anthropic/claude".parse().unwrap();
        let began = Delta::Attempt(Box::new(AttemptBegan { number: 1, model, rung: Rung::First }));
        draft.push(Timestamp(0), &began).unwrap();
        for frame in &told.frames {
            if let Frame::Delta(delta) = frame {
                prop_assert!(draft.push(Timestamp(1), delta).is_ok(), "{delta:?} in {events:?}");
            }
        }
        let stops = told.frames.iter().filter(|frame| matches!(frame, Frame::Stop(_))).count();
        prop_assert_eq!(stops, usize::from(told.end.is_ok()));
    }

    /// P16: no bytes make it panic.
    #[test]
    fn any_text_is_survived(data in ".{0,200}") {
        let _ = read(&format!("data: {}\ndata: {data}\n\n", start()));
    }
}
