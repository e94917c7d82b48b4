//! What the user has already read, as far as a seam must know it.

use std::sync::Arc;

use super::fence::{self, CodeFence};
use super::marker::Marker;

#[derive(Clone, Debug)]
pub(super) struct ShownText {
    text: Arc<str>,
    /// The fence the text ends in.
    fence: Option<CodeFence>,
    /// The last line, unfinished as it is, closes a fence.
    closes_fence: bool,
}

impl ShownText {
    pub(super) fn new(text: &str) -> Self {
        let fence = CodeFence::open_at_end(text);
        let mut shown = Self { text: text.into(), fence, closes_fence: false };
        if let (Some(open), Some((by, ""))) = (fence, CodeFence::parse(shown.last_line()))
            && by.matches(open)
        {
            shown.fence = None;
            shown.closes_fence = true;
        }
        shown
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text, to be kept elsewhere too.
    pub(super) fn share(&self) -> Arc<str> {
        self.text.clone()
    }

    pub(super) fn fence(&self) -> Option<CodeFence> {
        self.fence
    }

    /// What stands on the line that a continuation would go on with.
    pub(super) fn last_line(&self) -> &str {
        self.text.rsplit('\n').next().unwrap_or_default()
    }

    pub(super) fn ends_with_one_space(&self) -> bool {
        self.text.strip_suffix(' ').is_some_and(|rest| rest.ends_with(|c: char| !c.is_whitespace()))
    }

    pub(super) fn closes_fence(&self) -> bool {
        self.closes_fence
    }

    /// The last line is a bullet or the beginning of a comment: what follows stands behind that, not on a line.
    pub(super) fn ends_with_marker(&self) -> bool {
        Marker::is_bare(self.last_line())
    }

    /// Whether a fence line may be put right here: at the beginning of a line, behind a list marker, or where the marks
    /// add up with marks already shown.
    pub(super) fn fence_may_follow(&self) -> bool {
        let last = self.last_line().trim();
        last.is_empty() || self.ends_with_marker() || (last.ends_with(fence::is_mark) && !self.closes_fence)
    }
}
