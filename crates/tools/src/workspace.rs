//! Tools that work on the files of a directory: `read`, `list`, `search`, `write`, `edit`, `shell` and `job`;
//! and `recall` for what they put out.
//!
//! None of them touches a file from the daemon's own process. File tools run in a short-lived confined process that sees
//! nothing but the workspace, so the kernel and not a comparison of paths keeps them inside; commands run as
//! [`ToolCommand`]s under the same policy.
//!
//! `write` and `edit` record a change before they make it, beside the workspace in its state directory. So a call that a
//! crash interrupted is repeated without changing a file twice, and [`Workspace::changes`] and [`Workspace::undo`] tell and
//! take back what calls did.

mod file_tools;
mod files;
mod instructions;
mod job_tool;
mod jobs;
pub(crate) mod process;
mod recorded;
mod shell;
pub(crate) mod state;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::chat::Chat;
use everturn::core::ids::{CallUid, ChatId};
use everturn::core::permission::PatternKind;
use everturn::{Hook, SharedTool};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use crate::confine::namespace::INSIDE;
use crate::confine::probe::Level;
use crate::recall::Recall;
use crate::supervisor::ToolCommand;
use crate::wire::{
    Access, AccessPolicy, BeforeImage, ChangeEntry, ChangeStage, FileJob, FileReply, FileRequest, JobLife,
    NestedInstructions, Network,
};
use instructions::WorkspaceInstructions;
use jobs::{ChatJobs, JobFiles};
use state::{ChatState, StateDirectory};

pub use jobs::{BackgroundJob, JobState};

/// The argument that makes this program the confined process of the file tools.
pub const ROLE: &str = "__everturn-files";
/// How often the state of chats that rest is looked through.
const SWEPT_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// How often a request is sent to a process that dies over it.
const ATTEMPTS: usize = 2;

/// A directory that an agent works in.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) level: Level,
    pub(crate) network: Network,
    pub(crate) helper: PathBuf,
    pub(crate) job_life: JobLife,
    pub(crate) long_commands: LongCommands,
    nested: Vec<String>,
    state: StateDirectory,
    swept: Arc<Mutex<Option<Instant>>>,
}

impl Workspace {
    /// Names that models call tools by out of habit, and the tools that take the same input. `Toolbox::alias` takes them.
    ///
    /// `Read`, `glob` and `str_replace` are not among them: their usual inputs have other fields.
    pub const ALIASES: [(&str, &str); 6] =
        [("bash", "shell"), ("Bash", "shell"), ("cat", "read"), ("ls", "list"), ("grep", "search"), ("Grep", "search")];

    /// The names of all tools, with what a pattern in a permission rule means to each.
    pub const TOOLS: [(&str, PatternKind); 8] = [
        ("read", PatternKind::Path),
        ("list", PatternKind::Path),
        ("search", PatternKind::Path),
        ("write", PatternKind::Path),
        ("edit", PatternKind::Path),
        ("shell", PatternKind::Command),
        ("job", PatternKind::Nothing),
        ("recall", PatternKind::Nothing),
    ];

