//! As much of a continuation as was read.
//!
//! A rule that looks past the end of what has arrived would answer one thing now and another a moment later. So every
//! rule reads through a [`TextHead`], which refuses to guess. **Invariant:** what a look answers, it answers for every text
//! that begins with this one; that alone makes joining independent of where the stream was cut into deltas.

/// More must arrive before this can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undecided;

pub(super) type Answerable<T> = Result<T, Undecided>;

#[derive(Clone, Copy, Debug)]
pub(super) struct TextHead<'a> {
    text: &'a str,
    whole: bool,
}

impl<'a> TextHead<'a> {
    /// More may follow.
    pub(super) fn so_far(text: &'a str) -> Self {
        Self { text, whole: false }
    }

    /// Nothing follows, or nothing that is still looked at.
    pub(super) fn whole(text: &'a str) -> Self {
        Self { text, whole: true }
    }

    /// What is known. Only for what lies before an offset that a look has answered.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// `None` at the end of the continuation.
    pub(super) fn char_at(&self, at: usize) -> Answerable<Option<char>> {
        let found = self.text[at..].chars().next();
        if found.is_none() { self.at_end().map(|()| None) } else { Ok(found) }
    }

    /// Where the characters that satisfy `test` end.
    pub(super) fn skip(&self, at: usize, test: impl Fn(char) -> bool) -> Answerable<usize> {
        match self.text[at..].find(|c| !test(c)) {
            Some(len) => Ok(at + len),
            None => self.at_end().map(|()| self.text.len()),
        }
    }

    pub(super) fn skip_space(&self, at: usize) -> Answerable<usize> {
        self.skip(at, char::is_whitespace)
    }

    pub(super) fn starts_with(&self, at: usize, prefix: &str) -> Answerable<bool> {
        let rest = &self.text[at..];
        if rest.len() < prefix.len() && prefix.starts_with(rest) {
            return self.at_end().map(|()| false);
        }
        Ok(rest.starts_with(prefix))
    }

    /// Fails unless nothing more will arrive.
    pub(super) fn at_end(&self) -> Answerable<()> {
        if self.whole { Ok(()) } else { Err(Undecided) }
    }
}
