//! Output of a turn, as text or as lines of JSON.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};

use everturn_server::wire::{Body, Event, Increment, Message, Part, Snapshot, Standing};

use crate::clock;
use crate::output::{self, Asides};
use crate::render::{duration, newest_line, recovered, said};
use crate::terminal::visible;

/// A receiver of the events of a turn.
pub trait TurnOutput {
    /// Receives events that belong together.
    fn events(&mut self, events: &[Event]) -> io::Result<()>;
}

/// Prints the text of the answer as it becomes durable, each word once, through every reconnect.
pub struct Words<W> {
    out: W,
    /// The prompt, until it appears in the chat: answers before it belong to other messages.
    asked: Option<String>,
    /// The newest message that was processed.
    newest: u64,
    /// The step of the newest reply: its draft is over.
    replied: Option<u64>,
    /// The printed part of the arriving answer.
    printed: String,
    /// Whether the last printed line has no newline.
    is_open: bool,
    is_terminal: bool,
    asides: Asides,
    /// The number of the newest attempt, and the announced time of the next.
    attempt: u32,
    waits: Option<i64>,
    /// The newest progress line per running call.
    progress: BTreeMap<String, String>,
}

impl<W: Write + IsTerminal> Words<W> {
    /// A printer for the answer to a prompt that follows message `before`.
    pub fn new(out: W, asked: &str, before: u64, asides: Asides) -> Self {
        let is_terminal = out.is_terminal();
        Self {
            out,
            asked: Some(asked.into()),
            newest: before,
            replied: None,
            printed: String::new(),
            is_open: false,
            is_terminal,
            asides,
            attempt: 0,
            waits: None,
            progress: BTreeMap::new(),
        }
    }
}

impl<W: Write> Words<W> {
    fn print(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.is_open = !text.ends_with('\n');
        // A pipe gets the text byte for byte; a terminal gets no control sequences.
        let text = if self.is_terminal { visible(text) } else { text.into() };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints the part of the answer that was not printed yet.
    fn rest(&mut self, whole: &str) -> io::Result<()> {
        if !whole.starts_with(&self.printed) {
            self.retract()?;
        }
        let seen = self.printed.len();
        self.printed = whole.into();
        self.print(&whole[seen..])
    }

    /// Notes that the printed part of the answer no longer counts.
    fn retract(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.printed).is_empty() {
            return Ok(());
        }
        self.end_line()?;
        self.asides.say("the answer broke off and begins again");
        Ok(())
    }

    /// Prints a note beside the answer, on a line of its own.
    fn aside(&self, words: &str) {
        if self.asides == Asides::On && self.is_terminal && self.is_open {
            output::sign(format_args!("\n"));
        }
        self.asides.say(words);
    }

    /// Notes each wait for the next attempt and each new progress of a tool, once.
    fn standing(&mut self, standing: &Standing) {
        if self.asked.is_some() {
            return;
        }
        self.progress.retain(|call, _| standing.progress.iter().any(|told| told.call == *call));
        for told in &standing.progress {
            let Some(newest) = newest_line(&told.text) else { continue };
            if self.progress.insert(told.call.clone(), newest.into()).is_none_or(|before| before != newest) {
                self.aside(&format!("{}: {newest}", told.tool));
            }
        }
        let Some(retry) = &standing.retry else { return };
        if self.waits.replace(retry.until) != Some(retry.until) {
            let wait = duration((retry.until - clock::now() + 999) / 1000 * 1000);
            self.aside(&format!("{}; attempt {} in {wait}", retry.message, retry.attempt + 1));
        }
    }

    fn message(&mut self, message: &Message) -> io::Result<()> {
        if message.id <= self.newest {
            return Ok(()); // Processed before a reset.
        }
        self.newest = message.id;
        match &message.body {
            Body::User { parts, .. } if self.asked.is_some() => {
                self.asked = self.asked.take().filter(|asked| said(parts) != *asked);
            }
            // A reply replaces its draft: it holds the text that did not arrive as deltas.
            Body::Reply(reply) if self.asked.is_none() => {
                self.rest(&reply.parts.iter().filter_map(Part::text).collect::<String>())?;
                self.replied = Some(reply.step);
                self.printed.clear();
                self.end_line()?;
                if let Some(recovered) = recovered(reply, std::mem::take(&mut self.attempt)) {
                    self.aside(&recovered);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Applies a snapshot; text printed before is not printed again.
    fn reset(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        for message in &snapshot.messages {
            self.message(message)?;
        }
        self.standing(&snapshot.status);
        match snapshot.draft.as_ref().filter(|draft| self.replied != Some(draft.step)) {
            Some(draft) if self.asked.is_none() => {
                self.rest(&draft.parts.iter().filter_map(Part::text).collect::<String>())
            }
            _ => self.retract(),
        }
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_open) {
            self.out.write_all(b"\n").and_then(|()| self.out.flush())
        } else {
            Ok(())
        }
    }
}

impl<W: Write> TurnOutput for Words<W> {
    fn events(&mut self, events: &[Event]) -> io::Result<()> {
        for event in events {
            match event {
                Event::Delta(delta) => match &delta.what {
                    Increment::Text { text } if self.asked.is_none() => {
                        self.print(text)?;
                        self.printed.push_str(text);
                    }
                    Increment::Attempt(began) if self.asked.is_none() => self.attempt = began.number,
                    Increment::RetractAll => self.retract()?,
                    _ => {}
                },
                Event::Message(message) => self.message(message)?,
                Event::Reset(snapshot) => self.reset(snapshot)?,
                Event::Rewound(rewound) => {
                    self.newest = self.newest.min(rewound.from.saturating_sub(1));
                    self.retract()?;
                }
                Event::Status(standing) => self.standing(standing),
            }
        }
        Ok(())
    }
}

/// Prints every event as one line of JSON.
pub struct Lines<W> {
    out: W,
    is_terminal: bool,
}

impl<W: Write + IsTerminal> Lines<W> {
    pub fn new(out: W) -> Self {
        let is_terminal = out.is_terminal();
        Self { out, is_terminal }
    }
}

impl<W: Write> Lines<W> {
    /// Prints one line.
    pub fn line(&mut self, event: &str, data: &impl serde::Serialize) -> io::Result<()> {
        let line = serde_json::json!({"event": event, "data": data}).to_string();
        let line = if self.is_terminal { visible::json(&line) } else { line.into() };
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }
}

impl<W: Write> TurnOutput for Lines<W> {
    fn events(&mut self, events: &[Event]) -> io::Result<()> {
        events.iter().try_for_each(|event| self.line(event.name(), event))
    }
}

#[cfg(test)]
mod tests;
