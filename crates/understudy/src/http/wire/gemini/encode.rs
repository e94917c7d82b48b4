//! An answer as Gemini streams it: whole parts, calls in one piece, the reason at the end.

use everturn_core::blob::Blob;
use everturn_core::cost::UsageReport;
use everturn_core::delta::{CallBegan, Delta};
use everturn_core::error::{Cause, ProviderError};
use everturn_core::message::{Meta, RunBy, Seal, Stop};
use serde_json::{Value, json};

use crate::http::act::{AnswerHeader, Encode};
use crate::http::sse;

pub(crate) struct GeminiEncoder {
    opening: AnswerHeader,
    calls: Vec<Called>,
    /// A signature that waits for the part it belongs to.
    signature: Option<String>,
    newest_signature: Option<String>,
    has_called: bool,
    queries: Vec<Value>,
    found: Vec<Value>,
    report: UsageReport,
    is_malformed: bool,
}

struct Called {
    call: CallBegan,
    arguments: String,
}

impl GeminiEncoder {
    pub(crate) fn new(opening: AnswerHeader) -> Self {
        let report = opening.report;
        Self {
            opening,
            calls: Vec::new(),
            signature: None,
            newest_signature: None,
            has_called: false,
            queries: Vec::new(),
            found: Vec::new(),
            report,
            is_malformed: false,
        }
    }

    fn event(&self, candidate: Value) -> String {
        let known = |count: everturn_core::cost::TokenCount| count.known().unwrap_or(0);
        let (cached, thoughts) = (known(self.report.cache_read), known(self.report.reasoning));
        let (prompt, output) = (known(self.report.input) + cached, known(self.report.output));
        let mut usage = json!({
            "promptTokenCount": prompt, "candidatesTokenCount": output.saturating_sub(thoughts),
            "totalTokenCount": prompt + output,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}],
        });
        if thoughts > 0 {
            usage["thoughtsTokenCount"] = thoughts.into();
        }
        if cached > 0 {
            usage["cachedContentTokenCount"] = cached.into();
        }
        sse::crlf(&json!({
            "candidates": [candidate], "usageMetadata": usage,
            "modelVersion": self.opening.model, "responseId": self.opening.id,
        }))
    }

    fn part(&self, part: Value, out: &mut Vec<String>) {
        out.push(self.event(json!({"content": {"role": "model", "parts": [part]}, "index": 0})));
    }

    /// A signature that found no part goes out with an empty one.
    fn flush(&mut self, out: &mut Vec<String>) {
        if let Some(signature) = self.signature.take() {
            self.part(json!({"text": "", "thoughtSignature": signature}), out);
        }
    }

    fn end_call(&mut self, slot: u32, out: &mut Vec<String>) {
        let Some(at) = self.calls.iter().rposition(|called| called.call.slot == slot) else { return };
        let Called { call, arguments } = self.calls.remove(at);
        let arguments = if arguments.trim().is_empty() { "{}" } else { &arguments };
        let Ok(args) = serde_json::from_str::<Value>(arguments) else {
            self.is_malformed = true;
            return;
        };
        if call.run_by == RunBy::Provider {
            self.queries.extend(args.get("query").or_else(|| args.get("q")).cloned());
            return;
        }
        let mut part = json!({"functionCall": {"name": call.tool, "args": args}});
        if !call.provider_id.is_empty() {
            part["functionCall"]["id"] = call.provider_id.as_str().into();
        }
        let is_first = !std::mem::replace(&mut self.has_called, true);
        // Models that think sign the first call of a step, whatever they said before it.
        let own = is_first.then(|| self.newest_signature.clone()).flatten();
        if let Some(signature) = signature_in(&call.meta).or_else(|| self.signature.take()).or(own) {
            part["thoughtSignature"] = signature.into();
        }
        self.part(part, out);
    }

    fn grounding(&self) -> Option<Value> {
        if self.found.is_empty() && self.queries.is_empty() {
            return None;
        }
        let all: Vec<usize> = (0..self.found.len()).collect();
        Some(json!({
            "webSearchQueries": self.queries, "groundingChunks": self.found,
            "groundingSupports": [{"segment": {"startIndex": 0, "endIndex": 1, "text": ""}, "groundingChunkIndices": all}],
        }))
    }

    fn finish(&mut self, reason: &str, out: &mut Vec<String>) {
        let mut candidate = json!({
            "content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": reason, "index": 0,
        });
        if let Some(signature) = self.signature.take() {
            candidate["content"]["parts"][0]["thoughtSignature"] = signature.into();
        }
        if let Some(grounding) = self.grounding() {
            candidate["groundingMetadata"] = grounding;
        }
        out.push(self.event(candidate));
    }
}

