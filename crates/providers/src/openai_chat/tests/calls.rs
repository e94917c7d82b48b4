//! Calls from pieces of every shape.

use everturn_core::delta::Delta;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::Completions;
use super::super::decode::closing::Closing;
use crate::provider::Frame;
use crate::tests::cuts::told;
use crate::tests::snapshot::{draft, shown};

fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn calls(pieces: Value) -> Value {
    json!({"choices": [{"delta": {"tool_calls": pieces}}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"delta": {}, "finish_reason": reason}]})
}

fn check(chunks: &[Value], expected: Expect) {
    let whole = told([sse(chunks).as_bytes()], Completions::new("x"));
    draft(&whole.frames);
    expected.assert_eq(&shown(&whole).replace("ping\n", ""));
}

/// P18: what cannot be told apart is not put together.
#[test]
fn ambiguous_calls_are_refused() {
    check(
        &[
            calls(json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{\"x\":"}}])),
            calls(json!([{"index": 0, "id": "b", "function": {"name": "two", "arguments": "{}"}}])),
        ],
        expect![[r#"
            call 0 one "a"
            input 0 "{\"x\":"
            error malformed Backoff malformed: two calls in one place, and the first of them is not over
        "#]],
    );
    check(
        &[
            calls(json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{\"x\":1}"}}])),
            calls(json!([{"index": 0, "function": {"arguments": "{\"y\":2}"}}])),
        ],
        expect![[r#"
            call 0 one "a"
            input 0 "{\"x\":1}"
            call 0 over
            error malformed Backoff malformed: two inputs for one call
        "#]],
    );
    check(
        &[
            calls(json!([{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{\"x\":"}}])),
            calls(json!([{"index": 0, "id": "a", "function": {"name": "two", "arguments": "1}"}}])),
        ],
        expect![[r#"
            call 0 one "a"
            input 0 "{\"x\":"
            error malformed Backoff malformed: a call that changes its name
        "#]],
    );
    check(
        &[calls(json!([{"index": 0, "id": "a", "function": {"arguments": "{}"}}])), finish("tool_calls")],
        expect![[r#"
            error malformed Backoff malformed: a call without a name
        "#]],
    );
}

/// P18: ids that change with every piece of one call, ids that are the same for two calls, and an index that jumps.
#[test]
fn ids_are_data_and_no_keys() {
    check(
        &[
            calls(json!([{"index": 0, "id": "a1", "function": {"name": "one", "arguments": "{\"x\""}}])),
            calls(json!([{"index": 0, "id": "a2", "function": {"arguments": ":1}"}}])),
            calls(json!([{"index": 900, "id": "a1", "function": {"name": "two", "arguments": "{\"y\":2}"}}])),
            finish("tool_calls"),
        ],
        expect![[r#"
            call 0 one "a1"
            input 0 "{\"x\""
            input 0 ":1}"
            call 0 over
            call 1 two "a1"
            input 1 "{\"y\":2}"
            call 1 over
            stop ToolUse
        "#]],
    );
}

/// P27: at the output limit nothing that may be cut is over; elsewhere, no input is no input.
#[test]
fn calls_at_the_limit() {
    let begun = calls(json!([
        {"index": 0, "id": "a", "function": {"name": "none", "arguments": ""}},
        {"index": 1, "id": "b", "function": {"name": "empty", "arguments": "{}"}},
        {"index": 2, "id": "c", "function": {"name": "odd", "arguments": "\"text\""}},
    ]));
    check(
        &[begun.clone(), finish("length")],
        expect![[r#"
        call 0 none "a"
        call 1 empty "b"
        call 2 odd "c"
        input 2 "\"text\""
        input 1 "{}"
        call 1 over
        stop Length
    "#]],
    );
    check(
        &[begun, finish("stop")],
        expect![[r#"
        call 0 none "a"
        call 1 empty "b"
        call 2 odd "c"
        input 2 "\"text\""
        call 0 over
        input 1 "{}"
        call 1 over
        call 2 over
        stop ToolUse
    "#]],
    );
}

/// A piece that says nothing is no call.
#[test]
fn empty_pieces_are_nothing() {
    check(
        &[calls(json!([{"index": 0}, {"index": 1, "function": null}])), calls(json!([])), finish("tool_calls")],
        expect![[r#"
            stop End
        "#]],
    );
}

/// An answer that is not over after all must say so again.
#[test]
fn a_call_after_the_end_needs_another_end() {
    let late = calls(json!([{"index": 0, "id": "a", "function": {"name": "late", "arguments": ""}}]));
    check(
        &[finish("stop"), late.clone()],
        expect![[r#"
        error truncated Backoff truncated: 
    "#]],
    );
    check(
        &[finish("stop"), late, finish("tool_calls")],
        expect![[r#"
        call 0 late "a"
        call 0 over
        stop ToolUse
    "#]],
    );
}

#[test]
fn an_answer_has_so_many_calls() {
    let chunks: Vec<Value> =
        (0..2000).map(|index| calls(json!([{"index": index, "function": {"name": "a"}}]))).collect();
    let read = told([sse(&chunks).as_bytes()], Completions::new("x"));
    assert_eq!(read.end.unwrap_err().detail, "more calls than an answer can have");
}

proptest! {
    /// The end of an object is found in any JSON, however it is cut.
    #[test]
    fn an_object_ends_where_it_ends(text in "[\\[\\]{}\"\\\\a ]{0,12}", key in "[\"\\\\{}é]{0,3}", cut in 0_usize..60) {
        let json = json!({key: [text.clone(), {"x": text}]}).to_string();
        let cut = json.floor_char_boundary(cut.min(json.len()));
        let mut closing = Closing::default();
        let head = closing.push(&json[..cut]);
        prop_assert_eq!(head, cut);
        prop_assert_eq!(closing == Closing::Over, cut == json.len());
        if cut < json.len() {
            prop_assert_eq!(closing.push(&format!("{} tail}}", &json[cut..])), json.len() - cut);
            prop_assert_eq!(closing, Closing::Over);
        }
    }

    /// However inputs are cut into pieces and interleaved, each call gets its own.
    #[test]
    fn pieces_find_their_calls(
        inputs in prop::collection::vec("[a-z{}\"é]{0,8}", 1..5), cuts in prop::collection::vec((0_usize..5, 1_usize..6), 0..60),
    ) {
        let whole: Vec<String> = inputs.iter().map(|text| json!({"v": text}).to_string()).collect();
        let mut rest: Vec<&str> = whole.iter().map(String::as_str).collect();
        let begin: Vec<Value> = (0..whole.len())
            .map(|index| json!({"index": index, "id": format!("c{index}"), "function": {"name": format!("t{index}"), "arguments": ""}}))
            .collect();
        let mut chunks = vec![calls(json!(begin))];
        let ends = (0..whole.len()).map(|index| (index, usize::MAX));
        for (index, len) in cuts.into_iter().chain(ends) {
            let Some(tail) = rest.get_mut(index) else { continue };
            let (piece, after) = tail.split_at(tail.floor_char_boundary(len.min(tail.len())));
            *tail = after;
            chunks.push(calls(json!([{"index": index, "function": {"arguments": piece}}])));
        }
        chunks.push(finish("tool_calls"));
        let read = told([sse(&chunks).as_bytes()], Completions::new("x"));
        prop_assert_eq!(&read.end, &Ok(()));
        let draft = draft(&read.frames);
        prop_assert_eq!(draft.complete_calls().count(), whole.len());
        for (call, input) in draft.complete_calls().map(|call| {
            let index: usize = call.tool[1..].parse().unwrap();
            (call, &whole[index])
        }) {
            prop_assert_eq!(&call.input, input);
        }
        let ended = read.frames.iter().filter(|frame| matches!(frame, Frame::Delta(Delta::CallEnded { .. }))).count();
        prop_assert_eq!(ended, whole.len());
    }
}
