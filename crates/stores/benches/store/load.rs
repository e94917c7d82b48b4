//! Chats that stream into a store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everturn_core::change::Change;
use everturn_core::command::{Command, When};
use everturn_core::delta::{Began, Delta, Rung};
use everturn_core::ids::{ChatId, Seq, StepId, Timestamp};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, Part, Text};
use everturn_core::view::Row;
use everturn_stores::{Lease, Loaded, Store, Submission};

use crate::meter;

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
    pub written: u64,
    pub delays: Vec<Duration>,
}

impl Done {
    pub fn cpu_per_delta(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.deltas as f64
    }
}

struct Streaming {
    lease: Lease,
    step: StepId,
    seq: Seq,
}

impl Streaming {
    fn next(&mut self) -> Row {
        self.seq = self.seq.next();
        let delta = match self.seq {
            Seq(1) => {
                Delta::Attempt(Box::new(Began { number: 1, model: "bench/one".parse().unwrap(), rung: Rung::First }))
            }
            _ => Delta::Text(WORDS.into()),
        };
        Row { step: self.step, seq: self.seq, at: Timestamp(1_790_000_000_000), delta: Arc::new(delta) }
    }
}

impl Load {
    /// So many chats, numbered from `from`, each in a turn.
    pub async fn new(store: &Arc<dyn Store>, count: usize, from: u128) -> Self {
        let mut chats = Vec::new();
        for number in 0..count {
            let id = ChatId::new(Timestamp(1), from + number as u128);
            store.create(id, "bench", "").await.unwrap();
            let mut lease = store.acquire(id).await.unwrap();
            obey(store, &mut lease, "begin").await;
            let Loaded { chat, .. } = store.load(&lease).await.unwrap();
            chats.push(Streaming { lease, step: chat.step, seq: Seq(0) });
        }
        Self { store: store.clone(), chats }
    }

    /// Lets all of them stream for `span`, at a pace or as fast as they can.
    pub async fn run(self, span: Duration, pace: Option<Duration>) -> Done {
        let (started, cpu, written) = (Instant::now(), meter::cpu(), meter::written());
        let count = self.chats.len() as u32;
        let stream = |(number, mut chat): (usize, Streaming)| {
            let store = self.store.clone();
            async move {
                let mut delays = Vec::new();
                // Not all at the same moment: people begin when they like.
                let offset = pace.map_or(Duration::ZERO, |pace| pace * number as u32 / count);
                while started.elapsed() < span {
                    let due = pace.map(|pace| started + offset + pace * delays.len() as u32);
                    if let Some(due) = due {
                        tokio::time::sleep_until(due.into()).await;
                    }
                    let pushed = due.map_or_else(Instant::now, |due| due.max(Instant::now()));
                    let row = chat.next();
                    store.append(chat.lease.pen(), vec![row]).await.unwrap();
                    delays.push(pushed.elapsed());
                }
                delays
            }
        };
        let tasks: Vec<_> = self.chats.into_iter().enumerate().map(stream).map(tokio::spawn).collect();
        let mut delays = Vec::new();
        for task in tasks {
            delays.extend(task.await.unwrap());
        }
        let (took, deltas) = (started.elapsed(), delays.len());
        let (cpu, written) = (meter::cpu() - cpu, meter::written() - written);
        Done { deltas, payload: deltas * WORDS.len(), took, cpu, written, delays }
    }

    /// The answer of the one chat grows to `n` deltas. What each of the last thousand took.
    pub async fn grow_to(&mut self, n: usize) -> Duration {
        let chat = &mut self.chats[0];
        while (chat.seq.0 as usize) < n - 1_000 {
            let rows: Vec<Row> = (0..100).map(|_| chat.next()).collect();
            self.store.append(chat.lease.pen(), rows).await.unwrap();
        }
        let started = Instant::now();
        for _ in 0..1_000 {
            let row = chat.next();
            self.store.append(chat.lease.pen(), vec![row]).await.unwrap();
        }
        started.elapsed() / 1_000
    }

    /// What a commit takes, the best of fifty, once the transcript of the one chat has `messages` messages.
    pub async fn commit_at(&mut self, messages: u64) -> Duration {
        let (store, lease) = (&self.store, &mut self.chats[0].lease);
        let mut best = Duration::MAX;
        let mut measured = 0;
        while measured < 50 {
            let Loaded { chat, .. } = store.load(lease).await.unwrap();
            let mut change = Change::new(&chat, Timestamp(2));
            let missing = messages.saturating_sub(chat.newest.0).min(500);
            for _ in 0..missing.max(1) {
                change.say(Body::Context(WORDS.repeat(10)));
            }
            let facts = change.facts();
            let started = Instant::now();
            store.commit(lease, &facts).await.unwrap();
            if missing == 0 {
                best = best.min(started.elapsed());
                measured += 1;
            }
        }
        best
    }
}

/// Sends something and takes it out of the inbox, as a driver does.
async fn obey(store: &Arc<dyn Store>, lease: &mut Lease, words: &str) {
    let parts = [Part::Text(Text { text: words.into(), meta: Default::default() })];
    let command = Command::Send { parts: parts.into(), when: When::Queue };
    let submission = Submission { command: command.clone(), key: None, at: Timestamp(1) };
    let receipt = store.submit(lease.chat(), submission, &Limits::default()).await.unwrap();
    let Loaded { chat, .. } = store.load(lease).await.unwrap();
    let mut change = Change::new(&chat, Timestamp(1));
    change.obey(receipt.seq, &command, Ok(()));
    store.commit(lease, &change.facts()).await.unwrap();
}
