//! Instructions in directories below the top of the workspace, told when a call works on a file there.
//!
//! A project may have an `AGENTS.md` in any directory. To send all of them with every request would cost the window, and to
//! change what was sent would cost the provider's cache. So they are told once, behind the result of the first call that
//! reads or changes a file below them, and again when they have changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::state::hash;
use super::{FileContext, content};
use crate::wire::{CallName, FileRequest, NestedInstructions, ToldNested};

/// Bytes of nested instructions that one result has, all files together.
const BYTES_MAX: usize = 16 * 1024;
/// Files whose instructions a chat remembers having been told. When there are more, all are told again.
const TOLD_LEN_MAX: usize = 1_000;

/// The file that a request works on.
pub fn worked_on(request: &FileRequest) -> Option<String> {
    match request {
        FileRequest::Read { path, .. } | FileRequest::Change { path, .. } => Some(path.clone()),
        FileRequest::List { .. }
        | FileRequest::Search(_)
        | FileRequest::Instructions { .. }
        | FileRequest::Changes
        | FileRequest::Undo { .. } => None,
    }
}

/// What to tell the model behind the result of a call that worked on this file; empty if it knows all of it.
pub fn notes(context: &FileContext, nested: &NestedInstructions, path: &str) -> String {
    let files = found(context, &nested.names, path);
    if files.is_empty() {
        return String::new();
    }
    // Calls of one reply run beside each other.
    let Ok(_locked) = context.lock() else { return String::new() };
    let mut told = context.state.nested().unwrap_or_default();
    let mut notes = String::new();
    let mut left = BYTES_MAX;
    for file in files {
        let name = context.shown(&file);
        let Some(note) = note(context, &file, &name, &mut left, &mut told, nested.call) else { continue };
        notes.push_str("\n\n");
        notes.push_str(&note);
    }
    if !notes.is_empty() {
        let _ = context.state.tell_nested(&told); // They are told again then, which does no harm.
    }
    notes
}

/// Files with instructions in the directories above a file, the topmost first. Those at the top of the workspace are sent with
/// every request.
fn found(context: &FileContext, names: &[String], path: &str) -> Vec<PathBuf> {
    let Ok(real) = context.locate(path) else { return Vec::new() };
    let directory = if real.is_dir() { real.as_path() } else { real.parent().unwrap_or(&context.root) };
    let mut above: Vec<&Path> =
        directory.ancestors().take_while(|above| *above != context.root && above.starts_with(&context.root)).collect();
    above.reverse();
    let files = above.into_iter().flat_map(|above| names.iter().map(|name| above.join(name)));
    // What is read or written itself needs no note.
    files.filter(|file| file.symlink_metadata().is_ok() && *file != real).collect()
}

fn note(
    context: &FileContext,
    file: &Path,
    name: &str,
    left: &mut usize,
    told: &mut BTreeMap<String, ToldNested>,
    call: CallName,
) -> Option<String> {
    let text = context
        .locate(name)
        .and_then(|real| content(&real))
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8 text")));
    let (text, hash) = match &text {
        Ok(text) => (text.trim_end(), hash(text.as_bytes())),
        Err(cause) => (cause.as_str(), hash(cause.as_bytes())),
    };
    // A call that is run again after a crash has told nothing yet.
    if told.get(name).is_some_and(|earlier| earlier.hash == hash && earlier.call != call) {
        return None;
    }
    if told.len() >= TOLD_LEN_MAX {
        told.clear();
    }
    told.insert(name.to_owned(), ToldNested { hash, call });
    let shown = &text[..text.floor_char_boundary(*left)];
    *left -= shown.len();
    let rest = match text.len() - shown.len() {
        0 => String::new(),
        more => format!("\n[{more} more bytes are left out: read {name} where you need them.]"),
    };
    let directory = context.shown(file.parent()?);
    Some(format!(
        "[Instructions of the project for files below {directory}, from {name}. Where they differ from others, the nearest \
         count.]\n{shown}{rest}"
    ))
}
