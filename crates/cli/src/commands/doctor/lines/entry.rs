//! Entries of the files of Claude Code and the Codex CLI.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use everturn::core::doctor::foreign::SessionFormat;
use everturn::core::ids::CallUid;
use everturn::core::message::{Body, CallResult, Message};
use serde_json::{Map, Value, json};

/// Fields with the same value in every entry of a Claude Code session.
const SHARED: [&str; 6] = ["sessionId", "isSidechain", "userType", "cwd", "version", "gitBranch"];

/// Whether a line is another piece of the same answer.
pub(super) fn is_same_answer(first: &Value, other: &Value) -> bool {
    let is_spoken = |line: &Value| {
        let item = item(line);
        item["role"] == "assistant"
            || matches!(item["type"].as_str(), Some("reasoning" | "function_call" | "custom_tool_call"))
    };
    match (first["message"]["id"].as_str(), first["type"].as_str()) {
        (Some(id), Some("assistant")) => other["message"]["id"] == id,
        (None, _) if first.get("message").is_none() => is_spoken(first) && is_spoken(other),
        _ => false,
    }
}

/// The payload of a Codex entry; early releases wrote the payload alone.
fn item(line: &Value) -> &Value {
    if line["payload"].is_object() { &line["payload"] } else { line }
}

/// Builds entries, and links those of Claude Code: each names its parent.
pub(super) struct Maker<'a> {
    format: SessionFormat,
    values: &'a [Value],
    /// The newest entry inserted after an entry, by the id of the latter.
    newest: BTreeMap<String, String>,
}

impl<'a> Maker<'a> {
    pub(super) const fn new(format: SessionFormat, values: &'a [Value]) -> Self {
        Self { format, values, newest: BTreeMap::new() }
    }

    /// An entry with this body, after a line.
    pub(super) fn made(&self, body: &Body, messages: &[Arc<Message>], line: Option<usize>) -> Option<Value> {
        let at = line.map_or(&Value::Null, |line| &self.values[line]);
        match (self.format, body) {
            (SessionFormat::ClaudeCode, Body::Result(result)) => {
                let block = json!({"type": "tool_result", "tool_use_id": id_of(result, messages)?,
                    "content": result.output.text, "is_error": true});
                Some(of_claude_code(at, json!([block]), false))
            }
            (SessionFormat::ClaudeCode, Body::Context(text)) => Some(of_claude_code(at, json!(text), true)),
            (SessionFormat::Codex, Body::Result(result)) => {
                let id = id_of(result, messages)?;
                let kind = match self.values.iter().map(item).find(|item| item["call_id"] == id)?["type"].as_str()? {
                    "custom_tool_call" => "custom_tool_call_output",
                    _ => "function_call_output",
                };
                Some(of_codex(at, json!({"type": kind, "call_id": id, "output": result.output.text})))
            }
            (SessionFormat::Codex, Body::Context(text)) => {
                let content = json!([{"type": "input_text", "text": text}]);
                Some(of_codex(at, json!({"type": "message", "role": "developer", "content": content})))
            }
            _ => None,
        }
    }

    /// The line with the call of a result.
    pub(super) fn line_of_call(&self, body: &Body, messages: &[Arc<Message>]) -> Option<usize> {
        let Body::Result(result) = body else { return None };
        let id = id_of(result, messages)?;
        let is_call = |line: &Value| {
            let mut blocks = line["message"]["content"].as_array().into_iter().flatten();
            let item = item(line);
            let is_item = item["call_id"] == id && item["type"].as_str().is_some_and(|kind| kind.ends_with("_call"));
            is_item || blocks.any(|block| block["type"] == "tool_use" && block["id"] == id)
        };
        self.values.iter().position(is_call)
    }

    /// Links the entry to its line, or to the newest entry inserted there.
    pub(super) fn linked(&mut self, mut entry: Value, line: Option<usize>) -> Value {
        if self.format != SessionFormat::ClaudeCode {
            return entry;
        }
        let before = line.and_then(|line| self.values[line]["uuid"].as_str()).unwrap_or_default().to_owned();
        let parent = self.newest.get(&before).unwrap_or(&before).clone();
        if entry["uuid"].is_null() {
            entry["uuid"] = uuid(&parent, &entry).into();
        }
        entry["parentUuid"] = if parent.is_empty() { Value::Null } else { parent.into() };
        self.newest.insert(before, entry["uuid"].as_str().unwrap_or_default().into());
        entry
    }

    /// A line whose parent got an insertion, with the insertion as its new parent. Nothing else of the line
    /// changes.
    pub(super) fn relinked(&self, line: &str, value: &Value) -> String {
        let parent = value["parentUuid"].as_str().unwrap_or_default();
        let is_linked = self.format == SessionFormat::ClaudeCode && !parent.is_empty() && !is_of_side_chain(value);
        match self.newest.get(parent).filter(|_| is_linked) {
            Some(newest) if value["uuid"].as_str() != Some(newest) => {
                let (quoted, name) = (format!("\"{parent}\""), "\"parentUuid\"");
                let Some((before, rest)) = line.split_once(name) else { return line.into() };
                format!("{before}{name}{}", rest.replacen(&quoted, &format!("\"{newest}\""), 1))
            }
            _ => line.into(),
        }
    }
}

fn is_of_side_chain(entry: &Value) -> bool {
    entry["isSidechain"] == true
}

/// The provider's id of the call of a result.
fn id_of(result: &CallResult, messages: &[Arc<Message>]) -> Option<String> {
    let id = |uid: CallUid| {
        let replies = messages.iter().filter_map(|message| match &message.body {
            Body::Reply(reply) => Some(reply),
            _ => None,
        });
        replies.flat_map(|reply| reply.calls()).find(|call| call.uid == uid).map(|call| call.provider_id.clone())
    };
    id(result.call).filter(|id| !id.is_empty())
}

fn of_claude_code(like: &Value, content: Value, is_meta: bool) -> Value {
    let mut entry: Map<String, Value> = Map::new();
    for key in SHARED {
        entry.extend(like.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    entry.extend(like.get("timestamp").map(|at| ("timestamp".to_owned(), at.clone())));
    entry.insert("type".into(), "user".into());
    entry.insert("message".into(), json!({"role": "user", "content": content}));
    if is_meta {
        entry.insert("isMeta".into(), true.into());
    }
    Value::Object(entry)
}

fn of_codex(like: &Value, payload: Value) -> Value {
    match like["payload"].is_object() {
        true => json!({"timestamp": like["timestamp"], "type": "response_item", "payload": payload}),
        false => payload,
    }
}

/// An id for an entry, derived from its parent and content: stable and unique.
fn uuid(parent: &str, entry: &Value) -> String {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, parent, entry.to_string()).hash(&mut hasher);
        hasher.finish()
    };
    let (high, low) = (half(0), half(1));
    // UUID version 8, usual variant: the content is up to the program.
    let (high, low) = (high & !0xf000 | 0x8000, low & !(0b11 << 62) | 1 << 63);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}
