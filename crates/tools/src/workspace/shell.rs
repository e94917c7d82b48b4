//! `shell`: a command of the model, confined to the workspace.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::prompt::ToolSpec;
use everturn::{Approval, Beside, Policy, Tool, ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;

use super::{Workspace, files};
use crate::confine::probe::Level;
use crate::supervisor::{Ended, RunningCommand, ToolCommand};
use crate::wire::{Access, Network};

/// Seconds a command may take, unless the call says otherwise.
const SECONDS: u64 = 120;
/// Seconds a call may ask for.
const SECONDS_MAX: u64 = 600;
/// Bytes of output that are kept: the first and the last half of them.
const KEPT_BYTES_MAX: usize = 10 << 20;
/// Bytes of the newest output that people are shown while the command runs.
const SHOWN_BYTES_MAX: usize = 2_048;
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
    /// How long it may take, at most 600 seconds.
    #[serde(default = "seconds")]
    seconds: u64,
    /// Only look: nothing can be written and nothing reached over the network.
    #[serde(default)]
    read_only: bool,
}

const fn seconds() -> u64 {
    SECONDS
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

    fn command(&self, input: &ShellInput) -> Result<ToolCommand, ToolError> {
        let workspace = &self.workspace;
        let directory = files::resolve(&workspace.root, input.cwd.as_deref().unwrap_or("."))?;
        if !directory.is_dir() {
            return Err(format!("{} is not a directory", directory.display()).into());
        }
        let mut policy = workspace.policy(Access::Write);
        if input.read_only {
            policy.access = Access::Read;
            policy.network = Network::Off;
        }
        let shell = ["/bin/bash", "/bin/sh"].into_iter().find(|shell| Path::new(shell).exists());
        let shell = shell.ok_or("there is no shell on this machine")?;
        let mut command = ToolCommand::new([shell, "-c", &input.command], directory).with_helper(&workspace.helper);
        for (name, value) in ENVIRONMENT {
            command = command.variable(name, value);
        }
        let temporary = workspace.temporary.display().to_string();
        command = command.variable("TMPDIR", &temporary).variable("HOME", &temporary);
        Ok(command.confine(policy, workspace.level)?)
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
            (Level::Full, Network::On) | (Level::Partial | Level::Files | Level::Off, _) => Approval::Needed,
        };
        let time_max = Some(Duration::from_secs(SECONDS_MAX + 30));
        Policy { beside: Beside::Serial, approval, time_max, ..Policy::default() }
    }

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        let input: ShellInput = serde_json::from_value(input)?;
        let started = Instant::now();
        let limit = Duration::from_secs(input.seconds.clamp(1, SECONDS_MAX));
        let mut running = self.command(&input)?.start().await?;
        let mut output = Output::default();
        let cut = tokio::select! {
            biased;
            () = context.cancel.cancelled() => Some("interrupted"),
            () = tokio::time::sleep_until(started + limit) => Some("time is up"),
            read = pump(&mut running, &mut output, &context) => { read?; None }
        };
        if cut.is_some() {
            running.stop().await?;
            pump(&mut running, &mut output, &context).await?;
        }
        let ended = running.wait().await?;
        let confined = match (self.workspace.level, self.workspace.network) {
            (Level::Off | Level::Files, _) => "not confined",
            (Level::Full | Level::Partial, Network::Off) => "confined: no network",
            (Level::Full | Level::Partial, Network::On) => "confined",
        };
        Ok(output.report(cut, ended, started.elapsed(), confined))
    }
}

/// Collects what the command prints until nothing of it is left, and shows people the newest.
async fn pump(running: &mut RunningCommand, output: &mut Output, context: &ToolContext) -> io::Result<()> {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        match running.stdout.read(&mut buffer).await? {
            0 => return Ok(()),
            read => output.push(&buffer[..read]),
        }
        context.show(output.newest());
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

    fn newest(&self) -> String {
        let newest = self.tail.iter().rev().chain(self.head.iter().rev()).take(SHOWN_BYTES_MAX).copied();
        let mut bytes: Vec<u8> = newest.collect();
        bytes.reverse();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn report(self, cut: Option<&str>, ended: Ended, took: Duration, confined: &str) -> ToolOutput {
        let mut bytes = self.head;
        if self.dropped > 0 {
            bytes.extend(format!("\n[{} bytes are missing here]\n", self.dropped).into_bytes());
        }
        bytes.extend(self.tail);
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        let end = match (ended.code, ended.signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        };
        let mut notes = vec![end, format!("{:.1} s", took.as_secs_f64())];
        notes.extend(cut.map(str::to_owned));
        if ended.killed > 0 {
            notes.push(format!("{} processes left running were killed", ended.killed));
        }
        notes.push(confined.to_owned());
        bytes.extend(format!("[{}]\n", notes.join(" · ")).into_bytes());
        ToolOutput { bytes, ..ToolOutput::default() }
    }
}
