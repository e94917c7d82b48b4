//! Characters that a provider cuts in two, on every wire.

use everturn_core::delta::Delta;

use crate::anthropic::Messages;
use crate::gemini::GenerateContent;
use crate::gemini::Interaction;
use crate::openai_chat::Completions;
use crate::openai_responses::{ResponseRetention, Responses};
use crate::provider::Frame;
use crate::tests::cuts::{Decoded, check, told};
use crate::wire::{Decode, halves::beyond};

/// The text, the thoughts and the inputs that some frames add up to. Nothing may have failed.
fn said(Decoded { frames, end }: &Decoded) -> [String; 3] {
    assert_eq!(*end, Ok(()), "{frames:?}");
    let mut said = [const { String::new() }; 3];
    for delta in frames.iter().flat_map(Frame::deltas) {
        match delta {
            Delta::Text(text) => said[0].push_str(text),
            Delta::Reasoning(text) => said[1].push_str(text),
            Delta::CallInput { json, .. } => said[2].push_str(json),
            _ => {}
        }
    }
    said
}

fn stream(events: &[&str]) -> String {
    events.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// A stream means what it says, however it is cut.
fn says<D: Decode>(events: &[&str], decode: impl Fn() -> D, expected: [&str; 3]) {
    let bytes = stream(events);
    assert_eq!(said(&told([bytes.as_bytes()], decode())), expected);
    check("halves", bytes.as_bytes(), decode);
}

#[test]
fn anthropic() {
    let delta = |piece: &str| format!(r#"{{"type":"content_block_delta","index":0,"delta":{piece}}}"#);
    let block = |kind: &str| format!(r#"{{"type":"content_block_start","index":0,"content_block":{kind}}}"#);
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let last = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    let answer = |block: &str, pieces: &[String], expected: [&str; 3]| {
        let start = r#"{"type":"message_start","message":{"id":"m"}}"#;
        let pieces = pieces.iter().map(String::as_str);
        let end = [stop, last, r#"{"type":"message_stop"}"#];
        let events: Vec<&str> = [start, block].into_iter().chain(pieces).chain(end).collect();
        says(&events, || Messages::new("anthropic"), expected);
    };
    let text = |text: &str| delta(&format!(r#"{{"type":"text_delta","text":"{text}"}}"#));
    let words = block(r#"{"type":"text","text":""}"#);
    answer(&words, &[text(r"Hi \ud83d"), r#"{"type":"ping"}"#.into(), text(r"\ude00!")], ["Hi \u{1f600}!", "", ""]);
    answer(&words, &[text(r"\ud83d"), text(r"\ude00")], ["\u{1f600}", "", ""]);
    answer(&words, &[text(r"Hi \ud83d"), text(r"\ud83d"), text("!")], ["Hi \u{fffd}\u{fffd}!", "", ""]);
    answer(&words, &[text(r"Hi \ud83d")], ["Hi \u{fffd}", "", ""]);
    answer(&words, &[text(r"\ude00 \ud83d Hi")], ["\u{fffd} \u{fffd} Hi", "", ""]);
    let thought = |text: &str| delta(&format!(r#"{{"type":"thinking_delta","thinking":"{text}"}}"#));
    let thoughts = block(r#"{"type":"thinking","thinking":""}"#);
    answer(&thoughts, &[thought(r"Hm \ud83d"), thought(r"\ude00")], ["", "Hm \u{1f600}", ""]);
    let input = |json: &str| delta(&format!(r#"{{"type":"input_json_delta","partial_json":"{json}"}}"#));
    let call = block(r#"{"type":"tool_use","id":"c","name":"look","input":{}}"#);
    answer(&call, &[input(r#"{\"a\":\"\ud83d"#), input(r#"\ude00\"}"#)], ["", "", "{\"a\":\"\u{1f600}\"}"]);
}

/// What is repeated whole at the end is what came in halves.
#[test]
fn openai_responses() {
    let events = [
        r#"{"type":"response.created","response":{"id":"r"}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m"}}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi \ud83d"}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"\ude00"}"#,
        r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Hi \ud83d\ude00"}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[{"type":"output_text","text":"Hi \ud83d\ude00"}]}}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"f","call_id":"c","name":"look"}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":\"\ud83d"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"\ude00 \ud83d"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":" x\"}"}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":\"\ud83d\ude00 \ud83d x\"}"}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"f","call_id":"c","name":"look","arguments":"{\"a\":\"\ud83d\ude00 \ud83d x\"}"}}"#,
        r#"{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}"#,
    ];
    let expected = ["Hi \u{1f600}", "", "{\"a\":\"\u{1f600} \u{fffd} x\"}"];
    says(&events, || Responses::new("openai", ResponseRetention::Nothing), expected);
    assert_eq!(beyond("a\u{1f600}b", "a\u{fffd}\u{fffd}"), Some("b"));
    assert_eq!(beyond("a\u{1f600}b", "a\u{fffd}b"), None);
    assert_eq!(beyond("a", "ab"), None);
}

#[test]
fn openai_chat() {
    let delta = |delta: &str| format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#);
    let call = |json: &str| delta(&format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":"{json}"}}}}]}}"#));
    let events = [
        delta(r#"{"reasoning_content":"Hm \ud83d"}"#),
        delta(r#"{"reasoning_content":"\ude00"}"#),
        delta(r#"{"content":"Hi \ud83d"}"#),
        delta(r#"{"content":"\ude00 \ud83d"}"#),
        delta(r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"look","arguments":""}}]}"#),
        call(r#"{\"a\":\"\ud83d"#),
        call(r#"\ude00\"}"#),
        call(r#"{\"a\":\"\ud83d\ude00\"}"#), // Some repeat the whole.
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned(),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).chain(["[DONE]"]).collect();
    let expected = ["Hi \u{1f600} \u{fffd}", "Hm \u{1f600}", "{\"a\":\"\u{1f600}\"}"];
    let bytes = stream(&events);
    assert_eq!(said(&told([bytes.as_bytes()], Completions::new("openai"))), expected);
}

#[test]
fn gemini() {
    let part = |part: &str| format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}}}}]}}"#);
    let events = [
        part(r#"{"text":"Hm \ud83d","thought":true}"#),
        part(r#"{"text":"\ude00","thought":true}"#),
        part(r#"{"text":"Hi \ud83d"}"#),
        part(r#"{"text":"\ude00 \ud83d"}"#),
        part(r#"{"functionCall":{"name":"look","args":{"a":"\ud83d\ude00 \ud83d"}}}"#),
        r#"{"candidates":[{"finishReason":"STOP"}]}"#.to_owned(),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let expected = ["Hi \u{1f600} \u{fffd}", "Hm \u{1f600}", "{\"a\":\"\\ud83d\\ude00 \u{fffd}\"}"];
    says(&events, || GenerateContent::new("google"), expected);
}

#[test]
fn interactions() {
    let events = [
        r#"{"event_type":"interaction.created","interaction":{"id":"i"},"event_id":"1"}"#,
        r#"{"event_type":"step.start","index":0,"step":{"type":"model_output"},"event_id":"2"}"#,
        r#"{"event_type":"step.delta","index":0,"delta":{"type":"text","text":"Hi \ud83d"},"event_id":"3"}"#,
        r#"{"event_type":"step.delta","index":0,"delta":{"type":"text","text":"\ude00 \ud83d"},"event_id":"4"}"#,
        r#"{"event_type":"step.stop","index":0,"event_id":"5"}"#,
        r#"{"event_type":"interaction.completed","interaction":{"id":"i","status":"completed"},"event_id":"6"}"#,
    ];
    says(&events, || Interaction::new("google"), ["Hi \u{1f600} \u{fffd}", "", ""]);
}
