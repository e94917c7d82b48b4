//! Faults of calls.

use everturn::core::delta::{CallBegan, Delta};
use everturn::core::limits::Limits;
use everturn::core::message::{Meta, RunBy, Stop};
use everturn_understudy::{Cue, Script, begin_call, call, cut, raw, script, stop, text, usage};
use serde_json::json;

use super::Row;
use super::case::Case;
use super::way::Way;

fn calls(cues: impl IntoIterator<Item = Cue>) -> Vec<Script> {
    vec![script(cues.into_iter().chain([usage(10, 10), stop(Stop::ToolUse)]))]
}

/// A call with whatever input and id.
fn odd_call(slot: u32, id: &str, input: &str) -> Cue {
    let began = CallBegan { slot, provider_id: id.into(), tool: "echo".into(), run_by: RunBy::Us, meta: Meta::new() };
    Cue::Say(vec![
        Delta::CallBegan(Box::new(began)),
        Delta::CallInput { slot, json: input.into() },
        Delta::CallEnded { slot },
    ])
}

/// Two calls that say they are in the same place.
fn two_in_one(way: Way) -> Vec<u8> {
    let events = match way {
        Way::Anthropic | Way::Prefill => {
            let begin = |id: &str| {
                let block = json!({"type": "tool_use", "id": id, "name": "echo", "input": {}});
                json!({"type": "content_block_start", "index": 0, "content_block": block})
            };
            let piece = json!({"type": "input_json_delta", "partial_json": "{\"say\": \"a\"}"});
            vec![begin("a"), json!({"type": "content_block_delta", "index": 0, "delta": piece}), begin("b")]
        }
        Way::Responses | Way::Kept => {
            let begin = |id: &str| {
                let item = json!({"type": "function_call", "id": id, "call_id": id, "name": "echo", "arguments": ""});
                json!({"type": "response.output_item.added", "output_index": 0, "item": item})
            };
            let piece = json!({
                "type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"say\": \"a\"}",
            });
            vec![begin("a"), piece.clone(), begin("b"), piece]
        }
        Way::Chat => {
            let piece = |id: &str, input: &str| {
                let call = json!({"index": 0, "id": id, "function": {"name": "echo", "arguments": input}});
                json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
            };
            vec![piece("a", "{\"say\": \"a"), piece("b", "{\"say\": \"b\"}")]
        }
        Way::Gemini => Vec::new(),
    };
    events.iter().flat_map(|event| format!("data: {event}\n\n").into_bytes()).collect()
}

pub fn odd_ids() -> Row {
    let both = |first: &'static str, second: &'static str| {
        move |_| calls([odd_call(0, first, r#"{"say": "a"}"#), odd_call(1, second, r#"{"say": "b"}"#)])
    };
    Row::new(
        "ids that are used twice, or are none",
        [
            Case::new("twice the same").scripts(both("id", "id")),
            Case::new("none").scripts(both("", "")),
            Case::new("two in one place")
                .scripts(|way| vec![script([raw(two_in_one(way)), cut()])])
                .except([Way::Gemini], "its calls come whole, and have no place but their order"),
            Case::new("a slot after a gap")
                .scripts(|_| calls([odd_call(3, "x", r#"{"say": "a"}"#), odd_call(9, "y", r#"{"say": "b"}"#)])),
        ],
    )
}

pub fn odd_inputs() -> Row {
    let long = || format!("{{\"say\": \"{}\"}}", "x".repeat(1100 << 10));
    let deep = || format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    let short = |limits: &mut Limits| (limits.line_bytes_max, limits.frame_bytes_max) = (1 << 20, 1 << 20);
    Row::new(
        "input that is not JSON, does not fit, is too long",
        [
            Case::new("not JSON").scripts(|_| calls([odd_call(0, "x", "say it [")])),
            Case::new("another schema").scripts(|_| calls([call("echo", json!({"say": 7}))])),
            Case::new("10,000 deep").scripts(move |_| calls([odd_call(0, "x", &deep())])),
            Case::new("10,000 deep, and not to the end").scripts(move |_| calls([odd_call(0, "x", &deep()[..60_000])])),
            Case::new("more than a line may hold").scripts(move |_| calls([odd_call(0, "x", &long())])).limits(short),
        ],
    )
}

pub fn cut_calls() -> Row {
    let cut = |_| {
        let said = [text("Let me see."), begin_call("echo", "{\"say\": \"b"), usage(10, 10), stop(Stop::Length)];
        vec![script(said)]
    };
    let whole_and_cut = |_| {
        let cues =
            [call("echo", json!({"say": "a"})), begin_call("echo", "{\"say\": \"b"), usage(10, 10), stop(Stop::Length)];
        vec![script(cues)]
    };
    Row::new(
        "the output limit, inside a call",
        [Case::new("one call").scripts(cut), Case::new("behind a whole one").scripts(whole_and_cut)],
    )
}

pub fn many_calls() -> Row {
    let same = || call("echo", json!({"say": "a"}));
    let many = |_| calls((0..64).map(|number| call("echo", json!({"say": number.to_string()}))));
    Row::new(
        "many calls, and the same for ever",
        [
            Case::new("64 at once").scripts(many),
            Case::new("the same for ever").scripts(move |_| (0..10).flat_map(|_| calls([same()])).collect()),
        ],
    )
}
