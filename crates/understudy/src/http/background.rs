//! Background generations: they go on without a reader and can be re-attached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::act::{Act, Encode, go_on};
use super::answer::{events_response, json_response};
use super::connection::ConnectionHandle;
use super::dialect::BackgroundApi;
use super::log::AnswerLog;
use super::play::{HttpBody, broken};
use super::state::{ServerState, StoredResponse};
use super::wire::WireRefusal;

/// One generation: everything it has said, and the task that continues it.
pub(super) struct Generation {
    keeps: BackgroundApi,
    /// The response before anything was said.
    queued: Value,
    script: Mutex<Script>,
    /// Writes down what is said.
    scribe: AnswerLog,
    /// Counts changes.
    changed: watch::Sender<u64>,
    cancelled: CancellationToken,
}

struct Script {
    keeps: BackgroundApi,
    encoder: Box<dyn Encode>,
    entries: Vec<Entry>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// More will come.
    Speaking,
    /// The script is over, the answer is not: the next reader continues it with the next script.
    Silent,
    /// The answer is over.
    Done,
    Cancelled,
}

enum Entry {
    /// An event and its number.
    Event(u64, Bytes),
    /// Something without a number.
    Noise(Bytes),
    /// What only the first one to get here sees.
    Once(Option<Vec<Act>>),
}

impl Generation {
    /// Begins to generate, by itself.
    pub(super) fn start(
        state: &Arc<ServerState>,
        encoder: Box<dyn Encode>,
        acts: Vec<Act>,
        (keeps, queued, scribe): (BackgroundApi, Value, AnswerLog),
    ) -> Arc<Self> {
        let script = Mutex::new(Script { keeps, encoder, entries: Vec::new(), phase: Phase::Speaking });
        let (changed, _) = watch::channel(0);
        let generation = Arc::new(Self { keeps, queued, script, scribe, changed, cancelled: state.stop.child_token() });
        tokio::spawn(generation.clone().generate(acts));
        generation
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn generate(self: Arc<Self>, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Wait(time) => {
                    tokio::select! {
                        biased;
                        () = self.cancelled.cancelled() => return,
                        () = tokio::time::sleep(time) => {}
                    }
                }
                Act::Frame(bytes) => self.push(|script| script.say(bytes)),
                Act::Said(delta) => self.scribe.said(&delta),
                Act::Once(acts) => self.push(|script| script.entries.push(Entry::Once(Some(acts)))),
                Act::End if self.script().phase == Phase::Done => return,
                trouble @ (Act::End | Act::Break(_) | Act::Hang) => {
                    self.push(|script| script.entries.push(Entry::Once(Some(vec![trouble]))));
                }
            }
            if self.cancelled.is_cancelled() {
                return;
            }
        }
        self.push(|script| {
            if script.phase == Phase::Speaking {
                script.phase = Phase::Silent;
            }
        });
    }

    fn push(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script());
        self.changed.send_modify(|count| *count += 1);
    }

    /// Goes on with the next script if this one is over too early.
    fn wake(self: &Arc<Self>, state: &ServerState) {
        let mut script = self.script();
        if script.phase != Phase::Silent {
            return;
        }
        if let Some(next) = state.understudy.next_written() {
            script.phase = Phase::Speaking;
            let acts = go_on(next, script.encoder.as_mut());
            drop(script);
            tokio::spawn(self.clone().generate(acts));
        }
    }

    /// The response as it stands.
    pub(super) fn now(&self) -> Value {
        let script = self.script();
        let events = script.entries.iter().filter_map(|entry| match entry {
            Entry::Event(_, frame) => data(frame),
            Entry::Noise(_) | Entry::Once(_) => None,
        });
        let mut response = self.keeps.now(&self.queued, events);
        if script.phase == Phase::Cancelled {
            response["status"] = "cancelled".into();
        }
        response
    }

    /// The response, if it is over and can be built upon.
    pub(super) fn completed(&self) -> Option<Value> {
        let is_done = self.script().phase == Phase::Done;
        let is_good =
            |response: &Value| ["completed", "requires_action"].iter().any(|good| response["status"] == *good);
        is_done.then(|| self.now()).filter(is_good)
    }

    /// The whole response once it is over, however it ends; none if it only falls silent.
    pub(super) async fn whole(&self) -> Option<Value> {
        let mut changed = self.changed.subscribe();
        let phase = || self.script().phase;
        let _ = changed.wait_for(|_| phase() != Phase::Speaking).await; // The sender is ours.
        (phase() == Phase::Done).then(|| self.now())
    }
}

impl Script {
    fn say(&mut self, frame: Bytes) {
        let event = data(&frame);
        let number = event.as_ref().and_then(|event| self.keeps.number(event));
        if event.is_some_and(|event| self.keeps.is_last(&event)) {
            self.phase = Phase::Done;
        }
        self.entries.push(match number {
            Some(number) => Entry::Event(number, frame),
            None => Entry::Noise(frame),
        });
    }
}

/// The data of an event.
fn data(frame: &Bytes) -> Option<Value> {
    let text = str::from_utf8(frame).ok()?;
    let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
    serde_json::from_str(data).ok()
}

