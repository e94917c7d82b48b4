//! Words of others, safe to show on a terminal.

use crate::terminal::visible;

/// The text with every character made visible that would do something else than be read. Lines stay lines.
pub fn text(text: &str) -> String {
    visible(text).into_owned()
}

/// The same on one line, of at most `chars` characters.
pub fn line(words: &str, chars: usize) -> String {
    let mut line = text(&words.split_whitespace().collect::<Vec<_>>().join(" "));
    if let Some((end, _)) = line.char_indices().nth(chars) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_and_no_longer_than_told() {
        assert_eq!(line(" a\n\n b  c ", 9), "a b c");
        assert_eq!(line("wörter ohne ende", 6), "wörter…");
    }
}
