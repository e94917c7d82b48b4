//! Files that a message names with `@`.
//!
//! A word such as `@notes.md` that names a file attaches the file: images and PDFs as they are, anything else
//! as text below the message. A word that names no file is sent as a word.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everturn_server::wire::NewPart;

/// Limits of an attached text and of any other attached file.
const TEXT_BYTES_MAX: u64 = 512 * 1024;
const FILE_BYTES_MAX: u64 = 18 * 1024 * 1024;
/// Files that are sent as they are, by the end of their name, with their media type.
const MEDIA: [(&str, &str); 6] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("pdf", "application/pdf"),
];

/// The files that a message names; or why one of them cannot be sent.
pub fn named_in(text: &str, beside: &Path) -> Result<Vec<NewPart>, String> {
    let names = text.split_whitespace().filter_map(|word| word.strip_prefix('@'));
    let files = names.filter_map(|name| {
        // A full stop or a comma may end the sentence.
        let trimmed = name.trim_end_matches(['.', ',', ';', ':', '?', '!', ')']);
        [name, trimmed].into_iter().find(|name| !name.is_empty() && path(name, beside).is_file())
    });
    files.map(|name| part(name, &path(name, beside))).collect()
}

/// The message with all text files appended, and the other files.
pub fn merged(text: &str, files: &[NewPart]) -> (String, Vec<NewPart>) {
    let (mut whole, mut others) = (text.to_owned(), Vec::new());
    for file in files {
        match file {
            NewPart::Text { text } => whole = format!("{whole}\n\n{text}"),
            other => others.push(other.clone()),
        }
    }
    (whole, others)
}

/// The path that a name means; `~/` is the home directory.
fn path(name: &str, beside: &Path) -> PathBuf {
    match (name.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => beside.join(name),
    }
}

fn part(name: &str, path: &Path) -> Result<NewPart, String> {
    let wrong = |why: String| format!("@{name} cannot be sent: {why}");
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_lowercase();
    let media = MEDIA.iter().find(|(known, _)| *known == end).map(|(_, media)| (*media).to_owned());
    let bytes_max = if media.is_some() { FILE_BYTES_MAX } else { TEXT_BYTES_MAX };
    let len = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if len > bytes_max {
        return Err(wrong(format!("it has {len} bytes; at most {bytes_max} can be attached")));
    }
    let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    if let Some(media_type) = media {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(NewPart::File { name, media_type, data: STANDARD.encode(bytes) });
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is neither text nor an image or PDF".into()))?;
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat((longest + 1).max(3));
    let gap = if text.ends_with('\n') { "" } else { "\n" };
    Ok(NewPart::Text { text: format!("{name}:\n\n{fence}{end}\n{text}{gap}{fence}") })
}

/// The word after `@` completed to the longest prefix that all matching files share.
pub fn completed(word: &str, beside: &Path) -> Option<String> {
    let (dir, begun) = word.rsplit_once('/').map_or(("", word), |(dir, begun)| (dir, begun));
    let within = if word.starts_with('/') && dir.is_empty() { PathBuf::from("/") } else { path(dir, beside) };
    let mut names: Vec<String> = std::fs::read_dir(within)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok().filter(|name| name.starts_with(begun))?;
            let is_shown = !name.starts_with('.') || begun.starts_with('.');
            let end = if entry.path().is_dir() { "/" } else { "" };
            is_shown.then(|| format!("{name}{end}"))
        })
        .collect();
    names.sort_unstable();
    let (first, last) = (names.first()?, names.last()?);
    // Of sorted names, the first and the last have the shortest common prefix.
    let alike = first.char_indices().zip(last.chars()).find(|((_, one), other)| one != other);
    let alike = &first[..alike.map_or(first.len().min(last.len()), |((at, _), _)| at)];
    Some(if word.contains('/') { format!("{dir}/{alike}") } else { alike.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("notes.md"), "# One\n```\ntwo\n```").unwrap();
        std::fs::write(dir.path().join("note-2.txt"), "three").unwrap();
        std::fs::write(dir.path().join("shot.PNG"), b"png").unwrap();
        std::fs::write(dir.path().join("core.bin"), [0xff, 0xfe]).unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        dir
    }

    /// A named file is attached, text in the message itself; a word that names no file stays a word.
    #[test]
    fn files_that_are_named_are_sent_along() {
        let dir = scratch();
        let named = |text: &str| named_in(text, dir.path());
        assert_eq!(named("ask @alice about me@notes.md and @src"), Ok(vec![]));
        let text = "notes.md:\n\n````md\n# One\n```\ntwo\n```\n````";
        assert_eq!(named("read @notes.md."), Ok(vec![NewPart::Text { text: text.into() }]));
        let image = NewPart::File { name: "shot.PNG".into(), media_type: "image/png".into(), data: "cG5n".into() };
        assert_eq!(named("@shot.PNG, what is it?"), Ok(vec![image]));
        assert!(named("@core.bin").unwrap_err().contains("neither text nor"));
        std::fs::write(dir.path().join("big.txt"), vec![b'x'; TEXT_BYTES_MAX as usize + 1]).unwrap();
        assert!(named("@big.txt").unwrap_err().contains("at most"));
    }

    #[test]
    fn names_are_completed_as_far_as_they_are_alike() {
        let dir = scratch();
        for (word, whole) in
            [("no", Some("note")), ("notes", Some("notes.md")), ("s", Some("s")), ("sr", Some("src/")), ("x", None)]
        {
            assert_eq!(completed(word, dir.path()).as_deref(), whole, "{word}");
        }
        let inside = format!("{}/sho", dir.path().display());
        assert_eq!(completed(&inside, Path::new("/")).unwrap(), format!("{inside}t.PNG"));
    }
}
