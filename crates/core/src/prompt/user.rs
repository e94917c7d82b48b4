//! What a person said, and the files that came along.
//!
//! Files are the hard part: models differ in the types they take, and a store may have dropped the bytes. A file is
//! never silently missing. It is sent, or sent as words, or its absence is said.

use std::sync::Arc;

use super::clean::{own_meta, without_nul, words};
use super::entry::{PromptFile, PromptMedia, PromptPart};
use super::target::{Target, accepts};
use super::words as say;
use crate::blob::Blob;
use crate::message::{File, Media, Meta, Part, Text};

/// How much of a text file is put into the prompt as words.
pub const INLINE_BYTES_MAX: usize = 128 * 1024;

/// What of a person's message can be sent: words and files. Nothing else is a person's to say.
pub(super) fn user_parts(parts: &[Part], target: &Target) -> Vec<PromptPart> {
    let sendable = |part: &Part| match part {
        Part::Text(text) => words(&text.text, own_meta(&text.meta, target)),
        Part::File(file) => file_part(file, target),
        Part::Reasoning(_) | Part::Call(_) | Part::Provided(_) | Part::Source(_) | Part::Other(_) => None,
    };
    parts.iter().filter_map(sendable).collect()
}

/// These parts with a line of text in place of each file, for a provider that refuses the files.
#[must_use]
pub fn told_of(parts: &[Part]) -> Vec<Part> {
    let told = |part: &Part| match part {
        Part::File(File { name, media_type, bytes: Some(bytes), .. }) if !is_text(&essence(media_type)) => {
            let text = say::unreadable(name, &essence(media_type), bytes.len());
            Part::Text(Text { text, ..Text::default() })
        }
        part => part.clone(),
    };
    parts.iter().map(told).collect()
}

/// Media of a tool's, shown as if the person had.
pub(super) fn shown(media: &Media, target: &Target) -> Option<PromptPart> {
    let file = File {
        name: String::new(),
        media_type: media.media_type.clone(),
        bytes: Some(media.bytes.clone()),
        meta: Meta::new(),
    };
    file_part(&file, target)
}

/// A media type in small letters, without parameters, by its usual name.
pub(super) fn essence(media_type: &str) -> String {
    let bare = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if bare == "image/jpg" { "image/jpeg".into() } else { bare }
}

/// What bytes are that are said to be a picture or a document. Providers look, and refuse what is not as it is called.
pub(super) fn true_type(said: String, bytes: &[u8]) -> String {
    let is_shown = said.starts_with("image/") || said == "application/pdf";
    let seen = match bytes {
        _ if !is_shown => None,
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("application/pdf"),
        _ => None,
    };
    seen.map_or(said, Into::into)
}

fn file_part(file: &File, target: &Target) -> Option<PromptPart> {
    let media_type = essence(&file.media_type);
    let Some(bytes) = file.bytes.as_ref().and_then(Blob::here) else {
        return words(&say::gone(&file.name, &media_type), Meta::new());
    };
    let media_type = true_type(media_type, bytes);
    if bytes.is_empty() {
        return None;
    }
    if accepts(&target.user_media, &media_type) {
        let media = PromptMedia { media_type, bytes: Arc::clone(bytes) };
        let name = without_nul(&file.name);
        return Some(PromptPart::File(PromptFile { name, media, meta: own_meta(&file.meta, target) }));
    }
    if is_text(&media_type) {
        return inlined(&file.name, &media_type, bytes);
    }
    words(&say::unreadable(&file.name, &media_type, bytes.len()), Meta::new())
}

fn inlined(name: &str, media_type: &str, bytes: &[u8]) -> Option<PromptPart> {
    let text = String::from_utf8_lossy(bytes);
    if text.trim().is_empty() {
        return None;
    }
    let head = &text[..text.floor_char_boundary(INLINE_BYTES_MAX)];
    words(&say::inlined(name, media_type, head, text.len() - head.len()), Meta::new())
}

fn is_text(media_type: &str) -> bool {
    const TEXTS: [&str; 8] = ["json", "xml", "yaml", "x-yaml", "toml", "javascript", "x-sh", "sql"];
    match media_type.split_once('/') {
        Some(("text", _)) => true,
        Some(("application", kind)) => TEXTS.contains(&kind) || kind.ends_with("+json") || kind.ends_with("+xml"),
        _ => false,
    }
}
