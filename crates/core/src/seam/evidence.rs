//! Is this overlap a model repeating itself, or a text that repeats?
//!
//! `"…the quick bro"` and `"brown fox"` overlap by three letters and `"bro"` is surely said twice. `"knock, "` and
//! `"knock"` overlap by five and are surely meant. Length alone does not tell them apart; how the two would touch does.
//! Two words that touch without a space, a second opening quote in one string, a second bullet on one line: no text has
//! these, so a little overlap is enough. Where the two would read well one after the other, much is needed; and where
//! the text has repeated itself already, no amount will do.

use super::glyph::{self, LETTER, ZERO_WIDTH_JOINER, is_spaced_word, is_word, weigh};
use super::head::{Answerable, TextHead};
use super::marker::Marker;
use super::shown::ShownText;

/// A cut word begun again, `"bro"` and `"brown"`. With two letters it might be `"ha"` and `"ha!"`.
pub(super) const WORD_MIN: usize = 3 * LETTER;
/// The last line begun again, `"let x = "`, in at least two words: one might be `"None, None"`.
pub(super) const LINE_MIN: usize = 4 * LETTER;
/// Words that could stand twice, `"the quick "`, at least two of them. In Chinese three characters.
pub(super) const PHRASE_MIN: usize = 8 * LETTER;
/// In code: longer, because of lists of arguments and fields.
pub(super) const CODE_MIN: usize = 16 * LETTER;
/// Several finished lines, in the same order.
pub(super) const LINES_MIN: usize = 12 * LETTER;
/// Enough where texts do repeat: a whole line of code, a table row, nested calls and types.
pub(super) const SURE_MIN: usize = 24 * LETTER;
/// A restart does not begin inside a word or with a comma, but records do look alike: `"pub ra|x: u8,\npub
/// rb|x: u8,"`.
pub(super) const INFIX_MIN: usize = 48 * LETTER;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OverlapVerdict {
    /// The model said it again.
    Repeat,
    /// The text has a habit of saying it again: nothing that overlaps here proves anything.
    Echo,
    /// Not enough to tell. Another overlap may be.
    Weak,
}

/// One overlap, and what stands around it. Shown ends with `before`, `overlap`, `trailing`; the continuation begins with
/// `lead`, `overlap`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'a> {
    pub(super) shown: &'a ShownText,
    pub(super) before: &'a str,
    pub(super) overlap: &'a str,
    /// What the overlap consists of, again and again. Mostly all of it.
    pub(super) unit: &'a str,
    /// White space only.
    pub(super) lead: &'a str,
    /// White space only.
    pub(super) trailing: &'a str,
}

