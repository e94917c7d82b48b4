//! The state of one chat: which files it has read, and what its calls changed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use everturn::core::ids::{CallUid, StepId};
use sha2::{Digest as _, Sha256};

use super::make_directory;
use crate::wire::{ChangeEntry, ChangeRecord, ChangeStage, ToldInstructions, ToldNested};

/// Files whose state a chat remembers. When there are more, all are forgotten and have to be read again.
const SEEN_MAX: usize = 10_000;
/// Bytes of old contents that are kept of a chat. Above that, the oldest calls can no longer be undone.
const BEFORE_BYTES_MAX: u64 = 256 << 20;
/// Calls whose changes are kept of a chat.
const CALLS_MAX: usize = 2_000;

const SEEN: &str = "seen";
const INSTRUCTIONS: &str = "instructions.json";
const NESTED: &str = "nested.json";
const TEMPORARY: &str = "temporary";
const BEFORE: &str = "before";

/// The state of one chat.
#[derive(Debug, Clone)]
pub struct ChatState {
    directory: PathBuf,
}

impl ChatState {
    pub const fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The directory for temporary files of the chat's commands.
    pub fn temporary(&self) -> io::Result<PathBuf> {
        let temporary = self.directory.join(TEMPORARY);
        make_directory(&temporary)?;
        Ok(temporary)
    }

    /// The instructions of the project that the chat was told.
    pub fn instructions(&self) -> io::Result<Option<ToldInstructions>> {
        match fs::read(self.directory.join(INSTRUCTIONS)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()), // What a power cut left of it is no text.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Remembers what the chat is told.
    pub fn tell_instructions(&self, told: &ToldInstructions) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(&serde_json::to_vec(told)?)?;
        file.as_file().sync_all()?;
        file.persist(self.directory.join(INSTRUCTIONS)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Instructions of directories that the chat was told, by their files.
    pub fn nested(&self) -> io::Result<BTreeMap<String, ToldNested>> {
        match fs::read(self.directory.join(NESTED)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

    /// Remembers which instructions of directories the chat was told.
    pub fn tell_nested(&self, told: &BTreeMap<String, ToldNested>) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(&serde_json::to_vec(told)?)?;
        file.persist(self.directory.join(NESTED)).map_err(|error| error.error)?;
        Ok(())
    }

    /// The hash of a file when the chat last read or wrote it.
    pub fn seen(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.directory.join(SEEN).join(hash(path.as_bytes()))).ok()
    }

    /// Remembers the state of a file.
    pub fn remember(&self, path: &str, content: &str) -> io::Result<()> {
        let seen = self.directory.join(SEEN);
        let entry = seen.join(hash(path.as_bytes()));
        if !entry.exists() && fs::read_dir(&seen).is_ok_and(|entries| entries.count() >= SEEN_MAX) {
            fs::remove_dir_all(&seen)?;
        }
        make_directory(&seen)?;
        let mut file = tempfile::NamedTempFile::new_in(&seen)?;
        file.write_all(content.as_bytes())?;
        file.persist(entry).map_err(|error| error.error)?;
        Ok(())
    }

    /// What is recorded of a call.
    pub fn recorded(&self, call: CallUid) -> io::Result<Option<ChangeEntry>> {
        let directory = self.of(call);
        for stage in [ChangeStage::Undone, ChangeStage::Made, ChangeStage::Prepared] {
            match fs::read(directory.join(file_at(stage))) {
                Ok(bytes) => {
                    let record = serde_json::from_slice(&bytes)?;
                    return Ok(Some(ChangeEntry { call: call.into(), stage, record }));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// All recorded changes, in the order of their calls.
    pub fn changes(&self) -> io::Result<Vec<ChangeEntry>> {
        let mut changes = Vec::new();
        for call in self.calls()? {
            changes.extend(self.recorded(call)?);
        }
        Ok(changes)
    }

    /// Records a change before it is made. When this returns, it survives a power cut.
    pub fn prepare(&self, call: CallUid, record: &ChangeRecord, before: Option<&[u8]>) -> io::Result<()> {
        self.make_room(before.map_or(0, <[u8]>::len))?;
        let directory = self.of(call);
        make_directory(&directory)?;
        if let Some(before) = before {
            let mut file = File::create(directory.join(BEFORE))?;
            file.write_all(before)?;
            file.sync_all()?;
        }
        let mut file = tempfile::NamedTempFile::new_in(&directory)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.as_file().sync_all()?;
        file.persist(directory.join(file_at(ChangeStage::Prepared))).map_err(|error| error.error)?;
        sync(&directory)?;
        sync(&self.directory)
    }

    /// Puts a change at another stage.
    pub fn advance(&self, call: CallUid, from: ChangeStage, to: ChangeStage) -> io::Result<()> {
        let directory = self.of(call);
        fs::rename(directory.join(file_at(from)), directory.join(file_at(to)))?;
        sync(&directory)
    }

    /// The content of a file before a call changed it.
    pub fn before(&self, call: CallUid) -> io::Result<Vec<u8>> {
        fs::read(self.of(call).join(BEFORE))
    }

    fn of(&self, call: CallUid) -> PathBuf {
        self.directory.join(call.to_string())
    }

    /// The calls that something is recorded of, the oldest first.
    fn calls(&self) -> io::Result<Vec<CallUid>> {
        let names = fs::read_dir(&self.directory)?.flatten().map(|entry| entry.file_name());
        let mut calls: Vec<CallUid> = names.filter_map(|name| parse(name.to_str()?)).collect();
        calls.sort_unstable();
        Ok(calls)
    }

    /// Forgets the oldest changes until one more fits.
    fn make_room(&self, bytes: usize) -> io::Result<()> {
        let calls = self.calls()?;
        let size = |call: &CallUid| self.of(*call).join(BEFORE).metadata().map_or(0, |found| found.len());
        let mut total: u64 = bytes as u64 + calls.iter().map(size).sum::<u64>();
        let mut count = calls.len();
        for call in calls {
            if total <= BEFORE_BYTES_MAX && count < CALLS_MAX {
                break;
            }
            total -= size(&call);
            count -= 1;
            fs::remove_dir_all(self.of(call))?;
        }
        Ok(())
    }
}

/// The name of a record's file, which is renamed from stage to stage.
const fn file_at(stage: ChangeStage) -> &'static str {
    match stage {
        ChangeStage::Prepared => "prepared.json",
        ChangeStage::Made => "made.json",
        ChangeStage::Undone => "undone.json",
    }
}

/// A call by the name of its directory.
pub fn parse(name: &str) -> Option<CallUid> {
    let (step, ordinal) = name.split_once('.')?;
    Some(CallUid { step: StepId(step.parse().ok()?), ordinal: ordinal.parse().ok()? })
}

/// The SHA-256 of a content, in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until the entries of a directory are on disk.
pub fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
