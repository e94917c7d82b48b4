//! Writes a repaired session in the lines of its own file.
//!
//! Programs that store a session as lines resume from such a file, not from an array of messages. So where a
//! repair only adds, moves or removes whole entries, the file is written again line by line: healthy lines
//! stay byte for byte, missing entries are added in the file's format. The result is parsed again to verify
//! it. A session whose entries would have to be changed inside is left to the caller.

mod entry;

use std::collections::BTreeMap;
use std::sync::Arc;

use everturn::core::doctor::foreign::{ForeignSession, SessionFormat, read};
use everturn::core::doctor::{Repaired, TranscriptOrigin, repair};
use everturn::core::ids::Timestamp;
use everturn::core::message::{Body, CallResult, Message};
use serde_json::Value;

use entry::Maker;

/// The repaired session as a file, if its own format can express it.
pub(super) fn written(bytes: &[u8], session: &ForeignSession, repaired: &Repaired) -> Option<Vec<u8>> {
    if !matches!(session.format, SessionFormat::ClaudeCode | SessionFormat::Codex) {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let sheet = Sheet::new(text, session)?;
    let mended = sheet.mend(&Plan::of(session, repaired)?, repaired)?;
    is_mended(&mended, repaired).then(|| mended.into_bytes())
}

/// Whether a file holds exactly the repaired messages, without flaws.
fn is_mended(text: &str, repaired: &Repaired) -> bool {
    let Ok(session) = read(text.as_bytes(), Timestamp(0)) else { return false };
    let same = |(one, other): (&Arc<Message>, &Arc<Message>)| says_the_same(&one.body, &other.body);
    session.messages.len() == repaired.messages.len()
        && session.messages.iter().zip(&repaired.messages).all(same)
        && repair(&session.messages, TranscriptOrigin::Foreign).is_healthy()
}

/// Whether two messages have the same content. Other programs' formats have no field for our notes, nor for
/// an unknown outcome of a call: there the call has failed, and its text says why.
fn says_the_same(one: &Body, other: &Body) -> bool {
    match (one, other) {
        (Body::Result(one), Body::Result(other)) => one.call == other.call && one.output == other.output,
        (one, other) => one == other,
    }
}

/// Where each message goes.
struct Plan {
    /// Per message of the session: whether it stays where it is.
    stays: Vec<bool>,
    /// Insertions after a message that stays, or at the beginning.
    behind: BTreeMap<Option<usize>, Vec<Insert>>,
}

/// An insertion: a message of the repaired session, and the original one, if it was there.
struct Insert {
    message: usize,
    was: Option<usize>,
}

impl Plan {
    /// The plan; `None` if a message has to be changed inside.
    fn of(session: &ForeignSession, repaired: &Repaired) -> Option<Self> {
        let old = &session.messages;
        let mut is_used = vec![false; old.len()];
        let mut plan = Self { stays: vec![false; old.len()], behind: BTreeMap::new() };
        let (mut newest, mut spoken) = (None, 0);
        for (at, message) in repaired.messages.iter().enumerate() {
            let was = (0..old.len()).find(|n| !is_used[*n] && is_it(&old[*n].body, &message.body));
            if let Some(was) = was {
                is_used[was] = true;
            }
            let is_result = matches!(message.body, Body::Result(_));
            match was {
                // Only results move.
                Some(was) if !is_result || spoken_before(old, was) == spoken => {
                    (plan.stays[was], newest) = (true, Some(was));
                    spoken += usize::from(!is_result);
                }
                None if !matches!(message.body, Body::Result(_) | Body::Context(_)) => return None,
                was => plan.behind.entry(newest).or_default().push(Insert { message: at, was }),
            }
        }
        Some(plan)
    }
}

/// Whether a repaired message is this original one.
fn is_it(old: &Body, new: &Body) -> bool {
    let is_same = |one: &CallResult, other: &CallResult| one.verdict == other.verdict && one.tool == other.tool;
    match (old, new) {
        (Body::Result(one), Body::Result(other)) => is_same(one, other) && says_the_same(old, new),
        _ => old == new,
    }
}

/// How many messages that are not results come before one.
fn spoken_before(messages: &[Arc<Message>], at: usize) -> usize {
    messages[..at].iter().filter(|message| !matches!(message.body, Body::Result(_))).count()
}

/// The file as lines.
struct Sheet<'a> {
    lines: Vec<&'a str>,
    values: Vec<Value>,
    format: SessionFormat,
    /// Index of the first line of each message.
    lines_of: Vec<usize>,
}

impl<'a> Sheet<'a> {
    fn new(text: &'a str, session: &ForeignSession) -> Option<Self> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let values =
            lines.iter().map(|line| serde_json::from_str(line.trim_start_matches('\u{feff}')).unwrap_or_default());
        let line_of =
            |message: &Arc<Message>| session.place(message.id)?.checked_sub(1).filter(|line| *line < lines.len());
        let lines_of = session.messages.iter().map(line_of).collect::<Option<_>>()?;
        Some(Self { values: values.collect(), format: session.format, lines_of, lines })
    }

