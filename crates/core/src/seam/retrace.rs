//! Following a continuation that says again what was shown.
//!
//! A model that is asked to go on may begin earlier: with the sentence, the paragraph, the list item, or the whole answer,
//! word for word or with small changes. Its words are then followed along the shown text, wherever they began, until they
//! pass its end, end themselves, or go another way. Comparing words costs the same per word however long the text is.
//!
//! Texts repeat themselves too: a refrain, rows of a table, records of one shape. [`Retrace`] only finds out what happened;
//! how much evidence a drop needs is decided at the end of this file, and in doubt everything is kept.

use std::sync::Arc;

use super::glyph::{self, LETTER, is_apostrophe, is_spaced_word, is_word, weigh};
use super::head::{Answerable, TextHead};
use super::marker::Marker;
use super::words::{TextEnd, WordList};

/// How many words in a row must be found in the shown text before they are followed.
const ANCHOR: usize = 4;
/// A row of words that stands in more places than this is a habit of the text.
const PLACES_MAX: usize = 8;
/// How many words may stand before these if one of them has changed.
const CHANGED_MAX: usize = 4;
/// How many words may be changed, added or left out at one place.
const GAP_MAX: usize = 6;
/// So many words in a row are hardly said twice by chance.
const ROW_MIN: usize = 6;
/// A sentence that is said again, where shown was cut in the middle of another.
const SENTENCE_MIN: usize = 12 * LETTER;
/// The minimum where the shown text was cut behind a sentence, so that another could well follow.
const SENTENCES_MIN: usize = 24 * LETTER;
/// The minimum behind a finished line, where the next paragraph follows.
const PARAGRAPH_MIN: usize = 48 * LETTER;
/// So many words must be said again with changes, if shown ends where a new sentence may begin.
const CHANGED_WORDS_MIN: usize = 40;

/// What became of the words of a continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// They are few, or were all shown before: more must arrive.
    Open,
    /// They are not a repeat of anything.
    Own,
    /// They repeat what was shown up to its end.
    Passed(Path),
    /// They repeat a part of it, and then go another way.
    Left(Path),
}

/// A part of the shown text that was said again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// The first word in the shown text.
    from: usize,
    /// The first word in the shown text that was not said again.
    to: usize,
    /// The first word of the continuation that was not shown.
    read: usize,
    /// How many words were changed on the way.
    changes: usize,
    /// Where in the continuation the words behind the repeat begin.
    end: usize,
}

/// What to do with the head of a continuation that was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drop {
    /// How many bytes of the head say again what was shown.
    pub(super) bytes: usize,
    /// How many bytes at the end of the shown text were not said again.
    pub(super) unmatched: usize,
}

/// What the shown text ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndKind {
    Prose,
    Code,
}

/// How the shown text ends, and so what may follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    /// In the middle of a sentence: one that begins anew does not go on.
    Unfinished,
    /// Behind a sentence.
    Sentence,
    /// Behind a line, or the continuation says that it is one.
    Line,
}

#[derive(Clone, Debug)]
pub(super) struct Retrace {
    text: Arc<str>,
    kind: EndKind,
    shown: WordList,
    head: WordList,
    seeking: bool,
    /// Where the first words of the continuation were found.
    places: usize,
    paths: Vec<Path>,
    passed: Vec<Path>,
    left: Option<Path>,
}

impl Path {
    /// Where in the continuation the repeat ends.
    pub(super) fn end(&self) -> usize {
        self.end
    }
}

impl Retrace {
    pub(super) fn new(text: Arc<str>, kind: EndKind) -> Self {
        let shown = WordList::of(&text);
        let seeking = shown.len() > 0;
        let (head, paths, passed) = (WordList::default(), Vec::new(), Vec::new());
        Self { text, kind, shown, head, seeking, places: 0, paths, passed, left: None }
    }

    /// Reads on in the continuation, word by word, so that it makes no difference how many words came at once.
    pub(super) fn read(&mut self, head: &str, ending: TextEnd) -> Course {
        while self.course() == Course::Open && self.head.read_one(head, ending) {
            if self.seeking {
                self.seek(head);
            }
            if !self.seeking {
                self.follow(head);
            }
        }
        self.course()
    }

