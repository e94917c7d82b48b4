//! The supervisor's own process: one thread, one command.

use std::io::{self, IoSliceMut, PipeWriter, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitStatus, getpid, pidfd_open, set_child_subreaper,
    set_dumpable_behavior, setsid,
};

use super::footprint::Footprint;
use super::job::{JobKeeper, JobOrder};
use super::{KEEP, STOP, tree};
use crate::clock::now;
use crate::confine::guard::PlaceholderLock;
use crate::confine::namespace::NamespaceCommand;
use crate::confine::{self};
use crate::wire::{Confinement, JobEndCause, JobLife, JobOutput, JobRequest, Report, StartRequest};

/// Runs one command for the program at the other end of standard input.
pub(crate) fn main() -> i32 {
    let control = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let outcome = control.and_then(|mut control| {
        let report = run(&control).unwrap_or_else(|error| Report::Failed(error.to_string()));
        tell(&mut control, &report) // The program may be gone: then there is nothing to tell.
    });
    i32::from(outcome.is_err())
}

fn run(control: &UnixStream) -> io::Result<Report> {
    close_fds::set_fds_cloexec(3, &[]); // The daemon may have inherited some, which are no tool's business.
    let _ = setsid(); // It may lead a session already.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_child_subreaper(Some(getpid()))?;
    let (mut request, input) = receive(control)?;
    let watched = request.watched.clone().map(|directory| (Footprint::of(&directory), directory));
    rustix::process::umask(Mode::from_bits_truncate(request.umask));
    let grace = Duration::from_millis(request.grace_milliseconds);
    let job = request.job.take();
    let (mut command, placeholders) = prepare(request)?;
    command.stdin(Stdio::from(input));
    let job = job.map(|job| keep_output(job, &mut command)).transpose()?;
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command.spawn();
    drop(command); // With it our copies of the ends of its pipes.
    let child = child.map_err(|error| io::Error::new(error.kind(), format!("{name} cannot be run: {error}")))?;
    let overseer = Overseer { control, program: Program::Here, command: Pid::from_child(&child), grace, job };
    let mut report = overseer.watch(placeholders);
    if let (Ok(Report::Ended { changes, .. }), Some((before, directory))) = (&mut report, watched) {
        *changes = Some(before.changes(&Footprint::of(&directory)));
    }
    report
}

/// Has the output of a recorded command come here.
fn keep_output(job: JobRequest, command: &mut Command) -> io::Result<JobKeeper> {
    let (output, end) = io::pipe()?;
    command.stdout(end.try_clone()?).stderr(end);
    let program = match job.output {
        JobOutput::Files => None,
        JobOutput::FilesAndProgram => Some(PipeWriter::from(io::stdout().as_fd().try_clone_to_owned()?)),
    };
    JobKeeper::open(job, output, program)
}

/// One command, and all that can happen to it.
struct Overseer<'a> {
    control: &'a UnixStream,
    program: Program,
    command: Pid,
    grace: Duration,
    job: Option<JobKeeper>,
}

/// The program that started this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Here,
    /// It is gone, and the job goes on.
    Gone,
}

/// Why a command is over, and how it ended if it did by itself.
struct Over {
    cause: JobEndCause,
    status: Option<WaitStatus>,
}

