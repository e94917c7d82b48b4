//! A chat, to talk to.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::chat::{OpenCall, TurnEnd};
use everturn_core::command::{CallAnswer, Command, Delivery, ModelChoice, Refusal};
use everturn_core::fact::AttemptRecord;
use everturn_core::ids::{ChatId, InboxSeq, MessageId};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, Message, Part};
use everturn_core::status::Status;
use everturn_core::view::{Cursor, Standing, View};
use everturn_stores::{Heading, Receipt, StoreError, StoreExt as _, Submission, SubmitError, WriteError};
use tokio::time::Instant;

use crate::engine::Ports;
use crate::watch::poll::Poll;
use crate::watch::subscription::Subscription;

/// How soon a chat is asked for again that another process holds.
const HELD_RETRY: Duration = Duration::from_millis(50);

/// Provider calls on a page. A chat may have made any number.
const ATTEMPTS_LEN_MAX: usize = 500;

/// What a chat does that does nothing more by itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Rest {
    /// No turn is under way. How the newest one ended, unless there was none.
    Idle(Option<TurnEnd>),
    /// A turn is under way, and waits for a client or a person to answer these calls.
    Awaiting(Vec<OpenCall>),
}

impl Rest {
    fn of(standing: Standing) -> Self {
        match standing.status {
            Status::Awaiting => Self::Awaiting(standing.asks),
            Status::Idle | Status::Failed | Status::Running | Status::Interrupting => Self::Idle(standing.ended),
        }
    }

    /// How the newest turn ended. None while one waits for answers, and if there was none.
    #[must_use]
    pub fn ended(self) -> Option<TurnEnd> {
        match self {
            Self::Idle(ended) => ended,
            Self::Awaiting(_) => None,
        }
    }
}

/// A chat, to talk to. Cheap to clone.
#[derive(Clone)]
pub struct ChatHandle {
    pub(crate) ports: Arc<Ports>,
    pub(crate) id: ChatId,
}

impl ChatHandle {
    /// Its name.
    #[must_use]
    pub const fn id(&self) -> ChatId {
        self.id
    }

    /// Says something; if the chat is busy, after the turn.
    pub async fn send(&self, text: impl Into<String>) -> Result<Receipt, SubmitError> {
        self.say(text, Delivery::Queue).await
    }

    /// Says something; if the chat is busy, at the next step boundary.
    pub async fn steer(&self, text: impl Into<String>) -> Result<Receipt, SubmitError> {
        self.say(text, Delivery::Steer).await
    }

    /// Says something now; if the chat is busy, it is interrupted first.
    pub async fn send_now(&self, text: impl Into<String>) -> Result<Receipt, SubmitError> {
        self.say(text, Delivery::Now).await
    }

    async fn say(&self, text: impl Into<String>, when: Delivery) -> Result<Receipt, SubmitError> {
        self.submit(Command::Send { parts: words(text), when }, None).await
    }

    /// Replaces a message and everything after it.
    pub async fn edit(&self, message: MessageId, text: impl Into<String>) -> Result<Receipt, SubmitError> {
        self.submit(Command::Edit { message, parts: words(text) }, None).await
    }

    /// Makes a queued message the next one.
    pub async fn promote(&self, queued: InboxSeq) -> Result<Receipt, SubmitError> {
        self.submit(Command::Promote(queued), None).await
    }

    /// Deletes a queued message.
    pub async fn unqueue(&self, queued: InboxSeq) -> Result<Receipt, SubmitError> {
        self.submit(Command::Unqueue(queued), None).await
    }

    /// Answers calls the chat waits for.
    pub async fn answer(&self, answers: impl IntoIterator<Item = CallAnswer>) -> Result<Receipt, SubmitError> {
        self.submit(Command::Answer(answers.into_iter().collect()), None).await
    }

    /// Stops the turn. Returns once what was shown is stored; at a chat that rests already, at once.
    pub async fn interrupt(&self) -> Result<(), SubmitError> {
        self.interrupt_as(None).await
    }

    /// The same with a request id.
    pub async fn interrupt_as(&self, key: Option<String>) -> Result<(), SubmitError> {
        // Under a request id it is kept all the same, so that it stops nothing when it comes again.
        if key.is_none() && self.is_at_rest().await? {
            return Ok(());
        }
        let receipt = self.submit(Command::Interrupt, key).await?;
        self.outcome(receipt).await??;
        self.until(|standing| standing.status != Status::Interrupting).await?;
        Ok(())
    }

    async fn is_at_rest(&self) -> Result<bool, StoreError> {
        let rests = matches!(self.ports.store.heading(self.id).await?.status, Status::Idle | Status::Failed);
        Ok(rests && self.ports.store.inbox(self.id).await?.is_empty())
    }

