//! Items of OpenAI Responses.
//!
//! Here every part of a reply is an item of its own. Those of the model in a row are one reply.

use serde_json::{Map, Value, json};

use super::Loss;
use super::scribe::{
    Here, ImportedCall, ImportedPart, ImportedReply, ImportedResult, SessionBuilder, file, input, reasoning, text,
};
use crate::message::{CallVerdict, Media, Output, Part, RunBy, Seal, Text};

/// Whether a kind of item is one of these.
pub(super) fn is_item(kind: &str) -> bool {
    matches!(kind, "message" | "reasoning") || kind.ends_with("_call") || kind.ends_with("_call_output")
}

pub(super) fn read(scribe: &mut SessionBuilder, items: &[(usize, &Value)]) {
    let mut began = false;
    for (place, value) in items {
        let here = scribe.here(*place, None);
        let is_system = matches!(value["role"].as_str(), Some("system" | "developer"));
        if is_system && !began {
            scribe.system.extend(words(&value["content"]));
        } else {
            item(scribe, here, value);
        }
        began |= !is_system;
    }
}

/// One item.
pub(super) fn item(scribe: &mut SessionBuilder, here: Here, item: &Value) {
    let kind = item["type"].as_str().unwrap_or("message");
    match (kind, item["role"].as_str()) {
        ("message", Some("assistant")) => {
            for part in spoken(scribe, item) {
                speak(scribe, here, ImportedPart::Part(part));
            }
        }
        ("message", Some("user")) => {
            let parts = shown(scribe, here, &item["content"]);
            scribe.user(here, parts);
        }
        ("message", Some("system" | "developer")) => {
            let words: Vec<String> = words(&item["content"]).collect();
            scribe.context(here, words.join("\n"));
        }
        ("reasoning", _) => {
            let part = thought(scribe, here, item);
            speak(scribe, here, ImportedPart::Part(part));
        }
        ("function_call" | "custom_tool_call" | "local_shell_call" | "computer_call", _) => {
            let asked = asked(scribe, kind, item);
            speak(scribe, here, ImportedPart::Call(asked));
        }
        (kind, _) if kind.ends_with("_call_output") => scribe.result(here, outcome(item)),
        (kind, _) if kind.ends_with("_call") => hosted(scribe, here, kind, item),
        (other, _) => scribe.skip(here.place, format!("an item `{other}`"), Loss::Lost),
    }
}

/// Adds to the reply that is being given, or begins one.
fn speak(scribe: &mut SessionBuilder, here: Here, piece: ImportedPart) {
    match scribe.newest_reply() {
        Some(answer) => answer.parts.push(piece),
        None => scribe.reply(here, ImportedReply { parts: vec![piece], ..ImportedReply::default() }),
    }
}

fn spoken(scribe: &SessionBuilder, item: &Value) -> Vec<Part> {
    let about = |refusal: bool| {
        let mut about = id_of(item);
        if refusal && !about.is_empty() {
            about.insert("refusal".into(), true.into());
        }
        scribe.attached(about)
    };
    if let Some(words) = item["content"].as_str() {
        return vec![Part::Text(Text { text: words.into(), meta: about(false) })];
    }
    let parts = item["content"].as_array().into_iter().flatten();
    let said = parts.filter_map(|part| match part["refusal"].as_str() {
        Some(refusal) => Some(Part::Text(Text { text: refusal.into(), meta: about(true) })),
        None => Some(Part::Text(Text { text: part["text"].as_str()?.into(), meta: about(false) })),
    });
    said.collect()
}

fn thought(scribe: &SessionBuilder, here: Here, item: &Value) -> Part {
    let texts = |key: &str| {
        let parts = item[key].as_array().into_iter().flatten();
        parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n\n")
    };
    let summary = texts("summary");
    let text = if summary.is_empty() { texts("content") } else { summary };
    let seal = item["encrypted_content"].as_str().map(|seal| Seal::Signature(seal.into()));
    let mut about = id_of(item);
    about.insert("summary".into(), item.get("summary").filter(|value| value.is_array()).cloned().unwrap_or(json!([])));
    reasoning(text, seal, here.at, scribe.attached(about))
}

