//! A chat's life over many processes, and what must hold between any two of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use everturn::core::chat::Effect;
use everturn::core::command::Delivery;
use everturn::core::draft::Draft;
use everturn::core::ids::{ChatId, Seq, Timestamp};
use everturn::core::limits::Limits;
use everturn::core::message::{Body, CallVerdict, Message, Part, Stop, Text, text_of};
use everturn::core::view::{Cursor, Event, JournalRow, Standing};
use everturn::stores::{NewChat, Store, StoreExt as _, Submission};

use crate::inputs::Inputs;
use crate::mortal::{ASKING, HARDY, PLACE, SURE, TOKENS, TRACE, fingerprint, tokens};
use crate::place::Place;

/// How long a process may say nothing before something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that outlives the processes: the store, the trace of the tools, and what was promised so far.
pub struct Saga {
    pub place: Place,
    pub trace: PathBuf,
    chats: Vec<ChatId>,
    /// In which of them people do more than send, and what: steer, interrupt, edit, answer.
    stepping_in: Vec<(ChatId, &'static str)>,
    /// How often they did.
    steps_in: usize,
    /// The accepted commands besides messages.
    inputs: Inputs,
    /// Sent messages by key: the chat, and whether the message was ever acknowledged.
    sent: BTreeMap<String, (ChatId, bool)>,
    /// The newest place each chat's reader said it had got to, and what the draft looked like there.
    seen: BTreeMap<ChatId, (Cursor, u64)>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, where it was told to, or by a deadly tool.
    AtItsPlace,
    /// By a killer.
    Killed,
    /// It had nothing left to do.
    Rested,
}

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// A process that can be killed.
pub struct Mortal {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Saga {
    /// Nothing yet, not even a store.
    pub fn unmade(place: Place, trace: PathBuf) -> Self {
        let (chats, stepping_in, inputs) = (Vec::new(), Vec::new(), Inputs::default());
        let (sent, seen) = (BTreeMap::new(), BTreeMap::new());
        Self { place, trace, chats, stepping_in, steps_in: 0, inputs, sent, seen }
    }

    /// Makes `chats` empty chats at `place`.
    pub async fn begin(place: Place, trace: PathBuf, chats: u128) -> Self {
        Self::of(HARDY, place, trace, chats).await
    }

    /// A chat of this agent.
    pub async fn of(agent: &str, place: Place, trace: PathBuf, chats: u128) -> Self {
        let store = place.open().await;
        let chats: Vec<ChatId> = (1..=chats).map(|number| ChatId::new(Timestamp(1), number)).collect();
        for chat in &chats {
            store.create(&NewChat::of(*chat, agent, "")).await.unwrap();
        }
        Self { chats, ..Self::unmade(place, trace) }
    }

    /// A chat for everything that people do.
    pub async fn of_every_kind(place: Place, trace: PathBuf) -> Self {
        let mut saga = Self::of(HARDY, place, trace, 3).await;
        let asked = ChatId::new(Timestamp(1), 4);
        let store = saga.place.open().await;
        store.create(&NewChat::of(asked, ASKING, "")).await.unwrap();
        saga.chats.push(asked);
        let first = [Part::Text(Text { text: "first".into(), meta: Default::default() })];
        let command = everturn::core::command::Command::Send { parts: first.into(), when: Delivery::Queue };
        let to_be_edited = Submission { command, key: Some("first".into()), at: Timestamp(1) };
        store.submit(saga.chats[0], to_be_edited, &Limits::default()).await.unwrap();
        saga.stepping_in = saga.chats.iter().copied().zip(["edit", "steer", "interrupt", "answer"]).collect();
        saga
    }

    /// Starts a process; `death` is where it is to kill itself, if it comes there.
    pub fn start(&self, death: Option<&str>) -> Mortal {
        self.start_with(death.map(|death| ("EVERTURN_FAILPOINT", death)))
    }

    /// Starts one that never doubts that others take it for alive.
    pub fn start_sure(&self) -> Mortal {
        self.start_with(Some((SURE, "yes")))
    }

