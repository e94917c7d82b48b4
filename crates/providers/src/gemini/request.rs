//! A request as `generateContent` wants it.
//!
//! Roles take turns, results are told by the person, and whatever Gemini signed goes back in the part it came
//! in, to the byte. A call of another provider has no signature; for those the documentation names a
//! placeholder.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use everturn_core::message::{Meta, Seal};
use everturn_core::prompt::{
    HostedCall, HostedResult, OutputFormat, PromptCall, PromptEntry, PromptMedia, PromptPart, PromptResult, Request,
    Role, Sampling, SealedReasoning, ToolChoice, gemini_schema,
};
use serde_json::{Map, Value, json};

use super::family::GeminiFamily;

#[cfg(test)]
mod tests;

/// What stands for the signature of a call that Gemini did not make.
pub(super) const FOREIGN_SIGNATURE: &str = "skip_thought_signature_validator";

/// The provider's own tool that runs code; its parts have a form of their own.
pub(super) const CODE_EXECUTION: &str = "code_execution";

/// The tools with parts that may be sent back unchanged.
pub(super) const REPLAYED: [&str; 6] =
    [CODE_EXECUTION, "GOOGLE_SEARCH_WEB", "GOOGLE_SEARCH_IMAGE", "GOOGLE_MAPS", "URL_CONTEXT", "FILE_SEARCH"];

/// Where a request to `model` goes.
pub(super) fn path(model: &str) -> String {
    let model = if model.contains('/') { model.to_owned() } else { format!("models/{model}") };
    format!("{model}:streamGenerateContent?alt=sse")
}

/// What is sent there.
pub(super) fn body(request: &Request, family: GeminiFamily) -> Value {
    let mut body = Map::new();
    if !request.system.is_empty() {
        let parts: Vec<Value> = request.system.iter().map(|piece| json!({ "text": piece })).collect();
        body.insert("systemInstruction".into(), json!({ "parts": parts }));
    }
    body.insert("contents".into(), contents(request, family));
    offer(request, family, &mut body);
    let mut generation = Map::from_iter([("maxOutputTokens".to_owned(), json!(request.max_output))]);
    if let Some(thinking) = family.thinking_config(request.effort) {
        generation.insert("thinkingConfig".into(), thinking);
    }
    pick(request, &mut generation);
    match &request.format {
        OutputFormat::Text => {}
        OutputFormat::JsonObject => {
            generation.insert("responseMimeType".into(), "application/json".into());
        }
        OutputFormat::Schema(schema) => {
            generation.insert("responseMimeType".into(), "application/json".into());
            generation.insert("responseJsonSchema".into(), schema.schema.clone());
        }
    }
    body.insert("generationConfig".into(), Value::Object(generation));
    Value::Object(body)
}

/// How the model picks its words, and what ends its answer.
fn pick(request: &Request, generation: &mut Map<String, Value>) {
    let Sampling { temperature, top_p, top_k, seed, stop } = &request.sampling;
    generation.extend(temperature.map(|value| ("temperature".into(), value.into())));
    generation.extend(top_p.map(|value| ("topP".into(), value.into())));
    generation.extend(top_k.map(|value| ("topK".into(), value.into())));
    generation.extend(seed.map(|value| ("seed".into(), value.into())));
    if !stop.is_empty() {
        generation.insert("stopSequences".into(), stop.clone().into());
    }
}

fn contents(request: &Request, family: GeminiFamily) -> Value {
    let mut writer = Writer { provider: request.model.provider(), family, ids: CallIds::Left };
    request.entries.iter().map(|entry| writer.content(entry)).collect()
}

/// Whether calls and results name each other by the provider's ids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallIds {
    /// As the provider named them.
    Sent,
    /// One of them is missing or repeated, so their order has to do.
    Left,
}

impl CallIds {
    /// How the calls of a reply are named. Its results follow in the next entry and are named the same way.
    pub(super) fn of(entry: &PromptEntry) -> Self {
        let calls = entry.parts.iter().filter_map(|part| match part {
            PromptPart::Call(call) => Some(call.provider_id.as_str()),
            _ => None,
        });
        let mut ids: Vec<&str> = calls.collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        let told_apart = ids.len() == count && ids.iter().all(|id| !id.trim().is_empty());
        if told_apart { Self::Sent } else { Self::Left }
    }
}

struct Writer<'a> {
    provider: &'a str,
    family: GeminiFamily,
    ids: CallIds,
}

