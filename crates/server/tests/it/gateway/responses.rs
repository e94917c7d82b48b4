//! OpenAI Responses, for clients that send the whole conversation.

use everturn::core::error::{Cause, ErrorKind};
use everturn::core::message::{Seal, Stop};
use everturn::core::prompt::PromptPart;
use everturn_understudy::{
    Script, call, cut, ended, fail, reasoning, script, sealed, stop, text, usage, wait_ms, words,
};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::{MODEL, plays, says};
use crate::stage::{Stage, answer};

const RESPONSES: &str = "/openai/v1/responses";

fn asks(words: &str) -> Value {
    json!({"model": MODEL, "input": words})
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = true.into();
    body
}

impl Stage {
    fn response(&self, body: &Value) -> RequestBuilder {
        self.ask(Method::POST, RESPONSES).json(body)
    }
}

/// The events of a stream, until something is there or it is over; and whether it broke.
async fn events(mut response: Response, is_enough: impl Fn(&[Value]) -> bool) -> (Vec<Value>, bool) {
    let (mut events, mut rest, mut kind) = (Vec::<Value>::new(), Vec::new(), String::new());
    loop {
        match response.chunk().await {
            Ok(Some(bytes)) => rest.extend_from_slice(&bytes),
            Ok(None) => return (events, false),
            Err(_) => return (events, true),
        }
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let line = std::str::from_utf8(&line).unwrap().trim_end();
            if let Some(named) = line.strip_prefix("event: ") {
                kind = named.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data: Value = serde_json::from_str(data).unwrap();
                assert_eq!(data["type"], kind.as_str());
                events.push(data);
            }
        }
        if is_enough(&events) {
            return (events, false);
        }
    }
}

fn number(event: &Value) -> u64 {
    event["sequence_number"].as_u64().unwrap()
}

/// The events with neighbouring deltas joined, and without the numbers of those that a later one stands for.
fn joined(events: &[Value]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for event in events {
        match joined.last_mut() {
            Some(last) if last["type"] == event["type"] && event["delta"].is_string() => {
                last["delta"] =
                    format!("{}{}", last["delta"].as_str().unwrap(), event["delta"].as_str().unwrap()).into();
                last["sequence_number"] = event["sequence_number"].clone();
            }
            _ => joined.push(event.clone()),
        }
    }
    joined
}

fn played() -> Script {
    script([
        reasoning("Let me "),
        reasoning("see."),
        sealed("seal"),
        ended(),
        text("I look "),
        text("at wörds."),
        call("read_file", json!({"path": "a"})),
        usage(40, 9),
        stop(Stop::ToolUse),
    ])
}

fn offers() -> Value {
    let mut body = asks("Look.");
    let parameters = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    body["tools"] = json!([
        {"type": "function", "name": "read_file", "description": "Reads.", "parameters": parameters, "strict": false},
        {"type": "web_search"},
    ]);
    body
}

/// FB01, FB02: the last event's response is the answer without a stream; each item is announced, told and done; the items
/// come back as the next input.
#[tokio::test]
async fn a_response_is_the_same_as_a_stream_and_whole_and_comes_back() {
    let understudy = plays([played(), played(), says("Done.")]);
    let stage = Stage::playing(&understudy).await;
    let mut body = offers();
    let (status, whole) = answer(stage.response(&body).send().await.unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{whole}");
    let (told, is_broken) = events(stage.response(&streamed(body.clone())).send().await.unwrap(), |_| false).await;
    assert!(!is_broken);
    assert_eq!((&told[0]["type"], &told[1]["type"]), (&json!("response.created"), &json!("response.in_progress")));
    assert!(told.windows(2).all(|pair| number(&pair[0]) < number(&pair[1])), "numbers grow");
    let last = &told.last().unwrap()["response"];
    assert_eq!((&last["status"], &last["usage"]["output_tokens"]), (&json!("completed"), &json!(9)));
    let kinds = |response: &Value| -> Vec<String> {
        response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap().into()).collect()
    };
    assert_eq!(kinds(last), ["reasoning", "message", "function_call"]);
    assert_eq!(kinds(&whole), kinds(last));
    for (one, other) in whole["output"].as_array().unwrap().iter().zip(last["output"].as_array().unwrap()) {
        for field in ["summary", "encrypted_content", "content", "name", "arguments", "status"] {
            assert_eq!(one[field], other[field], "{field}");
        }
    }
    let done: Vec<&Value> =
        told.iter().filter(|event| event["type"] == "response.output_item.done").map(|event| &event["item"]).collect();
    assert_eq!(done, last["output"].as_array().unwrap().iter().collect::<Vec<_>>());
    let mut input = vec![json!({"role": "user", "content": "Look."})];
    input.extend(whole["output"].as_array().unwrap().clone());
    input.push(json!({"type": "function_call_output", "call_id": whole["output"][2]["call_id"], "output": "A"}));
    body["input"] = input.into();
    body["instructions"] = "Be brief.".into();
    let (status, next) = answer(stage.response(&body).send().await.unwrap()).await;
    assert_eq!((status, &next["output"][0]["content"][0]["text"]), (StatusCode::OK, &json!("Done.")), "{next}");
    let asked = understudy.requests().pop().unwrap();
    assert_eq!((asked.system.len(), asked.tools.len()), (1, 1), "what only OpenAI runs is left out");
    let mut parts = asked.entries.iter().flat_map(|entry| &entry.parts);
    assert!(
        parts.any(
            |part| matches!(part, PromptPart::Reasoning(thought) if thought.seal == Seal::Signature("seal".into()))
        ),
        "{asked:?}"
    );
    stage.server.stop().await;
}

