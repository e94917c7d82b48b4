//! Cuts messages of earlier turns.
//!
//! Unanswered messages are folded into no summary, and a message that is too long is never answered: it would
//! make every later request too long as well. Its turn has failed, and the person was told. So when nothing
//! else makes room, the newest messages before the turn are kept up to a bound, and the rest is cut.

use std::sync::Arc;

use crate::ids::MessageId;
use crate::message::{Body, Message, Part, Text};
use crate::prompt::words;
use crate::truncate::{TINY_BUDGET, truncate_noting};

/// How much of what was said in earlier turns is kept, at most.
const EARLIER_BYTES_MAX: usize = 8 * 1024;

/// How many bytes of a text that is in the way may stay in a window of so many tokens: about a third of it.
#[must_use]
pub fn spare_bytes(context_limit: Option<u64>) -> usize {
    let third = context_limit.map_or(usize::MAX, |tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
    third.min(EARLIER_BYTES_MAX) // Three bytes make a token, mostly.
}

/// These messages, with user and context messages up to `after` cut to `bytes_max`: files are dropped, the
/// text that reaches the bound loses its middle, and one line stands for everything before it. Replies and
/// summaries stay.
#[must_use]
pub fn cut_earlier(messages: &[Arc<Message>], after: MessageId, bytes_max: usize) -> Vec<Arc<Message>> {
    let mut scissors = Scissors { left: bytes_max, noted: false };
    let cut = |message: &Arc<Message>| if message.id > after { message.clone() } else { scissors.message(message) };
    let mut newest_first: Vec<_> = messages.iter().rev().map(cut).collect();
    newest_first.reverse();
    newest_first
}

struct Scissors {
    left: usize,
    noted: bool,
}

impl Scissors {
    fn message(&mut self, message: &Arc<Message>) -> Arc<Message> {
        let body = match &message.body {
            Body::User(parts) => Body::User(self.parts(parts)),
            Body::Context(text) => Body::Context(self.text(text).unwrap_or_default()),
            Body::Summary(summary) => {
                let mut summary = summary.clone();
                summary.newest_user = self.parts(&summary.newest_user);
                Body::Summary(summary)
            }
            Body::Reply(_) | Body::Result(_) => return message.clone(),
        };
        Arc::new(Message { body, ..(**message).clone() })
    }

    fn parts(&mut self, parts: &[Part]) -> Vec<Part> {
        let cut = |part: &Part| match part {
            Part::Text(Text { text, meta }) => {
                self.text(text).map(|text| Part::Text(Text { text, meta: meta.clone() }))
            }
            Part::File(_) => self.text(words::MEDIA_LEFT_OUT).map(|text| Part::Text(Text { text, ..Text::default() })),
            Part::Reasoning(_) | Part::Call(_) | Part::Provided(_) | Part::Source(_) | Part::Other(_) => None,
        };
        let mut newest_first: Vec<_> = parts.iter().rev().filter_map(cut).collect();
        newest_first.reverse();
        newest_first
    }

    /// What is kept of a text; nothing, once the line that stands for everything before it has been said.
    fn text(&mut self, text: &str) -> Option<String> {
        if self.noted {
            return None;
        }
        if text.len() > self.left && self.left <= TINY_BUDGET {
            self.noted = true;
            return Some(words::EARLIER_LEFT_OUT.into());
        }
        let kept = truncate_noting(text, self.left, words::middle_left_out);
        self.left = self.left.saturating_sub(text.len());
        Some(kept.into_owned())
    }
}
