//! A request as an interaction wants it: steps instead of turns.

use everturn_core::message::{Meta, Seal};
use everturn_core::prompt::{
    OutputFormat, PromptCall, PromptEntry, PromptMedia, PromptPart, PromptResult, Request, Role, Sampling, ToolChoice,
    ToolSpec,
};
use serde_json::{Map, Value, json};

use super::super::family::GeminiFamily;
use super::super::request::{CallIds, FOREIGN_SIGNATURE, base64, signature};

#[cfg(test)]
mod tests;

/// What is sent. The interaction is stored, streamed, and goes on in the background.
pub(in super::super) fn body(request: &Request, family: GeminiFamily) -> Value {
    let mut body = json!({
        "model": request.model.name(),
        "input": input(request, family),
        "stream": true,
        "background": true,
        "store": true,
        "generation_config": generation(request, family),
    });
    if !request.system.is_empty() {
        body["system_instruction"] = request.system.join("\n\n").into();
    }
    match &request.format {
        OutputFormat::Text => {}
        OutputFormat::JsonObject => body["response_mime_type"] = "application/json".into(),
        OutputFormat::Schema(schema) => {
            body["response_mime_type"] = "application/json".into();
            body["response_format"] = schema.schema.clone();
        }
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    body
}

fn generation(request: &Request, family: GeminiFamily) -> Value {
    let mut config = Map::from_iter([("max_output_tokens".to_owned(), json!(request.max_output))]);
    if family.thinks() && request.effort != Some(everturn_core::prompt::Effort::None) {
        config.insert("thinking_summaries".into(), "auto".into());
    }
    if let Some(level) = request.effort.and_then(|effort| family.level(effort)) {
        config.insert("thinking_level".into(), level.into());
    }
    let Sampling { temperature, top_p, seed, stop, .. } = &request.sampling; // There is no `top_k` on this wire.
    config.extend(temperature.map(|value| ("temperature".to_owned(), value.into())));
    config.extend(top_p.map(|value| ("top_p".to_owned(), value.into())));
    config.extend(seed.map(|value| ("seed".to_owned(), value.into())));
    if !stop.is_empty() {
        config.insert("stop_sequences".into(), stop.clone().into());
    }
    let choice = match &request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!("none")),
        ToolChoice::Required => Some(json!("any")),
        ToolChoice::Tool(name) => Some(json!({ "allowed_tools": { "mode": "any", "tools": [name] } })),
    };
    config.extend(choice.filter(|_| !request.tools.is_empty()).map(|choice| ("tool_choice".to_owned(), choice)));
    Value::Object(config)
}

/// A tool of ours, or one of Google's in this wire's form or in that of `generateContent`.
fn tool(spec: &ToolSpec) -> Value {
    match &spec.provider_defined {
        None => json!({
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.input_schema,
        }),
        Some(Value::Object(own)) if own.len() == 1 && !own.contains_key("type") => {
            let mut tool = Map::new();
            for (name, fields) in own {
                tool.insert("type".into(), snake(name).into());
                tool.extend(fields.as_object().cloned().unwrap_or_default());
            }
            Value::Object(tool)
        }
        Some(own) => own.clone(),
    }
}

/// `googleSearch` as `google_search`.
fn snake(name: &str) -> String {
    let letter = |c: char| match c {
        'A'..='Z' => vec!['_', c.to_ascii_lowercase()],
        _ => vec![c],
    };
    name.chars().flat_map(letter).collect()
}

fn input(request: &Request, family: GeminiFamily) -> Value {
    let mut writer = Writer { provider: request.model.provider(), family, ids: CallIds::Left, steps: Vec::new() };
    request.entries.iter().for_each(|entry| writer.entry(entry));
    Value::Array(writer.steps)
}

struct Writer<'a> {
    provider: &'a str,
    family: GeminiFamily,
    ids: CallIds,
    steps: Vec<Value>,
}

impl Writer<'_> {
    fn entry(&mut self, entry: &PromptEntry) {
        if entry.role == Role::Assistant {
            self.ids = CallIds::of(entry);
        }
        let mut signed = false; // Whether a thought of this reply vouches for its calls.
        let mut first_call = true;
        for part in &entry.parts {
            match part {
                PromptPart::Text(text) => {
                    let kind = if entry.role == Role::Assistant { "model_output" } else { "user_input" };
                    signed |= self.thought(&text.meta);
                    self.say(kind, json!({ "type": "text", "text": text.text }));
                }
                PromptPart::File(file) => self.say("user_input", media(&file.media)),
                PromptPart::Reasoning(sealed) => {
                    let (Seal::Signature(seal) | Seal::Redacted(seal)) = &sealed.seal;
                    let mut thought = json!({ "type": "thought", "signature": seal });
                    if !sealed.text.is_empty() {
                        thought["summary"] = json!([{ "type": "text", "text": sealed.text }]);
                    }
                    self.steps.push(thought);
                    signed = true;
                }
                PromptPart::Call(call) => {
                    signed |= self.thought(&call.meta);
                    if first_call && !signed && self.family.wants_signatures() {
                        self.steps.push(json!({ "type": "thought", "signature": FOREIGN_SIGNATURE }));
                    }
                    first_call = false;
                    self.call(call);
                }
                PromptPart::Result(result) => self.result(result),
                // Prepared without: this wire names these steps differently, so no target of ours replays them.
                PromptPart::HostedCall(_) | PromptPart::HostedResult(_) => {}
            }
        }
    }

    /// Here a signature is not the part's but a thought's before it.
    fn thought(&mut self, meta: &Meta) -> bool {
        let signature = signature(meta, self.provider);
        self.steps.extend(signature.map(|signature| json!({ "type": "thought", "signature": signature })));
        signature.is_some()
    }

    /// Adds to the step under way if it is of this kind, else begins one.
    fn say(&mut self, kind: &str, content: Value) {
        match self.steps.last_mut() {
            Some(step) if step["type"] == kind => {
                if let Some(said) = step["content"].as_array_mut() {
                    said.push(content);
                }
            }
            _ => self.steps.push(json!({ "type": kind, "content": [content] })),
        }
    }

    fn call(&mut self, call: &PromptCall) {
        let id = self.id(&call.id, &call.provider_id);
        let step = json!({ "type": "function_call", "id": id, "name": call.tool, "arguments": call.input });
        self.steps.push(step);
    }

    fn result(&mut self, result: &PromptResult) {
        let told = if result.media.is_empty() {
            Value::from(result.text.as_str())
        } else {
            let text = (!result.text.is_empty()).then(|| json!({ "type": "text", "text": result.text }));
            text.into_iter().chain(result.media.iter().map(media)).collect()
        };
        let mut step = json!({
            "type": "function_result",
            "call_id": self.id(&result.id, &result.provider_id),
            "name": result.tool,
            "result": told,
        });
        if result.is_error {
            step["is_error"] = true.into();
        }
        self.steps.push(step);
    }

    /// An id is demanded here, so where the provider's will not do, ours is sent.
    fn id<'i>(&self, ours: &'i str, theirs: &'i str) -> &'i str {
        match self.ids {
            CallIds::Sent => theirs,
            CallIds::Left => ours,
        }
    }
}

fn media(media: &PromptMedia) -> Value {
    let kind = match media.media_type.split('/').next() {
        Some("image") => "image",
        Some("audio") => "audio",
        Some("video") => "video",
        _ => "document",
    };
    json!({ "type": kind, "mime_type": media.media_type, "data": base64(&media.bytes) })
}
