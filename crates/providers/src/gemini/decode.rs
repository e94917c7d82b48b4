//! From frames of `streamGenerateContent` to deltas.
//!
//! Each frame holds some parts, of any kinds, and says in no way which of them belong together: a text goes on in the
//! next frame, a call comes whole, a signature may come in the part it signs or alone behind it. Text is joined while its
//! kind stays the same and nothing signed it; a part with a signature stays a part of its own, because it must go back
//! as it came. The answer is over with a `finishReason`, and with nothing else.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use everturn_core::delta::{CallBegan, Delta, ProvidedDelta};
use everturn_core::error::ProviderError;
use everturn_core::message::{File, Meta, RunBy, Seal};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::classify::{ClientCalls, GeminiEnding, Judged, in_stream, malformed};
use super::grounding::GroundingSources;
use super::request::CODE_EXECUTION;
use super::usage::{Counted, GeminiCounts};
use crate::classify::error_in;
use crate::provider::Frame;
use crate::sse::SseEvent;
use crate::wire::Decode;

mod chunk;
#[cfg(test)]
mod tests;

pub(super) use chunk::Rating;
use chunk::{Candidate, FunctionCall, GeminiChunk, GeminiPart, ToolCall, ToolResponse};

/// An answer of `generateContent` on its way.
#[derive(Debug)]
pub struct GenerateContent {
    provider: String,
    newest: Newest,
    /// How many calls there were: the next one's slot.
    calls: u32,
    /// Whether one of them is ours.
    ours: ClientCalls,
    /// Calls of the provider's own tools, by its ids.
    hosted: HashMap<String, u32>,
    counted: Counted,
    sources: GroundingSources,
    response_id: String,
    meta: Map<String, Value>,
}

/// What the newest part is, as far as a signature that comes after it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Newest {
    /// There is none, or it has its signature.
    Closed,
    Text,
    Reasoning,
    /// Something that came whole.
    Whole,
}

impl GenerateContent {
    /// An answer of `provider` of which nothing has come.
    #[must_use]
    pub fn new(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            newest: Newest::Closed,
            calls: 0,
            ours: ClientCalls::None,
            hosted: HashMap::new(),
            counted: Counted::default(),
            sources: GroundingSources::default(),
            response_id: String::new(),
            meta: Map::new(),
        }
    }
}

impl Decode for GenerateContent {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        if event.data.trim() == "[DONE]" {
            return Ok(()); // A gateway's habit. It proves nothing.
        }
        if let Some(error) = error_in(event) {
            return Err(in_stream(&self.provider, &error));
        }
        let chunk: GeminiChunk<'_> = serde_json::from_str(event.data)
            .map_err(|_| malformed(&self.provider, "a frame is not a response of generateContent"))?;
        let seen = out.len();
        let ended = self.chunk(chunk, event.data, &mut Out(out));
        if out.len() == seen && ended.is_ok() {
            out.push(Frame::Ping);
        }
        ended
    }
}

/// Where deltas go.
struct Out<'a>(&'a mut Vec<Frame>);

impl Out<'_> {
    fn add(&mut self, delta: Delta) {
        self.0.push(Frame::Delta(delta));
    }
}

impl GenerateContent {
    fn chunk(&mut self, chunk: GeminiChunk<'_>, data: &str, out: &mut Out<'_>) -> Result<(), ProviderError> {
        if let Some(id) = chunk.response_id.filter(|id| !id.is_empty() && *id != self.response_id) {
            out.add(Delta::ResponseId(id.clone()));
            self.response_id = id;
        }
        if let Some(version) = chunk.model_version {
            self.meta.insert("modelVersion".into(), version.into());
        }
        if let Some(counts) = &chunk.usage_metadata {
            self.counted.update(&GeminiCounts {
                prompt: counts.prompt_token_count.as_ref(),
                cached: counts.cached_content_token_count.as_ref(),
                tool_use: counts.tool_use_prompt_token_count.as_ref(),
                answer: counts.candidates_token_count.as_ref(),
                thoughts: counts.thoughts_token_count.as_ref(),
            });
        }
        let candidates = chunk.candidates.unwrap_or_default();
        // We ask for one answer. What others a gateway may send are not it.
        let first = candidates.into_iter().enumerate().find(|(_, candidate)| candidate.index.unwrap_or(0) == 0);
        let answered = match first {
            Some((at, candidate)) => self.candidate(candidate, at, data, out)?,
            None => None,
        };
        let blocked = chunk.prompt_feedback.and_then(|feedback| {
            let (reason, message) = (feedback.block_reason?, feedback.block_reason_message.unwrap_or_default());
            let ratings = feedback.safety_ratings.unwrap_or_default();
            Some(GeminiEnding { of: Judged::Question, reason, message, ratings })
        });
        let ended = blocked.or(answered);
        if ended.is_some() {
            self.counted.close();
        }
        if let Some(report) = self.counted.news() {
            out.add(Delta::Usage(report.into()));
        }
        let Some(ended) = ended else { return Ok(()) };
        self.sources.take().into_iter().for_each(|source| out.add(Delta::Source(Box::new(source))));
        if !self.meta.is_empty() {
            let meta = std::mem::take(&mut self.meta);
            out.add(Delta::ReplyMeta(Box::new(Meta::from_iter([(self.provider.clone(), Value::Object(meta))]))));
        }
        out.0.push(Frame::Stop(ended.stop(&self.provider, self.ours)?));
        Ok(())
    }

