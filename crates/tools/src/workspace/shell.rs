//! `shell`: a command of the model, confined to the workspace.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::chat::Effect;
use everturn::core::ids::{CallUid, ChatId};
use everturn::core::permission::{PatternKind, RuleSubject};
use everturn::core::prompt::ToolSpec;
use everturn::{Approval, Beside, Policy, Tool, ToolContext, ToolError, ToolOutput, ToolReturn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, timeout};

use super::jobs::{ChatJobs, JobFiles, JobState, RUNNING_MAX};
use super::recorded::{ChatCommands, CommandFiles};
use super::{LongCommands, Workspace, files, job_tool};
use crate::confine::probe::Level;
use crate::failpoint::failpoint;
use crate::supervisor::job::milliseconds;
use crate::supervisor::{Ended, RunningCommand, ToolCommand};
use crate::wire::{Access, JobEndCause, JobLife, JobOutput, JobRecord, JobRequest, Network, TreeChanges};

/// Seconds a command may take, unless the call says otherwise.
const SECONDS: u64 = 120;
/// Seconds a call may ask for.
const SECONDS_MAX: u64 = 600;
/// Seconds a background job may take, unless the call says otherwise.
const JOB_SECONDS: u64 = 3_600;
/// Seconds a call may ask for a background job.
const JOB_SECONDS_MAX: u64 = 86_400;
/// How long the jobs of a program that was killed may live on.
const LEFTOVER_MAX: Duration = Duration::from_secs(2);
/// Bytes of output that are kept: the first and the last half of them. With our own lines they fit what an engine keeps.
const KEPT_BYTES_MAX: usize = (10 << 20) - (64 << 10);
/// Bytes of the newest output that people are shown while the command runs.
const SHOWN_BYTES_MAX: usize = 2_048;
/// How often people are told the time of a command that prints nothing.
const SHOWN_EVERY: Duration = Duration::from_secs(1);
/// How long a command may take to end after SIGTERM. An engine drops a tool that takes a second, with its output.
const GRACE: Duration = Duration::from_millis(500);
/// Changed files that are listed.
const CHANGES_MAX: usize = 30;
/// What keeps programs from waiting for a person or a terminal.
const ENVIRONMENT: [(&str, &str); 9] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("LANG", "C.UTF-8"),
];

#[derive(Deserialize, JsonSchema)]
struct ShellInput {
    /// The command, for bash. Each call starts a fresh shell.
    command: String,
    /// The directory to start in, relative to the workspace.
    cwd: Option<String>,
    /// How long to wait for it: 120 seconds unless you say otherwise, at most 600. In the background how long it may take:
    /// 3600, at most 86400.
    seconds: Option<u64>,
    /// Only look: nothing can be written and nothing reached over the network.
    #[serde(default)]
    read_only: bool,
    /// Start it as a background job and return at once. The tool `job` reads its output, waits for it and stops it.
    #[serde(default)]
    background: bool,
}

/// The tool; see the module.
#[derive(Debug)]
pub struct Shell {
    workspace: Workspace,
}

