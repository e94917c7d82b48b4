//! Halves of surrogate pairs in JSON.
//!
//! JSON may write a character beyond U+FFFF as two escapes, and a server that cuts its text by UTF-16 units puts them into
//! two strings: `"\ud83d"` and `"\ude00"`. Neither is text, and a parser refuses both. So a half without its other half
//! becomes U+FFFD, and those at an edge of a string are told, because their other half may be in the next string.

use std::borrow::Cow;

/// Halves that stood at the edge of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edges {
    /// The second half that began the first string that began with one.
    pub leading: Option<u16>,
    /// The first half that ended the last string that ended with one.
    pub trailing: Option<u16>,
}

/// The length of an escape such as `\ud83d`.
const ESCAPE_LEN: usize = 6;

/// JSON text with U+FFFD in place of each half of a surrogate pair that stands alone.
#[must_use]
pub fn replaced(json: &str) -> (Cow<'_, str>, Edges) {
    let (mut out, mut edges) = (String::new(), Edges::default());
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = json[at..].find('\\') {
        let (escape, here) = (at, at + found);
        let Some(unit) = half(&json[here..]) else {
            let escaped = json[here + 1..].chars().next();
            at = here + 1 + escaped.map_or(0, char::len_utf8);
            continue;
        };
        let next = here + ESCAPE_LEN;
        if is_first(unit) && half(&json[next..]).is_some_and(|unit| !is_first(unit)) {
            at = next + ESCAPE_LEN;
            continue;
        }
        // A quote right behind an escape may be the escaped one.
        if !is_first(unit) && here > escape && json[..here].ends_with('"') {
            edges.leading = edges.leading.or(Some(unit));
        }
        if is_first(unit) && json[next..].starts_with('"') {
            edges.trailing = Some(unit);
        }
        out.push_str(&json[copied..here]);
        out.push(char::REPLACEMENT_CHARACTER);
        (copied, at) = (next, next);
    }
    if copied == 0 {
        return (Cow::Borrowed(json), edges);
    }
    out.push_str(&json[copied..]);
    (Cow::Owned(out), edges)
}

/// The character that two halves make.
#[must_use]
pub fn joined(first: u16, second: u16) -> Option<char> {
    char::decode_utf16([first, second]).next().and_then(Result::ok)
}

const fn is_first(unit: u16) -> bool {
    unit < 0xDC00
}

/// The half of a surrogate pair that some text begins with.
fn half(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u16::from_str_radix(digits, 16).ok().filter(|unit| (0xD800..0xE000).contains(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_that_stand_alone_are_replaced() {
        let none = Edges::default();
        let cases = [
            (r#"{"a":"\u00e9\n\ud83d\ude00"}"#, r#"{"a":"\u00e9\n\ud83d\ude00"}"#, none),
            (r#"{"a":"\\ud83d"}"#, r#"{"a":"\\ud83d"}"#, none),
            (r#"{"a":"\ud83d!"}"#, "{\"a\":\"\u{fffd}!\"}", none),
            (r#"{"a":"!\uDE00"}"#, "{\"a\":\"!\u{fffd}\"}", none),
            (r#"{"a":"!\uD83D"}"#, "{\"a\":\"!\u{fffd}\"}", Edges { trailing: Some(0xD83D), ..none }),
            (r#"{"a":"\ude00!"}"#, "{\"a\":\"\u{fffd}!\"}", Edges { leading: Some(0xDE00), ..none }),
            (r#"{"a":"\"\ude00"}"#, "{\"a\":\"\\\"\u{fffd}\"}", none),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, "{\"a\":\"\u{fffd}\\ud83d\\ude00\"}", none),
            ("{\"a\":\"\\", "{\"a\":\"\\", none),
            ("{\"a\":\"\\é\\ud8", "{\"a\":\"\\é\\ud8", none),
        ];
        for (json, expected, edges) in cases {
            assert_eq!(replaced(json), (Cow::Borrowed(expected), edges), "{json}");
        }
        assert_eq!(joined(0xD83D, 0xDE00), Some('\u{1f600}'));
    }
}
