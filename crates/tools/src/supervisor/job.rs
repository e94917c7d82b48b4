//! What a supervisor keeps of a background job, or of a command that may become one, for programs that come later too.
//!
//! The directory may be moved meanwhile: that is how a command becomes a job.
//!
//! ```text
//! JOB/control    a named pipe. The supervisor is its only reader, so a job whose pipe has none is over; a byte stops it
//! JOB/output-N   its output from byte N on, 1 MiB per file: the first and the newest
//! JOB/end.json   how it ended
//! ```

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::event::PollFlags;
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::process::WaitStatus;

use crate::clock::{now, wall_time};
use crate::wire::{JobEnd, JobEndCause, JobLife, JobOutput, JobRequest};

/// The named pipe of a job.
pub const CONTROL: &str = "control";
/// The file that says how a job ended.
pub const END: &str = "end.json";
/// The file that becomes it. It has its room on the disk from the start, so that an end can be told when the disk is full.
const END_BEFORE: &str = "end.reserved";
/// Bytes that are reserved for the end.
const END_BYTES: usize = 1_024;
/// How the names of output files begin.
pub const OUTPUT: &str = "output-";
/// Bytes of an output file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes from the beginning that are kept in any case.
const HEAD_BYTES: u64 = 5 << 20;
/// Newest output files that are kept: 5 MiB, and the one that is written.
const NEWEST_FILES_MAX: usize = 6;
/// Bytes that are read at once, so that a job that floods can still be stopped.
const BYTES_AT_ONCE: usize = 256 << 10;

/// A job, as its supervisor sees it.
#[derive(Debug)]
pub struct JobKeeper {
    /// The directory, wherever it is moved to.
    directory: PathBuf,
    /// What keeps that path valid.
    opened: File,
    control: File,
    /// The program that waits for the output, until it wants no more of it.
    program: Option<LiveOutput>,
    /// Whether an end has to survive a power cut.
    durable: bool,
    /// What it prints, until nothing has the other end any more.
    output: Option<PipeReader>,
    log: OutputLog,
    /// When the job's time is up.
    pub deadline: Instant,
    /// Whether it goes on without the program that started it.
    pub life: JobLife,
}

/// What one look at the control pipe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOrder {
    Stop,
    Nothing,
}

impl JobKeeper {
    /// Opens the job. From here on it counts as alive.
    pub fn open(request: JobRequest, output: PipeReader, program: Option<PipeWriter>) -> io::Result<Self> {
        let JobRequest { directory, seconds, life, output: goes_to } = request;
        let opened = File::open(directory)?;
        let directory = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
        let path = directory.join(CONTROL);
        mkfifoat(CWD, &path, Mode::from_bits_truncate(0o600))?;
        // Also for writing, so that there is always a writer: without one it would be readable all the time.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let control = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        fs::write(directory.join(END_BEFORE), [b' '; END_BYTES])?;
        let log = OutputLog::new(&directory);
        let deadline = now() + Duration::from_secs(seconds);
        let program = program.map(LiveOutput::new).transpose()?;
        let durable = goes_to == JobOutput::Files;
        Ok(Self { directory, opened, control, program, durable, output: Some(output), log, deadline, life })
    }