impl Shell {
    pub const fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }

    fn command(&self, chat: ChatId, input: &ShellInput) -> Result<ToolCommand, ToolError> {
        let workspace = &self.workspace;
        let directory = files::resolve(&workspace.root, input.cwd.as_deref().unwrap_or("."))?;
        if !directory.is_dir() {
            return Err(format!("{} is not a directory", directory.display()).into());
        }
        let temporary = workspace.chat_state(chat)?.temporary()?;
        let mut policy = workspace.policy(Access::Write, temporary.clone());
        if input.read_only {
            policy.access = Access::Read;
        }
        policy.network = self.network(input.read_only);
        let shell = ["/bin/bash", "/bin/sh"].into_iter().find(|shell| Path::new(shell).exists());
        let shell = shell.ok_or("there is no shell on this machine")?;
        let mut command = ToolCommand::new([shell, "-c", &input.command], directory).with_helper(&workspace.helper);
        command = command.with_grace(GRACE);
        if !input.read_only && !input.background {
            command = command.watching(&workspace.root);
        }
        for (name, value) in ENVIRONMENT {
            command = command.variable(name, value);
        }
        let temporary = temporary.display().to_string();
        command = command.variable("TMPDIR", &temporary).variable("HOME", &temporary);
        Ok(command.confine(policy, workspace.level)?)
    }

    /// What a command may do with the network.
    const fn network(&self, read_only: bool) -> Network {
        if read_only { Network::Off } else { self.workspace.network }
    }

    /// Starts a background job, or finds the one that this call has started before a crash.
    async fn start_job(&self, context: &ToolContext, input: &ShellInput) -> Result<ToolReturn, ToolError> {
        let jobs = self.workspace.chat_jobs(context.chat)?;
        if let Some(files) = jobs.of(context.call) {
            if files.command.record.life == JobLife::WithProgram {
                let _ = timeout(LEFTOVER_MAX, files.command.over()).await; // If it still runs, this program has started it.
            }
            return found_again(&files).map(Into::into);
        }
        if !jobs.has_room() {
            return Err(
                format!("{RUNNING_MAX} background jobs of this chat run already: stop one, or wait for it").into()
            );
        }
        let seconds = input.seconds.unwrap_or(JOB_SECONDS).clamp(1, JOB_SECONDS_MAX);
        let command = self.command(context.chat, input)?;
        let life = self.workspace.job_life;
        let files = jobs.record(self.record(context.call, input, seconds, life))?;
        failpoint!("job-recorded");
        let directory = files.command.directory.clone();
        let request = JobRequest { directory, seconds, life, output: JobOutput::Files };
        let mut process = match command.start_job(request).await {
            Ok(process) => process,
            Err(error) => {
                std::fs::remove_dir_all(&files.command.directory)?;
                return Err(error.into());
            }
        };
        failpoint!("job-started");
        // Its end ends the supervisor, and with this program's end the connection to it.
        tokio::spawn(async move { process.wait().await });
        Ok(started(files.number, seconds, life).into())
    }

    fn record(&self, call: CallUid, input: &ShellInput, seconds: u64, life: JobLife) -> JobRecord {
        JobRecord {
            call: call.into(),
            workspace: self.workspace.root.clone(),
            command: input.command.clone(),
            started_milliseconds: milliseconds(),
            seconds,
            life,
        }
    }

    /// Starts a command that its call waits for. It is recorded, unless that is impossible, as on a full disk.
    async fn start(
        &self,
        context: &ToolContext,
        input: &ShellInput,
    ) -> Result<(RunningCommand, Option<CommandFiles>), ToolError> {
        let command = self.command(context.chat, input)?;
        let commands = ChatCommands::new(&self.workspace.chat_state(context.chat)?);
        if let Some(earlier) = commands.get(context.call) {
            let _ = timeout(LEFTOVER_MAX, earlier.over()).await; // The program that started it is gone.
        }
        let record = self.record(context.call, input, JOB_SECONDS, JobLife::WithProgram);
        let recorded = match commands.record(record) {
            Ok(files) => {
                let (directory, output) = (files.directory.clone(), JobOutput::FilesAndProgram);
                let request = JobRequest { directory, seconds: JOB_SECONDS, life: JobLife::WithProgram, output };
                command.clone().start_recorded(request).await.map(|running| (running, Some(files)))
            }
            Err(error) => Err(error),
        };
        match recorded {
            Ok(started) => Ok(started),
            Err(error) => {
                tracing::warn!(%error, call = %context.call, "a command could not be recorded: it runs without");
                Ok((command.start().await?, None))
            }
        }
    }

    /// Whether a command that takes longer than its call waits may go on as a background job.
    fn may_become_job(&self, chat: ChatId) -> io::Result<bool> {
        Ok(self.workspace.long_commands == LongCommands::BecomeJobs && self.workspace.chat_jobs(chat)?.has_room())
    }

    /// Makes a background job of a command, and says its number.
    async fn become_job(&self, chat: ChatId, running: RunningCommand, files: CommandFiles) -> io::Result<u32> {
        let life = self.workspace.job_life;
        let job = self.workspace.chat_jobs(chat)?.take_over(files, life)?;
        failpoint!("shell-became-job");
        let RunningCommand { mut process, .. } = running;
        if life == JobLife::Kept {
            process.keep().await?;
        }
        tokio::spawn(async move { process.wait().await });
        Ok(job.number)
    }

    /// What a recorded command came to, whose program was killed before the result was stored.
    async fn find_outcome(&self, context: &ToolContext, input: &Value) -> Result<Option<ToolOutput>, ToolError> {
        let input: ShellInput = serde_json::from_value(input.clone())?;
        let state = self.workspace.chat_state(context.chat)?;
        if let Some(job) = ChatJobs::new(context.chat, &state).of(context.call) {
            if job.command.record.life == JobLife::WithProgram {
                let _ = timeout(LEFTOVER_MAX, job.command.over()).await;
            }
            return found_again(&job).map(Some);
        }
        let Some(files) = ChatCommands::new(&state).get(context.call) else { return Ok(None) };
        let _ = timeout(LEFTOVER_MAX, files.over()).await;
        let confined = self.confined(input.read_only);
        tokio::task::spawn_blocking(move || outcome(&files, confined)).await?.map(Some)
    }

    /// How a command is confined, for the last line of its result.
    const fn confined(&self, read_only: bool) -> &'static str {
        match (self.workspace.level, self.network(read_only)) {
            (Level::Off | Level::Files, _) => "not confined",
            (Level::Full | Level::Partial, Network::Off) => "confined: no network",
            (Level::Full | Level::Partial, Network::On) => "confined",
        }
    }

    fn description(&self) -> String {
        let level = match self.workspace.level {
            Level::Full => "Writes work in the workspace and in $TMPDIR only",
            Level::Partial => "Writes work in the workspace and in $TMPDIR only; git hooks are not protected",
            Level::Files | Level::Off => "Commands are not confined",
        };
        let network = match self.workspace.network {
            Network::Off => "there is no network",
            Network::On => "the network can be used",
        };
        format!(
            "Runs a command in the workspace with bash. {level}; {network}. Standard input is empty, there is no terminal."
        )
    }
}

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("shell", self.description(), Value::from(schemars::schema_for!(ShellInput)))
    }

    fn policy(&self) -> Policy {
        let approval = match (self.workspace.level, self.workspace.network) {
            (Level::Full, Network::Off) => Approval::NotNeeded,
            (Level::Full, Network::On) | (Level::Partial, _) => Approval::Needed,
            (Level::Files | Level::Off, _) => Approval::EachTime,
        };
        let time_max = Some(Duration::from_secs(SECONDS_MAX + 30));
        Policy { beside: Beside::Serial, approval, time_max, ..Policy::default() }
    }

    /// A command that only looks can be repeated, runs beside others and needs no approval, because the kernel stops
    /// everything else. Without confinement its word is not enough.
    ///
    /// A background job is recorded with its call, so the call can be repeated: it finds the job.
    fn policy_for(&self, input: &Value) -> Policy {
        let is = |name: &str| input.get(name).and_then(Value::as_bool).unwrap_or_default();
        let policy = match self.workspace.level {
            Level::Full | Level::Partial if is("read_only") => {
                Policy { effect: Effect::Read, beside: Beside::Any, approval: Approval::NotNeeded, ..self.policy() }
            }
            Level::Full | Level::Partial | Level::Files | Level::Off => self.policy(),
        };
        if is("background") {
            return Policy { effect: Effect::Idempotent, beside: Beside::Serial, ..policy };
        }
        policy
    }

    fn pattern(&self) -> PatternKind {
        PatternKind::Command
    }

    fn subject(&self, input: &Value) -> RuleSubject {
        RuleSubject::Command(input.get("command").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    fn confinement(&self) -> Option<String> {
        let level = match self.workspace.level {
            Level::Full => "full",
            Level::Partial => "partial",
            Level::Files | Level::Off => return Some("none".into()),
        };
        let network = match self.workspace.network {
            Network::Off => "no network",
            Network::On => "with network",
        };
        Some(format!("{level}, {network}"))
    }

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let input: ShellInput = serde_json::from_value(input)?;
        if input.background {
            return self.start_job(&context, &input).await;
        }
        let started = Instant::now();
        let limit = Duration::from_secs(input.seconds.unwrap_or(SECONDS).clamp(1, SECONDS_MAX));
        let (mut running, recorded) = self.start(&context, &input).await?;
        failpoint!("shell-started");
        let mut output = Output::default();
        let cut = tokio::select! {
            biased;
            () = context.cancel.cancelled() => Some(Cut::Interrupted),
            () = tokio::time::sleep_until(started + limit) => Some(Cut::TimeUp),
            read = pump(&mut running, &mut output, &context, started) => { read?; None }
        };
        if cut == Some(Cut::TimeUp)
            && let Some(files) = recorded
            && self.may_become_job(context.chat)?
        {
            let number = self.become_job(context.chat, running, files).await?;
            return Ok(output.goes_on(number, limit, self.workspace.job_life).into());
        }
        if cut.is_some() {
            running.stop().await?;
            pump(&mut running, &mut output, &context, started).await?;
        }
        let ended = running.wait().await?;
        failpoint!("shell-ended");
        Ok(output.report(cut, &ended, started.elapsed(), self.confined(input.read_only)).into())
    }

    async fn outcome_after_crash(&self, context: ToolContext, input: Value) -> Result<Option<ToolOutput>, ToolError> {
        self.find_outcome(&context, &input).await
    }
}

