//! Faults in what is said.

use everturn::core::message::Stop;
use everturn_understudy::{Cue, cut, malformed, pause, provided, raw, script, stop, text, usage, words};
use serde_json::{Value, json};

use super::Row;
use super::case::{Case, WHOLE, numbers};
use super::way::Way;

/// The end of an answer that has said some words, with whatever reason and tokens.
fn ending(way: Way, reason: &str, counts: [Value; 2]) -> Cue {
    let [prompt, output] = counts;
    let events = match way {
        Way::Anthropic | Way::Prefill => vec![
            json!({"type": "content_block_stop", "index": 0}),
            json!({
                "type": "message_delta", "delta": {"stop_reason": reason},
                "usage": {"input_tokens": prompt, "output_tokens": output},
            }),
            json!({"type": "message_stop"}),
        ],
        Way::Responses | Way::Kept => vec![json!({
            "type": "response.incomplete", "sequence_number": 1000,
            "response": {
                "id": "resp_1", "status": "incomplete", "incomplete_details": {"reason": reason},
                "usage": {"input_tokens": prompt, "output_tokens": output},
            },
        })],
        Way::Chat => vec![json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": output},
        })],
        Way::Gemini => vec![json!({
            "candidates": [{"index": 0, "finishReason": reason}],
            "usageMetadata": {"promptTokenCount": prompt, "candidatesTokenCount": output},
        })],
    };
    raw(events.iter().flat_map(|data| event(data.to_string())).collect::<Vec<u8>>())
}

/// The stop reason of a normal end on each wire.
const fn done(way: Way) -> &'static str {
    match way {
        Way::Anthropic | Way::Prefill => "end_turn",
        Way::Responses | Way::Kept => "max_output_tokens",
        Way::Chat => "stop",
        Way::Gemini => "STOP",
    }
}

/// An event with this data, as the wire sends one.
fn event(data: impl AsRef<[u8]>) -> Vec<u8> {
    [b"data: ", data.as_ref(), b"\n\n"].concat()
}

pub fn not_json() -> Row {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    let says = |name, data: Vec<u8>| Case::new(name).half_way(move |_| vec![raw(event(&data))]);
    Row::new(
        "JSON that is cut, no UTF-8, too deep, contradictory",
        [
            says("cut", br#"{"type": "gibb"#.to_vec()),
            says("no UTF-8", b"{\"type\": \"\xff\xfe".to_vec()),
            says("too deep", deep.into_bytes()),
            says("a list", b"[1, 2]".to_vec()),
            says("keys twice", br#"{"type": "ping", "type": "ping", "type": "pong"}"#.to_vec()),
        ],
    )
}

pub fn unheard_of() -> Row {
    let new = |way| match way {
        Way::Anthropic | Way::Prefill => "event: new\ndata: {\"type\": \"new\", \"x\": {\"y\": [1]}}\n\n",
        Way::Responses | Way::Kept => "event: response.new\ndata: {\"type\": \"response.new\", \"x\": 1}\n\n",
        Way::Chat => "data: {\"object\": \"new\", \"choices\": [{\"index\": 0, \"delta\": {\"new\": 1}}]}\n\n",
        Way::Gemini => "data: {\"new\": {\"x\": 1}, \"candidates\": [{\"index\": 0, \"newer\": []}]}\n\n",
    };
    Row::new(
        "unknown events and fields",
        [
            Case::new("half-way").half_way(move |way| vec![raw(new(way))]),
            Case::new("a field of the stream").half_way(|_| vec![raw("whatever: 1\nid: 7\nretry: 5\n\n")]),
        ],
    )
}

pub fn out_of_order() -> Row {
    Row::new("pieces of what never began", [Case::new("half-way").half_way(|_| vec![malformed()])])
}

pub fn odd_counts() -> Row {
    let told = |name, count: fn() -> Value| {
        Case::new(name).scripts(move |way| {
            vec![script([words(&numbers(1, WHOLE)), ending(way, done(way), [count(), count()]), cut()])]
        })
    };
    Row::new(
        "tokens that are not told, negative, more than there can be",
        [
            told("not told", || Value::Null),
            told("negative", || json!(-5)),
            told("more than there can be", || json!(1e30)),
            told("no numbers", || json!("many")),
        ],
    )
}

pub fn odd_endings() -> Row {
    let filtered = || stop(Stop::Filtered { category: "cyber".into(), detail: "Not this.".into() });
    Row::new(
        "an empty answer, an unknown end, a refusal, a pause",
        [
            Case::new("empty, once").scripts(|_| vec![script([usage(10, 0), stop(Stop::End)])]),
            Case::new("empty, twice").scripts(|_| vec![script([usage(10, 0), stop(Stop::End)]); 2]),
            Case::new("an unknown end").scripts(|way| {
                let end = ending(way, "bored", [json!(100), json!(24)]);
                vec![script([words(&numbers(1, WHOLE)), end, cut()])]
            }),
            Case::new("refused, without a word").scripts(move |_| vec![script([usage(10, 0), filtered()])]),
            Case::new("refused, after some words")
                .scripts(move |_| vec![script([text("I would "), usage(10, 3), filtered()])]),
            Case::new("a pause, behind a search of its own")
                .scripts(|_| {
                    let found = json!([{"type": "web_search_result", "title": "Kelp", "url": "https://kelp.example"}]);
                    let search = provided("web_search", &json!({"query": "kelp"}), found);
                    vec![script([search, usage(10, 3), pause()])]
                })
                .except([Way::Responses, Way::Kept, Way::Chat, Way::Gemini], "no other wire pauses"),
        ],
    )
}
