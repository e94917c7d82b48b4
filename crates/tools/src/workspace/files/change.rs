//! `write` and `edit`: a file is the old one or the new one, never half of it, and a call changes it once.
//!
//! A process may die at any point, and the call is then repeated. So the change is recorded under the call before the file
//! changes. A repeat that finds the record looks at the file: it has the new content, or still the old one, or another
//! one, which is left alone.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use everturn::core::ids::CallUid;
use similar::TextDiff;

use super::{FileContext, content};
use crate::failpoint::failpoint;
use crate::wire::{BeforeImage, Change, ChangeEntry, ChangeRecord, ChangeStage, Edit, FileReply, OldFile};
use crate::workspace::state::{hash, sync};

/// Bytes a written file may have.
const WRITTEN_BYTES_MAX: usize = 1 << 20;
/// Bytes of an old content that are kept.
const BEFORE_BYTES_MAX: usize = 10 << 20;
/// Bytes of a diff that are kept for people.
const DIFF_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a diff that the model is shown.
const SHOWN_DIFF_BYTES_MAX: usize = 8 * 1024;
/// How long a diff is looked for; after that it is correct, but not the shortest.
const DIFF_TIME_MAX: Duration = Duration::from_secs(1);
/// Real lines that are shown for a text which is not there.
const NEAREST_LINES: usize = 12;
/// Lines of a file that are compared in order to find them.
const COMPARED_LINES_MAX: usize = 20_000;
/// The mode of a new file.
const NEW_MODE: u32 = 0o644;

/// Changes a file for a call, unless it did already.
pub fn change(context: &FileContext, call: CallUid, path: &str, change: &Change) -> Result<FileReply, String> {
    let file = context.locate(path)?;
    let name = file.strip_prefix(&context.root).ok().and_then(Path::to_str).ok_or("the path is not UTF-8")?;
    let _lock = context.lock()?;
    let old = if file.symlink_metadata().is_ok() { Some(content(&file)?) } else { None };
    failpoint!("file-read");
    let says = |error: io::Error| format!("{path}: {error}");
    let recorded = context.state.recorded(call).map_err(says)?;
    let record = match recorded {
        Some(entry) => match repeated(path, entry, old.as_deref())? {
            Repeat::Done(record) => return Ok(written(&record)),
            Repeat::Made(record) => {
                finish(context, call, &record).map_err(says)?;
                return Ok(written(&record));
            }
            Repeat::Open(record) => record,
        },
        None => {
            unchanged(context, path, name, old.as_deref())?;
            let new = changed(path, old.as_deref(), change)?;
            if old.as_deref() == Some(new.as_slice()) {
                return Ok(FileReply::Text(format!("{name}: has this content already, nothing was changed")));
            }
            let record = describe(&file, name, old.as_deref(), &new).map_err(says)?;
            failpoint!("file-changed-in-memory");
            let before = old.as_deref().filter(|old| old.len() <= BEFORE_BYTES_MAX);
            context.state.prepare(call, &record, before).map_err(says)?;
            record
        }
    };
    failpoint!("file-prepared");
    let new = changed(path, old.as_deref(), change)?;
    if hash(&new) != record.new {
        return Err(format!("{path}: this call was recorded with another change, nothing was changed"));
    }
    let mode = record.old.as_ref().map_or(NEW_MODE, |old| old.mode);
    replace(context, call, &file, &new, mode).map_err(says)?;
    failpoint!("file-replaced");
    finish(context, call, &record).map_err(says)?;
    failpoint!("file-made");
    Ok(written(&record))
}

/// What a call that was begun before has left.
enum Repeat {
    /// The change, which was made and recorded as such.
    Done(ChangeRecord),
    /// The change, which was made.
    Made(ChangeRecord),
    /// The change, which is still to be made.
    Open(ChangeRecord),
}

