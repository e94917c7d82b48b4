//! What holds of any bytes as an event stream.

use bytes::Bytes;
use everturn_providers::sse::{Decoder, Overlong, SseBounds};
use sse_core::{SseDecoder, SseEvent};

use super::dice::Dice;

/// Room for everything a fuzzer sends.
const WIDE: SseBounds = SseBounds { line_bytes_max: 1 << 20, frame_bytes_max: 4 << 20, response_bytes_max: 32 << 20 };

/// An event that owns what it says: name, data, id.
type Seen = (String, String, String);

/// Checks that another parser sees the same events, that cuts change nothing, and that no bound is passed.
pub fn hold(bytes: &[u8]) {
    let mut dice = Dice::of(bytes);
    let whole = read(WIDE, [bytes]);
    assert_eq!(whole.1, Ok(()));
    if !has_error_field(bytes) {
        assert_eq!(whole.0.iter().cloned().map(named).collect::<Vec<_>>(), oracle(bytes), "another parser disagrees");
    }
    cuts_change_nothing(WIDE, bytes, &whole, &mut dice);
    let line_bytes_max = 1 + dice.below(40);
    let frame_bytes_max = line_bytes_max + dice.below(40);
    let tight = SseBounds { line_bytes_max, frame_bytes_max, response_bytes_max: frame_bytes_max + dice.below(400) };
    let bounded = read(tight, [bytes]);
    assert!(whole.0.starts_with(&bounded.0), "a bound changes what came before it");
    assert!(bounded.1.is_err() || bounded == whole, "a bound that says nothing");
    // Each of up to three bytes that are no UTF-8 is told as a character of three.
    let within = |(name, data, id): &Seen| {
        name.len() <= 3 * line_bytes_max && id.len() <= 3 * line_bytes_max && data.len() <= frame_bytes_max
    };
    assert!(bounded.0.iter().all(within), "an event beyond its bound");
    cuts_change_nothing(tight, bytes, &bounded, &mut dice);
}

/// A field that is not of the standard, and that we read.
fn has_error_field(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.any(|line| line == b"error" || line.starts_with(b"error:"))
}

fn cuts_change_nothing(bounds: SseBounds, bytes: &[u8], whole: &(Vec<Seen>, Result<(), Overlong>), dice: &mut Dice) {
    assert_eq!(&read(bounds, bytes.chunks(1)), whole, "byte by byte");
    let pieces = dice.cut(bytes);
    assert_eq!(&read(bounds, pieces.iter().copied()), whole, "in the pieces {pieces:?}");
}

fn read<'b>(bounds: SseBounds, pieces: impl IntoIterator<Item = &'b [u8]>) -> (Vec<Seen>, Result<(), Overlong>) {
    let mut decoder = Decoder::new(bounds);
    let mut seen = Vec::new();
    let end = pieces.into_iter().try_for_each(|piece| {
        decoder.push(piece, |event| {
            seen.push((event.name.to_owned(), event.data.to_owned(), event.id.to_owned()));
            Ok(())
        })
    });
    (seen, end)
}

/// The standard calls an event without a name a message.
fn named((name, data, id): Seen) -> Seen {
    (if name.is_empty() { "message".to_owned() } else { name }, data, id)
}

fn oracle(bytes: &[u8]) -> Vec<Seen> {
    let mut decoder = SseDecoder::new();
    let mut bytes = Bytes::copy_from_slice(bytes);
    let mut seen = Vec::new();
    while let Some(event) = decoder.next(&mut bytes) {
        if let SseEvent::Message(message) = event.expect("a fuzzer's input is within any bound") {
            let id = message.last_event_id.map(|id| id.to_string()).unwrap_or_default();
            seen.push((message.event.to_string(), message.data, id));
        }
    }
    seen
}