impl Writer<'_> {
    fn content(&mut self, entry: &PromptEntry) -> Value {
        let role = match entry.role {
            Role::User | Role::Tool => "user",
            Role::Assistant => "model",
        };
        if entry.role == Role::Assistant {
            self.ids = CallIds::of(entry);
        }
        let first_call = entry.parts.iter().position(|part| matches!(part, PromptPart::Call(_)));
        let parts: Vec<Value> = entry
            .parts
            .iter()
            .enumerate()
            .map(|(at, part)| match part {
                PromptPart::Text(text) => self.signed(json!({ "text": text.text }), &text.meta),
                PromptPart::File(file) => self.signed(inline(&file.media), &file.meta),
                PromptPart::Reasoning(sealed) => thought(sealed),
                PromptPart::Call(call) => self.call(call, first_call == Some(at)),
                PromptPart::Result(result) => self.result(result),
                PromptPart::HostedCall(call) => self.signed(hosted_call(call), &call.meta),
                PromptPart::HostedResult(result) => self.signed(hosted_result(result), &result.meta),
            })
            .collect();
        json!({ "role": role, "parts": parts })
    }

    /// A part with the signature it came with.
    fn signed(&self, mut part: Value, meta: &Meta) -> Value {
        if let Some(signature) = signature(meta, self.provider) {
            part["thoughtSignature"] = signature.into();
        }
        part
    }

    fn call(&self, call: &PromptCall, is_first: bool) -> Value {
        let mut named = json!({ "name": call.tool, "args": call.input });
        if self.ids == CallIds::Sent {
            named["id"] = call.provider_id.as_str().into();
        }
        let mut part = json!({ "functionCall": named });
        match signature(&call.meta, self.provider) {
            Some(signature) => part["thoughtSignature"] = signature.into(),
            None if is_first && self.family.wants_signatures() => part["thoughtSignature"] = FOREIGN_SIGNATURE.into(),
            None => {}
        }
        part
    }

    fn result(&self, result: &PromptResult) -> Value {
        let key = if result.is_error { "error" } else { "output" };
        let mut named = json!({ "name": result.tool, "response": { key: result.text } });
        if self.ids == CallIds::Sent {
            named["id"] = result.provider_id.as_str().into();
        }
        if !result.media.is_empty() {
            named["parts"] = result.media.iter().map(inline).collect();
        }
        json!({ "functionResponse": named })
    }
}

/// The signature a part came with.
pub(super) fn signature<'a>(meta: &'a Meta, provider: &str) -> Option<&'a str> {
    meta.get(provider)?.get("thoughtSignature")?.as_str()
}

pub(super) fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

fn inline(media: &PromptMedia) -> Value {
    json!({ "inlineData": { "mimeType": media.media_type, "data": base64(&media.bytes) } })
}

/// A thought that was never shown came as a bare signature, and goes back as one.
fn thought(sealed: &SealedReasoning) -> Value {
    let (Seal::Signature(seal) | Seal::Redacted(seal)) = &sealed.seal;
    if sealed.text.is_empty() {
        return json!({ "text": "", "thoughtSignature": seal });
    }
    json!({ "text": sealed.text, "thought": true, "thoughtSignature": seal })
}

fn hosted_call(call: &HostedCall) -> Value {
    if call.tool == CODE_EXECUTION {
        return json!({ "executableCode": call.input });
    }
    json!({ "toolCall": { "id": call.id, "toolType": call.tool, "args": call.input } })
}

fn hosted_result(result: &HostedResult) -> Value {
    if result.tool == CODE_EXECUTION {
        return json!({ "codeExecutionResult": result.output });
    }
    json!({ "toolResponse": { "id": result.id, "toolType": result.tool, "response": result.output } })
}

/// The tools, and what may be done with them.
fn offer(request: &Request, family: GeminiFamily, body: &mut Map<String, Value>) {
    let mut tools: Vec<Value> = request.tools.iter().filter_map(|tool| tool.provider_defined.clone()).collect();
    let hosted = !tools.is_empty();
    let functions: Vec<Value> =
        request.tools.iter().filter(|tool| tool.provider_defined.is_none()).map(function).collect();
    let mut config = Map::new();
    if !functions.is_empty() {
        tools.push(json!({ "functionDeclarations": functions }));
        if let Some(calling) = calling(&request.tool_choice) {
            config.insert("functionCallingConfig".into(), calling);
        }
        if hosted && family.mixes_tools() {
            config.insert("includeServerSideToolInvocations".into(), true.into());
        }
    }
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    if !config.is_empty() {
        body.insert("toolConfig".into(), Value::Object(config));
    }
}

fn function(tool: &everturn_core::prompt::ToolSpec) -> Value {
    let mut declared = json!({ "name": tool.name, "description": tool.description });
    if let Some(schema) = gemini_schema(&tool.input_schema) {
        declared["parameters"] = schema;
    }
    declared
}

fn calling(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!({ "mode": "NONE" })),
        ToolChoice::Required => Some(json!({ "mode": "ANY" })),
        ToolChoice::Tool(name) => Some(json!({ "mode": "ANY", "allowedFunctionNames": [name] })),
    }
}