fn repeated(path: &str, entry: ChangeEntry, now: Option<&[u8]>) -> Result<Repeat, String> {
    let ChangeEntry { stage, record, .. } = entry;
    let now = now.map(hash);
    let old = record.old.as_ref().map(|old| &old.hash);
    match stage {
        ChangeStage::Made => Ok(Repeat::Done(record)),
        ChangeStage::Undone => Err(format!("{path}: the change was made, and a person has undone it since")),
        ChangeStage::Prepared if now.as_ref() == Some(&record.new) => Ok(Repeat::Made(record)),
        ChangeStage::Prepared if now.as_ref() == old => Ok(Repeat::Open(record)),
        ChangeStage::Prepared => Err(format!(
            "{path} changed meanwhile: the call was interrupted by a crash, and the file is neither as it was before nor \
             as the call would leave it. Read it again"
        )),
    }
}

/// Refuses to change a file that the chat has not read as it is now.
fn unchanged(context: &FileContext, path: &str, name: &str, now: Option<&[u8]>) -> Result<(), String> {
    let Some(now) = now else { return Ok(()) };
    match context.state.seen(name) {
        None => Err(format!("{path} was not read in this chat: read it first")),
        Some(seen) if seen != hash(now) => Err(format!("{path} has changed since it was read: read it again")),
        Some(_) => Ok(()),
    }
}

/// The content that the change gives a file.
fn changed(path: &str, old: Option<&[u8]>, change: &Change) -> Result<Vec<u8>, String> {
    match change {
        Change::Write { content } if content.len() > WRITTEN_BYTES_MAX => {
            Err(format!("{} bytes, at most {WRITTEN_BYTES_MAX} can be written at once", content.len()))
        }
        Change::Write { content } => Ok(content.clone().into_bytes()),
        Change::Edit { edits } if edits.is_empty() => Err("there are no edits: give at least one".into()),
        Change::Edit { edits } => {
            let old = old.ok_or_else(|| format!("{path} is not there: use write to make it"))?;
            let mut text = std::str::from_utf8(old).map_err(|_| format!("{path} is not UTF-8: use shell"))?.to_owned();
            for (edit, number) in edits.iter().zip(1..) {
                let says = |cause| format!("edit {number} of {}, nothing was changed: {cause}", edits.len());
                text = edited(&text, edit).map_err(says)?;
            }
            Ok(text.into_bytes())
        }
    }
}

/// One replacement. Line ends are those of the file, whatever the edit has.
fn edited(text: &str, edit: &Edit) -> Result<String, String> {
    let ends = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let as_in_file = |part: &str| part.replace("\r\n", "\n").replace('\n', ends);
    let old = as_in_file(&without_numbers(&edit.old));
    let new = as_in_file(&edit.new);
    if old.is_empty() {
        return Err("`old` is empty: give the text to replace, or use write".into());
    }
    if old == new {
        return Err("`old` and `new` are the same".into());
    }
    let places: Vec<usize> = text.match_indices(&old).map(|(at, _)| line_of(text, at)).collect();
    match places.len() {
        0 => Err(format!("`old` is not in the file. The nearest lines:\n{}", nearest(text, &old))),
        1 => Ok(text.replacen(&old, &new, 1)),
        _ if edit.all => Ok(text.replace(&old, &new)),
        count => Err(format!("`old` is there {count} times, in lines {places:?}: give more of it, or set `all`")),
    }
}

