//! A request, as the JSON of the Responses wire.
//!
//! The input is a list of items, the same kinds of item that a response consists of. What the provider made comes back as
//! it was: a thought under its id and with its seal, a search as the item it was, a message under its id and phase. What
//! others made, or what lost its neighbours and with them its metadata, is told as plain messages and calls.

use std::collections::BTreeSet;

use everturn_core::message::{Seal, Text};
use everturn_core::prompt::{
    HostedResult, OutputFormat, PromptCall, PromptEntry, PromptMedia, PromptPart, PromptResult, Request, Role,
    SealedReasoning, ToolChoice, ToolSpec,
};
use serde_json::{Map, Value, json};

use super::Options;
use super::decode::ResponseRetention;
use crate::catalogue::Card;
use crate::openai::{data_url, effort_word, extra, file_name, left_out, own, result_text, schema_fields, system};

/// The least number of tokens the provider lets an answer have.
const OUTPUT_MIN: u32 = 16;

/// What the provider will keep of the response to a request.
pub(super) fn keeps(request: &Request, options: &Options) -> ResponseRetention {
    match (request.background, options.store) {
        (true, _) => ResponseRetention::Generation,
        (false, true) => ResponseRetention::Response,
        (false, false) => ResponseRetention::Nothing,
    }
}

/// The JSON of a request.
pub(super) fn body(request: &Request, card: &Card, options: &Options) -> Value {
    let keeps = keeps(request, options);
    let mut body = extra(&options.extra, card);
    let chain = request.chain.as_ref().filter(|_| keeps != ResponseRetention::Nothing); // What is not kept cannot be built upon.
    if let Some(chain) = chain {
        body.insert("previous_response_id".into(), chain.response_id.clone().into());
    }
    let ids = if chain.is_some() { Ids::Providers } else { Ids::Ours };
    let mut input = Input { provider: request.model.provider(), ids, used: BTreeSet::new(), items: Vec::new() };
    let unseen = chain.map_or(0, |chain| chain.from);
    request.entries.iter().skip(unseen).for_each(|entry| input.entry(entry));
    body.insert("model".into(), request.model.name().into());
    body.insert("input".into(), input.items.into());
    body.insert("max_output_tokens".into(), request.max_output.max(OUTPUT_MIN).into());
    body.insert("store".into(), (keeps != ResponseRetention::Nothing).into());
    body.insert("stream".into(), true.into());
    if let Some(system) = system(request) {
        body.insert("instructions".into(), system.into());
    }
    if keeps == ResponseRetention::Generation {
        body.insert("background".into(), true.into());
    }
    // This wire has neither seed nor stop sequences.
    body.extend(request.sampling.temperature.map(|value| ("temperature".into(), value.into())));
    body.extend(request.sampling.top_p.map(|value| ("top_p".into(), value.into())));
    offer(request, &mut body);
    if let Some(format) = format(&request.format) {
        let text = body.entry("text").or_insert_with(|| json!({}));
        text["format"] = format;
    }
    think(request, card, &mut body);
    include(request, card, &mut body);
    left_out(&options.extra, &mut body);
    Value::Object(body)
}

/// The form the answer must have.
fn format(format: &OutputFormat) -> Option<Value> {
    match format {
        OutputFormat::Text => None,
        OutputFormat::JsonObject => Some(json!({"type": "json_object"})),
        OutputFormat::Schema(schema) => {
            let mut fields = schema_fields(schema);
            fields.insert("type".into(), "json_schema".into());
            Some(fields.into())
        }
    }
}

fn offer(request: &Request, body: &mut Map<String, Value>) {
    if request.tools.is_empty() {
        return;
    }
    body.insert("tools".into(), request.tools.iter().map(tool).collect());
    body.extend(request.parallel_calls.map(|allowed| ("parallel_tool_calls".into(), allowed.into())));
    let choice = match &request.tool_choice {
        ToolChoice::Auto => return,
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Tool(name) => {
            let own =
                request.tools.iter().find(|tool| tool.name == *name).and_then(|tool| tool.provider_defined.as_ref());
            match own.filter(|own| own["type"] != "function") {
                Some(own) => json!({"type": own["type"]}),
                None => json!({"type": "function", "name": name}),
            }
        }
    };
    body.insert("tool_choice".into(), choice);
}

