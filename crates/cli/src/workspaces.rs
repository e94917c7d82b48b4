//! Gives agents the tools of their workspaces.
//!
//! A chat must never continue in another directory than the one it began in. So a directory that a flag names gets agents of
//! its own, `AGENT@DIRECTORY`: a daemon without it has no such agent, and leaves those chats alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use async_trait::async_trait;
use everturn::core::ids::{CallUid, ChatId};
use everturn::{Agent, Hook, SharedTool};
use everturn_server::wire::{AgentWorkspace, ChangeKind, ChangeState, ChangedFile, JobInfo, JobStatus};
use everturn_server::{Problem, ProblemKind, WorkspaceService};
use everturn_tools::{
    BackgroundJob, ChangesError, FileChange, FileChangeKind, FileChangeStatus, JobEndCause, JobLife, JobState, Level,
    LongCommands, Network, Probe, Workspace,
};

use crate::config::{Config, Profile, Sandbox};

/// The program itself, whose `main` takes over in helper processes.
const HELPER: &str = "/proc/self/exe";
/// The part of the data directory for what tools keep of their chats.
const STATE: &str = "tools";
/// What is needed for full confinement.
const ADVICE: &str = "install bubblewrap (`apt install bubblewrap`), and allow user namespaces and Landlock";

/// How far commands can be confined on this machine, and why not further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    pub level: Level,
    pub reasons: Vec<String>,
}

impl Confinement {
    /// Tries it out.
    pub async fn find(sandbox: Sandbox) -> anyhow::Result<Self> {
        if sandbox == Sandbox::Off {
            return Ok(Self { level: Level::Off, reasons: vec!["sandbox = \"off\" is set".into()] });
        }
        Self::of(sandbox, Probe::run(Path::new(HELPER)).await)
    }

    /// What a probe found, if it is enough.
    fn of(sandbox: Sandbox, Probe { level, reasons }: Probe) -> anyhow::Result<Self> {
        if sandbox == Sandbox::Full && level != Level::Full {
            bail!(
                "sandbox = \"full\" is set, and this machine confines commands at level `{level}` only ({}): {ADVICE}; \
                 or set sandbox = \"best\"",
                reasons.join("; ")
            );
        }
        Ok(Self { level, reasons })
    }

    /// The level in words, for people.
    pub fn told(&self) -> String {
        let what = match self.level {
            Level::Full => "commands write the workspace only, and git hooks and settings are read-only",
            Level::Partial => "commands write the workspace only; git hooks are not protected, so writing commands ask",
            Level::Files => "commands cannot be confined, so there is no shell; files can be read and changed",
            Level::Off => "commands are not confined, and each one asks",
        };
        let why = match self.level {
            Level::Full => String::new(),
            Level::Off => format!(" ({})", self.reasons.join("; ")),
            Level::Partial | Level::Files => format!(" ({}: {ADVICE})", self.reasons.join("; ")),
        };
        format!("{}: {what}{why}", self.level)
    }
}

/// The workspaces of a server that starts.
pub struct Workspaces {
    confinement: Confinement,
    data: PathBuf,
    /// What clients are told, by agent.
    pub told: BTreeMap<String, AgentWorkspace>,
    by_agent: BTreeMap<String, Workspace>,
}

impl Workspaces {
    /// Finds out how far commands can be confined; `None` if no agent has a workspace.
    pub async fn open(config: &Config, data: &Path) -> anyhow::Result<Option<Self>> {
        if !config.has_workspace() {
            return Ok(None);
        }
        let confinement = Confinement::find(config.sandbox.value).await?;
        tracing::info!(level = %confinement.level, "tool confinement {}", confinement.told());
        let data = data.canonicalize().context("the data directory")?;
        Ok(Some(Self { confinement, data, told: BTreeMap::new(), by_agent: BTreeMap::new() }))
    }

