//! A client of the AI SDK, as far as tests need one.

use std::ops::{Deref, DerefMut};

use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use super::fold::Folded;

/// A stream of chunks, and what they fold to.
pub struct Ui {
    response: Response,
    rest: String,
    pub chunks: Vec<Value>,
    folded: Folded,
    pub is_done: bool,
}

impl Deref for Ui {
    type Target = Folded;

    fn deref(&self) -> &Folded {
        &self.folded
    }
}

impl DerefMut for Ui {
    fn deref_mut(&mut self) -> &mut Folded {
        &mut self.folded
    }
}

/// How reading ended.
#[derive(Debug, PartialEq)]
pub enum Read {
    Chunk,
    Clean,
    Broken,
}

impl Ui {
    pub async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        let status = response.status();
        if status != StatusCode::OK {
            panic!("{status}: {}", response.text().await.unwrap());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-vercel-ai-ui-message-stream"], "v1");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { response, rest: String::new(), chunks: Vec::new(), folded: Folded::default(), is_done: false }
    }

    /// Begins with a message that the client has already.
    pub fn on(mut self, message: &Value) -> Self {
        self.parts = message["parts"].as_array().unwrap().clone();
        self
    }

    pub async fn next(&mut self) -> Read {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.rest = rest;
                match event.strip_prefix("data: ") {
                    Some("[DONE]") => self.is_done = true,
                    Some(data) => {
                        let chunk: Value = serde_json::from_str(data).unwrap();
                        assert!(!self.is_done && self.finish.is_none(), "{chunk} behind the end");
                        self.fold(&chunk);
                        self.chunks.push(chunk);
                        return Read::Chunk;
                    }
                    None => assert!(event.starts_with(": "), "{event}"),
                }
                continue;
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.rest.push_str(str::from_utf8(&bytes).unwrap()),
                Ok(None) => return Read::Clean,
                Err(_) => return Read::Broken,
            }
        }
    }

    /// Reads to the protocol's end.
    pub async fn whole(mut self) -> Self {
        while self.next().await == Read::Chunk {}
        assert!(self.is_done, "it ended without [DONE]: {:?}", self.chunks.last());
        self
    }

    /// Reads to the end, and returns how it came.
    pub async fn rest(&mut self) -> Read {
        loop {
            match self.next().await {
                Read::Chunk => {}
                end => {
                    assert_eq!(end == Read::Clean, self.is_done, "only [DONE] ends a stream");
                    return end;
                }
            }
        }
    }

    /// Reads until a chunk of this type, that one included.
    pub async fn until(&mut self, kind: &str) {
        while self.chunks.last().is_none_or(|chunk| chunk["type"] != kind) {
            assert_eq!(self.next().await, Read::Chunk, "no {kind}: {:?}", self.chunks.last());
        }
    }

    pub fn message(&self) -> Value {
        json!({"id": self.id, "role": "assistant", "parts": self.parts})
    }

    pub fn text(&self) -> String {
        text_of(&self.message())
    }
}

/// All text of a message.
pub fn text_of(message: &Value) -> String {
    let parts = message["parts"].as_array().unwrap();
    parts.iter().filter(|part| part["type"] == "text").map(|part| part["text"].as_str().unwrap()).collect()
}

/// A user message.
pub fn user(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]})
}
