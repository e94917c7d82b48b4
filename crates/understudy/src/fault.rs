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
//!
//! In process there are no bytes: an event is a delta, bytes are those of what is said, and `odd` and `hangup`, which differ
//! only on a connection, change nothing.

mod cues;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use everturn_core::delta::Delta;

pub(crate) use cues::{befall, instead};

#[cfg(feature = "http")]
use crate::dice::SeededDice;
use crate::said::SentAnswer;

/// Where in the model's name faults begin.
const MARK: &str = "faults:";
/// Where a fault happens that does not say.
const EVENTS: u64 = 4;
/// How slow is slow.
const SLOW_MS: u64 = 20;
/// How far apart signs of life are, and how many there are.
pub(crate) const CHATTER: (Duration, usize) = (Duration::from_millis(20), 3_000);

/// One kind of trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(crate) trouble: FaultKind,
    /// How often it happens to one model before it stops; always if none.
    pub(crate) times: Option<u32>,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    Refuse { status: u16, after: Option<u64> },
    Late(Duration),
    Silent,
    Html,
    Empty,
    Redirect,
    Ends { how: StreamFault, at: FaultPoint },
    Slow(Duration),
    Drip,
    Odd,
    HangUp,
}

/// How a connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// Closed in the middle of the body: no last chunk in HTTP/1.1, `RST_STREAM` in HTTP/2.
    Closed,
    /// `RST` on the TCP connection.
    Reset,
    /// `GOAWAY` in HTTP/2, then closed; in HTTP/1.1 closed.
    GoAway,
}

/// How a stream goes wrong once it has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFault {
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
pub(crate) enum FaultPoint {
    Event(u64),
    Byte(u64),
    Word(u64),
    Thought(u64),
    Input(u64),
}

/// An unknown fault.
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
        let trouble = FaultKind::named(name, number).ok_or_else(unknown)?;
        Ok(Self { trouble, times, name: text.into() })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FaultKind {
    fn named(name: &str, number: Option<u64>) -> Option<Self> {
        if let Ok(status) = name.parse::<u16>() {
            return (300..600).contains(&status).then_some(Self::Refuse { status, after: number });
        }
        let millis = Duration::from_millis(number.unwrap_or(SLOW_MS));
        let (how, at) = match (name.split_once("-at-"), number) {
            (Some((how @ ("cut" | "truncate" | "reset" | "goaway" | "stall"), what)), Some(number)) => {
                (how, FaultPoint::named(what, number)?)
            }
            (Some(_), _) => return None,
            (None, number) => (name, FaultPoint::Event(number.unwrap_or(EVENTS))),
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
            "cut" => StreamFault::Cut,
            "truncate" => StreamFault::Broken(Break::Closed),
            "reset" => StreamFault::Broken(Break::Reset),
            "goaway" => StreamFault::Broken(Break::GoAway),
            "stall" => StreamFault::Stall,
            "chatter" => StreamFault::Chatter,
            "malformed" => StreamFault::Malformed,
            "error" => StreamFault::Error,
            "line" => StreamFault::Line,
            "event" => StreamFault::Event,
            "flood" => StreamFault::Flood,
            _ => return None,
        };
        Some(Self::Ends { how, at })
    }
}

impl FaultPoint {
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

/// How often each fault has happened to each model.
#[derive(Debug, Default)]
pub(crate) struct Happened(BTreeMap<(String, String), u32>);

impl Happened {
    /// Those of the faults that happen to the next request for this model: one with a count stops after so many.
    pub(crate) fn next(&mut self, model: &str, mut faults: Vec<Fault>) -> Vec<Fault> {
        faults.retain(|fault| {
            let Some(times) = fault.times else { return true };
            let count = self.0.entry((model.into(), fault.to_string())).or_default();
            *count += 1;
            *count <= times
        });
        faults
    }
}

/// The faults in a model's name.
///
/// # Errors
/// If one of them is unknown.
pub(crate) fn of_model(model: &str) -> Result<Vec<Fault>, UnknownFault> {
    let Some((_, faults)) = model.split_once(MARK) else { return Ok(Vec::new()) };
    faults.split('+').filter(|fault| !fault.is_empty()).map(str::parse).collect()
}

/// A fault by chance.
#[cfg(feature = "http")]
pub(crate) fn any(dice: &mut SeededDice) -> Fault {
    const NAMES: [&str; 11] =
        ["429", "500", "529", "cut", "truncate", "reset", "goaway", "malformed", "error", "slow", "cut-at-byte"];
    let name = NAMES[dice.below(NAMES.len() as u64) as usize];
    let number = 1 + dice.below(if name.ends_with("byte") { 4_000 } else { 40 });
    let text = if name.len() == 3 && name != "cut" { name.to_string() } else { format!("{name}@{number}") };
    let trouble = if text.contains('@') { FaultKind::named(name, Some(number)) } else { FaultKind::named(name, None) };
    Fault { trouble: trouble.unwrap_or(FaultKind::Drip), times: None, name: text }
}

impl FaultPoint {
    /// Whether it is here, where `delta` was the last thing of all that was said.
    pub(crate) fn is_in(self, said: &SentAnswer, delta: &Delta) -> bool {
        let words = |text: &str| text.split_whitespace().count() as u64;
        match (self, delta) {
            (Self::Word(word), Delta::Text(_)) => words(&said.text) >= word,
            (Self::Thought(word), Delta::Reasoning(_)) => words(&said.thoughts) >= word,
            (Self::Input(call), Delta::CallInput { .. }) => said.calls.len() as u64 >= call,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        for name in [
            "429",
            "529x3",
            "429@7x2",
            "cut",
            "cut@137",
            "reset-at-byte@4711",
            "stall-at-word@12x1",
            "cut-at-input@2",
            "cut-at-thought@3",
            "slow@5",
            "drip",
            "html",
            "stall@0",
            "odd",
            "line@3x1",
            "hangup",
        ] {
            let fault: Fault = name.parse().unwrap();
            assert_eq!(fault.to_string(), name);
        }
        assert_eq!("429@7x2".parse::<Fault>().unwrap().times, Some(2));
        assert_eq!("429@7".parse::<Fault>().unwrap().trouble, FaultKind::Refuse { status: 429, after: Some(7) });
        for name in
            ["", "cuts", "cut@", "cut@x", "9", "200", "slow-at-byte@3", "reset-at-byte", "cut-at-line@3", "cut@-1"]
        {
            assert!(name.parse::<Fault>().is_err(), "{name}");
        }
        assert_eq!(of_model("claude").unwrap(), []);
        assert_eq!(of_model("numbered-faults:cut@1+slow").unwrap().len(), 2);
    }

    #[cfg(feature = "http")]
    #[test]
    fn chance_is_repeatable() {
        let throw =
            |seed| (0..20).scan(SeededDice::new(seed), |dice, _| Some(any(dice).to_string())).collect::<Vec<_>>();
        assert_eq!(throw(3), throw(3));
        assert_ne!(throw(3), throw(4));
        assert!(throw(3).iter().all(|name| name.parse::<Fault>().is_ok()), "{:?}", throw(3));
    }
}
