//! The input line.

mod earlier_texts;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};
use unicode_width::UnicodeWidthStr as _;

use super::style::{Ink, Line, Look};
use super::visible;
pub use earlier_texts::EarlierTexts;

/// Limit of the text; a longer paste is cut.
const TEXT_BYTES_MAX: usize = 1024 * 1024;
const PROMPT: &str = "› ";

/// The text and the cursor of the input line.
#[derive(Debug, Default)]
pub struct Editor {
    text: String,
    /// Byte offset of the cursor.
    at: usize,
    earlier: EarlierTexts,
    search: Option<Search>,
}

/// A search in earlier texts.
#[derive(Debug)]
struct Search {
    words: String,
    /// Index of the current match; one past the end without a match.
    at: usize,
    /// The text before the search.
    unsaid: String,
}

/// An action that a key requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Send this text.
    Submit(String),
    /// Send this text at the next step boundary.
    Steer(String),
    /// Ctrl-C.
    Stop,
    /// Escape.
    Leave,
    /// Ctrl-D with nothing typed.
    Quit,
    /// Draw everything again.
    Redraw,
    /// Edit the text in an external editor.
    Outside,
}

/// The rendered input line.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    pub lines: Vec<Line>,
    /// Row and column of the cursor.
    pub cursor: (usize, usize),
}

impl Editor {
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The words of the search in earlier texts, if one is open.
    pub fn searched(&self) -> Option<&str> {
        self.search.as_ref().map(|search| search.words.as_str())
    }

    pub fn earlier_mut(&mut self) -> &mut EarlierTexts {
        &mut self.earlier
    }

    /// Replaces the text.
    pub fn replace(&mut self, text: &str) {
        self.text = text.into();
        self.at = self.text.len();
    }

