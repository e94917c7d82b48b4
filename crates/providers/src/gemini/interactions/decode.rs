//! Decodes events of an interaction into deltas.
//!
//! An interaction is a list of steps, each with a number: a thought, an output, a call, a result of one of
//! Google's own tools. A step begins, grows and stops, and its number is our slot for a call. Each event ends
//! with a new handle, in one frame with the event's deltas: a reader that stored the frame resumes exactly
//! after it.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use everturn_core::delta::{CallBegan, Delta, GenerationHandle, ProvidedDelta};
use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::message::{File, Meta, RunBy, Seal, Stop};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::super::classify::{ClientCalls, in_stream, malformed};
use super::super::grounding::GroundingSources;
use super::super::usage::{Counted, GeminiCounts as Counting};
use super::cursor::{Input, InteractionCursor};
use super::event::{InteractionEvent, InteractionStep, InteractionSummary, InteractionUsage};
use crate::classify::error_in;
use crate::provider::Frame;
use crate::sse;
use crate::wire::Decode;

#[cfg(test)]
mod tests;

/// An interaction on its way.
#[derive(Debug)]
pub struct Interaction {
    provider: String,
    id: String,
    cursor: InteractionCursor,
    open: HashMap<u32, Open>,
    /// Calls of Google's own tools, by its ids.
    hosted: HashMap<String, u32>,
    counted: Counted,
    status: String,
    meta: Map<String, Value>,
    /// Whether `meta` has changed since it was sent.
    is_meta_new: bool,
}

/// A step that has begun.
#[derive(Debug)]
enum Open {
    /// A call, with its input pending or complete.
    Call(Input),
    /// A result of one of Google's own tools that is still to come, and the call it belongs to.
    Result(Option<u32>),
    Other,
}

impl Interaction {
    /// An interaction of which nothing has come.
    #[must_use]
    pub fn new(provider: &str) -> Self {
        Self::after(provider, String::new(), InteractionCursor::default())
    }

    /// The rest of an interaction.
    pub(in super::super) fn after(provider: &str, id: String, cursor: InteractionCursor) -> Self {
        let open = cursor.open_call.map(|(index, input)| (index, Open::Call(input)));
        Self {
            provider: provider.to_owned(),
            id,
            cursor,
            open: open.into_iter().collect(),
            hosted: HashMap::new(),
            counted: Counted::default(),
            status: String::new(),
            meta: Map::new(),
            is_meta_new: false,
        }
    }
}

impl Decode for Interaction {
    fn event(&mut self, event: &sse::SseEvent<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        if event.data.trim() == "[DONE]" {
            return Ok(());
        }
        if let Some(error) = error_in(event) {
            return Err(in_stream(&self.provider, &error));
        }
        let (seen, data) = (out.len(), event.data);
        let event: InteractionEvent<'_> =
            serde_json::from_str(data).map_err(|_| malformed(&self.provider, "an event is none of an interaction"))?;
        let event_id = event.event_id.clone().unwrap_or_default();
        let ended = self.take(event, data, &mut Out(out))?;
        if let Some(status) = ended {
            out.push(Frame::Stop(self.stop(&status)?));
            return Ok(());
        }
        if !event_id.is_empty() && !self.id.is_empty() {
            self.cursor.event = event_id;
            Frame::mark(out, seen, GenerationHandle { id: self.id.clone(), cursor: self.cursor.to_text() });
        }
        if out.len() == seen {
            out.push(Frame::Ping);
        }
        Ok(())
    }
}

/// Where deltas go.
struct Out<'a>(&'a mut Vec<Frame>);

impl Out<'_> {
    fn add(&mut self, delta: Delta) {
        self.0.push(Frame::Delta(delta));
    }
}

impl Interaction {
    /// Takes an event, and says with which status the interaction is over if it is.
    fn take(
        &mut self,
        event: InteractionEvent<'_>,
        data: &str,
        out: &mut Out<'_>,
    ) -> Result<Option<String>, ProviderError> {
        let index = event.index.unwrap_or(0);
        self.count(event.usage.as_ref(), out);
        match (event.event_type.as_deref().unwrap_or_default(), event.step, event.delta) {
            ("interaction.created", _, _) => self.created(event.interaction, out),
            ("interaction.status_update", _, _) => self.status = event.status.unwrap_or_default(),
            ("step.start", Some(step), _) => self.start(index, step, data, out)?,
            ("step.delta", _, Some(delta)) => self.grow(index, delta, data, out)?,
            ("step.stop", _, _) => self.stopped(index, out),
            ("interaction.completed", _, _) => return Ok(Some(self.completed(event.interaction, out))),
            _ => {} // Newer than we are.
        }
        Ok(None)
    }

    fn created(&mut self, interaction: Option<InteractionSummary>, out: &mut Out<'_>) {
        let Some(interaction) = interaction else { return };
        if let Some(id) = interaction.id.filter(|id| *id != self.id) {
            out.add(Delta::ResponseId(id.clone()));
            self.id = id;
        }
        self.note("model", interaction.model);
        self.send_meta(out);
    }

