//! What the program and its helper processes tell each other: JSON, between two processes of one build.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a process may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessPolicy {
    /// The directory it works in.
    pub workspace: PathBuf,
    /// Whether it may change files there.
    pub access: Access,
    /// Whether it may use the network.
    pub network: Network,
    /// A directory for temporary files, which it may always write.
    pub temporary: Option<PathBuf>,
    /// More directories and files it may read.
    pub also_read: Vec<PathBuf>,
}

/// What a process may do with the files of its workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Read them.
    Read,
    /// Read and change them.
    Write,
}

/// What a process may do with the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Nothing.
    Off,
    /// What the daemon may do.
    On,
}

impl AccessPolicy {
    /// Reading the workspace and the system's programs; no network, no changes.
    pub fn reading(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            access: Access::Read,
            network: Network::Off,
            temporary: None,
            also_read: Vec::new(),
        }
    }

    /// Changing the workspace, without network.
    pub fn writing(workspace: impl Into<PathBuf>) -> Self {
        Self { access: Access::Write, ..Self::reading(workspace) }
    }
}

/// How a command is confined, once it is known what this machine can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Confinement {
    /// Not at all: the operator said so.
    Off,
    /// Landlock and seccomp.
    Kernel(AccessPolicy),
    /// Landlock and seccomp, inside a mount namespace of bubblewrap.
    Namespace(AccessPolicy),
}

/// The first and only message of a program to a supervisor: what to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartRequest {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
    pub directory: PathBuf,
    /// What it may reach.
    pub confinement: Confinement,
    /// How long it may take to end after it was told to, before it is killed.
    pub grace_milliseconds: u64,
}

/// What a supervisor tells the program, one JSON object per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command could not be started.
    Failed(String),
    /// The command runs.
    Started { pid: i32 },
    /// The command ended, and nothing it started is left.
    Ended { code: Option<i32>, signal: Option<i32>, killed: usize },
}

/// What a file tool is asked to do, in the confined process of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FileRequest {
    /// Lines of a file.
    Read { path: String, from: usize, lines: usize },
    /// The entries of a directory.
    List { path: String, depth: usize, glob: Option<String> },
    /// Lines, or names, that match.
    Search(SearchRequest),
    /// The whole content of a file.
    Write { path: String, content: String, read: Option<String> },
    /// Replacements in a file.
    Edit { path: String, edits: Vec<Edit>, read: Option<String> },
}

/// What to search for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SearchRequest {
    pub pattern: String,
    pub path: String,
    pub glob: Option<String>,
    pub context: usize,
    pub ignore_case: bool,
    pub names: bool,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub(crate) struct Edit {
    /// The text to replace, exactly as it is in the file. It must occur once, unless `all` is true.
    pub old: String,
    /// The text to put in its place.
    pub new: String,
    /// Replace every occurrence.
    #[serde(default)]
    pub all: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FileReply {
    /// Text for the model, and the hash of the file as it is now, if it was one.
    Text { text: String, hash: Option<String> },
    /// An image, in base64.
    Image { media_type: String, data: String },
    /// Why nothing was done.
    Refused(String),
}
