//! A request, as Anthropic Messages wants it.
//!
//! The entries are right already; this writes them down. Results and what the person says next are one user message,
//! results first. Cache markers go on the last block of what they mark. Thinking, searches and citations go back exactly
//! as they came, since the provider checks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everturn_core::message::{Meta, Seal};
use everturn_core::prompt::{
    OutputFormat, PromptEntry, PromptFile, PromptMedia, PromptPart, PromptResult, Request, Role, Sampling,
    SealedReasoning, ToolChoice, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::catalogue::Card;

mod thinking;

/// What goes on the wire.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WireRequest {
    /// The body.
    pub body: Value,
    /// The beta it needs, if any.
    pub beta: Option<&'static str>,
}

/// A request to a model of which `card` is known.
pub(super) fn body(request: &Request, card: &Card) -> WireRequest {
    let provider = request.model.provider();
    let mut body = Map::new();
    body.insert("model".into(), request.model.name().into());
    body.insert("max_tokens".into(), request.max_output.into());
    body.insert("stream".into(), true.into());
    if !request.system.is_empty() {
        body.insert("system".into(), system(request));
    }
    body.insert("messages".into(), messages(request, provider));
    if !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
        let mut choice = tool_choice(request, card);
        if request.parallel_calls == Some(false) && request.tool_choice != ToolChoice::None {
            choice.get_or_insert_with(|| json!({"type": "auto"}))["disable_parallel_tool_use"] = true.into();
        }
        body.extend(choice.map(|choice| ("tool_choice".into(), choice)));
    }
    pick(request, &mut body);
    // What the provider's own tools work in goes on with them.
    let container = attached(&request.echoed, provider).and_then(|echoed| echoed.get("container")?.get("id"));
    body.extend(container.map(|id| ("container".into(), id.clone())));
    let thought = thinking::of(request, card);
    body.extend(thought.thinking.map(|thinking| ("thinking".into(), thinking)));
    let mut output = Map::new();
    output.extend(thought.effort.map(|effort| ("effort".into(), effort.into())));
    output.extend(format(&request.format).map(|format| ("format".into(), format)));
    if !output.is_empty() {
        body.insert("output_config".into(), output.into());
    }
    WireRequest { body: body.into(), beta: thought.beta }
}

/// How the model picks its words, and what ends its answer.
fn pick(request: &Request, body: &mut Map<String, Value>) {
    let Sampling { temperature, top_p, top_k, stop, .. } = &request.sampling; // There is no seed on this wire.
    body.extend(temperature.map(|value| ("temperature".into(), value.into())));
    body.extend(top_p.map(|value| ("top_p".into(), value.into())));
    body.extend(top_k.map(|value| ("top_k".into(), value.into())));
    if !stop.is_empty() {
        body.insert("stop_sequences".into(), stop.clone().into());
    }
}

/// The form the answer must have. This wire has none for JSON of any shape: a schema that every object fits stands for it.
fn format(format: &OutputFormat) -> Option<Value> {
    match format {
        OutputFormat::Text => None,
        OutputFormat::JsonObject => Some(json!({"type": "json_schema", "schema": {"type": "object"}})),
        OutputFormat::Schema(schema) => Some(json!({"type": "json_schema", "schema": schema.schema})),
    }
}

fn system(request: &Request) -> Value {
    let mut blocks: Vec<Value> = request.system.iter().map(|text| json!({"type": "text", "text": text})).collect();
    if request.marks.system {
        mark(blocks.last_mut());
    }
    blocks.into()
}

fn messages(request: &Request, provider: &str) -> Value {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for (at, entry) in request.entries.iter().enumerate() {
        let mut blocks = blocks(entry, provider);
        if request.marks.entries.contains(&Some(at)) {
            mark(blocks.last_mut());
        }
        match (role(entry.role), messages.last_mut()) {
            ("user", Some(("user", before))) => before.extend(blocks),
            (role, _) => messages.push((role, blocks)),
        }
    }
    messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
    }
}

/// Asks the provider to keep everything up to this block. Thinking cannot be marked, and is never last.
fn mark(block: Option<&mut Value>) {
    if let Some(Value::Object(block)) = block {
        block.insert("cache_control".into(), json!({"type": "ephemeral"}));
    }
}

fn blocks(entry: &PromptEntry, provider: &str) -> Vec<Value> {
    entry.parts.iter().map(|part| block(part, provider)).collect()
}