    fn mend(&self, plan: &Plan, repaired: &Repaired) -> Option<String> {
        let mut maker = Maker::new(self.format, &self.values);
        let mut is_left = vec![true; self.lines.len()];
        for (at, line) in self.lines_of.iter().enumerate().filter(|(at, _)| !plan.stays[*at]) {
            let shared = |other: &usize| other == line;
            if self.lines_of.iter().filter(|other| shared(other)).count() > 1 || self.goes_on(at) {
                return None; // A part of a line, or more than one.
            }
            is_left[*line] = false;
        }
        let mut behind: BTreeMap<Option<usize>, Vec<String>> = BTreeMap::new();
        for (anchor, inserts) in &plan.behind {
            for Insert { message, was } in inserts {
                let body = &repaired.messages[*message].body;
                // Pieces of an answer may follow results of other calls; no result precedes its call.
                let line = anchor.map(|at| self.last_line(at)).max(maker.line_of_call(body, &repaired.messages));
                let value = match was {
                    Some(was) => self.values[self.lines_of[*was]].clone(),
                    None => maker.made(body, &repaired.messages, line)?,
                };
                behind.entry(line).or_default().push(maker.linked(value, line).to_string());
            }
        }
        let mut mended = String::new();
        behind.remove(&None).into_iter().flatten().for_each(|made| push(&mut mended, &made));
        for (at, line) in self.lines.iter().enumerate() {
            if is_left[at] {
                mended.push_str(&maker.relinked(line, &self.values[at]));
            }
            behind.remove(&Some(at)).into_iter().flatten().for_each(|made| push(&mut mended, &made));
        }
        Some(mended)
    }

    /// The last line of a message: answers have several.
    fn last_line(&self, at: usize) -> usize {
        let first = self.lines_of[at];
        let next = self.lines_of.iter().copied().filter(|line| *line > first).min().unwrap_or(self.lines.len());
        (first + 1..next)
            .rev()
            .find(|line| entry::is_same_answer(&self.values[first], &self.values[*line]))
            .unwrap_or(first)
    }

    fn goes_on(&self, at: usize) -> bool {
        self.last_line(at) != self.lines_of[at]
    }
}

/// Appends a line, after one that may lack its newline.
fn push(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(number: u32, kind: &str, message: &Value) -> String {
        let line = json!({"type": kind, "uuid": number.to_string(), "sessionId": "s", "isSidechain": false,
            "timestamp": "2026-01-02T03:04:05.678Z", "message": message});
        format!("{line}\n")
    }

    fn asked(number: u32, text: &str) -> String {
        entry(number, "user", &json!({"role": "user", "content": text}))
    }

    fn answered(number: u32, part: &Value) -> String {
        let message = json!({"id": "msg_1", "role": "assistant", "model": "claude-x", "content": [part]});
        entry(number, "assistant", &message)
    }

    fn of(text: &str) -> ForeignSession {
        read(text.as_bytes(), Timestamp(0)).unwrap()
    }

    /// A written file is accepted only if it holds every message, no other, and has no flaw.
    #[test]
    fn a_written_file_is_verified() {
        let call = json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}});
        let text = [asked(1, "List."), answered(2, &call), asked(3, "Well?")].concat();
        let session = of(&text);
        let repaired = repair(&session.messages, TranscriptOrigin::Foreign);
        let written = String::from_utf8(written(text.as_bytes(), &session, &repaired).unwrap()).unwrap();
        assert!(is_mended(&written, &repaired));
        let cut = written.trim_end().rfind('\n').unwrap();
        for other in [&written[..cut], &written.replace("Well?", "What?"), &(written.clone() + &asked(9, "So?")), "{"] {
            assert!(!is_mended(other, &repaired), "{other}");
        }
        let unmended = Repaired { messages: session.messages.clone(), ..repaired };
        assert!(!is_mended(&text, &unmended), "it holds the expected messages, but they have a flaw");
    }

    /// An answer of several lines is not removed by its first line alone.
    #[test]
    fn an_answer_of_several_lines_is_not_removed() {
        let says = |number, text: &str| answered(number, &json!({"type": "text", "text": text}));
        for (text, is_taken) in [
            ([asked(1, "Hello."), says(2, "One."), says(3, "Two.")].concat(), false),
            ([asked(1, "Hello."), says(2, "One.")].concat(), true),
        ] {
            let session = of(&text);
            let repaired = repair(&session.messages, TranscriptOrigin::Foreign);
            let plan = Plan { stays: vec![true, false], behind: BTreeMap::new() };
            let mended = Sheet::new(&text, &session).unwrap().mend(&plan, &repaired);
            assert_eq!(mended, is_taken.then(|| asked(1, "Hello.")));
        }
    }
}
