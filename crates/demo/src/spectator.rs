//! A client that watches one chat, and remembers what it was shown and when.

use std::sync::Arc;
use std::time::Duration;

use everturn_server::wire::{Body, Ended, Event, Increment, Message, Part, Rung, Status, View};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::count::{tokens_in, words_in};
use super::ledger::Shown;
use everturn_frontend::client::{Client, WatchEvent};

/// How far a client has seen its chat come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    /// Tokens shown: words and thoughts.
    pub(super) tokens: usize,
    /// Whole words shown.
    pub(super) words: u64,
    /// Messages of a person.
    pub(super) users: usize,
    /// Results of tools.
    pub(super) results: usize,
    /// Nothing is under way and nothing waits.
    pub(super) is_idle: bool,
    pub(super) doing: Doing,
}

/// What the chat is doing, as a client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Doing {
    #[default]
    Nothing,
    Thinking,
    Speaking,
    Calling,
    Waiting,
    Away,
}

/// What a client has seen in the end.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) shown: Shown,
    pub(super) ended: Option<Ended>,
    pub(super) rungs: Vec<Rung>,
    pub(super) gaps: Vec<Duration>,
}

/// A client at work.
pub(super) struct Spectator {
    pub(super) progress: watch::Receiver<Progress>,
    cut: Arc<Notify>,
    done: CancellationToken,
    task: JoinHandle<anyhow::Result<Seen>>,
}

impl Spectator {
    /// Begins to watch a chat.
    pub(super) fn begin(name: &'static str, client: &Client, chat: &str) -> Self {
        let (told, progress) = watch::channel(Progress::default());
        let (cut, done) = (Arc::new(Notify::new()), CancellationToken::new());
        let watching = Watching {
            seen: Seen {
                shown: Shown { client: name, messages: Vec::new(), resets: 0 },
                ended: None,
                rungs: Vec::new(),
                gaps: Vec::new(),
            },
            newest: Instant::now(),
            fault: None,
            told,
        };
        let task = tokio::spawn(watching.watch(client.clone(), chat.into(), cut.clone(), done.clone()));
        Self { progress, cut, done, task }
    }

    /// Cuts its connection. It comes back by itself.
    pub(super) fn cut(&self) {
        self.cut.notify_one();
    }

    /// Waits until the chat has come this far.
    pub(super) async fn until(&self, far_enough: impl FnMut(&Progress) -> bool) -> Progress {
        let mut progress = self.progress.clone();
        match progress.wait_for(far_enough).await {
            Ok(progress) => *progress,
            Err(_) => *self.progress.borrow(), // It has given up; the books will say why.
        }
    }

    /// What it has seen.
    pub(super) async fn end(self) -> anyhow::Result<Seen> {
        self.done.cancel();
        self.task.await?
    }
}

struct Watching {
    seen: Seen,
    /// When the newest token was shown.
    newest: Instant,
    /// Since when the next token is waited for, after a fault.
    fault: Option<Instant>,
    told: watch::Sender<Progress>,
}

impl Watching {
    async fn watch(
        mut self,
        client: Client,
        chat: String,
        cut: Arc<Notify>,
        done: CancellationToken,
    ) -> anyhow::Result<Seen> {
        let mut watch = client.watch(&chat);
        loop {
            let news = tokio::select! {
                biased;
                () = done.cancelled() => break,
                () = cut.notified() => {
                    self.fault.get_or_insert(self.newest);
                    watch = client.resume(&chat, watch.into_follower());
                    continue;
                }
                news = watch.next() => news?,
            };
            match news {
                WatchEvent::Events(events) => {
                    events.iter().for_each(|event| self.take(event));
                    self.told.send_replace(progress(watch.view()));
                }
                WatchEvent::Lost(_) => {
                    self.fault.get_or_insert(self.newest);
                    self.told.send_modify(|progress| progress.doing = Doing::Away);
                }
                WatchEvent::Back => {}
            }
        }
        let View { messages, status, .. } = watch.view().clone();
        self.seen.shown.messages = messages;
        self.seen.ended = status.and_then(|status| status.ended);
        Ok(self.seen)
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Reset(_) => self.seen.shown.resets += 1,
            Event::Delta(delta) => match &delta.what {
                Increment::Attempt(began) => {
                    self.seen.rungs.push(began.rung);
                    if began.number > 1 {
                        self.fault.get_or_insert(self.newest);
                    }
                }
                Increment::RetractCall { .. } | Increment::RetractAll => {
                    self.fault.get_or_insert(self.newest);
                }
                Increment::Text { .. } | Increment::Reasoning { .. } | Increment::Call { .. } => self.shown(),
                _ => {}
            },
            Event::Message(Message { body: Body::Reply(_), .. }) if self.told.borrow().doing == Doing::Away => {
                self.shown()
            }
            Event::Message(_) | Event::Rewound(_) | Event::Status(_) => {}
        }
    }

    /// A token is shown.
    fn shown(&mut self) {
        self.newest = Instant::now();
        self.seen.gaps.extend(self.fault.take().map(|since| self.newest - since));
    }
}

fn progress(view: &View) -> Progress {
    let mut progress = Progress::default();
    for message in &view.messages {
        match &message.body {
            Body::User { .. } => progress.users += 1,
            Body::Result(_) => progress.results += 1,
            Body::Reply(reply) => {
                progress.tokens += tokens_in(&reply.parts);
                progress.words += words_in(&reply.parts);
            }
            Body::Context { .. } | Body::Summary(_) => {}
        }
    }
    let Some(status) = &view.status else { return progress };
    progress.is_idle = matches!(status.status, Status::Idle | Status::Failed) && status.queue.is_empty();
    // A reply stands for the draft of its step.
    let draft = view.draft.as_ref().filter(|draft| draft.step >= status.step);
    if let Some(draft) = draft {
        progress.tokens += tokens_in(&draft.parts);
        progress.words += words_in(&draft.parts);
    }
    progress.doing = match (status.status, &status.retry, draft.and_then(|draft| draft.parts.last())) {
        (Status::Idle | Status::Failed, ..) => Doing::Nothing,
        (_, Some(_), _) => Doing::Waiting,
        (_, None, Some(Part::Reasoning(_))) => Doing::Thinking,
        (_, None, Some(Part::Text(_))) => Doing::Speaking,
        (_, None, _) => Doing::Calling,
    };
    progress
}
