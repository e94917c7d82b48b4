//! A provider's words, made fit to keep.
//!
//! Error bodies hold whatever the other side liked to write: pages of text, colours for a terminal, the request's URL
//! with a key in its query, the key itself. The detail of an error is stored, shown and logged, so it is cleaned once,
//! here, before it can be: one line, bounded, no credentials. Only what looks like a secret is recognised; the key that
//! was really used is known to the shell alone, which removes it before it gets this far.

/// The longest detail that is kept.
pub const DETAIL_CHARS_MAX: usize = 500;

/// How keys of common providers begin. What follows is masked when the whole is long enough to be one.
const KEY_STARTS: [&str; 13] =
    ["sk-", "sk_", "pk-", "rk-", "AIza", "ya29.", "xai-", "gsk_", "ghp_", "AKIA", "ASIA", "eyJ", "ABSK"];
const KEY_LEN_MIN: usize = 16;
const MASK: &str = "[key]";

/// Some text as one clean line of at most [`DETAIL_CHARS_MAX`] characters.
pub fn one_line(text: &str) -> String {
    let visible: String = text.chars().filter(|&c| !steers_text(c)).collect();
    let mut line = String::new();
    let mut chars = 0;
    let mut bearer = false;
    for word in visible.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        let clean = if bearer { MASK.to_owned() } else { mask_keys(&strip_urls(word)) };
        bearer = word.trim_matches(|c: char| !c.is_alphanumeric()).eq_ignore_ascii_case("bearer");
        chars += clean.chars().count() + usize::from(!line.is_empty());
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&clean);
        if chars > DETAIL_CHARS_MAX {
            let kept: String = line.chars().take(DETAIL_CHARS_MAX - 1).collect();
            return kept + "…";
        }
    }
    line
}

/// Characters that change how their neighbours are displayed: directions and invisible joiners.
const fn steers_text(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A word in which every address keeps scheme, host and path only: the rest is where secrets travel.
fn strip_urls(word: &str) -> String {
    let mut stripped = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find("://") {
        let (before, tail) = rest.split_at(at + 3);
        let (url, after) = tail.split_at(tail.find(['"', '\'', '<', '>', '`']).unwrap_or(tail.len()));
        let (authority, path) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        let host = authority.rsplit('@').next().unwrap_or(authority);
        let path = path.split(['?', '#']).next().unwrap_or_default();
        stripped.extend([before, host, path]);
        rest = after;
    }
    stripped + rest
}

fn mask_keys(word: &str) -> String {
    let mut masked = String::with_capacity(word.len());
    let mut rest = word;
    while !rest.is_empty() {
        let len = rest.find(|c| !is_key_char(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(len);
        let is_key = token.len() >= KEY_LEN_MIN && KEY_STARTS.iter().any(|start| token.starts_with(start));
        masked.push_str(if is_key { MASK } else { token });
        let separator = after.chars().next().map_or(0, char::len_utf8);
        masked.push_str(&after[..separator]);
        rest = &after[separator..];
    }
    masked
}

const fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | '+')
}
