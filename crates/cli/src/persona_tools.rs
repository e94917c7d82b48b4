//! Tools for chats with the stand-in model.
//!
//! A server without a key is often a user's first contact with Everturn, and tool calls and approvals are
//! half of what there is to see. So the stand-in's agent has two working tools: one runs at once, the other
//! changes a file and needs an approval.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use everturn::core::chat::Effect;
use everturn::core::prompt::ToolSpec;
use everturn::{Agent, Approval, Policy, Tool, ToolContext, ToolError, ToolReturn};
use everturn_understudy::{DICE_TOOL, NOTE_TOOL};
use serde_json::{Value, json};

use crate::entropy;

/// Limits of dice per throw and of sides per die.
const DICE_MAX: u64 = 20;
const SIDES_MAX: u64 = 100;
/// Limits of a note and of the file of notes.
const NOTE_BYTES_MAX: usize = 2_000;
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The agent with both tools. Notes go into the data directory.
pub fn equip(agent: Agent, data: &Path) -> anyhow::Result<Agent> {
    Ok(agent.tool(Dice)?.tool(Note { file: data.join("notes.md") })?)
}

struct Dice;

#[async_trait]
impl Tool for Dice {
    fn spec(&self) -> ToolSpec {
        let number = |max: u64| json!({"type": "integer", "minimum": 1, "maximum": max});
        let properties = json!({"count": number(DICE_MAX), "sides": number(SIDES_MAX)});
        let schema = json!({"type": "object", "properties": properties, "required": ["count", "sides"]});
        ToolSpec::new(DICE_TOOL, "Rolls dice and returns what they show.", schema)
    }

    fn policy(&self) -> Policy {
        Policy { effect: Effect::Read, ..Policy::default() }
    }

    async fn run(&self, _: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let number = |name: &str, max: u64| input[name].as_u64().unwrap_or(1).clamp(1, max);
        let (count, sides) = (number("count", DICE_MAX), number("sides", SIDES_MAX));
        let rolled: Result<Vec<String>, _> =
            (0..count).map(|_| entropy::below(sides).map(|side| (side + 1).to_string())).collect();
        match rolled {
            Ok(rolled) => Ok(rolled.join(" and ").into()),
            Err(error) => Err(format!("the system gives no random numbers: {error}").into()),
        }
    }
}

struct Note {
    file: PathBuf,
}

#[async_trait]
impl Tool for Note {
    fn spec(&self) -> ToolSpec {
        let properties = json!({"text": {"type": "string", "maxLength": NOTE_BYTES_MAX}});
        let schema = json!({"type": "object", "properties": properties, "required": ["text"]});
        ToolSpec::new(NOTE_TOOL, "Appends a line to notes.md in the data directory of the server.", schema)
    }

    fn policy(&self) -> Policy {
        Policy { effect: Effect::Once, approval: Approval::Needed, ..Policy::default() }
    }

    async fn run(&self, _: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let text = input["text"].as_str().unwrap_or_default().replace(['\n', '\r'], " ");
        if text.trim().is_empty() || text.len() > NOTE_BYTES_MAX {
            return Err(format!("a note has 1 to {NOTE_BYTES_MAX} bytes").into());
        }
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || append(&file, &text)).await;
        match written {
            Ok(Ok(())) => Ok(format!("written to {}", self.file.display()).into()),
            Ok(Err(error)) => Err(format!("{} cannot be written: {error}", self.file.display()).into()),
            Err(_) => Err("the note was not written".into()),
        }
    }
}

fn append(file: &Path, text: &str) -> std::io::Result<()> {
    let mut notes = OpenOptions::new().create(true).append(true).open(file)?;
    if notes.metadata()?.len() > FILE_BYTES_MAX {
        return Err(std::io::Error::other("the file is full; delete it to continue"));
    }
    notes.write_all(format!("- {text}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_lines_of_a_bounded_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("notes.md");
        append(&file, "one").unwrap();
        append(&file, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "- one\n- two\n");
        std::fs::write(&file, vec![b'x'; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(append(&file, "three").unwrap_err().to_string().contains("full"));
    }
}
