//! Events that should not be, and what becomes of them.

use everturn_core::error::{Cause, ErrorKind, Retry};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::decode::{ResponseRetention, Responses};
use crate::tests::cuts::{Decoded, told};
use crate::tests::snapshot::{draft, shown};

fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn read(events: &[Value]) -> Decoded {
    told([sse(events).as_bytes()], Responses::new("openai", ResponseRetention::Nothing))
}

fn check(events: &[Value], expected: Expect) {
    let whole = read(events);
    draft(&whole.frames);
    expected.assert_eq(&shown(&whole));
}

fn added(place: u32, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": place, "item": item})
}

fn done(place: u32, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": place, "item": item})
}

fn call(name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": arguments})
}

fn arguments(place: u32, json: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": place, "delta": json})
}

fn text(words: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": words})
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

/// P16: input that is not JSON, or has a key twice, ends the attempt. So does endless nesting, without a
/// stack overflow.
#[test]
fn a_malformed_event_ends_the_attempt() {
    let deep = format!("{{\"type\":\"response.created\",\"response\":{}", "[".repeat(10_000));
    let twice = r#"{"type":"response.output_text.delta","delta":"a","delta":"b"}"#;
    for data in ["{\"type\":\"resp", "nonsense", "[1]", "7", "null", &deep, twice] {
        let read = told([format!("data: {data}\n\n").as_bytes()], Responses::new("openai", ResponseRetention::Nothing));
        let error = read.end.expect_err(data);
        assert_eq!((error.kind, error.cause, error.retry), (ErrorKind::Malformed, Cause::Malformed, Retry::Backoff));
        assert_eq!(read.frames, []);
    }
}

/// P20: the end of the bytes is not the end of the answer, and neither is `[DONE]`.
#[test]
fn without_a_terminal_event_it_was_cut() {
    for end in ["", "data: [DONE]\n\n"] {
        let bytes = sse(&[text("almost")]) + end;
        let read = told([bytes.as_bytes()], Responses::new("openai", ResponseRetention::Nothing));
        assert_eq!(read.end.unwrap_err().kind, ErrorKind::Truncated);
    }
}

/// P19: input without a call, and a call without an end.
#[test]
fn input_needs_an_open_call() {
    check(
        &[arguments(0, "{}")],
        expect![[r#"
            error malformed Backoff malformed: input for a call that is not open
        "#]],
    );
    check(
        &[added(0, call("go", "")), arguments(0, "{}"), done(0, call("go", "{}")), arguments(0, "{}")],
        expect![[r#"
            call 0 go "call_1" openai={"id":"fc_1"}
            input 0 "{}"
            call 0 over
            error malformed Backoff malformed: input for a call that is not open
        "#]],
    );
    check(
        &[added(0, call("go", "")), arguments(0, "{\"to\":"), completed(json!([]))],
        expect![[r#"
            call 0 go "call_1" openai={"id":"fc_1"}
            input 0 "{\"to\":"
            error malformed Backoff malformed: the response is over and a call in it is not
        "#]],
    );
    check(
        &[done(0, call("", "{}"))],
        expect![[r#"
            error malformed Backoff malformed: a call without a name
        "#]],
    );
}

/// P18: a call that is told twice in two ways is not believed in either.
#[test]
fn a_contradiction_over_input_runs_nothing() {
    check(
        &[added(0, call("go", "")), arguments(0, r#"{"to":"sea"}"#), done(0, call("go", r#"{"to":"hell"}"#))],
        expect![[r#"
            call 0 go "call_1" openai={"id":"fc_1"}
            input 0 "{\"to\":\"sea\"}"
            error malformed Backoff malformed: a call's input differs from what was streamed of it
        "#]],
    );
}

/// A name that comes late, input in one piece at the end, and an end without input.
#[test]
fn calls_may_come_late_and_at_once() {
    check(
        &[
            added(0, call("", "")),
            arguments(0, "{\"a\""),
            json!({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{\"a\":1}"}),
            done(0, call("late", "{\"a\":1}")),
            added(1, call("whole", "")),
            done(1, call("whole", "{\"b\":2}")),
            added(2, call("none", "")),
            arguments(2, "{}"),
            done(2, call("none", "")),
            done(2, call("none", "")),
            completed(json!(null)),
        ],
        expect![[r#"
            ping
            ping
            ping
            call 0 late "call_1" openai={"id":"fc_1"}
            input 0 "{\"a\":1}"
            call 0 over
            call 1 whole "call_1" openai={"id":"fc_1"}
            input 1 "{\"b\":2}"
            call 1 over
            call 2 none "call_1" openai={"id":"fc_1"}
            input 2 "{}"
            call 2 over
            ping
            stop ToolUse
        "#]],
    );
}

/// Repetitions that come after the end of their item, or twice, say nothing again.
#[test]
fn nothing_is_said_twice() {
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Once."}]});
    let part = json!({"type": "response.content_part.done", "output_index": 0, "part": message["content"][0]});
    let said = json!({"type": "response.output_text.done", "output_index": 0, "text": "Once."});
    check(
        &[text("On"), said.clone(), part.clone(), done(0, message.clone()), said, part, completed(json!([message]))],
        expect![[r#"
            text "On"
            text "ce."
            ended
            ping
            ping
            ping
            stop End
        "#]],
    );
}

/// Two items that talk at the same time: every word is kept, in parts of their own.
#[test]
fn items_may_interleave() {
    let other = json!({"type": "response.output_text.delta", "output_index": 1, "delta": "B"});
    check(
        &[text("A"), other.clone(), text("a"), other, completed(json!([]))],
        expect![[r#"
            text "A"
            ended
            text "B"
            ended
            text "a"
            ended
            text "B"
            ended
            stop End
        "#]],
    );
}

/// P28: unknown reasons, statuses without a name, and names without a status.
#[test]
fn every_end_has_its_stop() {
    let end = |kind: &str, response: Value| {
        let read = read(&[json!({"type": kind, "response": response})]);
        shown(&read).trim().replace("ping\n", "")
    };
    let cases = [
        ("response.completed", json!({}), "stop End"),
        ("response.done", json!({"status": "completed"}), "stop End"),
        ("response.incomplete", json!({}), "stop Length"),
        ("response.completed", json!({"status": "incomplete"}), "stop Length"),
        (
            "response.incomplete",
            json!({"incomplete_details": {"reason": "boredom"}}),
            "stop Filtered { category: \"boredom\", detail: \"\" }",
        ),
        ("response.completed", json!({"status": "failed"}), "error generic Backoff error_finish: "),
        (
            "response.completed",
            json!({"status": "canceled"}),
            "error generic Backoff error_finish: the response was cancelled at the provider",
        ),
    ];
    for (kind, response, expected) in cases {
        assert_eq!(end(kind, response.clone()), expected.trim(), "{kind} {response}");
    }
}

/// P21: counts that cannot be are not counted.
#[test]
fn usage_may_be_absurd() {
    let end = |usage: Value| {
        let event = json!({"type": "response.completed", "response": {"status": "completed", "usage": usage}});
        shown(&read(&[event])).lines().next().unwrap().to_owned()
    };
    let absurd = json!({"input_tokens": -1, "output_tokens": 1e300, "input_tokens_details": {"cached_tokens": "x"}});
    assert_eq!(end(absurd), "usage ? + ? read + ? written -> ? (? thought)");
    let more_cached = json!({"input_tokens": 5, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 9}});
    assert_eq!(end(more_cached), "usage ? + 9 read + ? written -> 1 (? thought)");
    assert_eq!(end(json!(null)), "stop End");
}

/// P17: unknown events are kept, up to a bound, and never end an answer.
#[test]
fn unknown_events_are_kept_to_a_bound() {
    let mut events = vec![json!({"type": "response.novelty", "delta": {"odd": [1, 2]}}); 100];
    events.push(json!({"no": "type"}));
    events.push(completed(json!([])));
    let read = read(&events);
    assert_eq!(read.end, Ok(()));
    let kept = shown(&read).lines().filter(|line| line.starts_with("other")).count();
    assert_eq!(kept, 32);
}

/// P15: items without end are bounded.
#[test]
fn a_response_has_so_many_items() {
    let events: Vec<Value> = (0..2000).map(|place| added(place, json!({"type": "message"}))).collect();
    assert_eq!(read(&events).end.unwrap_err().detail, "more items than a response can have");
}
