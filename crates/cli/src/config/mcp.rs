//! MCP servers in the configuration file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use everturn_mcp::config::import;
use everturn_mcp::{ServerConfig, ServerEntry};

/// The entries of the file, and the files of other clients.
#[derive(Debug, Default)]
pub struct McpEntries {
    pub own: BTreeMap<String, ServerEntry>,
    pub files: Vec<PathBuf>,
    /// The directory of the configuration file, where relative paths begin.
    pub beside: PathBuf,
}

impl McpEntries {
    /// The servers, with their variables filled in. An entry of our own file replaces one of another client's file.
    pub fn servers(&self, variable: impl Fn(&str) -> Option<String> + Copy) -> anyhow::Result<Vec<ServerConfig>> {
        let mut servers = BTreeMap::new();
        for file in &self.files {
            let path = self.beside.join(file);
            let told = || format!("`mcp_config`: {}", path.display());
            let text = std::fs::read_to_string(&path).with_context(told)?;
            let beside = path.parent().unwrap_or(Path::new("/"));
            for (name, entry) in import::servers(&text).with_context(told)? {
                if self.own.contains_key(&name) {
                    continue;
                }
                let server = entry.check(&name, variable, beside).with_context(told)?;
                if servers.insert(name.clone(), server).is_some() {
                    bail!("{}: the MCP server `{name}` is in two files: copy the one you want to [mcpServers]", told());
                }
            }
        }
        for (name, entry) in &self.own {
            servers.insert(name.clone(), entry.clone().check(name, variable, &self.beside)?);
        }
        Ok(servers.into_values().collect())
    }
}
