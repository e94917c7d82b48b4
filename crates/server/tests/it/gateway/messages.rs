//! Anthropic's Messages.

use everturn::core::error::{Cause, ErrorKind};
use everturn::core::message::{Seal, Stop};
use everturn::core::prompt::{Effort, PromptPart, ToolChoice};
use everturn_understudy::{
    Script, call, cut, ended, fail, hang, reasoning, script, sealed, stop, text, usage, wait_ms, words,
};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::{MODEL, plays, says};
use crate::stage::{Stage, TOKEN, answer};

const MESSAGES: &str = "/anthropic/v1/messages?beta=true";

fn asks(words: &str) -> Value {
    json!({"model": MODEL, "max_tokens": 1000, "messages": [{"role": "user", "content": words}]})
}

impl Stage {
    fn message(&self, body: &Value) -> RequestBuilder {
        self.ask(Method::POST, MESSAGES).json(body)
    }
}

/// The message that the events of a stream add up to, as the official SDKs fold them.
#[derive(Debug, Default)]
struct Folded {
    message: Value,
    inputs: Vec<String>,
    is_over: bool,
    is_broken: bool,
    error: Option<Value>,
}

impl Folded {
    fn take(&mut self, kind: &str, data: &Value) {
        assert_eq!(data["type"], kind);
        let at = usize::try_from(data["index"].as_u64().unwrap_or_default()).unwrap();
        match kind {
            "message_start" => {
                assert!(self.message.is_null(), "one begin");
                self.message = data["message"].clone();
            }
            "content_block_start" => {
                let content = self.message["content"].as_array_mut().unwrap();
                assert_eq!(content.len(), at, "no gap");
                content.push(data["content_block"].clone());
                self.inputs.push(String::new());
            }
            "content_block_delta" => {
                let block = &mut self.message["content"][at];
                let delta = &data["delta"];
                let mut grow = |field: &str, from: &str| {
                    let grown = format!("{}{}", block[field].as_str().unwrap(), delta[from].as_str().unwrap());
                    block[field] = grown.into();
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => grow("text", "text"),
                    "thinking_delta" => grow("thinking", "thinking"),
                    "signature_delta" => grow("signature", "signature"),
                    "input_json_delta" => self.inputs[at].push_str(delta["partial_json"].as_str().unwrap()),
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => {
                if self.message["content"][at]["type"] == "tool_use" {
                    self.message["content"][at]["input"] = serde_json::from_str(&self.inputs[at]).unwrap();
                }
            }
            "message_delta" => {
                self.message["stop_reason"] = data["delta"]["stop_reason"].clone();
                self.message["usage"] = data["usage"].clone();
            }
            "message_stop" => self.is_over = true,
            "error" => self.error = Some(data["error"].clone()),
            "ping" => {}
            other => panic!("{other}"),
        }
    }

    fn text(&self) -> String {
        let blocks = self.message["content"].as_array().into_iter().flatten();
        blocks.filter_map(|block| block["text"].as_str()).collect()
    }
}

async fn fold(response: Response) -> Folded {
    fold_until(response, |_| false).await
}

async fn fold_until(mut response: Response, is_enough: impl Fn(&Folded) -> bool) -> Folded {
    let (mut folded, mut rest, mut kind) = (Folded::default(), Vec::new(), String::new());
    loop {
        match response.chunk().await {
            Ok(Some(bytes)) => rest.extend_from_slice(&bytes),
            Ok(None) => return folded,
            Err(_) => {
                folded.is_broken = true;
                return folded;
            }
        }
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let line = std::str::from_utf8(&line).unwrap().trim_end();
            if let Some(named) = line.strip_prefix("event: ") {
                kind = named.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                folded.take(&kind, &serde_json::from_str(data).unwrap());
            }
        }
        if is_enough(&folded) {
            return folded;
        }
    }
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = true.into();
    body
}

fn slowly(words: &str) -> Script {
    let told = words.split_inclusive(' ').flat_map(|word| [text(word), wait_ms(20)]);
    script(told.chain([stop(Stop::End)]))
}

/// FD01, FD08: thinking with its seal, text, a call and usage are the same as a stream and whole; what is sent back with the
/// results reaches the model as it came.
#[tokio::test]
async fn a_message_is_the_same_as_a_stream_and_whole_and_comes_back() {
    let played = || {
        script([
            reasoning("Let me see."),
            sealed("seal/of+it"),
            ended(),
            text("I look."),
            call("read_file", json!({"path": "a"})),
            usage(40, 9),
            stop(Stop::ToolUse),
        ])
    };
    let understudy = plays([played(), played(), says("Done.")]);
    let stage = Stage::playing(&understudy).await;
    let mut body = asks("Look.");
    body["system"] = json!([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]);
    body["tools"] = json!([{"name": "read_file", "description": "Reads.", "input_schema": {"type": "object"}}]);
    let (status, whole) = answer(stage.message(&body).send().await.unwrap()).await;
    assert_eq!(status, StatusCode::OK, "{whole}");
    let folded = fold(stage.message(&streamed(body.clone())).send().await.unwrap()).await;
    assert!(folded.is_over && !folded.is_broken);
    for field in ["content", "stop_reason", "usage", "model", "role", "type"] {
        assert_eq!(folded.message[field], whole[field], "{field}");
    }
    assert_eq!(whole["stop_reason"], "tool_use");
    assert_eq!(whole["content"][0]["thinking"], "Let me see.");
    assert_eq!(whole["content"][2]["input"], json!({"path": "a"}));
    assert_eq!((&whole["usage"]["input_tokens"], &whole["usage"]["output_tokens"]), (&json!(40), &json!(9)));
    // The next request of the loop, to another process for all that is known here.
    let id = &whole["content"][2]["id"];
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": whole["content"]}));
    messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "A", "is_error": false}]}));
    body["thinking"] = json!({"type": "enabled", "budget_tokens": 2000});
    body["tool_choice"] = json!({"type": "auto", "disable_parallel_tool_use": true});
    let (status, next) = answer(stage.message(&body).send().await.unwrap()).await;
    assert_eq!((status, &next["content"][0]["text"]), (StatusCode::OK, &json!("Done.")), "{next}");
    let asked = understudy.requests().pop().unwrap();
    assert_eq!(asked.system, ["Be brief."]);
    assert_eq!((asked.effort, asked.parallel_calls, asked.max_output), (Some(Effort::Low), Some(false), 1000));
    assert_eq!(asked.tool_choice, ToolChoice::Auto);
    let mut parts = asked.entries.iter().flat_map(|entry| &entry.parts);
    assert!(
        parts.any(|part| matches!(part, PromptPart::Reasoning(thought)
            if thought.seal == Seal::Signature("seal/of+it".into()) && thought.text == "Let me see.")),
        "{asked:?}"
    );
    stage.server.stop().await;
}

