//! The title of a chat that has not been renamed.

use crate::message::Part;

/// The longest automatic title, in characters.
const TITLE_CHARS_MAX: usize = 60;

/// The beginning of what a person said, on one line.
pub(crate) fn of(parts: &[Part]) -> String {
    let words = parts.iter().flat_map(|part| match part {
        Part::Text(text) => text.text.split_whitespace(),
        _ => "".split_whitespace(),
    });
    let mut title = String::new();
    for word in words.take(TITLE_CHARS_MAX) {
        title.push_str(if title.is_empty() { "" } else { " " });
        title.push_str(word);
        if let Some((end, _)) = title.char_indices().nth(TITLE_CHARS_MAX) {
            title.truncate(end);
            title.push('…');
            break;
        }
    }
    title
}