    fn start_with(&self, variable: Option<(&str, &str)>) -> Mortal {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["mortal::mortal", "--exact", "--ignored", "--nocapture", "--quiet"]);
        command.env(PLACE, self.place.to_string()).env(TRACE, &self.trace).envs(variable);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, (tell, lines)) = (child.stdout.take().unwrap(), channel());
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix('@') {
                    let _ = tell.send(line.to_string());
                }
            }
        });
        let input = child.stdin.take();
        Mortal { child, input, lines }
    }

    /// Makes a process watch every chat, send what was never acknowledged again and `more` besides, and go on.
    pub fn set_going(&mut self, mortal: &mut Mortal, more: usize) {
        for chat in &self.chats {
            mortal.tell(&format!("watch {chat}"));
        }
        mortal.tell("go");
        // What is sent would not stay there, or would go on after it was stopped.
        let is_for_others = |chat| ["edit", "interrupt"].iter().any(|verb| self.stepping_in.contains(&(chat, verb)));
        let chats: Vec<ChatId> = self.chats.iter().copied().filter(|chat| !is_for_others(*chat)).collect();
        for number in self.sent.len()..self.sent.len() + more {
            let chat = chats[number % chats.len()];
            self.sent.insert(format!("m{number}"), (chat, false));
        }
        for (key, (chat, _)) in self.sent.iter().filter(|(_, (_, is_acknowledged))| !is_acknowledged) {
            mortal.tell(&format!("send {chat} {key}"));
        }
        for (chat, verb) in &self.stepping_in {
            self.steps_in += 1;
            let key = format!("{verb}{}", self.steps_in);
            mortal.tell(&if *verb == "answer" { format!("answer {chat}") } else { format!("{verb} {chat} {key}") });
        }
    }

    /// Notes what a process said.
    pub fn heed(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["ok", key] => self.sent.get_mut(key).unwrap().1 = true,
            ["seen", chat, cursor, shown] => {
                let (chat, cursor): (ChatId, Cursor) = (chat.parse().unwrap(), cursor.parse().unwrap());
                let earlier = self.seen.insert(chat, (cursor, shown.parse().unwrap()));
                assert!(earlier.is_none_or(|(earlier, _)| earlier <= cursor), "a reader went back to {cursor}");
            }
            ["took", verb, chat, key, seq] => self.inputs.heed(verb, chat, key, seq),
            ["up" | "rest" | "lost" | "not" | "blocked", ..] => {}
            _ => panic!("a process said {line}"),
        }
    }

    /// Checks what must hold after any death: everything acknowledged is there, once; everything shown is there, unchanged.
    pub async fn check(&mut self) {
        let store = self.place.open().await;
        for chat in &self.chats {
            let (standing, rows) = stored(&*store, *chat).await;
            let transcript = store.transcript(*chat).await.unwrap();
            self.everything_accepted_is_there(&*store, *chat, &standing, &transcript).await;
            self.everything_shown_is_there(&*store, *chat, &rows).await;
            self.every_effect_is_in_the_ledger(&*store, *chat, &transcript).await;
            self.inputs.check(&*store, *chat, &standing, &transcript).await;
        }
        drop(store);
        assert_eq!(self.place.troubles(&self.chats), [""; 0]);
    }

    async fn everything_accepted_is_there(
        &self,
        store: &dyn Store,
        chat: ChatId,
        standing: &Standing,
        transcript: &[Arc<Message>],
    ) {
        let mut there: BTreeMap<String, usize> = BTreeMap::new();
        let said = transcript.iter().filter_map(|message| match &message.body {
            Body::User(parts) => Some(text_of(parts)),
            _ => None,
        });
        let queued = standing.queue.iter().map(|queued| text_of(&queued.parts));
        // What waits in the inbox is shown in the queue.
        for inbound in store.inbox(chat).await.unwrap() {
            let is_message = matches!(inbound.command, everturn::core::command::Command::Send { .. });
            let is_shown = standing.queue.iter().any(|queued| queued.id == inbound.seq);
            assert_eq!(is_shown, is_message, "{:?} of {chat}", inbound.command);
        }
        for key in said.chain(queued) {
            *there.entry(key).or_default() += 1;
        }
        for (key, (of, is_acknowledged)) in self.sent.iter().filter(|(_, (of, _))| *of == chat) {
            let times = there.get(key).copied().unwrap_or_default();
            assert!(times <= 1 && times >= usize::from(*is_acknowledged), "{key} of {of} is there {times} times");
        }
    }

    async fn everything_shown_is_there(&self, store: &dyn Store, chat: ChatId, rows: &[JournalRow]) {
        let Some((cursor, shown)) = self.seen.get(&chat).copied() else { return };
        let news = store.since(chat, Some(cursor)).await.unwrap();
        let is_reset = news.is_some_and(|news| matches!(news.events[..], [Event::Reset(_)]));
        assert!(!is_reset, "{cursor} was given to a reader and cannot be used any more");
        let seen: Vec<&JournalRow> =
            rows.iter().filter(|row| row.step == cursor.step && row.seq <= cursor.seq).collect();
        if let Some(first) = seen.first() {
            let mut draft = Draft::new(first.step);
            for row in &seen {
                draft.push(row.at, &row.delta).unwrap();
            }
            assert_eq!(fingerprint(&draft), shown, "at {cursor} the reader saw something else than is stored");
            assert_eq!(draft.seq(), cursor.seq, "some of what was shown is gone");
        }
    }

    /// How many tools have begun so far.
    pub fn effects(&self) -> usize {
        std::fs::read_to_string(&self.trace).unwrap_or_default().lines().count()
    }

    /// I9: every started call is in the ledger, a call that is not in the ledger was never started, and no harmful effect
    /// happened twice.
    async fn every_effect_is_in_the_ledger(&self, store: &dyn Store, chat: ChatId, transcript: &[Arc<Message>]) {
        let trace = std::fs::read_to_string(&self.trace).unwrap_or_default();
        let mut effects: BTreeMap<String, u32> = BTreeMap::new();
        let prefix = format!(" {chat} ");
        for (_, uid) in trace.lines().filter_map(|line| line.split_once(&prefix)) {
            *effects.entry(uid.into()).or_default() += 1;
        }
        let ledger = store.calls(chat).await.unwrap();
        for record in &ledger {
            let times = effects.remove(&record.uid.to_string()).unwrap_or_default();
            assert!(times <= record.starts, "{record:?} happened {times} times");
            if record.effect == Effect::Once {
                assert_eq!(record.starts, 1, "{record:?}");
            }
            if let Some((_, CallVerdict::Done)) = record.ended {
                assert!(times >= 1, "{record:?} never happened");
            }
        }
        assert!(effects.is_empty(), "not in the ledger: {effects:?}");
        let ended: BTreeSet<_> =
            ledger.iter().filter(|record| record.ended.is_some()).map(|record| record.uid).collect();
        for message in transcript {
            if let Body::Result(result) = &message.body {
                let is_noted = ended.contains(&result.call) || result.began.is_none();
                assert!(is_noted, "the result of {} is not in the ledger", result.call);
            }
        }
    }

    /// Checks what must hold at the end: every message was answered in full, every number once.
    pub async fn check_complete(&mut self) {
        self.check().await;
        if !self.stepping_in.is_empty() {
            return self.inputs.are_done(); // What was stopped or said together has fewer answers.
        }
        let store = self.place.open().await;
        let mut answered = 0;
        for chat in &self.chats {
            for message in store.transcript(*chat).await.unwrap() {
                if let Body::Reply(reply) = &message.body {
                    assert_eq!(reply.text().trim_end(), tokens(TOKENS), "{chat} {}", message.id);
                    answered += usize::from(reply.stop == Stop::End);
                }
            }
        }
        assert_eq!(answered, self.sent.len());
    }
}