    /// The agent with the tools of a directory.
    pub fn equip(&mut self, name: &str, agent: Agent, directory: &Path, profile: &Profile) -> anyhow::Result<Agent> {
        let told = || format!("the workspace {} of the agent `{name}`", directory.display());
        let root = directory.canonicalize().with_context(told)?;
        if !root.is_dir() {
            bail!("{} is not a directory", told());
        }
        if self.data.starts_with(&root) || root.starts_with(&self.data) {
            bail!(
                "{} and the data directory {} must not contain each other, because tools could read the chats and \
                 the token: choose another workspace, or another --data",
                told(),
                self.data.display()
            );
        }
        let state = self.data.join(STATE);
        std::fs::create_dir_all(&state).with_context(|| state.display().to_string())?;
        let network = profile.network.unwrap_or_default();
        let life = if profile.keep_jobs == Some(true) { JobLife::Kept } else { JobLife::WithProgram };
        let workspace = Workspace::new(&root, &state, self.confinement.level)?.with_network(network.into());
        let long = profile.long_commands.map_or_else(LongCommands::default, Into::into);
        let workspace = workspace.with_jobs(life).with_long_commands(long);
        let workspace = workspace.with_nested_instructions(profile.instruction_files());
        let tools = chosen(workspace.tools(), profile).with_context(told)?;
        let mut agent = agent.tools(tools)?;
        for (habit, tool) in Workspace::ALIASES {
            if !profile.tools.contains_key(habit) && agent.offered().iter().any(|spec| spec.name == tool) {
                agent.toolbox.alias(habit, tool);
            }
        }
        agent.system.push(self.briefing(&root, network.into()));
        let own = workspace.hook(profile.instruction_files());
        let hooks: Vec<Arc<dyn Hook>> = agent.hook.take().into_iter().chain([own]).collect();
        agent.hook = Some(Arc::new(hooks));
        let (path, confinement) = (root.display().to_string(), self.confinement.level.to_string());
        let network = network.word().to_owned();
        self.told.insert(name.into(), AgentWorkspace { path, confinement, network });
        self.by_agent.insert(name.into(), workspace);
        Ok(agent)
    }

    /// What the model is told: the same for every turn of a chat, so that the sent prefix stays the same.
    fn briefing(&self, root: &Path, network: Network) -> String {
        let network = match network {
            Network::Off => "no network",
            Network::On => "network access",
        };
        let confinement = match self.confinement.level {
            Level::Full => format!("Commands can write here and in $TMPDIR only, and have {network}."),
            Level::Partial => format!(
                "Commands can write here and in $TMPDIR only, and have {network}; git hooks are not protected. A \
                 command that may write waits for a person's approval: set read_only where that is enough."
            ),
            Level::Files => "Commands cannot be run here.".into(),
            Level::Off => "Commands are not confined, and each one waits for a person's approval.".into(),
        };
        format!("Your workspace is the directory {}. {confinement}", root.display())
    }
}

#[async_trait]
impl WorkspaceService for Workspaces {
    async fn changes(&self, agent: &str, chat: ChatId) -> Result<Vec<ChangedFile>, Problem> {
        let Some(workspace) = self.by_agent.get(agent) else { return Ok(Vec::new()) };
        told(workspace.changes(chat).await)
    }

    async fn undo(&self, agent: &str, chat: ChatId, calls: &[CallUid]) -> Result<Vec<ChangedFile>, Problem> {
        let Some(workspace) = self.by_agent.get(agent) else { return Ok(Vec::new()) };
        told(workspace.undo(chat, calls).await)
    }

    async fn jobs(&self, agent: &str, chat: ChatId) -> Result<Vec<JobInfo>, Problem> {
        let Some(workspace) = self.by_agent.get(agent) else { return Ok(Vec::new()) };
        let jobs = workspace.jobs().await.map_err(|error| unreadable(&error))?;
        Ok(jobs.into_iter().filter(|job| job.chat == chat).map(job_info).collect())
    }

    async fn stop_job(&self, agent: &str, chat: ChatId, number: u32) -> Result<Option<JobInfo>, Problem> {
        let Some(workspace) = self.by_agent.get(agent) else { return Ok(None) };
        let stopped = workspace.stop_job(chat, number).await.map_err(|error| unreadable(&error))?;
        Ok(stopped.map(job_info))
    }
}

fn unreadable(error: &std::io::Error) -> Problem {
    tracing::error!("a workspace or its state cannot be read: {error}");
    Problem::new(ProblemKind::Internal, "The workspace or its state cannot be read; the log says why.")
}

fn job_info(job: BackgroundJob) -> JobInfo {
    let milliseconds = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
    let (state, end) = match job.state {
        JobState::Running => (JobStatus::Running, None),
        JobState::Lost => (JobStatus::Lost, None),
        JobState::Ended(end) => {
            let state = match end.cause {
                JobEndCause::Exited => JobStatus::Exited,
                JobEndCause::Stopped => JobStatus::Stopped,
                JobEndCause::TimeUp => JobStatus::TimeUp,
                JobEndCause::ProgramGone => JobStatus::ServerGone,
            };
            (state, Some(end))
        }
    };
    JobInfo {
        number: job.number,
        call: job.call.to_string(),
        command: job.command,
        started: milliseconds(job.started_milliseconds),
        ended: end.as_ref().map(|end| milliseconds(end.at_milliseconds)),
        seconds_max: job.time_max.as_secs(),
        kept: job.life == JobLife::Kept,
        state,
        code: end.as_ref().and_then(|end| end.code),
        signal: end.as_ref().and_then(|end| end.signal),
        output_bytes: job.output_bytes,
    }
}

