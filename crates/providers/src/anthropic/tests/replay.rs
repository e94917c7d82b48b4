//! What came goes back as it came.

use everturn_core::delta::{AttemptBegan, Rung};
use everturn_core::draft::Draft;
use everturn_core::ids::{MessageId, StepId, Timestamp};
use everturn_core::message::{Body, Message, Part, Stop, Text};
use everturn_core::prompt::{Request, prepare, validate};
use serde_json::{Value, json};

use super::*;
use crate::anthropic::request;

const MODEL: &str = "claude-opus-5-5";

/// The content of a message as the provider's own clients put it together, and as it wants it back.
fn accumulated(stream: &str) -> Vec<Value> {
    let mut content: Vec<Value> = Vec::new();
    let mut input = String::new();
    for line in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event: Value = serde_json::from_str(line).unwrap();
        let delta = &event["delta"];
        match event["type"].as_str().unwrap() {
            "content_block_start" => content.push(event["content_block"].clone()),
            "content_block_delta" => {
                let block = content.last_mut().unwrap();
                let mut append = |key: &str| {
                    block[key] = format!("{}{}", block[key].as_str().unwrap(), delta[key].as_str().unwrap()).into();
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append("text"),
                    "thinking_delta" => append("thinking"),
                    "signature_delta" => append("signature"),
                    "citations_delta" => block["citations"].as_array_mut().unwrap().push(delta["citation"].clone()),
                    "input_json_delta" => input += delta["partial_json"].as_str().unwrap(),
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" if !input.is_empty() => {
                content.last_mut().unwrap()["input"] = serde_json::from_str(&std::mem::take(&mut input)).unwrap();
            }
            _ => {}
        }
    }
    content
}

/// The content of the same message as it is sent back, after it went through a draft and a transcript.
fn sent_back(stream: &str) -> Vec<Value> {
    let mut draft = Draft::new(StepId(1));
    let model: everturn_core::ids::ModelId = format!("anthropic/{MODEL}").parse().unwrap();
    let began = AttemptBegan { number: 1, model: model.clone(), rung: Rung::First };
    draft.push(Timestamp(0), &Delta::Attempt(Box::new(began))).unwrap();
    let mut stop = Stop::Broken;
    for frame in read(stream).frames {
        for delta in frame.deltas() {
            draft.push(Timestamp(1), delta).unwrap();
        }
        if let Frame::Stop(why) = frame {
            stop = why;
        }
    }
    let reply = draft.seal(stop, Timestamp(2), None).unwrap();
    let hello = Part::Text(Text { text: "Hi".into(), ..Text::default() });
    let bodies = [Body::User(vec![hello]), Body::Reply(Box::new(reply))];
    let messages: Vec<Message> =
        bodies.into_iter().map(|body| Message { id: MessageId(1), at: Timestamp(0), body, sent: None }).collect();
    let card = Catalogue::embedded().card("anthropic", MODEL);
    let target = card.facts("anthropic", WireFormat::Anthropic).target;
    let request = Request::new(model, &target, prepare(&messages, &target)).fit(&target);
    assert_eq!(validate(&request, &target), Ok(()));
    let body = request::body(&request, &card).body;
    let content = body.pointer("/messages/1/content").unwrap().as_array().unwrap();
    content.iter().cloned().map(unmarked).collect()
}

/// A block without what is ours: the cache marker. Fields that say nothing count as absent.
fn unmarked(mut block: Value) -> Value {
    let fields = block.as_object_mut().unwrap();
    fields.remove("cache_control");
    fields.retain(|_, value| !value.is_null() && *value != json!([]));
    block
}

/// Thinking to the byte, searches, results, citations and calls: everything is sent back as it came, but for the ids of
/// our own calls, which a prompt counts itself.
#[test]
fn blocks_go_back_as_they_came() {
    for name in ["text", "thinking_and_tools", "omitted_thinking", "web_search"] {
        let stream = fixture(name);
        let mut calls = 0;
        let renamed = |mut block: Value| {
            if block["type"] == "tool_use" {
                calls += 1;
                block["id"] = format!("call_{calls}").into();
            }
            unmarked(block)
        };
        let expected: Vec<Value> = accumulated(stream).into_iter().map(renamed).collect();
        assert_eq!(sent_back(stream), expected, "{name}");
    }
}

/// A tool that cannot be sent back is told in words; the failed search, which can, is sent.
#[test]
fn blocks_that_cannot_go_back_are_put_into_words() {
    let sent = sent_back(fixture("search_failed"));
    let kinds: Vec<_> = sent.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["server_tool_use", "web_search_tool_result"]);
    assert!(kinds[2..].iter().all(|kind| *kind == "text"), "{kinds:?}");
}
