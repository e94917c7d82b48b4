//! What is known about a server while it does not run.
//!
//! Prompts are made of the tool cache, and servers start when they are called. So tools do not vanish when a server is
//! slow, dead or restarted, and the prompt stays the same. One file per server, replaced as a whole and checked when it is
//! read; a file that is damaged or about another command is as good as none.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::config::{Place, Protocol, ServerConfig};
use crate::definition::ToolDefinition;
use crate::names::hex;
use crate::shape;

/// Largest file that is read: 256 tools with schemas and descriptions.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The tool lists that servers gave last.
#[derive(Debug, Clone)]
pub(crate) struct ToolCache {
    directory: PathBuf,
}

/// What a server said when it was last connected to.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownTools {
    /// The protocol that it speaks.
    pub protocol: Protocol,
    /// Its name and version.
    pub server: Option<String>,
    /// Its instructions for models.
    pub instructions: Option<String>,
    /// Its tools, ordered by name.
    pub tools: Vec<ToolDefinition>,
}

impl ToolCache {
    pub(crate) fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// What is known about a server.
    pub(crate) fn read(&self, config: &ServerConfig) -> Option<KnownTools> {
        let path = self.path(&config.name);
        let bytes = match std::fs::metadata(&path) {
            Ok(about) if about.len() <= FILE_BYTES_MAX => std::fs::read(&path).ok()?,
            Ok(_) | Err(_) => return None,
        };
        match shape::read(&bytes, &source(config)) {
            Ok(known) => Some(known),
            Err(why) => {
                tracing::info!(server = config.name, why, "the stored tools of an MCP server are not used");
                None
            }
        }
    }

    /// Stores what is known about a server.
    pub(crate) fn write(&self, config: &ServerConfig, known: &KnownTools) -> io::Result<()> {
        std::fs::create_dir_all(&self.directory)?;
        let bytes = shape::written(&source(config), known)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(&bytes)?;
        file.as_file().sync_all()?;
        file.persist(self.path(&config.name))?;
        std::fs::File::open(&self.directory)?.sync_all()
    }

    fn path(&self, server: &str) -> PathBuf {
        Path::new(&self.directory).join(format!("{server}.json"))
    }
}

/// The identity of what runs: another command or address is another server. Variables and headers are left out: they are
/// credentials, and those may change.
fn source(config: &ServerConfig) -> String {
    let what = match &config.place {
        Place::Command { argv, .. } => argv.join("\0"),
        Place::Http { url, .. } => url.to_string(),
    };
    hex(&Sha256::digest(what))
}
