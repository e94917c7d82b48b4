//! An answer in the words of OpenAI Responses.
//!
//! Each event has a number: one more than the last, and for a delta as many more as it has bytes. So the numbers depend on
//! what is told and not on how it was cut into deltas, and a client that has seen everything up to a number can be told the
//! rest by any server.

use std::collections::BTreeSet;

use axum::http::StatusCode;
use bytes::Bytes;
use everturn::core::chat::TurnFailure;
use everturn::core::cost::Usage;
use everturn::core::message::Seal;
use serde_json::{Map, Value, json};

use crate::fronts::Front;
use crate::fronts::gateway::answer::{AnswerEnd, AnswerPiece, ClientCall, EndReason, SealedBy};
use crate::fronts::gateway::collect::{AnswerBlock, WholeAnswer};
use crate::fronts::gateway::telling::{AfterFailure, AnswerProtocol};
use crate::fronts::gateway::{failure, seal};

/// The provider whose protocol this is.
const PROVIDER: &str = "openai";

/// What a response says about itself.
#[derive(Debug, Clone)]
pub(super) struct ResponseHead {
    pub id: String,
    /// Seconds since 1970.
    pub created_at: i64,
    /// The model, as the client named it.
    pub model: String,
    /// Tools of the client's that take free text.
    pub custom: BTreeSet<String>,
    pub is_background: bool,
}

/// Writes the events of a response.
#[derive(Debug)]
pub(super) struct ResponseWriter {
    head: ResponseHead,
    /// The number of the next event.
    next: u64,
    /// Events up to this number are not sent.
    seen: Option<u64>,
    output: Vec<Value>,
    open: Option<OpenItem>,
}

#[derive(Debug)]
struct OpenItem {
    text: String,
    is_text: bool,
    /// Whether it was announced. Thinking that says nothing is announced when it is over.
    is_told: bool,
}

impl ResponseWriter {
    pub(super) const fn new(head: ResponseHead, seen: Option<u64>) -> Self {
        Self { head, next: 0, seen, output: Vec::new(), open: None }
    }

    fn emit(&mut self, kind: &str, fields: Value, out: &mut Vec<u8>) {
        let number = self.next;
        self.next += 1;
        if self.seen.is_some_and(|seen| number <= seen) {
            return;
        }
        write(kind, number, fields, out);
    }

    /// A delta, or what of it was not seen.
    fn emit_delta(&mut self, kind: &str, mut fields: Value, delta: &str, out: &mut Vec<u8>) {
        let begin = self.next;
        self.next += delta.len() as u64;
        let last = self.next - 1;
        let skipped = match self.seen {
            Some(seen) if seen >= last => return,
            Some(seen) if seen >= begin => usize::try_from(seen + 1 - begin).unwrap_or(delta.len()),
            Some(_) | None => 0,
        };
        // A number within a letter was never told: the letter is told again rather than not at all.
        let from = (0..=skipped).rev().find(|at| delta.is_char_boundary(*at)).unwrap_or(0);
        fields["delta"] = delta[from..].into();
        write(kind, last, fields, out);
    }

    fn response(&self, status: &str, end: Option<&AnswerEnd>) -> Value {
        let ResponseHead { id, created_at, model, is_background, .. } = &self.head;
        let reason = match end.map(|end| &end.reason) {
            Some(EndReason::Length) => json!({"reason": "max_output_tokens"}),
            Some(EndReason::Filtered) => json!({"reason": "content_filter"}),
            _ => Value::Null,
        };
        json!({
            "id": id, "object": "response", "created_at": created_at, "status": status, "model": model,
            "output": self.output, "error": null, "incomplete_details": reason, "instructions": null, "metadata": {},
            "parallel_tool_calls": true, "temperature": null, "top_p": null, "tool_choice": "auto", "tools": [],
            "background": is_background, "usage": end.map(|end| usage(&end.usage)),
        })
    }

    fn item_id(&self, prefix: &str) -> String {
        let name = self.head.id.trim_start_matches(super::PREFIX);
        format!("{prefix}_{name}_{}", self.output.len())
    }

    fn piece(&mut self, piece: AnswerPiece, out: &mut Vec<u8>) {
        match piece {
            AnswerPiece::TextBegan => self.begin(true, out),
            AnswerPiece::ReasoningBegan => self.begin(false, out),
            AnswerPiece::Text(text) | AnswerPiece::Reasoning(text) => self.grow(&text, out),
            AnswerPiece::TextEnded => self.end_text(out),
            AnswerPiece::ReasoningEnded(sealed) => self.end_reasoning(sealed.as_ref(), out),
            AnswerPiece::Call(call) => self.call(&call, out),
        }
    }