    pub(super) fn is_open(&self) -> bool {
        self.course() == Course::Open
    }

    fn course(&self) -> Course {
        if self.seeking {
            return Course::Open;
        }
        let longest = self.passed.iter().min_by_key(|path| path.from);
        let is_longer = |path: &Path| longest.is_none_or(|longest| path.from < longest.from);
        match longest {
            _ if self.paths.iter().any(is_longer) => Course::Open,
            Some(path) => Course::Passed(*path),
            None => self.left.map_or(Course::Own, Course::Left),
        }
    }

    /// Looks for the first words in the shown text. Where shown was cut in the middle of a sentence and the continuation
    /// begins another, one of them may have changed.
    fn seek(&mut self, head: &str) {
        let words = self.head.keys();
        let skip = if self.begins_anew(head) { words.len().saturating_sub(ANCHOR).min(CHANGED_MAX) } else { 0 };
        let row = &words[skip..];
        let found: Vec<usize> = self.shown.find(row).take(PLACES_MAX + 1).collect();
        self.places = found.len();
        let is_anchor = row.len() >= ANCHOR;
        let may_change = self.begins_anew(head) && words.len() < ANCHOR + CHANGED_MAX;
        self.seeking = if is_anchor { found.is_empty() && may_change } else { !found.is_empty() || may_change };
        if self.seeking || found.len() > PLACES_MAX {
            return;
        }
        let path = |at: usize| {
            let from = at.checked_sub(skip)?;
            let changes = (0..skip).filter(|word| self.shown.keys()[from + word] != words[*word]).count();
            let fits = changes <= 1 && (skip == 0 || self.begins_something(from)) && !self.goes_on_alike(from, head);
            fits.then_some(Path { from, to: at + row.len(), read: words.len(), changes, end: 0 })
        };
        self.paths = found.into_iter().filter_map(path).collect();
    }

    /// Whether shown ends in the middle of a sentence, and the continuation begins one.
    fn begins_anew(&self, head: &str) -> bool {
        let starts = |c: char| c.is_uppercase() || c.is_numeric() || matches!(c, '#' | '*' | '-' | '>' | '|' | '`');
        self.edge(head) == Edge::Unfinished && head.starts_with(starts)
    }

    /// Whether the words before `from` are the words shown ends with: then the text repeats itself, and goes on as it did
    /// the first time.
    fn goes_on_alike(&self, from: usize, head: &str) -> bool {
        let same = |back: usize| {
            let (before, last) = (from.checked_sub(back), self.shown.len().checked_sub(back));
            before.zip(last).is_some_and(|(before, last)| self.shown.keys()[before] == self.shown.keys()[last])
        };
        // Words that touch are not gone on with.
        let touches = self.text.ends_with(is_spaced_word) && head.starts_with(is_spaced_word);
        let stutters = self.shown.keys().last() == self.head.keys().first();
        !touches && !stutters && same(1) && (same(2) || !self.begins_something(from))
    }

    /// Whether a sentence or a line begins with this word.
    fn begins_something(&self, word: usize) -> bool {
        let Some(before) = word.checked_sub(1) else { return true };
        let gap = &self.text[self.shown.span(before).end..self.shown.span(word).start];
        gap.contains(['\n', '.', '!', '?', ':', '…', '。', '！', '？'])
    }

    fn follow(&mut self, head: &str) {
        for mut path in std::mem::take(&mut self.paths) {
            match self.advance(&mut path, head) {
                Step::Wait => self.paths.push(path),
                Step::Pass => self.passed.push(path),
                Step::Leave => {
                    let further = self.left.is_none_or(|left| path.to - path.from > left.to - left.from);
                    path.end = self.head.span(path.read - 1).end;
                    self.left = if further { Some(path) } else { self.left };
                }
            }
        }
    }

    /// Follows as far as words are known.
    fn advance(&self, path: &mut Path, head: &str) -> Step {
        let (shown, said) = (self.shown.keys(), self.head.keys());
        loop {
            if path.to == shown.len() {
                path.end = self.head.span(path.read - 1).end;
                return Step::Pass;
            }
            let Some(word) = said.get(path.read) else { return Step::Wait };
            if shown[path.to] == *word {
                path.to += 1;
                path.read += 1;
            } else if let Some(end) = self.completes(path.to, path.read, head) {
                *path = Path { to: path.to + 1, read: path.read + 1, end, ..*path };
                return Step::Pass;
            } else if !self.skip_change(path) {
                if said.len() <= path.read + GAP_MAX + 1 {
                    return Step::Wait;
                }
                return self.pass_changed(path, head);
            }
        }
    }

