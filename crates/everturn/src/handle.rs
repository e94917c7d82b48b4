//! A chat, to talk to.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::chat::TurnEnd;
use everturn_core::command::{Answer, Choice, Command, Refusal, When};
use everturn_core::fact::Attempted;
use everturn_core::ids::{ChatId, InboxSeq, MessageId};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, Message, Meta, Part, Text};
use everturn_core::status::Status;
use everturn_core::view::{Cursor, Standing, View};
use everturn_stores::{Receipt, StoreError, Submission, SubmitError, WriteError};
use tokio::time::Instant;

use crate::engine::Ports;
use crate::poll::Poll;
use crate::subscribe::Subscription;

/// How soon a chat is asked for again that another process holds.
const HELD_RETRY: Duration = Duration::from_millis(50);

/// Provider calls on a page. A chat may have made any number.
const ATTEMPTS_LEN_MAX: usize = 500;

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
        self.say(text, When::Queue).await
    }

    /// Says something; if the chat is busy, at the next step boundary.
    pub async fn steer(&self, text: impl Into<String>) -> Result<Receipt, SubmitError> {
        self.say(text, When::Steer).await
    }

    /// Says something now; if the chat is busy, it is interrupted first.
    pub async fn send_now(&self, text: impl Into<String>) -> Result<Receipt, SubmitError> {
        self.say(text, When::Now).await
    }

    async fn say(&self, text: impl Into<String>, when: When) -> Result<Receipt, SubmitError> {
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
    pub async fn answer(&self, answers: impl IntoIterator<Item = Answer>) -> Result<Receipt, SubmitError> {
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
        match self.submit(Command::Interrupt, key).await {
            Ok(receipt) => {
                self.outcome(receipt).await?.or_else(already_resting)?;
                self.until(|standing| standing.status != Status::Interrupting).await?;
                Ok(())
            }
            Err(SubmitError::Refused(refusal)) => Ok(already_resting(refusal)?),
            Err(error) => Err(error),
        }
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
    pub async fn choose(&self, model: Choice) -> Result<Receipt, SubmitError> {
        self.patch(Some(model), None).await
    }

    /// Has whatever is exchanged with providers for it recorded from the next request on, or nothing more than of other chats.
    pub async fn debug(&self, debug: bool) -> Result<Receipt, SubmitError> {
        self.patch(None, Some(debug)).await
    }

    async fn patch(&self, model: Option<Choice>, debug: Option<bool>) -> Result<Receipt, SubmitError> {
        self.submit(Command::Patch { title: None, archived: None, model, debug }, None).await
    }

    /// Any command, with a request id: sent again with the same one, it has no second effect.
    pub async fn submit(&self, command: Command, key: Option<String>) -> Result<Receipt, SubmitError> {
        self.ports.refuse_damaged(self.id)?;
        let limits = self.limits(&command, key.as_deref()).await?;
        let submission = Submission { command, key, at: self.ports.clock.now() };
        let (ports, id) = (self.ports.clone(), self.id);
        // A store may go on writing when whoever asked has hung up. What it wrote would lie there until somebody else came.
        let accepted = async move {
            let started = Instant::now();
            let receipt = ports.store.submit(id, submission, &limits).await?;
            ports.metrics.accepted(started.elapsed());
            ports.wake(id);
            Ok(receipt)
        };
        self.ports.to_the_end(accepted).await
    }

    /// What a command is held to. A chat whose agent is not there any more takes what needs none, and what it took before.
    async fn limits(&self, command: &Command, key: Option<&str>) -> Result<Limits, SubmitError> {
        let store = &self.ports.store;
        let name = store.heading(self.id).await?.agent;
        if let Some(agent) = self.ports.agent(&name) {
            return Ok(agent.limits.clone());
        }
        let was_taken = match key {
            Some(key) => store.receipt(self.id, key).await?.is_some(),
            None => false,
        };
        if needs_agent(command) && !was_taken {
            return Err(SubmitError::NoAgent(name));
        }
        Ok(Limits::default())
    }

    /// What became of a command, once the driver has come to it.
    pub async fn outcome(&self, receipt: Receipt) -> Result<Result<(), Refusal>, StoreError> {
        self.once(|| self.ports.store.outcome(self.id, receipt.seq)).await
    }

    /// Asks the store again whenever something was committed, until there is an answer. However fast the model speaks,
    /// nobody is asked for it.
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
            tokio::select! {
                biased;
                () = committed.rung() => {}
                () = poll.due() => {}
            }
        }
    }

    /// The events from a cursor on; without one, a snapshot first.
    #[must_use]
    pub fn events(&self, cursor: Option<Cursor>) -> Subscription {
        Subscription::new(self.ports.store.clone(), self.id, cursor, self.ports.hub.bell(self.id))
    }

    /// Waits until the chat rests, and says how the last turn ended.
    pub async fn rest(&self) -> Result<Option<TurnEnd>, StoreError> {
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
                return Ok(standing.ended);
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
    pub async fn attempts(&self, seen: usize) -> Result<Vec<Attempted>, StoreError> {
        self.ports.store.attempts(self.id, seen, ATTEMPTS_LEN_MAX).await
    }

    /// Drives the chat on the calling task until it rests. For programs that schedule by themselves; dropping the future
    /// is like a crash, and as harmless.
    pub async fn advance(&self) -> Result<(), WriteError> {
        self.ports.clone().advance(self.id).await
    }
}

fn words(text: impl Into<String>) -> Arc<[Part]> {
    Arc::new([Part::Text(Text { text: text.into(), meta: Meta::new() })])
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

/// Somebody who wants a chat to stop that has stopped got what they wanted.
fn already_resting(refusal: Refusal) -> Result<(), Refusal> {
    match refusal {
        Refusal::Status(Status::Idle | Status::Failed, _) | Refusal::Archived => Ok(()),
        other => Err(other),
    }
}
