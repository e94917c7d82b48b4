//! Trouble in process: a function from script to script.

use std::time::Duration;

use everturn_core::delta::Delta;
use everturn_core::error::{Cause, ErrorKind};

use super::{Break, CHATTER, FaultKind, FaultPoint, StreamFault};
use crate::cue::{Cue, Script, cut, fail, hang, ping, raw, refuse, reset, text};
use crate::said::SentAnswer;

/// Longer than any request waits for headers that never come.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What is played in place of an answer, if the trouble leaves none.
pub(crate) fn instead(trouble: FaultKind) -> Option<Script> {
    match trouble {
        FaultKind::Refuse { status, after } => {
            let refusal = refuse(status);
            Some(vec![after.map_or_else(|| refusal.clone(), |seconds| refusal.clone().retry_after(seconds))])
        }
        FaultKind::Silent => Some(vec![Cue::Slow(NEVER)]),
        FaultKind::Html => Some(vec![raw("<html>")]),
        FaultKind::Empty => Some(vec![cut()]),
        FaultKind::Redirect => Some(vec![refuse(307)]),
        FaultKind::Late(_)
        | FaultKind::Ends { .. }
        | FaultKind::Slow(_)
        | FaultKind::Drip
        | FaultKind::Odd
        | FaultKind::HangUp => None,
    }
}

/// What becomes of a script under this trouble.
pub(crate) fn befall(trouble: FaultKind, script: Script) -> Script {
    match trouble {
        FaultKind::Late(time) => [vec![Cue::Slow(time)], script].concat(),
        FaultKind::Slow(time) => single(script).flat_map(|cue| slowed(cue, time)).collect(),
        FaultKind::Drip => single(script).flat_map(dripped).collect(),
        FaultKind::Ends { how, at } => ended(script, how, at),
        FaultKind::Refuse { .. }
        | FaultKind::Silent
        | FaultKind::Html
        | FaultKind::Empty
        | FaultKind::Redirect
        | FaultKind::Odd
        | FaultKind::HangUp => script,
    }
}

/// This script with one delta per cue.
fn single(script: Script) -> impl Iterator<Item = Cue> {
    script.into_iter().flat_map(|cue| match cue {
        Cue::Say(deltas) => deltas.into_iter().map(|delta| Cue::Say(vec![delta])).collect(),
        other => vec![other],
    })
}

fn slowed(cue: Cue, time: Duration) -> Vec<Cue> {
    if matches!(cue, Cue::Say(_)) { vec![Cue::Wait(time), cue] } else { vec![cue] }
}

fn dripped(cue: Cue) -> Vec<Cue> {
    match &cue {
        Cue::Say(deltas) if let [Delta::Text(words)] = deltas.as_slice() => {
            words.chars().map(|letter| text(letter.to_string())).collect()
        }
        _ => vec![cue],
    }
}

/// The script up to where the trouble begins, then the trouble.
fn ended(script: Script, how: StreamFault, at: FaultPoint) -> Script {
    let (mut before, mut said) = (Vec::new(), SentAnswer::default());
    let (mut events, mut bytes) = (0, 0);
    for cue in single(script) {
        let Cue::Say(deltas) = &cue else {
            before.push(cue);
            continue;
        };
        for delta in deltas {
            said.push(delta);
            let len = spoken(delta).len() as u64;
            let piece = match at {
                FaultPoint::Event(event) if events >= event => Some(None),
                FaultPoint::Byte(byte) if bytes + len >= byte => Some(piece(delta, (byte - bytes) as usize)),
                _ if at.is_in(&said, delta) => Some(Some(cue.clone())),
                _ => None,
            };
            if let Some(piece) = piece {
                before.extend(piece);
                before.extend(how.cues());
                return before;
            }
            events += 1;
            bytes += len;
        }
        before.push(cue);
    }
    before
}

