//! Markdown that is still arriving, as lines of a terminal.
//!
//! Answers arrive in pieces of a few letters. Drawing the whole again for each piece would cost more and more, and what
//! has scrolled away cannot be drawn again anyway. So a line that is whole is made once and never looked at again; only
//! the line that grows, or the table, is made anew. A line break in the source is one on the screen, as people who write
//! to each other mean it.

mod code;
mod inline;
mod table;

use super::style::{Ink, Line, Look};
use super::wrap::{At, clip, wrap};
use code::{Code, Fence};

/// Quotations within quotations, as deep as they are shown; what is deeper are words.
const QUOTES_MAX: usize = 16;
const INDENT_MAX: usize = 12;

/// Markdown as far as it has arrived.
#[derive(Debug)]
pub struct Markdown {
    width: usize,
    /// The line that grows.
    line: String,
    fence: Option<(Fence, Code)>,
    /// Rows of a table whose end has not come.
    table: Vec<String>,
    /// Whether the newest line made was blank, or none was made.
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

    /// The window has another width; what was made stays as it is.
    pub const fn resize(&mut self, width: usize) {
        self.width = width;
    }

    /// Takes in more, and gives the lines that are whole by it.
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

    /// The rest: nothing more will come.
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

    /// What is not whole yet, as it looks now.
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
                made.extend(code.line(line, self.width)); // Its blank lines are its own.
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

    /// Adds lines, but no blank one behind a blank one.
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

/// Headings, list entries, quotations: what stands before their words, and how these look.
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

/// As many spaces as a line begins with, within reason.
fn indent(line: &str) -> String {
    " ".repeat((line.len() - line.trim_start().len()).min(INDENT_MAX))
}

/// The same without quotations.
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
