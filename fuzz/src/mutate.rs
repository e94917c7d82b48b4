//! Streams that are nearly right.
//!
//! Bytes changed at random are mostly no JSON any more, and every decoder refuses those alike. What finds mistakes is an
//! answer that is well formed and says something odd: an event twice, out of order or missing, a number that is huge, a
//! text where an object should be. So whole events and whole JSON values are changed, and single bytes now and then.

use super::dice::Dice;

/// Values to put where another was.
const VALUES: [&str; 22] = [
    "null",
    "true",
    "0",
    "1",
    "-1",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "1e400",
    "0.5",
    "\"\"",
    "\"x\"",
    "\"1\"",
    "\"\\ud800\"",
    "\"\\u0000\"",
    "\"{}\"",
    "\"{\\\"a\\\":[1\"",
    "{}",
    "{\"a\":1}",
    "[]",
    "[0,0,0]",
    "[[[[[[[[]]]]]]]]",
];

/// Bytes that mean something to a parser of event streams.
const MARKS: [&[u8]; 16] = [
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\0",
    b":",
    b": ",
    b"data",
    b"data: ",
    b"event: error\n",
    b"id: 7\n",
    b"retry: 1\n",
    b"data: [DONE]\n\n",
    b"data: {}\n\n",
];

/// The stream with one to four things changed. `other` is a stream to take events from.
#[must_use]
pub fn mutated(bytes: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.below(4) {
        bytes = match dice.below(8) {
            0..=2 => values(&bytes, dice),
            3..=5 => events(&bytes, other, dice),
            6 => marks(bytes, dice),
            _ => stray(bytes, dice),
        };
    }
    bytes
}

/// One JSON value becomes another, from the list or from elsewhere in the stream, or goes away with its key.
fn values(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let spans = spans(bytes);
    let (Some(&(from, to)), Some(&(other_from, other_to))) =
        (spans.get(dice.below(spans.len())), spans.get(dice.below(spans.len())))
    else {
        return bytes.to_vec();
    };
    let new = match dice.below(3) {
        0 => &bytes[other_from..other_to],
        _ => dice.pick(&VALUES).as_bytes(),
    };
    [&bytes[..from], new, &bytes[to..]].concat()
}

/// Where JSON values stand, roughly: behind a colon or a comma, up to where the nesting is even again.
fn spans(bytes: &[u8]) -> Vec<(usize, usize)> {
    let begins = |pair: &[u8]| matches!(pair[0], b':' | b',' | b'[') && !pair[1].is_ascii_whitespace();
    let starts = bytes.windows(2).enumerate().filter(|(_, pair)| begins(pair)).map(|(at, _)| at + 1);
    starts.map(|from| (from, from + value_len(&bytes[from..]))).collect()
}

fn value_len(bytes: &[u8]) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'\n' => return at,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    bytes.len()
}

/// An event goes away, comes twice, changes places, or comes from the other stream.
fn events(bytes: &[u8], other: &[u8], dice: &mut Dice) -> Vec<u8> {
    let (mut events, foreign) = (split(bytes), split(other));
    let (at, to) = (dice.below(events.len()), dice.below(events.len() + 1));
    match dice.below(4) {
        0 => drop(events.remove(at)),
        1 => events.insert(to, events[at]),
        2 => {
            let event = events.remove(at);
            events.insert(to.min(events.len()), event);
        }
        _ => events.insert(to, foreign[dice.below(foreign.len())]),
    }
    events.concat()
}

/// The events, each with the empty line behind it. There is always one, if only an empty one.
fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let mut events = Vec::new();
    let mut from = 0;
    for at in 1..bytes.len() {
        if bytes[at - 1..=at] == *b"\n\n" {
            events.push(&bytes[from..=at]);
            from = at + 1;
        }
    }
    events.push(&bytes[from..]);
    events
}

fn marks(mut bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let at = dice.below(bytes.len() + 1);
    bytes.splice(at..at, dice.pick(&MARKS).iter().copied());
    bytes
}

fn stray(mut bytes: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let (at, byte) = (dice.below(bytes.len()), dice.below(256) as u8);
    match (bytes.get_mut(at), dice.below(3)) {
        (Some(one), 0) => *one = byte,
        (Some(_), 1) => bytes.truncate(at),
        (Some(_), _) => drop(bytes.drain(at..(at + dice.below(16)).min(bytes.len()))),
        (None, _) => bytes.push(byte),
    }
    bytes
}
