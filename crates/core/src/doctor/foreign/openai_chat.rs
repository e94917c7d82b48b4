//! Messages of OpenAI Chat Completions.

use serde_json::Value;

use super::Loss;
use super::anthropic::texts;
use super::scribe::{
    Here, ImportedCall, ImportedPart, ImportedReply, ImportedResult, SessionBuilder, file, input, reasoning, text,
};
use crate::message::{CallVerdict, Meta, Output, Part, RunBy};

pub(super) fn read(scribe: &mut SessionBuilder, items: &[(usize, &Value)]) {
    let mut began = false;
    for (place, item) in items {
        let (here, content) = (scribe.here(*place, None), &item["content"]);
        match item["role"].as_str() {
            Some("system" | "developer") if !began => scribe.system.extend(texts(content)),
            Some("system" | "developer") => {
                let words: Vec<String> = texts(content).collect();
                scribe.context(here, words.join("\n"));
            }
            Some("user") => {
                let parts = parts(scribe, here, content);
                scribe.user(here, parts);
            }
            Some("assistant") => {
                let answer = answer(scribe, here, item);
                scribe.reply(here, answer);
            }
            Some("tool" | "function") => {
                let name = item["name"].as_str().unwrap_or_default();
                // The first form had no ids: a function answered the call of its name.
                let id = item["tool_call_id"].as_str().unwrap_or(name).into();
                let words: Vec<String> = texts(content).collect();
                let (tool, verdict, output) = (name.into(), CallVerdict::Done, Output::text(words.join("\n")));
                scribe.result(here, ImportedResult { id, tool, verdict, output });
            }
            other => scribe.skip(*place, format!("a message of {}", other.unwrap_or("no role")), Loss::Lost),
        }
        began |= !matches!(item["role"].as_str(), Some("system" | "developer"));
    }
}

fn answer(scribe: &mut SessionBuilder, here: Here, item: &Value) -> ImportedReply {
    let mut answer = ImportedReply::default();
    let thought = item["reasoning_content"].as_str().or_else(|| item["reasoning"].as_str()).unwrap_or_default();
    if !thought.is_empty() {
        answer.parts.push(ImportedPart::Part(reasoning(thought.into(), None, here.at, Meta::new())));
    }
    answer.parts.extend(parts(scribe, here, &item["content"]).into_iter().map(ImportedPart::Part));
    let refusal = item["refusal"].as_str().filter(|refusal| !refusal.is_empty());
    answer.parts.extend(refusal.map(|refusal| ImportedPart::Part(text(refusal))));
    for call in item["tool_calls"].as_array().into_iter().flatten() {
        let function = if call["function"].is_object() { &call["function"] } else { &call["custom"] };
        answer.parts.push(ImportedPart::Call(asked(call["id"].as_str().unwrap_or_default(), function)));
    }
    if item["function_call"].is_object() {
        let name = item["function_call"]["name"].as_str().unwrap_or_default();
        answer.parts.push(ImportedPart::Call(asked(name, &item["function_call"])));
    }
    answer
}

fn asked(id: &str, function: &Value) -> ImportedCall {
    let arguments = function.get("arguments").or_else(|| function.get("input")).unwrap_or(&Value::Null);
    let tool = function["name"].as_str().unwrap_or_default().into();
    ImportedCall { id: id.into(), tool, input: input(arguments), run_by: RunBy::Us, meta: Meta::new() }
}

fn parts(scribe: &mut SessionBuilder, here: Here, content: &Value) -> Vec<Part> {
    let Some(parts) = content.as_array() else {
        return content.as_str().map(text).into_iter().collect();
    };
    let mut said = Vec::new();
    for part in parts {
        match part["type"].as_str() {
            Some("text") => said.push(text(part["text"].as_str().unwrap_or_default())),
            Some("refusal") => said.push(text(part["refusal"].as_str().unwrap_or_default())),
            Some("image_url") => {
                let url = part["image_url"]["url"].as_str().or_else(|| part["image_url"].as_str());
                said.push(Part::File(file("", url.unwrap_or_default())));
            }
            Some("file") => {
                let about = &part["file"];
                let name = about["filename"].as_str().unwrap_or_default();
                said.push(Part::File(file(name, about["file_data"].as_str().unwrap_or_default())));
            }
            other => scribe.skip(here.place, format!("a part `{}`", other.unwrap_or("?")), Loss::Lost),
        }
    }
    said
}
