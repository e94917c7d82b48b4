//! Keys and commands of an interactive session.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent};
use everturn_server::wire::{Answer, Body, Part, When};
use tokio::time::Instant;

use super::{Begin, Session};
use crate::commands::chat::attach;
use crate::commands::chat::order::{Order, recorded};
use crate::commands::chat::slash::{self, Slash};
use crate::find_chat::short;
use crate::render as look;
use crate::terminal::Line;
use crate::terminal::editor::Wish;
use crate::terminal::visible::visible;

/// A second Ctrl-C within this time leaves.
pub const TWICE: Duration = Duration::from_secs(2);

/// Prefix of a line whose model name is completed.
const MODEL: &str = "/model ";

impl Session {
    pub(super) async fn key(&mut self, key: KeyEvent) -> anyhow::Result<()> {
        if key.code == KeyCode::Tab {
            self.complete();
            return Ok(());
        }
        match self.editor.key(key) {
            None => {}
            Some(Wish::Submit(text)) => self.submit(text).await,
            // An edited message replaces an old one, so it cannot steer.
            Some(Wish::Steer(text)) if self.editing.is_some() => self.submit(text).await,
            Some(Wish::Steer(text)) => self.send(text, When::Steer).await,
            Some(Wish::Stop) => self.stop(),
            Some(Wish::Quit) => self.is_over = true,
            Some(Wish::Redraw) => self.screen.clear()?,
            Some(Wish::Outside) => self.is_outside = true,
            Some(Wish::Leave) if self.editing.take().is_some() => self.editor.replace(""),
            Some(Wish::Leave) => {}
        }
        Ok(())
    }

    /// Completes the name of a command, or of a model.
    fn complete(&mut self) {
        let typed = self.editor.text();
        if typed.starts_with(MODEL) {
            match self.names.is_empty() {
                true => self.order(Order::Names), // Completion continues when the names arrive.
                false => self.complete_model(self.names.clone()),
            }
            return;
        }
        if let Some((before, word)) = typed.rsplit_once('@').filter(|(_, word)| !word.contains(char::is_whitespace)) {
            if let Some(completed) = attach::completed(word, Path::new(".")) {
                let line = format!("{before}@{completed}");
                self.editor.replace(&line);
            }
            return;
        }
        if !typed.starts_with('/') || typed.contains(' ') {
            return;
        }
        let names = slash::HELP.iter().flat_map(|(keys, _)| keys.split([',', ' ']));
        let names = names.map(ToOwned::to_owned).chain(self.templates.names());
        let fitting: BTreeSet<String> = names.filter(|name| name.starts_with(typed)).collect();
        if let [name] = &fitting.into_iter().collect::<Vec<_>>()[..] {
            self.editor.replace(&format!("{name} "));
        }
    }

    /// Completes the name of a model to the longest prefix that all matching names share.
    pub(super) fn complete_model(&mut self, names: Vec<String>) {
        self.names = names;
        let Some(typed) = self.editor.text().strip_prefix(MODEL) else { return };
        let mut fitting = self.names.iter().filter(|name| name.starts_with(typed));
        let Some(first) = fitting.next() else { return };
        let alike = |one: &str, other: &str| {
            let same = one.char_indices().zip(other.chars()).find(|((_, one), other)| one != other);
            same.map_or(one.len().min(other.len()), |((at, _), _)| at)
        };
        let len = fitting.fold(first.len(), |len, name| alike(&first[..len], name));
        let completed = format!("{MODEL}{}", &first[..len]);
        self.editor.replace(&completed);
    }

    async fn submit(&mut self, text: String) {
        if let Some(message) = self.editing.take() {
            if let Some(chat) = self.id() {
                self.order(Order::Edit { chat, message, text });
            }
            return;
        }
        if let Some(answer) = self.answer(&text) {
            if let Some(chat) = self.asked_at() {
                self.order(Order::Answer { chat, answer });
            }
            return;
        }
        if let Some(message) = self.templates.message(&text) {
            return self.send(message, When::Queue).await;
        }
        match slash::read(&text) {
            Some(command) => self.slash(command).await,
            None => self.send(text, When::Queue).await,
        }
    }

