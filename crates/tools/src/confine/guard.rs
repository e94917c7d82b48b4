//! Placeholders of mounts, and when they go.
//!
//! To mount something over a name that does not exist, bubblewrap creates it in the workspace. It must stay as long as any
//! command runs there: the kernel takes a mount away when another process removes what it is mounted on, and the name would
//! be free to be written. So each command holds a shared lock, and the last one to end removes what all of them left. The
//! list of that is in the locked file, so that what a power cut leaves is removed later.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead as _, BufReader, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The part of a command in the placeholders of a workspace.
#[derive(Debug)]
pub(crate) struct PlaceholderLock {
    file: File,
}

impl PlaceholderLock {
    /// Keeps placeholders in the workspace from being removed, until it is released.
    pub fn take(workspace: &Path) -> io::Result<Self> {
        let found = workspace.metadata()?;
        let path = directory()?.join(format!("{}-{}", found.dev(), found.ino()));
        let file = File::options().create(true).read(true).append(true).mode(0o600).open(path)?;
        flock(&file, FlockOperation::LockShared)?;
        Ok(Self { file })
    }

    /// Notes what the command's mounts will create.
    pub fn note(&mut self, placeholders: &[PathBuf]) -> io::Result<()> {
        let mut lines = Vec::new();
        for path in placeholders {
            serde_json::to_writer(&mut lines, path)?;
            lines.push(b'\n');
        }
        self.file.write_all(&lines)
    }

    /// Removes the placeholders that are still empty, unless another command runs. It will do so then.
    pub fn release(mut self) -> io::Result<()> {
        if flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        self.file.rewind()?;
        for line in BufReader::new(&self.file).lines() {
            if let Ok(path) = serde_json::from_str::<PathBuf>(&line?) {
                remove_empty(&path);
            }
        }
        self.file.set_len(0)
    }
}

fn remove_empty(path: &Path) {
    let is_empty_file = |found: &Metadata| found.is_file() && found.len() == 0;
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => drop(fs::remove_dir(path)),
        Ok(found) if is_empty_file(&found) => drop(fs::remove_file(path)),
        Ok(_) | Err(_) => {}
    }
}

/// A directory of this user, for the locks of all workspaces. Commands do not see it.
fn directory() -> io::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let directory = std::env::temp_dir().join(format!("everturn-locks-{user}"));
    let made = fs::DirBuilder::new().mode(0o700).create(&directory);
    if made.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::AlreadyExists) {
        made?;
    }
    let found = directory.symlink_metadata()?;
    match found.is_dir() && found.uid() == user {
        true => Ok(directory),
        false => Err(io::Error::other(format!("{} belongs to another user: remove it", directory.display()))),
    }
}