    fn begin(&mut self, is_text: bool, out: &mut Vec<u8>) {
        self.open = Some(OpenItem { text: String::new(), is_text, is_told: false });
        if is_text {
            self.announce(out);
        }
    }

    /// Announces the open item and its only part.
    fn announce(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.as_mut().filter(|open| !open.is_told) else { return };
        open.is_told = true;
        let at = self.output.len();
        if open.is_text {
            let id = self.item_id("msg");
            let item =
                json!({"type": "message", "id": id, "status": "in_progress", "role": "assistant", "content": []});
            self.emit("response.output_item.added", json!({"output_index": at, "item": item}), out);
            let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
            let fields = json!({"item_id": id, "output_index": at, "content_index": 0, "part": part});
            self.emit("response.content_part.added", fields, out);
        } else {
            let id = self.item_id("rs");
            let item = json!({"type": "reasoning", "id": id, "summary": []});
            self.emit("response.output_item.added", json!({"output_index": at, "item": item}), out);
            let part = json!({"type": "summary_text", "text": ""});
            let fields = json!({"item_id": id, "output_index": at, "summary_index": 0, "part": part});
            self.emit("response.reasoning_summary_part.added", fields, out);
        }
    }

    fn grow(&mut self, text: &str, out: &mut Vec<u8>) {
        self.announce(out);
        let Some(open) = self.open.as_mut() else { return };
        open.text.push_str(text);
        let at = self.output.len();
        if open.is_text {
            let id = self.item_id("msg");
            let fields = json!({"item_id": id, "output_index": at, "content_index": 0, "logprobs": []});
            self.emit_delta("response.output_text.delta", fields, text, out);
        } else {
            let id = self.item_id("rs");
            let fields = json!({"item_id": id, "output_index": at, "summary_index": 0});
            self.emit_delta("response.reasoning_summary_text.delta", fields, text, out);
        }
    }

    fn end_text(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.take() else { return };
        let (at, id) = (self.output.len(), self.item_id("msg"));
        let place = json!({"item_id": id, "output_index": at, "content_index": 0});
        let done = with(&place, json!({"text": open.text, "logprobs": []}));
        self.emit("response.output_text.done", done, out);
        let part = json!({"type": "output_text", "text": open.text, "annotations": [], "logprobs": []});
        self.emit("response.content_part.done", with(&place, json!({"part": part})), out);
        let item = json!({"type": "message", "id": id, "status": "completed", "role": "assistant", "content": [part]});
        self.finish(item, out);
    }

    fn end_reasoning(&mut self, sealed: Option<&SealedBy>, out: &mut Vec<u8>) {
        let Some(open) = self.open.take() else { return };
        let (at, id) = (self.output.len(), self.item_id("rs"));
        let mut summary = Vec::new();
        if open.is_told {
            let place = json!({"item_id": id, "output_index": at, "summary_index": 0});
            let done = with(&place, json!({"text": open.text}));
            self.emit("response.reasoning_summary_text.done", done, out);
            let part = json!({"type": "summary_text", "text": open.text});
            self.emit("response.reasoning_summary_part.done", with(&place, json!({"part": part})), out);
            summary.push(part);
        } else {
            let item = json!({"type": "reasoning", "id": id, "summary": []});
            self.emit("response.output_item.added", json!({"output_index": at, "item": item}), out);
        }
        let mut item = json!({"type": "reasoning", "id": id, "summary": summary});
        if let Some(Seal::Signature(sealed) | Seal::Redacted(sealed)) = sealed.map(|by| seal::told(by, PROVIDER)) {
            item["encrypted_content"] = sealed.into();
        }
        self.finish(item, out);
    }

    fn call(&mut self, call: &ClientCall, out: &mut Vec<u8>) {
        let at = self.output.len();
        let ClientCall { id: call_id, tool, input } = call;
        if self.head.custom.contains(tool) {
            let input = free_text(input);
            let id = self.item_id("ctc");
            let item = json!({"type": "custom_tool_call", "id": id, "call_id": call_id, "name": tool, "input": ""});
            self.emit("response.output_item.added", json!({"output_index": at, "item": item}), out);
            let place = json!({"item_id": id, "output_index": at});
            self.emit_delta("response.custom_tool_call_input.delta", place.clone(), &input, out);
            self.emit("response.custom_tool_call_input.done", with(&place, json!({"input": input})), out);
            return self.finish(with(&item, json!({"input": input, "status": "completed"})), out);
        }
        let id = self.item_id("fc");
        let item = json!({
            "type": "function_call", "id": id, "call_id": call_id, "name": tool, "arguments": "", "status": "in_progress",
        });
        self.emit("response.output_item.added", json!({"output_index": at, "item": item}), out);
        let place = json!({"item_id": id, "output_index": at});
        self.emit_delta("response.function_call_arguments.delta", place.clone(), input, out);
        let done = with(&place, json!({"arguments": input, "name": tool}));
        self.emit("response.function_call_arguments.done", done, out);
        self.finish(with(&item, json!({"arguments": input, "status": "completed"})), out);
    }

