//! The list from which a chat is chosen.

use crossterm::event::{Event, EventStream, KeyCode, KeyEventKind, KeyModifiers};
use everturn_server::wire::{Heading, Status};
use futures_util::StreamExt as _;

use crate::client::Client;
use crate::clock;
use crate::find_chat::short;
use crate::process::signals::Ends;
use crate::render::ago;
use crate::terminal::screen::{Live, Raw, Screen};
use crate::terminal::style::Colours;
use crate::terminal::wrap::clip;
use crate::terminal::{Ink, Line, Look};

/// Shows the list; `None` if the user leaves without a choice.
pub async fn pick(client: &Client, colours: Colours) -> anyhow::Result<Option<String>> {
    let chats = client.list("archived=false&limit=200").await?.chats;
    anyhow::ensure!(!chats.is_empty(), "there is no chat yet");
    let raw = Raw::enter()?;
    let mut screen = Screen::new(std::io::stdout(), colours, crossterm::terminal::size().unwrap_or((80, 24)));
    let mut picker = Picker { chats, typed: String::new(), at: 0 };
    let (mut keys, mut told_to_end) = (EventStream::new(), Ends::of_window()?);
    let picked = loop {
        screen.draw(&[], picker.show(screen.width(), screen.height(), clock::now()))?;
        let key = tokio::select! {
            biased;
            () = told_to_end.next() => break None,
            key = keys.next() => key,
        };
        match key.transpose()? {
            None => break None,
            Some(Event::Resize(width, height)) => screen.resize((width, height)),
            Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                let is_ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    KeyCode::Esc => break None,
                    KeyCode::Char('c' | 'd') if is_ctrl => break None,
                    KeyCode::Enter => break picker.fitting().get(picker.at).map(|chat| chat.id.clone()),
                    code => picker.key(code),
                }
            }
            Some(_) => {}
        }
    };
    let _ = screen.draw(&[], Live::default()); // Fails if the window was closed, which does no harm.
    drop(raw);
    Ok(picked)
}

struct Picker {
    chats: Vec<Heading>,
    typed: String,
    at: usize,
}

impl Picker {
    /// The chats whose title or id contains the typed text.
    fn fitting(&self) -> Vec<&Heading> {
        let typed = self.typed.to_lowercase();
        let fits = |chat: &&Heading| chat.title.to_lowercase().contains(&typed) || chat.id.contains(&typed);
        self.chats.iter().filter(fits).collect()
    }

    fn key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Up => self.at = self.at.saturating_sub(1),
            KeyCode::Down => self.at = (self.at + 1).min(self.fitting().len().saturating_sub(1)),
            KeyCode::Backspace => {
                self.typed.pop();
                self.at = 0;
            }
            KeyCode::Char(c) => {
                self.typed.push(c);
                self.at = 0;
            }
            _ => {}
        }
    }

    fn show(&self, width: usize, height: usize, now: i64) -> Live {
        let room = width.saturating_sub(1).max(1);
        let head = Line::new("Which chat? ", Look::BOLD).and(&self.typed, Look::PLAIN);
        let column = head.width().min(room);
        let mut lines = vec![clip(head, room)];
        let (fitting, rows) = (self.fitting(), height.saturating_sub(3).clamp(1, 15));
        let first = (self.at + 1).saturating_sub(rows);
        for (i, chat) in fitting.iter().enumerate().skip(first).take(rows) {
            lines.push(clip(row(chat, i == self.at, now), room));
        }
        if fitting.is_empty() {
            lines.push(Line::dim("  no chat matches"));
        }
        lines.push(clip(Line::dim("type to narrow down · Enter opens · Esc leaves"), room));
        Live { lines, cursor: (0, column) }
    }
}

fn row(chat: &Heading, is_chosen: bool, now: i64) -> Line {
    let look = if is_chosen { Look { bold: true, ..Look::ink(Ink::Cyan) } } else { Look::PLAIN };
    let mark = if is_chosen { "❯ " } else { "  " };
    let title = if chat.title.is_empty() { "(no message yet)" } else { &chat.title };
    let state = match chat.status {
        Status::Idle => "",
        Status::Failed => " · failed",
        Status::Awaiting => " · waits for you",
        Status::Running | Status::Interrupting => " · busy",
    };
    Line::new(mark, look)
        .and(short(&chat.id), Look::DIM)
        .and("  ", Look::PLAIN)
        .and(title, look)
        .and(&format!("  {}{state}", ago(now - chat.touched)), Look::DIM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(id: &str, title: &str) -> Heading {
        Heading {
            parent: None,
            id: id.into(),
            agent: "default".into(),
            title: title.into(),
            status: Status::Idle,
            archived: false,
            version: 1,
            touched: 0,
        }
    }

    #[test]
    fn typing_narrows_and_the_chosen_one_stays_in_sight() {
        let chats: Vec<Heading> = (0..30).map(|n| chat(&format!("{n:026}"), &format!("Title {n}"))).collect();
        let mut picker = Picker { chats, typed: String::new(), at: 0 };
        for _ in 0..40 {
            picker.key(KeyCode::Down);
        }
        let shown = picker.show(60, 8, 0);
        assert_eq!(shown.lines.len(), 7);
        assert!(shown.lines[5].paint(Colours::Off).starts_with("❯ 000029  Title 29"));
        for c in "title 1".chars() {
            picker.key(KeyCode::Char(c));
        }
        assert_eq!((picker.at, picker.fitting().len()), (0, 11));
    }
}
