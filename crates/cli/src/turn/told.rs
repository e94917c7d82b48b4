//! What a turn prints, as words or as lines of JSON.

use std::io::{self, IsTerminal, Write};

use everturn_server::wire::{Body, Event, Increment, Message, Part, Snapshot, Standing};

use crate::clock;
use crate::output::{self, Asides};
use crate::render::{duration, recovered, said};
use crate::terminal::visible;

/// Whoever is told of a turn as it goes on.
pub trait Told {
    /// Events that belong together.
    fn events(&mut self, events: &[Event]) -> io::Result<()>;
}

/// Prints the words of the answer as they become durable, each once, whatever becomes of the connection.
pub struct Words<W> {
    out: W,
    /// What was asked, until that is heard: answers before it are somebody else's.
    asked: Option<String>,
    /// The newest message that was dealt with.
    newest: u64,
    /// The step of the newest reply: its draft is over.
    replied: Option<u64>,
    /// What was printed of the answer that is arriving.
    printed: String,
    /// Whether the newest line has no end.
    is_open: bool,
    is_terminal: bool,
    asides: Asides,
    /// The number of the newest attempt at the answer, and until when the one after it waits, if that was told.
    attempt: u32,
    waits: Option<i64>,
}

impl<W: Write + IsTerminal> Words<W> {
    /// Prints the answer to this, which is said behind this message.
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
        }
    }
}

impl<W: Write> Words<W> {
    fn print(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.is_open = !text.ends_with('\n');
        // A pipe gets what was said, to the byte; a terminal nothing that it would obey.
        let text = if self.is_terminal { visible(text) } else { text.into() };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints of an answer what was not printed of it.
    fn rest(&mut self, whole: &str) -> io::Result<()> {
        if !whole.starts_with(&self.printed) {
            self.retract()?;
        }
        let seen = self.printed.len();
        self.printed = whole.into();
        self.print(&whole[seen..])
    }

    /// What was printed of the answer is no part of it any more.
    fn retract(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.printed).is_empty() {
            return Ok(());
        }
        self.end_line()?;
        self.asides.say("the answer broke off and begins again");
        Ok(())
    }

    /// Says something beside the answer, on a line of its own.
    fn aside(&self, words: &str) {
        if self.asides == Asides::On && self.is_terminal && self.is_open {
            output::sign(format_args!("\n"));
        }
        self.asides.say(words);
    }

    /// Tells once of each wait for the next attempt.
    fn standing(&mut self, standing: &Standing) {
        let Some(retry) = standing.retry.as_ref().filter(|_| self.asked.is_none()) else { return };
        if self.waits.replace(retry.until) != Some(retry.until) {
            let wait = duration((retry.until - clock::now() + 999) / 1000 * 1000);
            self.aside(&format!("{}; attempt {} in {wait}", retry.message, retry.attempt + 1));
        }
    }

    fn message(&mut self, message: &Message) -> io::Result<()> {
        if message.id <= self.newest {
            return Ok(()); // Dealt with before the chat was told anew.
        }
        self.newest = message.id;
        match &message.body {
            Body::User { parts, .. } if self.asked.is_some() => {
                self.asked = self.asked.take().filter(|asked| said(parts) != *asked);
            }
            // A reply stands for its draft: whatever of it was not seen as deltas is in here.
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

    /// The chat is told anew: what was printed of it is not printed again.
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

impl<W: Write> Told for Words<W> {
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

impl<W: Write> Told for Lines<W> {
    fn events(&mut self, events: &[Event]) -> io::Result<()> {
        events.iter().try_for_each(|event| self.line(event.name(), event))
    }
}

#[cfg(test)]
mod tests;