    /// The workspace at `root`, confined at `level`.
    ///
    /// `state` is a directory for what is kept of its chats: old contents of changed files, hashes of files that were read,
    /// temporary files of commands. It is made if it is missing, must be on the same host as the workspace and outside
    /// of it, and is kept small: a chat's part is removed 30 days after its last call, or earlier above 4 GiB.
    pub fn new(root: impl AsRef<Path>, state: impl AsRef<Path>, level: Level) -> io::Result<Self> {
        let root = root.as_ref().canonicalize()?;
        let state = StateDirectory::open(state.as_ref())?;
        if state.path().starts_with(&root) || root.starts_with(state.path()) {
            let (root, state) = (root.display(), state.path().display());
            let cause = format!("the state directory {state} and the workspace {root} must not contain each other");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, cause));
        }
        let helper = crate::supervisor::OWN_EXECUTABLE.into();
        let job_life = JobLife::default();
        let long_commands = LongCommands::default();
        let nested = Vec::new();
        let network = Network::Off;
        let swept = Arc::default();
        Ok(Self { root, level, network, helper, job_life, long_commands, nested, state, swept })
    }

    /// Says whether commands may use the network.
    #[must_use]
    pub const fn with_network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Says whether background jobs outlive this program. They do not by default.
    #[must_use]
    pub const fn with_jobs(mut self, life: JobLife) -> Self {
        self.job_life = life;
        self
    }

    /// Says what becomes of commands that take longer than their call waits. They become background jobs by default.
    #[must_use]
    pub const fn with_long_commands(mut self, become_: LongCommands) -> Self {
        self.long_commands = become_;
        self
    }

    /// Files of these names hold instructions for the directory they are in and all below, such as `AGENTS.md`. They are told
    /// behind the result of the first call of `read`, `write` or `edit` that works there, up to 16 KiB of them per call, and
    /// again when they have changed. Those at the top are told by [`Workspace::hook`].
    #[must_use]
    pub fn with_nested_instructions<Name: Into<String>>(mut self, names: impl IntoIterator<Item = Name>) -> Self {
        self.nested = names.into_iter().map(Into::into).filter(|name: &String| !name.contains('/')).collect();
        self
    }

    /// Uses another executable for the helper processes; see [`ToolCommand::with_helper`].
    #[must_use]
    pub fn with_helper(mut self, executable: impl Into<PathBuf>) -> Self {
        self.helper = executable.into();
        self
    }

    /// All tools that the level allows. [`Level::Files`] has no `shell` and no `job`.
    pub fn tools(&self) -> Vec<SharedTool> {
        let mut tools = file_tools::all(self);
        if self.level != Level::Files {
            tools.push(Arc::new(shell::Shell::new(self.clone())));
            tools.push(Arc::new(job_tool::JobTool::new(self.clone())));
        }
        tools.push(Arc::new(Recall));
        tools
    }

    /// What the calls of a chat changed, in the order of the calls: files that `write` and `edit` changed, not those that
    /// commands did.
    pub async fn changes(&self, chat: ChatId) -> Result<Vec<FileChange>, ChangesError> {
        self.changes_of(chat, &FileRequest::Changes).await
    }

    /// Gives files the content they had before these calls, and says which changes that undid. A file that a call made is
    /// removed.
    ///
    /// Nothing is undone if a file has changed since, or was changed by something else between the calls: the error names
    /// it. Calls that changed no file, and those that were undone already, are left out. A model that goes on to edit
    /// such a file is told to read it again.
    pub async fn undo(&self, chat: ChatId, calls: &[CallUid]) -> Result<Vec<FileChange>, ChangesError> {
        let calls = calls.iter().copied().map(Into::into).collect();
        self.changes_of(chat, &FileRequest::Undo { calls }).await
    }

    /// The background jobs of all chats in this workspace, the oldest of each chat first: those that run, and the newest
    /// that are over. Jobs that an earlier program started are among them.
    ///
    /// ```no_run
    /// # async fn show(workspace: everturn_tools::Workspace) -> std::io::Result<()> {
    /// for job in workspace.jobs().await? {
    ///     println!("{} {}: {:?} {}", job.chat, job.number, job.state, job.command);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn jobs(&self) -> io::Result<Vec<BackgroundJob>> {
        let workspace = self.clone();
        tokio::task::spawn_blocking(move || {
            let mut jobs = Vec::new();
            for (chat, directory) in workspace.state.chats()? {
                let all = ChatJobs::at(chat, &directory).all();
                jobs.extend(all.iter().filter(|job| job.command.record.workspace == workspace.root).map(JobFiles::job));
            }
            Ok(jobs)
        })
        .await?
    }

    /// Output of a background job from a byte on, at most so many bytes; `None` if there is no such job. Bytes that were not
    /// kept are told of in a line.
    pub async fn job_output(&self, chat: ChatId, number: u32, from: u64, len: u64) -> io::Result<Option<Vec<u8>>> {
        let jobs = ChatJobs::new(chat, &self.chat_state(chat)?);
        let read = move || jobs.get(number).map(|job| job.command.output(from, len)).transpose();
        Ok(tokio::task::spawn_blocking(read).await??.map(|(output, _)| output))
    }

    /// Ends a background job with everything it started, and says what became of it; `None` if there is no such job.
    pub async fn stop_job(&self, chat: ChatId, number: u32) -> io::Result<Option<BackgroundJob>> {
        let Some(job) = self.chat_jobs(chat)?.get(number) else { return Ok(None) };
        job.command.stop()?;
        job.command.over().await?;
        Ok(Some(job.job()))
    }

    /// A hook for agents with this workspace. It sends these files as instructions of the project, such as `AGENTS.md`, tells
    /// the model before its next step that a background job has ended, and removes what is kept of a chat that was deleted.
    ///
    /// Files that are missing are left out; of each, 32 KiB are sent.
    pub fn hook<Name: Into<String>>(&self, instructions: impl IntoIterator<Item = Name>) -> Arc<dyn Hook> {
        let files = instructions.into_iter().map(Into::into).collect();
        let instructions = WorkspaceInstructions::new(self.clone(), files);
        let hooks: Vec<Arc<dyn Hook>> = vec![Arc::new(JobNotes { workspace: self.clone() }), Arc::new(instructions)];
        Arc::new(hooks)
    }

    /// Removes what is kept of a chat, and ends its background jobs: call it when the chat was deleted. Its changes can no
    /// longer be undone.
    pub async fn forget(&self, chat: ChatId) -> io::Result<()> {
        jobs::stop_all(&self.chat_jobs(chat)?).await?;
        let state = self.state.clone();
        tokio::task::spawn_blocking(move || state.forget(chat)).await?
    }

    async fn changes_of(&self, chat: ChatId, request: &FileRequest) -> Result<Vec<FileChange>, ChangesError> {
        match self.ask(chat, Access::Write, request).await? {
            FileReply::Changes(changes) => Ok(changes.into_iter().map(Into::into).collect()),
            FileReply::Refused(cause) => Err(ChangesError::Refused(cause)),
            FileReply::Text(_) | FileReply::Image { .. } => Err(io::Error::other("not a list of changes").into()),
        }
    }

    /// What a command of a chat may reach.
    pub(crate) fn policy(&self, access: Access, temporary: PathBuf) -> AccessPolicy {
        AccessPolicy {
            workspace: self.root.clone(),
            access,
            network: self.network,
            temporary: Some(temporary),
            also_read: Vec::new(),
        }
    }

    /// What is kept of a chat. Looks through that of others once in a while.
    pub(crate) fn chat_state(&self, chat: ChatId) -> io::Result<ChatState> {
        let state = self.state.chat(chat)?;
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_none_or(|swept| swept.elapsed() >= SWEPT_EVERY) {
            *swept = Some(Instant::now());
            let all = self.state.clone();
            // What could not be removed is looked at again the next time.
            drop(tokio::task::spawn_blocking(move || all.sweep()));
        }
        Ok(state)
    }

    /// The background jobs of a chat.
    pub(crate) fn chat_jobs(&self, chat: ChatId) -> io::Result<ChatJobs> {
        Ok(ChatJobs::new(chat, &self.chat_state(chat)?))
    }

    /// Has the request of a call answered.
    pub(crate) async fn answer(
        &self,
        chat: ChatId,
        call: CallUid,
        access: Access,
        request: FileRequest,
    ) -> io::Result<FileReply> {
        let names = self.nested.clone();
        let nested = (!names.is_empty()).then(|| NestedInstructions { call: call.into(), names });
        self.ask_with(chat, access, request, nested).await
    }

    /// Has a request answered by a confined process. Each request can be repeated, so one whose process died is.
    pub(crate) async fn ask(&self, chat: ChatId, access: Access, request: &FileRequest) -> io::Result<FileReply> {
        self.ask_with(chat, access, request.clone(), None).await
    }

    async fn ask_with(
        &self,
        chat: ChatId,
        access: Access,
        request: FileRequest,
        nested: Option<NestedInstructions>,
    ) -> io::Result<FileReply> {
        let state = self.chat_state(chat)?;
        let state = state.path().to_owned();
        let mut policy = self.policy(access, state.clone());
        policy.network = Network::Off;
        let lock = self.state.lock();
        policy.also_read = vec![self.helper.canonicalize()?, lock.clone()];
        let job = serde_json::to_vec(&FileJob { state, lock, nested, request })?;
        let mut attempt = 1;
        loop {
            let Exchange { reply, errors } = self.exchange(policy.clone(), &job).await?;
            match serde_json::from_slice(&reply) {
                Ok(reply) => return Ok(reply),
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                Err(_) => {
                    return Err(io::Error::other(format!("the process of the file tool died: {}", errors.trim())));
                }
            }
        }
    }

    async fn exchange(&self, policy: AccessPolicy, job: &[u8]) -> io::Result<Exchange> {
        let inside = match self.level {
            Level::Full => INSIDE.into(),
            Level::Partial | Level::Files | Level::Off => self.helper.canonicalize()?.display().to_string(),
        };
        let command = ToolCommand::new([inside, ROLE.into()], &self.root).with_helper(&self.helper).with_pipes();
        #[cfg(feature = "failpoints")]
        let command = match std::env::var(crate::failpoint::VARIABLE) {
            Ok(place) => command.variable(crate::failpoint::VARIABLE, place),
            Err(_) => command,
        };
        // Where commands cannot be confined this still is our own code, and answers only for its directory.
        let level = if self.level == Level::Files { Level::Off } else { self.level };
        let mut running = command.confine(policy, level)?.start().await?;
        if let Some(mut input) = running.stdin.take() {
            match input.write_all(job).await {
                // It is dead: what it printed says why.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written?,
            }
        }
        let mut exchange = Exchange::default();
        running.stdout.read_to_end(&mut exchange.reply).await?;
        if let Some(stderr) = &mut running.stderr {
            stderr.read_to_string(&mut exchange.errors).await?;
        }
        running.wait().await?;
        Ok(exchange)
    }
}

