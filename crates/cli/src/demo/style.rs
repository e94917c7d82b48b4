//! Colour, where it is wanted.

/// How words are dressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Colour,
    Plain,
}

impl Style {
    fn dress(self, code: &str, text: &str) -> String {
        match self {
            Self::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.into(),
        }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.dress("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.dress("2", text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.dress("32", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.dress("1;31", text)
    }

    pub(super) fn warn(self, text: &str) -> String {
        self.dress("33", text)
    }

    pub(super) fn calm(self, text: &str) -> String {
        self.dress("36", text)
    }
}