    /// The last word of the shown text was cut, and word `read` of the continuation has all of it. Where the rest begins.
    fn completes(&self, word: usize, read: usize, head: &str) -> Option<usize> {
        let (cut, whole) = (self.shown.span(word), self.head.span(read));
        let is_cut = self.text[cut.end..].chars().all(is_apostrophe);
        let begun = &self.text[cut.start..];
        (is_cut && head[whole.clone()].starts_with(begun)).then_some(whole.start + begun.len())
    }

    /// Goes over the smallest change behind which two words are the same again.
    fn skip_change(&self, path: &mut Path) -> bool {
        let (shown, said) = (&self.shown.keys()[path.to..], &self.head.keys()[path.read..]);
        for total in 1..=2 * GAP_MAX {
            for ours in total.saturating_sub(GAP_MAX)..=total.min(GAP_MAX) {
                let theirs = total - ours;
                let (Some(a), Some(b)) = (shown.get(ours..ours + 2), said.get(theirs..theirs + 2)) else { continue };
                if a == b && !self.changes_number(path, ours) {
                    path.changes += ours.max(theirs);
                    (path.to, path.read) = (path.to + ours + 2, path.read + theirs + 2);
                    return true;
                }
            }
        }
        false
    }

    /// Small changes keep the numbers. Records of one shape do not.
    fn changes_number(&self, path: &Path, words: usize) -> bool {
        let changed = path.to..path.to + words;
        changed.into_iter().any(|word| self.text[self.shown.span(word)].contains(char::is_numeric))
    }

    /// Nothing fits any more. Close to the end of the shown text its last word is enough to find the place.
    fn pass_changed(&self, path: &mut Path, head: &str) -> Step {
        let last = self.shown.len() - 1;
        if last - path.to >= GAP_MAX || self.changes_number(path, last - path.to) {
            return Step::Leave;
        }
        for read in path.read..(path.read + GAP_MAX).min(self.head.len()) {
            let same = self.shown.keys()[last] == self.head.keys()[read];
            let whole = same.then(|| self.head.span(read).end);
            if let Some(end) = whole.or_else(|| self.completes(last, read, head)) {
                let changes = path.changes + (last - path.to).max(read - path.read);
                *path = Path { to: last + 1, read: read + 1, changes, end, ..*path };
                return Step::Pass;
            }
        }
        Step::Leave
    }
}

enum Step {
    Wait,
    Pass,
    Leave,
}

/// How much evidence is enough.
impl Retrace {
    /// The continuation passed the end of the shown text. How much of it to drop, if it was a repeat.
    pub(super) fn passed(&self, path: &Path, head: &TextHead<'_>) -> Answerable<Option<Drop>> {
        let said = path.read - path.changes.min(path.read);
        let rare = self.is_rare(path) && self.places == 1;
        let points = weigh(&head.text()[..path.end]).points;
        let starts = self.begins_something(path.from);
        let enough = match self.edge(head.text()) {
            _ if path.changes == 0 && points >= SENTENCES_MIN => true,
            Edge::Unfinished => starts && points >= SENTENCE_MIN,
            Edge::Sentence | Edge::Line => starts && said >= CHANGED_WORDS_MIN && self.kind == EndKind::Prose,
        };
        if !rare || !enough {
            return Ok(None);
        }
        Ok(Some(Drop { bytes: self.behind_spelling(path.end, head)?, unmatched: 0 }))
    }

    /// The continuation went another way. It is taken for a repeat if it came close to the end of the shown text.
    pub(super) fn left(&self, path: &Path, head: &str) -> Option<Drop> {
        let close = (self.shown.len() - path.to) * 4 <= path.read && path.read >= ROW_MIN && self.is_rare(path);
        let spaces = if self.text.ends_with(' ') {
            head[path.end..].len() - head[path.end..].trim_start_matches(' ').len()
        } else {
            0
        };
        let unmatched = self.text.len() - self.shown.span(path.to).start;
        let drop = Drop { bytes: path.end + spaces, unmatched };
        let starts = self.edge(head) == Edge::Unfinished && self.begins_something(path.from);
        (close && starts && self.places == 1).then_some(drop)
    }

