//! Turns a stream of events into terminal lines, each printed once.
//!
//! A terminal cannot take back lines that have scrolled by, and its reader should see everything once. So the
//! story follows the answer part by part and remembers how far it has printed it, through every reset and
//! reconnect. A line that was retracted after it was printed is followed by a note that says so.

mod telling;

use everturn_server::wire::{Body, Event, Increment, Message, Part, Reply, Snapshot, Standing, Status, Stop, View};

use crate::render as look;
use crate::terminal::Line;
use crate::terminal::markdown::Markdown;
use telling::Telling;

/// Prints a chat, each thing once.
pub struct Story {
    width: usize,
    /// The newest message that was printed.
    newest: u64,
    telling: Option<Telling>,
    /// The step of the newest reply: its draft is over, even if no event said so.
    replied: Option<u64>,
    /// The footer of the newest answer (its model), until it is printed.
    footer: Option<Line>,
    markdown: Markdown,
    /// Reasoning that has not filled a line yet.
    thought: String,
    after_blank: bool,
    is_begun: bool,
    was_busy: bool,
    out: Vec<Line>,
}

impl Story {
    pub const fn new(width: usize) -> Self {
        Self {
            width,
            newest: 0,
            telling: None,
            replied: None,
            footer: None,
            markdown: Markdown::new(width),
            thought: String::new(),
            after_blank: true,
            is_begun: false,
            was_busy: false,
            out: Vec::new(),
        }
    }

    pub const fn resize(&mut self, width: usize) {
        self.width = width;
        self.markdown.resize(width);
    }

    /// Whether a snapshot or an event has arrived.
    pub const fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Applies events that belong together, with the view after them, and returns the lines to print.
    pub fn tell(&mut self, events: &[Event], view: &View) -> Vec<Line> {
        for event in events {
            match event {
                Event::Message(message) => self.message(message),
                Event::Delta(delta) => self.increment(delta.step, &delta.what),
                Event::Rewound(rewound) => {
                    self.drop_telling();
                    self.newest = rewound.from.saturating_sub(1);
                    self.quiet("↶ the messages from here on were replaced");
                }
                Event::Status(standing) => self.standing(standing),
                Event::Reset(snapshot) => self.reset(snapshot),
            }
        }
        if let Some(draft) = view.draft.as_ref().filter(|draft| self.replied != Some(draft.step)) {
            if self.telling.as_ref().is_none_or(|told| told.step != draft.step) {
                self.drop_telling();
                self.telling = Some(Telling::new(draft.step));
            }
            self.parts(&draft.parts, Whole::NotYet);
        }
        std::mem::take(&mut self.out)
    }

    /// The unfinished end of the answer, rendered as it is now.
    pub fn open(&self) -> Vec<Line> {
        let mut lines = if self.thought.is_empty() { Vec::new() } else { look::thinking(&self.thought, self.width) };
        lines.extend(self.markdown.open());
        lines
    }

    /// Lines that are not part of the chat, set apart from it.
    pub fn aside(&mut self, lines: Vec<Line>) -> Vec<Line> {
        self.blank();
        self.lines(lines);
        self.blank();
        std::mem::take(&mut self.out)
    }

    fn message(&mut self, message: &Message) {
        if message.id <= self.newest {
            return; // Printed before a reset.
        }
        self.newest = message.id;
        match &message.body {
            Body::User { parts, .. } => {
                self.foot();
                self.blank();
                self.lines(look::person(parts, self.width));
                self.blank();
            }
            Body::Context { text } => self.quiet(&format!("⋯ {text}")),
            Body::Reply(reply) => self.reply(reply),
            Body::Result(result) => self.lines(look::result(result, self.width)),
            Body::Summary(summary) => {
                self.blank();
                self.lines(look::summary(summary, self.width));
            }
        }
    }

    /// A reply replaces the draft of its step: only the rest of it is new.
    fn reply(&mut self, reply: &Reply) {
        let is_known = self.telling.as_ref().is_some_and(|told| told.step == reply.step && told.fits(&reply.parts));
        if !is_known {
            if self.telling.as_ref().is_some_and(|told| told.step == reply.step) {
                self.retract();
            }
            self.drop_telling();
            self.telling = Some(Telling::new(reply.step));
        }
        self.parts(&reply.parts, Whole::Yes);
        let attempts = self.telling.as_ref().map_or(0, |told| told.attempts);
        if let Some(recovered) = look::recovered(reply, attempts) {
            self.quiet(&format!("↻ {recovered}"));
        }
        self.lines(look::stop(reply, self.width));
        self.drop_telling();
        self.replied = Some(reply.step);
        self.footer = (reply.stop != Stop::ToolUse).then(|| look::footer(reply));
    }

    fn increment(&mut self, step: u64, what: &Increment) {
        if self.telling.as_ref().is_none_or(|told| told.step != step) {
            self.drop_telling();
            self.telling = Some(Telling::new(step));
        }
        let Some(told) = &mut self.telling else { return };
        match what {
            Increment::Attempt(began) => told.attempts = began.number,
            Increment::RetractCall { ordinal } => {
                if let Some(tool) = told.retract_call(*ordinal) {
                    self.quiet(&format!("↻ the call of {tool} was cut off and is retracted"));
                }
            }
            Increment::RetractAll => self.retract(),
            _ => {}
        }
    }

