//! What the calls of a chat changed, and the way back.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use everturn::core::ids::CallUid;

use super::change::{discard_leftover, finish, replace};
use super::{FileContext, content};
use crate::failpoint::failpoint;
use crate::wire::{BeforeImage, CallName, ChangeEntry, ChangeStage};
use crate::workspace::state::{hash, sync};

/// Bytes of diffs in a list of changes.
const DIFFS_BYTES_MAX: usize = 4 << 20;

/// The changes of a chat, in the order of their calls.
pub fn changes(context: &FileContext) -> Result<Vec<ChangeEntry>, String> {
    let _lock = context.lock()?;
    let mut changes = settled(context)?;
    let mut room = DIFFS_BYTES_MAX;
    for change in changes.iter_mut().rev() {
        match room.checked_sub(change.record.diff.len()) {
            Some(left) => room = left,
            None => change.record.diff = "[left out: there are too many changes]\n".into(),
        }
    }
    Ok(changes)
}

/// Gives files the content they had before the calls, all of them or none.
pub fn undo(context: &FileContext, calls: &[CallName]) -> Result<Vec<ChangeEntry>, String> {
    let _lock = context.lock()?;
    let mut by_path: BTreeMap<String, Vec<ChangeEntry>> = BTreeMap::new();
    for change in settled(context)? {
        if calls.contains(&change.call) && change.stage == ChangeStage::Made {
            by_path.entry(change.record.path.clone()).or_default().push(change);
        }
    }
    let plans: Vec<Restoration> = by_path.into_values().map(|changes| Restoration::plan(context, changes)).collect();
    let refusals: Vec<&str> = plans.iter().filter_map(|plan| plan.refusal.as_deref()).collect();
    if !refusals.is_empty() {
        return Err(format!("nothing was undone: {}", refusals.join("; ")));
    }
    let mut undone = Vec::new();
    for plan in plans {
        let path = plan.path().to_owned();
        undone.extend(plan.carry_out(context).map_err(|error| format!("{path}: {error}"))?);
    }
    undone.sort_by_key(|change| CallUid::from(change.call));
    Ok(undone)
}

/// All changes of the chat. Those that a crash left open are compared with their files: it may have come a moment too early
/// to record that the file has changed.
fn settled(context: &FileContext) -> Result<Vec<ChangeEntry>, String> {
    let says = |error: io::Error| format!("the changes of the chat cannot be read: {error}");
    let mut changes = context.state.changes().map_err(says)?;
    for change in changes.iter_mut().filter(|change| change.stage == ChangeStage::Prepared) {
        let file = context.root.join(&change.record.path);
        if current(&file).as_ref() == Ok(&Some(change.record.new.clone())) {
            finish(context, change.call.into(), &change.record).map_err(says)?;
            change.stage = ChangeStage::Made;
        } else {
            let _ = discard_leftover(context, change.call.into(), &file); // Its directory may be gone.
        }
    }
    Ok(changes)
}

/// The hash of a file as it is now; none if it is not there.
fn current(file: &Path) -> Result<Option<String>, String> {
    match file.symlink_metadata() {
        Ok(_) => content(file).map(|bytes| Some(hash(&bytes))),
        Err(_) => Ok(None),
    }
}

/// How one file gets back its content.
struct Restoration {
    /// Changes of this file, the oldest first. There is at least one.
    changes: Vec<ChangeEntry>,
    /// Why it does not.
    refusal: Option<String>,
}

impl Restoration {
    fn plan(context: &FileContext, changes: Vec<ChangeEntry>) -> Self {
        let refusal = Self::check(context, &changes).err();
        Self { changes, refusal }
    }

    fn check(context: &FileContext, changes: &[ChangeEntry]) -> Result<(), String> {
        let (Some(first), Some(last)) = (changes.first(), changes.last()) else { return Ok(()) };
        let path = &first.record.path;
        let file = context.locate(path)?;
        let target = first.record.old.as_ref().map(|old| old.hash.clone());
        let now = current(&file)?;
        if now == target {
            return Ok(()); // An undo that was killed has got this far, or a person has done it.
        }
        match now {
            None => return Err(format!("{path} was removed since")),
            Some(now) if now != last.record.new => return Err(format!("{path} was changed since")),
            Some(_) => {}
        }
        for (earlier, later) in changes.iter().zip(&changes[1..]) {
            if later.record.old.as_ref().map(|old| &old.hash) != Some(&earlier.record.new) {
                return Err(format!("{path} was changed by something else between the calls"));
            }
        }
        match first.record.old.as_ref().map(|old| old.before) {
            Some(BeforeImage::TooLarge) => Err(format!("the old content of {path} was too large to be kept")),
            Some(BeforeImage::Kept) | None => Ok(()),
        }
    }

    fn path(&self) -> &str {
        &self.changes[0].record.path
    }

    fn carry_out(self, context: &FileContext) -> io::Result<Vec<ChangeEntry>> {
        let Self { mut changes, .. } = self;
        let first = &changes[0];
        let call = first.call.into();
        let file = context.root.join(&first.record.path);
        match &first.record.old {
            Some(old) => replace(context, call, &file, &context.state.before(call)?, old.mode)?,
            None => remove(&file)?,
        }
        failpoint!("file-restored");
        for change in &mut changes {
            context.state.advance(change.call.into(), ChangeStage::Made, ChangeStage::Undone)?;
            change.stage = ChangeStage::Undone;
        }
        Ok(changes)
    }
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    file.parent().map_or(Ok(()), sync)
}
