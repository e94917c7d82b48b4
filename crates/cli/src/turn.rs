//! One turn, without a screen.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use everturn_server::wire::{AskKind, Body, Ended, Event, Failure, Increment, Part, Snapshot, Status, View, When};

use crate::client::{News, Watch};
use crate::house::House;
use crate::terminal::visible;

/// A turn that is followed.
pub struct Turn {
    watch: Watch,
    prompt: String,
    /// The newest message before it.
    before: u64,
    /// Its number in the queue.
    queued: u64,
}

/// How it ended.
#[derive(Debug)]
pub enum End {
    Ended(Ended),
    /// A person has to allow a call, or another client has to run it.
    Awaits(String),
}

/// Whoever is told of a turn as it goes on.
pub trait Told {
    /// Events that belong together, and the chat after them.
    fn events(&mut self, events: &[Event], view: &View) -> std::io::Result<()>;
}

impl Turn {
    /// Says something, and watches from there.
    pub async fn begin(house: &mut House, chat: &str, prompt: &str) -> anyhow::Result<Self> {
        let mut watch = house.client.watch(chat);
        while watch.view().status.is_none() {
            if let News::Lost(_) = watch.next().await? {
                house.settle_in().await?;
            }
        }
        let before = watch.view().messages.last().map_or(0, |message| message.id);
        let queued = house.client.send(chat, prompt, When::Queue).await?.id;
        Ok(Self { watch, prompt: prompt.into(), before, queued })
    }

    /// Follows it to its end.
    pub async fn follow(&mut self, house: &mut House, told: &mut impl Told) -> anyhow::Result<End> {
        loop {
            match self.watch.next().await? {
                News::Events(events) => {
                    told.events(&events, self.watch.view())?;
                    // Only now: a view that is ahead of what was told has more to tell.
                    if let Some(end) = self.end() {
                        return Ok(end);
                    }
                }
                News::Lost(error) => {
                    eprintln!("everturn: {error}; looking for it");
                    house.settle_in().await?;
                }
                News::Back => eprintln!("everturn: it is there again"),
            }
        }
    }

    fn end(&self) -> Option<End> {
        let view = self.watch.view();
        let is_ours = |parts: &[Part]| crate::chat::said(parts) == self.prompt;
        let heard = view.messages.iter().rev().take_while(|message| message.id > self.before);
        let is_heard = heard.into_iter().any(|message| matches!(&message.body, Body::User { parts } if is_ours(parts)));
        let standing = view.status.as_ref()?;
        if !is_heard || standing.queue.iter().any(|queued| queued.id == self.queued) {
            return None; // What is known to have ended is an earlier turn.
        }
        match standing.status {
            Status::Idle | Status::Failed => standing.ended.clone().map(End::Ended),
            Status::Awaiting => standing.asks.first().map(|ask| {
                End::Awaits(match ask.wants {
                    AskKind::Approval => format!("{} waits to be allowed", ask.tool),
                    AskKind::Result => format!("{} is to be run by a client", ask.tool),
                })
            }),
            Status::Running | Status::Interrupting => None,
        }
    }
}

impl End {
    /// Says what a script cannot see, and gives the exit code.
    pub fn report(&self, chat: &str) -> ExitCode {
        let (code, said) = match self {
            Self::Ended(Ended::Done | Ended::StopAfter { .. }) => return ExitCode::SUCCESS,
            Self::Ended(Ended::Interrupted) => (130, "stopped; what was said is kept".into()),
            Self::Ended(Ended::Failed(Failure { message, detail, .. })) => {
                let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
                (1, format!("{message}{detail}"))
            }
            Self::Ended(early) => {
                let how = serde_json::to_value(early).ok();
                let how = how.as_ref().and_then(|how| how["how"].as_str()).unwrap_or("early").replace('_', " ");
                (3, format!("the turn ended early: {how}"))
            }
            Self::Awaits(what) => (4, format!("{what}: go on with `everturn chat --resume {chat}`")),
        };
        eprintln!("everturn: {}", visible(&said));
        ExitCode::from(code)
    }
}

/// Prints the words of the answer as they become durable.
pub struct Words<W> {
    out: W,
    /// What was printed of the step's answer.
    printed: String,
    /// Whether the newest line has no end.
    is_open: bool,
    is_terminal: bool,
}

impl<W: Write + IsTerminal> Words<W> {
    pub fn new(out: W) -> Self {
        let is_terminal = out.is_terminal();
        Self { out, printed: String::new(), is_open: false, is_terminal }
    }
}

impl<W: Write> Words<W> {
    fn print(&mut self, text: &str) -> std::io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.is_open = !text.ends_with('\n');
        // A pipe gets what was said, to the byte; a terminal nothing that it would obey.
        let text = if self.is_terminal { visible(text) } else { text.into() };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// The chat was told anew: what was printed of its answer is not printed again.
    fn reset(&mut self, snapshot: &Snapshot) -> std::io::Result<()> {
        let draft = snapshot.draft.as_ref().map(|draft| words(&draft.parts));
        let replies = snapshot.messages.iter().rev().filter_map(|message| match &message.body {
            Body::Reply(reply) => Some(words(&reply.parts)),
            _ => None,
        });
        let seen = std::mem::take(&mut self.printed);
        let Some(whole) = draft.into_iter().chain(replies.take(1)).find(|whole| whole.starts_with(&seen)) else {
            return self.end_line();
        };
        if snapshot.draft.is_some() {
            self.printed.clone_from(&whole);
        }
        self.print(&whole[seen.len()..])
    }

    fn end_line(&mut self) -> std::io::Result<()> {
        if std::mem::take(&mut self.is_open) {
            self.out.write_all(b"\n").and_then(|()| self.out.flush())
        } else {
            Ok(())
        }
    }
}

impl<W: Write> Told for Words<W> {
    fn events(&mut self, events: &[Event], _: &View) -> std::io::Result<()> {
        for event in events {
            match event {
                Event::Delta(delta) => match &delta.what {
                    Increment::Text { text } => {
                        self.print(text)?;
                        self.printed.push_str(text);
                    }
                    Increment::RetractAll if !self.printed.is_empty() => {
                        self.printed.clear();
                        self.end_line()?;
                        eprintln!("everturn: the answer broke off and begins again");
                    }
                    _ => {}
                },
                // A reply stands for its draft: whatever of it was not seen as deltas is in here.
                Event::Message(message) => {
                    if let Body::Reply(reply) = &message.body {
                        let (whole, seen) = (words(&reply.parts), std::mem::take(&mut self.printed));
                        self.print(whole.strip_prefix(&seen).unwrap_or_default())?;
                        self.end_line()?;
                    }
                }
                Event::Reset(snapshot) => self.reset(snapshot)?,
                Event::Rewound(_) | Event::Status(_) => {}
            }
        }
        Ok(())
    }
}

/// The words among the parts of an answer.
fn words(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Prints every event as one line of JSON.
pub struct Lines<W>(pub W);

impl<W: Write> Told for Lines<W> {
    fn events(&mut self, events: &[Event], _: &View) -> std::io::Result<()> {
        for event in events {
            let line = serde_json::json!({"event": event.name(), "data": event});
            writeln!(self.0, "{line}")?;
        }
        self.0.flush()
    }
}
