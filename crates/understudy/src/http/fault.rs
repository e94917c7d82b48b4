//! Trouble by name.
//!
//! A script breaks where its author says so. To break what has no script, name the trouble in the model
//! (`faults:cut@137`), for the whole server (`--fault stall@20`), or leave it to chance and a seed. Several are joined by
//! `+`. Each is `name[@number][xtimes]`:
//!
//! | name | number | what happens |
//! |---|---|---|
//! | `429`, `529`, any status | seconds to wait | the request is refused with that status |
//! | `late` | milliseconds | the headers come late |
//! | `silent` | | the headers never come |
//! | `html`, `empty`, `redirect` | | a page, nothing, or another address in place of a stream |
//! | `cut` | events | the response ends, its answer does not |
//! | `truncate` | events | the connection is closed in the middle of the response |
//! | `reset` | events | the connection is reset |
//! | `goaway` | events | the connection is given up (HTTP/2) |
//! | `stall` | events | nothing more comes |
//! | `chatter` | events | only signs of life come |
//! | `malformed` | events | something comes that is not the protocol |
//! | `error` | events | the provider says in the stream that it failed |
//! | `line`, `event`, `flood` | events | a line, an event, or signs of life without end: 100 MiB of them |
//! | `slow` | milliseconds | every event takes that long |
//! | `drip` | | every byte comes alone |
//! | `odd` | | every event is written in another way that event streams allow |
//! | `hangup` | | the connection is closed once the answer is over, without a word |
//!
//! `cut`, `truncate`, `reset`, `goaway` and `stall` also exist as `…-at-byte`, where the number counts bytes of the body, and
//! as `…-at-word`, `…-at-thought` and `…-at-input`, where it counts words of the answer, words of its thoughts, and calls:
//! they happen as soon as that word, or that call's input, has begun to go out.

mod odd;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use everturn_core::delta::Delta;

use super::act::{Act, Break, MALFORMED};
use super::log::Said;
use crate::dice::Dice;

/// Where in the model's name faults begin.
const MARK: &str = "faults:";
/// Where a fault happens that does not say.
const EVENTS: u64 = 4;
/// How slow is slow.
const SLOW_MS: u64 = 20;
/// How far apart signs of life are, and how many there are.
const CHATTER: (Duration, usize) = (Duration::from_millis(20), 3_000);

/// One kind of trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(super) trouble: Trouble,
    /// How often it happens to one model before it stops; always if none.
    pub(super) times: Option<u32>,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    Refuse { status: u16, after: Option<u64> },
    Late(Duration),
    Silent,
    Html,
    Empty,
    Redirect,
    Ends { how: Ends, at: At },
    Slow(Duration),
    Drip,
    Odd,
    HangUp,
}

/// How a stream goes wrong once it has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Cut,
    Broken(Break),
    Stall,
    Chatter,
    Malformed,
    Error,
    Line,
    Event,
    Flood,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Event(u64),
    Byte(u64),
    Word(u64),
    Thought(u64),
    Input(u64),
}

/// A fault nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no fault {0:?}; there are a status such as 429, late, silent, html, empty, redirect, cut, truncate, reset, \
     goaway, stall, chatter, malformed, error, line, event, flood, slow, drip, odd and hangup, each with @number and \
     xtimes if you like"
)]
pub struct UnknownFault(String);

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        let unknown = || UnknownFault(text.into());
        let (what, times) = match text.rsplit_once('x') {
            Some((what, times)) if !what.is_empty() && times.bytes().all(|byte| byte.is_ascii_digit()) => {
                (what, Some(times.parse().map_err(|_| unknown())?))
            }
            _ => (text, None),
        };
        let (name, number) = match what.split_once('@') {
            Some((name, number)) => (name, Some(number.parse::<u64>().map_err(|_| unknown())?)),
            None => (what, None),
        };
        let trouble = Trouble::named(name, number).ok_or_else(unknown)?;
        Ok(Self { trouble, times, name: text.into() })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Trouble {
    fn named(name: &str, number: Option<u64>) -> Option<Self> {
        if let Ok(status) = name.parse::<u16>() {
            return (300..600).contains(&status).then_some(Self::Refuse { status, after: number });
        }
        let millis = Duration::from_millis(number.unwrap_or(SLOW_MS));
        let (how, at) = match (name.split_once("-at-"), number) {
            (Some((how @ ("cut" | "truncate" | "reset" | "goaway" | "stall"), what)), Some(number)) => {
                (how, At::named(what, number)?)
            }
            (Some(_), _) => return None,
            (None, number) => (name, At::Event(number.unwrap_or(EVENTS))),
        };
        let how = match how {
            "late" => return Some(Self::Late(millis)),
            "slow" => return Some(Self::Slow(millis)),
            "silent" => return Some(Self::Silent),
            "html" => return Some(Self::Html),
            "empty" => return Some(Self::Empty),
            "redirect" => return Some(Self::Redirect),
            "drip" => return Some(Self::Drip),
            "odd" => return Some(Self::Odd),
            "hangup" => return Some(Self::HangUp),
            "cut" => Ends::Cut,
            "truncate" => Ends::Broken(Break::Closed),
            "reset" => Ends::Broken(Break::Reset),
            "goaway" => Ends::Broken(Break::GoAway),
            "stall" => Ends::Stall,
            "chatter" => Ends::Chatter,
            "malformed" => Ends::Malformed,
            "error" => Ends::Error,
            "line" => Ends::Line,
            "event" => Ends::Event,
            "flood" => Ends::Flood,
            _ => return None,
        };
        Some(Self::Ends { how, at })
    }
}

