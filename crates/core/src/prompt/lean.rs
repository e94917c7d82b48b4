//! Leaving things out when nothing else makes a request fit.

use super::entry::{PromptEntries, PromptEntry, PromptPart, PromptResult, Role};
use super::words;
use crate::context::CompactionFallback;
use crate::message::Text;
use crate::truncate::truncate;

/// Entries at the end that are left as they are: the newest step and what answers it.
const KEPT: usize = 2;

impl PromptEntries {
    /// These entries with less in them. What is left out is replaced by a line that says so, never removed:
    /// calls keep their results and entries their places.
    #[must_use]
    pub fn leaner(&self, fallback: CompactionFallback) -> Self {
        let old = self.len().saturating_sub(KEPT);
        let lean = |(i, entry): (usize, &PromptEntry)| if i < old { leaner(entry, fallback) } else { entry.clone() };
        self.iter().enumerate().map(lean).collect::<Vec<_>>().into()
    }

    /// These entries without media and without the middle of long texts, the newest ones too: for a summary
    /// of what is too long to be summarised whole. Text that something is attached to stays: its provider may
    /// compare.
    #[must_use]
    pub fn cut(&self, text_bytes_max: usize) -> Self {
        let cut = |entry: &PromptEntry| cut(leaner(entry, CompactionFallback::DropMedia), text_bytes_max);
        self.iter().map(cut).collect::<Vec<_>>().into()
    }
}

fn leaner(entry: &PromptEntry, fallback: CompactionFallback) -> PromptEntry {
    let mut entry = entry.clone();
    for part in &mut entry.parts {
        match part {
            PromptPart::File(_) if fallback >= CompactionFallback::DropMedia && entry.role == Role::User => {
                *part = PromptPart::text(words::MEDIA_LEFT_OUT);
            }
            PromptPart::Result(result) => {
                if fallback >= CompactionFallback::DropMedia && !result.media.is_empty() {
                    result.media.clear();
                    result.text = format!("{}\n{}", result.text, words::MEDIA_LEFT_OUT).trim().into();
                }
                if fallback >= CompactionFallback::DropResults && result.text.len() > words::RESULT_LEFT_OUT.len() {
                    result.text = words::RESULT_LEFT_OUT.into();
                }
            }
            _ => {}
        }
    }
    entry
}

fn cut(mut entry: PromptEntry, text_bytes_max: usize) -> PromptEntry {
    for part in &mut entry.parts {
        match part {
            PromptPart::Text(Text { text, meta }) | PromptPart::Result(PromptResult { text, meta, .. })
                if text.len() > text_bytes_max && meta.is_empty() =>
            {
                *text = truncate(text, text_bytes_max).into_owned();
            }
            _ => {}
        }
    }
    entry
}

impl PromptPart {
    /// How many bytes leaving out media would save.
    #[must_use]
    pub fn media_bytes(&self) -> usize {
        match self {
            Self::File(_) => super::MEDIA_BYTES,
            Self::Result(result) => result.media.len() * super::MEDIA_BYTES,
            _ => 0,
        }
    }

    /// How many bytes leaving out results would save.
    #[must_use]
    pub fn result_bytes(&self) -> usize {
        match self {
            Self::Result(result) => result.text.len().saturating_sub(words::RESULT_LEFT_OUT.len()),
            _ => 0,
        }
    }
}
