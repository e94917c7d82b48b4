//! What the program and its helper processes tell each other: JSON, between two processes of one build.

use std::collections::BTreeMap;
use std::path::PathBuf;

use everturn::core::ids::{CallUid, StepId};
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
    /// The permissions that files it makes do not have.
    pub umask: u32,
    /// How long it may take to end after it was told to, before it is killed.
    pub grace_milliseconds: u64,
    /// The directory whose changes are reported.
    pub watched: Option<PathBuf>,
    /// The background job that it is or may become, if its output and end are recorded.
    pub job: Option<JobRequest>,
}

/// What a supervisor has to know of a background job, or of a command that may become one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobRequest {
    /// Where its output and its end are kept.
    pub directory: PathBuf,
    /// How long it may take.
    pub seconds: u64,
    pub life: JobLife,
    pub output: JobOutput,
}

/// Where the output of a recorded command goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum JobOutput {
    /// To its files.
    Files,
    /// To its files, and to the program, which waits for it.
    FilesAndProgram,
}

/// How long a background job may live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum JobLife {
    /// It ends with the program that started it.
    #[default]
    WithProgram,
    /// It goes on when that program ends, and the next one finds it.
    Kept,
}

/// Why a background job is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEndCause {
    /// It ended by itself.
    Exited,
    /// It was told to.
    Stopped,
    /// Its time was up.
    TimeUp,
    /// The program that started it ended.
    ProgramGone,
}

/// How a background job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// Why it is over.
    pub cause: JobEndCause,
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did and was not the supervisor's last.
    pub signal: Option<i32>,
    /// Processes that it left and that were killed.
    pub killed: usize,
    /// When it ended, in milliseconds since 1970.
    pub at_milliseconds: u64,
    /// Bytes that it printed.
    pub output_bytes: u64,
}

/// What is recorded of a background job before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobRecord {
    pub call: CallName,
    pub workspace: PathBuf,
    pub command: String,
    pub started_milliseconds: u64,
    pub seconds: u64,
    pub life: JobLife,
}

/// Where the outcome of a call that waits is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WaitHandle {
    pub job: u32,
    pub until_milliseconds: u64,
}

/// What a supervisor tells the program, one JSON object per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The command could not be started.
    Failed(String),
    /// The command runs.
    Started { pid: i32 },
    /// The command ended, and nothing it started is left.
    Ended { code: Option<i32>, signal: Option<i32>, killed: usize, changes: Option<TreeChanges> },
}

/// What a command changed in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TreeChanges {
    /// Files that are new, changed or gone, one line each, and how many there are.
    Some {
        /// The first of them.
        lines: Vec<String>,
        /// How many there are.
        count: usize,
    },
    /// The directory has too many files to be compared.
    TooMany,
}

/// One request to the confined process of the file tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileJob {
    /// The directory of what is kept of the chat.
    pub state: PathBuf,
    /// The file that is locked while a file of the workspace changes.
    pub lock: PathBuf,
    /// Instructions to tell behind the result, if the request is a call's.
    pub nested: Option<NestedInstructions>,
    pub request: FileRequest,
}

/// Which files have instructions for the directory they are in and those below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NestedInstructions {
    /// The call that is told.
    pub call: CallName,
    /// Their names, without directories.
    pub names: Vec<String>,
}

/// Instructions of a directory that a chat was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToldNested {
    /// The hash of the text.
    pub hash: String,
    /// The call behind whose result they were told.
    pub call: CallName,
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
    /// A change of a file, by a call.
    Change { call: CallName, path: String, change: Change },
    /// Files with instructions.
    Instructions { files: Vec<String> },
    /// The changes of the chat.
    Changes,
    /// The old content of what calls changed.
    Undo { calls: Vec<CallName> },
}

/// A call, by its step and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallName {
    pub step: u64,
    pub ordinal: u16,
}

impl From<CallUid> for CallName {
    fn from(call: CallUid) -> Self {
        Self { step: call.step.0, ordinal: call.ordinal }
    }
}

impl From<CallName> for CallUid {
    fn from(call: CallName) -> Self {
        Self { step: StepId(call.step), ordinal: call.ordinal }
    }
}

/// How a file is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    /// It gets another content.
    Write { content: String },
    /// Texts in it are replaced.
    Edit { edits: Vec<Edit> },
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
    /// Text for the model.
    Text(String),
    /// Changes of the chat.
    Changes(Vec<ChangeEntry>),
    /// An image, in base64.
    Image { path: String, media_type: String, data: String },
    /// Why nothing was done.
    Refused(String),
}

/// What one call does to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// The file, relative to the workspace, without links.
    pub path: String,
    /// The file before; none if it was not there.
    pub old: Option<OldFile>,
    /// The hash of the new content.
    pub new: String,
    /// The change for people.
    pub diff: String,
}

/// A file before it was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldFile {
    pub hash: String,
    pub mode: u32,
    pub before: BeforeImage,
}

/// Whether the old content was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BeforeImage {
    Kept,
    TooLarge,
}

/// How far a change got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeStage {
    /// It is recorded; the file is as before, or the process died before it could say otherwise.
    Prepared,
    /// The file has changed.
    Made,
    /// It was undone.
    Undone,
}

/// A change, with the call that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeEntry {
    pub call: CallName,
    pub stage: ChangeStage,
    pub record: ChangeRecord,
}

/// The instructions of the project that a chat was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldInstructions {
    /// The text that it began with.
    pub first: String,
    /// The hash of the text that it was told last.
    pub newest: String,
    /// The step before which it was told that; none for the first text.
    pub step: Option<u64>,
}
