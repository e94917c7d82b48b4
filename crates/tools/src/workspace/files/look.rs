//! `read` and `list`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use globset::{Glob, GlobMatcher};
use ignore::WalkBuilder;

use super::{FileContext, SHOWN_BYTES_MAX, content, shown};
use crate::wire::FileReply;
use crate::workspace::state::hash;

/// Characters of a line that are shown.
const LINE_CHARS_MAX: usize = 2_000;
/// Lines of a file that are shown at once.
const LINES_MAX: usize = 2_000;
/// Entries of a directory that are shown.
const ENTRIES_MAX: usize = 1_000;
/// Levels of directories that are shown at once.
const DEPTH_MAX: usize = 5;
/// Bytes of an image that a model is shown.
const IMAGE_BYTES_MAX: usize = 5 << 20;
/// How images begin.
const IMAGES: [(&[u8], &str); 4] =
    [(b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp")];
/// Similar names that are suggested for one that is not there.
const SUGGESTED_MAX: usize = 3;

/// Lines of a file, with their numbers.
pub fn read(context: &FileContext, path: &str, from: usize, lines: usize) -> Result<FileReply, String> {
    let file = context.locate(path)?;
    if file.is_dir() {
        return list(context, path, 1, None);
    }
    if !file.exists() {
        return Err(format!("{path} is not there{}", suggestions(&context.root, &file)));
    }
    let bytes = content(&file)?;
    let name = context.shown(&file);
    let hash = hash(&bytes);
    // A state that is not remembered has to be read again before the file is changed.
    let _ = context.state.remember(&name, &hash);
    if let Some((_, media_type)) = IMAGES.iter().find(|(start, _)| bytes.starts_with(start))
        && bytes.len() <= IMAGE_BYTES_MAX
    {
        let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
        return Ok(FileReply::Image { path: name, media_type: (*media_type).into(), data });
    }
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Err(format!("{path} is not text: {} bytes, not UTF-8", bytes.len()));
    };
    if text.contains('\0') {
        return Err(format!("{path} is not text: {} bytes with NUL characters", bytes.len()));
    }
    let total = text.lines().count();
    let first = from.max(1);
    let wanted = lines.clamp(1, LINES_MAX);
    let mut body = String::new();
    let mut last = first - 1;
    for (line, number) in text.lines().zip(1..).skip(first - 1).take(wanted) {
        if body.len() >= SHOWN_BYTES_MAX {
            break;
        }
        let cut: String = line.chars().take(LINE_CHARS_MAX).collect();
        let note = if cut.len() < line.len() { " [line cut]" } else { "" };
        let _ = writeln!(body, "{number:>6}\t{cut}{note}");
        last = number;
    }
    let range = if last < first { "no lines".into() } else { format!("lines {first}–{last}") };
    Ok(FileReply::Text(format!("{name}: {range} of {total}, sha {}\n{body}", &hash[..8])))
}

/// The entries of a directory, without those that `.gitignore` names.
pub fn list(context: &FileContext, path: &str, depth: usize, glob: Option<&str>) -> Result<FileReply, String> {
    let directory = context.locate(path)?;
    if !directory.is_dir() {
        return Err(format!("{path} is not a directory{}", suggestions(&context.root, &directory)));
    }
    let glob = glob.map(matcher).transpose()?;
    let mut entries = Vec::new();
    let mut left_out = 0_usize;
    for entry in walk(&directory).max_depth(Some(depth.clamp(1, DEPTH_MAX))).build().flatten() {
        let relative = shown(&directory, entry.path());
        if relative == "." || glob.as_ref().is_some_and(|glob| !glob.is_match(&relative)) {
            continue;
        }
        if entries.len() >= ENTRIES_MAX {
            left_out += 1;
            continue;
        }
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        entries.push(if is_directory { format!("{relative}/") } else { relative });
    }
    entries.sort();
    let mut text = format!("{}: {} entries\n{}\n", context.shown(&directory), entries.len(), entries.join("\n"));
    if left_out > 0 {
        let _ = writeln!(text, "[{left_out} more: list a directory below, or give a glob]");
    }
    Ok(FileReply::Text(text))
}

/// Walks a directory as git sees it: hidden files are shown, ignored ones and `.git` are not.
pub fn walk(directory: &Path) -> WalkBuilder {
    let mut walk = WalkBuilder::new(directory);
    walk.hidden(false).require_git(false).parents(false).git_global(false).follow_links(false);
    walk.filter_entry(|entry| entry.file_name() != ".git");
    walk
}

/// A glob over paths; one without a slash is for names anywhere.
pub fn matcher(glob: &str) -> Result<GlobMatcher, String> {
    let anywhere = if glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") };
    Ok(Glob::new(&anywhere).map_err(|error| format!("the glob cannot be used: {error}"))?.compile_matcher())
}

/// Paths with a name like the one that is not there.
fn suggestions(root: &Path, missing: &Path) -> String {
    let Some(name) = missing.file_name().map(|name| name.to_string_lossy().to_lowercase()) else {
        return String::new();
    };
    let stem = name.split('.').next().unwrap_or_default();
    let is_similar = |path: &PathBuf| {
        let found = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        found == name || !stem.is_empty() && found.starts_with(stem)
    };
    let paths = walk(root).build().flatten().map(ignore::DirEntry::into_path);
    let similar: Vec<_> = paths.filter(is_similar).take(SUGGESTED_MAX).map(|path| shown(root, &path)).collect();
    if similar.is_empty() { String::new() } else { format!("; similar: {}", similar.join(", ")) }
}
