//! A mount namespace of the system's bubblewrap.
//!
//! Landlock has no exceptions: a writable workspace is writable throughout, with the `.git/hooks` that later run outside.
//! Mounts have them. Bubblewrap is taken from its one usual place, since distributions allow user namespaces to that file
//! alone and a program of that name in the workspace must not be found.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::files::{SECRETS, SYSTEM};
use super::guard::PlaceholderLock;
use crate::wire::{Access, AccessPolicy, Network};

/// Where distributions install it.
const PROGRAM: &str = "/usr/bin/bwrap";
/// Where the confined child finds this program inside.
pub(crate) const INSIDE: &str = "/run/everturn";
/// Entries of a workspace that are looked through for repositories.
const WALKED_MAX: usize = 20_000;
/// Directories in which editors and agents look for things to run.
const GUARDED_DIRECTORIES: [&str; 5] = [".agents", ".claude", ".codex", ".cursor", ".vscode"];
/// Files in which they do.
pub(crate) const GUARDED_FILES: [&str; 2] = [".envrc", ".mcp.json"];

/// The system's bubblewrap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bubblewrap {
    program: PathBuf,
}

/// How to start a command in a namespace.
#[derive(Debug)]
pub(crate) struct NamespaceCommand {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Held while the command runs, if bubblewrap creates something in the workspace so that it can be mounted over.
    pub placeholders: Option<PlaceholderLock>,
}

impl Bubblewrap {
    /// The installed one, if there is one.
    pub fn find() -> Option<Self> {
        let program = PathBuf::from(PROGRAM);
        program.is_file().then_some(Self { program })
    }

    /// The command that runs `executable` as the confined child of `policy`; the child's own arguments follow.
    pub(crate) fn command(
        &self,
        policy: &AccessPolicy,
        executable: &Path,
        directory: &Path,
    ) -> io::Result<NamespaceCommand> {
        let mut mounts = Mounts::default();
        mounts.flags(&["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]);
        if policy.network == Network::Off {
            mounts.flags(&["--unshare-net"]);
        }
        mounts.flags(&["--new-session", "--die-with-parent", "--cap-drop", "ALL"]);
        for path in SYSTEM {
            mounts.bind("--ro-bind-try", Path::new(path));
        }
        for secret in SECRETS.map(Path::new).into_iter().filter(|path| path.exists()) {
            mounts.hide(secret);
        }
        mounts.flags(&["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
        for path in &policy.also_read {
            mounts.bind("--ro-bind-try", path);
        }
        mounts.add("--ro-bind", executable, Path::new(INSIDE));
        let placeholders = match policy.access {
            Access::Read => {
                mounts.bind("--ro-bind", &policy.workspace);
                None
            }
            Access::Write => {
                let mut lock = PlaceholderLock::take(&policy.workspace)?; // First: what is there now stays.
                mounts.bind("--bind", &policy.workspace);
                mounts.guard(&policy.workspace);
                lock.note(&mounts.placeholders)?;
                Some(lock)
            }
        };
        if let Some(temporary) = &policy.temporary {
            mounts.bind("--bind", temporary);
        }
        mounts.flags(&["--chdir"]);
        mounts.args.push(directory.into());
        mounts.flags(&["--", INSIDE]);
        Ok(NamespaceCommand { program: self.program.clone(), args: mounts.args, placeholders })
    }
}

#[derive(Debug, Default)]
struct Mounts {
    args: Vec<OsString>,
    placeholders: Vec<PathBuf>,
}

impl Mounts {
    fn flags(&mut self, flags: &[&str]) {
        self.args.extend(flags.iter().map(OsString::from));
    }

    fn add(&mut self, kind: &str, from: &Path, to: &Path) {
        self.args.extend([OsString::from(kind), from.into(), to.into()]);
    }

    fn bind(&mut self, kind: &str, path: &Path) {
        self.add(kind, path, path);
    }

    /// Puts nothing in the place of a file or directory.
    fn hide(&mut self, path: &Path) {
        if path.is_dir() {
            self.empty_directory(path);
        } else {
            self.add("--ro-bind", Path::new("/dev/null"), path);
        }
    }

    fn empty_directory(&mut self, path: &Path) {
        self.flags(&["--tmpfs"]);
        self.args.push(path.into());
        self.flags(&["--remount-ro"]);
        self.args.push(path.into());
    }

    /// Makes read-only what other programs run or obey, whether or not it exists.
    fn guard(&mut self, workspace: &Path) {
        for repository in repositories(workspace) {
            self.guard_repository(&repository);
        }
        for name in GUARDED_DIRECTORIES {
            self.guard_directory(&workspace.join(name));
        }
        for name in GUARDED_FILES {
            self.guard_file(&workspace.join(name));
        }
    }

    /// Commits stay possible; hooks, settings and attributes, through which a repository runs programs, do not change.
    fn guard_repository(&mut self, git: &Path) {
        if git.is_file() {
            return self.bind("--ro-bind", git); // It names the repository's directory, which may be anywhere.
        }
        // Mounted onto itself it cannot be renamed away, which would put new hooks in its place.
        self.bind("--bind", git);
        let modules = std::fs::read_dir(git.join("modules")).into_iter().flatten().flatten().map(|entry| entry.path());
        for part in std::iter::once(git.to_path_buf()).chain(modules) {
            self.guard_directory(&part.join("hooks"));
            self.guard_file(&part.join("config"));
            self.guard_file(&part.join("config.worktree"));
            let info = part.join("info");
            match info.is_dir() {
                true => self.guard_file(&info.join("attributes")),
                false => self.guard_directory(&info),
            }
        }
    }

    fn guard_directory(&mut self, path: &Path) {
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => self.bind("--ro-bind", path),
            Ok(_) => self.bind("--ro-bind-try", path),
            Err(_) if path.parent().is_some_and(Path::is_dir) => {
                self.placeholders.push(path.into());
                self.empty_directory(path);
            }
            Err(_) => {}
        }
    }

    fn guard_file(&mut self, path: &Path) {
        match path.symlink_metadata() {
            Ok(_) => self.bind("--ro-bind-try", path),
            Err(_) if path.parent().is_some_and(Path::is_dir) => {
                self.placeholders.push(path.into());
                self.add("--ro-bind", Path::new("/dev/null"), path);
            }
            Err(_) => {}
        }
    }
}

/// Every `.git` in the workspace, nested ones too; symbolic links are not followed.
fn repositories(workspace: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![workspace.to_path_buf()];
    let mut left = WALKED_MAX;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Some(fewer) = left.checked_sub(1) else { return found };
            left = fewer;
            let path = entry.path();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if entry.file_name() == ".git" {
                found.push(path);
            } else if is_directory {
                directories.push(path);
            }
        }
    }
    found
}