/// What becomes of a command that takes longer than its call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LongCommands {
    /// It goes on as a background job, if the chat may have another one.
    #[default]
    BecomeJobs,
    /// It ends.
    End,
}

/// Tells the model of jobs that have ended.
struct JobNotes {
    workspace: Workspace,
}

#[async_trait]
impl Hook for JobNotes {
    async fn before_step(&self, chat: &Chat) -> Option<String> {
        let jobs = ChatJobs::at(chat.id, &self.workspace.state.of(chat.id)).all();
        let ended =
            jobs.iter().filter(|files| files.command.state() != JobState::Running && files.is_news(chat.step.0));
        let notes: Vec<String> = ended.map(|files| job_tool::told(&files.job())).collect();
        (!notes.is_empty()).then(|| notes.join("\n"))
    }

    async fn deleted(&self, chat: ChatId) {
        let _ = self.workspace.forget(chat).await; // What stays is removed with the state of chats that rest.
    }
}

/// What a confined process of the file tools has printed.
#[derive(Debug, Default)]
struct Exchange {
    reply: Vec<u8>,
    errors: String,
}

/// What one call did to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The call.
    pub call: CallUid,
    /// The file, relative to the workspace.
    pub path: String,
    /// What happened to it.
    pub kind: FileChangeKind,
    /// Whether it still holds.
    pub status: FileChangeStatus,
    /// The unified diff, with three lines around each change, at most 64 KiB.
    pub diff: String,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChangeKind {
    /// It was made.
    Created,
    /// Its content changed.
    Changed,
    /// Its content changed, and was too large to be kept: this cannot be undone.
    ChangedForGood,
}

/// Whether a change still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChangeStatus {
    /// It was not made: a crash came before it, and the call was not repeated.
    NotMade,
    /// It was made.
    Made,
    /// It was undone.
    Undone,
}

impl From<ChangeEntry> for FileChange {
    fn from(ChangeEntry { call, stage, record }: ChangeEntry) -> Self {
        let kind = match record.old.map(|old| old.before) {
            None => FileChangeKind::Created,
            Some(BeforeImage::Kept) => FileChangeKind::Changed,
            Some(BeforeImage::TooLarge) => FileChangeKind::ChangedForGood,
        };
        let status = match stage {
            ChangeStage::Prepared => FileChangeStatus::NotMade,
            ChangeStage::Made => FileChangeStatus::Made,
            ChangeStage::Undone => FileChangeStatus::Undone,
        };
        Self { call: call.into(), path: record.path, kind, status, diff: record.diff }
    }
}

/// Why changes cannot be told or undone.
#[derive(Debug, thiserror::Error)]
pub enum ChangesError {
    /// A file is not as the calls left it. Nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// The confined process could not do its work.
    #[error(transparent)]
    Failed(#[from] io::Error),
}
