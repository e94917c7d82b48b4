//! Background jobs: commands that go on after the call that started them.
//!
//! A job is recorded before it starts, under the call that starts it, so a call that a crash interrupted finds its job
//! instead of starting a second one. The supervisor of the job keeps its output and its end beside the record. Nothing else
//! is needed to know it again: a program that is started later reads the same files.
//!
//! ```text
//! STATE/CHAT/jobs/N/job.json     the record
//! STATE/CHAT/jobs/N/told         there once the model was told of the end
//! STATE/CHAT/jobs/N/…            what the supervisor keeps
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use everturn::core::ids::{CallUid, ChatId};
use rustix::fs::OFlags;
use tokio::io::Interest;
use tokio::net::unix::pipe;

use super::state::{ChatState, make_directory, sync};
use crate::supervisor::STOP;
use crate::supervisor::job::{CONTROL, END, OUTPUT, milliseconds};
use crate::wire::{JobEnd, JobLife, JobRecord};

const JOBS: &str = "jobs";
const RECORD: &str = "job.json";
const TOLD: &str = "told";
/// Jobs of a chat that may run at once.
pub const RUNNING_MAX: usize = 8;
/// Jobs of a chat that are remembered after their end.
const ENDED_MAX: usize = 16;

/// A command that goes on after the call that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundJob {
    /// The chat it belongs to.
    pub chat: ChatId,
    /// Its number in the chat, from 1.
    pub number: u32,
    /// The call that started it.
    pub call: CallUid,
    /// The command.
    pub command: String,
    /// When it was started, in milliseconds since 1970.
    pub started_milliseconds: u64,
    /// How long it may take.
    pub time_max: Duration,
    /// Whether it outlives the program that started it.
    pub life: JobLife,
    /// What became of it.
    pub state: JobState,
    /// Bytes it has printed. The first and the newest 5 MiB are kept.
    pub output_bytes: u64,
}

/// What became of a background job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// It runs.
    Running,
    /// It ended.
    Ended(JobEnd),
    /// Nothing is known of its end: its supervisor was killed, the machine was restarted, or it never began.
    Lost,
}

impl BackgroundJob {
    /// How long it has run, or ran.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        let until = match &self.state {
            JobState::Running => milliseconds(),
            JobState::Ended(end) => end.at_milliseconds,
            JobState::Lost => return None,
        };
        Some(Duration::from_millis(until.saturating_sub(self.started_milliseconds)))
    }
}

/// The jobs of one chat.
#[derive(Debug, Clone)]
pub struct ChatJobs {
    chat: ChatId,
    directory: PathBuf,
}

impl ChatJobs {
    pub fn new(chat: ChatId, state: &ChatState) -> Self {
        Self::at(chat, state.path())
    }

    /// The jobs in the state directory of a chat.
    pub fn at(chat: ChatId, state: &Path) -> Self {
        Self { chat, directory: state.join(JOBS) }
    }