/// What the model is told of a job that was just started.
fn started(number: u32, seconds: u64, life: JobLife) -> String {
    let life = lives(life);
    format!("Job {number} was started and runs for at most {seconds} s. {life} The tool `job` looks at it.\n")
}

const fn lives(life: JobLife) -> &'static str {
    match life {
        JobLife::WithProgram => "It ends with the program that runs this chat.",
        JobLife::Kept => "It goes on if the program that runs this chat is restarted.",
    }
}

/// What the model is told of a job that a call had started before a crash.
fn found_again(files: &JobFiles) -> Result<ToolOutput, ToolError> {
    let job = files.job();
    let told = format!("{}\nThe tool `job` looks at it.\n", job_tool::told(&job));
    match &job.state {
        JobState::Running => Ok(told.into()),
        JobState::Ended(end) if end.cause != JobEndCause::ProgramGone => Ok(told.into()),
        JobState::Ended(_) | JobState::Lost => Err(ToolError::unknown(told)),
    }
}

/// What became of a command whose call was lost, with everything that is kept of its output.
fn outcome(files: &CommandFiles, confined: &str) -> Result<ToolOutput, ToolError> {
    let output = Output::of(files)?;
    let JobState::Ended(end) = files.state() else {
        return Err(ToolError::unknown(output.of_killed("its supervisor was killed, or the machine restarted")));
    };
    if end.cause == JobEndCause::ProgramGone {
        return Err(ToolError::unknown(
            output.of_killed("the program that ran it was killed, and the command with it"),
        ));
    }
    let cut = match end.cause {
        JobEndCause::Stopped => Some(Cut::Interrupted),
        JobEndCause::TimeUp => Some(Cut::TimeUp),
        JobEndCause::Exited | JobEndCause::ProgramGone => None,
    };
    let took = Duration::from_millis(end.at_milliseconds.saturating_sub(files.record.started_milliseconds));
    let ended = Ended { code: end.code, signal: end.signal, killed: end.killed, changes: None };
    Ok(output.report(cut, &ended, took, confined))
}

