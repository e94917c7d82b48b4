//! Colour, where it is wanted.

use everturn_frontend::terminal::style::Colours;
use everturn_frontend::terminal::{Ink, Line, Look};

/// How words are dressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style(pub(super) Colours);

impl Style {
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self(Colours::Off);

    fn dress(self, look: Look, text: &str) -> String {
        Line::new(text, look).paint(self.0)
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.dress(Look::BOLD, text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.dress(Look::DIM, text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.dress(Look::ink(Ink::Green), text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.dress(Look { bold: true, ..Look::ink(Ink::Red) }, text)
    }

    pub(super) fn warn(self, text: &str) -> String {
        self.dress(Look::ink(Ink::Yellow), text)
    }

    pub(super) fn calm(self, text: &str) -> String {
        self.dress(Look::ink(Ink::Cyan), text)
    }
}