/// The text without the numbers that `read` puts before each line, if every line has one.
fn without_numbers(text: &str) -> String {
    let strip = |line: &str| {
        let (number, rest) = line.split_once('\t')?;
        let digits = number.trim();
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| rest.to_owned())
    };
    let lines: Option<Vec<String>> = text.lines().map(strip).collect();
    match lines {
        Some(lines) if !lines.is_empty() => lines.join("\n") + if text.ends_with('\n') { "\n" } else { "" },
        Some(_) | None => text.to_owned(),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The real lines around the one that is most like the longest line of `old`.
fn nearest(text: &str, old: &str) -> String {
    let wanted = old.lines().map(str::trim).max_by_key(|line| line.len()).unwrap_or_default();
    let mut best = (0.0, 0);
    for (line, at) in text.lines().zip(0..).take(COMPARED_LINES_MAX) {
        let likeness = TextDiff::from_chars(wanted, line.trim()).ratio();
        if likeness > best.0 {
            best = (likeness, at);
        }
    }
    let first = usize::saturating_sub(best.1, NEAREST_LINES / 2);
    let lines = text.lines().zip(1..).skip(first).take(NEAREST_LINES);
    lines.map(|(line, number)| format!("{number:>6}\t{line}")).collect::<Vec<_>>().join("\n")
}

/// The change as it is recorded.
fn describe(file: &Path, name: &str, old: Option<&[u8]>, new: &[u8]) -> io::Result<ChangeRecord> {
    let was = match old {
        Some(old) => Some(OldFile {
            hash: hash(old),
            mode: fs::metadata(file)?.permissions().mode() & 0o7777,
            before: if old.len() <= BEFORE_BYTES_MAX { BeforeImage::Kept } else { BeforeImage::TooLarge },
        }),
        None => None,
    };
    let before = String::from_utf8_lossy(old.unwrap_or_default());
    let after = String::from_utf8_lossy(new);
    let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(&before, &after);
    let from = if old.is_some() { format!("a/{name}") } else { "/dev/null".to_owned() };
    let diff = diff.unified_diff().context_radius(3).header(&from, &format!("b/{name}")).to_string();
    Ok(ChangeRecord { path: name.into(), old: was, new: hash(new), diff: cut(&diff, DIFF_BYTES_MAX) })
}

/// A diff up to a bound, at the end of a line.
fn cut(diff: &str, bytes_max: usize) -> String {
    if diff.len() <= bytes_max {
        return diff.to_owned();
    }
    let shown = &diff[..diff.floor_char_boundary(bytes_max)];
    let shown = shown.rsplit_once('\n').map_or(shown, |(lines, _)| lines);
    format!("{shown}\n[{} bytes of the diff are left out]\n", diff.len() - shown.len())
}

/// Puts the content in the place of the file in one step. A hard link to elsewhere is replaced, not written through.
pub fn replace(context: &FileContext, call: CallUid, file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let directory = file.parent().ok_or_else(|| io::Error::other("the file has no directory"))?;
    make_directories(&context.root, directory)?;
    let path = temporary(context, call, directory);
    discard(&path)?;
    let mut temporary = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
    temporary.write_all(bytes)?;
    temporary.set_permissions(fs::Permissions::from_mode(mode))?;
    temporary.sync_all()?;
    failpoint!("file-beside");
    fs::rename(&path, file)?;
    sync(directory)
}

/// The file beside the changed one. It has a name of its own per call, so that a repeat finds what a crash has left.
fn temporary(context: &FileContext, call: CallUid, directory: &Path) -> PathBuf {
    let chat = context.state.path().file_name().unwrap_or_default().to_string_lossy();
    directory.join(format!(".everturn-{chat}-{call}"))
}

/// Removes what a crash has left of a call beside the file.
pub fn discard_leftover(context: &FileContext, call: CallUid, file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), |directory| discard(&temporary(context, call, directory)))
}

fn discard(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes the directory and those above it, up to the workspace, so that they survive a power cut.
fn make_directories(root: &Path, directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    let mut above = directory.ancestors().skip(1).take_while(|above| above.starts_with(root));
    above.try_for_each(sync)
}

/// Records that the file has changed, which counts as having read it.
pub fn finish(context: &FileContext, call: CallUid, record: &ChangeRecord) -> io::Result<()> {
    context.state.remember(&record.path, &record.new)?;
    context.state.advance(call, ChangeStage::Prepared, ChangeStage::Made)
}

/// The answer for the model, which is the same after every repeat.
fn written(record: &ChangeRecord) -> FileReply {
    let ChangeRecord { path, old, diff, .. } = record;
    let text = match old {
        None => format!("{path}: created"),
        Some(OldFile { before: BeforeImage::Kept, .. }) => {
            format!("{path}: changed\n{}", cut(diff, SHOWN_DIFF_BYTES_MAX))
        }
        Some(OldFile { before: BeforeImage::TooLarge, .. }) => format!(
            "{path}: changed. The old content is too large to be kept, so this cannot be undone.\n{}",
            cut(diff, SHOWN_DIFF_BYTES_MAX)
        ),
    };
    FileReply::Text(text)
}
