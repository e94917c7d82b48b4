//! `write` and `edit`: a file is the old one or the new one, never half of it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use similar::TextDiff;

use super::{content, hash, resolve, shown};
use crate::wire::{Edit, FileReply};

/// Bytes a written file may have.
const WRITTEN_BYTES_MAX: usize = 1 << 20;
/// Bytes of a diff that are shown.
const DIFF_BYTES_MAX: usize = 16 * 1024;
/// Real lines that are shown for a text which is not there.
const NEAREST_LINES: usize = 12;
/// Lines of a file that are compared in order to find them.
const COMPARED_LINES_MAX: usize = 20_000;

/// Writes a whole file. One that exists must have been read, and be as it was then.
pub fn write(root: &Path, path: &str, text: &str, read: Option<&str>) -> Result<FileReply, String> {
    if text.len() > WRITTEN_BYTES_MAX {
        return Err(format!("{} bytes, at most {WRITTEN_BYTES_MAX} can be written at once", text.len()));
    }
    let file = resolve(root, path)?;
    let old = if file.exists() { unchanged(&file, path, read)? } else { Vec::new() };
    replace(&file, text.as_bytes())?;
    Ok(written(root, &file, &String::from_utf8_lossy(&old), text))
}

/// Replaces texts that occur exactly once. Either all replacements are made, or none.
pub fn edit(root: &Path, path: &str, edits: &[Edit], read: Option<&str>) -> Result<FileReply, String> {
    let file = resolve(root, path)?;
    let bytes = unchanged(&file, path, read)?;
    let old = String::from_utf8(bytes).map_err(|_| format!("{path} is not UTF-8: use shell"))?;
    if edits.is_empty() {
        return Err("there are no edits: give at least one".into());
    }
    let mut text = old.clone();
    for (edit, number) in edits.iter().zip(1..) {
        let count = edits.len();
        text = apply(&text, edit).map_err(|cause| format!("edit {number} of {count}, nothing was changed: {cause}"))?;
    }
    replace(&file, text.as_bytes())?;
    Ok(written(root, &file, &old, &text))
}

/// The content of a file, if it is what the chat has read.
fn unchanged(file: &Path, path: &str, read: Option<&str>) -> Result<Vec<u8>, String> {
    let bytes = content(file)?;
    match read {
        None => Err(format!("{path} was not read in this chat: read it first")),
        Some(read) if read != hash(&bytes) => Err(format!("{path} has changed since it was read: read it again")),
        Some(_) => Ok(bytes),
    }
}

/// One replacement. Line ends are those of the file, whatever the edit has.
fn apply(text: &str, edit: &Edit) -> Result<String, String> {
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

/// Puts the content in the place of the file in one step, with its permissions. A hard link to elsewhere is replaced.
fn replace(file: &Path, bytes: &[u8]) -> Result<(), String> {
    let says = |error: std::io::Error| format!("{}: {error}", file.display());
    let directory = file.parent().ok_or("the file has no directory")?;
    fs::create_dir_all(directory).map_err(says)?;
    let mut temporary = tempfile::NamedTempFile::new_in(directory).map_err(says)?;
    temporary.write_all(bytes).map_err(says)?;
    let fresh = || std::os::unix::fs::PermissionsExt::from_mode(0o644);
    let permissions = fs::metadata(file).map_or_else(|_| fresh(), |found| found.permissions());
    temporary.as_file().set_permissions(permissions).map_err(says)?;
    temporary.as_file().sync_all().map_err(says)?;
    temporary.persist(file).map_err(|error| says(error.error))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(says)
}

/// What changed, as a small diff.
fn written(root: &Path, file: &Path, old: &str, new: &str) -> FileReply {
    let name = shown(root, file);
    let diff = TextDiff::from_lines(old, new).unified_diff().context_radius(3).header(&name, &name).to_string();
    let end = diff.floor_char_boundary(DIFF_BYTES_MAX);
    let cut = if end < diff.len() { "\n[diff cut]" } else { "" };
    let text = format!("{name}: written\n{}{cut}", &diff[..end]);
    FileReply::Text { text, hash: Some(hash(new.as_bytes())) }
}