    fn completed(&mut self, interaction: Option<InteractionSummary>, out: &mut Out<'_>) -> String {
        let (status, usage) = interaction.map_or((None, None), |interaction| {
            self.note("model", interaction.model);
            self.note("continuation_token", interaction.continuation_token);
            (interaction.status, interaction.usage)
        });
        self.count(usage.as_ref(), out);
        self.counted.close();
        if let Some(report) = self.counted.news() {
            out.add(Delta::Usage(report.into()));
        }
        self.send_meta(out);
        status.unwrap_or_else(|| self.status.clone())
    }

    /// Notes metadata of the reply. Blank values are ignored.
    fn note(&mut self, key: &str, value: Option<String>) {
        let Some(value) = value.filter(|value| !value.is_empty()).map(Value::from) else { return };
        if self.meta.get(key) != Some(&value) {
            self.meta.insert(key.into(), value);
            self.is_meta_new = true;
        }
    }

    /// Sends the metadata if it has changed. Later metadata replaces earlier, so all of it is sent.
    fn send_meta(&mut self, out: &mut Out<'_>) {
        if std::mem::take(&mut self.is_meta_new) {
            let meta = Value::Object(self.meta.clone());
            out.add(Delta::ReplyMeta(Box::new(Meta::from_iter([(self.provider.clone(), meta)]))));
        }
    }

    /// What a status at the end means.
    fn stop(&self, status: &str) -> Result<Stop, ProviderError> {
        let calls = if self.cursor.called { ClientCalls::Some } else { ClientCalls::None };
        let retry = match status {
            "completed" | "requires_action" => return Ok(calls.stop()),
            "incomplete" | "requires_continuation" | "budget_exceeded" => return Ok(Stop::Length),
            "failed" => Retry::Backoff,
            _ => Retry::Once, // Cancelled elsewhere, or an unknown status.
        };
        let error = ProviderError::new(&*self.provider, ErrorKind::Truncated).with_retry(retry);
        Err(error.with_cause(Cause::ErrorFinish).with_detail(&format!("the interaction is {status}")))
    }

    fn count(&mut self, usage: Option<&InteractionUsage>, out: &mut Out<'_>) {
        let Some(counts) = usage else { return };
        self.counted.update(&Counting {
            prompt: counts.total_input_tokens.as_ref(),
            cached: counts.total_cached_tokens.as_ref(),
            tool_use: counts.total_tool_use_tokens.as_ref(),
            answer: counts.total_output_tokens.as_ref(),
            thoughts: counts.total_thought_tokens.as_ref(),
        });
        if let Some(report) = self.counted.news() {
            out.add(Delta::Usage(report.into()));
        }
    }

    fn start(
        &mut self,
        index: u32,
        step: InteractionStep<'_>,
        data: &str,
        out: &mut Out<'_>,
    ) -> Result<(), ProviderError> {
        if let Some(error) = &step.error {
            return Err(in_stream(&self.provider, &json!({ "error": error })));
        }
        let kind = step.kind.clone().unwrap_or_default();
        let open = match (kind.as_str(), hosted(&kind)) {
            ("thought", _) => {
                texts(step.summary.as_ref()).for_each(|text| out.add(Delta::Reasoning(text)));
                self.seal(step.signature, out);
                Open::Other
            }
            ("model_output", _) => {
                texts(step.content.as_ref()).for_each(|text| out.add(Delta::Text(text)));
                Open::Other
            }
            ("function_call", _) => {
                self.cursor.called = true;
                let tool = step.name.clone().unwrap_or_default();
                self.call(index, tool, RunBy::Us, step, out)
            }
            (_, Some(Hosted::Call(tool))) => self.call(index, tool, RunBy::Provider, step, out),
            (_, Some(Hosted::Result(tool))) => {
                let slot = step.call_id.as_ref().and_then(|id| self.hosted.get(id)).copied();
                self.result(slot, tool, step, out);
                Open::Result(slot)
            }
            _ => {
                out.add(self.raw(data, "step"));
                Open::Other
            }
        };
        self.open.insert(index, open);
        Ok(())
    }

    fn call(&mut self, slot: u32, tool: String, run_by: RunBy, step: InteractionStep<'_>, out: &mut Out<'_>) -> Open {
        let provider_id = step.id.unwrap_or_default();
        if run_by == RunBy::Provider {
            self.hosted.insert(provider_id.clone(), slot);
        }
        let meta = self.signed(step.signature.as_deref());
        out.add(Delta::CallBegan(Box::new(CallBegan { slot, provider_id, tool, run_by, meta })));
        let input = match step.arguments.map(Arguments::of) {
            Some(Arguments::Whole(json)) => {
                out.add(Delta::CallInput { slot, json });
                Input::Whole
            }
            Some(Arguments::Piece(_) | Arguments::None) | None => Input::ToCome,
        };
        self.cursor.open_call = Some((slot, input));
        Open::Call(input)
    }

