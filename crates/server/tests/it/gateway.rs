//! The gateway: clients that keep their conversation themselves.

mod chat;
mod messages;
mod repeats;
mod responses;

use everturn::core::message::Stop;
use everturn_understudy::{Script, Understudy, script, stop, text, usage};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::stage::Stage;

/// The model that tests name.
pub const MODEL: &str = "understudy/persona";
pub const COMPLETIONS: &str = "/openai/v1/chat/completions";

/// An answer of one text.
pub fn says(words: &str) -> Script {
    script([text(words), usage(12, 3), stop(Stop::End)])
}

/// A provider that plays these.
pub fn plays(scripts: impl IntoIterator<Item = Script>) -> Understudy {
    Understudy::new(scripts)
}

/// A request for a chat completion with one message.
pub fn asks(words: &str) -> Value {
    json!({"model": MODEL, "messages": [{"role": "user", "content": words}]})
}

pub fn streamed(mut body: Value) -> Value {
    body["stream"] = true.into();
    body
}

impl Stage {
    pub fn completion(&self, body: &Value) -> RequestBuilder {
        self.ask(Method::POST, COMPLETIONS).json(body)
    }
}

/// What a client of a stream has read.
#[derive(Debug, Default)]
pub struct Heard {
    pub chunks: Vec<Value>,
    pub is_done: bool,
    /// Whether the connection broke.
    pub is_broken: bool,
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<Value>,
    pub finish: Option<String>,
    pub error: Option<Value>,
}

impl Heard {
    fn take(&mut self, line: &str) {
        let Some(data) = line.strip_prefix("data: ") else {
            assert!(line.is_empty() || line.starts_with(':'), "no line of this protocol: {line}");
            return;
        };
        if data == "[DONE]" {
            self.is_done = true;
            return;
        }
        let chunk: Value = serde_json::from_str(data).unwrap();
        if chunk["error"].is_object() {
            self.error = Some(chunk["error"].clone());
            return;
        }
        let choice = &chunk["choices"][0];
        self.text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        self.reasoning.push_str(choice["delta"]["reasoning_content"].as_str().unwrap_or_default());
        self.calls.extend(choice["delta"]["tool_calls"].as_array().into_iter().flatten().cloned());
        self.finish = choice["finish_reason"].as_str().map(str::to_owned).or(self.finish.take());
        self.chunks.push(chunk);
    }

    pub fn id(&self) -> &str {
        self.chunks[0]["id"].as_str().unwrap()
    }
}

/// Reads a stream to its end.
pub async fn hear(response: Response) -> Heard {
    hear_until(response, |_| false).await
}

/// Reads a stream until something is heard, and drops the connection then.
pub async fn hear_until(mut response: Response, is_enough: impl Fn(&Heard) -> bool) -> Heard {
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let (mut heard, mut rest) = (Heard::default(), Vec::new());
    loop {
        match response.chunk().await {
            Ok(Some(bytes)) => rest.extend_from_slice(&bytes),
            Ok(None) => return heard,
            Err(_) => {
                heard.is_broken = true;
                return heard;
            }
        }
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            heard.take(std::str::from_utf8(&line).unwrap().trim_end());
        }
        if is_enough(&heard) {
            return heard;
        }
    }
}