/// Why a command was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Interrupted,
    TimeUp,
}

/// Collects what the command prints until nothing of it is left, and shows people the newest.
async fn pump(
    running: &mut RunningCommand,
    output: &mut Output,
    context: &ToolContext,
    started: Instant,
) -> io::Result<()> {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        match timeout(SHOWN_EVERY, running.stdout.read(&mut buffer)).await {
            Ok(Ok(0)) => return Ok(()),
            Ok(read) => output.push(&buffer[..read?]),
            Err(_) => {} // It printed nothing, but its time has gone on.
        }
        context.show(output.progress(started.elapsed()));
    }
}

/// The output of a command: its beginning and its end, and how much is missing between them.
#[derive(Debug, Default)]
struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: usize,
}

impl Output {
    fn push(&mut self, bytes: &[u8]) {
        let room = (KEPT_BYTES_MAX / 2).saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(KEPT_BYTES_MAX / 2);
        self.tail.drain(..excess);
        self.dropped += excess;
    }

    /// How long and how much, and the newest lines.
    fn progress(&self, took: Duration) -> String {
        let newest = self.tail.iter().rev().chain(self.head.iter().rev()).take(SHOWN_BYTES_MAX).copied();
        let mut bytes: Vec<u8> = newest.collect();
        bytes.reverse();
        let total = self.head.len() + self.tail.len() + self.dropped;
        format!("[{} s · {}]\n{}", took.as_secs(), size(total), String::from_utf8_lossy(&bytes))
    }

