//! An interactive session: keys and events come in, orders go out, and the screen is drawn.

mod keys;
mod outside;

use std::collections::HashSet;
use std::io::{Stdout, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crossterm::event::{Event as Input, EventStream};
use everturn_server::wire::{AgentInfo, AgentWorkspace, Ask, AskBelow, AskKind, ChangedFile, Chat, Event, View};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout, timeout_at};

use super::facts;
use super::live::{Around, live, open_calls};
use super::order::{Order, Outcome, carry_out};
use super::outbox::Outbox;
use super::story::{Story, is_busy};
use super::templates::Templates;
use crate::client::{ClientError, Watch, WatchEvent};
use crate::clock;
use crate::config::AGENT;
use crate::daemon::DaemonConnection;
use crate::find_chat::short;
use crate::process::signals::Ends;
use crate::render as look;
use crate::terminal::editor::Editor;
use crate::terminal::screen::{Live, Raw, Screen};
use crate::terminal::style::Colours;
use crate::terminal::visible::visible;
use crate::terminal::{Ink, Line, Look};
use crate::workspaces::resuming;

/// Least time between two drawings, however fast the answer arrives.
const FRAME: Duration = Duration::from_millis(25);
const TICK: Duration = Duration::from_millis(100);
/// How long leaving waits for pending orders to be accepted.
const PARTING_MAX: Duration = Duration::from_secs(2);

/// Tools that work in a workspace.
const OF_WORKSPACE: [&str; 3] = ["shell", "write", "edit"];

/// How long the start waits for the daemon to name the chat's model.
const MODELS_MAX: Duration = Duration::from_secs(5);

/// Settings of a chat that is not created yet.
#[derive(Debug, Clone, Default)]
pub struct Begin {
    /// Its agent; the daemon's default if left out.
    pub agent: Option<String>,
    /// Its model; its agent's if left out.
    pub model: Option<String>,
    /// Whether its provider traffic is recorded.
    pub debug: bool,
}

/// The state of an interactive session.
pub struct Session {
    connection: DaemonConnection,
    /// `None` until the first message is sent.
    chat: Option<Chat>,
    /// Settings for the chat while it is not created.
    begin: Begin,
    /// The user's own commands.
    templates: Templates,
    /// The names of the models, once they were requested for completion.
    names: Vec<String>,
    watch: Option<Watch>,
    nothing: View,
    story: Story,
    editor: Editor,
    screen: Screen<Stdout>,
    orders: mpsc::Sender<Order>,
    outbox: Outbox,
    /// Lines to print above the live area.
    said: Vec<Line>,
    /// When this session first saw the turn running.
    since: Option<Instant>,
    lost: Option<String>,
    /// When Ctrl-C was last pressed.
    stopped: Option<Instant>,
    /// The approval that a sub-agent waits for, as it was read at its chat.
    below: Option<(AskBelow, Ask)>,
    /// Approvals whose calls were shown in full.
    shown: HashSet<String>,
    /// The message that is being edited.
    editing: Option<u64>,
    tick: usize,
    /// Whether to open the message in `$EDITOR` next.
    is_outside: bool,
    /// The chat's model, if it was known at the start.
    model: Option<String>,
    /// The daemon's agents, if they were known at the start.
    agents: Vec<AgentInfo>,
    is_over: bool,
}