/// The response in an event that ends one.
pub(super) fn ended(frame: &Bytes) -> Option<Value> {
    let last = ["event: response.completed\n", "event: response.incomplete\n", "event: response.failed\n"];
    let is_last = last.iter().any(|start| frame.starts_with(start.as_bytes()));
    is_last.then(|| data(frame)).flatten().and_then(|mut data| data.get_mut("response").map(Value::take))
}

/// A response again: as it stands, or as a stream from after a number.
///
/// # Errors
/// If it is unknown, or it cannot be streamed again.
pub(super) fn again(
    state: &Arc<ServerState>,
    line: ConnectionHandle,
    (keeps, id): (BackgroundApi, &str),
    stream: Option<Option<u64>>,
) -> Result<Response<HttpBody>, WireRefusal> {
    match (state.kept(id).ok_or_else(|| keeps.not_found(id))?, stream) {
        (StoredResponse::Done(response), None) => Ok(json_response(&response)),
        (StoredResponse::Done(_), Some(_)) => Err(WireRefusal::new(
            400,
            "This response cannot be streamed: only responses created with background=true and stream=true can be.",
        )),
        (StoredResponse::Background(generation), None) => Ok(json_response(&generation.now())),
        (StoredResponse::Background(generation), Some(after)) => {
            generation.wake(state);
            Ok(events_response(attach(state, generation, line, after)))
        }
    }
}

/// Ends a generation in the background.
///
/// # Errors
/// If it is unknown, or it is not in the background.
pub(super) fn cancel(state: &ServerState, keeps: BackgroundApi, id: &str) -> Result<Value, WireRefusal> {
    match state.kept(id).ok_or_else(|| keeps.not_found(id))? {
        StoredResponse::Done(_) => Err(WireRefusal::new(400, "Cannot cancel a synchronous response.")),
        StoredResponse::Background(generation) => {
            generation.push(|script| {
                if script.phase != Phase::Done {
                    script.phase = Phase::Cancelled;
                }
            });
            generation.cancelled.cancel();
            Ok(generation.now())
        }
    }
}

/// What a listener finds next.
enum Next {
    Send(Bytes),
    Play(Vec<Act>),
    Wait,
    End,
}

/// A listener's place in a generation.
struct Listener {
    generation: Arc<Generation>,
    line: ConnectionHandle,
    at: usize,
    after: Option<u64>,
    /// What this listener alone goes through.
    own: std::collections::VecDeque<Act>,
    changed: watch::Receiver<u64>,
    _open: crate::play::OpenStream,
}

/// A stream of everything after a number, to the end. Dropping it ends nothing.
pub(super) fn attach(
    state: &ServerState,
    generation: Arc<Generation>,
    line: ConnectionHandle,
    after: Option<u64>,
) -> HttpBody {
    let changed = generation.changed.subscribe();
    let open = state.understudy.opened();
    let listener = Listener { generation, line, at: 0, after, own: Default::default(), changed, _open: open };
    let frames = stream::unfold(listener, |mut listener| async move {
        let sent = listener.next().await?;
        Some((sent.map(Frame::data), listener))
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Listener {
    async fn next(&mut self) -> Option<std::io::Result<Bytes>> {
        loop {
            while let Some(act) = self.own.pop_front() {
                match act {
                    Act::Frame(bytes) => return Some(Ok(bytes)),
                    Act::Said(_) => {}
                    Act::Wait(time) => tokio::time::sleep(time).await,
                    Act::Once(acts) => acts.into_iter().rev().for_each(|act| self.own.push_front(act)),
                    Act::End => return None,
                    Act::Hang => std::future::pending().await,
                    Act::Break(how) => return Some(Err(broken(how, &self.line).await)),
                }
            }
            match self.look() {
                Next::Send(bytes) => return Some(Ok(bytes)),
                Next::Play(acts) => self.own.extend(acts),
                Next::End => return None,
                Next::Wait => {
                    let _ = self.changed.changed().await; // The sender lives as long as the generation, which we hold.
                }
            }
        }
    }

    fn look(&mut self) -> Next {
        self.changed.mark_unchanged(); // Before the look: what changes in between wakes us again.
        let mut script = self.generation.script();
        // A reader that resumes after a number has seen everything before it, and the break behind it.
        let seen = script.entries.iter().rposition(
            |entry| matches!((entry, self.after), (Entry::Event(number, _), Some(after)) if *number <= after),
        );
        let skipped = seen.map_or(0, |last| last + 1);
        if self.at < skipped {
            for entry in &mut script.entries[self.at..skipped] {
                if let Entry::Once(acts) = entry {
                    *acts = None;
                }
            }
            self.at = skipped;
        }
        while let Some(entry) = script.entries.get_mut(self.at) {
            self.at += 1;
            match entry {
                Entry::Event(_, bytes) | Entry::Noise(bytes) => return Next::Send(bytes.clone()),
                Entry::Once(acts) => {
                    if let Some(acts) = acts.take() {
                        return Next::Play(acts);
                    }
                }
            }
        }
        match script.phase {
            Phase::Speaking => Next::Wait,
            Phase::Silent | Phase::Done | Phase::Cancelled => Next::End,
        }
    }
}
