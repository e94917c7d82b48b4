//! An answer in the words of Chat Completions: chunks of a stream, or one completion.

use axum::http::StatusCode;
use everturn::core::chat::TurnFailure;
use everturn::core::cost::Usage;
use serde_json::{Value, json};

use crate::fronts::Front;
use crate::fronts::gateway::answer::{AnswerEnd, AnswerPiece, ClientCall, EndReason};
use crate::fronts::gateway::collect::{AnswerBlock, WholeAnswer};
use crate::fronts::gateway::telling::AnswerProtocol;
use crate::fronts::gateway::{Generation, failure, name_of};

/// What all chunks of a stream have in common.
#[derive(Debug, Clone)]
pub(super) struct Heading {
    pub id: String,
    /// Seconds since 1970.
    pub created: i64,
    /// The model, as the client named it.
    pub model: String,
}

impl Heading {
    /// Of this generation, under the model's name that the client used.
    pub(super) fn of(generation: &Generation, model: String) -> Self {
        Self { id: name_of(super::PREFIX, generation), created: generation.created.0 / 1000, model }
    }
}

/// Writes the chunks of a stream.
#[derive(Debug)]
pub(super) struct ChunkWriter {
    heading: Heading,
    includes_usage: bool,
    has_text: bool,
    calls: usize,
}

impl ChunkWriter {
    pub(super) const fn new(heading: Heading, includes_usage: bool) -> Self {
        Self { heading, includes_usage, has_text: false, calls: 0 }
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>, out: &mut Vec<u8>) {
        let mut chunk = self.bare();
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish_reason}]);
        line(&chunk, out);
    }

    fn bare(&self) -> Value {
        let Heading { id, created, model } = &self.heading;
        json!({"id": id, "object": "chat.completion.chunk", "created": created, "model": model})
    }
}

impl AnswerProtocol for ChunkWriter {
    const FRONT: Front = Front::OpenAi;

    fn id(&self) -> &str {
        &self.heading.id
    }

    /// Helpers of SDKs want a role before anything else.
    fn greeting(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.chunk(&json!({"role": "assistant", "content": ""}), None, &mut out);
        out
    }

    fn pieces(&mut self, pieces: Vec<AnswerPiece>) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in pieces {
            let delta = match piece {
                AnswerPiece::Text(text) => json!({"content": text}),
                AnswerPiece::Reasoning(text) => json!({"reasoning_content": text}),
                AnswerPiece::TextBegan if self.has_text => json!({"content": "\n\n"}),
                AnswerPiece::Call(call) => {
                    let mut delta = called(&call);
                    delta["index"] = self.calls.into();
                    self.calls += 1;
                    json!({"tool_calls": [delta]})
                }
                AnswerPiece::TextBegan
                | AnswerPiece::TextEnded
                | AnswerPiece::ReasoningBegan
                | AnswerPiece::ReasoningEnded(_) => {
                    self.has_text |= piece == AnswerPiece::TextEnded;
                    continue;
                }
            };
            self.chunk(&delta, None, &mut out);
        }
        out
    }

    fn end(&mut self, end: &AnswerEnd) -> Vec<u8> {
        let mut out = Vec::new();
        self.chunk(&json!({}), Some(finish_reason(&end.reason)), &mut out);
        if self.includes_usage {
            let mut chunk = self.bare();
            chunk["choices"] = json!([]);
            chunk["usage"] = usage(&end.usage);
            line(&chunk, &mut out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
        out
    }

    /// A line with the error. The connection breaks behind it.
    fn failed(&mut self, failure: &TurnFailure) -> Vec<u8> {
        let mut out = Vec::new();
        line(&error_body(failure), &mut out);
        out
    }

    fn whole(&mut self, answer: WholeAnswer) -> Value {
        completion(&self.heading, &answer)
    }

    fn refusal(&self, failure: &TurnFailure) -> (StatusCode, Value) {
        (failure::words(failure).status, error_body(failure))
    }
}

fn line(value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(value.to_string().as_bytes());
    out.extend_from_slice(b"\n\n");
}

/// The body of an error.
pub(crate) fn error_body(failure: &TurnFailure) -> Value {
    let (kind, code) = failure::words(failure).openai;
    json!({"error": {"message": failure.message, "type": kind, "code": code, "param": null}})
}

/// A whole completion.
fn completion(heading: &Heading, answer: &WholeAnswer) -> Value {
    let Heading { id, created, model } = heading;
    let thoughts: Vec<&str> = answer.blocks.iter().filter_map(thought).collect();
    let mut message = json!({"role": "assistant", "content": answer.text(), "refusal": null});
    if !thoughts.is_empty() {
        message["reasoning_content"] = thoughts.join("\n\n").into();
    }
    let calls: Vec<Value> = answer.calls().map(called).collect();
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let finish_reason = finish_reason(&answer.end.reason);
    json!({
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason}],
        "usage": usage(&answer.end.usage),
    })
}

fn thought(block: &AnswerBlock) -> Option<&str> {
    match block {
        AnswerBlock::Reasoning(text, _) if !text.is_empty() => Some(text),
        AnswerBlock::Reasoning(..) | AnswerBlock::Text(_) | AnswerBlock::Call(_) => None,
    }
}

fn called(call: &ClientCall) -> Value {
    let ClientCall { id, tool, input } = call;
    json!({"id": id, "type": "function", "function": {"name": tool, "arguments": input}})
}

const fn finish_reason(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Done | EndReason::Failed(_) | EndReason::Stopped => "stop",
        EndReason::Calls => "tool_calls",
        EndReason::Length => "length",
        EndReason::Filtered => "content_filter",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt(),
        "completion_tokens": usage.output,
        "total_tokens": usage.total(),
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}
