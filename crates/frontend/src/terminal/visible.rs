//! Makes control characters visible.

use std::borrow::Cow;

/// The text with every control or invisible character made visible. Line breaks stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\t' => shown.push_str("    "),
            // The pictures of the ASCII control characters stand in their order.
            '\0'..='\u{1f}' if is_hidden(c) => shown.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => shown.push('\u{2421}'),
            c if is_hidden(c) => shown.push_str(&format!("<U+{:04X}>", u32::from(c))),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// The visible text on one line, of at most `chars` characters.
pub fn line(words: &str, chars: usize) -> String {
    let mut line = visible(&words.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned();
    if let Some((end, _)) = line.char_indices().nth(chars) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Equivalent JSON with such characters escaped. They can only occur in its strings.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_hidden(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}"))),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Whether a terminal acts on the character, or a reader cannot see it.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Soft hyphen, and marks, embeddings, overrides and isolates of the reading direction.
        '\u{ad}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        // Line ends of another kind, spaces and joiners without width, a byte order mark. The joiners of
        // scripts and emoji stay: without them words break.
        '\u{2028}' | '\u{2029}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}' => true,
        // Interlinear notes, and letters that only machines read.
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_made_visible() {
        for (text, shown) in [
            ("plain\nlines", "plain\nlines"),
            ("\u{1b}[2Jgone", "␛[2Jgone"),
            ("a\rb\u{8}c\u{7}", "a␍b␈c␇"),
            ("\u{9b}31m", "<U+009B>31m"),
            ("\u{202e}txt.exe", "<U+202E>txt.exe"),
            ("a\u{200b}b\u{feff}", "a<U+200B>b<U+FEFF>"),
            ("\u{e0041}", "<U+E0041>"),
            ("a\tb", "a    b"),
            ("👩\u{200d}💻 é", "👩\u{200d}💻 é"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn a_line_is_no_longer_than_its_limit() {
        assert_eq!(line(" a\n\n b  c ", 9), "a b c");
        assert_eq!(line("wörter ohne ende", 6), "wörter…");
    }

    #[test]
    fn visible_text_has_no_control_characters() {
        let all: String = (0..0x3000).chain(0xe0000..0xe0100).filter_map(char::from_u32).collect();
        assert!(!visible(&all).chars().any(|c| c != '\n' && c.is_control()));
    }
}
