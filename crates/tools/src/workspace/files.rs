//! What the file tools do, as functions of a directory and a request.

mod change;
mod look;
mod search;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::wire::{FileReply, FileRequest};

/// Bytes of text a reply may have.
const SHOWN_BYTES_MAX: usize = 48 * 1024;
/// Bytes of a file that is read whole.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Does what is asked, below `root`.
pub fn answer(root: &Path, request: FileRequest) -> FileReply {
    let outcome = match request {
        FileRequest::Read { path, from, lines } => look::read(root, &path, from, lines),
        FileRequest::List { path, depth, glob } => look::list(root, &path, depth, glob.as_deref()),
        FileRequest::Search(request) => search::search(root, &request),
        FileRequest::Write { path, content, read } => change::write(root, &path, &content, read.as_deref()),
        FileRequest::Edit { path, edits, read } => change::edit(root, &path, &edits, read.as_deref()),
    };
    outcome.unwrap_or_else(FileReply::Refused)
}

/// The path a request means: relative to the workspace, or absolute and inside it.
///
/// This is for clear errors. That links lead nowhere else is the kernel's business.
pub fn resolve(root: &Path, path: &str) -> Result<PathBuf, String> {
    if path.contains('\0') {
        return Err("a path has no NUL character".into());
    }
    if path.starts_with('~') {
        return Err(format!("{path:?}: give a path relative to the workspace; `~` is not part of it"));
    }
    let mut resolved = PathBuf::new();
    for component in root.join(path).components() {
        match component {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => resolved.push(component),
        }
    }
    match resolved.starts_with(root) {
        true => Ok(resolved),
        false => Err(format!("{path:?} is outside the workspace {}", root.display())),
    }
}

/// A path as the model knows it.
fn shown(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    if relative.as_os_str().is_empty() { ".".into() } else { relative.display().to_string() }
}

/// Opens a file for reading. Pipes without a writer do not block.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// The content of a regular file, up to a bound.
fn content(path: &Path) -> Result<Vec<u8>, String> {
    let name = path.display();
    let file = open(path).map_err(|error| format!("{name}: {error}"))?;
    let found = file.metadata().map_err(|error| format!("{name}: {error}"))?;
    if !found.is_file() {
        return Err(format!("{name} is not a regular file"));
    }
    if found.len() > FILE_BYTES_MAX {
        return Err(format!("{name} has {} bytes, at most {FILE_BYTES_MAX} are handled: use shell", found.len()));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| format!("{name}: {error}"))?;
    Ok(bytes)
}

/// The first half of a file's SHA-256, which is enough to notice a change.
fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
