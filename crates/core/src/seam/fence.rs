//! Code fences, of which half an answer may leave one open.
//!
//! Inside a fence white space is content and a fence line closes; outside it opens. So the seam must know on which side
//! the shown text ends, and only reading all of it tells. The rules are CommonMark's, except that indentation and quote
//! markers before a fence are not counted: models put fences into lists of any depth.

use super::head::{Answerable, TextHead};

/// No language name is longer; a line of prose that begins with three ticks soon is.
const INFO_BYTES_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeFence {
    mark: char,
    len: usize,
    /// Holds a text that may itself have fences in it.
    pub(super) markdown: bool,
}

impl CodeFence {
    /// The fence a text ends in. Its last line is not counted unless it is finished.
    pub(super) fn open_at_end(text: &str) -> Option<Self> {
        let mut open: Option<Self> = None;
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            open = match (open, Self::parse(line)) {
                (None, Some((fence, _))) => Some(fence),
                (Some(open), Some((fence, ""))) if fence.matches(open) => None,
                (open, _) => open,
            };
        }
        open
    }

    /// The fence a line is, and the words behind the marks.
    pub(super) fn parse(line: &str) -> Option<(Self, &str)> {
        let line = line.trim_start_matches([' ', '\t', '>']);
        let mark = line.chars().next().filter(|c| is_mark(*c))?;
        let info = line.trim_start_matches(mark);
        let len = line.len() - info.len();
        let info = info.trim();
        (len >= 3 && is_info(info)).then(|| (Self { mark, len, markdown: holds_markdown(info) }, info))
    }

    /// Could close `open`, or be the same fence opened again.
    pub(super) fn matches(&self, open: Self) -> bool {
        self.mark == open.mark && self.len >= open.len
    }
}

pub(super) fn is_mark(c: char) -> bool {
    matches!(c, '`' | '~')
}

/// What may stand behind the marks: nothing, or first a language. Ticks in a string of code are no fence.
fn is_info(info: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "+-_#.,:{}=".contains(c);
    language(info).chars().all(is_name) && !info.contains('`')
}

fn language(info: &str) -> &str {
    info.split_whitespace().next().unwrap_or_default()
}

fn holds_markdown(info: &str) -> bool {
    ["markdown", "md", "mdx"].iter().any(|name| language(info).eq_ignore_ascii_case(name))
}

/// A fence line at the head of a continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FenceLine {
    pub(super) fence: CodeFence,
    /// Names no language, as closing fences do.
    pub(super) bare: bool,
    pub(super) start: usize,
    /// Behind the line break.
    pub(super) end: usize,
}

impl FenceLine {
    pub(super) fn at(head: &TextHead<'_>, start: usize) -> Answerable<Option<Self>> {
        let Some(mark) = head.char_at(start)?.filter(|c| is_mark(*c)) else { return Ok(None) };
        let marks_end = head.skip(start, |c| c == mark)?;
        if marks_end - start < 3 {
            return Ok(None);
        }
        let known = &head.text()[marks_end..];
        let info = &known[..known.floor_char_boundary(INFO_BYTES_MAX)];
        let line_end = match info.find('\n') {
            Some(len) => marks_end + len,
            None if known.len() > INFO_BYTES_MAX => return Ok(None),
            None => head.at_end().map(|()| head.text().len())?,
        };
        let end = line_end + usize::from(line_end < head.text().len());
        let parsed = CodeFence::parse(&head.text()[start..line_end]);
        Ok(parsed.map(|(fence, info)| Self { fence, bare: info.is_empty(), start, end }))
    }
}