fn tool(tool: &ToolSpec) -> Value {
    let ToolSpec { name, description, input_schema, provider_defined } = tool;
    provider_defined.clone().unwrap_or_else(|| {
        // Strict is what the provider takes for granted, and it refuses most schemas then.
        json!({
            "type": "function", "name": name, "description": description, "parameters": input_schema, "strict": false,
        })
    })
}

fn think(request: &Request, card: &Card, body: &mut Map<String, Value>) {
    let mut reasoning = body.remove("reasoning").and_then(|value| value.as_object().cloned()).unwrap_or_default();
    if let Some(word) = request.effort.and_then(|effort| effort_word(effort, card)) {
        reasoning.insert("effort".into(), word.into());
    }
    if let (Some(true), Some(shown)) = (card.thinks, &card.shown) {
        reasoning.entry("summary").or_insert_with(|| shown.clone().into());
    }
    if !reasoning.is_empty() {
        body.insert("reasoning".into(), reasoning.into());
    }
}

/// What the response should hold besides what it holds anyway. Seals are refused by models that do not think.
fn include(request: &Request, card: &Card, body: &mut Map<String, Value>) {
    let mut wanted = body.remove("include").and_then(|value| value.as_array().cloned()).unwrap_or_default();
    if card.thinks == Some(true) {
        wanted.push("reasoning.encrypted_content".into());
    }
    let searches = |tool: &ToolSpec| {
        let kind = tool.provider_defined.as_ref().and_then(|own| own["type"].as_str());
        kind.is_some_and(|kind| kind.starts_with("web_search"))
    };
    if request.tools.iter().any(searches) {
        wanted.push("web_search_call.action.sources".into());
    }
    wanted.dedup();
    if !wanted.is_empty() {
        body.insert("include".into(), wanted.into());
    }
}

/// The side that names calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ids {
    /// Ours, which are never missing and never the same.
    Ours,
    /// The provider's, because it is the provider that has the calls.
    Providers,
}

struct Input<'r> {
    provider: &'r str,
    ids: Ids,
    /// Ids of items that are in: each may be there once.
    used: BTreeSet<String>,
    items: Vec<Value>,
}