    /// Takes what is new of the answer, and says how it ended if it did.
    fn candidate(
        &mut self,
        candidate: Candidate<'_>,
        at: usize,
        data: &str,
        out: &mut Out<'_>,
    ) -> Result<Option<GeminiEnding>, ProviderError> {
        let parts = candidate.content.and_then(|content| content.parts).unwrap_or_default();
        let mut whole = None;
        for (nth, part) in parts.into_iter().enumerate() {
            let raw = || raw_part(whole.get_or_insert_with(|| serde_json::from_str(data).unwrap_or_default()), at, nth);
            self.part(part, raw, out)?;
        }
        let beside = [
            ("groundingMetadata", candidate.grounding_metadata),
            ("citationMetadata", candidate.citation_metadata),
            ("urlContextMetadata", candidate.url_context_metadata),
            ("continuationToken", candidate.continuation_token.map(Value::from)),
        ];
        for (name, value) in beside {
            let Some(value) = value.filter(|value| !value.is_null()) else { continue };
            match name {
                "groundingMetadata" => self.sources.ground(&self.provider, &value),
                "citationMetadata" => self.sources.quote(&self.provider, &value),
                "urlContextMetadata" => self.sources.read(&self.provider, &value),
                _ => {}
            }
            self.meta.insert(name.into(), value);
        }
        let reason = candidate.finish_reason.filter(|reason| !reason.is_empty());
        let (message, ratings) = (candidate.finish_message, candidate.safety_ratings);
        Ok(reason.map(|reason| GeminiEnding {
            of: Judged::Answer,
            reason,
            message: message.unwrap_or_default(),
            ratings: ratings.unwrap_or_default(),
        }))
    }

    fn part(
        &mut self,
        part: GeminiPart<'_>,
        raw: impl FnOnce() -> Value,
        out: &mut Out<'_>,
    ) -> Result<(), ProviderError> {
        let thought = part.thought == Some(true);
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        let meta = self.signed(signature.as_deref());
        if let Some(call) = part.function_call {
            self.call(call, meta, out)?;
        } else if let Some(call) = part.tool_call {
            self.hosted_call(call, meta, out);
        } else if let Some(response) = part.tool_response {
            self.hosted_result(response, meta, out);
        } else if let Some(code) = part.executable_code {
            let id = serde_json::from_str::<Value>(code.get()).unwrap_or_default()["id"].as_str().map(str::to_owned);
            let call = ToolCall { id, tool_type: Some(CODE_EXECUTION.into()), args: Some(code) };
            self.hosted_call(call, meta, out);
        } else if let Some(result) = part.code_execution_result {
            let id = result["id"].as_str().map(str::to_owned);
            let tool_type = Some(CODE_EXECUTION.into());
            self.hosted_result(ToolResponse { id, tool_type, response: Some(result) }, meta, out);
        } else if let Some(file) = part.inline_data.filter(|_| !thought).and_then(|blob| file(blob, &meta)) {
            out.add(Delta::File(Box::new(file)));
        } else if let Some(text) = part.text {
            self.text(text, thought, signature, out);
            return Ok(());
        } else if signature.is_some() {
            self.text(String::new(), thought, signature, out);
            return Ok(());
        } else {
            out.add(Delta::Other(Box::new(Meta::from_iter([(self.provider.clone(), raw())]))));
        }
        self.newest = if signature.is_some() { Newest::Closed } else { Newest::Whole };
        Ok(())
    }

