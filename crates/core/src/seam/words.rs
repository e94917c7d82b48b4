//! A text as a row of words, to compare two texts without their spelling of spaces, punctuation and capitals.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use super::glyph::{is_apostrophe, is_spaced_word, is_unspaced, is_word};

/// Longer words are read as several.
const WORD_BYTES_MAX: usize = 64;
/// So much without a word counts as one.
const GAP_BYTES_MAX: usize = 256;

/// The words of a text that may still grow. Reading on costs as much as what is new.
#[derive(Clone, Debug, Default)]
pub(super) struct WordList {
    keys: Vec<u64>,
    spans: Vec<Range<usize>>,
    /// Where to read on.
    read: usize,
}

impl WordList {
    /// All words of a text that is whole.
    pub(super) fn of(text: &str) -> Self {
        let mut words = Self::default();
        while words.read_one(text, TextEnd::Whole) {}
        words
    }

    /// Reads one more word of `text`, which begins with all that was read before. `false` if no further word is known
    /// to be complete.
    pub(super) fn read_one(&mut self, text: &str, ending: TextEnd) -> bool {
        let rest = &text[self.read..];
        let Some((word, run)) = first_word(rest, ending) else { return false };
        self.keys.push(key(&rest[word.clone()]));
        self.spans.push(self.read + word.start..self.read + word.end);
        self.read += run;
        true
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Where word `at` stands in the text.
    pub(super) fn span(&self, at: usize) -> Range<usize> {
        self.spans[at].clone()
    }

    /// Where the words `from` are found in a row.
    pub(super) fn find(&self, words: &[u64]) -> impl Iterator<Item = usize> {
        self.keys.windows(words.len().max(1)).enumerate().filter(move |(_, row)| *row == words).map(|(at, _)| at)
    }
}

/// Where the first word of `text` is, and how far it was read. A word has a bound, and so has what stands between two: what
/// is longer counts as several.
fn first_word(text: &str, ending: TextEnd) -> Option<(Range<usize>, usize)> {
    let start = text.find(is_word).unwrap_or(text.len());
    if start >= GAP_BYTES_MAX {
        let end = text.floor_char_boundary(GAP_BYTES_MAX);
        return Some((0..end, end));
    }
    let rest = &text[start..];
    let is_inner = |c: char| is_spaced_word(c) || is_apostrophe(c);
    let one = rest.chars().next()?.len_utf8();
    let run = if rest.starts_with(is_unspaced) { Some(one) } else { rest.find(|c| !is_inner(c)) };
    let run = match (run, ending) {
        (Some(run), _) => run.min(WORD_BYTES_MAX),
        (None, _) if rest.len() >= WORD_BYTES_MAX => WORD_BYTES_MAX,
        (None, TextEnd::Whole) => rest.len(),
        (None, TextEnd::Open) => return None,
    };
    let run = rest.floor_char_boundary(run).max(one);
    let word = rest[..run].trim_end_matches(is_apostrophe);
    Some((start..start + word.len(), start + run))
}

/// Whether a text may go on behind its last character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextEnd {
    Open,
    Whole,
}

/// A word's key; equal for `don't` and `Don’t`.
fn key(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.chars().filter(|c| !is_apostrophe(*c)).flat_map(char::to_lowercase).for_each(|c| c.hash(&mut hasher));
    hasher.finish()
}
