//! Handles: commands to one chat, and waiting for it.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::chat::{AskBelow, OpenCall, TurnEnd};
use everturn_core::command::{CallAnswer, Command, Delivery, ModelChoice, Refusal};
use everturn_core::fact::AttemptRecord;
use everturn_core::ids::{CallUid, ChatId, InboxSeq, MessageId};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, CallResult, Message, Part};
use everturn_core::status::Status;
use everturn_core::view::{Cursor, Standing, View};
use everturn_stores::{
    Heading, MessageRange, MessageReader, Receipt, StoreError, StoreExt as _, Submission, SubmitError, WriteError,
};
use tokio::time::Instant;

use crate::drive::inbox;
use crate::process::{Shared, orphans, supervisor};
use crate::watch::poll::Polling;
use crate::watch::subscription::Subscription;

/// The pause before a chat is acquired again that another process holds.
const HELD_RETRY: Duration = Duration::from_millis(50);

/// Messages that are read at once to find something to summarise. Most often the newest is.
const COMPACTED_PAGE_LEN: usize = 20;

/// Messages that are read at once to find results.
const RESULTS_PAGE_LEN: usize = 200;

/// Provider calls on one page. A chat may have made any number.
const ATTEMPTS_LEN_MAX: usize = 500;

/// How a chat rests: it does nothing more by itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Rest {
    /// No turn is under way. How the newest one ended, unless there was none.
    Idle(Option<TurnEnd>),
    /// A turn is under way, and waits for a client or a person to answer these calls. If there are none, it waits for
    /// answers in chats of sub-agents: see [`Standing::asks_below`].
    Awaiting(Vec<OpenCall>),
}

/// What became of a sub-agent.
pub(crate) enum SubAgentState {
    /// It rests. How its turn ended, unless there was none.
    Ended(Option<TurnEnd>),
    /// It works or waits, and these calls of its chat and of those below wait for people.
    Asks(Vec<AskBelow>),
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

/// A handle to one chat. Cheap to clone.
#[derive(Clone)]
pub struct ChatHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: ChatId,
    /// The chat's owner and agent, which never change, if a heading was read before.
    pub(crate) known: Option<Arc<(String, String)>>,
}

impl ChatHandle {
    /// The id of the chat.
    #[must_use]
    pub const fn id(&self) -> ChatId {
        self.id
    }

    /// Sends a message; if the chat is busy, it is queued until the turn ends.
    pub async fn send(&self, text: impl Into<String>) -> Result<Receipt, SubmitError> {
        self.say(text, Delivery::Queue).await
    }

    /// Sends a message; if the chat is busy, the model reads it at the next step.
    pub async fn steer(&self, text: impl Into<String>) -> Result<Receipt, SubmitError> {
        self.say(text, Delivery::Steer).await
    }

    /// Sends a message; if the chat is busy, it is interrupted first.
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

    /// Ends the grant that was given with a call. The next call that it covered asks again.
    pub async fn revoke(&self, call: CallUid) -> Result<Receipt, SubmitError> {
        self.submit(Command::Revoke(call), None).await
    }

    /// Interrupts the turn. Returns once what was shown is stored; for a chat that rests already, at once.
    pub async fn interrupt(&self) -> Result<(), SubmitError> {
        self.interrupt_as(None).await
    }

    /// Interrupts the turn, with a request id.
    pub async fn interrupt_as(&self, key: Option<String>) -> Result<(), SubmitError> {
        // With a request id it is stored in any case, so that a repeat interrupts nothing.
        if key.is_none() && self.is_at_rest().await? {
            return Ok(());
        }
        let receipt = self.submit(Command::Interrupt, key).await?;
        self.outcome(receipt).await??;
        self.until(|standing| standing.status != Status::Interrupting).await?;
        Ok(())
    }

    async fn is_at_rest(&self) -> Result<bool, StoreError> {
        let rests = matches!(self.shared.store.heading(self.id).await?.status, Status::Idle | Status::Failed);
        Ok(rests && inbox::is_empty(&*self.shared.store, self.id).await?)
    }

