//! What is kept of each chat, beside the workspace on its host.
//!
//! ```text
//! STATE/lock                     held while a file changes
//! STATE/CHAT/seen/…              hashes of files when the chat last read or wrote them
//! STATE/CHAT/instructions.json   the instructions of the project that the chat was told
//! STATE/CHAT/nested.json         the instructions of directories that the chat was told
//! STATE/CHAT/temporary/          temporary files and home directory of its commands
//! STATE/CHAT/jobs/               background jobs
//! STATE/CHAT/commands/           commands that calls wait for
//! STATE/CHAT/CALL/before         content of a file before the call changed it
//! STATE/CHAT/CALL/prepared.json  the change; renamed to made.json when the file has changed, and to undone.json
//! ```
//!
//! Commands never reach it: of all this they see the temporary directory of their own chat.

mod record;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use everturn::core::ids::ChatId;

use super::jobs::ChatJobs;
use super::recorded::ChatCommands;

pub use record::{ChatState, hash, parse as parse_call, sync};

const LOCK: &str = "lock";
/// How long the state of a chat is kept after its last call.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Bytes of state that are kept. Above that, the chats that rested longest lose theirs.
const BYTES_MAX: u64 = 4 << 30;
/// A chat that was used this recently keeps its state in any case.
const IN_USE: Duration = Duration::from_secs(60 * 60);

/// The directory in which the state of all chats of a workspace is kept.
#[derive(Debug, Clone)]
pub struct StateDirectory {
    root: PathBuf,
}

impl StateDirectory {
    /// Opens the directory, and makes it if it is missing.
    pub fn open(root: &Path) -> io::Result<Self> {
        make_directory(root)?;
        let root = root.canonicalize()?;
        File::options().create(true).append(true).mode(0o600).open(root.join(LOCK))?;
        Ok(Self { root })
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The file that is locked while a file of the workspace changes.
    pub fn lock(&self) -> PathBuf {
        self.root.join(LOCK)
    }

    /// The state of a chat, which counts as used now.
    pub fn chat(&self, chat: ChatId) -> io::Result<ChatState> {
        let directory = self.of(chat);
        make_directory(&directory)?;
        File::open(&directory)?.set_modified(crate::clock::wall_time())?;
        Ok(ChatState::new(directory))
    }

    /// The directory of a chat, which may be missing.
    pub fn of(&self, chat: ChatId) -> PathBuf {
        self.root.join(chat.to_string())
    }

    /// All chats that something is kept of, each with its directory.
    pub fn chats(&self) -> io::Result<Vec<(ChatId, PathBuf)>> {
        let entries = fs::read_dir(&self.root)?.flatten();
        let chats = entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
        Ok(chats.collect())
    }

    /// Removes everything that is kept of a chat.
    pub fn forget(&self, chat: ChatId) -> io::Result<()> {
        remove_tree(&self.of(chat))
    }

    /// Removes the state of chats that were not used for long, and of those that rested longest if all of it is too large.
    pub fn sweep(&self) -> io::Result<()> {
        self.sweep_to(crate::clock::wall_time(), BYTES_MAX)
    }

    fn sweep_to(&self, now: SystemTime, bytes_max: u64) -> io::Result<()> {
        let mut chats = Vec::new();
        for (chat, directory) in self.chats()? {
            let in_use = ChatJobs::at(chat, &directory).any_runs() || ChatCommands::at(&directory).any_runs();
            if let (false, Ok(used)) = (in_use, directory.metadata().and_then(|found| found.modified())) {
                chats.push((now.duration_since(used).unwrap_or_default(), directory));
            }
        }
        chats.sort_unstable(); // The most recently used first: they keep theirs.
        let mut kept = 0;
        for (unused, directory) in chats {
            kept += bytes_below(&directory);
            if unused > AGE_MAX || kept > bytes_max && unused > IN_USE {
                remove_tree(&directory)?;
            }
        }
        Ok(())
    }
}

/// Makes a directory that no other user can look into.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let found = entry.metadata().ok()?; // Of a link itself, not of what it leads to.
        Some(if found.is_dir() { bytes_below(&entry.path()) } else { found.len() })
    });
    sizes.sum()
}

/// Removes a directory with all below it. Commands leave read-only directories, such as the module cache of Go.
fn remove_tree(directory: &Path) -> io::Result<()> {
    let first = fs::remove_dir_all(directory);
    if first.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        make_writable(directory);
        return fs::remove_dir_all(directory);
    }
    match first {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn make_writable(directory: &Path) {
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
