//! Chats that stream into a store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everturn_core::change::Change;
use everturn_core::chat::Chat;
use everturn_core::command::{Command, Delivery, InboxCommand};
use everturn_core::delta::{AttemptBegan, Delta, Rung};
use everturn_core::ids::{ChatId, Seq, StepId, Timestamp};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, Part, Text};
use everturn_core::view::JournalRow;
use everturn_stores::{Lease, Loaded, NewChat, Store, StoreExt as _, Submission};

use crate::meter;

/// How many deltas the engine takes together at most.
const BATCH_LEN_MAX: usize = 1_024;
/// What a delta says: about what models send at once.
const WORDS: &str = "and so it goes on, ";

/// Some chats in a turn, each with its lease.
pub struct Load {
    store: Arc<dyn Store>,
    chats: Vec<Streaming>,
}

/// What a load came to.
pub struct Done {
    pub deltas: usize,
    pub payload: usize,
    pub took: Duration,
    pub cpu: Duration,
    pub delays: Vec<Duration>,
}

impl Done {
    pub fn cpu_per_delta(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.deltas as f64
    }
}

/// How deltas come.
#[derive(Debug, Clone, Copy)]
pub enum Drive {
    /// The next one when the last one is durable.
    Closed,
    /// So far apart, each by itself.
    Paced(Duration),
    /// So far apart; what has come meanwhile is appended together, as the engine does.
    Flooded(Duration),
}

struct Streaming {
    lease: Lease,
    chat: Chat,
    step: StepId,
    seq: Seq,
}

impl Streaming {
    fn next(&mut self) -> JournalRow {
        self.seq = self.seq.next();
        let delta = match self.seq {
            Seq(1) => Delta::Attempt(Box::new(AttemptBegan {
                number: 1,
                model: "bench/one".parse().unwrap(),
                rung: Rung::First,
            })),
            _ => Delta::Text(WORDS.into()),
        };
        JournalRow { step: self.step, seq: self.seq, at: Timestamp(1_790_000_000_000), delta: Arc::new(delta) }
    }
}

impl Load {
    /// So many chats, numbered from `from`, each in a turn.
    pub async fn new(store: &Arc<dyn Store>, count: usize, from: u128) -> Self {
        let begin = |number| {
            let store = store.clone();
            async move {
                let id = ChatId::new(Timestamp(1), from + number as u128);
                store.create(&NewChat::of(id, "bench", "")).await.unwrap();
                let mut lease = store.acquire(id).await.unwrap();
                obey(&store, &mut lease, "begin").await;
                let Loaded { chat, .. } = store.load(&lease).await.unwrap();
                Streaming { lease, step: chat.step, chat, seq: Seq(0) }
            }
        };
        let begun: Vec<_> = (0..count).map(begin).map(tokio::spawn).collect();
        let mut chats = Vec::new();
        for chat in begun {
            chats.push(chat.await.unwrap());
        }
        Self { store: store.clone(), chats }
    }

    /// Lets all of them stream for `span`.
    pub async fn run(&mut self, span: Duration, drive: Drive) -> Done {
        let (started, cpu) = (Instant::now(), meter::cpu());
        let count = self.chats.len() as u32;
        let stream = |(number, mut chat): (usize, Streaming)| {
            let store = self.store.clone();
            async move {
                let (mut delays, mut deltas) = (Vec::new(), 0);
                while started.elapsed() < span {
                    let rows = match drive {
                        Drive::Closed => vec![chat.next()],
                        Drive::Paced(gap) | Drive::Flooded(gap) => {
                            // Not all at the same moment: people begin when they like.
                            let due = started + gap * number as u32 / count + gap * deltas;
                            tokio::time::sleep_until(due.into()).await;
                            let come = 1 + (due.elapsed().as_nanos() / gap.as_nanos()) as usize;
                            let taken = if let Drive::Flooded(_) = drive { come.min(BATCH_LEN_MAX) } else { 1 };
                            (0..taken).map(|_| chat.next()).collect()
                        }
                    };
                    deltas += rows.len() as u32;
                    let pushed = Instant::now();
                    store.append_and_wait(chat.lease.append_right(), rows).await.unwrap();
                    delays.push(pushed.elapsed());
                }
                (chat, delays, deltas as usize)
            }
        };
        let tasks: Vec<_> = self.chats.drain(..).enumerate().map(stream).map(tokio::spawn).collect();
        let (mut delays, mut deltas) = (Vec::new(), 0);
        for task in tasks {
            let (chat, its, count) = task.await.unwrap();
            delays.extend(its);
            deltas += count;
            self.chats.push(chat);
        }
        let (took, cpu) = (started.elapsed(), meter::cpu() - cpu);
        Done { deltas, payload: deltas * WORDS.len(), took, cpu, delays }
    }

    /// The answer of one chat grows to `len` deltas.
    pub async fn grow_to(&mut self, chat: usize, len: usize) {
        let chat = &mut self.chats[chat];
        while (chat.seq.0 as usize) < len {
            let rows: Vec<JournalRow> = (0..100).map(|_| chat.next()).collect();
            self.store.append_and_wait(chat.lease.append_right(), rows).await.unwrap();
        }
    }

    /// What it takes to add so many deltas, one at a time.
    pub async fn grow_by(&mut self, chat: usize, len: usize) -> Duration {
        let chat = &mut self.chats[chat];
        let started = Instant::now();
        for _ in 0..len {
            let row = chat.next();
            self.store.append_and_wait(chat.lease.append_right(), vec![row]).await.unwrap();
        }
        started.elapsed()
    }

    /// The transcript of one chat grows to `len` messages.
    pub async fn talk_to(&mut self, chat: usize, len: usize) {
        while let missing @ 1.. = (len as u64).saturating_sub(self.chats[chat].chat.newest.0) {
            self.say(chat, missing.min(500)).await;
        }
    }

    /// What it takes to commit some messages.
    pub async fn say(&mut self, chat: usize, count: u64) -> Duration {
        let Streaming { lease, chat, .. } = &mut self.chats[chat];
        let mut change = Change::new(chat, Timestamp(2));
        for _ in 0..count {
            change.say(Body::Context(WORDS.repeat(10)));
        }
        let facts = change.facts();
        let started = Instant::now();
        self.store.commit(lease, &facts).await.unwrap();
        let took = started.elapsed();
        chat.apply(&facts);
        took
    }
}

/// Sends something and takes it out of the inbox, as a driver does.
async fn obey(store: &Arc<dyn Store>, lease: &mut Lease, words: &str) {
    let parts = [Part::Text(Text { text: words.into(), meta: Default::default() })];
    let command = Command::Send { parts: parts.into(), when: Delivery::Queue };
    let submission = Submission { command: command.clone(), key: None, at: Timestamp(1) };
    let receipt = store.submit(lease.chat(), submission, &Limits::default()).await.unwrap();
    let Loaded { chat, .. } = store.load(lease).await.unwrap();
    let mut change = Change::new(&chat, Timestamp(1));
    let inbound = InboxCommand { seq: receipt.seq, aimed: chat.step, at: Timestamp(1), key: None, command };
    change.obey(&inbound, Ok(()));
    store.commit(lease, &change.facts()).await.unwrap();
}
