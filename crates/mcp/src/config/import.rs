//! Files of other clients: `.mcp.json`, `mcp.json`, `claude_desktop_config.json`, `settings.json`.
//!
//! Such a file names servers under `mcpServers` or `servers`. What it says about trust is not taken over: whether a server
//! is trusted is said in our own file.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{BadServer, NAME_CHARS_MAX, ServerEntry, ToolEntry};

/// Keys of other clients that change nothing about what a server does.
const HARMLESS: [&str; 14] = [
    "$schema",
    "alwaysAllow",
    "autoApprove",
    "description",
    "dev",
    "enabled",
    "gallery",
    "icon",
    "note",
    "oauth",
    "scope",
    "timeout",
    "trust",
    "version",
];

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadImport {
    /// It is not JSON.
    #[error("it is not JSON: {0}")]
    Json(String),
    /// It names no servers.
    #[error("it has no `mcpServers` and no `servers`")]
    NoServers,
    /// An entry of it cannot be used.
    #[error(transparent)]
    Server(#[from] BadServer),
}

/// The servers of a file, by names that fit here: lower case, and `-` for every other character.
///
/// # Errors
/// The file cannot be used, for the reason given.
pub fn servers(text: &str) -> Result<BTreeMap<String, ServerEntry>, BadImport> {
    let file: Value = serde_json::from_str(text).map_err(|error| BadImport::Json(error.to_string()))?;
    let named = file.get("mcpServers").or_else(|| file.get("servers")).and_then(Value::as_object);
    let mut servers = BTreeMap::new();
    for (raw, entry) in named.ok_or(BadImport::NoServers)? {
        let bad = |why: String| BadServer { server: raw.clone(), why };
        let Some(entry) = entry.as_object().cloned() else {
            return Err(bad("its entry is not an object".into()).into());
        };
        if entry.get("disabled") == Some(&Value::Bool(true)) || entry.get("enabled") == Some(&Value::Bool(false)) {
            continue;
        }
        let name = fitting(raw);
        if name.is_empty() || name.len() > NAME_CHARS_MAX || servers.contains_key(&name) {
            let why = format!(
                "its name becomes `{name}` here, which is empty, taken or longer than {NAME_CHARS_MAX} characters: copy \
                 the entry to [mcpServers] of your own file under another name"
            );
            return Err(bad(why).into());
        }
        servers.insert(name, converted(entry).map_err(bad)?);
    }
    Ok(servers)
}

fn fitting(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(fit).collect()
}

fn converted(mut entry: Map<String, Value>) -> Result<ServerEntry, String> {
    for key in HARMLESS.into_iter().chain(["disabled"]) {
        entry.remove(key);
    }
    for (theirs, ours) in [("httpUrl", "url"), ("includeTools", "only"), ("environment", "env")] {
        if let Some(value) = entry.remove(theirs) {
            entry.insert(ours.into(), value);
        }
    }
    if let Some(Value::Array(words)) = entry.get("command") {
        let mut words = words.clone().into_iter(); // opencode writes the arguments into the command.
        entry.insert("command".into(), words.next().unwrap_or_default());
        entry.insert("args".into(), words.collect());
    }
    let mut excluded = Vec::<String>::new();
    for key in ["excludeTools", "disabledTools"] {
        if let Some(names) = entry.remove(key) {
            let names: Vec<String> = serde_json::from_value(names).map_err(|error| format!("`{key}`: {error}"))?;
            excluded.extend(names);
        }
    }
    for key in ["envFile", "headersHelper", "auth"] {
        if entry.contains_key(key) {
            return Err(format!("`{key}` cannot be used here: write the values into variables and use ${{VARIABLE}}"));
        }
    }
    let mut server: ServerEntry = serde_json::from_value(Value::Object(entry)).map_err(|error| error.to_string())?;
    server.tools = excluded.into_iter().map(|tool| (tool, ToolEntry { off: true, ..ToolEntry::default() })).collect();
    Ok(server)
}
