//! Characters that a provider cuts in two.
//!
//! A server that streams by UTF-16 units sends the halves of a surrogate pair in two deltas. Decoders see U+FFFD for each,
//! so that every event can be read; here the first half is held back until the text it belongs to goes on, and joined to
//! the second if that is how it goes on. A half that stays alone is U+FFFD.

use everturn_core::delta::Delta;
use everturn_core::surrogates::{Edges, joined};

use crate::provider::Frame;

/// What is held back.
#[derive(Debug, Default)]
pub(super) struct Halves {
    held: Option<Held>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    text: Growing,
    half: u16,
}

/// A text that grows by deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growing {
    Text,
    Reasoning,
    Input(u32),
}

impl Halves {
    /// Joins what one event said, which is `out` from `seen` on. `edges` are the halves that the event had.
    pub fn join(&mut self, edges: Edges, out: &mut Vec<Frame>, seen: usize) {
        if self.held.is_none() && edges == Edges::default() {
            return;
        }
        let said = out.split_off(seen);
        let is_silent = said.is_empty();
        for frame in said {
            match frame {
                Frame::Delta(delta) => out.extend(self.delta(delta, edges).map(Frame::Delta)),
                Frame::Together(deltas) => {
                    let deltas = deltas.into_iter().flat_map(|delta| self.delta(delta, edges)).collect();
                    out.push(Frame::Together(deltas));
                }
                Frame::Ping => out.push(frame),
                Frame::Stop(_) => {
                    out.extend(self.give_up().map(Frame::Delta));
                    out.push(frame);
                }
            }
        }
        if out.len() == seen && !is_silent {
            out.push(Frame::Ping);
        }
    }

    /// A delta, with what was held back for it or before it.
    fn delta(&mut self, mut delta: Delta, edges: Edges) -> impl Iterator<Item = Delta> + use<> {
        let Some((growing, text)) = grown(&mut delta) else {
            let is_beside =
                matches!(delta, Delta::Usage(_) | Delta::ReplyMeta(_) | Delta::ResponseId(_) | Delta::Handle(_));
            let alone = if is_beside { None } else { self.give_up() };
            return [alone, Some(delta)].into_iter().flatten();
        };
        let held = self.held.take_if(|held| held.text == growing);
        let alone = self.give_up();
        if let Some(Held { half, .. }) = held {
            let second = edges.leading.filter(|_| text.starts_with(char::REPLACEMENT_CHARACTER));
            match second.and_then(|second| joined(half, second)) {
                Some(char) => {
                    text.replace_range(..char::REPLACEMENT_CHARACTER.len_utf8(), char.encode_utf8(&mut [0; 4]))
                }
                None => text.insert(0, char::REPLACEMENT_CHARACTER),
            }
        }
        if let Some(half) = edges.trailing.filter(|_| text.ends_with(char::REPLACEMENT_CHARACTER)) {
            text.pop();
            self.held = Some(Held { text: growing, half });
        }
        let is_empty = text.is_empty();
        [alone, Some(delta).filter(|_| !is_empty)].into_iter().flatten()
    }

    /// The half that is held back stays alone.
    fn give_up(&mut self) -> Option<Delta> {
        let text = char::REPLACEMENT_CHARACTER.to_string();
        self.held.take().map(|held| match held.text {
            Growing::Text => Delta::Text(text),
            Growing::Reasoning => Delta::Reasoning(text),
            Growing::Input(slot) => Delta::CallInput { slot, json: text },
        })
    }
}

/// The text that a delta adds to, and what it adds.
const fn grown(delta: &mut Delta) -> Option<(Growing, &mut String)> {
    match delta {
        Delta::Text(text) => Some((Growing::Text, text)),
        Delta::Reasoning(text) => Some((Growing::Reasoning, text)),
        Delta::CallInput { slot, json } => Some((Growing::Input(*slot), json)),
        _ => None,
    }
}

/// What `told` says beyond `said`, which came in pieces: two halves in `said` are any one character of `told`.
pub(crate) fn beyond<'t>(told: &'t str, said: &str) -> Option<&'t str> {
    let (mut told, mut said) = (told.chars(), said.chars());
    while let Some(char) = said.next() {
        let same = told.next()?;
        let is_split = char == char::REPLACEMENT_CHARACTER && same > '\u{ffff}';
        if same != char && !(is_split && said.next() == Some(char)) {
            return None;
        }
    }
    Some(told.as_str())
}