    /// Deletes the chat with all that is kept of it. A turn under way is stopped first, in whichever process it is, and
    /// whoever waits is not heard any more. Goes on trying while another process holds the chat: bound it.
    pub async fn delete(&self) -> Result<(), StoreError> {
        let owner = self.ports.store.heading(self.id).await?.owner;
        loop {
            self.quieten().await?;
            let deleted = match self.ports.acquire(self.id).await {
                Ok(lease) => self.ports.store.delete(lease).await,
                Err(error) => Err(error),
            };
            match deleted {
                Ok(()) => break,
                Err(WriteError::Store(error)) => return Err(error),
                Err(WriteError::Fenced | WriteError::OutOfPlace) => tokio::time::sleep(HELD_RETRY).await,
            }
        }
        if let Some(recorder) = &self.ports.recorder {
            recorder.forget(self.id);
        }
        let bell = self.ports.hub.bell(self.id);
        bell.ring();
        bell.inbox.notify_one(); // A driver that is still there finds nothing to drive.
        self.ports.feeds.tell(&owner, self.id);
        Ok(())
    }

    /// Stops the turn, and lets nobody begin another. What does not fit any more has happened already.
    async fn quieten(&self) -> Result<(), StoreError> {
        for queued in self.standing().await?.queue {
            let _ = self.submit(Command::Unqueue(queued.id), None).await; // It may have been heard meanwhile.
        }
        match self.interrupt().await {
            Err(SubmitError::Store(StoreError::NoSuchChat)) => Err(StoreError::NoSuchChat),
            _ => Ok(()), // What else is wrong shows when the chat is taken.
        }
    }

    /// Summarises the transcript.
    pub async fn compact(&self) -> Result<Receipt, SubmitError> {
        self.submit(Command::Compact, None).await
    }

    /// Puts the chat away.
    pub async fn archive(&self) -> Result<Receipt, SubmitError> {
        self.submit(Command::Archive, None).await
    }

    /// Takes it out again.
    pub async fn unarchive(&self) -> Result<Receipt, SubmitError> {
        self.submit(Command::Unarchive, None).await
    }

    /// Has the chat ask another model first from its next turn on.
    pub async fn choose(&self, model: ModelChoice) -> Result<Receipt, SubmitError> {
        self.patch(Some(model), None).await
    }

    /// Has whatever is exchanged with providers for it recorded from the next request on, or nothing more than of other chats.
    pub async fn debug(&self, debug: bool) -> Result<Receipt, SubmitError> {
        self.patch(None, Some(debug)).await
    }

    async fn patch(&self, model: Option<ModelChoice>, debug: Option<bool>) -> Result<Receipt, SubmitError> {
        self.submit(Command::Patch { title: None, archived: None, model, debug }, None).await
    }

    /// Any command, with a request id: sent again with the same one, it has no second effect.
    pub async fn submit(&self, command: Command, key: Option<String>) -> Result<Receipt, SubmitError> {
        self.ports.refuse_damaged(self.id)?;
        let (owner, limits) = self.limits(&command, key.as_deref()).await?;
        let submission = Submission { command, key, at: self.ports.clock.now() };
        let (ports, id) = (self.ports.clone(), self.id);
        // A store may go on writing when whoever asked has hung up. What it wrote would lie there until somebody else came.
        let accepted = async move {
            let started = Instant::now();
            let receipt = ports.store.submit(id, submission, &limits).await?;
            ports.metrics.accepted(started.elapsed());
            ports.wake(id);
            ports.hub.ring_for_accepted(id);
            ports.feeds.tell(&owner, id);
            Ok(receipt)
        };
        self.ports.to_the_end(accepted).await
    }

    /// Whose the chat is, and what a command is held to. A chat whose agent is not there any more takes what needs none, and what it took before.
    async fn limits(&self, command: &Command, key: Option<&str>) -> Result<(String, Limits), SubmitError> {
        let store = &self.ports.store;
        let Heading { agent: name, owner, .. } = store.heading(self.id).await?;
        if let Some(agent) = self.ports.agent(&name) {
            return Ok((owner, agent.limits.clone()));
        }
        let was_taken = match key {
            Some(key) => store.receipt(self.id, key).await?.is_some(),
            None => false,
        };
        if needs_agent(command) && !was_taken {
            return Err(SubmitError::NoAgent(name));
        }
        Ok((owner, Limits::default()))
    }

    /// What became of a command, once the driver has come to it.
    pub async fn outcome(&self, receipt: Receipt) -> Result<Result<(), Refusal>, StoreError> {
        self.once(|| self.ports.store.outcome(self.id, receipt.seq)).await
    }

