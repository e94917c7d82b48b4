//! What kind of character this is, and how much a run of them weighs as evidence.
//!
//! Ranges instead of the Unicode tables: a character on the wrong side of these lines makes a seam a little more or a
//! little less careful, never wrong text, and that is not worth a dependency.

use std::collections::BTreeSet;

/// The weight of one letter. Everything else is measured against it.
pub(super) const LETTER: usize = 2;
/// Digits repeat by nature: `12` and `123`, `0, 0, 0`.
const DIGIT: usize = 1;
/// A syllable says about as much as two letters.
const SYLLABLE: usize = 4;
/// A Han character is half a word.
const HAN: usize = 6;

/// A word of letters and digits, `t9`, is a name: it says more than its length.
const NAME: usize = 4 * LETTER;

/// How much a text says: white space and punctuation weigh nothing, and a word that is said twice weighs once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GlyphWeight {
    /// In units of which [`LETTER`] make a letter.
    pub(super) points: usize,
    pub(super) words: usize,
}

pub(super) fn weigh(text: &str) -> GlyphWeight {
    let is_inner = |c: char| is_spaced_word(c) || is_apostrophe(c);
    let words: BTreeSet<&str> = text.split(|c| !is_inner(c)).filter(|word| word.contains(is_word)).collect();
    let unspaced = text.chars().filter(|c| is_unspaced(*c));
    // Two characters make the usual word where words are not spaced.
    let pairs = unspaced.clone().count().div_ceil(2);
    let spaced = words.iter().map(|word| word_points(word));
    GlyphWeight { points: spaced.chain(unspaced.map(points)).sum(), words: words.len() + pairs }
}

fn word_points(word: &str) -> usize {
    let letters: usize = word.chars().map(points).sum();
    if is_name(word) { letters.max(NAME) } else { letters }
}

/// A word of letters and digits, which begins with a letter.
pub(super) fn is_name(word: &str) -> bool {
    word.starts_with(char::is_alphabetic) && word.ends_with(char::is_numeric) && word.chars().all(char::is_alphanumeric)
}

fn points(c: char) -> usize {
    match c {
        '\u{AC00}'..='\u{D7A3}' => SYLLABLE,
        c if is_han(c) => HAN,
        c if is_unspaced(c) => SYLLABLE,
        c if c.is_numeric() => DIGIT,
        c if c.is_alphabetic() => LETTER,
        _ => 0,
    }
}

/// Part of a word, in any script.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || is_mark(c)
}

/// Part of a word in a script that puts spaces between words, so that two of them touching are one word.
pub(super) fn is_spaced_word(c: char) -> bool {
    is_word(c) && !is_unspaced(c)
}

/// Han and kana, written without spaces.
pub(super) fn is_unspaced(c: char) -> bool {
    is_han(c) || matches!(c, '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' | '\u{FF66}'..='\u{FF9F}')
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3005}'..='\u{3007}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

pub(super) fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’')
}

/// Belongs to the character before it. Text that begins with one changes what stands before.
pub(super) fn extends(c: char) -> bool {
    is_mark(c) || is_emoji_part(c)
}

/// What builds one emoji out of several characters.
pub(super) fn is_emoji_part(c: char) -> bool {
    matches!(c, ZERO_WIDTH_JOINER | '\u{20E3}' | '\u{FE00}'..='\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}'
        | '\u{E0020}'..='\u{E007F}' | '\u{E0100}'..='\u{E01EF}')
}

pub(super) const ZERO_WIDTH_JOINER: char = '\u{200D}';

/// Half a flag.
pub(super) fn is_regional_indicator(c: char) -> bool {
    matches!(c, '\u{1F1E6}'..='\u{1F1FF}')
}

/// Accents, vowel signs, and the non-joiner that stands inside Persian words.
fn is_mark(c: char) -> bool {
    match c {
        '\u{0300}'..='\u{036F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20DC}' => true,
        '\u{FE20}'..='\u{FE2F}' | '\u{3099}' | '\u{309A}' | '\u{200C}' => true,
        '\u{0591}'..='\u{05BD}' | '\u{05BF}' | '\u{05C1}' | '\u{05C2}' | '\u{05C4}' | '\u{05C5}' | '\u{05C7}' => true,
        '\u{0610}'..='\u{061A}' | '\u{064B}'..='\u{065F}' | '\u{0670}' | '\u{06D6}'..='\u{06DC}' => true,
        '\u{06DF}'..='\u{06E4}' | '\u{06E7}' | '\u{06E8}' | '\u{06EA}'..='\u{06ED}' => true,
        // The Indic scripts lay out alike, each in 128 places: signs first, vowel signs and virama in the middle.
        '\u{0900}'..='\u{0D7F}' => matches!(u32::from(c) % 0x80, 0x00..=0x03 | 0x3A..=0x3C | 0x3E..=0x4D),
        '\u{0E31}' | '\u{0E34}'..='\u{0E3A}' | '\u{0E47}'..='\u{0E4E}' => true,
        _ => false,
    }
}
