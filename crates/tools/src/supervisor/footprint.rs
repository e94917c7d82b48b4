//! What a command changed in its workspace: names, sizes and times of files before and after it.
//!
//! Contents are not looked at, links are not followed, and what is below `.git` is left out: a commit changes hundreds of
//! files there, which say nothing.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

use crate::confine::namespace::GUARDED_FILES;
use crate::wire::TreeChanges;

/// Files and directories that are looked at. In a larger tree changes are not told.
const ENTRIES_MAX: usize = 20_000;
/// Changed paths that are told; the rest is counted.
const PATHS_MAX: usize = 200;

/// The state of all files of a directory, if they are not too many.
#[derive(Debug, PartialEq, Eq)]
pub struct Footprint {
    files: Option<BTreeMap<String, FileStamp>>,
}

#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: i64,
    mode: u32,
    changed: (i64, u64),
}

impl Footprint {
    /// Walks a directory.
    pub fn of(root: &Path) -> Self {
        let mut walk = Walk { files: BTreeMap::new(), left: ENTRIES_MAX };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let complete = openat(CWD, root, flags, Mode::empty()).ok().and_then(|root| walk.directory(&root, ""));
        Self { files: complete.map(|()| walk.files) }
    }

    /// What is different in a later state.
    pub fn changes(&self, later: &Self) -> TreeChanges {
        let (Some(before), Some(after)) = (&self.files, &later.files) else { return TreeChanges::TooMany };
        let changed = after.iter().filter_map(|(path, stamp)| match before.get(path) {
            None => Some(format!("new      {path}")),
            Some(old) if old != stamp => Some(format!("changed  {path}")),
            Some(_) => None,
        });
        let gone = before.keys().filter(|path| !after.contains_key(*path)).map(|path| format!("gone     {path}"));
        let mut lines: Vec<String> = changed.chain(gone).collect();
        let count = lines.len();
        lines.truncate(PATHS_MAX);
        TreeChanges::Some { lines, count }
    }
}

struct Walk {
    files: BTreeMap<String, FileStamp>,
    left: usize,
}

impl Walk {
    /// Walks a directory, and says nothing if there is too much in it. What cannot be read is left out.
    fn directory(&mut self, directory: &OwnedFd, path: &str) -> Option<()> {
        let names = Dir::read_from(directory).into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_owned()).filter(|name| !is_special(name));
        for name in names.collect::<Vec<CString>>() {
            self.left = self.left.checked_sub(1)?;
            let Ok(found) = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let below = format!("{path}{}", name.to_string_lossy());
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                if let Ok(inner) = openat(directory, &name, flags, Mode::empty()) {
                    self.directory(&inner, &format!("{below}/"))?;
                }
                continue;
            }
            if found.st_size == 0 && GUARDED_FILES.iter().any(|guarded| guarded.as_bytes() == name.as_bytes()) {
                continue; // A placeholder of another command, which goes when that ends.
            }
            let changed = (found.st_ctime, found.st_ctime_nsec);
            let stamp = FileStamp { inode: found.st_ino, size: found.st_size, mode: found.st_mode, changed };
            self.files.insert(below, stamp);
        }
        Some(())
    }
}

fn is_special(name: &CString) -> bool {
    [b".".as_slice(), b"..", b".git"].contains(&name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_changed_and_missing_files_are_told() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for directory in ["a", ".git"] {
            std::fs::create_dir(at(directory)).unwrap();
        }
        for file in ["a/same", "changed", "gone", ".git/index"] {
            std::fs::write(at(file), "old").unwrap();
        }
        std::os::unix::fs::symlink("/", at("link")).unwrap();
        let before = Footprint::of(root.path());
        assert_eq!(before.changes(&Footprint::of(root.path())), TreeChanges::Some { lines: Vec::new(), count: 0 });
        std::fs::write(at("changed"), "new").unwrap();
        std::fs::write(at("a/new"), "new").unwrap();
        std::fs::write(at(".git/index"), "new").unwrap();
        std::fs::remove_file(at("gone")).unwrap();
        let changes = before.changes(&Footprint::of(root.path()));
        let lines = ["new      a/new", "changed  changed", "gone     gone"].map(str::to_owned).to_vec();
        assert_eq!(changes, TreeChanges::Some { lines, count: 3 });
    }

    #[test]
    fn a_large_tree_is_not_compared() {
        let root = tempfile::tempdir().unwrap();
        let mut walk = Walk { files: BTreeMap::new(), left: 1 };
        for name in ["a", "b"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        let opened = OwnedFd::from(std::fs::File::open(root.path()).unwrap());
        assert_eq!(walk.directory(&opened, ""), None);
        let unknown = Footprint { files: None };
        assert_eq!(unknown.changes(&Footprint::of(root.path())), TreeChanges::TooMany);
    }
}