fn told(changes: Result<Vec<FileChange>, ChangesError>) -> Result<Vec<ChangedFile>, Problem> {
    match changes {
        Ok(changes) => Ok(changes.into_iter().map(changed_file).collect()),
        Err(ChangesError::Refused(cause)) => Err(Problem::new(ProblemKind::NotUndoable, cause)),
        Err(ChangesError::Failed(error)) => Err(unreadable(&error)),
    }
}

fn changed_file(FileChange { call, path, kind, status, diff }: FileChange) -> ChangedFile {
    ChangedFile {
        call: call.to_string(),
        message: None,
        path,
        kind: match kind {
            FileChangeKind::Created => ChangeKind::Created,
            FileChangeKind::Changed => ChangeKind::Changed,
            FileChangeKind::ChangedForGood => ChangeKind::ChangedForGood,
        },
        state: match status {
            FileChangeStatus::NotMade => ChangeState::NotMade,
            FileChangeStatus::Made => ChangeState::Made,
            FileChangeStatus::Undone => ChangeState::Undone,
        },
        diff,
    }
}

/// The tools that the profile names; all if it names none.
fn chosen(tools: Vec<SharedTool>, profile: &Profile) -> anyhow::Result<Vec<SharedTool>> {
    let Some(names) = &profile.workspace_tools else { return Ok(tools) };
    let name = |tool: &SharedTool| tool.spec().name;
    if let Some(unknown) = names.iter().find(|wanted| !tools.iter().any(|tool| name(tool) == **wanted)) {
        let known = tools.iter().map(name).collect::<Vec<_>>().join(", ");
        bail!("`workspace_tools` names `{unknown}`, which is not offered here: the tools are {known}");
    }
    Ok(tools.into_iter().filter(|tool| names.contains(&name(tool))).collect())
}

/// The name of an agent that works in the directory of a flag.
pub fn agent_in(agent: &str, directory: &Path) -> String {
    format!("{agent}@{}", directory.display())
}

/// The directory that an agent of a flag works in.
pub fn directory_of(agent: &str) -> Option<&Path> {
    agent.split_once('@').map(|(_, directory)| Path::new(directory)).filter(|directory| directory.is_absolute())
}

/// The command that continues a chat of this agent.
pub fn resuming(id: &str, agent: &str) -> String {
    let workspace = directory_of(agent).map(|directory| directory.display().to_string());
    let is_plain = |path: &str| path.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c));
    let quoted = |path: String| if is_plain(&path) { path } else { format!("'{}'", path.replace('\'', r"'\''")) };
    let workspace = workspace.map(|path| format!(" --workspace {}", quoted(path)));
    format!("everturn chat --resume {id}{}", workspace.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chat is continued in its directory, whatever that is called.
    #[test]
    fn the_command_that_continues_names_the_directory() {
        for (agent, said) in [
            ("default", "everturn chat --resume 7k2f9q"),
            ("me@example.com", "everturn chat --resume 7k2f9q"),
            ("default@/srv/my-site", "everturn chat --resume 7k2f9q --workspace /srv/my-site"),
            ("default@/srv/it's here", r"everturn chat --resume 7k2f9q --workspace '/srv/it'\''s here'"),
        ] {
            assert_eq!(resuming("7k2f9q", agent), said);
        }
    }

    /// TC40: what a machine cannot do is said, and `full` that cannot be had is refused with what to install.
    #[test]
    fn full_confinement_is_had_or_refused() {
        let probe = |level| Probe { level, reasons: vec!["bubblewrap is not installed".into()] };
        let error = Confinement::of(Sandbox::Full, probe(Level::Partial)).unwrap_err().to_string();
        for said in ["level `partial`", "bubblewrap is not installed", "apt install bubblewrap", "sandbox = \"best\""] {
            assert!(error.contains(said), "{error}");
        }
        assert!(Confinement::of(Sandbox::Full, probe(Level::Full)).is_ok());
        for (level, said) in [(Level::Partial, "writing commands ask"), (Level::Files, "there is no shell")] {
            let told = Confinement::of(Sandbox::Best, probe(level)).unwrap().told();
            assert!(told.contains(said) && told.contains("apt install bubblewrap"), "{told}");
        }
    }
}
