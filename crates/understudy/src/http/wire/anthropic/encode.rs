//! An answer as Anthropic Messages streams it: numbered blocks, each started, filled and stopped.

use everturn_core::cost::{TokenCount, UsageReport};
use everturn_core::delta::{CallBegan, Delta, ProvidedDelta};
use everturn_core::error::{ProviderError, Retry};
use everturn_core::message::{RunBy, Seal, Source, Stop};
use serde_json::{Value, json};

use super::super::{filtered_detail, id_or};
use crate::http::act::{AnswerHeader, Encode};
use crate::http::sse;

pub(crate) struct AnthropicEncoder {
    opening: AnswerHeader,
    /// The next free number.
    next: u64,
    /// The open text or thought.
    open: Option<Open>,
    /// Calls by slot.
    calls: Vec<Called>,
    report: UsageReport,
    searches: u64,
}

struct Open {
    index: u64,
    kind: Kind,
}

#[derive(PartialEq, Clone, Copy)]
enum Kind {
    Text,
    Thinking,
}

struct Called {
    slot: u32,
    index: u64,
    id: String,
    is_open: bool,
}

impl AnthropicEncoder {
    pub(crate) fn new(opening: AnswerHeader) -> Self {
        let report = opening.report;
        Self { opening, next: 0, open: None, calls: Vec::new(), report, searches: 0 }
    }

    fn start(&mut self, content: &Value, out: &mut Vec<String>) -> u64 {
        let index = self.next;
        self.next += 1;
        out.push(sse::named(&json!({"type": "content_block_start", "index": index, "content_block": content})));
        index
    }

    fn open(&mut self, kind: Kind, out: &mut Vec<String>) -> u64 {
        if let Some(open) = &self.open
            && open.kind == kind
        {
            return open.index;
        }
        self.close(out);
        let content = match kind {
            Kind::Text => json!({"type": "text", "text": ""}),
            Kind::Thinking => json!({"type": "thinking", "thinking": "", "signature": ""}),
        };
        let index = self.start(&content, out);
        self.open = Some(Open { index, kind });
        index
    }

    fn close(&mut self, out: &mut Vec<String>) {
        if let Some(open) = self.open.take() {
            stop_block(open.index, out);
        }
    }

    fn whole(&mut self, content: &Value, out: &mut Vec<String>) {
        self.close(out);
        let index = self.start(content, out);
        stop_block(index, out);
    }

    fn seal(&mut self, seal: &Seal, out: &mut Vec<String>) {
        match seal {
            Seal::Signature(signature) => {
                let index = self.open(Kind::Thinking, out);
                delta(index, &json!({"type": "signature_delta", "signature": signature}), out);
            }
            Seal::Redacted(data) => self.whole(&json!({"type": "redacted_thinking", "data": data}), out),
        }
    }

    fn call(&mut self, call: &CallBegan, out: &mut Vec<String>) {
        self.close(out);
        let (kind, prefix) = match call.run_by {
            RunBy::Us => ("tool_use", "toolu"),
            RunBy::Provider => ("server_tool_use", "srvtoolu"),
        };
        let given = if call.run_by == RunBy::Provider && !call.provider_id.starts_with("srvtoolu_") {
            format!("srvtoolu_{}", call.provider_id)
        } else {
            call.provider_id.clone()
        };
        let id = id_or(&given, prefix, self.next);
        let index = self.start(&json!({"type": kind, "id": id, "name": call.tool, "input": {}}), out);
        delta(index, &json!({"type": "input_json_delta", "partial_json": ""}), out);
        self.calls.push(Called { slot: call.slot, index, id, is_open: true });
    }

    fn provided(&mut self, provided: &ProvidedDelta, out: &mut Vec<String>) {
        let call = match provided.slot {
            Some(slot) => self.calls.iter().find(|call| call.slot == slot),
            None => self.calls.last(),
        };
        let id = call.map_or_else(|| "srvtoolu_unknown".into(), |call| call.id.clone());
        self.searches += u64::from(provided.tool == "web_search");
        let kind = format!("{}_tool_result", provided.tool);
        self.whole(&json!({"type": kind, "tool_use_id": id, "content": provided.output}), out);
    }

    fn cite(&mut self, source: &Source, out: &mut Vec<String>) {
        let index = self.open(Kind::Text, out);
        let citation = json!({
            "type": "web_search_result_location", "url": source.url, "title": source.title,
            "cited_text": "", "encrypted_index": "dW5kZXJzdHVkeQ==",
        });
        delta(index, &json!({"type": "citations_delta", "citation": citation}), out);
    }

