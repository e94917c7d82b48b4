//! What the file tools do, as functions of a directory and a request.

mod change;
mod instructions;
mod look;
mod nested;
mod search;
mod undo;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use super::state::ChatState;
use crate::wire::{FileReply, FileRequest, NestedInstructions};

/// Bytes of text a reply may have.
const SHOWN_BYTES_MAX: usize = 48 * 1024;
/// Bytes of a file that is read whole.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What the file tools work with: a directory, and the state of the chat they work for.
#[derive(Debug)]
pub struct FileContext {
    /// The workspace.
    pub root: PathBuf,
    pub state: ChatState,
    pub lock: PathBuf,
}

impl FileContext {
    /// Does what is asked, and adds instructions that hold for the file that it works on.
    pub fn answer_with_notes(&self, request: FileRequest, nested: Option<&NestedInstructions>) -> FileReply {
        let path = nested::worked_on(&request);
        match (self.answer(request), path, nested) {
            (FileReply::Text(text), Some(path), Some(nested)) => {
                let notes = nested::notes(self, nested, &path);
                FileReply::Text(text + &notes)
            }
            (reply, ..) => reply,
        }
    }

    /// Does what is asked.
    pub fn answer(&self, request: FileRequest) -> FileReply {
        let outcome = match request {
            FileRequest::Read { path, from, lines } => look::read(self, &path, from, lines),
            FileRequest::List { path, depth, glob } => look::list(self, &path, depth, glob.as_deref()),
            FileRequest::Search(request) => search::search(self, &request),
            FileRequest::Change { call, path, change } => change::change(self, call.into(), &path, &change),
            FileRequest::Instructions { files } => Ok(instructions::instructions(self, &files)),
            FileRequest::Changes => undo::changes(self).map(FileReply::Changes),
            FileRequest::Undo { calls } => undo::undo(self, &calls).map(FileReply::Changes),
        };
        outcome.unwrap_or_else(FileReply::Refused)
    }

    /// The file or directory that a path means, without links. It may be missing; it is inside the workspace.
    ///
    /// This is for clear errors, and for machines that cannot confine processes. Elsewhere the kernel sees to it, also
    /// when links change at this moment.
    fn locate(&self, path: &str) -> Result<PathBuf, String> {
        let named = resolve(&self.root, path)?;
        let mut missing = Vec::new();
        let mut there = named.as_path();
        let real = loop {
            match there.canonicalize() {
                Ok(real) => break real,
                Err(_) if there.is_symlink() => return Err(format!("{path} is a link that leads nowhere")),
                Err(error) => match (error.kind(), there.parent(), there.file_name()) {
                    (io::ErrorKind::NotFound, Some(parent), Some(name)) => {
                        missing.push(name);
                        there = parent;
                    }
                    _ => return Err(format!("{path}: {error}")),
                },
            }
        };
        if !real.starts_with(&self.root) {
            return Err(format!("{path} leads outside the workspace, to {}", real.display()));
        }
        Ok(missing.into_iter().rev().fold(real, |above, name| above.join(name)))
    }

    /// A path as the model knows it.
    fn shown(&self, path: &Path) -> String {
        shown(&self.root, path)
    }

    /// Keeps every other process of this workspace from changing a file, until it is dropped.
    fn lock(&self) -> Result<File, String> {
        let says = |error: io::Error| format!("the workspace cannot be locked: {error}");
        let lock = File::open(&self.lock).map_err(says)?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).map_err(|error| says(error.into()))?;
        Ok(lock)
    }
}

/// The path a request means: relative to the workspace, or absolute and inside it.
///
/// Links are not looked at.
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

/// Where a path leads, relative to the workspace and with links followed; `None` if that is outside or cannot be told. A
/// file that is not there yet counts as in its directory.
pub fn leads_to(root: &Path, path: &str) -> Option<String> {
    let resolved = resolve(root, path).ok()?;
    let mut missing = Vec::new();
    let mut there = resolved.as_path();
    let mut real = loop {
        match there.canonicalize() {
            Ok(real) => break real,
            Err(_) if there.symlink_metadata().is_ok() => return None, // A link that leads nowhere, or in a circle.
            Err(_) => {
                missing.push(there.file_name()?);
                there = there.parent()?;
            }
        }
    };
    real.extend(missing.into_iter().rev());
    let relative = real.strip_prefix(root).ok()?.to_str()?;
    Some(if relative.is_empty() { ".".into() } else { relative.into() })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules see where a path leads: links are followed, and what is outside or leads nowhere is not known.
    #[test]
    fn a_path_leads_where_its_links_lead() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap().join("root");
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::create_dir_all(root.join("secret")).unwrap();
        let link = |name: &str, to: &str| std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        link("src/link", "../secret");
        link("src/out", "../../other");
        link("src/up", "../..");
        link("src/round", "round");
        for (path, leads) in [
            (".", Some(".")),
            ("src/new/file", Some("src/new/file")),
            ("src/../secret", Some("secret")),
            ("src/link/key", Some("secret/key")),
            ("src/up/root/secret/key", Some("secret/key")),
            ("src/out", None),
            ("src/up/other", None),
            ("src/round", None),
            ("../other", None),
            ("~/x", None),
        ] {
            assert_eq!(leads_to(&root, path).as_deref(), leads, "{path}");
        }
    }
}
