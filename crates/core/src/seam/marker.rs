//! What only lines begin with, and so tells that a line was begun again.

/// What a line of a list, a heading, a quotation or a comment begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Number,
    Heading,
    Bullet,
}

impl Marker {
    pub(super) fn of(line: &str) -> Option<Self> {
        Self::parse(line).map(|(marker, _)| marker)
    }

    /// A marker with nothing behind it but, perhaps, an empty box to tick.
    pub(super) fn is_bare(line: &str) -> bool {
        Self::parse(line).is_some_and(|(_, rest)| matches!(rest.trim(), "" | "[" | "[ ]" | "[x]"))
    }

    /// No list is longer than four digits.
    pub(super) fn is_number(text: &str) -> bool {
        matches!(text.len(), 1..=4) && text.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The line's marker, and what stands behind it.
    fn parse(line: &str) -> Option<(Self, &str)> {
        const BULLETS: [&str; 10] = ["-", "*", "+", "•", "–", ">", "//", "///", "//!", "--"];
        let line = line.trim_start();
        let word = line.split(char::is_whitespace).next().unwrap_or_default();
        let is_letter = |text: &str| text.len() == 1 && text.bytes().all(|byte| byte.is_ascii_alphabetic());
        let marker = match word.strip_suffix(['.', ')']) {
            Some(number) if Self::is_number(number) || is_letter(number) => Self::Number,
            _ if matches!(word.len(), 1..=6) && word.bytes().all(|byte| byte == b'#') => Self::Heading,
            _ if BULLETS.contains(&word) => Self::Bullet,
            _ => return None,
        };
        Some((marker, &line[word.len()..]))
    }
}