    /// Deletes the chat with everything stored of it, and the chats of its sub-agents. A turn under way is interrupted first,
    /// in whichever process it is, and queued messages are dropped. Retries while another process holds the chat: set a
    /// timeout. If the process ends in between, another one, or the next, deletes the chats that are left.
    pub async fn delete(&self) -> Result<(), StoreError> {
        self.delete_alone().await?;
        let shared = self.shared.clone();
        self.shared.to_the_end(async move { orphans::delete_all(&shared).await }).await
    }

    /// Deletes the chat, and leaves the chats of its sub-agents as orphans.
    pub(crate) async fn delete_alone(&self) -> Result<(), StoreError> {
        let Heading { owner, agent, .. } = self.shared.store.heading(self.id).await?;
        loop {
            self.quieten().await?;
            let deleted = match self.shared.acquire(self.id).await {
                Ok(lease) => self.shared.store.delete(lease).await,
                Err(error) => Err(error),
            };
            match deleted {
                Ok(()) => break,
                Err(WriteError::Store(error)) => return Err(error),
                Err(WriteError::Fenced | WriteError::OutOfPlace) => tokio::time::sleep(HELD_RETRY).await,
            }
        }
        if let Some(recorder) = &self.shared.recorder {
            recorder.forget(self.id);
        }
        if let Some(hook) = self.shared.agent(&agent).and_then(|agent| agent.hook.clone()) {
            hook.deleted(self.id).await;
        }
        let signals = self.shared.signals.of(self.id);
        signals.ring();
        signals.inbox.notify_one(); // A driver that is still there finds no chat.
        self.shared.feeds.tell(&owner, self.id);
        Ok(())
    }

    /// Interrupts the turn and empties the queue, so that no turn begins.
    async fn quieten(&self) -> Result<(), StoreError> {
        for queued in self.standing().await?.queue {
            let _ = self.submit(Command::Unqueue(queued.id), None).await; // It may have been taken up meanwhile.
        }
        match self.interrupt().await {
            Err(SubmitError::Store(StoreError::NoSuchChat)) => Err(StoreError::NoSuchChat),
            _ => Ok(()), // Any other error shows when the chat is acquired.
        }
    }

    /// Summarises the transcript.
    ///
    /// # Errors
    /// Also [`SubmitError::NothingToCompact`], if the chat rests and there is nothing to summarise.
    pub async fn compact(&self) -> Result<Receipt, SubmitError> {
        let heading = self.shared.store.heading(self.id).await?;
        let takes_it = matches!(heading.status, Status::Idle | Status::Failed) && !heading.archived;
        // A chat that does not take the command says why; one with commands in its inbox may have a reply soon.
        let is_settled = takes_it && self.shared.agent(&heading.agent).is_some();
        if is_settled && self.is_at_rest().await? && !self.has_something_to_compact().await? {
            return Err(SubmitError::NothingToCompact);
        }
        self.submit(Command::Compact, None).await
    }

    /// Whether the model has said anything that no summary stands for. User messages are kept word for word.
    pub async fn has_something_to_compact(&self) -> Result<bool, StoreError> {
        let mut before = None;
        loop {
            let range = MessageRange::Before(before, COMPACTED_PAGE_LEN);
            let page = self.shared.store.messages(self.id, range).await?;
            for message in page.iter().rev() {
                match message.body {
                    Body::Reply(_) | Body::Result(_) => return Ok(true),
                    Body::Summary(_) => return Ok(false),
                    Body::User(_) | Body::Context(_) => {}
                }
            }
            match page.first() {
                Some(first) => before = Some(first.id),
                None => return Ok(false),
            }
        }
    }

    /// Archives the chat.
    pub async fn archive(&self) -> Result<Receipt, SubmitError> {
        self.submit(Command::Archive, None).await
    }

    /// Takes the chat out of the archive.
    pub async fn unarchive(&self) -> Result<Receipt, SubmitError> {
        self.submit(Command::Unarchive, None).await
    }

    /// Sets the model that the chat asks first, from its next turn on.
    pub async fn choose(&self, model: ModelChoice) -> Result<Receipt, SubmitError> {
        self.patch(Some(model), None).await
    }

    /// Records all exchanges with providers for this chat from the next request on, or only as much as for other chats.
    pub async fn debug(&self, debug: bool) -> Result<Receipt, SubmitError> {
        self.patch(None, Some(debug)).await
    }

    async fn patch(&self, model: Option<ModelChoice>, debug: Option<bool>) -> Result<Receipt, SubmitError> {
        self.submit(Command::Patch { title: None, archived: None, model, debug }, None).await
    }

