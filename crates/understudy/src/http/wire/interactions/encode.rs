//! An answer as Interactions stream it: steps that begin, grow and stop, each event under an id.

use everturn_core::blob::Blob;
use everturn_core::cost::{TokenCount, UsageReport};
use everturn_core::delta::{CallBegan, Delta};
use everturn_core::error::{Cause, ProviderError};
use everturn_core::message::{RunBy, Seal, Stop};
use serde_json::{Value, json};

use super::super::{base64, id_or};
use super::event_id;
use crate::http::act::{AnswerHeader, Encode};
use crate::http::sse;

pub(crate) struct InteractionsEncoder {
    opening: AnswerHeader,
    /// The number of the last event.
    events: u64,
    /// How many steps have begun.
    steps: usize,
    /// The step that words go into.
    open: Option<(Kind, usize)>,
    calls: Vec<Called>,
    report: UsageReport,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Thought,
    Output,
}

struct Called {
    call: CallBegan,
    index: usize,
    /// What one of Google's own tools is asked, which comes whole.
    arguments: String,
}

impl InteractionsEncoder {
    pub(crate) fn new(opening: AnswerHeader) -> Self {
        let report = opening.report;
        Self { opening, events: 0, steps: 0, open: None, calls: Vec::new(), report }
    }

    fn event(&mut self, kind: &str, mut data: Value, out: &mut Vec<String>) {
        self.events += 1;
        data["event_type"] = kind.into();
        data["event_id"] = event_id(self.events).into();
        out.push(format!("event: {kind}\n{}", sse::plain(&data)));
    }

    fn interaction(&self, status: &str) -> Value {
        json!({"id": self.opening.id, "status": status, "object": "interaction", "model": self.opening.model})
    }

    fn usage(&self) -> Value {
        let known = |count: TokenCount| count.known().unwrap_or(0);
        let (cached, thoughts) = (known(self.report.cache_read), known(self.report.reasoning));
        let (input, output) = (known(self.report.input) + cached, known(self.report.output).saturating_sub(thoughts));
        json!({
            "total_input_tokens": input, "total_cached_tokens": cached, "total_output_tokens": output,
            "total_thought_tokens": thoughts, "total_tool_use_tokens": 0, "total_tokens": input + output + thoughts,
            "input_tokens_by_modality": [{"modality": "text", "tokens": input}],
        })
    }

    fn begin_step(&mut self, step: Value, out: &mut Vec<String>) -> usize {
        let index = self.steps;
        self.steps += 1;
        self.event("step.start", json!({"index": index, "step": step}), out);
        index
    }

    fn grow(&mut self, index: usize, delta: Value, out: &mut Vec<String>) {
        self.event("step.delta", json!({"index": index, "delta": delta}), out);
    }

    fn end_step(&mut self, index: usize, out: &mut Vec<String>) {
        self.event("step.stop", json!({"index": index}), out);
    }

    fn close(&mut self, out: &mut Vec<String>) {
        if let Some((_, index)) = self.open.take() {
            self.end_step(index, out);
        }
    }

    /// The step for words of this kind: the one under way, or a new one.
    fn step(&mut self, kind: Kind, out: &mut Vec<String>) -> usize {
        match self.open {
            Some((own, index)) if own == kind => index,
            _ => {
                self.close(out);
                let name = if kind == Kind::Thought { "thought" } else { "model_output" };
                let index = self.begin_step(json!({"type": name}), out);
                self.open = Some((kind, index));
                index
            }
        }
    }

    fn begin_call(&mut self, call: &CallBegan, out: &mut Vec<String>) {
        self.close(out);
        let id = id_or(&call.provider_id, "call", self.steps as u64);
        let step = match call.run_by {
            RunBy::Us => json!({"type": "function_call", "id": id, "name": call.tool, "arguments": {}}),
            RunBy::Provider => json!({"type": "google_search_call", "id": id, "arguments": {}}),
        };
        let index = self.begin_step(step, out);
        self.calls.push(Called { call: call.clone(), index, arguments: String::new() });
    }

    fn input(&mut self, slot: u32, json: &str, out: &mut Vec<String>) {
        let Some(called) = self.calls.iter_mut().rfind(|called| called.call.slot == slot) else {
            // Input for a call that never began: a step that was not announced.
            return self.grow(slot as usize, json!({"type": "arguments_delta", "arguments": json}), out);
        };
        if called.call.run_by == RunBy::Provider {
            called.arguments.push_str(json);
            return;
        }
        let index = called.index;
        self.grow(index, json!({"type": "arguments_delta", "arguments": json}), out);
    }

