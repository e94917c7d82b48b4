//! How far an interaction was read.
//!
//! Google's cursor is the id of the last event. Whoever reads on begins in the middle, though, where an event says only
//! that step 3 is over, not what step 3 was. So our cursor holds that as well.

/// A place in an interaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct Cursor {
    /// The id of the last event that was read; empty if none was.
    pub(in super::super) event: String,
    /// The step that was a call and was still open.
    pub(in super::super) open_call: Option<u32>,
    /// Whether there was a call for us.
    pub(in super::super) called: bool,
}

impl Cursor {
    /// The cursor as it is kept. Ids may hold anything, so they come last.
    pub(in super::super) fn to_text(&self) -> String {
        let open = self.open_call.map_or_else(|| "-".into(), |index| index.to_string());
        let called = if self.called { "calls" } else { "-" };
        format!("{open}:{called}:{}", self.event)
    }

    /// The cursor that was kept; a text that is none means the beginning.
    pub(in super::super) fn of_text(text: &str) -> Self {
        let mut pieces = text.splitn(3, ':');
        let (Some(open), Some(called), Some(event)) = (pieces.next(), pieces.next(), pieces.next()) else {
            return Self::default();
        };
        Self { event: event.to_owned(), open_call: open.parse().ok(), called: called == "calls" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        for event in ["", "e1", "a:b:c", "::"] {
            for (open_call, called) in [(None, false), (None, true), (Some(0), true), (Some(7), false)] {
                let cursor = Cursor { event: event.into(), open_call, called };
                assert_eq!(Cursor::of_text(&cursor.to_text()), cursor);
            }
        }
        assert_eq!(Cursor::of_text("nothing of ours"), Cursor::default());
    }
}