    /// Inserts a text before the typed one.
    pub fn give_back(&mut self, text: &str) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        self.text.insert_str(0, &format!("{text}{gap}"));
        self.at += text.len() + gap.len();
    }

    /// Inserts pasted text: its line breaks do not submit.
    pub fn paste(&mut self, text: &str) {
        self.insert(&text.replace("\r\n", "\n").replace('\r', "\n"));
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if self.search.is_some() && self.search_key(key) {
            return None;
        }
        let (ctrl, alt) = (key.modifiers.contains(KeyModifiers::CONTROL), key.modifiers.contains(KeyModifiers::ALT));
        match key.code {
            KeyCode::Char(c) if ctrl => return self.control(c),
            KeyCode::Char('b') if alt => self.at = self.word_left(),
            KeyCode::Char('f') if alt => self.at = self.word_right(),
            KeyCode::Char('d') if alt => self.remove(self.at, self.word_right()),
            KeyCode::Char(c) if !alt => self.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Enter if alt => self.insert("\n"),
            KeyCode::Enter if self.text[..self.at].ends_with('\\') => {
                self.remove(self.at - 1, self.at);
                self.insert("\n");
            }
            KeyCode::Enter => return self.taken().map(Wish::Submit),
            KeyCode::Backspace if alt || ctrl => self.remove(self.word_left(), self.at),
            KeyCode::Backspace => self.remove(self.left(), self.at),
            KeyCode::Delete => self.remove(self.at, self.right()),
            KeyCode::Left if alt || ctrl => self.at = self.word_left(),
            KeyCode::Right if alt || ctrl => self.at = self.word_right(),
            KeyCode::Left => self.at = self.left(),
            KeyCode::Right => self.at = self.right(),
            KeyCode::Home => self.at = self.line_begin(),
            KeyCode::End => self.at = self.line_end(),
            KeyCode::Up => self.up(),
            KeyCode::Down => self.down(),
            KeyCode::Esc => return Some(Wish::Leave),
            _ => {}
        }
        None
    }

    /// Handles a key during a search; returns whether the key was consumed.
    fn search_key(&mut self, key: KeyEvent) -> bool {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let Some(search) = &mut self.search else { return false };
        match key.code {
            KeyCode::Char('r') if ctrl => {
                let found = search.at;
                self.search_before(found);
            }
            KeyCode::Char('c' | 'g') if ctrl => self.end_search(),
            KeyCode::Esc => self.end_search(),
            KeyCode::Char(c) if !ctrl => {
                search.words.push(c);
                let from = search.at.saturating_add(1);
                self.search_before(from);
            }
            KeyCode::Backspace => {
                search.words.pop();
                self.search_before(usize::MAX);
            }
            KeyCode::Enter => self.search = None, // The match stays in the line, to be edited or sent.
            _ => {
                self.search = None;
                return false;
            }
        }
        true
    }

    /// Shows the newest match before this index; without a match, the shown text stays.
    fn search_before(&mut self, before: usize) {
        let Some(search) = &mut self.search else { return };
        if let Some((at, text)) = self.earlier.find(&search.words, before) {
            search.at = at;
            let text = text.to_owned();
            self.replace(&text);
        }
    }

    /// Ends the search and restores the text before it.
    fn end_search(&mut self) {
        if let Some(search) = self.search.take() {
            self.replace(&search.unsaid);
        }
    }

    fn control(&mut self, c: char) -> Option<Wish> {
        match c {
            'a' => self.at = self.line_begin(),
            'e' => self.at = self.line_end(),
            'b' => self.at = self.left(),
            'f' => self.at = self.right(),
            'h' => self.remove(self.left(), self.at),
            'w' => self.remove(self.word_left(), self.at),
            'u' => self.remove(self.line_begin(), self.at),
            'k' => self.remove(self.at, self.line_end()),
            'p' => self.up(),
            'n' => self.down(),
            'j' => self.insert("\n"),
            'r' => self.search = Some(Search { words: String::new(), at: usize::MAX, unsaid: self.text.clone() }),
            'g' => return Some(Wish::Outside),
            's' => return self.taken().map(Wish::Steer),
            'c' => return Some(Wish::Stop),
            'l' => return Some(Wish::Redraw),
            'd' if self.text.is_empty() => return Some(Wish::Quit),
            'd' => self.remove(self.at, self.right()),
            _ => {}
        }
        None
    }

    /// Takes the text out of the line, unless it is blank, and adds it to the history.
    fn taken(&mut self) -> Option<String> {
        if self.text.trim().is_empty() {
            return None;
        }
        self.at = 0;
        let text = std::mem::take(&mut self.text);
        self.earlier.add(&text);
        Some(text)
    }

    fn insert(&mut self, text: &str) {
        let room = TEXT_BYTES_MAX - self.text.len().min(TEXT_BYTES_MAX);
        let fits = (0..=text.len().min(room)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.text.insert_str(self.at, &text[..fits]);
        self.at += fits;
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.at = from;
    }

    fn left(&self) -> usize {
        let place = GraphemeCursor::new(self.at, self.text.len(), true).prev_boundary(&self.text, 0);
        place.ok().flatten().unwrap_or(0)
    }

    fn right(&self) -> usize {
        let place = GraphemeCursor::new(self.at, self.text.len(), true).next_boundary(&self.text, 0);
        place.ok().flatten().unwrap_or(self.text.len())
    }

    fn word_left(&self) -> usize {
        let words = self.text[..self.at].unicode_word_indices();
        words.map(|(at, _)| at).next_back().unwrap_or(0)
    }

    fn word_right(&self) -> usize {
        let word = self.text[self.at..].unicode_word_indices().next();
        word.map_or(self.text.len(), |(at, word)| self.at + at + word.len())
    }

    fn line_begin(&self) -> usize {
        self.text[..self.at].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.at..].find('\n').map_or(self.text.len(), |at| self.at + at)
    }

    /// Moves to the line above; from the first one, to the previous text.
    fn up(&mut self) {
        let begin = self.line_begin();
        if begin == 0 {
            if let Some(text) = self.earlier.older(&self.text) {
                self.replace(&text);
            }
            return;
        }
        let column = self.text[begin..self.at].graphemes(true).count();
        self.at = begin - 1;
        self.at = self.at_column(self.line_begin(), column);
    }

    fn down(&mut self) {
        let end = self.line_end();
        if end == self.text.len() {
            if let Some(text) = self.earlier.newer() {
                self.replace(&text);
            }
            return;
        }
        let column = self.text[self.line_begin()..self.at].graphemes(true).count();
        self.at = self.at_column(end + 1, column);
    }

    /// The offset of a column in the line that begins here, at most the line's end.
    fn at_column(&self, begin: usize, column: usize) -> usize {
        let end = self.text[begin..].find('\n').map_or(self.text.len(), |at| begin + at);
        self.text[begin..end].grapheme_indices(true).nth(column).map_or(end, |(at, _)| begin + at)
    }

    /// Renders at most `rows_max` rows: those around the cursor.
    pub fn show(&self, width: usize, rows_max: usize) -> Shown {
        let width = width.saturating_sub(PROMPT.width() + 1).max(1);
        let (mut rows, mut cursor) = (vec![String::new()], (0, 0));
        let mut column = 0;
        for (at, letter) in self.text.grapheme_indices(true) {
            if at == self.at {
                cursor = (rows.len() - 1, column);
            }
            let shown = if letter.ends_with('\n') { "".into() } else { visible(letter) };
            if letter.ends_with('\n') || column + shown.width() > width {
                rows.push(String::new());
                column = 0;
            }
            column += shown.width();
            rows.last_mut().expect("there is one").push_str(&shown);
        }
        if self.at == self.text.len() {
            cursor = (rows.len() - 1, column);
        }
        let first = (cursor.0 + 1).saturating_sub(rows_max.max(1));
        let shown = rows.iter().enumerate().skip(first).take(rows_max.max(1));
        let mark = |row: usize| if row == 0 { PROMPT } else { "  " };
        let lines = shown.map(|(row, text)| Line::new(mark(row), prompt_look()).and(text, Look::PLAIN)).collect();
        Shown { lines, cursor: (cursor.0 - first, cursor.1 + PROMPT.width()) }
    }
}

const fn prompt_look() -> Look {
    Look { bold: true, ..Look::ink(Ink::Cyan) }
}

#[cfg(test)]
mod tests;