    /// The continuation ended although all of it was shown before. Whether it was a repeat.
    pub(super) fn ended(&self, head: &str) -> Option<Drop> {
        let path = match self.paths[..] {
            [path] if path.read == self.head.len() => path,
            [] if self.seeking && self.head.len() > 0 => {
                let from = self.shown.find(self.head.keys()).next()?;
                Path { from, to: from + self.head.len(), read: self.head.len(), changes: 0, end: 0 }
            }
            _ => return None,
        };
        if path.to == self.shown.len() {
            return None; // Letters know better what is new at the very end.
        }
        let weight = weigh(head);
        let starts = self.begins_something(path.from);
        let row = self.head.len() >= ROW_MIN;
        let enough = match self.edge(head) {
            _ if self.places != 1 || self.goes_on_alike(path.from, head) => false,
            _ if !self.is_rare(&path) => false,
            Edge::Unfinished => weight.words >= 2 && (row || (starts && weight.points >= SENTENCE_MIN)),
            Edge::Sentence if path.from == 0 => weight.words >= 2 && weight.points >= SENTENCE_MIN,
            Edge::Sentence => row && starts && weight.points >= SENTENCES_MIN,
            Edge::Line if path.from == 0 && self.head.len() >= CHANGED_WORDS_MIN => true,
            // Verses and rows of a table come again, paragraphs do not.
            Edge::Line => starts && weight.points >= PARAGRAPH_MIN && !head.trim().contains(['\n', '|']),
        };
        let unmatched = self.text.len() - self.text.len().min(self.shown.span(path.to - 1).end);
        enough.then_some(Drop { bytes: head.len(), unmatched })
    }

    /// One word of ten may change, and one in any case; but records of one shape differ in a word or two.
    fn is_rare(&self, path: &Path) -> bool {
        let is_record = self.kind == EndKind::Code && path.from > 0;
        path.changes == 0 || (!is_record && path.changes <= 1 + path.read / 10)
    }

    fn edge(&self, head: &str) -> Edge {
        let lead = &head[..head.find(is_word).unwrap_or(head.len())];
        let line = self.text.rsplit('\n').next().unwrap_or_default();
        let last = self.text.trim_end().chars().next_back().unwrap_or(' ');
        let is_open = match self.kind {
            EndKind::Prose => is_word(last) || is_apostrophe(last) || ",;-–—([=".contains(last),
            EndKind::Code => !";{}".contains(last),
        };
        let is_closed = ".!?:;,)]}|".contains(last) && self.text.ends_with(last);
        let touches = is_closed && head.starts_with(is_spaced_word);
        if Marker::is_bare(line) {
            return Edge::Unfinished;
        }
        if lead.contains('\n') || line.trim().is_empty() {
            return Edge::Line;
        }
        let goes_on = lead.trim_start().starts_with(['.', '!', '?', ':', ';', ',', '…', ')', '。', '，']);
        if (is_open || touches) && !goes_on { Edge::Unfinished } else { Edge::Sentence }
    }

    /// Goes over the punctuation and white space that shown has behind its last word, and the continuation behind its
    /// repeat of it.
    fn behind_spelling(&self, end: usize, head: &TextHead<'_>) -> Answerable<usize> {
        let last = self.shown.span(self.shown.len() - 1);
        let mut at = end;
        for mine in self.text[last.end..].chars() {
            let Some(theirs) = head.char_at(at)? else { break };
            let is_mark = |c: char| !is_word(c) && !c.is_whitespace() && !glyph::extends(c);
            let is_space = |c: char| c.is_whitespace() && c != '\n';
            if mine == theirs || (is_mark(mine) && is_mark(theirs)) || (is_space(mine) && is_space(theirs)) {
                at += theirs.len_utf8();
            } else if is_word(theirs) || theirs == '\n' {
                break;
            }
        }
        Ok(at)
    }
}