fn spoken(delta: &Delta) -> &str {
    match delta {
        Delta::Text(text) | Delta::Reasoning(text) | Delta::CallInput { json: text, .. } => text,
        _ => "",
    }
}

/// The first bytes of a delta, in whole characters.
fn piece(delta: &Delta, bytes: usize) -> Option<Cue> {
    let spoken = spoken(delta);
    let first = spoken[..spoken.floor_char_boundary(bytes)].to_owned();
    let delta = match delta {
        _ if first.is_empty() => return None,
        Delta::Reasoning(_) => Delta::Reasoning(first),
        Delta::CallInput { slot, .. } => Delta::CallInput { slot: *slot, json: first },
        _ => Delta::Text(first),
    };
    Some(Cue::Say(vec![delta]))
}

impl StreamFault {
    fn cues(self) -> Vec<Cue> {
        match self {
            Self::Cut => vec![cut()],
            Self::Broken(Break::Closed) => vec![fail(ErrorKind::Truncated, Cause::Truncated)],
            Self::Broken(Break::Reset) => vec![reset()],
            Self::Broken(Break::GoAway) => vec![fail(ErrorKind::Timeout, Cause::GoAway)],
            Self::Stall => vec![hang()],
            Self::Chatter => {
                let signs = (0..CHATTER.1).flat_map(|_| [ping(), Cue::Wait(CHATTER.0)]);
                signs.chain([hang()]).collect()
            }
            Self::Malformed | Self::Line | Self::Event | Self::Flood => vec![raw("data: gibber")],
            Self::Error => vec![fail(ErrorKind::Overloaded, Cause::ServerError)],
        }
    }
}

#[cfg(test)]
mod tests {
    use everturn_core::message::Stop;

    use super::super::Fault;
    use super::*;
    use crate::cue::{call, script, stop, words};

    /// What a script says, and what it does beside that.
    fn told(fault: &str) -> String {
        let plain = script([words("t1 t2 t3"), call("look", serde_json::json!({"q": 1})), stop(Stop::ToolUse)]);
        let fault: Fault = fault.parse().unwrap();
        let played = instead(fault.trouble).unwrap_or_else(|| befall(fault.trouble, plain));
        let told = played.iter().map(|cue| match cue {
            Cue::Say(deltas) => deltas.iter().map(spoken).collect::<String>(),
            Cue::Slow(time) | Cue::Wait(time) => format!("~{}~", time.as_millis()),
            Cue::Stop(_) => ".".into(),
            Cue::Fail(error) => format!("!{:?}", error.cause),
            Cue::Raw(_) => "?".into(),
            Cue::Cut => "|".into(),
            Cue::Hang => "∞".into(),
            Cue::Ping => "p".into(),
        });
        told.collect()
    }

    /// C9: a fault that is named in the model is the same trouble without a wire.
    #[test]
    fn scripts_break_where_the_name_says() {
        for (fault, heard) in [
            ("cut@2", "t1 t2 |"),
            ("truncate@1", "t1 !Truncated"),
            ("reset-at-byte@4", "t1 t!Reset"),
            ("stall-at-word@2", "t1 t2 ∞"),
            ("cut-at-input@1", "t1 t2 t3{\"q|"),
            ("goaway@0", "!GoAway"),
            ("error@1", "t1 !ServerError"),
            ("malformed@1", "t1 ?"),
            ("late@7", "~7~t1 t2 t3{\"q\":1}."),
            ("hangup", "t1 t2 t3{\"q\":1}."),
            ("cut@99", "t1 t2 t3{\"q\":1}."),
            ("429@7", "!Refused"),
            ("empty", "|"),
            ("html", "?"),
        ] {
            assert_eq!(told(fault), heard, "{fault}");
        }
        assert!(told("slow@3").starts_with("~3~t1 ~3~t2 "), "{}", told("slow@3"));
        assert!(told("chatter@1").starts_with("t1 p~20~p~20~"));
        assert!(told("silent").starts_with('~'));
    }
}