impl At {
    fn named(what: &str, number: u64) -> Option<Self> {
        match what {
            "byte" => Some(Self::Byte(number)),
            "word" => Some(Self::Word(number)),
            "thought" => Some(Self::Thought(number)),
            "input" => Some(Self::Input(number)),
            _ => None,
        }
    }
}

/// The faults in a model's name.
///
/// # Errors
/// If one of them is unknown.
pub(super) fn of_model(model: &str) -> Result<Vec<Fault>, UnknownFault> {
    let Some((_, faults)) = model.split_once(MARK) else { return Ok(Vec::new()) };
    faults.split('+').filter(|fault| !fault.is_empty()).map(str::parse).collect()
}

/// A fault by chance.
pub(super) fn any(dice: &mut Dice) -> Fault {
    const NAMES: [&str; 11] =
        ["429", "500", "529", "cut", "truncate", "reset", "goaway", "malformed", "error", "slow", "cut-at-byte"];
    let name = NAMES[dice.below(NAMES.len() as u64) as usize];
    let number = 1 + dice.below(if name.ends_with("byte") { 4_000 } else { 40 });
    let text = if name.len() == 3 && name != "cut" { name.to_string() } else { format!("{name}@{number}") };
    let trouble = if text.contains('@') { Trouble::named(name, Some(number)) } else { Trouble::named(name, None) };
    Fault { trouble: trouble.unwrap_or(Trouble::Drip), times: None, name: text }
}

impl Trouble {
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
fn end(acts: Vec<Act>, how: Ends, at: At, says: &Says) -> Vec<Act> {
    let (mut ended, mut happened, mut events, mut bytes) = (Vec::new(), false, 0, 0);
    let mut said = Said::default();
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
                At::Event(event) => (events >= event).then_some(0),
                At::Byte(byte) => (bytes + frame.len() as u64 >= byte).then(|| (byte - bytes) as usize),
                At::Word(_) | At::Thought(_) | At::Input(_) => None,
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

impl At {
    /// Whether it is here, where `delta` was the last thing of all that was said.
    fn is_in(self, said: &Said, delta: &Delta) -> bool {
        let words = |text: &str| text.split_whitespace().count() as u64;
        match (self, delta) {
            (Self::Word(word), Delta::Text(_)) => words(&said.text) >= word,
            (Self::Thought(word), Delta::Reasoning(_)) => words(&said.thoughts) >= word,
            (Self::Input(call), Delta::CallInput { .. }) => said.calls.len() as u64 >= call,
            _ => false,
        }
    }
}

impl Ends {
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

/// The same again and again, 100 MiB of it, in pieces of 64 KiB that share their bytes.
fn endless(begin: &'static [u8], what: &[u8]) -> Vec<Act> {
    const PIECE: usize = 64 << 10;
    const PIECES: usize = (100 << 20) / PIECE;
    let piece = Bytes::from(what.repeat(PIECE / what.len().max(1)));
    let pieces = std::iter::repeat_n(Act::Frame(piece), PIECES);
    [Act::Frame(begin.into())].into_iter().chain(pieces).chain([Act::End]).collect()
}

#[cfg(test)]
mod tests;
