//! Commands that are recorded before they start, with their output and their end.
//!
//! The supervisor of a command keeps its output and its end beside the record. So what a command printed is there after it
//! was killed, what became of it is known after the program was killed, and a command that takes too long can become a
//! background job while it runs: its directory is moved.
//!
//! ```text
//! STATE/CHAT/commands/CALL/job.json   the record of a command whose call waits for it
//! STATE/CHAT/commands/CALL/…          what the supervisor keeps
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use everturn::core::ids::CallUid;
use rustix::fs::OFlags;
use tokio::io::Interest;
use tokio::net::unix::pipe;

use super::jobs::JobState;
use super::state::{ChatState, make_directory, parse_call, sync};
use crate::supervisor::STOP;
use crate::supervisor::job::{CONTROL, END, OUTPUT};
use crate::wire::{JobEnd, JobRecord};

const COMMANDS: &str = "commands";
const RECORD: &str = "job.json";

/// The commands of a chat whose calls wait for them, or waited.
#[derive(Debug, Clone)]
pub struct ChatCommands {
    directory: PathBuf,
}

impl ChatCommands {
    pub fn new(state: &ChatState) -> Self {
        Self::at(state.path())
    }

    /// The commands in the state directory of a chat.
    pub fn at(state: &Path) -> Self {
        Self { directory: state.join(COMMANDS) }
    }

    /// The command of a call.
    pub fn get(&self, call: CallUid) -> Option<CommandFiles> {
        CommandFiles::read(self.of(call))
    }

    /// Whether one of them runs.
    pub fn any_runs(&self) -> bool {
        self.calls().into_iter().any(|call| is_alive(&self.of(call)))
    }

    /// Records a command that is about to start. Those of earlier steps are forgotten: their results are stored. An earlier
    /// run of the same call, which may be repeated, is replaced.
    ///
    /// The record survives a kill, not a power cut: a call without one has an unknown outcome, as it had before.
    pub fn record(&self, record: JobRecord) -> io::Result<CommandFiles> {
        let call = CallUid::from(record.call);
        for old in self.calls() {
            let is_over = (old.step < call.step || old == call) && !is_alive(&self.of(old));
            if is_over {
                fs::remove_dir_all(self.of(old))?;
            }
        }
        let command = CommandFiles { directory: self.of(call), record };
        make_directory(&command.directory)?;
        command.write_record()?;
        Ok(command)
    }

    fn of(&self, call: CallUid) -> PathBuf {
        self.directory.join(call.to_string())
    }

    fn calls(&self) -> Vec<CallUid> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| parse_call(entry.file_name().to_str()?)).collect()
    }
}

/// What is kept of one command.
#[derive(Debug, Clone)]
pub struct CommandFiles {
    pub directory: PathBuf,
    pub record: JobRecord,
}

impl CommandFiles {
    /// What is kept in a directory.
    pub fn read(directory: PathBuf) -> Option<Self> {
        let record = serde_json::from_slice(&fs::read(directory.join(RECORD)).ok()?).ok()?;
        Some(Self { directory, record })
    }

    /// Writes the record, in place of an earlier one.
    pub fn write_record(&self) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(&serde_json::to_vec(&self.record)?)?;
        file.persist(self.directory.join(RECORD)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Waits until the record is on disk.
    pub fn sync_record(&self) -> io::Result<()> {
        File::open(self.directory.join(RECORD))?.sync_all()?;
        sync(&self.directory)
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

    /// Bytes that it has printed.
    pub fn output_bytes(&self) -> u64 {
        self.files().last().map_or(0, |(from, len, _)| from + len)
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
        let total = self.output_bytes();
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
pub fn is_alive(directory: &Path) -> bool {
    open_control(directory).is_ok()
}

fn open_control(directory: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().write(true).custom_flags(flags).open(directory.join(CONTROL))
}
