//! An answer in the words of Anthropic's Messages: events of a stream, or one message.

use axum::http::StatusCode;
use bytes::Bytes;
use everturn::core::chat::TurnFailure;
use everturn::core::cost::Usage;
use everturn::core::message::Seal;
use serde_json::{Value, json};

use crate::fronts::Front;
use crate::fronts::gateway::answer::{AnswerEnd, AnswerPiece, ClientCall, EndReason, SealedBy};
use crate::fronts::gateway::collect::{AnswerBlock, WholeAnswer};
use crate::fronts::gateway::failure;
use crate::fronts::gateway::seal;
use crate::fronts::gateway::telling::AnswerProtocol;

/// The provider whose protocol this is.
const PROVIDER: &str = "anthropic";

/// Writes the events of a stream.
#[derive(Debug)]
pub(super) struct EventWriter {
    id: String,
    /// The model, as the client named it.
    model: String,
    /// Blocks so far, the open one included.
    blocks: usize,
    /// Whether thinking has begun and nothing was told of it yet.
    is_silent: bool,
}

impl EventWriter {
    pub(super) const fn new(id: String, model: String) -> Self {
        Self { id, model, blocks: 0, is_silent: false }
    }

    fn message(&self, content: Value, stop_reason: Value, used: &Usage) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": stop_reason, "stop_sequence": null, "usage": usage(used),
        })
    }

    fn piece(&mut self, piece: AnswerPiece, out: &mut Vec<u8>) {
        match piece {
            AnswerPiece::TextBegan => self.start(&json!({"type": "text", "text": ""}), out),
            AnswerPiece::Text(text) => self.delta(&json!({"type": "text_delta", "text": text}), out),
            AnswerPiece::TextEnded => self.stop(out),
            AnswerPiece::ReasoningBegan => self.is_silent = true,
            AnswerPiece::Reasoning(text) => {
                self.think(out);
                self.delta(&json!({"type": "thinking_delta", "thinking": text}), out);
            }
            AnswerPiece::ReasoningEnded(sealed) => self.thought(sealed.as_ref(), out),
            AnswerPiece::Call(ClientCall { id, tool, input }) => {
                self.start(&json!({"type": "tool_use", "id": id, "name": tool, "input": {}}), out);
                self.delta(&json!({"type": "input_json_delta", "partial_json": input}), out);
                self.stop(out);
            }
        }
    }

    fn think(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.is_silent) {
            self.start(&json!({"type": "thinking", "thinking": "", "signature": ""}), out);
        }
    }

    fn thought(&mut self, sealed: Option<&SealedBy>, out: &mut Vec<u8>) {
        match sealed.map(|sealed| seal::told(sealed, PROVIDER)) {
            Some(Seal::Redacted(data)) if self.is_silent => {
                self.is_silent = false;
                self.start(&json!({"type": "redacted_thinking", "data": data}), out);
            }
            Some(Seal::Signature(signature) | Seal::Redacted(signature)) => {
                self.think(out);
                self.delta(&json!({"type": "signature_delta", "signature": signature}), out);
            }
            None if std::mem::take(&mut self.is_silent) => return,
            None => {}
        }
        self.stop(out);
    }

    fn start(&mut self, block: &Value, out: &mut Vec<u8>) {
        event("content_block_start", &json!({"index": self.blocks, "content_block": block}), out);
        self.blocks += 1;
    }

    fn delta(&self, delta: &Value, out: &mut Vec<u8>) {
        event("content_block_delta", &json!({"index": self.blocks.saturating_sub(1), "delta": delta}), out);
    }

    fn stop(&self, out: &mut Vec<u8>) {
        event("content_block_stop", &json!({"index": self.blocks.saturating_sub(1)}), out);
    }
}

impl AnswerProtocol for EventWriter {
    const FRONT: Front = Front::Anthropic;

    fn id(&self) -> &str {
        &self.id
    }

    fn greeting(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut message = self.message(json!([]), Value::Null, &Usage::default());
        message["usage"]["output_tokens"] = 1.into();
        event("message_start", &json!({"message": message}), &mut out);
        out
    }

    fn pieces(&mut self, pieces: Vec<AnswerPiece>) -> Vec<u8> {
        let mut out = Vec::new();
        pieces.into_iter().for_each(|piece| self.piece(piece, &mut out));
        out
    }

    fn end(&mut self, end: &AnswerEnd) -> Vec<u8> {
        let mut out = Vec::new();
        let delta = json!({"stop_reason": stop_reason(&end.reason), "stop_sequence": null});
        event("message_delta", &json!({"delta": delta, "usage": usage(&end.usage)}), &mut out);
        event("message_stop", &json!({}), &mut out);
        out
    }

    /// An event with the error. The connection breaks behind it.
    fn failed(&mut self, failure: &TurnFailure) -> Vec<u8> {
        let mut out = Vec::new();
        event("error", &error_body(failure), &mut out);
        out
    }

    fn whole(&mut self, answer: WholeAnswer) -> Value {
        let content = answer.blocks.iter().filter_map(block).collect();
        self.message(content, stop_reason(&answer.end.reason).into(), &answer.end.usage)
    }

    fn refusal(&self, failure: &TurnFailure) -> (StatusCode, Value) {
        let words = failure::words(failure);
        let overloaded = words.anthropic == "overloaded_error";
        let status = if overloaded { StatusCode::from_u16(529).unwrap_or(words.status) } else { words.status };
        (status, error_body(failure))
    }

    fn keep_alive(&mut self) -> Bytes {
        Bytes::from_static(b"event: ping\ndata: {\"type\": \"ping\"}\n\n")
    }
}

fn event(kind: &str, fields: &Value, out: &mut Vec<u8>) {
    let mut data = json!({"type": kind});
    if let (Value::Object(data), Value::Object(fields)) = (&mut data, fields) {
        data.extend(fields.clone());
    }
    out.extend_from_slice(format!("event: {kind}\ndata: {data}\n\n").as_bytes());
}

fn error_body(failure: &TurnFailure) -> Value {
    json!({"type": "error", "error": {"type": failure::words(failure).anthropic, "message": failure.message}})
}

fn block(block: &AnswerBlock) -> Option<Value> {
    match block {
        AnswerBlock::Text(text) => Some(json!({"type": "text", "text": text})),
        AnswerBlock::Call(ClientCall { id, tool, input }) => {
            let input: Value = serde_json::from_str(input).unwrap_or_else(|_| json!({}));
            Some(json!({"type": "tool_use", "id": id, "name": tool, "input": input}))
        }
        AnswerBlock::Reasoning(text, sealed) => match sealed.as_ref().map(|sealed| seal::told(sealed, PROVIDER)) {
            Some(Seal::Redacted(data)) if text.is_empty() => Some(json!({"type": "redacted_thinking", "data": data})),
            Some(Seal::Signature(seal) | Seal::Redacted(seal)) => {
                Some(json!({"type": "thinking", "thinking": text, "signature": seal}))
            }
            None if text.is_empty() => None,
            None => Some(json!({"type": "thinking", "thinking": text, "signature": ""})),
        },
    }
}

const fn stop_reason(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Done | EndReason::Failed(_) | EndReason::Stopped => "end_turn",
        EndReason::Calls => "tool_use",
        EndReason::Length => "max_tokens",
        EndReason::Filtered => "refusal",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    })
}