impl Session {
    /// Runs the session until the user leaves.
    pub async fn run(
        connection: DaemonConnection,
        chat: Option<Chat>,
        begin: Begin,
        templates: Templates,
        colours: Colours,
    ) -> anyhow::Result<ExitCode> {
        let model = asked_model(&connection, chat.as_ref(), &begin).await;
        let agents = timeout(MODELS_MAX, connection.client.agents()).await;
        let agents = agents.ok().and_then(Result::ok).map(|list| list.agents).unwrap_or_default();
        let (orders, mut outcomes) = carry_out(connection.client.clone());
        let raw = Raw::enter()?;
        let screen = Screen::new(std::io::stdout(), colours, crossterm::terminal::size().unwrap_or((80, 24)));
        let mut session = Self {
            story: Story::new(screen.width()),
            watch: chat.as_ref().map(|chat| connection.client.watch(&chat.id)),
            connection,
            chat,
            begin,
            templates,
            names: Vec::new(),
            nothing: View::default(),
            editor: Editor::default(),
            screen,
            orders,
            outbox: Outbox::default(),
            said: Vec::new(),
            since: None,
            lost: None,
            stopped: None,
            below: None,
            shown: HashSet::new(),
            editing: None,
            tick: 0,
            is_outside: false,
            model,
            agents,
            is_over: false,
        };
        session.greet();
        let ended = session.follow(&mut outcomes).await;
        session.see_off(&mut outcomes).await;
        // Fails if the window was closed; the daemon is left in good order all the same.
        let _ = session.screen.draw(&std::mem::take(&mut session.said), Live::default());
        drop(raw);
        let _ = session.part(&mut std::io::stdout());
        session.connection.leave().await;
        match ended {
            Err(error) if !is_closed(&error) => Err(error),
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    fn view(&self) -> &View {
        self.watch.as_ref().map_or(&self.nothing, Watch::view)
    }

    fn is_busy(&self) -> bool {
        self.view().status.as_ref().is_some_and(|standing| is_busy(standing.status))
    }

    async fn follow(&mut self, outcomes: &mut mpsc::Receiver<Outcome>) -> anyhow::Result<()> {
        let mut told_to_end = Ends::of_window()?;
        let mut keys = EventStream::new();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut drawn_at, mut is_stale) = (None, true);
        while !self.is_over {
            if std::mem::take(&mut self.is_outside) {
                drop(keys); // Reading keys here would take them from the editor.
                self.write_outside().await?;
                keys = EventStream::new();
                is_stale = true;
            }
            let frame = drawn_at.map_or_else(Instant::now, |at: Instant| at + FRAME);
            let moves = self.is_busy() || self.lost.is_some() || !self.outbox.is_empty() || self.stopped.is_some();
            tokio::select! {
                biased;
                () = told_to_end.next() => return Ok(()),
                () = sleep_until(frame), if is_stale => {
                    self.draw()?;
                    (drawn_at, is_stale) = (Some(Instant::now()), false);
                    continue;
                }
                key = keys.next() => match key {
                    Some(Ok(input)) => self.input(input).await?,
                    Some(Err(error)) => return Err(error.into()),
                    None => return Ok(()),
                },
                outcome = outcomes.recv() => self.outcome(outcome).await,
                news = next(&mut self.watch) => self.news(news).await?,
                _ = ticks.tick(), if moves => self.tick += 1,
            }
            is_stale = true;
        }
        Ok(())
    }

    async fn input(&mut self, input: Input) -> anyhow::Result<()> {
        match input {
            Input::Key(key) => self.key(key).await?,
            Input::Paste(text) => self.editor.paste(&text),
            Input::Resize(width, height) => {
                self.screen.resize((width, height));
                self.story.resize(self.screen.width());
            }
            Input::FocusGained | Input::FocusLost | Input::Mouse(_) => {}
        }
        Ok(())
    }

    async fn news(&mut self, news: Result<WatchEvent, ClientError>) -> anyhow::Result<()> {
        match news? {
            WatchEvent::Events(events) => {
                let is_first = !self.story.is_begun();
                let Some(watch) = &self.watch else { return Ok(()) };
                if events.iter().any(|event| matches!(event, Event::Rewound(_))) {
                    self.shown.clear(); // Calls of a new reply may reuse the ids of removed ones.
                }
                let lines = self.story.tell(&events, watch.view());
                self.said.extend(lines);
                if is_first {
                    let words: Vec<String> = watch.view().messages.iter().filter_map(look::words).collect();
                    words.iter().for_each(|words| self.editor.earlier_mut().add(words));
                }
                self.read_below().await;
                self.since = if self.is_busy() { self.since.or_else(|| Some(Instant::now())) } else { None };
                self.show_asks();
            }
            WatchEvent::Lost(error) => {
                self.lost = Some(error.to_string());
                if let Err(error) = self.connection.settle_in().await {
                    self.lost = Some(format!("{error:#}"));
                }
            }
            WatchEvent::Back => self.lost = None,
        }
        Ok(())
    }

    /// Waits for pending orders, for at most `PARTING_MAX`, unless the daemon is away.
    async fn see_off(&mut self, outcomes: &mut mpsc::Receiver<Outcome>) {
        let until = Instant::now() + PARTING_MAX;
        while self.lost.is_none() && !self.outbox.is_empty() && self.outbox.held().next().is_none() {
            let Ok(outcome) = timeout_at(until, outcomes.recv()).await else { return };
            self.outcome(outcome).await;
        }
    }

    async fn outcome(&mut self, outcome: Option<Outcome>) {
        if let Some(Outcome::Waits(error)) = outcome {
            return self.wait(error).await;
        }
        self.outbox.answered();
        match outcome {
            Some(Outcome::Done | Outcome::Waits(_)) | None => {}
            Some(Outcome::Told(lines)) => self.tell(&lines),
            Some(Outcome::Changes(changes)) => self.tell_changes(&changes),
            Some(Outcome::Names(names)) => self.complete_model(names),
            Some(Outcome::Opened(chat)) => self.open(*chat),
            Some(Outcome::Forked { copy, of, at }) => {
                let (of, id) = (short(&of).to_owned(), short(&copy.id).to_owned());
                self.open(*copy);
                self.tell(&[format!(
                    "Copied chat {of} up to message {at}. You are in the copy, chat {id}; the other stays as it was: \
                     everturn chat --resume {of}"
                )]);
            }
            Some(Outcome::Deleted) => {
                (self.chat, self.watch) = (None, None);
                self.forget();
                self.tell(&["The chat is deleted. Your next message starts a new one.".into()]);
            }
            Some(Outcome::Failed { error, unsaid }) => {
                self.trouble(error);
                if let (None, Some(chat)) = (&self.watch, &self.chat) {
                    // The deletion failed: watch the chat again.
                    self.watch = Some(self.connection.client.watch(&chat.id));
                }
                if let Some(text) = unsaid {
                    self.give_back(&text);
                }
            }
        }
    }

    /// Reports that the daemon is away and that orders wait.
    async fn wait(&mut self, error: ClientError) {
        self.outbox.wait();
        self.trouble(error);
        self.tell(&["Your messages are kept and sent when the daemon is back.".into()]);
        // A watch reconnects on its own.
        if self.watch.is_none()
            && let Err(error) = self.connection.settle_in().await
        {
            self.tell(&[format!("{error:#}")]);
        }
    }

    fn trouble(&mut self, error: ClientError) {
        let lines = look::trouble(&format!("{:#}", anyhow::Error::from(error)), self.screen.width());
        let lines = self.story.aside(lines);
        self.said.extend(lines);
    }

    /// Puts the text of a refused message back into the input line.
    fn give_back(&mut self, text: &str) {
        match self.editing {
            None => self.editor.give_back(text),
            Some(_) => self.tell(&[format!("Not sent: {text}")]), // The input line holds another message.
        }
    }

    /// Switches to another chat.
    fn open(&mut self, chat: Chat) {
        self.forget();
        self.watch = Some(self.connection.client.watch(&chat.id));
        self.chat = Some(chat);
    }

    /// Drops all state of the previous chat; ids of calls repeat between chats.
    fn forget(&mut self) {
        self.story = Story::new(self.screen.width());
        self.since = None;
        self.shown.clear();
        self.below = None;
        if self.editing.take().is_some() {
            self.editor.replace("");
        }
    }

    /// The approval to decide next.
    fn ask(&self) -> Option<&Ask> {
        let standing = self.view().status.as_ref()?;
        let own = standing.asks.iter().find(|ask| ask.wants == AskKind::Approval);
        own.or_else(|| self.asked_below().map(|(_, ask)| ask))
    }

    /// The approval that a sub-agent waits for, if the chat itself waits for none.
    fn asked_below(&self) -> Option<&(AskBelow, Ask)> {
        let standing = self.view().status.as_ref()?;
        let is_own = standing.asks.iter().any(|ask| ask.wants == AskKind::Approval);
        self.below.as_ref().filter(|(below, _)| !is_own && standing.asks_below.contains(below))
    }

    /// The chat at which the approval to decide next is answered.
    fn asked_at(&self) -> Option<String> {
        match self.asked_below() {
            Some((below, _)) => Some(below.chat.clone()),
            None => self.id(),
        }
    }

    /// Reads what a sub-agent asks, unless that is known.
    async fn read_below(&mut self) {
        let asks = self.view().status.as_ref().map(|standing| standing.asks_below.clone()).unwrap_or_default();
        if self.below.as_ref().is_some_and(|(known, _)| asks.contains(known)) {
            return;
        }
        self.below = None;
        for below in asks {
            let Ok(chat) = self.connection.client.chat(&below.chat).await else { continue };
            let is_meant = |ask: &Ask| ask.call == below.call && ask.wants == AskKind::Approval;
            if let Some(ask) = chat.standing.asks.into_iter().find(is_meant) {
                self.shown.remove(&ask.call); // Calls of different chats may have the same id.
                self.tell(&[format!("The sub-agent {} asks (chat {}):", chat.agent, short(&below.chat))]);
                self.below = Some((below, ask));
                return;
            }
        }
    }

    /// Shows in full the call that the user has to decide on.
    fn show_asks(&mut self) {
        let Some(ask) = self.ask().cloned().filter(|ask| !self.shown.contains(&ask.call)) else { return };
        // The ask carries its input; chats of earlier releases have it in the reply alone.
        let written =
            || open_calls(self.view()).into_iter().find(|call| call.id == ask.call).map(|call| call.input.clone());
        let Some(input) = ask.input.clone().or_else(written) else { return };
        let place = self.agent().and_then(|agent| place(agent, &ask.tool, &input));
        let lines = self.story.aside(look::whole_call(&ask.tool, &input, place.as_deref(), self.screen.width()));
        self.said.extend(lines);
        self.shown.insert(ask.call);
    }

    /// The chat's agent, if it was known at the start.
    fn agent(&self) -> Option<&AgentInfo> {
        let name = match &self.chat {
            Some(chat) => chat.agent.as_str(),
            None => self.begin.agent.as_deref().unwrap_or(AGENT),
        };
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// The tools of the chat's agent, and where they work.
    fn tools(&self) -> Vec<String> {
        let Some(agent) = self.agent() else { return vec!["The daemon did not say which tools there are.".into()] };
        let workspace = agent.workspace.iter().map(|workspace| format!("in {}", look::workspace_told(workspace)));
        let sentence =
            |text: &str| text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.').to_owned();
        let tools = agent.tools.iter().map(|tool| format!("{}: {}", tool.name, sentence(&tool.description)));
        let none = agent.tools.is_empty().then(|| format!("The agent {} has no tools.", agent.name));
        workspace.chain(tools).chain(none).collect()
    }

    /// Prints lines that are not part of the chat.
    fn tell(&mut self, lines: &[String]) {
        let width = self.screen.width();
        let lines = lines.iter().flat_map(|line| look::quiet(line, width)).collect();
        let lines = self.story.aside(lines);
        self.said.extend(lines);
    }

    /// Prints changes of files, with their diffs.
    fn tell_changes(&mut self, changes: &[ChangedFile]) {
        if changes.is_empty() {
            return self.tell(&["No call changed a file, or all of it was undone.".into()]);
        }
        let width = self.screen.width();
        let lines = changes.iter().flat_map(|change| look::changed(&facts::change(change), &change.diff, width));
        let lines = self.story.aside(lines.collect());
        self.said.extend(lines);
    }

    fn draw(&mut self) -> std::io::Result<()> {
        let again = self.stopped.filter(|at| at.elapsed() < keys::TWICE).map(|_| "Ctrl-C again leaves");
        self.stopped = self.stopped.filter(|_| again.is_some());
        let editing =
            self.editing.map(|_| "the edited message replaces the old one and everything after it; Esc cancels");
        let is_new = self.chat.is_none() && self.editor.text().is_empty() && self.outbox.is_empty();
        let searched = self
            .editor
            .searched()
            .map(|words| format!("search `{words}` in your messages · Ctrl-R older · Enter takes it · Esc cancels"));
        let hint = again
            .or(searched.as_deref())
            .or(editing)
            .or(is_new.then_some("Enter sends · /help lists keys and commands"));
        let around = Around {
            view: self.view(),
            asked_below: self.asked_below().map(|(_, ask)| ask),
            open: self.story.open(),
            editor: &self.editor,
            since: self.since,
            lost: self.lost.as_deref(),
            hint,
            is_sending: !self.outbox.is_empty(),
            unsent: self.outbox.held().collect(),
            tick: self.tick,
            now: clock::now(),
        };
        let live = live(&around, self.screen.width(), self.screen.height());
        self.screen.draw(&std::mem::take(&mut self.said), live)
    }

    fn greet(&mut self) {
        let name = Line::new("everturn", Look { bold: true, ..Look::ink(Ink::Cyan) });
        let place = if self.connection.is_own() {
            "in this process".into()
        } else {
            format!("at {}", self.connection.client.base())
        };
        let what = match &self.chat {
            Some(chat) if !chat.standing.title.is_empty() => format!(" · {}", chat.standing.title),
            Some(chat) => format!(" · chat {}", short(&chat.id)),
            None => " · a new chat".into(),
        };
        let width = self.screen.width();
        let model = self.model.as_ref().map(|model| format!(" · {model},")).unwrap_or_default();
        let line = name.and(&what, Look::PLAIN).and(&model, Look::PLAIN);
        let gap = if model.is_empty() { " · " } else { " " };
        let line = line.and(&format!("{gap}{place}"), Look::DIM);
        self.said.push(crate::terminal::wrap::clip(line, width));
        if let Some(workspace) = self.agent().and_then(|agent| agent.workspace.as_ref()) {
            self.said.extend(look::quiet(&format!("in {}", look::workspace_told(workspace)), width));
        }
        self.said.push(Line::default());
    }

    /// Prints messages that were not sent, and how to resume the chat.
    fn part(&self, out: &mut impl Write) -> std::io::Result<()> {
        for words in self.outbox.words() {
            writeln!(out, "Not sent; send it again after resuming: {}", visible(words))?;
        }
        let Some(chat) = &self.chat else { return Ok(()) };
        if self.is_busy() && self.connection.is_own() {
            writeln!(out, "The turn continues when everturn runs again.")?;
        }
        writeln!(out, "Resume with: {}", resuming(short(&chat.id), &chat.agent))
    }
}

/// Where a tool of a workspace would run.
fn place(agent: &AgentInfo, tool: &str, input: &str) -> Option<String> {
    let workspace = agent.workspace.as_ref().filter(|_| OF_WORKSPACE.contains(&tool))?;
    let input: serde_json::Value = serde_json::from_str(input).ok()?;
    let directory = Path::new(&workspace.path).join(input["cwd"].as_str().unwrap_or_default());
    let path = directory.components().collect::<PathBuf>().display().to_string();
    Some(look::workspace_told(&AgentWorkspace { path, ..workspace.clone() }))
}

/// The model of a chat: its own, or its agent's. `None` if the daemon does not answer in time.
async fn asked_model(connection: &DaemonConnection, chat: Option<&Chat>, begin: &Begin) -> Option<String> {
    let own = chat.map_or(&begin.model, |chat| &chat.standing.model);
    if own.is_some() {
        return own.clone();
    }
    let agent = chat.map_or(begin.agent.as_deref().unwrap_or(AGENT), |chat| chat.agent.as_str());
    let models = timeout(MODELS_MAX, connection.client.models()).await.ok()?.ok()?.models;
    let names = models.into_iter().filter(|model| model.agents.iter().any(|name| name == agent)).map(|model| model.id);
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| names.join(" or "))
}

/// Whether the terminal window is closed; writing may fail before the signal arrives.
fn is_closed(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
    code == Some(rustix::io::Errno::IO.raw_os_error())
}

async fn next(watch: &mut Option<Watch>) -> Result<WatchEvent, ClientError> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}