/// A signature among what was attached, under either of its spellings.
fn signature_in(meta: &Meta) -> Option<String> {
    let spellings = ["thoughtSignature", "thought_signature"];
    let found = meta.values().find_map(|value| spellings.iter().find_map(|name| value.get(*name)));
    found.and_then(Value::as_str).map(Into::into)
}

impl Encode for GeminiEncoder {
    fn begin(&mut self, _out: &mut Vec<String>) {}

    fn say(&mut self, said: &Delta, out: &mut Vec<String>) {
        match said {
            Delta::Text(text) => {
                let mut part = json!({"text": text});
                if let Some(signature) = self.signature.take() {
                    part["thoughtSignature"] = signature.into();
                }
                self.part(part, out);
            }
            Delta::Reasoning(text) => {
                self.flush(out);
                self.part(json!({"text": text, "thought": true}), out);
            }
            // It goes with whatever comes next, which is where this wire puts it.
            Delta::Sealed(Seal::Signature(seal) | Seal::Redacted(seal)) => {
                self.flush(out);
                self.signature = Some(seal.clone());
                self.newest_signature = Some(seal.clone());
            }
            Delta::CallBegan(call) => {
                self.calls.push(Called { call: call.as_ref().clone(), arguments: String::new() });
            }
            Delta::CallInput { slot, json } => match self.calls.iter_mut().rfind(|called| called.call.slot == *slot) {
                Some(called) => called.arguments.push_str(json),
                None => self.finish("MALFORMED_FUNCTION_CALL", out),
            },
            Delta::CallEnded { slot } => self.end_call(*slot, out),
            Delta::Provided(provided) => {
                let found = provided.output.as_array().into_iter().flatten().filter(|one| one.get("url").is_some());
                self.found.extend(found.map(|one| json!({"web": {"uri": one["url"], "title": one["title"]}})));
            }
            Delta::Source(source) => {
                self.found.push(json!({"web": {"uri": source.url, "title": source.title}}));
            }
            Delta::File(file) => {
                let data =
                    super::super::base64(file.bytes.as_ref().and_then(Blob::here).map_or(&[][..], |bytes| bytes));
                self.part(json!({"inlineData": {"mimeType": file.media_type, "data": data}}), out);
            }
            Delta::Other(meta) => meta.values().for_each(|value| self.part(value.clone(), out)),
            Delta::PartMeta(meta) => self.signature = signature_in(meta).or_else(|| self.signature.take()),
            Delta::Usage(report) => self.report.update(report),
            Delta::Ended
            | Delta::Attempt(_)
            | Delta::ReplyMeta(_)
            | Delta::ResponseId(_)
            | Delta::Handle(_)
            | Delta::Seam(_)
            | Delta::RetractCall { .. }
            | Delta::RetractAll => {}
        }
    }

    fn ping(&mut self, out: &mut Vec<String>) {
        // An event without content. Google's own client takes no comments.
        out.push(sse::crlf(&json!({"modelVersion": self.opening.model, "responseId": self.opening.id})));
    }

    fn stop(&mut self, stop: &Stop, out: &mut Vec<String>) {
        let reason = match stop {
            _ if self.is_malformed => "MALFORMED_FUNCTION_CALL",
            Stop::End | Stop::ToolUse | Stop::Interrupted | Stop::Broken => "STOP",
            Stop::Length => "MAX_TOKENS",
            Stop::Filtered { category, .. } => match category.as_str() {
                "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => category,
                _ => "SAFETY",
            },
        };
        self.finish(reason, out);
    }

    fn error(&mut self, error: &ProviderError, out: &mut Vec<String>) {
        if error.cause == Cause::ErrorFinish {
            return self.finish("MALFORMED_FUNCTION_CALL", out);
        }
        // Google has no 529.
        let status = match crate::http::act::status(error) {
            529 => 503,
            status => status,
        };
        let message = if error.detail.is_empty() { super::refusal::words(status) } else { &error.detail };
        let name = super::refusal::name(status);
        out.push(sse::crlf(&json!({"error": {"code": status, "message": message, "status": name}})));
    }
}