/// FB03, FB05: cut at every event, the rest is told once, with the same ids and numbers; from the beginning, all of it.
#[tokio::test]
async fn a_response_is_read_on_from_any_event() {
    let understudy = plays([played()]);
    let stage = Stage::playing(&understudy).await;
    let (all, _) = events(stage.response(&streamed(offers())).send().await.unwrap(), |_| false).await;
    let path = format!("{RESPONSES}/{}?stream=true", all[0]["response"]["id"].as_str().unwrap());
    let again = events(stage.ask(Method::GET, &path).send().await.unwrap(), |_| false).await.0;
    let strip = |events: &[Value]| -> Vec<Value> {
        let mut events = joined(events);
        for event in &mut events {
            event["response"]["model"] = Value::Null;
        }
        events
    };
    assert_eq!(strip(&again), strip(&all));
    for (at, event) in all.iter().enumerate() {
        let path = format!("{path}&starting_after={}", number(event));
        let rest = events(stage.ask(Method::GET, &path).send().await.unwrap(), |_| false).await.0;
        let both: Vec<Value> = all[..=at].iter().chain(&rest).cloned().collect();
        assert_eq!(strip(&both), strip(&all), "after {}", number(event));
    }
    assert_eq!(understudy.requests().len(), 1);
    stage.server.stop().await;
}

/// FB06, FB07: in the background, polled, cancelled twice, deleted.
#[tokio::test]
async fn a_response_goes_on_in_the_background_and_can_be_cancelled() {
    let slow = script((0..400).flat_map(|_| [text("word "), wait_ms(20)]).chain([stop(Stop::End)]));
    let understudy = plays([slow, says("Quick.")]);
    let stage = Stage::playing(&understudy).await;
    let mut body = asks("Write.");
    body["background"] = true.into();
    let (status, begun) = answer(stage.response(&body).send().await.unwrap()).await;
    assert_eq!((status, &begun["status"], &begun["background"]), (StatusCode::OK, &json!("in_progress"), &json!(true)));
    let path = format!("{RESPONSES}/{}", begun["id"].as_str().unwrap());
    for _ in 0..2 {
        let (status, cancelled) = stage.post(&format!("{path}/cancel"), json!({})).await;
        assert_eq!((status, &cancelled["status"]), (StatusCode::OK, &json!("cancelled")), "{cancelled}");
    }
    body["input"] = "Quick.".into();
    let quick = answer(stage.response(&body).send().await.unwrap()).await.1;
    let quick = format!("{RESPONSES}/{}", quick["id"].as_str().unwrap());
    loop {
        let (_, now) = stage.get(&quick).await;
        if now["status"] == "completed" {
            assert_eq!(now["output"][0]["content"][0]["text"], "Quick.");
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.send(Method::DELETE, &path, json!({})).await.1["deleted"], true);
    assert_eq!(stage.get(&path).await.0, StatusCode::NOT_FOUND);
    stage.server.stop().await;
}

/// FB08, FB17, FB18: a lost answer is told to the retry; a break is healed; a failure is `response.failed`; what is not
/// supported is refused by name.
#[tokio::test]
async fn a_response_is_healed_or_fails_by_name() {
    let understudy = plays([
        script([words("The kelp forest is a quiet"), cut()]),
        script([words(" place."), stop(Stop::End)]),
        script([text("Hello"), fail(ErrorKind::Auth, Cause::ErrorFinish)]),
    ]);
    let stage = Stage::playing(&understudy).await;
    let body = streamed(asks("Tell me."));
    let retried = |count: &'static str| stage.response(&body).header("x-stainless-retry-count", count);
    let (cut, _) = events(retried("0").send().await.unwrap(), |events| events.len() > 3).await;
    let (told, _) = events(retried("1").send().await.unwrap(), |_| false).await;
    assert_eq!(told[0]["response"]["id"], cut[0]["response"]["id"]);
    let last = &told.last().unwrap()["response"];
    assert_eq!(last["output"][0]["content"][0]["text"], "The kelp forest is a quiet place.");
    let (failed, is_broken) = events(stage.response(&streamed(asks("Fail."))).send().await.unwrap(), |_| false).await;
    let last = failed.last().unwrap();
    assert_eq!((&last["type"], is_broken), (&json!("response.failed"), false), "the protocol has an event for it");
    assert_eq!(last["response"]["error"]["code"], "server_error");
    for (change, field) in [
        (json!({"previous_response_id": "resp_1"}), "previous_response_id"),
        (json!({"conversation": "conv_1"}), "conversation"),
        (json!({"truncation": "auto"}), "truncation"),
        (json!({"input": []}), "input"),
        (json!({"input": [{"type": "hologram"}]}), "input[0]"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].name"),
        (json!({"text": {"format": {"type": "xml"}}}), "text.format.type"),
    ] {
        let mut body = asks("Hi.");
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let (status, told) = answer(stage.response(&body).send().await.unwrap()).await;
        assert_eq!((status, &told["error"]["param"]), (StatusCode::BAD_REQUEST, &json!(field)), "{change}: {told}");
    }
    stage.server.stop().await;
}
