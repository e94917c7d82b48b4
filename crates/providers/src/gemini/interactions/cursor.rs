//! The cursor of an interaction.
//!
//! Google's cursor is the id of the last event. A reader that resumes begins in the middle, where an event
//! says only that step 3 is over, not what step 3 was. So our cursor holds that as well.

/// A place in an interaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct InteractionCursor {
    /// The id of the last event that was read; empty if none was.
    pub(in super::super) event: String,
    /// The step that was a call and was still open, and what had come of its input.
    pub(in super::super) open_call: Option<(u32, Input)>,
    /// Whether there was a call for us.
    pub(in super::super) called: bool,
}

/// How much of a call's input has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Input {
    /// Some of it, or nothing.
    ToCome,
    /// All of it. Whatever comes then is the same again.
    Whole,
}

/// The mark behind the number of a call with complete input.
const WHOLE: char = '!';

impl InteractionCursor {
    /// The cursor as it is kept. Ids may hold anything, so they come last.
    pub(in super::super) fn to_text(&self) -> String {
        let open = match self.open_call {
            None => "-".to_owned(),
            Some((index, Input::ToCome)) => index.to_string(),
            Some((index, Input::Whole)) => format!("{index}{WHOLE}"),
        };
        let called = if self.called { "calls" } else { "-" };
        format!("{open}:{called}:{}", self.event)
    }

    /// The cursor that was kept; a text that is none means the beginning.
    pub(in super::super) fn of_text(text: &str) -> Self {
        let mut pieces = text.splitn(3, ':');
        let (Some(open), Some(called), Some(event)) = (pieces.next(), pieces.next(), pieces.next()) else {
            return Self::default();
        };
        let (index, input) = match open.strip_suffix(WHOLE) {
            Some(index) => (index, Input::Whole),
            None => (open, Input::ToCome),
        };
        let open_call = index.parse().ok().map(|index| (index, input));
        Self { event: event.to_owned(), open_call, called: called == "calls" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        for event in ["", "e1", "a:b:c", "::"] {
            let open = [None, Some((0, Input::ToCome)), Some((7, Input::Whole))];
            for (open_call, called) in open.into_iter().flat_map(|open| [(open, false), (open, true)]) {
                let cursor = InteractionCursor { event: event.into(), open_call, called };
                assert_eq!(InteractionCursor::of_text(&cursor.to_text()), cursor);
            }
        }
        assert_eq!(InteractionCursor::of_text("nothing of ours"), InteractionCursor::default());
        let earlier = InteractionCursor { event: "e1".into(), open_call: Some((3, Input::ToCome)), called: true };
        assert_eq!(InteractionCursor::of_text("3:calls:e1"), earlier, "as every version has written it");
    }
}
