//! A parent for each tool process, which leaves nothing behind.
//!
//! Tools start children that start children, in new sessions, and close what would tell on them. The supervisor is a
//! child subreaper: whatever loses its parent below it becomes its child. It waits for the command, for a byte that says
//! "stop", and for the end of its connection, which the kernel closes when the daemon dies however it dies. In each case
//! it ends all that is left and then itself.
//!
//! One supervisor per command, not one for all: the tree of a command is known exactly, and one that breaks takes one
//! command along.

pub(crate) mod process;
mod tree;

use std::collections::BTreeMap;
use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::confine::Bubblewrap;
use crate::confine::probe::Level;
use crate::wire::{AccessPolicy, Confinement, Report, StartRequest};

/// The argument that makes this program a supervisor.
pub const ROLE: &str = "__everturn-supervise";
/// The byte that asks for the command's end.
const STOP: u8 = b'S';
/// This program, also after an upgrade has replaced its file.
pub(crate) const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// How long a command may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// A command to start.
#[derive(Debug, Clone)]
pub struct ToolCommand {
    argv: Vec<String>,
    environment: BTreeMap<String, String>,
    directory: PathBuf,
    confinement: Confinement,
    input: Input,
    errors: Errors,
    grace: Duration,
    helper: PathBuf,
}

/// What a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Nothing,
    Pipe,
}

/// Where a command's standard error goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Errors {
    WithOutput,
    Pipe,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Processes that it left and that were killed.
    pub killed: usize,
}

impl ToolCommand {
    /// A command that starts in a directory, with an empty environment, reads nothing, and is not confined.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>, directory: impl Into<PathBuf>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
            directory: directory.into(),
            confinement: Confinement::Off,
            input: Input::Nothing,
            errors: Errors::WithOutput,
            grace: GRACE,
            helper: OWN_EXECUTABLE.into(),
        }
    }

    /// Confines it, as far as the machine's level goes. [`Level::Files`] starts no commands.
    pub fn confine(mut self, policy: AccessPolicy, level: Level) -> io::Result<Self> {
        self.confinement = match level {
            Level::Full => Confinement::Namespace(policy),
            Level::Partial => Confinement::Kernel(policy),
            Level::Off => Confinement::Off,
            Level::Files => return Err(io::Error::new(io::ErrorKind::Unsupported, "commands cannot be confined here")),
        };
        Ok(self)
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Gives it a pipe to read, and one of its own for errors: how MCP servers are spoken to.
    #[must_use]
    pub const fn with_pipes(mut self) -> Self {
        self.input = Input::Pipe;
        self.errors = Errors::Pipe;
        self
    }

    /// Uses another executable whose `main` calls [`init`](crate::init), for programs whose own does not.
    #[must_use]
    pub fn with_helper(mut self, executable: impl Into<PathBuf>) -> Self {
        self.helper = executable.into();
        self
    }

    /// Starts it under a supervisor of its own.
    pub async fn start(self) -> io::Result<RunningCommand> {
        let (ours, theirs) = Socket::pair()?;
        let (output, output_end) = io::pipe()?;
        let (errors, errors_end) = match self.errors {
            Errors::WithOutput => (None, output_end.try_clone()?),
            Errors::Pipe => {
                let (errors, end) = io::pipe()?;
                (Some(errors), end)
            }
        };
        let (input_end, input) = match self.input {
            Input::Nothing => (OwnedFd::from(std::fs::File::open("/dev/null")?), None),
            Input::Pipe => {
                let (end, input) = io::pipe()?;
                (end.into(), Some(input))
            }
        };
        let mut supervisor = tokio::process::Command::new(&self.helper);
        supervisor.arg(ROLE).env_clear().current_dir("/").kill_on_drop(false);
        supervisor.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(output_end).stderr(errors_end);
        let child = supervisor.spawn()?;
        drop(supervisor); // With it our copies of its ends, so that the last writer's end is the pipe's end.
        let request = StartRequest {
            argv: self.argv,
            environment: self.environment,
            directory: self.directory,
            confinement: self.confinement,
            grace_milliseconds: u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX),
        };
        send(&ours, &input_end, &request)?;
        drop(input_end);
        ours.set_nonblocking(true)?;
        let mut running = RunningCommand {
            pid: 0,
            stdout: pipe::Receiver::from_owned_fd(output.into())?,
            stderr: errors.map(|errors| pipe::Receiver::from_owned_fd(errors.into())).transpose()?,
            stdin: input.map(|input| pipe::Sender::from_owned_fd(input.into())).transpose()?,
            control: BufReader::new(UnixStream::from_std(ours)?),
            child,
        };
        match running.report().await? {
            Report::Started { pid } => running.pid = pid,
            Report::Failed(cause) => return Err(io::Error::other(cause)),
            Report::Ended { .. } => return Err(io::Error::other("the supervisor reported an end without a start")),
        }
        Ok(running)
    }
}

/// A command that was started. Dropping it ends the command and everything it started.
#[derive(Debug)]
pub struct RunningCommand {
    /// The command's process.
    pub pid: i32,
    /// What it prints.
    pub stdout: pipe::Receiver,
    /// What it prints as errors, if that has a pipe of its own.
    pub stderr: Option<pipe::Receiver>,
    /// What it reads, if it has a pipe for that.
    pub stdin: Option<pipe::Sender>,
    control: BufReader<UnixStream>,
    child: tokio::process::Child,
}

impl RunningCommand {
    /// Waits until the command has ended and nothing of it is left. May be dropped and called again.
    pub async fn wait(&mut self) -> io::Result<Ended> {
        let report = self.report().await?;
        self.child.wait().await?;
        match report {
            Report::Ended { code, signal, killed } => Ok(Ended { code, signal, killed }),
            Report::Failed(cause) => Err(io::Error::other(cause)),
            Report::Started { .. } => Err(io::Error::other("the supervisor reported a second start")),
        }
    }

    /// Asks the command to end: SIGTERM, and SIGKILL after its time of grace.
    pub async fn stop(&mut self) -> io::Result<()> {
        self.control.get_mut().write_all(&[STOP]).await
    }

    async fn report(&mut self) -> io::Result<Report> {
        let mut line = String::new();
        if self.control.read_line(&mut line).await? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the supervisor was killed: the outcome is unknown",
            ));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

/// Sends the request, and the descriptor of the command's input along with its length.
fn send(socket: &Socket, input: &OwnedFd, request: &StartRequest) -> io::Result<()> {
    let body = serde_json::to_vec(request)?;
    let length = u32::try_from(body.len()).map_err(|_| io::Error::other("the command is too long"))?.to_le_bytes();
    let descriptors = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(&length)], &mut ancillary, SendFlags::empty())?;
    (&*socket).write_all(&body)
}

fn bubblewrap() -> io::Result<Bubblewrap> {
    Bubblewrap::find().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "bubblewrap is not installed"))
}
