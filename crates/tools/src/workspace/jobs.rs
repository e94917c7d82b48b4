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

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everturn::core::ids::{CallUid, ChatId};

use super::recorded::{CommandFiles, is_alive};
use super::state::{ChatState, make_directory, sync};
use crate::supervisor::job::milliseconds;
use crate::wire::{JobEnd, JobLife, JobRecord};

const JOBS: &str = "jobs";
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
        Some(JobFiles { chat: self.chat, number, command: CommandFiles::read(directory)? })
    }

    /// The job that a call has started.
    pub fn of(&self, call: CallUid) -> Option<JobFiles> {
        self.all().into_iter().find(|files| CallUid::from(files.command.record.call) == call)
    }

    /// All of them, the oldest first.
    pub fn all(&self) -> Vec<JobFiles> {
        self.numbers().into_iter().filter_map(|number| self.get(number)).collect()
    }

    /// Whether one of them runs.
    pub fn any_runs(&self) -> bool {
        self.numbers().into_iter().any(|number| is_alive(&self.directory.join(number.to_string())))
    }

    /// Whether another job may be started.
    pub fn has_room(&self) -> bool {
        self.all().iter().filter(|files| files.command.state() == JobState::Running).count() < RUNNING_MAX
    }

    /// Records a job that is about to start.
    pub fn record(&self, record: JobRecord) -> io::Result<JobFiles> {
        let (number, directory) = self.make_next()?;
        let command = CommandFiles { directory, record };
        command.write_record()?;
        command.sync_record()?;
        sync(&self.directory)?;
        Ok(JobFiles { chat: self.chat, number, command })
    }

    /// Makes a job of a command that runs.
    pub fn take_over(&self, command: CommandFiles, life: JobLife) -> io::Result<JobFiles> {
        let record = JobRecord { life, ..command.record };
        let command = CommandFiles { record, ..command };
        command.write_record()?;
        command.sync_record()?;
        let (number, directory) = self.make_next()?;
        fs::rename(&command.directory, &directory)?; // Onto an empty directory.
        sync(&self.directory)?;
        Ok(JobFiles { chat: self.chat, number, command: CommandFiles { directory, ..command } })
    }

    /// The next number, and an empty directory for it.
    fn make_next(&self) -> io::Result<(u32, PathBuf)> {
        self.forget_oldest()?;
        make_directory(&self.directory)?;
        let mut number = self.numbers().last().map_or(1, |newest| newest + 1);
        loop {
            let directory = self.directory.join(number.to_string());
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => return Ok((number, directory)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
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

/// A job of a chat.
#[derive(Debug, Clone)]
pub struct JobFiles {
    chat: ChatId,
    pub number: u32,
    pub command: CommandFiles,
}

impl JobFiles {
    /// The job as it is now.
    pub fn job(&self) -> BackgroundJob {
        let JobRecord { call, command, started_milliseconds, seconds, life, .. } = self.command.record.clone();
        let state = self.command.state();
        let output_bytes = match &state {
            JobState::Ended(end) => end.output_bytes,
            JobState::Running | JobState::Lost => self.command.output_bytes(),
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

    /// Whether the model is to be told of the end before this step. After that only a step that is begun again is told: what
    /// it was told may not have been stored.
    pub fn is_news(&self, step: u64) -> bool {
        let path = self.command.directory.join(TOLD);
        match fs::read_to_string(&path).unwrap_or_default().as_str() {
            "" => fs::write(&path, step.to_string()).is_ok(),
            told => told == step.to_string(),
        }
    }

    /// Remembers that the model has seen the end.
    pub fn seen(&self) {
        let _ = fs::write(self.command.directory.join(TOLD), "seen"); // Otherwise it is told again.
    }
}

/// Stops every job in the state directory of a chat, and waits for their ends.
pub async fn stop_all(jobs: &ChatJobs) -> io::Result<()> {
    for job in jobs.all() {
        job.command.stop()?;
        job.command.over().await?;
    }
    Ok(())
}
