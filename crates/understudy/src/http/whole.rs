//! An answer in one piece, for requests without streaming: its own events, folded.

use everturn_core::prompt::WireFormat;
use serde_json::{Value, json};

use super::act::Act;
use super::wire::WireRefusal;

/// The whole answer of these acts.
///
/// # Errors
/// If the answer breaks before its end: then there is nothing to tell but that.
pub(super) async fn answer(wire: WireFormat, acts: Vec<Act>) -> Result<Value, WireRefusal> {
    let mut events = Vec::new();
    for act in acts {
        match act {
            Act::Frame(bytes) => events.extend(data(&bytes)),
            Act::Said(_) => {}
            Act::Wait(time) => tokio::time::sleep(time).await,
            Act::Hang => std::future::pending().await,
            Act::End => break,
            Act::Break(_) | Act::Once(_) => return Err(WireRefusal::new(500, "Internal server error")),
        }
    }
    let whole = match wire {
        WireFormat::Anthropic => anthropic(&events),
        WireFormat::OpenAiResponses => events.last().and_then(|last| last.get("response")).cloned(),
        WireFormat::OpenAiChat => chat(&events),
        WireFormat::Gemini => gemini(&events),
    };
    whole.ok_or_else(|| WireRefusal::new(500, "Internal server error"))
}

fn data(bytes: &[u8]) -> Option<Value> {
    let text = str::from_utf8(bytes).ok()?;
    serde_json::from_str(text.lines().find_map(|line| line.strip_prefix("data: "))?).ok()
}

fn append(place: &mut Value, more: &Value) {
    let joined = format!("{}{}", place.as_str().unwrap_or_default(), more.as_str().unwrap_or_default());
    *place = joined.into();
}

fn anthropic(events: &[Value]) -> Option<Value> {
    let mut message = events.first()?.get("message")?.clone();
    let mut blocks: Vec<Value> = Vec::new();
    for event in events {
        let index = event["index"].as_u64().unwrap_or_default() as usize;
        let delta = &event["delta"];
        match (event["type"].as_str()?, blocks.get_mut(index)) {
            ("content_block_start", _) => blocks.push(event["content_block"].clone()),
            ("content_block_delta", Some(block)) => match delta["type"].as_str()? {
                "text_delta" => append(&mut block["text"], &delta["text"]),
                "thinking_delta" => append(&mut block["thinking"], &delta["thinking"]),
                "signature_delta" => append(&mut block["signature"], &delta["signature"]),
                "input_json_delta" => append(&mut block["partial"], &delta["partial_json"]),
                "citations_delta" => {
                    let mut all = block["citations"].as_array().cloned().unwrap_or_default();
                    all.push(delta["citation"].clone());
                    block["citations"] = all.into();
                }
                _ => {}
            },
            ("content_block_stop", Some(block)) => {
                let partial = block.as_object_mut().and_then(|block| block.remove("partial"));
                if let Some(partial) = partial.as_ref().and_then(Value::as_str) {
                    block["input"] = serde_json::from_str(partial).unwrap_or_else(|_| json!({}));
                }
            }
            ("message_delta", _) => {
                message["stop_reason"] = delta["stop_reason"].clone();
                message["usage"] = event["usage"].clone();
            }
            ("error", _) => return None,
            _ => {}
        }
    }
    message["content"] = blocks.into();
    (!message["stop_reason"].is_null()).then_some(message)
}

fn chat(events: &[Value]) -> Option<Value> {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    let mut calls: Vec<Value> = Vec::new();
    let (mut reason, mut usage) = (Value::Null, Value::Null);
    for event in events {
        let choice = &event["choices"][0];
        for key in ["content", "reasoning_content"] {
            if choice["delta"][key].as_str().is_some_and(|text| !text.is_empty()) {
                append(&mut message[key], &choice["delta"][key]);
            }
        }
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().unwrap_or_default() as usize;
            match calls.get_mut(index) {
                Some(own) => append(&mut own["function"]["arguments"], &call["function"]["arguments"]),
                None => calls.push(json!({"id": call["id"], "type": "function", "function": call["function"]})),
            }
        }
        if !choice["finish_reason"].is_null() {
            reason = choice["finish_reason"].clone();
        }
        if event["usage"].is_object() {
            usage = event["usage"].clone();
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let first = events.first()?;
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": reason});
    (!reason.is_null()).then(|| {
        json!({
            "id": first["id"], "object": "chat.completion", "created": first["created"], "model": first["model"],
            "choices": [choice], "usage": usage,
        })
    })
}

fn gemini(events: &[Value]) -> Option<Value> {
    let mut whole = events.last()?.clone();
    let all =
        events.iter().flat_map(|event| event["candidates"][0]["content"]["parts"].as_array().into_iter().flatten());
    let mut parts: Vec<Value> = Vec::new();
    for part in all {
        let is_plain = |part: &Value| part.as_object().is_some_and(|part| part.len() == 1) && part["text"].is_string();
        match parts.last_mut().filter(|last| is_plain(last) && is_plain(part)) {
            Some(last) => append(&mut last["text"], &part["text"]),
            None => parts.push(part.clone()),
        }
    }
    let candidate = whole["candidates"].get_mut(0)?;
    candidate["content"]["parts"] = parts.into();
    (!candidate["finishReason"].is_null()).then_some(whole)
}