    /// What there is to wait for. While the program takes no more, the job's output waits.
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let busy = self.program.as_ref().filter(|program| program.is_full());
        let output = self.output.as_ref().filter(|_| busy.is_none());
        [(self.control.as_fd(), PollFlags::IN)]
            .into_iter()
            .chain(output.map(|output| (output.as_fd(), PollFlags::IN)))
            .chain(busy.map(|program| (program.pipe.as_fd(), PollFlags::OUT)))
    }

    /// Keeps what the job has printed, and says what it was told to do.
    pub fn attend(&mut self) -> io::Result<JobOrder> {
        self.keep_output(BYTES_AT_ONCE)?;
        let mut bytes = [0; 16];
        match (&self.control).read(&mut bytes) {
            Ok(len) if len > 0 => Ok(JobOrder::Stop),
            Ok(_) => Ok(JobOrder::Nothing),
            Err(error) if is_empty(&error) => Ok(JobOrder::Nothing),
            Err(error) => Err(error),
        }
    }

    fn keep_output(&mut self, bytes_max: usize) -> io::Result<usize> {
        let mut buffer = vec![0; 64 << 10];
        let mut kept = 0;
        while kept < bytes_max && self.pass_on() == Taken::All {
            let Some(output) = &mut self.output else { break };
            match output.read(&mut buffer) {
                Ok(0) => self.output = None,
                Ok(len) => {
                    self.log.push(&buffer[..len]);
                    if let Some(program) = &mut self.program {
                        program.waiting.extend_from_slice(&buffer[..len]);
                    }
                    kept += len;
                }
                Err(error) if is_empty(&error) => break,
                Err(error) => return Err(error),
            }
        }
        self.pass_on();
        Ok(kept)
    }

    /// Gives the program what it has not taken yet.
    fn pass_on(&mut self) -> Taken {
        let Some(program) = &mut self.program else { return Taken::All };
        match program.flush() {
            Ok(taken) => taken,
            Err(_) => {
                self.program = None; // It is gone, or does not wait any more.
                Taken::All
            }
        }
    }

    /// Records the end, when nothing of the job is left.
    pub fn finish(mut self, cause: JobEndCause, status: Option<WaitStatus>, killed: usize) -> io::Result<()> {
        if let Some(program) = &self.program {
            rustix::io::ioctl_fionbio(&program.pipe, false)?; // Nothing is left that could be kept waiting.
        }
        while self.keep_output(BYTES_AT_ONCE)? > 0 {}
        let end = JobEnd {
            cause,
            code: status.and_then(WaitStatus::exit_status),
            signal: status.and_then(WaitStatus::terminating_signal),
            killed,
            at_milliseconds: milliseconds(),
            output_bytes: self.log.at,
        };
        let mut told = serde_json::to_vec(&end)?;
        told.resize(told.len().max(END_BYTES), b' ');
        let reserved = self.directory.join(END_BEFORE);
        let mut file = OpenOptions::new().write(true).open(&reserved)?;
        file.write_all(&told)?;
        if self.durable || self.life == JobLife::Kept {
            file.sync_all()?;
        }
        fs::rename(reserved, self.directory.join(END))?;
        if self.durable || self.life == JobLife::Kept { self.opened.sync_all() } else { Ok(()) }
    }
}

/// The pipe to the program that waits for a command.
#[derive(Debug)]
struct LiveOutput {
    pipe: PipeWriter,
    /// What it has not taken yet: at most what was read at once.
    waiting: Vec<u8>,
}

/// How much the program took of what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    All,
    Some,
}

impl LiveOutput {
    fn new(pipe: PipeWriter) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { pipe, waiting: Vec::new() })
    }

    fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn flush(&mut self) -> io::Result<Taken> {
        while !self.waiting.is_empty() {
            match self.pipe.write(&self.waiting) {
                Ok(len) => drop(self.waiting.drain(..len)),
                Err(error) if is_empty(&error) => return Ok(Taken::Some),
                Err(error) => return Err(error),
            }
        }
        Ok(Taken::All)
    }
}

fn is_empty(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Milliseconds since 1970.
pub fn milliseconds() -> u64 {
    let since = wall_time().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Output in files, of which those in the middle are removed.
#[derive(Debug)]
struct OutputLog {
    directory: PathBuf,
    /// Bytes that were printed so far.
    at: u64,
    /// The file that is written, and its room.
    file: Option<(File, u64)>,
    newest: VecDeque<PathBuf>,
}

impl OutputLog {
    fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), at: 0, file: None, newest: VecDeque::new() }
    }

    /// Adds bytes. What cannot be written, because the disk is full, is missing from what is kept.
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.write_some(bytes) {
                Ok(len) => {
                    self.at += len as u64;
                    bytes = &bytes[len..];
                }
                Err(_) => {
                    self.file = None;
                    self.at += bytes.len() as u64;
                    return;
                }
            }
        }
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.as_ref().is_none_or(|(_, room)| *room == 0) {
            self.file = Some((self.next_file()?, FILE_BYTES_MAX));
        }
        let Some((file, room)) = &mut self.file else { return Ok(0) };
        let part = &bytes[..bytes.len().min(usize::try_from(*room).unwrap_or(usize::MAX))];
        let len = file.write(part)?;
        *room -= len as u64;
        Ok(len)
    }

    fn next_file(&mut self) -> io::Result<File> {
        let path = self.directory.join(format!("{OUTPUT}{:020}", self.at));
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path)?;
        if self.at >= HEAD_BYTES {
            self.newest.push_back(path);
        }
        if self.newest.len() > NEWEST_FILES_MAX
            && let Some(oldest) = self.newest.pop_front()
        {
            let _ = fs::remove_file(oldest); // It takes room, which is bounded for the workspace too.
        }
        Ok(file)
    }
}