/// The chat's status and the journal of its open step, read without a lease.
async fn stored(store: &dyn Store, chat: ChatId) -> (Standing, Vec<JournalRow>) {
    let news = store.since(chat, None).await.unwrap().unwrap();
    let [Event::Reset(snapshot)] = &news.events[..] else { panic!("no snapshot but {:?}", news.events) };
    let beginning = Cursor { seq: Seq(0), ..news.cursor };
    let rows = store.since(chat, Some(beginning)).await.unwrap().into_iter().flat_map(|news| news.events);
    let rows = rows.filter_map(|event| if let Event::Delta(row) = event { Some(row) } else { None });
    (snapshot.standing.clone(), rows.collect())
}

impl Mortal {
    pub fn tell(&mut self, line: &str) {
        // A process that is dead already gets nothing.
        let _ = self.input.as_mut().map(|input| writeln!(input, "{line}"));
    }

    /// The process's next line; `None` once it has ended.
    pub fn next(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("nothing for {PATIENCE:?}: {}", self.kill()),
        }
    }

    /// Stops it where it is, or lets it go on.
    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Kills it, unless it is dead already, and returns what it wrote to its error output.
    pub fn kill(&mut self) -> String {
        let _ = self.child.kill(); // SIGKILL.
        self.end().1
    }

    /// How it ended, and what it wrote to its error output. Dying by a bug of the test fails it.
    pub fn end(&mut self) -> (End, String) {
        let status = self.child.wait().unwrap();
        let said = std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap_or_default();
        let end = match (status.signal(), status.success()) {
            (Some(SIGABRT), _) => End::AtItsPlace,
            (Some(SIGKILL), _) => End::Killed,
            (None, true) => End::Rested,
            _ => panic!("it ended with {status}: {said}"),
        };
        assert!(!said.contains("panicked at"), "{said}");
        (end, said)
    }

    /// Tells it that nothing more comes: it ends when every chat rests.
    pub fn end_input(&mut self) {
        self.input = None;
    }
}