    fn finish(&mut self, item: Value, out: &mut Vec<u8>) {
        let at = self.output.len();
        self.output.push(item.clone());
        self.emit("response.output_item.done", json!({"output_index": at, "item": item}), out);
    }

    /// The response as far as it goes, of an answer that is still being written.
    pub(super) fn so_far(&mut self, pieces: Vec<AnswerPiece>) -> Value {
        let mut unsent = Vec::new();
        pieces.into_iter().for_each(|piece| self.piece(piece, &mut unsent));
        self.response("in_progress", None)
    }

    fn failed_response(&self, failure: &TurnFailure) -> Value {
        let code = failure::words(failure).openai.1;
        let mut response = self.response("failed", None);
        response["error"] = json!({"code": code, "message": failure.message});
        response
    }
}

impl AnswerProtocol for ResponseWriter {
    const FRONT: Front = Front::OpenAi;
    const AFTER_FAILURE: AfterFailure = AfterFailure::End;

    fn id(&self) -> &str {
        &self.head.id
    }

    fn greeting(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for kind in ["response.created", "response.in_progress"] {
            self.emit(kind, json!({"response": self.response("in_progress", None)}), &mut out);
        }
        out
    }

    fn pieces(&mut self, pieces: Vec<AnswerPiece>) -> Vec<u8> {
        let mut out = Vec::new();
        pieces.into_iter().for_each(|piece| self.piece(piece, &mut out));
        out
    }

    fn end(&mut self, end: &AnswerEnd) -> Vec<u8> {
        let status = status(&end.reason);
        let (response, mut out) = (self.response(status, Some(end)), Vec::new());
        self.emit(&format!("response.{status}"), json!({"response": response}), &mut out);
        out
    }

    fn failed(&mut self, failure: &TurnFailure) -> Vec<u8> {
        let (response, mut out) = (self.failed_response(failure), Vec::new());
        self.emit("response.failed", json!({"response": response}), &mut out);
        out
    }

    fn whole(&mut self, answer: WholeAnswer) -> Value {
        let mut unsent = Vec::new();
        for block in answer.blocks {
            match block {
                AnswerBlock::Text(text) => {
                    self.begin(true, &mut unsent);
                    self.grow(&text, &mut unsent);
                    self.end_text(&mut unsent);
                }
                AnswerBlock::Reasoning(text, sealed) => {
                    self.begin(false, &mut unsent);
                    if !text.is_empty() {
                        self.grow(&text, &mut unsent);
                    }
                    self.end_reasoning(sealed.as_ref(), &mut unsent);
                }
                AnswerBlock::Call(call) => self.call(&call, &mut unsent),
            }
        }
        self.response(status(&answer.end.reason), Some(&answer.end))
    }

    fn refusal(&self, failure: &TurnFailure) -> (StatusCode, Value) {
        (failure::words(failure).status, super::super::chat::error_body(failure))
    }

    /// Codex takes comments for silence.
    fn keep_alive(&mut self) -> Bytes {
        let mut out = Vec::new();
        write("keepalive", self.next.saturating_sub(1), json!({}), &mut out);
        out.into()
    }
}

fn write(kind: &str, number: u64, fields: Value, out: &mut Vec<u8>) {
    let data = with(&json!({"type": kind, "sequence_number": number}), fields);
    out.extend_from_slice(format!("event: {kind}\ndata: {data}\n\n").as_bytes());
}

/// An object with more fields.
fn with(object: &Value, more: Value) -> Value {
    let mut fields = object.as_object().cloned().unwrap_or_default();
    fields.extend(match more {
        Value::Object(more) => more,
        _ => Map::new(),
    });
    fields.into()
}

/// The free text in the input of a tool that takes one.
fn free_text(input: &str) -> String {
    let read = serde_json::from_str::<Value>(input).ok();
    read.and_then(|read| read["input"].as_str().map(str::to_owned)).unwrap_or_else(|| input.to_owned())
}

const fn status(reason: &EndReason) -> &'static str {
    match reason {
        EndReason::Done | EndReason::Calls => "completed",
        EndReason::Length | EndReason::Filtered => "incomplete",
        EndReason::Failed(_) => "failed",
        EndReason::Stopped => "cancelled",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt(),
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total(),
    })
}
