//! An answer as OpenAI Responses streams it: numbered events, output items that are added, filled and done.

use everturn_core::cost::UsageReport;
use everturn_core::delta::{CallBegan, Delta, ProvidedDelta};
use everturn_core::error::ProviderError;
use everturn_core::message::{RunBy, Seal, Source, Stop};
use serde_json::{Map, Value, json};

use super::super::id_or;
use crate::http::act::{AnswerHeader, Encode};
use crate::http::sse;

pub(crate) struct ResponsesEncoder {
    opening: AnswerHeader,
    /// What of the request the response repeats.
    echo: Map<String, Value>,
    /// Whether the request wants reasoning in the form it can be sent back in.
    shows_sealed: bool,
    sequence: u64,
    /// All items so far; the ones that are done are final.
    items: Vec<Value>,
    open: Option<Open>,
    calls: Vec<Called>,
    report: UsageReport,
}

/// The open message or reasoning.
struct Open {
    index: usize,
    kind: Kind,
    text: String,
    annotations: Vec<Value>,
}

#[derive(PartialEq, Clone, Copy)]
enum Kind {
    Message,
    Reasoning,
}

struct Called {
    slot: u32,
    index: usize,
    run_by: RunBy,
    arguments: String,
    is_open: bool,
}

impl ResponsesEncoder {
    pub(crate) fn new(opening: AnswerHeader, echo: Map<String, Value>, shows_sealed: bool) -> Self {
        let report = opening.report;
        Self { opening, echo, shows_sealed, sequence: 0, items: Vec::new(), open: None, calls: Vec::new(), report }
    }

    fn event(&mut self, kind: &str, mut data: Value, out: &mut Vec<String>) {
        data["type"] = kind.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        out.push(sse::named(&data));
    }

    /// The response as it stands.
    fn response(&self, status: &str) -> Value {
        let output = if status == "in_progress" { &[][..] } else { &self.items };
        let mut response = json!({
            "id": self.opening.id, "object": "response", "created_at": super::super::CREATED, "status": status,
            "model": self.opening.model, "output": output, "error": null, "incomplete_details": null, "usage": null,
            "parallel_tool_calls": true,
        });
        for (key, value) in &self.echo {
            response[key] = value.clone();
        }
        response
    }

    fn usage(&self) -> Value {
        let known = |count: everturn_core::cost::TokenCount| count.known().unwrap_or(0);
        let (cached, output) = (known(self.report.cache_read), known(self.report.output));
        let input = known(self.report.input) + cached;
        json!({
            "input_tokens": input, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": known(self.report.reasoning)}, "total_tokens": input + output,
        })
    }

    fn add(&mut self, item: Value, out: &mut Vec<String>) -> usize {
        let index = self.items.len();
        self.event("response.output_item.added", json!({"output_index": index, "item": item}), out);
        self.items.push(item);
        index
    }

    fn done(&mut self, index: usize, out: &mut Vec<String>) {
        let item = self.items[index].clone();
        self.event("response.output_item.done", json!({"output_index": index, "item": item}), out);
    }

    fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{}_{}", self.opening.id.trim_start_matches("resp_"), self.items.len())
    }

    fn open(&mut self, kind: Kind, out: &mut Vec<String>) {
        if self.open.as_ref().is_some_and(|open| open.kind == kind) {
            return;
        }
        self.close(out);
        let index = match kind {
            Kind::Message => {
                let id = self.id("msg");
                let item =
                    json!({"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []});
                let index = self.add(item, out);
                let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
                let data = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
                self.event("response.content_part.added", data, out);
                index
            }
            Kind::Reasoning => {
                let item = json!({"id": self.id("rs"), "type": "reasoning", "summary": []});
                self.add(item, out)
            }
        };
        self.open = Some(Open { index, kind, text: String::new(), annotations: Vec::new() });
    }

    fn close(&mut self, out: &mut Vec<String>) {
        let Some(open) = self.open.take() else { return };
        match open.kind {
            Kind::Message => self.close_message(&open, out),
            Kind::Reasoning => self.close_reasoning(&open, out),
        }
        self.done(open.index, out);
    }

    fn close_message(&mut self, open: &Open, out: &mut Vec<String>) {
        let place = json!({"item_id": self.items[open.index]["id"], "output_index": open.index, "content_index": 0});
        let mut data = place.clone();
        (data["text"], data["logprobs"]) = (open.text.as_str().into(), json!([]));
        self.event("response.output_text.done", data, out);
        let part = json!({"type": "output_text", "text": open.text, "annotations": open.annotations, "logprobs": []});
        let mut data = place;
        data["part"] = part.clone();
        self.event("response.content_part.done", data, out);
        let item = &mut self.items[open.index];
        (item["status"], item["content"]) = ("completed".into(), json!([part]));
    }

    fn close_reasoning(&mut self, open: &Open, out: &mut Vec<String>) {
        if open.text.is_empty() {
            return;
        }
        let place = json!({"item_id": self.items[open.index]["id"], "output_index": open.index, "summary_index": 0});
        let mut data = place.clone();
        data["text"] = open.text.as_str().into();
        self.event("response.reasoning_summary_text.done", data, out);
        let part = json!({"type": "summary_text", "text": open.text});
        let mut data = place;
        data["part"] = part.clone();
        self.event("response.reasoning_summary_part.done", data, out);
        self.items[open.index]["summary"] = json!([part]);
    }

    fn text(&mut self, text: &str, out: &mut Vec<String>) {
        self.open(Kind::Message, out);
        let Some(open) = &mut self.open else { return };
        open.text.push_str(text);
        let place = json!({
            "item_id": self.items[open.index]["id"], "output_index": open.index, "content_index": 0,
            "delta": text, "logprobs": [],
        });
        self.event("response.output_text.delta", place, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut Vec<String>) {
        self.open(Kind::Reasoning, out);
        let Some(open) = &mut self.open else { return };
        let is_first = open.text.is_empty();
        open.text.push_str(text);
        let place = json!({"item_id": self.items[open.index]["id"], "output_index": open.index, "summary_index": 0});
        if is_first {
            let mut data = place.clone();
            data["part"] = json!({"type": "summary_text", "text": ""});
            self.event("response.reasoning_summary_part.added", data, out);
        }
        let mut data = place;
        data["delta"] = text.into();
        self.event("response.reasoning_summary_text.delta", data, out);
    }

    fn cite(&mut self, source: &Source, out: &mut Vec<String>) {
        self.open(Kind::Message, out);
        let Some(open) = &mut self.open else { return };
        let end = open.text.chars().count();
        let annotation = json!({
            "type": "url_citation", "url": source.url, "title": source.title, "start_index": 0, "end_index": end,
        });
        let data = json!({
            "item_id": self.items[open.index]["id"], "output_index": open.index, "content_index": 0,
            "annotation_index": open.annotations.len(), "annotation": annotation,
        });
        open.annotations.push(annotation);
        self.event("response.output_text.annotation.added", data, out);
    }

    fn call(&mut self, call: &CallBegan, out: &mut Vec<String>) {
        self.close(out);
        let item = match call.run_by {
            RunBy::Us => json!({
                "id": self.id("fc"), "type": "function_call", "status": "in_progress", "arguments": "",
                "call_id": id_or(&call.provider_id, "call", self.items.len() as u64), "name": call.tool,
            }),
            RunBy::Provider => json!({"id": self.id("ws"), "type": hosted(&call.tool), "status": "in_progress"}),
        };
        let index = self.add(item, out);
        if call.run_by == RunBy::Provider {
            self.progress(index, "in_progress", out);
        }
        let (slot, run_by) = (call.slot, call.run_by);
        self.calls.push(Called { slot, index, run_by, arguments: String::new(), is_open: true });
    }

    /// One of the small steps of a tool that runs at the provider.
    fn progress(&mut self, index: usize, step: &str, out: &mut Vec<String>) {
        let item = &self.items[index];
        let kind = format!("response.{}.{step}", item["type"].as_str().unwrap_or_default());
        let data = json!({"item_id": item["id"], "output_index": index});
        self.event(&kind, data, out);
    }

    fn input(&mut self, slot: u32, json: &str, out: &mut Vec<String>) {
        let Some(call) = self.calls.iter_mut().rfind(|call| call.slot == slot) else {
            let data = json!({"item_id": format!("fc_unknown_{slot}"), "output_index": slot, "delta": json});
            return self.event("response.function_call_arguments.delta", data, out);
        };
        call.arguments.push_str(json);
        if call.run_by == RunBy::Us {
            let index = call.index;
            let data = json!({"item_id": self.items[index]["id"], "output_index": index, "delta": json});
            self.event("response.function_call_arguments.delta", data, out);
        }
    }

    fn end_call(&mut self, slot: u32, out: &mut Vec<String>) {
        let Some(call) = self.calls.iter_mut().rfind(|call| call.slot == slot && call.is_open) else { return };
        call.is_open = false;
        let (index, arguments) = (call.index, call.arguments.clone());
        if call.run_by == RunBy::Provider {
            return self.progress(index, "searching", out);
        }
        let item = &mut self.items[index];
        (item["status"], item["arguments"]) = ("completed".into(), arguments.as_str().into());
        let data = json!({
            "item_id": item["id"], "output_index": index, "name": item["name"], "arguments": arguments,
        });
        self.event("response.function_call_arguments.done", data, out);
        self.done(index, out);
    }

    fn provided(&mut self, provided: &ProvidedDelta, out: &mut Vec<String>) {
        let of = |call: &&Called| call.run_by == RunBy::Provider && provided.slot.is_none_or(|slot| slot == call.slot);
        let Some((index, arguments)) = self.calls.iter().rfind(of).map(|call| (call.index, call.arguments.clone()))
        else {
            return;
        };
        self.progress(index, "completed", out);
        let input: Value = serde_json::from_str(&arguments).unwrap_or_default();
        let query = input.get("query").or_else(|| input.get("q")).cloned().unwrap_or_default();
        let found = provided.output.as_array().into_iter().flatten();
        let sources: Vec<Value> =
            found.filter_map(|one| one.get("url")).map(|url| json!({"type": "url", "url": url})).collect();
        let item = &mut self.items[index];
        item["status"] = "completed".into();
        item["action"] = json!({"type": "search", "query": query, "sources": sources});
        self.done(index, out);
    }

    fn end(&mut self, status: &str, error: Value, why: Value, out: &mut Vec<String>) {
        let mut response = self.response(status);
        (response["error"], response["incomplete_details"]) = (error, why);
        response["usage"] = self.usage();
        self.event(&format!("response.{status}"), json!({"response": response}), out);
    }
}

fn hosted(tool: &str) -> String {
    format!("{}_call", tool.trim_end_matches("_call"))
}

impl Encode for ResponsesEncoder {
    fn begin(&mut self, out: &mut Vec<String>) {
        let response = self.response("in_progress");
        self.event("response.created", json!({"response": response}), out);
        self.event("response.in_progress", json!({"response": response}), out);
    }

    fn say(&mut self, said: &Delta, out: &mut Vec<String>) {
        match said {
            Delta::Text(text) => self.text(text, out),
            Delta::Reasoning(text) => self.reasoning(text, out),
            Delta::Sealed(Seal::Signature(seal) | Seal::Redacted(seal)) => {
                self.open(Kind::Reasoning, out);
                if let Some(open) = self.open.as_ref().filter(|_| self.shows_sealed) {
                    self.items[open.index]["encrypted_content"] = seal.as_str().into();
                }
            }
            Delta::Ended => self.close(out),
            Delta::CallBegan(call) => self.call(call, out),
            Delta::CallInput { slot, json } => self.input(*slot, json, out),
            Delta::CallEnded { slot } => self.end_call(*slot, out),
            Delta::Provided(provided) => self.provided(provided, out),
            Delta::Source(source) => self.cite(source, out),
            Delta::Other(meta) => {
                for value in meta.values() {
                    let index = self.add(value.clone(), out);
                    self.done(index, out);
                }
            }
            Delta::Usage(report) => self.report.update(report),
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
        out.push(sse::comment("keepalive"));
    }

    fn stop(&mut self, stop: &Stop, out: &mut Vec<String>) {
        let (status, why) = match stop {
            Stop::End | Stop::ToolUse | Stop::Interrupted | Stop::Broken => ("completed", Value::Null),
            Stop::Length => ("incomplete", json!({"reason": "max_output_tokens"})),
            Stop::Filtered { .. } => ("incomplete", json!({"reason": "content_filter"})),
        };
        self.close(out);
        let open: Vec<usize> = self.calls.iter().filter(|call| call.is_open).map(|call| call.index).collect();
        for index in open {
            self.items[index]["status"] = "incomplete".into();
            self.done(index, out);
        }
        self.end(status, Value::Null, why, out);
    }

    fn error(&mut self, error: &ProviderError, out: &mut Vec<String>) {
        let status = crate::http::act::status(error);
        let code = match status {
            429 => "rate_limit_exceeded",
            400..500 => "invalid_prompt",
            503 | 529 => "server_is_overloaded",
            _ => "server_error",
        };
        let message =
            if error.detail.is_empty() { "The server had an error processing your request." } else { &error.detail };
        if error.cause == everturn_core::error::Cause::ErrorFinish {
            return self.end("failed", json!({"code": code, "message": message}), Value::Null, out);
        }
        self.event("error", json!({"code": code, "message": message, "param": null}), out);
    }
}