    fn grow(
        &mut self,
        index: u32,
        delta: InteractionStep<'_>,
        data: &str,
        out: &mut Out<'_>,
    ) -> Result<(), ProviderError> {
        if let Some(error) = &delta.error {
            return Err(in_stream(&self.provider, &json!({ "error": error })));
        }
        let kind = delta.kind.clone().unwrap_or_default();
        match (kind.as_str(), self.open.get_mut(&index)) {
            ("text", _) => out.0.extend(delta.text.filter(|text| !text.is_empty()).map(Delta::Text).map(Frame::Delta)),
            ("thought_summary", _) => {
                texts(delta.content.as_ref()).for_each(|text| out.add(Delta::Reasoning(text)));
            }
            ("thought_signature", _) => self.seal(delta.signature, out),
            ("text_annotation_delta", _) => {
                let mut sources = GroundingSources::default();
                for note in delta.annotations.iter().filter_map(Value::as_array).flatten() {
                    sources.add(&self.provider, note["url"].as_str(), note["title"].as_str(), note);
                }
                sources.take().into_iter().for_each(|source| out.add(Delta::Source(Box::new(source))));
            }
            (_, Some(Open::Call(input))) => {
                let arguments = delta.arguments.map(Arguments::of).filter(|_| *input == Input::ToCome);
                let json = match arguments {
                    Some(Arguments::Piece(json)) => json,
                    Some(Arguments::Whole(json)) => {
                        *input = Input::Whole;
                        self.cursor.open_call = Some((index, Input::Whole));
                        json
                    }
                    Some(Arguments::None) | None => return Ok(()),
                };
                out.add(Delta::CallInput { slot: index, json });
            }
            (_, open) => match (hosted(&kind), open) {
                (Some(Hosted::Result(tool)), Some(Open::Result(slot))) => {
                    let slot = *slot;
                    self.result(slot, tool, delta, out);
                }
                (Some(Hosted::Result(tool)), _) => self.result(None, tool, delta, out), // We came in the middle.
                _ => out.add(file(&delta).unwrap_or_else(|| self.raw(data, "delta"))),
            },
        }
        Ok(())
    }

    fn stopped(&mut self, index: u32, out: &mut Out<'_>) {
        match self.open.remove(&index) {
            Some(Open::Call(_)) => {
                out.add(Delta::CallEnded { slot: index });
                self.cursor.open_call = None;
            }
            Some(Open::Result(_)) => {}
            Some(Open::Other) | None => out.add(Delta::Ended),
        }
    }

    /// What one of Google's own tools found, once it is there.
    fn result(&self, slot: Option<u32>, tool: String, step: InteractionStep<'_>, out: &mut Out<'_>) {
        let meta = self.signed(step.signature.as_deref());
        if let Some(output) = step.result.filter(|result| !result.is_null()) {
            out.add(Delta::Provided(Box::new(ProvidedDelta { slot, tool, output, meta })));
        }
    }

    /// Something unknown, as it came.
    fn raw(&self, data: &str, key: &str) -> Delta {
        let mut event: Value = serde_json::from_str(data).unwrap_or_default();
        let raw = event.get_mut(key).map(Value::take).unwrap_or_default();
        Delta::Other(Box::new(Meta::from_iter([(self.provider.clone(), raw)])))
    }

    fn seal(&self, signature: Option<String>, out: &mut Out<'_>) {
        if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
            out.add(Delta::Sealed(Seal::Signature(signature)));
        }
    }

    fn signed(&self, signature: Option<&str>) -> Meta {
        let signature = signature.filter(|signature| !signature.is_empty());
        let signed = signature.map(|signature| (self.provider.clone(), json!({ "thoughtSignature": signature })));
        signed.into_iter().collect()
    }
}

/// A step of one of Google's own tools.
enum Hosted {
    Call(String),
    Result(String),
}

fn hosted(kind: &str) -> Option<Hosted> {
    let call = kind.strip_suffix("_call").map(|tool| Hosted::Call(tool.to_owned()));
    call.or_else(|| kind.strip_suffix("_result").map(|tool| Hosted::Result(tool.to_owned())))
        .filter(|_| !kind.starts_with("function_"))
}

/// What some arguments are: an object, or a piece of its text.
enum Arguments {
    Whole(String),
    Piece(String),
    None,
}

impl Arguments {
    fn of(raw: &RawValue) -> Self {
        match serde_json::from_str::<String>(raw.get()) {
            Ok(piece) => Self::Piece(piece),
            Err(_) if raw.get() == "null" || raw.get().bytes().filter(|b| !b.is_ascii_whitespace()).eq(*b"{}") => {
                Self::None // What a call begins with before its input comes.
            }
            Err(_) => Self::Whole(raw.get().to_owned()),
        }
    }
}

/// The texts of one piece of content, or of a list of them.
fn texts(content: Option<&Value>) -> impl Iterator<Item = String> {
    let list = content.into_iter().flat_map(|content| match content {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    });
    list.filter_map(|content| content["text"].as_str()).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn file(delta: &InteractionStep<'_>) -> Option<Delta> {
    let bytes = BASE64.decode(delta.data.as_ref()?).ok()?;
    let media_type = delta.mime_type.clone().unwrap_or_else(|| "application/octet-stream".into());
    let file = File { name: String::new(), media_type, bytes: Some(bytes.into()), meta: Meta::new() };
    Some(Delta::File(Box::new(file)))
}