impl Claim<'_> {
    /// `end` is where in `head` the overlap ends.
    pub(super) fn judge(&self, head: &TextHead<'_>, end: usize) -> Answerable<OverlapVerdict> {
        let next = head.char_at(end)?;
        if self.begins_glyph_again(next) {
            return Ok(OverlapVerdict::Repeat);
        }
        if !self.begins_marker_again(head, end)? && !self.is_enough(next) {
            return Ok(OverlapVerdict::Weak);
        }
        let echoes = self.unit.len() * 2 <= self.overlap.len()
            || self.before.ends_with(self.overlap)
            || self.went_on_alike()
            || head.starts_with(end, self.overlap)?;
        Ok(if echoes { OverlapVerdict::Echo } else { OverlapVerdict::Repeat })
    }

    /// From what is least likely to stand twice to what is most.
    fn is_enough(&self, next: Option<char>) -> bool {
        let weight = weigh(self.unit);
        let phrase = |points_min| weight.words >= 2 && weight.points >= points_min;
        let is_prose = self.shown.fence().is_none();
        let completes_word = self.ends_in_word() && next.is_some_and(is_spaced_word);
        if self.begins_inside() {
            return weight.points >= INFIX_MIN;
        }
        if weight.points >= SURE_MIN || self.is_indented() || self.begins_quote_again() {
            return true;
        }
        if completes_word && (self.begins_structure() || (self.begins_token() && phrase(LINE_MIN))) {
            return true;
        }
        if weight.points < WORD_MIN {
            return false;
        }
        if self.is_glued() {
            return true;
        }
        if self.may_nest() {
            return false;
        }
        if self.covers_shown() || self.begins_structure() {
            return true;
        }
        if self.ends_at_line() {
            return match self.marker() {
                Some(Marker::Number | Marker::Heading) => true,
                Some(Marker::Bullet) => weight.points >= PHRASE_MIN,
                None => weight.points >= LINES_MIN && (self.content().trim_end().contains('\n') || self.cuts_line()),
            };
        }
        if self.begins_with_line_break() {
            // `"import select"` and `"\nimport selectors"` are two lines.
            return is_prose && completes_word && phrase(PHRASE_MIN);
        }
        if self.begins_line() {
            return phrase(LINE_MIN) || (is_prose && self.is_one_word());
        }
        if next.is_some() && self.reads_well_twice() {
            return false;
        }
        phrase(if is_prose { PHRASE_MIN } else { CODE_MIN }) || (is_prose && self.is_new_name())
    }

    /// `"row me over, row me over"`, or a sentence that comes twice.
    fn reads_well_twice(&self) -> bool {
        let spaced = self.begins_with_space() || self.shown.text().ends_with(char::is_whitespace);
        let is_short = weigh(self.unit).points < LINES_MIN;
        let ends = self.overlap.trim_end();
        let starts_low = self.content().starts_with(char::is_lowercase);
        spaced && ((is_short && ends.ends_with([',', ';'])) || (!starts_low && ends.ends_with(['.', ':', '!', '?'])))
    }

    /// The words before the overlap are those it ends with: then the text repeats itself, and goes on as it did before.
    /// One word is enough in the middle of a sentence, if little was said.
    fn went_on_alike(&self) -> bool {
        let last = |text: &str, count: usize| -> Vec<String> {
            let words = text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
            words.rev().take(count).map(str::to_owned).collect()
        };
        let first = self.overlap.split(|c: char| !is_word(c)).find(|word| !word.is_empty());
        let alike = |count: usize| {
            let words = last(self.overlap, count);
            words.len() == count && words == last(self.before, count) && words.first().map(String::as_str) != first
        };
        let starts = self.begins_line() || self.before.trim_end().ends_with(['.', '!', '?', ':', '…']);
        let touches = self.is_glued() && !self.begins_inside();
        let is_short = weigh(self.unit).points < SURE_MIN;
        !touches && (alike(2) || (is_short && !starts && alike(1)))
    }

    /// A name that stands nowhere else, `"t9 "`. Names are seldom said twice in a row.
    fn is_new_name(&self) -> bool {
        let name = self.content().trim_end();
        glyph::is_name(name) && self.begins_token() && !self.before.split(|c| !is_word(c)).any(|word| word == name)
    }

    fn content(&self) -> &str {
        self.overlap.trim_start()
    }

    fn begins_with_space(&self) -> bool {
        !self.lead.is_empty() || self.overlap.starts_with(char::is_whitespace)
    }

    fn begins_with_line_break(&self) -> bool {
        let indent = &self.overlap[..self.overlap.len() - self.content().len()];
        self.lead.contains('\n') || indent.contains('\n')
    }

    /// Shown is at the beginning of a line: what the overlap repeats is finished lines.
    fn ends_at_line(&self) -> bool {
        self.shown.last_line().trim().is_empty()
    }

    /// The overlap begins where a line of the shown text does.
    fn begins_line(&self) -> bool {
        let before = self.before.trim_end_matches([' ', '\t']);
        let first = before.is_empty();
        first || before.ends_with('\n') || (self.lead.is_empty() && self.begins_with_line_break())
    }

    /// The overlap is the end of a line of prose, and so not a line that comes twice.
    fn cuts_line(&self) -> bool {
        self.shown.fence().is_none() && self.lead.is_empty() && self.begins_token() && !self.begins_line()
    }

    /// The overlap is the line shown ends in, and the continuation does not take it for a finished one.
    fn begins_same_line(&self) -> bool {
        self.begins_line() && !self.ends_at_line() && !self.begins_with_line_break()
    }

    /// The line began with what begins only lines: a bullet or a table's first bar.
    fn begins_structure(&self) -> bool {
        self.begins_same_line() && self.lead.is_empty() && (self.marker().is_some() || self.content().starts_with('|'))
    }

    /// The line's indentation was repeated too. Text has no indentation in the middle of a line, except
    /// columns of numbers.
    fn is_indented(&self) -> bool {
        let code = |c: char| c.is_alphabetic() || "\"'`{}()[]<>#/@".contains(c);
        let indent = self.overlap.starts_with("  ") || self.overlap.starts_with('\t');
        indent && self.begins_same_line() && self.content().contains(code)
    }

    /// The overlap begins where something begins, and is said without a space before it.
    fn begins_token(&self) -> bool {
        let unspaced = self.overlap.starts_with(glyph::is_unspaced);
        let spaced = self.before.is_empty() || self.before.ends_with(char::is_whitespace);
        (unspaced || spaced) && !self.begins_with_space()
    }

    /// In the middle of a word, or with what ends something.
    fn begins_inside(&self) -> bool {
        let inside_word = self.before.ends_with(is_spaced_word) && self.overlap.starts_with(is_spaced_word);
        let ends_something = self.overlap.starts_with([')', ']', '}', ',', '.', ';', ':', '!', '?']);
        inside_word || (ends_something && !self.begins_line())
    }

    /// A word and its space, where the continuation has no other: `"Yesterday "`.
    fn is_one_word(&self) -> bool {
        self.lead.is_empty() && self.overlap.strip_suffix(' ').is_some_and(|word| word.chars().all(is_spaced_word))
    }

    fn ends_in_word(&self) -> bool {
        self.trailing.is_empty() && self.overlap.ends_with(is_spaced_word)
    }

    /// One after the other the two would make one word of two: `"the"` and `"the quick"`.
    fn is_glued(&self) -> bool {
        let joint = |c: char| c == '-' || glyph::is_apostrophe(c);
        let begun = self.overlap.strip_suffix(joint).unwrap_or(self.overlap);
        self.lead.is_empty()
            && self.trailing.is_empty()
            && begun.ends_with(is_spaced_word)
            && self.overlap.starts_with(is_spaced_word)
    }

    /// The model began anew. Not for Han, where one character may well be said twice.
    fn covers_shown(&self) -> bool {
        self.before.trim().is_empty()
            && !self.begins_with_line_break()
            && !self.content().starts_with(glyph::is_unspaced)
    }

    /// Half of something that may stand inside itself, or beside itself: `Some(Some(x))`, `Map<K, Map<K, V>>`,
    /// `<td></td>`, `["red", "red"]`. That is, a bracket is open and nothing but a name stands before it. A brace after
    /// words opens a body, and those do not nest on a line.
    fn may_nest(&self) -> bool {
        let content = self.content();
        let markup = content.starts_with('<') && content.trim_end().ends_with('>');
        let strings = content.starts_with(['"', '\'', '`']);
        let braces = content.starts_with(['{', '[', '(', '"']);
        let mut open = Vec::new();
        let mut previous = ' ';
        for (at, c) in content.char_indices() {
            match c {
                '(' | '[' => open.push(at),
                '{' if braces => open.push(at),
                '<' if is_word(previous) || previous == ':' => open.push(at),
                ')' | ']' | '>' => drop(open.pop()),
                '}' if braces => drop(open.pop()),
                _ => {}
            }
            previous = c;
        }
        let named = open.first().is_some_and(|at| !content[..*at].contains(char::is_whitespace));
        markup || strings || named
    }

    /// A string or an emphasis that was not closed is opened a second time, or a key comes a second time in one object.
    fn begins_quote_again(&self) -> bool {
        let content = self.content();
        let body = content.trim_start_matches('*');
        let quote = content.chars().next().filter(|c| is_quote(*c));
        let both_ways = quote.is_none_or(|quote| closing(quote) == quote);
        let touches = |c: char| is_word(c) || is_quote(c) || c == '*';
        let closes = both_ways && content.len() == self.overlap.len() && self.before.ends_with(touches);
        if closes || !content.contains(is_word) {
            return false;
        }
        let Some(quote) = quote else {
            return content.starts_with("**") && !body.contains('*') && weigh(body).points >= WORD_MIN;
        };
        let closed = content.matches(closing(quote)).count();
        let is_open = if both_ways { closed % 2 == 1 } else { content.matches(quote).count() > closed };
        is_open || is_key(&content[quote.len_utf8()..], quote)
    }

    /// Shown ends right behind a bullet, or in the middle of one, and the continuation has the bullet again.
    fn begins_marker_again(&self, head: &TextHead<'_>, end: usize) -> Answerable<bool> {
        let line = self.shown.last_line();
        if !self.begins_line() || self.content().is_empty() {
            return Ok(false);
        }
        if Marker::is_bare(line) {
            // `"#"` and `"# Title"` may well be `"## Title"`, and `"///"` an empty line of a comment.
            let ambiguous = line.ends_with('#') || self.begins_with_line_break();
            let finished = || Ok(!ambiguous && head.char_at(end)?.is_some_and(char::is_whitespace));
            return if line.ends_with(char::is_whitespace) { Ok(true) } else { finished() };
        }
        let is_number = Marker::is_number(line.trim()) && !self.doubles_to_next_number(line.trim());
        Ok(is_number && (head.starts_with(end, ". ")? || head.starts_with(end, ") ")?))
    }

    /// After entry 10 of a list, `"1"` and `"1. Next"` are entry 11.
    fn doubles_to_next_number(&self, digits: &str) -> bool {
        let numbers =
            self.before.lines().rev().filter_map(|line| line.trim().split(['.', ')']).next()?.parse::<u32>().ok());
        let doubled = digits.repeat(2).parse::<u32>().ok();
        numbers.into_iter().next().and_then(|last| last.checked_add(1)).is_some_and(|next| doubled == Some(next))
    }

    /// An emoji of several characters, or a flag, was cut in two and is begun again.
    fn begins_glyph_again(&self, next: Option<char>) -> bool {
        let Some(last) = self.overlap.chars().next_back().filter(|_| self.trailing.is_empty()) else { return false };
        if self.overlap.starts_with(glyph::extends) || self.before.ends_with(ZERO_WIDTH_JOINER) {
            return false;
        }
        if glyph::is_regional_indicator(last) {
            let shown = self.shown.text().chars().rev().take_while(|c| glyph::is_regional_indicator(*c)).count();
            return shown % 2 == 1 && next.is_some_and(glyph::is_regional_indicator);
        }
        let symbol = !last.is_ascii() && !is_word(last);
        symbol && (last == ZERO_WIDTH_JOINER || next.is_some_and(glyph::is_emoji_part))
    }

    /// What the line begins with that the overlap begins with.
    fn marker(&self) -> Option<Marker> {
        if self.begins_line() { Marker::of(self.content()) } else { None }
    }
}

/// `a": 1, ` is a key and what belongs to it, within one object.
fn is_key(body: &str, quote: char) -> bool {
    let after = body.split_once(quote).map(|(_, after)| after);
    after.is_some_and(|after| after.starts_with(':') && !after.contains(['{', '}', '[', ']']))
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | '“' | '‘' | '«' | '„' | '「' | '『' | '《')
}

fn closing(quote: char) -> char {
    match quote {
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        '„' => '“',
        '「' => '」',
        '『' => '』',
        '《' => '》',
        same => same,
    }
}
