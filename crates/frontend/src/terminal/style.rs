//! Styled text: spans with colour and attributes, and lines of them.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::visible;

/// A colour of the terminal's palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ink {
    /// The terminal's text colour.
    #[default]
    Plain,
    /// For errors.
    Red,
    /// For success.
    Green,
    /// For questions and warnings.
    Yellow,
    /// For tool calls.
    Blue,
    /// For code and faults.
    Magenta,
    /// For the person's own words.
    Cyan,
    /// For comments.
    Grey,
}

/// The colour and attributes of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// The colour.
    pub ink: Ink,
    /// Bold.
    pub bold: bool,
    /// Dim.
    pub dim: bool,
    /// Italic.
    pub italic: bool,
    /// Underlined.
    pub underlined: bool,
    /// Struck through.
    pub struck: bool,
}

impl Look {
    /// No attributes.
    pub const PLAIN: Self =
        Self { ink: Ink::Plain, bold: false, dim: false, italic: false, underlined: false, struck: false };
    /// Bold alone.
    pub const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    /// Dim alone.
    pub const DIM: Self = Self { dim: true, ..Self::PLAIN };

    /// A colour alone.
    pub const fn ink(ink: Ink) -> Self {
        Self { ink, ..Self::PLAIN }
    }

    /// The SGR codes that switch it on.
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

/// Text of one style. It contains no character that a terminal would act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    text: String,
    /// How it looks.
    pub look: Look,
}

impl Span {
    /// This text, with control characters made visible.
    pub fn new(text: &str, look: Look) -> Self {
        // A terminal acts on a line break too, and a span is part of one line.
        Self { text: visible(text).replace('\n', "␊"), look }
    }

    /// The text as it is shown.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Terminal columns it takes.
    pub fn width(&self) -> usize {
        self.text.width()
    }
}

/// One line of spans.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line(pub Vec<Span>);

impl Line {
    /// One span.
    pub fn new(text: &str, look: Look) -> Self {
        Self(vec![Span::new(text, look)])
    }

    /// One span without attributes.
    pub fn plain(text: &str) -> Self {
        Self::new(text, Look::PLAIN)
    }

    /// One dim span.
    pub fn dim(text: &str) -> Self {
        Self::new(text, Look::DIM)
    }

    /// Appends a span.
    #[must_use]
    pub fn and(mut self, text: &str, look: Look) -> Self {
        self.0.push(Span::new(text, look));
        self
    }

    /// Terminal columns it takes.
    pub fn width(&self) -> usize {
        self.0.iter().map(Span::width).sum()
    }

    /// Whether it shows nothing.
    pub fn is_blank(&self) -> bool {
        self.0.iter().all(|span| span.text.trim().is_empty())
    }

    /// The line with escape sequences; without colours, the text alone.
    pub fn paint(&self, colours: Colours) -> String {
        let mut painted = String::new();
        for Span { text, look } in &self.0 {
            if colours == Colours::Off || *look == Look::PLAIN {
                painted.push_str(text);
            } else {
                let _ = write!(painted, "\x1b[{}m{text}\x1b[0m", look.codes()); // Writing to a string does not fail.
            }
        }
        painted
    }
}

/// Whether escape sequences are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// Escape sequences are written.
    On,
    /// Text alone is written.
    Off,
}

impl Colours {
    /// From `NO_COLOR` and `TERM`. `variable` looks one up.
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
    fn a_span_holds_no_control_characters() {
        let line = Line::new("a\x1b[31m\nb", Look::BOLD);
        assert_eq!(line.paint(Colours::On), "\x1b[1ma␛[31m␊b\x1b[0m");
        assert_eq!(line.paint(Colours::Off), "a␛[31m␊b");
    }

    #[test]
    fn colours_follow_no_color_and_term() {
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
