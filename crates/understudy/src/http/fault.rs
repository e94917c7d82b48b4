//! Trouble with a response: a function from what happens on a connection to what happens on it instead.

mod odd;

use std::time::Duration;

use bytes::Bytes;

use super::act::{Act, MALFORMED};
use crate::fault::{CHATTER, FaultKind, FaultPoint, StreamFault};
use crate::said::SentAnswer;

impl FaultKind {
    /// What becomes of a response under this trouble. `says` gives the events of the wire for a sign of life and for an
    /// error.
    pub(super) fn befall(&self, acts: Vec<Act>, says: &Says) -> Vec<Act> {
        match *self {
            Self::Ends { how, at } => end(acts, how, at, says),
            Self::Slow(time) => acts.into_iter().flat_map(|act| slowed(act, time)).collect(),
            Self::Drip => acts.into_iter().flat_map(dripped).collect(),
            Self::Odd => odd::stream(acts),
            Self::Refuse { .. }
            | Self::Late(_)
            | Self::Silent
            | Self::Html
            | Self::Empty
            | Self::Redirect
            | Self::HangUp => acts,
        }
    }
}

/// How a wire says two things that faults need.
#[derive(Debug, Clone, Default)]
pub(super) struct Says {
    pub ping: Vec<Act>,
    pub error: Vec<Act>,
}

fn slowed(act: Act, time: Duration) -> Vec<Act> {
    match act {
        Act::Frame(_) => vec![Act::Wait(time), act],
        Act::Once(acts) => vec![Act::Once(acts.into_iter().flat_map(|act| slowed(act, time)).collect())],
        other => vec![other],
    }
}

fn dripped(act: Act) -> Vec<Act> {
    match act {
        Act::Frame(bytes) => (0..bytes.len()).map(|at| Act::Frame(bytes.slice(at..=at))).collect(),
        Act::Once(acts) => vec![Act::Once(acts.into_iter().flat_map(dripped).collect())],
        other => vec![other],
    }
}

/// What went on elsewhere is still there after it: a generation in the background does not notice.
fn end(acts: Vec<Act>, how: StreamFault, at: FaultPoint, says: &Says) -> Vec<Act> {
    let (mut ended, mut happened, mut events, mut bytes) = (Vec::new(), false, 0, 0);
    let mut said = SentAnswer::default();
    for act in acts {
        if let (Act::Said(delta), false) = (&act, happened) {
            said.push(delta);
            if at.is_in(&said, delta) {
                ended.push(act);
                ended.push(Act::Once(how.acts(says)));
                happened = true;
                continue;
            }
        }
        if let (Act::Frame(frame), false) = (&act, happened) {
            let reached = match at {
                FaultPoint::Event(event) => (events >= event).then_some(0),
                FaultPoint::Byte(byte) => (bytes + frame.len() as u64 >= byte).then(|| (byte - bytes) as usize),
                FaultPoint::Word(_) | FaultPoint::Thought(_) | FaultPoint::Input(_) => None,
            };
            if let Some(left) = reached {
                let piece = (left > 0).then(|| Act::Frame(frame.slice(..left)));
                ended.push(Act::Once(piece.into_iter().chain(how.acts(says)).collect()));
                happened = true;
            }
            events += 1;
            bytes += frame.len() as u64;
        }
        ended.push(act);
    }
    ended
}

impl StreamFault {
    fn acts(self, says: &Says) -> Vec<Act> {
        match self {
            Self::Cut => vec![Act::End],
            Self::Broken(how) => vec![Act::Break(how)],
            Self::Stall => vec![Act::Hang],
            Self::Chatter => {
                let one = || says.ping.iter().cloned().chain([Act::Wait(CHATTER.0)]);
                (0..CHATTER.1).flat_map(|_| one()).chain([Act::Hang]).collect()
            }
            Self::Malformed => vec![Act::Frame(MALFORMED.into()), Act::End],
            Self::Error => says.error.iter().cloned().chain([Act::End]).collect(),
            Self::Line => endless(b"data: ", b"x"),
            Self::Event => endless(b"", &[b"data: ".as_slice(), &[b'x'; 250], b"\n"].concat()),
            Self::Flood => {
                let ping = says.ping.iter().filter_map(|act| match act {
                    Act::Frame(bytes) => Some(bytes.as_ref()),
                    _ => None,
                });
                endless(b"", &ping.collect::<Vec<_>>().concat())
            }
        }
    }
}

/// An endless repetition: 100 MiB in pieces of 64 KiB that share their bytes.
fn endless(begin: &'static [u8], what: &[u8]) -> Vec<Act> {
    const PIECE: usize = 64 << 10;
    const PIECES: usize = (100 << 20) / PIECE;
    let piece = Bytes::from(what.repeat(PIECE / what.len().max(1)));
    let pieces = std::iter::repeat_n(Act::Frame(piece), PIECES);
    [Act::Frame(begin.into())].into_iter().chain(pieces).chain([Act::End]).collect()
}

#[cfg(test)]
mod tests;