    /// Where a call is; what was never begun is said to be where nothing is.
    fn index_of(&self, slot: u32) -> u64 {
        self.calls.iter().rfind(|call| call.slot == slot).map_or(u64::from(slot), |call| call.index)
    }
}

fn delta(index: u64, delta: &Value, out: &mut Vec<String>) {
    out.push(sse::named(&json!({"type": "content_block_delta", "index": index, "delta": delta})));
}

fn stop_block(index: u64, out: &mut Vec<String>) {
    out.push(sse::named(&json!({"type": "content_block_stop", "index": index})));
}

fn count(reported: TokenCount) -> u64 {
    reported.known().unwrap_or(0)
}

impl Encode for AnthropicEncoder {
    fn begin(&mut self, out: &mut Vec<String>) {
        let usage = json!({
            "input_tokens": count(self.report.input), "output_tokens": 1,
            "cache_creation_input_tokens": count(self.report.cache_write),
            "cache_read_input_tokens": count(self.report.cache_read), "service_tier": "standard",
        });
        let message = json!({
            "id": self.opening.id, "type": "message", "role": "assistant", "model": self.opening.model,
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
        });
        out.push(sse::named(&json!({"type": "message_start", "message": message})));
        self.ping(out);
    }

    fn say(&mut self, said: &Delta, out: &mut Vec<String>) {
        match said {
            Delta::Text(text) => {
                let index = self.open(Kind::Text, out);
                delta(index, &json!({"type": "text_delta", "text": text}), out);
            }
            Delta::Reasoning(text) => {
                let index = self.open(Kind::Thinking, out);
                delta(index, &json!({"type": "thinking_delta", "thinking": text}), out);
            }
            Delta::Sealed(seal) => self.seal(seal, out),
            Delta::Ended => self.close(out),
            Delta::CallBegan(call) => self.call(call, out),
            Delta::CallInput { slot, json } => {
                delta(self.index_of(*slot), &json!({"type": "input_json_delta", "partial_json": json}), out);
            }
            Delta::CallEnded { slot } => {
                stop_block(self.index_of(*slot), out);
                self.calls.iter_mut().filter(|call| call.slot == *slot).for_each(|call| call.is_open = false);
            }
            Delta::Provided(provided) => self.provided(provided, out),
            Delta::Source(source) => self.cite(source, out),
            Delta::Other(meta) => meta.values().for_each(|value| self.whole(value, out)),
            Delta::Usage(report) => self.report.update(report),
            // A file is nothing this wire says; the rest is ours alone or was told at the beginning.
            Delta::File(_)
            | Delta::Attempt(_)
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
        out.push(sse::named(&json!({"type": "ping"})));
    }

    fn stop(&mut self, stop: &Stop, out: &mut Vec<String>) {
        let mut end = json!({"stop_reason": reason(stop), "stop_sequence": null});
        if let Some((category, detail)) = filtered_detail(stop) {
            end["stop_details"] = json!({"type": "refusal", "category": category, "explanation": detail});
        }
        self.end(&end, out);
    }

    fn error(&mut self, error: &ProviderError, out: &mut Vec<String>) {
        if error.retry == Retry::Now {
            return self.end(&json!({"stop_reason": "pause_turn", "stop_sequence": null}), out);
        }
        let status = crate::http::act::status(error);
        let kind = super::refusal::kind(status);
        let message = if error.detail.is_empty() { super::refusal::words(kind) } else { &error.detail };
        out.push(sse::named(&json!({"type": "error", "error": {"type": kind, "message": message}})));
    }
}

impl AnthropicEncoder {
    /// Ends the message, and says why.
    fn end(&mut self, end: &Value, out: &mut Vec<String>) {
        self.close(out);
        for call in self.calls.iter_mut().filter(|call| call.is_open) {
            call.is_open = false;
            stop_block(call.index, out);
        }
        let mut usage = json!({
            "input_tokens": count(self.report.input), "output_tokens": count(self.report.output),
            "cache_creation_input_tokens": count(self.report.cache_write),
            "cache_read_input_tokens": count(self.report.cache_read),
        });
        if self.searches > 0 {
            usage["server_tool_use"] = json!({"web_search_requests": self.searches});
        }
        out.push(sse::named(&json!({"type": "message_delta", "delta": end, "usage": usage})));
        out.push(sse::named(&json!({"type": "message_stop"})));
    }
}

const fn reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::End | Stop::Interrupted | Stop::Broken => "end_turn",
        Stop::ToolUse => "tool_use",
        Stop::Length => "max_tokens",
        Stop::Filtered { .. } => "refusal",
    }
}