    /// What is kept of a command that has ended.
    fn of(files: &CommandFiles) -> io::Result<Self> {
        let half = (KEPT_BYTES_MAX / 2) as u64;
        let total = files.output_bytes();
        let (head, read) = files.output(0, half)?;
        let from = total.saturating_sub(half).max(read);
        let (tail, _) = files.output(from, half)?;
        let dropped = usize::try_from(from - read).unwrap_or(usize::MAX);
        Ok(Self { head, tail: tail.into(), dropped })
    }

    /// The bytes that are kept, in whole lines, and what is missing between them.
    fn text(self) -> Vec<u8> {
        let mut bytes = self.head;
        if self.dropped > 0 {
            bytes.extend(format!("\n[{} are missing here, and were not kept]\n", size(self.dropped)).into_bytes());
        }
        bytes.extend(self.tail);
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        bytes
    }

    /// The output so far of a command that goes on as a background job.
    fn goes_on(self, job: u32, after: Duration, life: JobLife) -> ToolOutput {
        let mut bytes = self.text();
        let seconds = after.as_secs();
        let note = format!(
            "[still running after {seconds} s: it goes on as job {job}, for at most {JOB_SECONDS} s. {} The tool `job` \
             reads its output, waits for it and stops it]\n",
            lives(life)
        );
        bytes.extend(note.into_bytes());
        ToolOutput { bytes, ..ToolOutput::default() }
    }

    /// What a command printed that was killed with its program.
    fn of_killed(self, why: &str) -> String {
        let told = format!("Whether this command did all it should is unknown: {why}.");
        match self.text() {
            output if output.is_empty() => format!("{told} It had printed nothing."),
            output => format!("{told} It had printed:\n{}", String::from_utf8_lossy(&output)),
        }
    }

    fn report(self, cut: Option<Cut>, ended: &Ended, took: Duration, confined: &str) -> ToolOutput {
        let dropped = self.dropped;
        let mut bytes = self.text();
        bytes.extend(changed_files(ended.changes.as_ref()).into_bytes());
        let end = match (ended.code, ended.signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        };
        let mut notes = vec![end, format!("{:.1} s", took.as_secs_f64())];
        notes.extend(cut.map(|cut| match cut {
            Cut::Interrupted => "interrupted".to_owned(),
            Cut::TimeUp => "time is up".to_owned(),
        }));
        if dropped > 0 {
            notes.push(format!("cut {}", size(dropped)));
        }
        if ended.killed > 0 {
            notes.push(format!("{} processes left running were killed", ended.killed));
        }
        notes.push(confined.to_owned());
        bytes.extend(format!("[{}]\n", notes.join(" · ")).into_bytes());
        ToolOutput { bytes, ..ToolOutput::default() }
    }
}

/// The files that the command changed, as lines.
fn changed_files(changes: Option<&TreeChanges>) -> String {
    match changes {
        None | Some(TreeChanges::Some { count: 0, .. }) => String::new(),
        Some(TreeChanges::TooMany) => "[changed files are not listed: there are more than 20000 files]\n".into(),
        Some(TreeChanges::Some { lines, count }) => {
            let shown = &lines[..lines.len().min(CHANGES_MAX)];
            let rest = count - shown.len();
            let more = if rest > 0 { format!("[and {rest} more]\n") } else { String::new() };
            format!("[files that changed: {count}]\n{}\n{more}", shown.join("\n"))
        }
    }
}

/// A number of bytes for people.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000.. => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
