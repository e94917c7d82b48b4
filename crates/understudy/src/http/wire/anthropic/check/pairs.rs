//! Every call has its one result, right after it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::super::{Checked, refuse};

pub(super) fn check(messages: &[Value]) -> Checked {
    let turns = turns(messages);
    let mut seen = BTreeSet::new();
    for (at, turn) in turns.iter().enumerate() {
        for id in turn.ids("tool_use", "id").into_iter().chain(turn.ids("server_tool_use", "id")) {
            if !seen.insert(id) {
                return refuse(format!("messages.{}: `tool_use` ids must be unique", turn.first));
            }
        }
        hosted(turn, at + 1 == turns.len())?;
        let asked = if at == 0 { Vec::new() } else { turns[at - 1].ids("tool_use", "id") };
        answers(turn, &asked)?;
        let given = turns.get(at + 1).map(|next| next.leading_results()).unwrap_or_default();
        let open: Vec<&str> = turn.ids("tool_use", "id").into_iter().filter(|id| !given.contains(id)).collect();
        if !open.is_empty() {
            return refuse(format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                 `tool_use` block must have a corresponding `tool_result` block in the next message.",
                turn.last,
                open.join(", ")
            ));
        }
    }
    Ok(())
}

fn answers(turn: &Turn<'_>, asked: &[&str]) -> Checked {
    let mut answered = BTreeSet::new();
    for id in turn.ids("tool_result", "tool_use_id") {
        if !asked.contains(&id) {
            return refuse(format!(
                "messages.{}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block \
                 must have a corresponding `tool_use` block in the previous message.",
                turn.first
            ));
        }
        if !answered.insert(id) {
            return refuse(format!(
                "messages.{}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}",
                turn.first
            ));
        }
    }
    Ok(())
}

/// Whether a block is of a tool of the provider's own.
pub(super) fn is_hosted(block: &Value) -> bool {
    let kind = block["type"].as_str().unwrap_or_default();
    kind == "server_tool_use" || (kind.ends_with("_tool_result") && kind != "tool_result")
}

/// Uses of the provider's own tools have their outcome later in the same turn. Those that the last one ends with are run
/// before the answer goes on.
fn hosted(turn: &Turn<'_>, is_last: bool) -> Checked {
    let mut asked: Vec<&str> = Vec::new();
    let mut answered: Vec<&str> = Vec::new();
    for block in &turn.blocks {
        let kind = block["type"].as_str().unwrap_or_default();
        if kind == "server_tool_use" {
            asked.extend(block["id"].as_str());
        } else if kind.ends_with("_tool_result") {
            let id = block["tool_use_id"].as_str().unwrap_or_default();
            if !asked.contains(&id) {
                return refuse(format!(
                    "messages.{}: unexpected `tool_use_id` found in `{kind}` blocks: {id}. Each `{kind}` block must \
                     have a corresponding `server_tool_use` block before it.",
                    turn.first
                ));
            }
            answered.push(id);
        }
    }
    let paused = turn.blocks.iter().rev().take_while(|block| is_last && is_hosted(block));
    let waiting: Vec<&str> = paused.filter_map(|block| block["id"].as_str()).collect();
    match asked.iter().find(|id| !answered.contains(id) && !waiting.contains(id)) {
        Some(id) => refuse(format!(
            "messages.{}: `web_search` tool use with id `{id}` was found without a corresponding \
             `web_search_tool_result` block",
            turn.first
        )),
        None => Ok(()),
    }
}

/// Messages of one role in a row count as one turn.
struct Turn<'a> {
    role: &'a str,
    first: usize,
    last: usize,
    blocks: Vec<&'a Value>,
}

impl<'a> Turn<'a> {
    fn ids(&self, kind: &str, key: &str) -> Vec<&'a str> {
        let blocks = self.blocks.iter().filter(|block| block["type"] == kind);
        blocks.filter_map(|block| block[key].as_str()).collect()
    }

    /// Results count only before anything else the user says.
    fn leading_results(&self) -> Vec<&'a str> {
        let leading = self.blocks.iter().take_while(|block| block["type"] == "tool_result");
        leading.filter_map(|block| block["tool_use_id"].as_str()).collect()
    }
}

fn turns(messages: &[Value]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        // Words that are not in a block are a block all the same.
        let blocks = match &message["content"] {
            Value::Array(blocks) => blocks.iter().collect(),
            text => vec![text],
        };
        match turns.last_mut().filter(|turn| turn.role == role) {
            Some(turn) => {
                turn.last = at;
                turn.blocks.extend(blocks);
            }
            None => turns.push(Turn { role, first: at, last: at, blocks }),
        }
    }
    turns
}
