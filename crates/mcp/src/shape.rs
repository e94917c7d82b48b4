//! The stored shape of the tool cache.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::config::Protocol;
use crate::definition::{Hints, ToolDefinition};
use crate::names::hex;
use crate::tool_cache::KnownTools;

/// Version of the shape.
const VERSION: u32 = 1;

/// The file of one server.
#[derive(Serialize, Deserialize)]
pub struct StoredFile {
    version: u32,
    /// SHA-256 of `content`.
    sha256: String,
    /// JSON text of a [`StoredTools`], as text so that its hash does not depend on how it is written.
    content: String,
}

#[derive(Serialize, Deserialize)]
struct StoredTools {
    source: String,
    protocol: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    tools: Vec<StoredTool>,
}

#[derive(Serialize, Deserialize)]
struct StoredTool {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    description: String,
    input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    read_only: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destructive: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idempotent: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open_world: Option<bool>,
}

/// The bytes of a file with these tools.
pub fn written(source: &str, known: &KnownTools) -> serde_json::Result<Vec<u8>> {
    let content = serde_json::to_string(&StoredTools {
        source: source.into(),
        protocol: known.protocol.version().into(),
        server: known.server.clone(),
        instructions: known.instructions.clone(),
        tools: known.tools.iter().cloned().map(StoredTool::from).collect(),
    })?;
    let sha256 = hex(&Sha256::digest(&content));
    serde_json::to_vec_pretty(&StoredFile { version: VERSION, sha256, content })
}

/// The tools of a file, if it is whole and about this source.
pub fn read(bytes: &[u8], source: &str) -> Result<KnownTools, String> {
    let file: StoredFile = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if file.version != VERSION {
        return Err(format!("its version is {}, and {VERSION} is expected", file.version));
    }
    if hex(&Sha256::digest(&file.content)) != file.sha256 {
        return Err("its checksum is wrong".into());
    }
    let stored: StoredTools = serde_json::from_str(&file.content).map_err(|error| error.to_string())?;
    if stored.source != source {
        return Err("it is about another command or address".into());
    }
    let protocol = match stored.protocol.as_str() {
        version if version == Protocol::Initialize.version() => Protocol::Initialize,
        version if version == Protocol::Discover.version() => Protocol::Discover,
        other => return Err(format!("it names the unknown protocol {other}")),
    };
    Ok(KnownTools {
        protocol,
        server: stored.server,
        instructions: stored.instructions,
        tools: stored.tools.into_iter().map(ToolDefinition::from).collect(),
    })
}

impl From<ToolDefinition> for StoredTool {
    fn from(tool: ToolDefinition) -> Self {
        let ToolDefinition { name, title, description, input, output, hints } = tool;
        let Hints { read_only, destructive, idempotent, open_world } = hints;
        Self { name, title, description, input, output, read_only, destructive, idempotent, open_world }
    }
}

impl From<StoredTool> for ToolDefinition {
    fn from(tool: StoredTool) -> Self {
        let StoredTool { name, title, description, input, output, read_only, destructive, idempotent, open_world } =
            tool;
        let hints = Hints { read_only, destructive, idempotent, open_world };
        Self { name, title, description, input, output, hints }
    }
}