    fn text(&mut self, text: String, thought: bool, signature: Option<String>, out: &mut Out<'_>) {
        match (thought, text.is_empty(), signature) {
            (_, true, None) => {}
            (true, is_empty, signature) => {
                if !is_empty {
                    out.add(Delta::Reasoning(text));
                    self.newest = Newest::Reasoning;
                }
                if let Some(signature) = signature {
                    self.seal(signature, out);
                }
            }
            (false, false, None) => {
                out.add(Delta::Text(text));
                self.newest = Newest::Text;
            }
            (false, false, signature @ Some(_)) => {
                if self.newest == Newest::Text {
                    out.add(Delta::Ended);
                }
                out.add(Delta::Text(text));
                out.add(Delta::PartMeta(Box::new(self.signed(signature.as_deref()))));
                self.end(out);
            }
            (false, true, Some(signature)) => self.sign_newest(signature, out),
        }
    }

    /// A signature alone is that of the part before it; where that has one, of a thought that was not shown.
    fn sign_newest(&mut self, signature: String, out: &mut Out<'_>) {
        match self.newest {
            Newest::Text | Newest::Whole => {
                out.add(Delta::PartMeta(Box::new(self.signed(Some(&signature)))));
                if self.newest == Newest::Text {
                    out.add(Delta::Ended);
                }
                self.newest = Newest::Closed;
            }
            Newest::Reasoning | Newest::Closed => self.seal(signature, out),
        }
    }

    fn seal(&mut self, signature: String, out: &mut Out<'_>) {
        out.add(Delta::Sealed(Seal::Signature(signature)));
        self.end(out);
    }

    fn end(&mut self, out: &mut Out<'_>) {
        out.add(Delta::Ended);
        self.newest = Newest::Closed;
    }

    /// The metadata of a part with this signature.
    fn signed(&self, signature: Option<&str>) -> Meta {
        let signature = signature.map(|signature| (self.provider.clone(), json!({ "thoughtSignature": signature })));
        signature.into_iter().collect()
    }

    fn call(&mut self, call: FunctionCall<'_>, meta: Meta, out: &mut Out<'_>) -> Result<(), ProviderError> {
        if call.partial_args.is_some() || call.will_continue == Some(true) {
            return Err(malformed(&self.provider, "a call in pieces, which was not requested"));
        }
        self.ours = ClientCalls::Some;
        let (id, name) = (call.id.unwrap_or_default(), call.name.unwrap_or_default());
        self.whole_call(id, name, RunBy::Us, call.args, meta, out);
        Ok(())
    }

    fn hosted_call(&mut self, call: ToolCall<'_>, meta: Meta, out: &mut Out<'_>) {
        let (id, tool) = (call.id.unwrap_or_default(), call.tool_type.unwrap_or_default());
        self.hosted.insert(id.clone(), self.calls);
        self.whole_call(id, tool, RunBy::Provider, call.args, meta, out);
    }

    fn whole_call(
        &mut self,
        provider_id: String,
        tool: String,
        run_by: RunBy,
        args: Option<&RawValue>,
        meta: Meta,
        out: &mut Out<'_>,
    ) {
        let slot = self.calls;
        self.calls = self.calls.saturating_add(1);
        out.add(Delta::CallBegan(Box::new(CallBegan { slot, provider_id, tool, run_by, meta })));
        let json = args.map(RawValue::get).filter(|json| *json != "null").unwrap_or("{}").to_owned();
        out.add(Delta::CallInput { slot, json });
        out.add(Delta::CallEnded { slot });
    }

    fn hosted_result(&mut self, result: ToolResponse, meta: Meta, out: &mut Out<'_>) {
        let id = result.id.unwrap_or_default();
        let slot = self.hosted.get(&id).copied();
        let (tool, output) = (result.tool_type.unwrap_or_default(), result.response.unwrap_or_default());
        out.add(Delta::Provided(Box::new(ProvidedDelta { slot, tool, output, meta })));
    }
}

fn file(blob: chunk::InlineData, meta: &Meta) -> Option<File> {
    let bytes = BASE64.decode(blob.data?).ok()?;
    let media_type = blob.mime_type.unwrap_or_else(|| "application/octet-stream".into());
    Some(File { name: String::new(), media_type, bytes: Some(bytes.into()), meta: meta.clone() })
}

/// An unknown part, as it came. The chunk is parsed again for the first of them only.
fn raw_part(chunk: &mut Value, candidate: usize, part: usize) -> Value {
    let place = format!("/candidates/{candidate}/content/parts/{part}");
    chunk.pointer_mut(&place).map(Value::take).unwrap_or_default()
}
