//! The file of a session of Claude Code.
//!
//! A line is an entry with a `type`; `user` and `assistant` carry a message of Anthropic Messages, one block
//! of it at a time, and entries of one answer share the message's id. Entries point to their parents: going
//! back and writing again gave an earlier entry a second child, and everything below the first one was left.
//! Sub-agents speak on side chains of their own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Loss;
use super::anthropic;
use super::scribe::{Here, ImportedCall, ImportedPart, SessionBuilder};

/// Whether a line is one of these.
pub(super) fn is_line(line: &Value) -> bool {
    let has_entry = line.get("uuid").is_some() && line.get("type").is_some();
    let is_kind = matches!(line["type"].as_str(), Some("user" | "assistant" | "system"));
    has_entry && is_kind && (line.get("sessionId").is_some() || line.get("parentUuid").is_some())
}

pub(super) fn read(scribe: &mut SessionBuilder, lines: &[(usize, &Value)]) {
    let mut entries: BTreeMap<&str, usize> = BTreeMap::new();
    let mut prompts: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, line) in lines {
        let uuid = line["uuid"].as_str().unwrap_or_default();
        if !uuid.is_empty() && entries.insert(uuid, *place).is_some() {
            scribe.skip(*place, "an entry that is there already", Loss::None);
            continue;
        }
        if line["isSidechain"] == true {
            scribe.skip(*place, "an entry of a sub-agent", Loss::None);
            continue;
        }
        if is_prompt(line)
            && let Some(parent) = line["parentUuid"].as_str()
            && let Some(left) = prompts.insert(parent, *place)
        {
            for _ in 0..scribe.take_back(left) {
                scribe.skip(left, "a message on a way that was left", Loss::None);
            }
        }
        entry(scribe, *place, line);
    }
}

/// Whether a person spoke, as opposed to tools and the program.
fn is_prompt(line: &Value) -> bool {
    let content = &line["message"]["content"];
    let answers = content.as_array().is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"));
    line["type"] == "user" && line["isMeta"] != true && line["isCompactSummary"] != true && !answers
}

fn entry(scribe: &mut SessionBuilder, place: usize, line: &Value) {
    let here = scribe.here(place, line["timestamp"].as_str());
    let message = &line["message"];
    match line["type"].as_str() {
        Some("user") if line["isCompactSummary"] == true => {
            let words: Vec<String> = anthropic::texts(&message["content"]).collect();
            scribe.summary(here, words.join("\n"));
        }
        Some("user") if line["isMeta"] == true => {
            anthropic::texts(&message["content"]).for_each(|text| scribe.context(here, text));
        }
        Some("user") => anthropic::user(scribe, here, &message["content"]),
        Some("assistant") if line["isApiErrorMessage"] == true => {
            scribe.skip(place, "an error the program showed", Loss::None);
        }
        Some("assistant") => assistant(scribe, here, message),
        Some(other) => scribe.skip(place, format!("an entry `{other}`"), Loss::None),
        None => scribe.skip(place, "an entry without a type", Loss::Lost),
    }
}

/// One block of an answer, or a whole one. Those of one answer are put together.
fn assistant(scribe: &mut SessionBuilder, here: Here, message: &Value) {
    let answer = anthropic::answer(scribe, here, message);
    let Some(begun) = answer.response_id.as_deref().and_then(|id| scribe.begun(id)) else {
        return scribe.reply(here, answer);
    };
    let mut repeated = 0;
    for piece in answer.parts {
        match &piece {
            ImportedPart::Call(asked) if begun.parts.iter().any(|known| is_call(known, asked)) => repeated += 1,
            _ => begun.parts.push(piece),
        }
    }
    begun.stop = answer.stop.or(begun.stop.take());
    (0..repeated).for_each(|_| scribe.skip(here.place, "a call that is there already", Loss::None));
}

fn is_call(piece: &ImportedPart, asked: &ImportedCall) -> bool {
    matches!(piece, ImportedPart::Call(known) if known.id == asked.id && !asked.id.is_empty())
}
