//! A request, as the JSON of the Chat Completions wire.
//!
//! Written for the least capable server: texts as texts and not as lists of parts, one system message at the
//! top, no field that means nothing. Reasoning is not sent back, since this wire has no seal for it.

use everturn_core::prompt::{
    OutputFormat, PromptCall, PromptEntry, PromptMedia, PromptPart, PromptResult, Request, Role, Sampling, ToolChoice,
    ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::catalogue::Card;
use crate::openai::{base64, data_url, effort_word, extra, file_name, left_out, result_text, schema_fields, system};

/// What the field for the output limit is called by everybody but OpenAI.
const OUTPUT_NAME: &str = "max_tokens";

/// The JSON of a request. `configured` are parameters for every request.
pub(super) fn body(request: &Request, card: &Card, configured: &Map<String, Value>) -> Value {
    let mut body = extra(configured, card);
    let mut messages = Vec::new();
    if let Some(system) = system(request) {
        messages.push(json!({"role": "system", "content": system}));
    }
    request.entries.iter().for_each(|entry| write(entry, &mut messages));
    body.insert("model".into(), request.model.name().into());
    body.insert("messages".into(), messages.into());
    body.insert("stream".into(), true.into());
    body.entry("stream_options").or_insert_with(|| json!({"include_usage": true}));
    if card.output.is_some() || card.context.is_some() || request.output_is_told {
        let limit = card.output_name.as_deref().unwrap_or(OUTPUT_NAME);
        body.insert(limit.into(), request.max_output.into());
    } // Else a guess could be more than the server reads in all, and it would refuse everything.
    if let Some(word) = request.effort.and_then(|effort| effort_word(effort, card)) {
        body.insert("reasoning_effort".into(), word.into());
    }
    pick(request, &mut body);
    offer(request, &mut body);
    body.extend(format(&request.format).map(|format| ("response_format".into(), format)));
    left_out(configured, &mut body);
    Value::Object(body)
}

/// How the model picks its words, and what ends its answer.
fn pick(request: &Request, body: &mut Map<String, Value>) {
    let Sampling { temperature, top_p, top_k, seed, stop } = &request.sampling;
    body.extend(temperature.map(|value| ("temperature".into(), value.into())));
    body.extend(top_p.map(|value| ("top_p".into(), value.into())));
    body.extend(top_k.map(|value| ("top_k".into(), value.into())));
    body.extend(seed.map(|value| ("seed".into(), value.into())));
    if !stop.is_empty() {
        body.insert("stop".into(), stop.clone().into());
    }
}

/// The form the answer must have.
fn format(format: &OutputFormat) -> Option<Value> {
    match format {
        OutputFormat::Text => None,
        OutputFormat::JsonObject => Some(json!({"type": "json_object"})),
        OutputFormat::Schema(schema) => Some(json!({"type": "json_schema", "json_schema": schema_fields(schema)})),
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
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    };
    body.insert("tool_choice".into(), choice);
}

fn tool(tool: &ToolSpec) -> Value {
    let ToolSpec { name, description, input_schema, provider_defined } = tool;
    provider_defined.clone().unwrap_or_else(|| {
        json!({"type": "function", "function": {"name": name, "description": description, "parameters": input_schema}})
    })
}

fn write(entry: &PromptEntry, messages: &mut Vec<Value>) {
    match entry.role {
        Role::User => messages.push(json!({"role": "user", "content": shown(&entry.parts)})),
        Role::Assistant => messages.extend(spoken(&entry.parts)),
        Role::Tool => {
            let results = || entry.parts.iter().filter_map(as_result);
            messages.extend(
                results()
                    .map(|result| json!({"role": "tool", "tool_call_id": result.id, "content": result_text(result)})),
            );
            // A tool can only say. What it shows, the person shows.
            let media: Vec<Value> = results().flat_map(|result| &result.media).map(|one| medium(one, "file")).collect();
            if !media.is_empty() {
                messages.push(json!({"role": "user", "content": media}));
            }
        }
    }
}

const fn as_result(part: &PromptPart) -> Option<&PromptResult> {
    match part {
        PromptPart::Result(result) => Some(result),
        _ => None,
    }
}

/// What the model said: its words as one text, as they were read, and its calls.
fn spoken(parts: &[PromptPart]) -> Option<Value> {
    let texts = parts.iter().filter_map(|part| match part {
        PromptPart::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let text: String = texts.collect();
    let calls: Vec<Value> = parts.iter().filter_map(called).collect();
    let content = if text.is_empty() { Value::Null } else { text.into() };
    match (content, calls.is_empty()) {
        (Value::Null, true) => None,
        (content, true) => Some(json!({"role": "assistant", "content": content})),
        (content, false) => Some(json!({"role": "assistant", "content": content, "tool_calls": calls})),
    }
}

fn called(part: &PromptPart) -> Option<Value> {
    let PromptPart::Call(PromptCall { id, tool, input, .. }) = part else { return None };
    let input = Value::Object(input.clone()).to_string();
    Some(json!({"id": id, "type": "function", "function": {"name": tool, "arguments": input}}))
}

/// What a person says: a text, unless something is shown along with it.
fn shown(parts: &[PromptPart]) -> Value {
    let text = |part: &PromptPart| match part {
        PromptPart::Text(text) => Some(text.text.clone()),
        _ => None,
    };
    if let Some(texts) = parts.iter().map(text).collect::<Option<Vec<String>>>() {
        return texts.join("\n\n").into();
    }
    let parts = parts.iter().filter_map(|part| match part {
        PromptPart::Text(text) => Some(json!({"type": "text", "text": text.text})),
        PromptPart::File(file) => Some(medium(&file.media, &file_name(file))),
        _ => None,
    });
    parts.collect()
}

fn medium(media: &PromptMedia, name: &str) -> Value {
    match media.media_type.split_once('/') {
        Some(("image", _)) => json!({"type": "image_url", "image_url": {"url": data_url(media)}}),
        Some(("audio", kind)) => {
            let format = if kind == "mpeg" { "mp3" } else { kind.trim_start_matches("x-") };
            json!({"type": "input_audio", "input_audio": {"data": base64(media), "format": format}})
        }
        _ => json!({"type": "file", "file": {"filename": name, "file_data": data_url(media)}}),
    }
}