    /// Asks the store again whenever something was committed, until there is an answer. However fast the model speaks,
    /// nobody is asked for it. Nothing is committed any more once the driver has given up.
    async fn once<T, Asked>(&self, ask: impl Fn() -> Asked) -> Result<T, StoreError>
    where
        Asked: Future<Output = Result<Option<T>, StoreError>>,
    {
        let bell = self.ports.hub.bell(self.id);
        let mut committed = bell.commits.listen();
        let mut poll = Poll::of(&self.id.as_u128().to_be_bytes());
        loop {
            committed.mark(); // Before the read: a commit in between wakes us again.
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            if let Some(error) = self.ports.gave_up_on(self.id) {
                return Err(error);
            }
            tokio::select! {
                biased;
                () = committed.rung() => {}
                () = poll.due() => {}
            }
        }
    }

    /// The events from a cursor on; without one, a snapshot first.
    ///
    /// This is a view that catches up, not a log of everything that happened: whoever folds the events has the chat as it
    /// is, and is never waited for. A reader that falls behind is told of a finished message without the deltas it came
    /// in, and of where the chat stands now without where it stood in between. Each delta by itself is told to a
    /// [`DeltaLog`](crate::DeltaLog).
    #[must_use]
    pub fn events(&self, cursor: Option<Cursor>) -> Subscription {
        Subscription::new(self.ports.store.clone(), self.id, cursor, self.ports.hub.bell(self.id))
    }

    /// Waits until the chat does nothing more by itself, and says what it does then.
    ///
    /// # Errors
    /// The store cannot be read; or this process has given the chat up, because what is stored of it cannot be read.
    pub async fn rest(&self) -> Result<Rest, StoreError> {
        let rests = |standing: &Standing| matches!(standing.status, Status::Idle | Status::Failed | Status::Awaiting);
        loop {
            let standing = self.until(rests).await?;
            if !self.ports.store.inbox(self.id).await?.is_empty() {
                self.until(|next| next.version > standing.version).await?;
                continue;
            }
            // What has left the inbox meanwhile shows in where the chat stands now.
            let standing = self.until(|_| true).await?;
            if rests(&standing) {
                return Ok(Rest::of(standing));
            }
        }
    }

    async fn until(&self, is_so: impl Fn(&Standing) -> bool) -> Result<Standing, StoreError> {
        let is_so = &is_so;
        self.once(|| async move { Ok(Some(self.standing().await?).filter(is_so)) }).await
    }

    /// Where the chat stands now. However much was said in it, this costs the same.
    pub async fn standing(&self) -> Result<Standing, StoreError> {
        self.ports.store.standing(self.id).await
    }

    /// The chat as it is now, by its newest page.
    pub async fn view(&self) -> Result<View, StoreError> {
        let mut view = View::default();
        if let Some(event) = self.events(None).try_next().await? {
            view.fold(&event).expect("a snapshot folds into anything");
        }
        Ok(view)
    }

    /// Everything that was said.
    pub async fn transcript(&self) -> Result<Vec<Arc<Message>>, StoreError> {
        self.ports.store.transcript(self.id).await
    }

    /// What the model said last, committed.
    pub async fn newest_reply(&self) -> Result<Option<String>, StoreError> {
        let newest = self.transcript().await?.iter().rev().find_map(|message| match &message.body {
            Body::Reply(reply) => Some(reply.text()),
            Body::User(_) | Body::Context(_) | Body::Result(_) | Body::Summary(_) => None,
        });
        Ok(newest)
    }

    /// Provider calls that were made, oldest first, and what each cost: a page of those behind the first `seen`. An empty page
    /// is behind the last.
    pub async fn attempts(&self, seen: usize) -> Result<Vec<AttemptRecord>, StoreError> {
        self.ports.store.attempts(self.id, seen, ATTEMPTS_LEN_MAX).await
    }

    /// Drives the chat on the calling task until it rests. For programs that schedule by themselves; dropping the future
    /// is like a crash, and as harmless.
    pub async fn advance(&self) -> Result<(), WriteError> {
        self.ports.clone().advance(self.id).await
    }
}

fn words(text: impl Into<String>) -> Arc<[Part]> {
    Arc::new([Part::text(text)])
}

/// Whether somebody has to be there who goes on.
const fn needs_agent(command: &Command) -> bool {
    match command {
        Command::Send { .. } | Command::Edit { .. } | Command::Promote(_) | Command::Answer(_) | Command::Compact => {
            true
        }
        Command::Unqueue(_)
        | Command::Interrupt
        | Command::Archive
        | Command::Unarchive
        | Command::Rename(_)
        | Command::Patch { .. } => false,
    }
}