    /// The numbers of all jobs, the oldest first.
    fn numbers(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// One of them.
    pub fn get(&self, number: u32) -> Option<JobFiles> {
        let directory = self.directory.join(number.to_string());
        let record = fs::read(directory.join(RECORD)).ok()?;
        let record = serde_json::from_slice(&record).ok()?;
        Some(JobFiles { chat: self.chat, number, directory, record })
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<JobFiles> {
        self.numbers().into_iter().filter_map(|number| self.get(number)).collect()
    }

    /// Whether one of them runs.
    pub fn any_runs(&self) -> bool {
        self.numbers().into_iter().any(|number| is_alive(&self.directory.join(number.to_string())))
    }

    /// Records a job that is about to start.
    pub fn record(&self, record: JobRecord) -> io::Result<JobFiles> {
        self.forget_oldest()?;
        make_directory(&self.directory)?;
        let mut number = self.numbers().last().map_or(1, |newest| newest + 1);
        let directory = loop {
            let directory = self.directory.join(number.to_string());
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => break directory,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        };
        let mut file = tempfile::NamedTempFile::new_in(&directory)?;
        file.write_all(&serde_json::to_vec(&record)?)?;
        file.as_file().sync_all()?;
        file.persist(directory.join(RECORD)).map_err(|error| error.error)?;
        sync(&directory)?;
        sync(&self.directory)?;
        Ok(JobFiles { chat: self.chat, number, directory, record })
    }

    /// Removes the oldest jobs that are over until one more fits. The newest stays: numbers are not given twice.
    fn forget_oldest(&self) -> io::Result<()> {
        let numbers = self.numbers();
        let directories = numbers.iter().map(|number| self.directory.join(number.to_string()));
        let over: Vec<PathBuf> = directories.filter(|directory| !is_alive(directory)).collect();
        let excess = over.len().saturating_sub(ENDED_MAX - 1);
        over.into_iter().take(excess).try_for_each(fs::remove_dir_all)
    }
}

/// What is kept of one job.
#[derive(Debug, Clone)]
pub struct JobFiles {
    chat: ChatId,
    pub number: u32,
    pub directory: PathBuf,
    pub record: JobRecord,
}

impl JobFiles {
    /// The job as it is now.
    pub fn job(&self) -> BackgroundJob {
        let JobRecord { call, command, started_milliseconds, seconds, life, .. } = self.record.clone();
        let state = self.state();
        let output_bytes = match &state {
            JobState::Ended(end) => end.output_bytes,
            JobState::Running | JobState::Lost => self.files().last().map_or(0, |(from, len, _)| from + len),
        };
        BackgroundJob {
            chat: self.chat,
            number: self.number,
            call: call.into(),
            command,
            started_milliseconds,
            time_max: Duration::from_secs(seconds),
            life,
            state,
            output_bytes,
        }
    }

    /// What became of it. An end is looked for again after the supervisor was found gone: it may have come in between.
    pub fn state(&self) -> JobState {
        if let Some(end) = self.end() {
            return JobState::Ended(end);
        }
        if is_alive(&self.directory) {
            return JobState::Running;
        }
        self.end().map_or(JobState::Lost, JobState::Ended)
    }

    fn end(&self) -> Option<JobEnd> {
        serde_json::from_slice(&fs::read(self.directory.join(END)).ok()?).ok()
    }

    /// Asks it to end: SIGTERM, and SIGKILL a moment later. One that is over needs no asking.
    pub fn stop(&self) -> io::Result<()> {
        match open_control(&self.directory) {
            Ok(mut control) => control.write_all(&[STOP]),
            Err(_) => Ok(()),
        }
    }

    /// Waits until it is over.
    pub async fn over(&self) -> io::Result<()> {
        let Ok(control) = pipe::OpenOptions::new().open_sender(self.directory.join(CONTROL)) else {
            return Ok(());
        };
        control.ready(Interest::ERROR).await?; // Its only reader is gone.
        Ok(())
    }

    /// Whether the model is to be told of the end before this step. After that only a step that is begun again is told: what
    /// it was told may not have been stored.
    pub fn is_news(&self, step: u64) -> bool {
        let path = self.directory.join(TOLD);
        match fs::read_to_string(&path).unwrap_or_default().as_str() {
            "" => fs::write(&path, step.to_string()).is_ok(),
            told => told == step.to_string(),
        }
    }

    /// Remembers that the model has seen the end.
    pub fn seen(&self) {
        let _ = fs::write(self.directory.join(TOLD), "seen"); // Otherwise it is told again.
    }

    /// Output from a byte on, at most so much, and the byte that it ends before. What was not kept is told of instead.
    pub fn output(&self, from: u64, len: u64) -> io::Result<(Vec<u8>, u64)> {
        let mut output = Vec::new();
        let mut at = from;
        let mut left = len;
        for (start, size, path) in self.files() {
            if start + size <= at || left == 0 {
                continue;
            }
            if start > at {
                output.extend(format!("[{} bytes are missing here, and were not kept]\n", start - at).into_bytes());
                at = start;
            }
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(at - start))?;
            let read = file.take(left.min(start + size - at)).read_to_end(&mut output)? as u64;
            at += read;
            left -= read;
        }
        Ok((output, at))
    }

    /// The newest output in whole lines, and the byte that it begins with.
    pub fn newest_output(&self, len: u64) -> io::Result<(Vec<u8>, u64)> {
        let total = self.files().last().map_or(0, |(from, len, _)| from + len);
        let from = total.saturating_sub(len);
        let (output, _) = self.output(from, len)?;
        let line = output.iter().position(|byte| *byte == b'\n').filter(|end| from > 0 && *end < output.len() / 2);
        let cut = line.map_or(0, |end| end + 1);
        Ok((output[cut..].to_vec(), from + cut as u64))
    }

    /// The files of its output in order: where each begins, and how long it is.
    fn files(&self) -> Vec<(u64, u64, PathBuf)> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| {
                let from = entry.file_name().to_str()?.strip_prefix(OUTPUT)?.parse().ok()?;
                Some((from, entry.metadata().ok()?.len(), entry.path()))
            })
            .collect();
        files.sort_unstable();
        files
    }
}

/// Whether a job has a supervisor: the only reader of its pipe.
fn is_alive(directory: &Path) -> bool {
    open_control(directory).is_ok()
}

fn open_control(directory: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().write(true).custom_flags(flags).open(directory.join(CONTROL))
}

/// Stops every job in the state directory of a chat, and waits for their ends.
pub async fn stop_all(jobs: &ChatJobs) -> io::Result<()> {
    for job in jobs.all() {
        job.stop()?;
        job.over().await?;
    }
    Ok(())
}