    fn end_call(&mut self, slot: u32, out: &mut Vec<String>) {
        let Some(called) = self.calls.iter().rfind(|called| called.call.slot == slot) else { return };
        let (index, run_by) = (called.index, called.call.run_by);
        if run_by == RunBy::Provider {
            let asked: Value = serde_json::from_str(&called.arguments).unwrap_or_default();
            let queries: Vec<_> = asked.get("query").or_else(|| asked.get("q")).into_iter().collect();
            let delta = json!({"type": "google_search_call", "arguments": {"queries": queries}});
            self.grow(index, delta, out);
        }
        self.end_step(index, out);
    }

    /// What one of Google's own tools found.
    fn found(&mut self, output: &Value, out: &mut Vec<String>) {
        self.close(out);
        let hosted = self.calls.iter().rfind(|called| called.call.run_by == RunBy::Provider);
        let id = hosted.map(|called| id_or(&called.call.provider_id, "call", called.index as u64)).unwrap_or_default();
        let index = self.begin_step(json!({"type": "google_search_result", "call_id": id}), out);
        self.grow(index, json!({"type": "google_search_result", "result": output}), out);
        self.end_step(index, out);
    }

    /// The last event and the end marker, in one piece: nothing may come between them.
    fn complete(&mut self, status: &str, out: &mut Vec<String>) {
        let mut interaction = self.interaction(status);
        interaction["usage"] = self.usage();
        let mut last = Vec::new();
        self.event("interaction.completed", json!({"interaction": interaction}), &mut last);
        out.push(last.concat() + "event: done\ndata: [DONE]\n\n");
    }
}

impl Encode for InteractionsEncoder {
    fn begin(&mut self, out: &mut Vec<String>) {
        let interaction = self.interaction("in_progress");
        self.event("interaction.created", json!({"interaction": interaction}), out);
    }

    fn say(&mut self, said: &Delta, out: &mut Vec<String>) {
        match said {
            Delta::Text(text) => {
                let index = self.step(Kind::Output, out);
                self.grow(index, json!({"type": "text", "text": text}), out);
            }
            Delta::Reasoning(text) => {
                let index = self.step(Kind::Thought, out);
                self.grow(index, json!({"type": "thought_summary", "content": {"type": "text", "text": text}}), out);
            }
            Delta::Sealed(Seal::Signature(seal) | Seal::Redacted(seal)) => {
                let index = self.step(Kind::Thought, out);
                self.grow(index, json!({"type": "thought_signature", "signature": seal}), out);
            }
            Delta::Ended => self.close(out),
            Delta::CallBegan(call) => self.begin_call(call, out),
            Delta::CallInput { slot, json } => self.input(*slot, json, out),
            Delta::CallEnded { slot } => self.end_call(*slot, out),
            Delta::Provided(provided) => self.found(&provided.output, out),
            Delta::Source(source) => {
                let index = self.step(Kind::Output, out);
                let note = json!({"type": "url_citation", "url": source.url, "title": source.title});
                self.grow(index, json!({"type": "text_annotation_delta", "annotations": [note]}), out);
            }
            Delta::File(file) => {
                let index = self.step(Kind::Output, out);
                let data = base64(file.bytes.as_ref().and_then(Blob::here).map_or(&[][..], |bytes| bytes));
                self.grow(index, json!({"type": "image", "mime_type": file.media_type, "data": data}), out);
            }
            Delta::Other(meta) => {
                self.close(out);
                for step in meta.values() {
                    let index = self.begin_step(step.clone(), out);
                    self.end_step(index, out);
                }
            }
            Delta::Usage(report) => self.report.update(report),
            Delta::Attempt(_)
            | Delta::PartMeta(_)
            | Delta::ReplyMeta(_)
            | Delta::ResponseId(_)
            | Delta::Handle(_)
            | Delta::Seam(_)
            | Delta::RetractCall { .. }
            | Delta::RetractAll => {}
        }
    }

    fn ping(&mut self, out: &mut Vec<String>) {
        // Without an id: no reader resumes from a sign of life.
        let kind = "interaction.status_update";
        let data = json!({"event_type": kind, "interaction_id": self.opening.id, "status": "in_progress"});
        out.push(format!("event: {kind}\n{}", sse::plain(&data)));
    }

    fn stop(&mut self, stop: &Stop, out: &mut Vec<String>) {
        self.close(out);
        let status = match stop {
            Stop::End | Stop::Interrupted | Stop::Broken => "completed",
            Stop::ToolUse => "requires_action",
            Stop::Length => "incomplete",
            Stop::Filtered { .. } => "failed",
        };
        self.complete(status, out);
    }

    fn error(&mut self, error: &ProviderError, out: &mut Vec<String>) {
        if error.cause == Cause::ErrorFinish {
            return self.complete("failed", out);
        }
        let status = match crate::http::act::status(error) {
            529 => 503, // Google has none.
            status => status,
        };
        let said = super::super::gemini::refusal::words(status);
        let message = if error.detail.is_empty() { said } else { &error.detail };
        let code = super::super::gemini::refusal::name(status).to_lowercase();
        self.event("error", json!({"error": {"code": code, "message": message}}), out);
    }
}