    /// Notes that the printed part of the answer no longer counts.
    fn retract(&mut self) {
        let Some(told) = &mut self.telling else { return };
        let (step, attempts, is_seen) = (told.step, told.attempts, told.at > 0 || told.fed > 0);
        self.drop_telling();
        self.telling = Some(Telling::new(step).attempted(attempts));
        if is_seen {
            self.quiet("↻ the answer broke off; it begins again, and the text above does not count");
        }
    }

    /// Applies a snapshot; lines printed before are not printed again.
    fn reset(&mut self, Snapshot { messages, status, draft }: &Snapshot) {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        if is_first && messages.first().is_some_and(|first| first.id > 1) {
            self.quiet("⋯ earlier messages are not shown");
        }
        for message in messages {
            self.message(message);
        }
        let fits = match (&self.telling, draft) {
            (Some(told), Some(draft)) => told.step == draft.step && told.fits(&draft.parts),
            (Some(_), None) => false,
            (None, _) => true,
        };
        if !fits {
            self.retract();
            self.drop_telling();
        }
        if let Some(draft) = draft.as_ref().filter(|draft| self.replied != Some(draft.step)) {
            let told = self.telling.get_or_insert_with(|| Telling::new(draft.step));
            told.attempts = draft.attempt.as_ref().map_or(0, |began| began.number);
        }
        let was_busy = std::mem::replace(&mut self.was_busy, is_busy(status.status));
        if (is_first || was_busy) && !self.was_busy {
            self.rest(status);
        }
    }

    fn standing(&mut self, standing: &Standing) {
        let is_busy = is_busy(standing.status);
        let was_busy = std::mem::replace(&mut self.was_busy, is_busy);
        if self.telling.as_ref().is_some_and(|told| told.step < standing.step) {
            self.drop_telling();
        }
        if was_busy && !is_busy {
            self.rest(standing);
        }
    }

    /// Prints how the turn ended, and the footer.
    fn rest(&mut self, standing: &Standing) {
        if let Some(ended) = &standing.ended {
            self.lines(look::ended(ended, self.width));
        }
        self.foot();
    }

    /// Prints the footer with the model's name.
    fn foot(&mut self) {
        if let Some(footer) = self.footer.take() {
            self.blank();
            self.lines(vec![footer]);
        }
    }

    /// Prints the rest of the parts.
    fn parts(&mut self, parts: &[Part], whole: Whole) {
        let Some(mut told) = self.telling.take() else { return };
        while let Some(part) = parts.get(told.at) {
            let is_last = told.at + 1 == parts.len();
            let is_over = !is_last || whole == Whole::Yes;
            match part {
                Part::Text(text) => {
                    let more = text.text.get(told.fed..).unwrap_or_default();
                    let lines = self.markdown.push(more);
                    self.lines(lines);
                    told.feed(more);
                }
                Part::Reasoning(reasoning) => {
                    let more = reasoning.text.get(told.fed..).unwrap_or_default();
                    self.think(more);
                    told.feed(more);
                }
                Part::Call(call) if is_over => {
                    self.blank();
                    self.lines(look::call(call, self.width));
                    told.calls.push((told.at, call.id.clone(), call.tool.clone()));
                }
                Part::Call(_) => {}
                part => self.lines(look::beside(part).into_iter().collect()),
            }
            // Only text, reasoning and calls grow.
            let grows = matches!(part, Part::Text(_) | Part::Reasoning(_) | Part::Call(_));
            if grows && !is_over {
                break;
            }
            self.end_part(part);
            told.at += 1;
            told.fed = 0;
        }
        self.telling = Some(told);
    }

    fn think(&mut self, more: &str) {
        for piece in more.split_inclusive('\n') {
            self.thought.push_str(piece);
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.thought);
                self.lines(look::thinking(line.trim_end(), self.width));
            }
        }
    }

    fn end_part(&mut self, part: &Part) {
        let rest = self.markdown.end();
        self.lines(rest);
        if !self.thought.trim().is_empty() {
            let line = std::mem::take(&mut self.thought);
            self.lines(look::thinking(line.trim_end(), self.width));
        }
        self.thought.clear();
        if matches!(part, Part::Text(text) if !text.text.trim().is_empty())
            || matches!(part, Part::Reasoning(reasoning) if !reasoning.text.trim().is_empty())
        {
            self.blank();
        }
    }

    /// Ends the printed answer without a note.
    fn drop_telling(&mut self) {
        self.telling = None;
        let rest = self.markdown.end();
        self.lines(rest);
        self.thought.clear();
    }

    fn quiet(&mut self, text: &str) {
        self.lines(look::quiet(text, self.width));
    }

    fn blank(&mut self) {
        self.lines(vec![Line::default()]);
    }

    fn lines(&mut self, lines: Vec<Line>) {
        for line in lines {
            let is_blank = line.0.is_empty();
            if !(is_blank && self.after_blank) {
                self.out.push(line);
            }
            self.after_blank = is_blank;
        }
    }
}

/// Whether the answer is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whole {
    Yes,
    NotYet,
}

/// Whether a turn is under way.
pub const fn is_busy(status: Status) -> bool {
    matches!(status, Status::Running | Status::Interrupting | Status::Awaiting)
}

#[cfg(test)]
mod tests;
