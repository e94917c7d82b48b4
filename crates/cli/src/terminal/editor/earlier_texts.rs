//! History of sent texts.

/// Texts that are remembered.
const LEN_MAX: usize = 500;

/// Earlier texts, oldest first, and the position of the user among them.
#[derive(Debug, Default)]
pub struct EarlierTexts {
    texts: Vec<String>,
    at: Option<usize>,
    /// The typed text before the history was opened.
    unsaid: String,
}

impl EarlierTexts {
    /// Adds a text.
    pub fn add(&mut self, text: &str) {
        self.at = None;
        if self.texts.last().is_none_or(|last| last != text) {
            self.texts.push(text.into());
        }
        if self.texts.len() > LEN_MAX {
            self.texts.remove(0);
        }
    }

    /// Moves to the previous text; `typed` is restored at the end.
    pub fn older(&mut self, typed: &str) -> Option<String> {
        let at = self.at.unwrap_or(self.texts.len()).checked_sub(1)?;
        if self.at.is_none() {
            self.unsaid = typed.into();
        }
        self.at = Some(at);
        Some(self.texts[at].clone())
    }

    /// The newest text before this index that contains these words, with its index.
    pub fn find(&self, words: &str, before: usize) -> Option<(usize, &str)> {
        let words = words.to_lowercase();
        let texts = self.texts.iter().enumerate().take(before).rev();
        texts.map(|(at, text)| (at, text.as_str())).find(|(_, text)| text.to_lowercase().contains(&words))
    }

    /// Moves to the next text; after the newest comes the typed one.
    pub fn newer(&mut self) -> Option<String> {
        let at = self.at? + 1;
        self.at = (at < self.texts.len()).then_some(at);
        Some(self.texts.get(at).cloned().unwrap_or_else(|| std::mem::take(&mut self.unsaid)))
    }
}