    /// Reads the text as an answer, if a call that was shown waits for approval.
    fn answer(&self, text: &str) -> Option<Answer> {
        let ask = self.ask().filter(|ask| self.shown.contains(&ask.call))?;
        let (word, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let call = ask.call.clone();
        match word.to_ascii_lowercase().as_str() {
            "y" | "yes" if rest.is_empty() => Some(Answer::Approve { call, input_hash: ask.input_hash.clone() }),
            "a" | "always" if rest.is_empty() && ask.grant.is_some() => {
                Some(Answer::Grant { call, input_hash: ask.input_hash.clone(), until: None })
            }
            "n" | "no" => Some(Answer::Deny { call, reason: rest.trim().into() }),
            _ => None,
        }
    }

    async fn send(&mut self, text: String, when: When) {
        let files = match attach::named_in(&text, Path::new(".")) {
            Ok(files) => files,
            Err(why) => {
                self.tell(&[why]);
                self.editor.replace(&text);
                return;
            }
        };
        match self.id() {
            Some(chat) => self.order(Order::Send { chat, text, files, when }),
            None if !self.outbox.is_empty() => {
                self.tell(&["The chat is being created; send it again in a moment.".into()]);
                self.editor.replace(&text);
            }
            None => {
                // The daemon that was found may have been embedded in another command, which has ended since.
                if let Err(error) = self.connection.settle_in().await {
                    self.tell(&[format!("{error:#}")]);
                }
                self.order(Order::Begin { begin: self.begin.clone(), text, files });
            }
        }
    }

    fn order(&mut self, order: Order) {
        let words = order.words().map(ToOwned::to_owned);
        match self.orders.try_send(order) {
            Ok(()) => self.outbox.put(words),
            Err(_) => {
                self.tell(&["Too many orders wait already: send this again later.".into()]);
                words.iter().for_each(|words| self.give_back(words));
            }
        }
    }

    pub(super) fn id(&self) -> Option<String> {
        self.chat.as_ref().map(|chat| chat.id.clone())
    }

    /// Ctrl-C: interrupts the turn, or empties the line, or leaves.
    fn stop(&mut self) {
        let is_again = self.stopped.replace(Instant::now()).is_some_and(|at| at.elapsed() < TWICE);
        if is_again {
            self.is_over = true;
        } else if self.is_busy() {
            self.interrupt();
        } else if !self.editor.text().is_empty() {
            self.editor.replace("");
            self.editing = None;
        }
    }

    /// Interrupts the turn, ahead of all pending orders.
    fn interrupt(&self) {
        if let Some(id) = self.id() {
            let client = self.connection.client.clone();
            // The outcome arrives with the event stream.
            tokio::spawn(async move { client.interrupt(&id).await });
        }
    }

    async fn slash(&mut self, command: Slash) {
        match command {
            Slash::Help => self.help(),
            Slash::Quit => self.is_over = true,
            Slash::Models => {
                let standing = self.view().status.as_ref();
                let own = standing.map_or(&self.begin.model, |standing| &standing.model).clone();
                self.order(Order::Models { own });
            }
            Slash::Model(model) => self.choose(model),
            Slash::Debug(debug) => self.debug(debug),
            Slash::Unknown(what) => self.tell(&[what]),
            Slash::Tools => self.tell(&self.tools()),
            Slash::Agents => self.order(Order::Agents),
            Slash::Mcp => self.order(Order::Mcp),
            Slash::Editor => self.is_outside = true,
            Slash::New(agent) => {
                let agent = self.connection.agent(agent.as_deref());
                (self.chat, self.watch, self.begin) = (None, None, Begin { agent, ..Begin::default() });
                self.forget();
                self.tell(&["Your next message starts a new chat.".into()]);
            }
            command => match self.id() {
                Some(chat) => self.of_chat(command, chat).await,
                None => self.tell(&["There is no message yet.".into()]),
            },
        }
    }

    /// Sets the model of the chat, or of the one that will be created.
    fn choose(&mut self, model: Option<String>) {
        if let Some(chat) = self.id() {
            return self.order(Order::Choose { chat, model });
        }
        let whom = model.clone().unwrap_or_else(|| "the model of its agent".into());
        self.begin.model = model;
        self.tell(&[format!("The chat will use {whom}.")]);
    }

    /// Sets whether the chat is recorded, or the one that will be created.
    fn debug(&mut self, debug: bool) {
        if let Some(chat) = self.id() {
            return self.order(Order::Debug { chat, debug });
        }
        self.begin.debug = debug;
        self.tell(&[recorded(debug).into()]);
    }

    /// Commands that need a chat.
    async fn of_chat(&mut self, command: Slash, chat: String) {
        match command {
            Slash::Diff(call) => self.order(Order::Diff { chat, call }),
            Slash::Undo(call) => self.order(Order::Undo { chat, call }),
            Slash::Jobs => self.order(Order::Jobs { chat }),
            Slash::StopJob(number) => self.order(Order::StopJob { chat, number }),
            Slash::Permissions => self.order(Order::Grants { chat }),
            Slash::Revoke(call) => self.order(Order::Revoke { chat, call }),
            Slash::Compact => self.order(Order::Compact { chat }),
            Slash::Cost => self.order(Order::Cost { chat }),
            Slash::Title(title) => self.order(Order::Title { chat, title }),
            Slash::Steer(text) => self.send(text, When::Steer).await,
            Slash::Now(text) => self.send(text, When::Now).await,
            Slash::Promote(id) => self.order(Order::Promote { chat, id }),
            Slash::Unqueue(id) => self.order(Order::Unqueue { chat, id }),
            Slash::Stop => self.interrupt(),
            Slash::Archive(archived) => self.order(Order::Archive { chat, archived }),
            Slash::Delete(named) => self.delete(chat, named.as_deref()),
            Slash::Edit => self.edit(),
            Slash::Fork => match self.view().messages.last().map(|message| message.id) {
                Some(at) => self.order(Order::Fork { chat, at }),
                None => self.tell(&["There is no message yet.".into()]),
            },
            Slash::Queue => {
                let queue = self.view().status.as_ref().map(|standing| standing.queue.clone()).unwrap_or_default();
                let lines: Vec<String> =
                    queue.iter().map(|queued| format!("{}: {}", queued.id, look::said(&queued.parts))).collect();
                let nothing = ["The queue is empty.".to_owned()];
                self.tell(if lines.is_empty() { &nothing } else { &lines });
            }
            Slash::Help | Slash::Quit | Slash::Models | Slash::Model(_) | Slash::Agents | Slash::Mcp => {}
            Slash::Debug(_) | Slash::New(_) | Slash::Tools | Slash::Editor | Slash::Unknown(_) => {}
        }
    }

    /// Deletes the chat, if its short id was typed: a deletion cannot be undone.
    fn delete(&mut self, chat: String, named: Option<&str>) {
        let id = short(&chat).to_owned();
        if named != Some(id.as_str()) {
            let what = format!("/delete {id} deletes this chat for good, with all its messages and files.");
            return self.tell(&[what]);
        }
        self.watch = None; // It would report the chat as gone.
        self.order(Order::Delete { chat });
    }

    /// Puts the user's newest message into the input line to be edited.
    fn edit(&mut self) {
        let newest = self.view().messages.iter().rev().find_map(|message| match &message.body {
            Body::User { parts, .. } => Some((message.id, parts)),
            _ => None,
        });
        match newest {
            None => self.tell(&["There is no message yet.".into()]),
            // The bytes of files are with the daemon; an edited message would lose them.
            Some((_, parts)) if parts.iter().any(|part| matches!(part, Part::File(_))) => {
                self.tell(&["That message has files, which editing would lose: send a new message instead.".into()]);
            }
            Some((id, parts)) => {
                let words = look::said(parts);
                self.editing = Some(id);
                self.editor.replace(&words);
            }
        }
    }

    fn help(&mut self) {
        use crate::terminal::wrap::{At, wrap};
        let width = self.screen.width();
        let ours = slash::HELP.iter().map(|(keys, what)| ((*keys).to_owned(), *what));
        let lines = ours.chain(self.templates.help()).flat_map(|(keys, what)| {
            let (keys, what) = (visible(&keys), visible(what));
            let line = Line::plain(&format!("{keys:<22}")).and(&what, crate::terminal::Look::DIM);
            wrap(&line, width, &Line::plain("  "), At::Words)
        });
        let lines = self.story.aside(lines.collect());
        self.said.extend(lines);
    }
}
