//! Words with a look, and lines of them.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::visible;

/// A colour of the reader's own palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ink {
    #[default]
    Plain,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
    Grey,
}

/// How words look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    pub ink: Ink,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underlined: bool,
    pub struck: bool,
}

impl Look {
    pub const PLAIN: Self =
        Self { ink: Ink::Plain, bold: false, dim: false, italic: false, underlined: false, struck: false };
    pub const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    pub const DIM: Self = Self { dim: true, ..Self::PLAIN };

    pub const fn ink(ink: Ink) -> Self {
        Self { ink, ..Self::PLAIN }
    }

    /// What turns it on, as the terminal wants it.
    fn codes(self) -> String {
        let ink = match self.ink {
            Ink::Plain => None,
            Ink::Red => Some(31),
            Ink::Green => Some(32),
            Ink::Yellow => Some(33),
            Ink::Blue => Some(34),
            Ink::Magenta => Some(35),
            Ink::Cyan => Some(36),
            Ink::Grey => Some(90),
        };
        let flags = [(self.bold, 1), (self.dim, 2), (self.italic, 3), (self.underlined, 4), (self.struck, 9)];
        let codes = flags.into_iter().filter_map(|(is_on, code)| is_on.then_some(code)).chain(ink);
        codes.map(|code: u8| code.to_string()).collect::<Vec<_>>().join(";")
    }
}

/// Words of one look. Nothing in them is obeyed by a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    text: String,
    pub look: Look,
}

impl Span {
    pub fn new(text: &str, look: Look) -> Self {
        // A line break would be obeyed too, and a span stands in one line.
        Self { text: visible(text).replace('\n', "␊"), look }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn width(&self) -> usize {
        self.text.width()
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line(pub Vec<Span>);

impl Line {
    pub fn new(text: &str, look: Look) -> Self {
        Self(vec![Span::new(text, look)])
    }

    pub fn plain(text: &str) -> Self {
        Self::new(text, Look::PLAIN)
    }

    pub fn dim(text: &str) -> Self {
        Self::new(text, Look::DIM)
    }

    /// More words at the end.
    #[must_use]
    pub fn and(mut self, text: &str, look: Look) -> Self {
        self.0.push(Span::new(text, look));
        self
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(Span::width).sum()
    }

    pub fn is_blank(&self) -> bool {
        self.0.iter().all(|span| span.text.trim().is_empty())
    }

    /// As a terminal wants it; without colours, the words alone.
    pub fn paint(&self, colours: Colours) -> String {
        let mut painted = String::new();
        for Span { text, look } in &self.0 {
            if colours == Colours::Off || *look == Look::PLAIN {
                painted.push_str(text);
            } else {
                let _ = write!(painted, "\x1b[{}m{text}\x1b[0m", look.codes()); // Strings take everything.
            }
        }
        painted
    }
}

/// Whether looks are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    On,
    Off,
}

impl Colours {
    /// As `NO_COLOR` and `TERM` say. `variable` looks one up.
    pub fn wanted(variable: impl Fn(&str) -> Option<String>) -> Self {
        let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
        if refused || is_dumb { Self::Off } else { Self::On }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_holds_nothing_that_is_obeyed() {
        let line = Line::new("a\x1b[31m\nb", Look::BOLD);
        assert_eq!(line.paint(Colours::On), "\x1b[1ma␛[31m␊b\x1b[0m");
        assert_eq!(line.paint(Colours::Off), "a␛[31m␊b");
    }

    #[test]
    fn colours_are_off_where_nobody_wants_them() {
        let variables = |no_color: Option<&str>, term: Option<&str>| {
            let (no_color, term) = (no_color.map(str::to_owned), term.map(str::to_owned));
            Colours::wanted(move |name| if name == "NO_COLOR" { no_color.clone() } else { term.clone() })
        };
        assert_eq!(variables(None, Some("xterm")), Colours::On);
        assert_eq!(variables(Some(""), Some("xterm")), Colours::On);
        assert_eq!(variables(Some("1"), Some("xterm")), Colours::Off);
        assert_eq!(variables(None, Some("dumb")), Colours::Off);
        assert_eq!(variables(None, None), Colours::Off);
    }
}
