//! Events as bytes of a stream.
//!
//! Most events add a few words, a thousand times per second. These are serialised straight from the core's event; for all
//! others an [`Event`] is created first. Both give the same bytes.

use std::io::Write as _;

use everturn::core::delta::Delta;
use everturn::core::ids::ChatId;
use everturn::core::view;
use serde::Serialize;

use super::cursor;
use super::event::Event;

/// A borrowed [`super::Delta`] of text. The fields are in the same order.
#[derive(Serialize)]
struct Words<'a> {
    step: u64,
    n: u64,
    at: i64,
    kind: &'static str,
    text: &'a str,
}

impl<'a> Words<'a> {
    fn of(event: &'a view::Event) -> Option<Self> {
        let view::Event::Delta(view::JournalRow { step, seq, at, delta }) = event else { return None };
        let (kind, text) = match &**delta {
            Delta::Text(text) => ("text", text),
            Delta::Reasoning(text) => ("reasoning", text),
            _ => return None,
        };
        Some(Self { step: step.0, n: seq.0, at: at.0, kind, text })
    }
}

/// Writes an event of a chat with its name, its data in one line, and, where a client can resume, the cursor.
pub fn write(out: &mut Vec<u8>, chat: ChatId, event: &view::Event, cursor: Option<view::Cursor>) {
    let start = out.len();
    if try_write(out, chat, event, cursor).is_err() {
        out.truncate(start); // An event that cannot be serialised is left out; writing to a vector cannot fail.
    }
}

fn try_write(
    out: &mut Vec<u8>,
    chat: ChatId,
    event: &view::Event,
    cursor: Option<view::Cursor>,
) -> std::io::Result<()> {
    let words = Words::of(event);
    let event = if words.is_none() { Some(Event::from(event)) } else { None };
    writeln!(out, "event: {}", event.as_ref().map_or("delta", Event::name))?;
    if let Some(cursor) = cursor {
        writeln!(out, "id: {}", cursor::of(chat, cursor))?;
    }
    out.extend_from_slice(b"data: ");
    // Compact JSON has no line breaks, and escapes those in strings: data is one line.
    match (&words, &event) {
        (Some(words), _) => serde_json::to_writer(&mut *out, words)?,
        (None, event) => serde_json::to_writer(&mut *out, event)?,
    }
    out.extend_from_slice(b"\n\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everturn::core::ids::{Seq, StepId, Timestamp};

    use super::*;

    const CHAT: ChatId = ChatId::from_u128(7);

    fn row(delta: Delta) -> view::Event {
        view::Event::Delta(view::JournalRow { step: StepId(3), seq: Seq(4), at: Timestamp(5), delta: Arc::new(delta) })
    }

    /// The fast path writes the same bytes as the slow one.
    #[test]
    fn words_are_written_as_their_event_would_be() {
        for text in ["", "words", "\"quoted\" \\ and\r\n\tbroken\u{2028}", "\u{0}\u{7f}", "🙂 ü"] {
            for delta in [Delta::Text(text.into()), Delta::Reasoning(text.into())] {
                let (event, mut out) = (row(delta), Vec::new());
                let cursor = "1.2.a".parse().unwrap();
                write(&mut out, CHAT, &event, Some(cursor));
                let (id, data) = (cursor::of(CHAT, cursor), serde_json::to_string(&Event::from(&event)).unwrap());
                assert_eq!(String::from_utf8(out).unwrap(), format!("event: delta\nid: {id}\ndata: {data}\n\n"));
            }
        }
    }

    #[test]
    fn everything_else_is_written_too_one_behind_the_other() {
        let mut out = Vec::new();
        write(&mut out, CHAT, &row(Delta::Ended), None);
        write(&mut out, CHAT, &view::Event::Rewound(everturn::core::ids::MessageId(7)), None);
        let told = "event: delta\ndata: {\"step\":3,\"n\":4,\"at\":5,\"kind\":\"ended\"}\n\n\
            event: rewound\ndata: {\"from\":7}\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), told);
    }
}
