//! Escaping of text for Markdown.

/// Text with every control character made visible, except line breaks and tabs: an escape sequence or a change of
/// direction must not hide anything.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.replace("\r\n", "\n").chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => shown.push_str(&escaped(letter)),
            _ if letter.is_control() => shown.push_str(&escaped(letter)),
            _ => shown.push(letter),
        }
    }
    shown
}

fn escaped(letter: char) -> String {
    format!("\\u{{{:x}}}", letter as u32)
}

/// Text within a line, with every Markdown character escaped.
pub(super) fn inline(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in visible(text).chars() {
        match letter {
            '\n' | '\t' => line.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&' | '!' => line.extend(['\\', letter]),
            _ => line.push(letter),
        }
    }
    line
}

/// Text in a fence that is longer than any in it.
pub(super) fn fenced(text: &str, language: &str) -> String {
    let text = visible(text);
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// A link to a web page, with its URL visible; any other URL stays text.
pub(super) fn link(title: &str, url: &str) -> String {
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>' | b'\\' | b'`'));
    let title = if title.is_empty() { String::new() } else { format!("{}, ", inline(title)) };
    if is_web && is_plain { format!("{title}<{url}>") } else { format!("{title}{}", inline(url)) }
}

/// Markdown as it was written, except that HTML is escaped and an open fence is closed.
pub(super) fn prose(text: &str) -> String {
    let text = visible(text);
    let (mut shown, mut fence): (String, Option<(char, usize)>) = (String::new(), None);
    for line in text.lines() {
        match (fence, fence_of(line)) {
            (Some((sign, len)), Some((other, other_len, rest))) => {
                if sign == other && other_len >= len && rest.trim().is_empty() {
                    fence = None;
                }
                shown.push_str(line);
            }
            (Some(_), None) => shown.push_str(line),
            (None, Some((sign, len, _))) => {
                fence = Some((sign, len));
                shown.push_str(line);
            }
            (None, None) => shown.push_str(&without_html(line)),
        }
        shown.push('\n');
    }
    if let Some((sign, len)) = fence {
        shown.extend(std::iter::repeat_n(sign, len));
        shown.push('\n');
    }
    shown.truncate(shown.trim_end_matches('\n').len());
    shown
}

/// A line that opens or closes a fence: its character, its length, and the rest of the line.
fn fence_of(line: &str) -> Option<(char, usize, &str)> {
    let bare = line.trim_start_matches(' ');
    if line.len() - bare.len() > 3 {
        return None;
    }
    let sign = bare.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let rest = bare.trim_start_matches(sign);
    let len = bare.len() - rest.len();
    (len >= 3 && !(sign == '`' && rest.contains('`'))).then_some((sign, len, rest))
}

/// A line in which tags are escaped. A `<` after a backslash or a backtick is escaped too: a superfluous backslash in code
/// is better than text that a browser swallows.
fn without_html(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let begins = letters.peek().is_some_and(|next| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'));
        if letter == '<' && begins {
            shown.push_str("&lt;");
        } else {
            shown.push(letter);
        }
    }
    shown
}
