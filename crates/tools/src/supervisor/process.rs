//! The supervisor's own process: one thread, one command.

use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, getpid, pidfd_open, set_child_subreaper, set_dumpable_behavior, setsid,
};

use super::{STOP, tree};
use crate::clock::now;
use crate::confine::namespace::{NamespaceCommand, Placeholders};
use crate::confine::{self};
use crate::wire::{Confinement, Report, StartRequest};

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
    let (request, input) = receive(control)?;
    let grace = Duration::from_millis(request.grace_milliseconds);
    let (mut command, placeholders) = prepare(request)?;
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command.stdin(Stdio::from(input)).spawn();
    let child = child.map_err(|error| io::Error::new(error.kind(), format!("{name} cannot be run: {error}")))?;
    let command = Pid::from_child(&child);
    let report = watch(control, command, grace);
    placeholders.remove();
    report
}

/// Waits for the command's end, for the request to stop, and for the program's end.
fn watch(control: &UnixStream, command: Pid, grace: Duration) -> io::Result<Report> {
    let pidfd = pidfd_open(command, PidfdFlags::empty())?;
    let mut writer = control.try_clone()?;
    tell(&mut writer, &Report::Started { pid: command.as_raw_nonzero().get() })?;
    let mut deadline = None;
    let status = loop {
        if let Some(status) = tree::reap(command) {
            break Some(status);
        }
        let left = deadline.map(|deadline: Instant| deadline.saturating_duration_since(now()));
        if left == Some(Duration::ZERO) {
            break None;
        }
        match next_event(control, &pidfd, left)? {
            Event::Stop => {
                tree::signal(Signal::TERM);
                deadline.get_or_insert_with(|| now() + grace);
            }
            Event::ProgramGone => break None,
            Event::Other => {}
        }
    };
    let killed = tree::kill_all();
    Ok(match status {
        Some(status) => Report::Ended { code: status.exit_status(), signal: status.terminating_signal(), killed },
        // The command itself was among the killed.
        None => Report::Ended { code: None, signal: Some(Signal::KILL.as_raw()), killed: killed.saturating_sub(1) },
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The program asked for the command's end.
    Stop,
    /// The program is gone.
    ProgramGone,
    /// A process ended, or it is time to look.
    Other,
}

fn next_event(control: &UnixStream, pidfd: &OwnedFd, left: Option<Duration>) -> io::Result<Event> {
    let timeout = left.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
    let mut watched = [PollFd::new(control, PollFlags::IN), PollFd::new(pidfd, PollFlags::IN)];
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if watched[0].revents().is_empty() {
        return Ok(Event::Other);
    }
    let mut byte = [0];
    match (&*control).read(&mut byte) {
        Ok(0) => Ok(Event::ProgramGone),
        Ok(_) if byte == [STOP] => Ok(Event::Stop),
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

fn prepare(request: StartRequest) -> io::Result<(Command, Placeholders)> {
    let executable = std::env::current_exe()?;
    let mut placeholders = Placeholders::default();
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
            let inside = super::bubblewrap()?.command(policy, &executable, &request.directory);
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
