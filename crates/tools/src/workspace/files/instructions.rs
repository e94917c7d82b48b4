//! Files with instructions, as a model is sent them.

use std::io;
use std::path::Path;

use super::{FileContext, content};
use crate::wire::FileReply;

/// Bytes of a file that are sent.
const BYTES_MAX: usize = 32 * 1024;

/// The content of these files, each below its name. Those that are missing are left out; for others the reason is told.
pub fn instructions(context: &FileContext, files: &[String]) -> FileReply {
    let texts: Vec<String> = files.iter().filter_map(|file| one(context, file)).collect();
    FileReply::Text(texts.join("\n\n"))
}

fn one(context: &FileContext, file: &str) -> Option<String> {
    let left_out = |cause: String| Some(format!("[Instructions are left out: {cause}]"));
    let path = match context.locate(file) {
        Ok(path) if is_missing(&path) => return None,
        Ok(path) => path,
        Err(cause) => return left_out(cause),
    };
    let bytes = match content(&path) {
        Ok(bytes) => bytes,
        Err(cause) => return left_out(cause),
    };
    let Ok(text) = std::str::from_utf8(&bytes) else { return left_out(format!("{file} is not UTF-8 text")) };
    let shown = &text[..text.floor_char_boundary(BYTES_MAX)];
    let rest = match text.len() - shown.len() {
        0 => String::new(),
        more => format!("\n[{more} more bytes of {file} are left out: read it where you need them.]"),
    };
    Some(format!("Instructions of the project, from {file} in the workspace:\n\n{}{rest}", shown.trim_end()))
}

fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
