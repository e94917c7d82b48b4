//! Words of others, safe to show on a terminal.
//!
//! What models, tools and files say may hold characters that move the cursor, paint over what was shown, or turn the order
//! of letters around. Here they are seen and do nothing.

/// The text with every character made visible that would do something else than be read. Lines stay lines.
pub fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            '\0'..='\x1f' => shown.extend(char::from_u32(0x2400 + u32::from(c))),
            '\x7f' => shown.push('\u{2421}'),
            c if is_hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    shown
}

/// Whether it is a control character of the second set, turns the direction of writing, or cannot be seen. The joiners
/// of scripts and emoji stay: without them words break.
const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
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
    fn nothing_moves_the_cursor() {
        let vile = "a\x1b[2Jb\rc\u{9b}d\u{202e}e\x7f\0\n\tf";
        let shown = text(vile);
        assert_eq!(shown, "a␛[2Jb␍c\\u{9b}d\\u{202e}e␡␀\n\tf");
        assert!(!shown.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    }

    #[test]
    fn a_line_is_one_and_no_longer_than_told() {
        assert_eq!(line(" a\n\n b  c ", 9), "a b c");
        assert_eq!(line("wörter ohne ende", 6), "wörter…");
    }
}