fn asked(scribe: &SessionBuilder, kind: &str, item: &Value) -> ImportedCall {
    let (tool, input) = match kind {
        "function_call" => (item["name"].as_str().unwrap_or_default(), input(&item["arguments"])),
        // A free text takes the place of an object; here it becomes one.
        "custom_tool_call" => (item["name"].as_str().unwrap_or_default(), json!({"input": item["input"]}).to_string()),
        "local_shell_call" => ("local_shell", item["action"].to_string()),
        _ => ("computer", item["action"].to_string()),
    };
    let id = item["call_id"].as_str().or_else(|| item["id"].as_str()).unwrap_or_default();
    let about = if kind == "function_call" { id_of(item) } else { Map::new() };
    ImportedCall { id: id.into(), tool: tool.into(), input, run_by: RunBy::Us, meta: scribe.attached(about) }
}

fn outcome(item: &Value) -> ImportedResult {
    let id = item["call_id"].as_str().unwrap_or_default().into();
    let given = &item["output"];
    // Some write what the tool said and whether it worked as an object, or that object as text.
    let nested = given.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()).filter(Value::is_object);
    let about = nested.as_ref().unwrap_or(given);
    let failed = about["success"] == false || about["metadata"]["exit_code"].as_i64().is_some_and(|code| code != 0);
    let mut output = Output::default();
    match given {
        Value::Array(parts) => {
            let words: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            output.text = words.join("\n");
            let files = parts.iter().filter_map(|part| part["image_url"].as_str()).map(|url| file("", url));
            output
                .media
                .extend(files.filter_map(|file| Some(Media { media_type: file.media_type, bytes: file.bytes? })));
        }
        Value::Object(about) => output.text = about.get("content").map_or_else(|| given.to_string(), input),
        other => output.text = input(other),
    }
    let verdict = if failed { CallVerdict::Error } else { CallVerdict::Done };
    ImportedResult { id, tool: String::new(), verdict, output }
}

/// A tool of the provider's: the item is both the call and what came of it.
fn hosted(scribe: &mut SessionBuilder, here: Here, kind: &str, item: &Value) {
    let tool = kind.trim_end_matches("_call").to_owned();
    let id = item["id"].as_str().unwrap_or_default().to_owned();
    let meta = scribe.attached(item.as_object().cloned().unwrap_or_default());
    let input = item.get("action").map_or_else(String::new, Value::to_string);
    let call = ImportedCall { id: id.clone(), tool: tool.clone(), input, run_by: RunBy::Provider, meta: meta.clone() };
    speak(scribe, here, ImportedPart::Call(call));
    speak(scribe, here, ImportedPart::Found { id, tool, output: item.clone(), meta });
}

fn shown(scribe: &mut SessionBuilder, here: Here, content: &Value) -> Vec<Part> {
    let Some(parts) = content.as_array() else { return content.as_str().map(text).into_iter().collect() };
    let mut said = Vec::new();
    for part in parts {
        match part["type"].as_str() {
            Some("input_text" | "output_text" | "text") => said.push(text(part["text"].as_str().unwrap_or_default())),
            Some("input_image") => said.push(Part::File(file("", part["image_url"].as_str().unwrap_or_default()))),
            Some("input_file") => {
                let name = part["filename"].as_str().unwrap_or_default();
                said.push(Part::File(file(name, part["file_data"].as_str().unwrap_or_default())));
            }
            other => scribe.skip(here.place, format!("a part `{}`", other.unwrap_or("?")), Loss::Lost),
        }
    }
    said
}

/// All words of a content.
pub(super) fn words(content: &Value) -> impl Iterator<Item = String> {
    super::anthropic::texts(content)
}

fn id_of(item: &Value) -> Map<String, Value> {
    let id = item["id"].as_str().filter(|id| !id.is_empty());
    id.map(|id| ("id".to_owned(), id.into())).into_iter().collect()
}
