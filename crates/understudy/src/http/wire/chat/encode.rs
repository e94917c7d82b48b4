//! An answer as OpenAI Chat Completions streams it: one choice, told in small differences.

use everturn_core::cost::UsageReport;
use everturn_core::delta::Delta;
use everturn_core::error::{Cause, ProviderError};
use everturn_core::message::{RunBy, Stop};
use serde_json::{Value, json};

use super::super::id_or;
use crate::http::act::{AnswerHeader, Encode};
use crate::http::sse;

pub(crate) struct ChatEncoder {
    opening: AnswerHeader,
    /// Whether the request wants to know the tokens.
    tells_usage: bool,
    /// Slots of calls, in the order of their index on the wire.
    calls: Vec<u32>,
    /// Slots of calls that run at the provider: this wire does not show them.
    hidden: Vec<u32>,
    said: usize,
    report: UsageReport,
}

impl ChatEncoder {
    pub(crate) fn new(opening: AnswerHeader, tells_usage: bool) -> Self {
        let report = opening.report;
        Self { opening, tells_usage, calls: Vec::new(), hidden: Vec::new(), said: 0, report }
    }

    fn event(&self, choices: Value, usage: Value) -> String {
        let mut event = json!({
            "id": self.opening.id, "object": "chat.completion.chunk", "created": super::super::CREATED,
            "model": self.opening.model, "system_fingerprint": "fp_understudy", "choices": choices,
        });
        if self.tells_usage {
            event["usage"] = usage;
        }
        sse::plain(&event)
    }

    fn delta(&self, delta: Value, out: &mut Vec<String>) {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        out.push(self.event(json!([choice]), Value::Null));
    }

    fn finish(&self, reason: &str, out: &mut Vec<String>) {
        let choice = json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason});
        out.push(self.event(json!([choice]), Value::Null));
        if self.tells_usage {
            out.push(self.event(json!([]), self.usage()));
        }
        out.push("data: [DONE]\n\n".into());
    }

    fn usage(&self) -> Value {
        let known = |count: everturn_core::cost::TokenCount| count.known().unwrap_or(0);
        let (cached, output) = (known(self.report.cache_read), known(self.report.output));
        let input = known(self.report.input) + cached;
        json!({
            "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
            "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": known(self.report.reasoning), "audio_tokens": 0},
        })
    }
}

impl Encode for ChatEncoder {
    fn begin(&mut self, out: &mut Vec<String>) {
        self.delta(json!({"role": "assistant", "content": "", "refusal": null}), out);
    }

    fn say(&mut self, said: &Delta, out: &mut Vec<String>) {
        match said {
            Delta::Text(text) => {
                self.said += text.chars().count();
                self.delta(json!({"content": text}), out);
            }
            Delta::Reasoning(text) => self.delta(json!({"reasoning_content": text}), out),
            Delta::CallBegan(call) if call.run_by == RunBy::Provider => self.hidden.push(call.slot),
            Delta::CallBegan(call) => {
                let index = self.calls.len();
                self.calls.push(call.slot);
                let id = id_or(&call.provider_id, "call", index as u64);
                let function = json!({"name": call.tool, "arguments": ""});
                let call = json!({"index": index, "id": id, "type": "function", "function": function});
                self.delta(json!({"tool_calls": [call]}), out);
            }
            Delta::CallInput { slot, .. } if self.hidden.contains(slot) => {}
            Delta::CallInput { slot, json } => {
                let index = self.calls.iter().rposition(|call| call == slot).unwrap_or(*slot as usize);
                let call = json!({"index": index, "function": {"arguments": json}});
                self.delta(json!({"tool_calls": [call]}), out);
            }
            Delta::Source(source) => {
                let citation = json!({
                    "start_index": 0, "end_index": self.said, "url": source.url, "title": source.title,
                });
                self.delta(json!({"annotations": [{"type": "url_citation", "url_citation": citation}]}), out);
            }
            Delta::Other(meta) => meta.values().for_each(|value| out.push(sse::plain(value))),
            Delta::Usage(report) => self.report.update(report),
            // This wire knows no seals, no ends of parts and no outcomes of the provider's own tools.
            Delta::Sealed(_)
            | Delta::Ended
            | Delta::CallEnded { .. }
            | Delta::Provided(_)
            | Delta::File(_)
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
        out.push(sse::comment("keep-alive"));
    }

    fn stop(&mut self, stop: &Stop, out: &mut Vec<String>) {
        let reason = match stop {
            Stop::End | Stop::Interrupted | Stop::Broken => "stop",
            Stop::ToolUse => "tool_calls",
            Stop::Length => "length",
            Stop::Filtered { .. } => "content_filter",
        };
        self.finish(reason, out);
    }

    fn error(&mut self, error: &ProviderError, out: &mut Vec<String>) {
        if error.cause == Cause::ErrorFinish {
            // What gateways send when the provider behind them failed.
            return self.finish("error", out);
        }
        let status = crate::http::act::status(error);
        let message = if error.detail.is_empty() {
            "The server had an error while processing your request."
        } else {
            &error.detail
        };
        let (kind, code) = crate::http::wire::openai::kind(status);
        out.push(sse::plain(&json!({"error": {"message": message, "type": kind, "param": null, "code": code}})));
    }
}