impl Input<'_> {
    fn entry(&mut self, entry: &PromptEntry) {
        if entry.role == Role::User {
            let content: Vec<Value> = entry.parts.iter().filter_map(shown).collect();
            self.items.push(json!({"type": "message", "role": "user", "content": content}));
            return;
        }
        let from = self.items.len();
        for part in &entry.parts {
            match part {
                PromptPart::Text(text) => self.words(text, from),
                PromptPart::Reasoning(sealed) => self.thought(sealed),
                PromptPart::Call(call) => self.call(call),
                PromptPart::Result(result) => self.result(result),
                PromptPart::HostedResult(result) => self.hosted(result),
                PromptPart::HostedCall(_) => {} // Its item comes with its outcome.
                PromptPart::File(file) => self.items.extend(shown(&PromptPart::File(file.clone()))),
            }
        }
    }

    /// Words of the model. Parts of one message become parts of one message; `from` is where the entry began.
    fn words(&mut self, text: &Text, from: usize) {
        let none = Map::new();
        let about = own(&text.meta, self.provider).unwrap_or(&none);
        let id = about.get("id").and_then(Value::as_str).unwrap_or_default();
        let last = self.items[from..].last_mut().filter(|item| item["role"] == "assistant");
        if id.is_empty() || (self.used.contains(id) && last.as_ref().is_none_or(|last| last["id"] != id)) {
            return self.plain_words(text, about.get("phase"), from);
        }
        let part = if about.get("refusal") == Some(&Value::Bool(true)) {
            json!({"type": "refusal", "refusal": text.text})
        } else {
            let annotations = about.get("annotations").cloned().unwrap_or_else(|| json!([]));
            json!({"type": "output_text", "text": text.text, "annotations": annotations})
        };
        if let Some(content) = last.filter(|last| last["id"] == id).and_then(|last| last["content"].as_array_mut()) {
            return content.push(part);
        }
        self.used.insert(id.to_owned());
        let mut item = json!({"type": "message", "role": "assistant", "status": "completed", "content": [part]});
        for (key, value) in about.iter().filter(|(key, _)| !matches!(key.as_str(), "annotations" | "refusal")) {
            item[key] = value.clone();
        }
        self.items.push(item);
    }

    /// Text without a known item.
    fn plain_words(&mut self, text: &Text, phase: Option<&Value>, from: usize) {
        let last =
            self.items[from..].last_mut().filter(|item| item["content"].is_string() && item.get("phase") == phase);
        if let Some(Value::String(content)) = last.map(|item| &mut item["content"]) {
            return content.push_str(&text.text);
        }
        let mut item = json!({"type": "message", "role": "assistant", "content": text.text});
        if let Some(phase) = phase {
            item["phase"] = phase.clone();
        }
        self.items.push(item);
    }

    fn thought(&mut self, sealed: &SealedReasoning) {
        let (Seal::Signature(seal) | Seal::Redacted(seal)) = &sealed.seal;
        let mut item = json!({"type": "reasoning", "summary": [], "encrypted_content": seal});
        match own(&sealed.meta, self.provider) {
            Some(about) => about.iter().for_each(|(key, value)| item[key] = value.clone()),
            None if sealed.text.is_empty() => {}
            None => item["summary"] = json!([{"type": "summary_text", "text": sealed.text}]),
        }
        if self.note_new(&item) {
            self.items.push(item);
        }
    }

    fn call(&mut self, call: &PromptCall) {
        let input = Value::Object(call.input.clone()).to_string();
        let mut item = json!({"type": "function_call", "call_id": call.id, "name": call.tool, "arguments": input});
        for (key, value) in own(&call.meta, self.provider).into_iter().flatten() {
            item[key] = value.clone();
        }
        if !self.note_new(&item) {
            item.as_object_mut().map(|item| item.remove("id"));
        }
        self.items.push(item);
    }

    fn result(&mut self, result: &PromptResult) {
        let id = match self.ids {
            Ids::Ours => &result.id,
            Ids::Providers => &result.provider_id,
        };
        let output: Value = if result.media.is_empty() {
            result_text(result).into()
        } else {
            let text =
                (!result.text.trim().is_empty()).then(|| json!({"type": "input_text", "text": result_text(result)}));
            text.into_iter().chain(result.media.iter().map(|one| medium(one, "file"))).collect()
        };
        self.items.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
    }

    fn hosted(&mut self, result: &HostedResult) {
        let item = own(&result.meta, self.provider).filter(|item| item.contains_key("type"));
        if let Some(item) = item.map(|item| Value::Object(item.clone())).filter(|item| self.note_new(item)) {
            self.items.push(item);
        }
    }

    /// Notes that an item of this id is in, and returns whether it is the first.
    fn note_new(&mut self, item: &Value) -> bool {
        item["id"].as_str().is_none_or(|id| self.used.insert(id.to_owned()))
    }
}

/// What a person says or shows.
fn shown(part: &PromptPart) -> Option<Value> {
    match part {
        PromptPart::Text(text) => Some(json!({"type": "input_text", "text": text.text})),
        PromptPart::File(file) => Some(medium(&file.media, &file_name(file))),
        _ => None,
    }
}

fn medium(media: &PromptMedia, name: &str) -> Value {
    if media.media_type.starts_with("image/") {
        json!({"type": "input_image", "image_url": data_url(media), "detail": "auto"})
    } else {
        json!({"type": "input_file", "filename": name, "file_data": data_url(media)})
    }
}
