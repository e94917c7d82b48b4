//! A parent for each tool process, which leaves nothing behind.
//!
//! Tools start children that start children, in new sessions, and close what would tell on them. The supervisor is a
//! child subreaper: whatever loses its parent below it becomes its child. It waits for the command, for a byte that says
//! "stop", and for the end of its connection, which the kernel closes when the daemon dies however it dies. In each case
//! it ends all that is left and then itself.
//!
//! One supervisor per command, not one for all: the tree of a command is known exactly, and one that breaks takes one
//! command along.

mod footprint;
pub(crate) mod job;
pub(crate) mod process;
mod tree;

use std::collections::BTreeMap;
use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::confine::Bubblewrap;
use crate::confine::probe::Level;
use crate::wire::{AccessPolicy, Confinement, JobRequest, Report, StartRequest, TreeChanges};

/// The argument that makes this program a supervisor.
pub const ROLE: &str = "__everturn-supervise";
/// The byte that asks for the command's end.
pub(crate) const STOP: u8 = b'S';
/// The byte that lets a recorded command outlive the program.
pub(crate) const KEEP: u8 = b'K';
/// This program, also after an upgrade has replaced its file.
pub(crate) const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// The umask that this program was started with, which tools get: the program itself may use a stricter one.
static UMASK: OnceLock<u32> = OnceLock::new();
/// The umask of tools where [`init`](crate::init) was not called.
const UMASK_USUAL: u32 = 0o022;
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
    watched: Option<PathBuf>,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Processes that it left and that were killed.
    pub killed: usize,
    /// What it changed, if that was watched.
    pub changes: Option<TreeChanges>,
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
            watched: None,
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

    /// Sets how long it may take to end after it was asked to; by default one second.
    #[must_use]
    pub const fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Reports at its end which files of a directory it changed: by their names, sizes and times, up to 20,000 files.
    #[must_use]
    pub fn watching(mut self, directory: impl Into<PathBuf>) -> Self {
        self.watched = Some(directory.into());
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
        self.start_as(None).await
    }

    /// Starts it, and has its output and its end kept in files too.
    pub(crate) async fn start_recorded(self, job: JobRequest) -> io::Result<RunningCommand> {
        self.start_as(Some(job)).await
    }

    async fn start_as(self, job: Option<JobRequest>) -> io::Result<RunningCommand> {
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
        let child = self.supervise(theirs, output_end.into(), errors_end.into())?;
        send(&ours, &input_end, &self.request(job))?;
        drop(input_end);
        ours.set_nonblocking(true)?;
        let mut running = RunningCommand {
            pid: 0,
            stdout: pipe::Receiver::from_owned_fd(output.into())?,
            stderr: errors.map(|errors| pipe::Receiver::from_owned_fd(errors.into())).transpose()?,
            stdin: input.map(|input| pipe::Sender::from_owned_fd(input.into())).transpose()?,
            process: CommandProcess { control: BufReader::new(UnixStream::from_std(ours)?), child },
        };
        running.pid = running.process.started().await?;
        Ok(running)
    }

    /// Starts it as a background job, whose output and end are kept in files. Dropping what this returns ends a job that
    /// lives with this program.
    pub(crate) async fn start_job(self, job: JobRequest) -> io::Result<CommandProcess> {
        let (ours, theirs) = Socket::pair()?;
        let input = OwnedFd::from(std::fs::File::open("/dev/null")?);
        let child = self.supervise(theirs, Stdio::null(), Stdio::null())?;
        send(&ours, &input, &self.request(Some(job)))?;
        ours.set_nonblocking(true)?;
        let mut process = CommandProcess { control: BufReader::new(UnixStream::from_std(ours)?), child };
        process.started().await?;
        Ok(process)
    }

    /// Starts the supervisor. Our copies of its ends are dropped, so that the last writer's end is the pipe's end.
    fn supervise(&self, control: Socket, output: Stdio, errors: Stdio) -> io::Result<tokio::process::Child> {
        let mut supervisor = tokio::process::Command::new(&self.helper);
        supervisor.arg(ROLE).env_clear().current_dir("/").kill_on_drop(false);
        supervisor.stdin(Stdio::from(OwnedFd::from(control))).stdout(output).stderr(errors);
        supervisor.spawn()
    }

    fn request(&self, job: Option<JobRequest>) -> StartRequest {
        StartRequest {
            argv: self.argv.clone(),
            environment: self.environment.clone(),
            directory: self.directory.clone(),
            confinement: self.confinement.clone(),
            umask: UMASK.get().copied().unwrap_or(UMASK_USUAL),
            grace_milliseconds: u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX),
            watched: self.watched.clone(),
            job,
        }
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
    /// Its supervisor, apart from the pipes so that both can be used at once.
    pub process: CommandProcess,
}

impl RunningCommand {
    /// Waits until the command has ended and nothing of it is left. May be dropped and called again.
    pub async fn wait(&mut self) -> io::Result<Ended> {
        self.process.wait().await
    }

    /// Asks the command to end: SIGTERM, and SIGKILL after its time of grace.
    pub async fn stop(&mut self) -> io::Result<()> {
        self.process.stop().await
    }
}

/// The supervisor of a command. Dropping it ends the command and everything it started.
#[derive(Debug)]
pub struct CommandProcess {
    control: BufReader<UnixStream>,
    child: tokio::process::Child,
}

impl CommandProcess {
    /// Waits until the command has ended and nothing of it is left. May be dropped and called again.
    pub async fn wait(&mut self) -> io::Result<Ended> {
        let report = self.report().await?;
        self.child.wait().await?;
        match report {
            Report::Ended { code, signal, killed, changes } => Ok(Ended { code, signal, killed, changes }),
            Report::Failed(cause) => Err(io::Error::other(cause)),
            Report::Started { .. } => Err(io::Error::other("the supervisor reported a second start")),
        }
    }

    /// Asks the command to end: SIGTERM, and SIGKILL after its time of grace.
    pub async fn stop(&mut self) -> io::Result<()> {
        self.control.get_mut().write_all(&[STOP]).await
    }

    /// Lets the command, which is recorded, go on when this program ends.
    pub(crate) async fn keep(&mut self) -> io::Result<()> {
        self.control.get_mut().write_all(&[KEEP]).await
    }

    /// Waits until the command runs, and says as which process.
    async fn started(&mut self) -> io::Result<i32> {
        match self.report().await? {
            Report::Started { pid } => Ok(pid),
            Report::Failed(cause) => Err(io::Error::other(cause)),
            Report::Ended { .. } => Err(io::Error::other("the supervisor reported an end without a start")),
        }
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

/// Remembers the umask. It can only be read by setting it, so this comes before there are threads.
pub(crate) fn remember_umask() {
    let umask = rustix::process::umask(Mode::empty());
    rustix::process::umask(umask);
    let _ = UMASK.set(umask.bits()); // The first call counts.
}

fn bubblewrap() -> io::Result<Bubblewrap> {
    Bubblewrap::find().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "bubblewrap is not installed"))
}
