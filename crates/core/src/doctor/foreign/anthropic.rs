//! Messages of Anthropic Messages.

use serde_json::{Map, Value};

use super::Loss;
use super::scribe::{
    Here, ImportedCall, ImportedPart, ImportedReply, ImportedResult, SessionBuilder, file, input, media, reasoning,
    text,
};
use crate::message::{CallVerdict, File, Meta, Output, Part, RunBy, Seal, Stop, Text};

/// Whether a kind of block is Anthropic's alone.
pub(super) fn is_block(kind: &str) -> bool {
    matches!(
        kind,
        "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image" | "document" | "server_tool_use"
    ) || kind.ends_with("_tool_result")
}

pub(super) fn read(scribe: &mut SessionBuilder, items: &[(usize, &Value)], system: Option<&Value>) {
    scribe.system.extend(system.into_iter().flat_map(texts));
    for (place, item) in items {
        let here = scribe.here(*place, None);
        message(scribe, here, item);
    }
}

/// One message of either side.
pub(super) fn message(scribe: &mut SessionBuilder, here: Here, item: &Value) {
    match item["role"].as_str() {
        Some("user") => user(scribe, here, &item["content"]),
        Some("assistant") => assistant(scribe, here, item),
        Some("system") => texts(&item["content"]).for_each(|text| scribe.context(here, text)),
        other => scribe.skip(here.place, format!("a message of {}", other.unwrap_or("no role")), Loss::Lost),
    }
}

/// What a person said and what tools gave back: a message of ours for every result, and one for the words.
pub(super) fn user(scribe: &mut SessionBuilder, here: Here, content: &Value) {
    let Some(blocks) = content.as_array() else {
        return scribe.user(here, vec![text(content.as_str().unwrap_or_default())]);
    };
    let mut parts = Vec::new();
    for block in blocks {
        match block["type"].as_str() {
            Some("text") => parts.push(text(block["text"].as_str().unwrap_or_default())),
            Some("image" | "document") => parts.push(Part::File(shown(block))),
            Some("tool_result") => {
                let is_error = block["is_error"] == true;
                scribe.result(
                    here,
                    ImportedResult {
                        id: block["tool_use_id"].as_str().unwrap_or_default().into(),
                        tool: String::new(),
                        verdict: if is_error { CallVerdict::Error } else { CallVerdict::Done },
                        output: output(&block["content"]),
                    },
                );
            }
            other => scribe.skip(here.place, format!("a block `{}`", other.unwrap_or("?")), Loss::Lost),
        }
    }
    let is_only_results = blocks.iter().any(|block| block["type"] == "tool_result") && parts.is_empty();
    if !is_only_results {
        scribe.user(here, parts);
    }
}

fn assistant(scribe: &mut SessionBuilder, here: Here, item: &Value) {
    let answer = answer(scribe, here, item);
    scribe.reply(here, answer);
}

/// What the model said in one message.
pub(super) fn answer(scribe: &mut SessionBuilder, here: Here, item: &Value) -> ImportedReply {
    let mut answer = ImportedReply {
        parts: Vec::new(),
        model: item["model"].as_str().map(|name| scribe.model_named(name)),
        stop: match item["stop_reason"].as_str() {
            Some("max_tokens") => Some(Stop::Length),
            Some("refusal") => Some(Stop::Filtered { category: "refusal".into(), detail: String::new() }),
            _ => None,
        },
        response_id: item["id"].as_str().map(Into::into),
    };
    match &item["content"] {
        Value::Array(blocks) => {
            for block in blocks {
                match said(scribe, here, block) {
                    Some(piece) => answer.parts.push(piece),
                    None => {
                        let kind = block["type"].as_str().unwrap_or("?");
                        scribe.skip(here.place, format!("a block `{kind}`"), Loss::Lost);
                    }
                }
            }
        }
        content => answer.parts.extend(content.as_str().map(|words| ImportedPart::Part(text(words)))),
    }
    answer
}

fn said(scribe: &SessionBuilder, here: Here, block: &Value) -> Option<ImportedPart> {
    let field = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
    let kind = block["type"].as_str()?;
    Some(match kind {
        "text" => {
            let meta = scribe.attached(only(block, &["citations"]));
            ImportedPart::Part(Part::Text(Text { text: field("text"), meta }))
        }
        "thinking" => {
            let seal = Seal::Signature(field("signature"));
            ImportedPart::Part(reasoning(field("thinking"), Some(seal), here.at, Meta::new()))
        }
        "redacted_thinking" => {
            ImportedPart::Part(reasoning(String::new(), Some(Seal::Redacted(field("data"))), here.at, Meta::new()))
        }
        "tool_use" | "server_tool_use" => ImportedPart::Call(ImportedCall {
            id: field("id"),
            tool: field("name"),
            input: input(&block["input"]),
            run_by: if kind == "tool_use" { RunBy::Us } else { RunBy::Provider },
            meta: Meta::new(),
        }),
        kind => {
            let tool = kind.strip_suffix("_tool_result")?;
            let meta = scribe.attached(only(block, &["caller"]));
            ImportedPart::Found { id: field("tool_use_id"), tool: tool.into(), output: block["content"].clone(), meta }
        }
    })
}

/// Some fields of a block, those that are there.
fn only(block: &Value, keys: &[&str]) -> Map<String, Value> {
    let there = keys.iter().filter_map(|key| Some(((*key).to_owned(), block.get(*key)?.clone())));
    there.filter(|(_, value)| !value.is_null()).collect()
}

/// What a tool gave back.
pub(super) fn output(content: &Value) -> Output {
    let Some(blocks) = content.as_array() else { return Output::text(input(content)) };
    let mut output = Output::default();
    for block in blocks {
        match block["type"].as_str() {
            Some("image" | "document") => {
                let file = shown(block);
                if let Some(bytes) = file.bytes {
                    output.media.push(crate::message::Media { media_type: file.media_type, bytes });
                }
            }
            _ => {
                if !output.text.is_empty() {
                    output.text.push('\n');
                }
                output.text.push_str(&block["text"].as_str().map_or_else(|| block.to_string(), Into::into));
            }
        }
    }
    output
}

fn shown(block: &Value) -> File {
    let (source, name) = (&block["source"], block["title"].as_str().unwrap_or_default());
    let media_type = source["media_type"].as_str().unwrap_or_default();
    match (source["type"].as_str(), source["data"].as_str()) {
        (Some("text"), Some(data)) => {
            let bytes = Some(data.as_bytes().into());
            File { name: name.into(), media_type: "text/plain".into(), bytes, meta: Meta::new() }
        }
        (_, Some(data)) => {
            let bytes = media(media_type, data).map(|media| media.bytes);
            File { name: name.into(), media_type: media_type.into(), bytes, meta: Meta::new() }
        }
        _ => file(name, source["url"].as_str().unwrap_or_default()),
    }
}

/// All texts of a content that is words or a list of blocks.
pub(super) fn texts(content: &Value) -> impl Iterator<Item = String> {
    let one = content.as_str().map(Into::into);
    let many = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str().map(Into::into));
    one.into_iter().chain(many)
}
