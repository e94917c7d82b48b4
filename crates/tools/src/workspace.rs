//! Tools that work on the files of a directory: `read`, `list`, `search`, `write`, `edit` and `shell`.
//!
//! None of them touches a file from the daemon's own process. File tools run in a short-lived confined process that sees
//! nothing but the workspace, so the kernel and not a comparison of paths keeps them inside; commands run as
//! [`ToolCommand`](crate::ToolCommand)s under the same policy.

mod file_tools;
mod files;
pub(crate) mod process;
mod shell;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn::SharedTool;
use everturn::core::ids::ChatId;

use crate::confine::probe::Level;
use crate::wire::{Access, AccessPolicy, Network};

/// The argument that makes this program the confined process of the file tools.
pub const ROLE: &str = "__everturn-files";
/// Files whose state is remembered over all chats. One that is forgotten has to be read again before it is changed.
const SEEN_MAX: usize = 10_000;

type Seen = HashMap<(ChatId, PathBuf), String>;

/// A directory that an agent works in.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) temporary: PathBuf,
    pub(crate) level: Level,
    pub(crate) network: Network,
    pub(crate) helper: PathBuf,
    seen: Arc<Mutex<Seen>>,
}

impl Workspace {
    /// The workspace at `root`, confined at `level`. `temporary` is for temporary files of commands; both must exist.
    pub fn new(root: impl AsRef<Path>, temporary: impl AsRef<Path>, level: Level) -> io::Result<Self> {
        Ok(Self {
            root: root.as_ref().canonicalize()?,
            temporary: temporary.as_ref().canonicalize()?,
            level,
            network: Network::Off,
            helper: crate::supervisor::OWN_EXECUTABLE.into(),
            seen: Arc::default(),
        })
    }

    /// Says whether commands may use the network.
    #[must_use]
    pub const fn with_network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Uses another executable for the helper processes; see [`ToolCommand::with_helper`](crate::ToolCommand::with_helper).
    #[must_use]
    pub fn with_helper(mut self, executable: impl Into<PathBuf>) -> Self {
        self.helper = executable.into();
        self
    }

    /// All tools that the level allows. [`Level::Files`] has no `shell`.
    pub fn tools(&self) -> Vec<SharedTool> {
        let mut tools = file_tools::all(self);
        if self.level != Level::Files {
            tools.push(Arc::new(shell::Shell::new(self.clone())));
        }
        tools
    }

    /// What a command may reach.
    pub(crate) fn policy(&self, access: Access) -> AccessPolicy {
        AccessPolicy {
            workspace: self.root.clone(),
            access,
            network: self.network,
            temporary: Some(self.temporary.clone()),
            also_read: Vec::new(),
        }
    }

    /// The hash of a file when the chat last read or wrote it.
    pub(crate) fn seen(&self, chat: ChatId, path: &str) -> Option<String> {
        self.locked().get(&(chat, self.key(path))).cloned()
    }

    /// Remembers the state of a file.
    pub(crate) fn remember(&self, chat: ChatId, path: &str, hash: String) {
        let key = (chat, self.key(path));
        let mut seen = self.locked();
        if seen.len() >= SEEN_MAX && !seen.contains_key(&key) {
            seen.clear();
        }
        seen.insert(key, hash);
    }

    fn key(&self, path: &str) -> PathBuf {
        files::resolve(&self.root, path).unwrap_or_else(|_| path.into())
    }

    fn locked(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
