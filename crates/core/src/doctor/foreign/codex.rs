//! The file of a session of the Codex CLI.
//!
//! A line has a time, a `type` and a `payload`. What the model was sent and said is in `response_item`s, which are items
//! of OpenAI Responses; `event_msg`s tell a screen the same again. Files of early releases have the items themselves.

use serde_json::Value;

use super::openai_responses::{self, words};
use super::scribe::{Here, SessionBuilder};
use super::{Loss, anthropic};

const KINDS: [&str; 5] = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

/// What the program says in the person's place begins like this.
const BY_THE_PROGRAM: [&str; 4] =
    ["<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "# AGENTS.md instructions"];

/// Whether a line is one of these.
pub(super) fn is_line(line: &Value) -> bool {
    let is_wrapped = line["type"].as_str().is_some_and(|kind| KINDS.contains(&kind)) && line["payload"].is_object();
    is_wrapped || line.get("record_type").is_some()
}

pub(super) fn read(scribe: &mut SessionBuilder, lines: &[(usize, &Value)]) {
    for (place, line) in lines {
        let here = scribe.here(*place, line["timestamp"].as_str());
        let payload = &line["payload"];
        match line["type"].as_str() {
            Some("session_meta") => {
                let told = &payload["base_instructions"]["text"];
                let told = told.as_str().or_else(|| payload["instructions"].as_str());
                scribe.system.extend(told.map(Into::into));
            }
            Some("turn_context") => {
                if let Some(name) = payload["model"].as_str() {
                    scribe.model = scribe.model_named(name);
                }
            }
            Some("response_item") => item(scribe, here, payload),
            Some("compacted") => compacted(scribe, here, payload),
            Some("event_msg") => event(scribe, *place, payload),
            Some(kind) if openai_responses::is_item(kind) => item(scribe, here, line),
            None if line.get("record_type").is_some() || line.get("instructions").is_some() => {
                scribe.skip(*place, "an entry of the program's state", Loss::None);
            }
            other => scribe.skip(*place, format!("an entry `{}`", other.unwrap_or("?")), Loss::Lost),
        }
    }
}

fn item(scribe: &mut SessionBuilder, here: Here, item: &Value) {
    let said: String = words(&item["content"]).collect();
    if item["role"] == "user" && BY_THE_PROGRAM.iter().any(|start| said.trim_start().starts_with(start)) {
        return scribe.context(here, said);
    }
    match item["type"].as_str() {
        Some("ghost_snapshot" | "other") => scribe.skip(here.place, "an item of the program's own", Loss::None),
        _ => openai_responses::item(scribe, here, item),
    }
}

/// A summary, and what the program put with it.
fn compacted(scribe: &mut SessionBuilder, here: Here, payload: &Value) {
    let mut told: Vec<String> = payload["message"].as_str().map(Into::into).into_iter().collect();
    let instead = payload["replacement_history"].as_array().into_iter().flatten();
    told.extend(instead.flat_map(|item| anthropic::texts(&item["content"])));
    told.retain(|text: &String| !text.trim().is_empty());
    told.dedup();
    scribe.summary(here, told.join("\n\n"));
}

/// Events are for a screen, but for one: turns that were taken back.
fn event(scribe: &mut SessionBuilder, place: usize, payload: &Value) {
    let kind = payload["type"].as_str().unwrap_or("?");
    if kind != "thread_rolled_back" {
        return scribe.skip(place, format!("an event `{kind}`"), Loss::None);
    }
    let turns = payload["num_turns"].as_u64().and_then(|turns| usize::try_from(turns).ok()).unwrap_or(1);
    if let Some(from) = scribe.turns_began(turns) {
        for _ in 0..scribe.take_back(from) {
            scribe.skip(place, "a message of a turn that was taken back", Loss::None);
        }
    }
}