/// FD04, FD06: a request that was cut and asks again, also without a stream and with another limit, is told the generation
/// that was begun for it.
#[tokio::test]
async fn a_cut_request_attaches_to_its_generation() {
    let long = "one two three four five six seven eight nine ten";
    let understudy = plays([slowly(long)]);
    let stage = Stage::playing(&understudy).await;
    let ask = |body: &Value| stage.message(body).header("x-claude-code-session-id", "s");
    let body = streamed(asks("Count."));
    let cut = fold_until(ask(&body).send().await.unwrap(), |folded| folded.text().contains("two")).await;
    assert!(!cut.is_over);
    let mut fallback = asks("Count.");
    fallback["max_tokens"] = 2000.into();
    let whole = answer(ask(&fallback).send().await.unwrap()).await.1;
    assert_eq!((&whole["content"][0]["text"], &whole["id"]), (&json!(long), &cut.message["id"]));
    let again = fold(ask(&body).send().await.unwrap()).await;
    assert_eq!((again.text().as_str(), again.is_over), (long, true));
    assert_eq!(understudy.requests().len(), 1);
    stage.server.stop().await;
}

/// FD05, FD12: a break upstream is healed behind the stream; a failure, and a server that stops, are no clean end.
#[tokio::test]
async fn a_stream_ends_well_or_breaks() {
    let understudy = plays([
        script([words("The kelp forest is a quiet"), cut()]),
        script([words(" place."), stop(Stop::End)]),
        script([text("Hello"), fail(ErrorKind::Auth, Cause::ErrorFinish)]),
        script([text("Hel"), hang()]),
    ]);
    let stage = Stage::playing(&understudy).await;
    let healed = fold(stage.message(&streamed(asks("Tell me."))).send().await.unwrap()).await;
    assert_eq!((healed.text().as_str(), healed.is_over), ("The kelp forest is a quiet place.", true));
    assert_eq!(healed.message["stop_reason"], "end_turn");
    let failed = fold(stage.message(&streamed(asks("Fail."))).send().await.unwrap()).await;
    assert_eq!((failed.text().as_str(), failed.is_over, failed.is_broken), ("Hello", false, true));
    assert_eq!(failed.error.unwrap()["type"], "api_error");
    let response = stage.message(&streamed(asks("Wait."))).send().await.unwrap();
    let stopping = tokio::spawn(async move { stage.server.stop().await });
    let broken = fold(response).await;
    assert!(broken.is_broken && !broken.is_over, "{broken:?}");
    stopping.await.unwrap();
}

/// FD10, FD11: tokens are counted, models listed, an API key is a token; errors come in the envelope.
#[tokio::test]
async fn what_belongs_to_messages_is_there() {
    let understudy = plays([script([text("never")])]);
    let stage = Stage::playing(&understudy).await;
    let mut body = asks("How many?");
    body.as_object_mut().unwrap().remove("max_tokens");
    let count =
        stage.client.post(format!("{}/anthropic/v1/messages/count_tokens", stage.base)).header("x-api-key", TOKEN);
    let (status, counted) = answer(count.json(&body).send().await.unwrap()).await;
    assert!(status == StatusCode::OK && counted["input_tokens"].as_u64().unwrap() > 3, "{counted}");
    let (status, models) = stage.get("/anthropic/v1/models").await;
    assert_eq!(
        (status, &models["has_more"], &models["data"][0]["type"]),
        (StatusCode::OK, &json!(false), &json!("model"))
    );
    for (change, field) in [
        (json!({"max_tokens": null}), "max_tokens"),
        (json!({"mcp_servers": [{"url": "x"}]}), "mcp_servers"),
        (json!({"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}), "messages[0]"),
        (json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}), "messages"),
        (json!({"thinking": {"type": "maybe"}}), "thinking"),
        (json!({"tools": [{"name": "x"}]}), "tools[0].input_schema"),
    ] {
        let mut body = asks("Hi.");
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let (status, told) = answer(stage.message(&body).send().await.unwrap()).await;
        assert_eq!(
            (status, &told["error"]["type"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_request_error")),
            "{told}"
        );
        assert!(told["error"]["message"].as_str().unwrap().contains(field), "{field}: {told}");
    }
    assert!(understudy.requests().is_empty());
    stage.server.stop().await;
}