impl Overseer<'_> {
    /// Waits until the command is over, and ends all that is left of it.
    fn watch(mut self, placeholders: Option<PlaceholderLock>) -> io::Result<Report> {
        let over = self.until_over();
        let killed = tree::kill_all(); // In any case: also if the program was gone before it could be told of the start.
        if let Some(placeholders) = placeholders {
            let _ = placeholders.release(); // What stays is removed after the next command.
        }
        let Over { cause, status } = over?;
        // Without a status the command itself was among the killed.
        let killed = if status.is_some() { killed } else { killed.saturating_sub(1) };
        if let Some(job) = self.job {
            let _ = job.finish(cause, status, killed); // Its directory may have been removed: the chat was deleted.
        }
        let (code, signal) = match status {
            Some(status) => (status.exit_status(), status.terminating_signal()),
            None => (None, Some(Signal::KILL.as_raw())),
        };
        Ok(Report::Ended { code, signal, killed, changes: None })
    }

    /// Waits for the command's end, for the request to stop, for the end of its time, and for the program's end.
    fn until_over(&mut self) -> io::Result<Over> {
        let pidfd = pidfd_open(self.command, PidfdFlags::empty())?;
        let mut writer = self.control.try_clone()?;
        let told = tell(&mut writer, &Report::Started { pid: self.command.as_raw_nonzero().get() });
        if told.is_err() && !self.outlives_program() {
            return Ok(Over { cause: JobEndCause::ProgramGone, status: None });
        }
        let mut stopping: Option<(JobEndCause, Instant)> = None;
        loop {
            if let Some(status) = tree::reap(self.command) {
                let cause = stopping.map_or(JobEndCause::Exited, |(cause, _)| cause);
                return Ok(Over { cause, status: Some(status) });
            }
            let time_up = self.job.as_ref().map(|job| job.deadline);
            let left = stopping.map(|(_, kill)| kill).or(time_up).map(|at| at.saturating_duration_since(now()));
            if left == Some(Duration::ZERO) {
                if let Some((cause, _)) = stopping {
                    return Ok(Over { cause, status: None });
                }
                stopping = Some(self.terminate(JobEndCause::TimeUp));
                continue;
            }
            match self.next_event(&pidfd, left)? {
                Event::Stop => {
                    let first = self.terminate(JobEndCause::Stopped);
                    stopping.get_or_insert(first);
                }
                Event::Keep => self.job.iter_mut().for_each(|job| job.life = JobLife::Kept),
                Event::ProgramGone if self.outlives_program() => self.program = Program::Gone,
                Event::ProgramGone => return Ok(Over { cause: JobEndCause::ProgramGone, status: None }),
                Event::Other => {}
            }
        }
    }

    fn outlives_program(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.life == JobLife::Kept)
    }

    /// Asks all processes to end, and says until when they may take.
    fn terminate(&self, cause: JobEndCause) -> (JobEndCause, Instant) {
        tree::signal(Signal::TERM);
        (cause, now() + self.grace)
    }

    fn next_event(&mut self, pidfd: &OwnedFd, left: Option<Duration>) -> io::Result<Event> {
        let timeout = left.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        let of_program = (self.program == Program::Here).then_some(self.control.as_fd());
        let of_job = self.job.iter().flat_map(JobKeeper::descriptors);
        let first = [(pidfd.as_fd(), PollFlags::IN)].into_iter();
        let all = first.chain(of_job).chain(of_program.map(|program| (program, PollFlags::IN)));
        let mut watched: Vec<PollFd<'_>> = all.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let program_says = of_program.is_some() && watched.last().is_some_and(|last| !last.revents().is_empty());
        drop(watched);
        if let Some(job) = &mut self.job
            && job.attend()? == JobOrder::Stop
        {
            return Ok(Event::Stop);
        }
        if program_says { heard(self.control) } else { Ok(Event::Other) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The program asked for the command's end.
    Stop,
    /// The command may outlive the program.
    Keep,
    /// The program is gone.
    ProgramGone,
    /// A process ended, or it is time to look.
    Other,
}

/// What the program says.
fn heard(mut control: &UnixStream) -> io::Result<Event> {
    let mut byte = [0];
    match control.read(&mut byte) {
        Ok(0) => Ok(Event::ProgramGone),
        Ok(_) if byte == [STOP] => Ok(Event::Stop),
        Ok(_) if byte == [KEEP] => Ok(Event::Keep),
        Ok(_) => Ok(Event::Other),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(Event::ProgramGone),
        Err(error) => Err(error),
    }
}

/// The request, and the descriptor that came along with its length.
fn receive(mut control: &UnixStream) -> io::Result<(StartRequest, OwnedFd)> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let received = recvmsg(control, &mut [IoSliceMut::new(&mut length)], &mut ancillary, flags)?;
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let input = descriptors.next().and_then(|mut descriptors| descriptors.next());
    let input = input.filter(|_| received.bytes == length.len()).ok_or_else(|| io::Error::other("no request came"))?;
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    control.read_exact(&mut body)?;
    Ok((serde_json::from_slice(&body)?, input))
}

fn prepare(request: StartRequest) -> io::Result<(Command, Option<PlaceholderLock>)> {
    let executable = std::env::current_exe()?;
    let mut placeholders = None;
    let mut command = match &request.confinement {
        Confinement::Off => {
            let (program, args) = request.argv.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
            let mut command = Command::new(program);
            command.args(args);
            command
        }
        Confinement::Kernel(policy) => {
            let mut command = Command::new(&executable);
            command.args([confine::ROLE, &serde_json::to_string(policy)?]).args(&request.argv);
            command
        }
        Confinement::Namespace(policy) => {
            let inside = super::bubblewrap()?.command(policy, &executable, &request.directory)?;
            let NamespaceCommand { program, args, placeholders: made } = inside;
            placeholders = made;
            let mut command = Command::new(program);
            command.args(args).args([confine::ROLE, &serde_json::to_string(policy)?]).args(&request.argv);
            command
        }
    };
    command.env_clear().envs(&request.environment).current_dir(&request.directory).process_group(0);
    Ok((command, placeholders))
}

fn tell(control: &mut UnixStream, report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    control.write_all(&line)
}