fn block(part: &PromptPart, provider: &str) -> Value {
    match part {
        PromptPart::Text(text) => echo(json!({"type": "text", "text": text.text}), &text.meta, provider),
        PromptPart::File(file) => file_block(file),
        PromptPart::Reasoning(sealed) => echo(thought(sealed), &sealed.meta, provider),
        PromptPart::Call(call) => {
            let block = json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": call.input});
            echo(block, &call.meta, provider)
        }
        PromptPart::Result(result) => result_block(result),
        PromptPart::HostedCall(call) => {
            let kind = kind(&call.meta, provider).unwrap_or("server_tool_use");
            let block = json!({"type": kind, "id": call.id, "name": call.tool, "input": call.input});
            echo(block, &call.meta, provider)
        }
        PromptPart::HostedResult(result) => {
            let usual = format!("{}_tool_result", result.tool);
            let kind = kind(&result.meta, provider).unwrap_or(&usual);
            let block = json!({"type": kind, "tool_use_id": result.id, "content": result.output});
            echo(block, &result.meta, provider)
        }
    }
}

fn thought(sealed: &SealedReasoning) -> Value {
    match &sealed.seal {
        Seal::Signature(signature) => json!({"type": "thinking", "thinking": sealed.text, "signature": signature}),
        Seal::Redacted(data) => json!({"type": "redacted_thinking", "data": data}),
    }
}

/// What the provider attached to a part.
fn attached<'m>(meta: &'m Meta, provider: &str) -> Option<&'m Map<String, Value>> {
    meta.get(provider)?.as_object()
}

/// The provider's name of a block, for kinds with more than one name.
fn kind<'m>(meta: &'m Meta, provider: &str) -> Option<&'m str> {
    attached(meta, provider)?.get("type")?.as_str()
}

/// A block with what came along with it. What we say about it ourselves wins.
fn echo(mut block: Value, meta: &Meta, provider: &str) -> Value {
    if let (Value::Object(block), Some(attached)) = (&mut block, attached(meta, provider)) {
        for (key, value) in attached {
            block.entry(key).or_insert_with(|| value.clone());
        }
    }
    block
}

fn file_block(file: &PromptFile) -> Value {
    let mut block = media_block(&file.media);
    let title: String = file.name.chars().filter(|c| !c.is_control()).take(TITLE_CHARS_MAX).collect();
    if let (Value::Object(block), false) = (&mut block, title.trim().is_empty())
        && block.get("type").is_some_and(|kind| kind == "document")
    {
        block.insert("title".into(), title.into());
    }
    block
}

/// The longest title of a document.
const TITLE_CHARS_MAX: usize = 200;

fn media_block(media: &PromptMedia) -> Value {
    let kind = if media.media_type.starts_with("image/") { "image" } else { "document" };
    let source = match media.media_type.as_str() {
        "text/plain" => {
            json!({"type": "text", "media_type": "text/plain", "data": String::from_utf8_lossy(&media.bytes)})
        }
        other => json!({"type": "base64", "media_type": other, "data": STANDARD.encode(&media.bytes)}),
    };
    json!({"type": kind, "source": source})
}

fn result_block(result: &PromptResult) -> Value {
    let content: Value = if result.media.is_empty() {
        result.text.as_str().into()
    } else {
        let words = (!result.text.trim().is_empty()).then(|| json!({"type": "text", "text": result.text}));
        words.into_iter().chain(result.media.iter().map(media_block)).collect()
    };
    let mut block = json!({"type": "tool_result", "tool_use_id": result.id, "content": content});
    if let (Value::Object(block), true) = (&mut block, result.is_error) {
        block.insert("is_error".into(), true.into());
    }
    block
}

/// A tool. One that the provider defines is its own definition, by the name it was given here if it has none.
fn tool(spec: &ToolSpec) -> Value {
    let Some(definition) = &spec.provider_defined else {
        let mut tool = json!({"name": spec.name, "input_schema": spec.input_schema});
        if let (Value::Object(tool), false) = (&mut tool, spec.description.trim().is_empty()) {
            tool.insert("description".into(), spec.description.as_str().into());
        }
        return tool;
    };
    let mut definition = definition.clone();
    if let Value::Object(fields) = &mut definition {
        fields.entry("name").or_insert_with(|| spec.name.as_str().into());
    }
    definition
}

/// What the model may do with the tools. A model that cannot be made to call one is left free to.
fn tool_choice(request: &Request, card: &Card) -> Option<Value> {
    let can_force = card.forced_tools != Some(false);
    match &request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!({"type": "none"})),
        ToolChoice::Required if can_force => Some(json!({"type": "any"})),
        ToolChoice::Tool(name) if can_force => Some(json!({"type": "tool", "name": name})),
        ToolChoice::Required | ToolChoice::Tool(_) => None,
    }
}