    /// Submits any command. Submitted again with the same request id, it has no second effect.
    pub async fn submit(&self, command: Command, key: Option<String>) -> Result<Receipt, SubmitError> {
        self.shared.driven.refuse_damaged(self.id)?;
        let (owner, limits) = self.limits(&command, key.as_deref()).await?;
        let submission = Submission { command, key, at: self.shared.clock.now() };
        let shared = self.shared.clone();
        let id = self.id;
        // In a task of its own: if the caller is gone, the command would be stored and not applied before the next wake-up.
        let accepted = async move {
            let started = Instant::now();
            let receipt = shared.store.submit(id, submission, &limits).await?;
            shared.metrics.accepted(started.elapsed());
            shared.wake(id);
            shared.signals.ring_for_accepted(id);
            shared.feeds.tell(&owner, id);
            Ok(receipt)
        };
        self.shared.to_the_end(accepted).await
    }

    /// The chat's owner and the limits of its agent. Without its agent, a chat takes commands that need none, and repeats.
    async fn limits(&self, command: &Command, key: Option<&str>) -> Result<(String, Limits), SubmitError> {
        let store = &self.shared.store;
        let (owner, name) = match &self.known {
            Some(known) => (**known).clone(),
            None => {
                let Heading { agent, owner, .. } = store.heading(self.id).await?;
                (owner, agent)
            }
        };
        if let Some(agent) = self.shared.agent(&name) {
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

    /// Waits until the driver has applied a command, and returns whether it was refused.
    pub async fn outcome(&self, receipt: Receipt) -> Result<Result<(), Refusal>, StoreError> {
        self.once(|| self.shared.store.outcome(self.id, receipt.seq)).await
    }

    /// Asks the store again after every commit, until there is an answer. Deltas cause no reads. Fails if this process cannot
    /// drive the chat, because no commit would come.
    async fn once<T, Asked>(&self, ask: impl Fn() -> Asked) -> Result<T, StoreError>
    where
        Asked: Future<Output = Result<Option<T>, StoreError>>,
    {
        let signals = self.shared.signals.of(self.id);
        let mut committed = signals.commits.listen();
        let mut poll = Polling::of(&self.id.as_u128().to_be_bytes());
        loop {
            committed.mark(); // Before the read: a commit in between wakes us again.
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
            if let Some(error) = self.shared.driven.unreadable(self.id) {
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
    /// This is a view that catches up, not a log of everything that happened: folding the events gives the chat as it is, and
    /// nothing waits for a slow reader. A reader that falls behind gets a finished message without the deltas it came in,
    /// and the newest standing without those in between. A [`DeltaLog`](crate::DeltaLog) receives every single delta.
    #[must_use]
    pub fn events(&self, cursor: Option<Cursor>) -> Subscription {
        Subscription::new(self.shared.store.clone(), self.id, cursor, self.shared.signals.of(self.id))
    }

    /// Waits until the chat rests, and returns how.
    ///
    /// # Errors
    /// The store is unavailable, or this process cannot read what is stored of the chat.
    pub async fn rest(&self) -> Result<Rest, StoreError> {
        let rests = |standing: &Standing| matches!(standing.status, Status::Idle | Status::Failed | Status::Awaiting);
        loop {
            let standing = self.until(rests).await?;
            if !inbox::is_empty(&*self.shared.store, self.id).await? {
                self.until(|next| next.version > standing.version).await?;
                continue;
            }
            // A command that has left the inbox meanwhile shows in the standing now.
            let standing = self.until(|_| true).await?;
            if rests(&standing) {
                return Ok(Rest::of(standing));
            }
        }
    }

    /// Waits until a sub-agent's chat rests, or waits for people to answer other calls than `known`.
    pub(crate) async fn ended_or_asks(&self, known: &[AskBelow]) -> Result<SubAgentState, StoreError> {
        let is_busy = |standing: &Standing| !matches!(standing.status, Status::Idle | Status::Failed);
        loop {
            let standing = self.until(|standing| !is_busy(standing) || self.asks_of(standing) != known).await?;
            if is_busy(&standing) {
                return Ok(SubAgentState::Asks(self.asks_of(&standing)));
            }
            match self.rest().await? {
                Rest::Idle(ended) => return Ok(SubAgentState::Ended(ended)),
                Rest::Awaiting(_) => {} // Another turn has begun meanwhile.
            }
        }
    }

    /// The calls of this chat and of those below that wait for people.
    fn asks_of(&self, standing: &Standing) -> Vec<AskBelow> {
        let own = standing.asks.iter().map(|open| AskBelow { chat: self.id, call: open.uid });
        own.chain(standing.asks_below.iter().copied()).collect()
    }

    async fn until(&self, is_so: impl Fn(&Standing) -> bool) -> Result<Standing, StoreError> {
        let is_so = &is_so;
        self.once(|| async move { Ok(Some(self.standing().await?).filter(is_so)) }).await
    }

    /// Where the chat stands now. The cost does not depend on the length of the transcript.
    pub async fn standing(&self) -> Result<Standing, StoreError> {
        self.shared.store.standing(self.id).await
    }

    /// The chat as it is now, with its newest page of messages.
    pub async fn view(&self) -> Result<View, StoreError> {
        let mut view = View::default();
        if let Some(event) = self.events(None).try_next().await? {
            view.fold(&event).expect("a snapshot folds into anything");
        }
        Ok(view)
    }

    /// The whole transcript.
    pub async fn transcript(&self) -> Result<Vec<Arc<Message>>, StoreError> {
        self.shared.store.transcript(self.id).await
    }

    /// The text of the newest committed reply.
    pub async fn newest_reply(&self) -> Result<Option<String>, StoreError> {
        let newest = self.transcript().await?.iter().rev().find_map(|message| match &message.body {
            Body::Reply(reply) => Some(reply.text()),
            Body::User(_) | Body::Context(_) | Body::Result(_) | Body::Summary(_) => None,
        });
        Ok(newest)
    }

    /// The result of a call with all its bytes, whatever was cut for the model and summarised since. None if it has none, or
    /// the message was replaced by an edit.
    pub async fn result(&self, call: CallUid) -> Result<Option<CallResult>, StoreError> {
        let found = self.find_results(1, |result| result.call == call).await?;
        let Some(message) = found.first() else { return Ok(None) };
        let whole = self.shared.store.message(self.id, message.id, MessageReader::Client).await?;
        Ok(whole.as_deref().and_then(result_of).cloned())
    }

    /// The newest results of calls, the newest first. Bytes that are not text for the model are left in the store.
    pub async fn newest_results(&self, len: usize) -> Result<Vec<CallResult>, StoreError> {
        let found = self.find_results(len, |_| true).await?;
        Ok(found.iter().filter_map(|message| result_of(message)).cloned().collect())
    }

    async fn find_results(
        &self,
        len: usize,
        is_meant: impl Fn(&CallResult) -> bool,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        let mut found = Vec::new();
        let mut before = None;
        loop {
            let range = MessageRange::Before(before, RESULTS_PAGE_LEN);
            let page = self.shared.store.messages(self.id, range).await?;
            let meant = page.iter().rev().filter(|message| result_of(message).is_some_and(&is_meant));
            found.extend(meant.take(len - found.len()).cloned());
            match page.first() {
                Some(first) if found.len() < len => before = Some(first.id),
                Some(_) | None => return Ok(found),
            }
        }
    }

    /// Provider calls and what each cost, oldest first: one page, behind the first `seen`. The page behind the last is empty.
    pub async fn attempts(&self, seen: usize) -> Result<Vec<AttemptRecord>, StoreError> {
        self.shared.store.attempts(self.id, seen, ATTEMPTS_LEN_MAX).await
    }

    /// Drives the chat on the calling task until it rests. For programs that schedule by themselves; dropping the future
    /// is like a crash, and as harmless.
    pub async fn advance(&self) -> Result<(), WriteError> {
        supervisor::advance(self.shared.clone(), self.id).await
    }
}

fn result_of(message: &Message) -> Option<&CallResult> {
    match &message.body {
        Body::Result(result) => Some(result),
        Body::User(_) | Body::Reply(_) | Body::Context(_) | Body::Summary(_) => None,
    }
}

fn words(text: impl Into<String>) -> Arc<[Part]> {
    Arc::new([Part::text(text)])
}

/// Whether a command needs the agent to go on.
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
        | Command::Revoke(_)
        | Command::Patch { .. } => false,
    }
}
