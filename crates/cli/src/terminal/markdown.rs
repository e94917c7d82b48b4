//! Renders Markdown that is still arriving as terminal lines.
//!
//! Answers arrive in pieces of a few letters. Rendering everything again for each piece would cost more and
//! more, and lines that have scrolled away cannot be drawn again anyway. So a complete line is rendered once;
//! only the growing line, or the table, is rendered again. A line break in the source is one on the screen,
//! as in chat messages.

mod code;
mod inline;
mod table;

use super::style::{Ink, Line, Look};
use super::wrap::{At, clip, wrap};
use code::{Code, Fence};

/// Deepest nesting of quotations; deeper marks are text.
const QUOTES_MAX: usize = 16;
const INDENT_MAX: usize = 12;

/// The state of the renderer.
#[derive(Debug)]
pub struct Markdown {
    width: usize,
    /// The growing line.
    line: String,
    fence: Option<(Fence, Code)>,
    /// Rows of a table that has not ended.
    table: Vec<String>,
    /// Whether the newest rendered line was blank, or none was rendered.
    after_blank: bool,
}

/// What a line begins with.
struct Opening<'a> {
    mark: Line,
    look: Look,
    rest: &'a str,
}

impl Markdown {
    pub const fn new(width: usize) -> Self {
        Self { width, line: String::new(), fence: None, table: Vec::new(), after_blank: true }
    }

    /// Sets the width for lines rendered from now on.
    pub const fn resize(&mut self, width: usize) {
        self.width = width;
    }

    /// Adds text, and returns the lines that are now complete.
    pub fn push(&mut self, text: &str) -> Vec<Line> {
        let mut made = Vec::new();
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece);
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                self.take(line.trim_end_matches(['\n', '\r']), &mut made);
            }
        }
        made
    }

    /// Ends the text, and returns the remaining lines.
    pub fn end(&mut self) -> Vec<Line> {
        let mut made = Vec::new();
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.take(&line, &mut made);
        }
        self.end_table(&mut made);
        self.fence = None;
        self.after_blank = true;
        made
    }

    /// The incomplete end, rendered as it is now.
    pub fn open(&self) -> Vec<Line> {
        let mut made = Vec::new();
        if !self.table.is_empty() {
            let rows = self.table.iter().map(String::as_str);
            made.extend(table::table(
                &rows.chain(is_row(&self.line).then_some(&*self.line)).collect::<Vec<_>>(),
                self.width,
            ));
            if is_row(&self.line) {
                return made;
            }
        }
        if !self.line.is_empty() {
            match &self.fence {
                Some((fence, code)) if !fence.is_closed_by(&self.line) => {
                    made.extend(code.clone().line(&self.line, self.width))
                }
                Some(_) => {}
                None if Fence::opened_by(&self.line).is_some() => {}
                None => made.extend(self.made(&self.line)),
            }
        }
        made
    }

    fn take(&mut self, line: &str, made: &mut Vec<Line>) {
        if let Some((fence, code)) = &mut self.fence {
            if fence.is_closed_by(line) {
                self.fence = None;
            } else {
                made.extend(code.line(line, self.width)); // Blank lines in code are kept.
                self.after_blank = false;
            }
            return;
        }
        if is_row(line) {
            self.table.push(line.into());
            return;
        }
        self.end_table(made);
        match Fence::opened_by(line) {
            Some(fence) => {
                if !fence.language.is_empty() {
                    let label = Line::dim(&format!("  {}", fence.language));
                    self.add(made, vec![clip(label, self.width)]);
                }
                let code = Code::new(&fence.language);
                self.fence = Some((fence, code));
            }
            None => {
                let lines = self.made(line);
                self.add(made, lines);
            }
        }
    }

    fn end_table(&mut self, made: &mut Vec<Line>) {
        if !self.table.is_empty() {
            let rows = std::mem::take(&mut self.table);
            let lines = table::table(&rows.iter().map(String::as_str).collect::<Vec<_>>(), self.width);
            self.add(made, lines);
        }
    }

    /// One line outside of code and tables.
    fn made(&self, line: &str) -> Vec<Line> {
        if line.trim().is_empty() {
            return vec![Line::default()];
        }
        if is_rule(line) {
            return vec![Line::dim(&"─".repeat(self.width.min(40)))];
        }
        let Opening { mark, look, rest } = opening(line);
        let hang = Line::plain(&" ".repeat(mark.width()));
        // A quotation shows its bar on every line.
        let hang = if mark.0.iter().any(|span| span.text().contains('│')) { mark.clone() } else { hang };
        let mut whole = mark;
        whole.0.extend(inline::spans(rest, look));
        wrap(&whole, self.width, &hang, At::Words)
    }

    /// Adds lines, without consecutive blank ones.
    fn add(&mut self, made: &mut Vec<Line>, lines: Vec<Line>) {
        for line in lines {
            let is_blank = line.is_blank();
            if !(is_blank && self.after_blank) {
                made.push(line);
            }
            self.after_blank = is_blank;
        }
    }
}

/// The mark of a heading, list entry or quotation, and the style of its text.
fn opening(line: &str) -> Opening<'_> {
    let (mut bars, mut rest) = (Line::default(), line);
    for _ in 0..QUOTES_MAX {
        let Some(quoted) = rest.trim_start().strip_prefix('>') else { break };
        bars = bars.and(&format!("{}│ ", indent(rest)), Look::DIM);
        rest = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    let Opening { mark, look, rest } = unquoted(rest);
    if bars.0.is_empty() {
        return Opening { mark, look, rest };
    }
    bars.0.extend(mark.0);
    Opening { mark: bars, look: Look { italic: true, ..look }, rest }
}

/// The indentation of a line, at most `INDENT_MAX`.
fn indent(line: &str) -> String {
    " ".repeat((line.len() - line.trim_start().len()).min(INDENT_MAX))
}

/// The mark of a line without quotation bars.
fn unquoted(line: &str) -> Opening<'_> {
    let (indent, rest) = (indent(line), line.trim_start());
    let hashes = rest.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&hashes) && rest[hashes..].starts_with(' ') {
        let look = Look { ink: Ink::Cyan, bold: true, underlined: hashes == 1, ..Look::PLAIN };
        return Opening { mark: Line::default(), look, rest: rest[hashes..].trim_start() };
    }
    for bullet in ["- ", "* ", "+ "] {
        if let Some(rest) = rest.strip_prefix(bullet) {
            let (sign, rest) = match (rest.strip_prefix("[ ] "), rest.strip_prefix("[x] ")) {
                (Some(rest), _) => ("☐ ", rest),
                (_, Some(rest)) => ("☑ ", rest),
                _ => ("• ", rest),
            };
            return Opening { mark: Line::plain(&indent).and(sign, Look::ink(Ink::Cyan)), look: Look::PLAIN, rest };
        }
    }
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=9).contains(&digits) && [". ", ") "].iter().any(|end| rest[digits..].starts_with(end)) {
        let (number, rest) = rest.split_at(digits + 2);
        return Opening { mark: Line::plain(&indent).and(number, Look::ink(Ink::Cyan)), look: Look::PLAIN, rest };
    }
    Opening { mark: Line::plain(&indent), look: Look::PLAIN, rest }
}

fn is_rule(line: &str) -> bool {
    let signs: String = line.chars().filter(|c| *c != ' ').collect();
    signs.len() >= 3 && ["-", "*", "_"].iter().any(|sign| signs.replace(sign, "").is_empty())
}

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

#[cfg(test)]
mod tests;
