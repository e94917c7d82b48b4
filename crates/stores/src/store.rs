//! The `Store` trait, and the types that go through it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use everturn_core::budget::{BudgetUse, Day};
use everturn_core::chat::{Chat, Effect};
use everturn_core::command::{Command, InboxCommand, Refusal};
use everturn_core::fact::{AttemptRecord, Fact};
use everturn_core::ids::{CallUid, ChatId, Fence, InboxSeq, MessageId, Timestamp, Version};
use everturn_core::limits::Limits;
use everturn_core::message::{CallVerdict, Message};
use everturn_core::view::{Cursor, Event, JournalRow, Standing};

use crate::ack::Ack;
use crate::heading::{ChatQuery, Heading};
use crate::new_chat::{MakeError, NewChat};

/// Durable storage of chats. [`StoreExt`] adds shorter forms of some methods.
///
/// A method that returned `Ok` has written as durably as the store can. Futures may be dropped at any point: the write
/// has then happened completely or not at all, and the next [`StoreExt::load`] shows which.
///
/// The methods form four groups: chats, commands, driving a chat under its lease, and reading.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    // ---- Chats ----

    /// Creates a chat, empty or as a fork of another one. A chat that exists under this id, or was created under the
    /// same idempotency key of the same owner, is returned instead. A fork costs as much as the messages it copies. A chat
    /// of a sub-agent is not created once its parent is deleted.
    async fn create(&self, new: &NewChat) -> Result<ChatId, MakeError>;

    /// The chat that an earlier request with the same idempotency key created. Creates nothing.
    async fn created(&self, new: &NewChat) -> Result<Option<ChatId>, MakeError>;

    /// The chat that this owner has created under this key, whatever else the request said. Creates nothing.
    async fn keyed(&self, owner: &str, key: &str) -> Result<Option<ChatId>, StoreError>;

    /// Deletes a chat and everything stored for it, and marks its chats of sub-agents: see [`Store::orphans`]. Earlier
    /// leases stay fenced, even if the id is used again.
    async fn delete(&self, lease: Lease) -> Result<(), WriteError>;

    /// List entries of the chats that match, most recently touched first. Reads no messages, unless it searches.
    async fn headings(&self, query: &ChatQuery) -> Result<Vec<Heading>, StoreError>;

    /// Number of chats of an owner that are running, being interrupted, or have commands to apply, without those in
    /// `besides`. Chats that wait for people do not count. Called with every message that begins a turn, so it reads
    /// nothing else.
    async fn working(&self, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, StoreError>;

    /// What all chats of an owner used on these days, deleted chats included. Counted with every commit, so it is cheap
    /// to read and equal for every process.
    async fn used(&self, owner: &str, days: RangeInclusive<Day>) -> Result<BudgetUse, StoreError>;

    /// What the chats of sub-agents below a chat used, deleted ones included. Counted with every commit to one of them.
    async fn used_below(&self, chat: ChatId) -> Result<BudgetUse, StoreError>;

    /// Chats of sub-agents whose parent was deleted, so that they are to be deleted too: some of them, or none.
    async fn orphans(&self) -> Result<Vec<ChatId>, StoreError>;

    // ---- Commands ----

    /// Puts a command into the inbox, once per idempotency key. It is checked against the chat as it will be once the
    /// commands before it are applied.
    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError>;

    /// A command that was accepted before, and its outcome.
    async fn submitted(&self, chat: ChatId, command: CommandRef<'_>) -> Result<Option<Submitted>, StoreError>;

    /// Commands the driver has not applied yet, oldest first.
    async fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError>;

    /// Chats that are busy or have commands to apply, oldest first, without those that another living process holds.
    async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError>;

    /// Waits for a hint that another process did something. One may be lost, which costs a poll and never an event. For
    /// one listener. A store that only one process can use never answers.
    async fn hint(&self) -> Hint {
        std::future::pending().await
    }

    // ---- Driving: one lease holder per chat ----

    /// Takes the lease. The holder before cannot write any more. [`WriteError::Fenced`] while another living process
    /// holds the chat.
    async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError>;

    /// Whether the lease is still valid as far as this process knows. Asks no database. A store that only one process
    /// can use has no reason to doubt it.
    fn holds(&self, _lease: &Lease) -> bool {
        true
    }

    /// Gives the lease back, so that another process need not wait until this one counts as dead. Not doing so costs
    /// that wait and nothing else.
    async fn release(&self, lease: Lease) -> Result<(), StoreError>;

    /// What a driver needs to continue. Messages come without their bytes: see [`Store::message`].
    async fn load_held(&self, lease: &Lease, part: LoadPart) -> Result<Loaded, WriteError>;

    /// Adds rows to the journal of the open step, and calls `ack` when they are stored: no delta is shown before that.
    /// Returns once the rows are queued. A future dropped before that calls `ack` with an error, and the rows may be
    /// stored or not.
    async fn append(&self, right: AppendRight, rows: Vec<JournalRow>, ack: Ack);

    /// Writes one change in one transaction. Drafts of earlier steps may be deleted with it.
    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError>;

    // ---- Reading ----

    /// State of the chat, with the commands that wait. Reads no messages.
    async fn standing(&self, chat: ChatId) -> Result<Standing, StoreError>;

    /// Events after `cursor`, or `None` if there are none. A snapshot instead if there is no cursor, it cannot be used, or
    /// more than a page was missed. Never more than a page of messages and a draft, without bytes.
    fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> NewsRead<'_>;

    /// One message with its bytes; `None` if it does not exist or was rewound.
    async fn message(
        &self,
        chat: ChatId,
        id: MessageId,
        reader: MessageReader,
    ) -> Result<Option<Arc<Message>>, StoreError>;

    /// Messages in order, rewound ones left out.
    async fn messages(&self, chat: ChatId, range: MessageRange) -> Result<Vec<Arc<Message>>, StoreError>;

    /// Provider calls ever made for the chat, oldest first: `len` of them after the first `seen`.
    async fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError>;

    /// Every tool call that was ever started, in call order, rewound ones too: their effects remain.
    async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError>;

    /// Whether chats can be read and written now. Cheap, however often it is called.
    async fn ready(&self) -> Result<(), StoreError>;
}

/// Shorter forms of [`Store`]'s methods, for every store.
#[async_trait]
pub trait StoreExt: Store {
    /// List entry of one chat.
    async fn heading(&self, chat: ChatId) -> Result<Heading, StoreError> {
        let query = ChatQuery { only: Some(chat), ..ChatQuery::default() };
        self.headings(&query).await?.pop().ok_or(StoreError::NoSuchChat)
    }

    /// Receipt of the command that was accepted under an idempotency key.
    async fn receipt(&self, chat: ChatId, key: &str) -> Result<Option<Receipt>, StoreError> {
        let submitted = self.submitted(chat, CommandRef::Key(key)).await?;
        Ok(submitted.map(|submitted| Receipt { chat, seq: submitted.seq }))
    }

    /// Outcome of a command; `None` until the driver has applied it.
    async fn outcome(&self, chat: ChatId, seq: InboxSeq) -> Result<Option<Result<(), Refusal>>, StoreError> {
        Ok(self.submitted(chat, CommandRef::Seq(seq)).await?.and_then(|submitted| submitted.outcome))
    }

    /// Everything a driver needs to continue.
    async fn load(&self, lease: &Lease) -> Result<Loaded, WriteError> {
        self.load_held(lease, LoadPart::All).await
    }

    /// The chat's state alone, to end a turn with unreadable messages or deltas.
    async fn state(&self, lease: &Lease) -> Result<Chat, WriteError> {
        Ok(self.load_held(lease, LoadPart::State).await?.chat)
    }

    /// Adds rows to the journal of the open step and waits until they are stored.
    async fn append_and_wait(&self, right: AppendRight, rows: Vec<JournalRow>) -> Result<(), WriteError> {
        let (ack, stored) = Ack::awaited();
        self.append(right, rows, ack).await;
        stored.await
    }

    /// The whole transcript with all bytes. As large as the chat is: not for answering requests.
    async fn transcript(&self, chat: ChatId) -> Result<Vec<Arc<Message>>, StoreError> {
        self.messages(chat, MessageRange::All).await
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// How a command that was accepted is referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandRef<'a> {
    /// By the sender's idempotency key.
    Key(&'a str),
    /// By its number in the inbox.
    Seq(InboxSeq),
}

/// A command that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    /// Its number in the inbox.
    pub seq: InboxSeq,
    /// Its outcome, once the driver has applied it.
    pub outcome: Option<Result<(), Refusal>>,
}

/// How much of a chat the lease holder loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadPart {
    /// State, transcript from the newest summary on, and the journal of the open step.
    All,
    /// State alone. The other fields of [`Loaded`] stay empty.
    State,
}

/// What a message is read for. Drivers do not wait behind clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageReader {
    /// A driver builds a prompt.
    Driver,
    /// A client asked.
    Client,
}

/// Which messages of a chat to read, oldest first in every case.
///
/// A page has at most `len` messages, without their bytes. It has fewer if they are long, but always at least one if
/// there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRange {
    /// The whole transcript, with all bytes.
    All,
    /// The newest page before a message, or before the end.
    Before(Option<MessageId>, usize),
    /// The oldest page after a message.
    After(MessageId, usize),
}

/// Result of [`Store::since`].
pub type NewsResult = Result<Option<News>, StoreError>;

/// The future of [`Store::since`]: ready at once if memory has the answer, which costs no allocation.
pub enum NewsRead<'a> {
    /// The answer was in memory. `None` once it was taken.
    Known(Option<NewsResult>),
    /// The store has to read.
    Reading(Pin<Box<dyn Future<Output = NewsResult> + Send + 'a>>),
}

impl<'a> NewsRead<'a> {
    /// An answer from memory.
    #[must_use]
    pub const fn known(news: NewsResult) -> Self {
        Self::Known(Some(news))
    }

    /// An answer that has to be read.
    pub fn reading(read: impl Future<Output = NewsResult> + Send + 'a) -> Self {
        Self::Reading(Box::pin(read))
    }
}

impl Future for NewsRead<'_> {
    type Output = NewsResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<NewsResult> {
        match &mut *self {
            Self::Known(news) => Poll::Ready(news.take().expect("polled after it was ready")),
            Self::Reading(read) => read.as_mut().poll(context),
        }
    }
}

impl fmt::Debug for NewsRead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(news) => f.debug_tuple("Known").field(news).finish(),
            Self::Reading(_) => f.debug_tuple("Reading").finish_non_exhaustive(),
        }
    }
}

/// What another process did, or what happened to this one's worker row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hint {
    /// A chat has news for its subscribers.
    News(ChatId),
    /// A chat has a command to apply.
    Inbox(ChatId),
    /// Hints may have been lost: read every watched chat again, and look for chats without a driver.
    Missed,
    /// Look for chats without a driver. Sent at intervals, because a process that dies sends no hint.
    Look,
    /// A heartbeat failed. It is tried again, and the leases are still valid.
    Late,
    /// No heartbeat got through in time. Other processes may take the chats at any moment: stop all tools.
    Lost,
}

/// A chat that needs a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unsettled {
    /// The chat.
    pub chat: ChatId,
    /// Whether it has commands that were not applied yet. If not, a driver that is at it already need not be woken.
    pub has_commands: bool,
}

/// A tool call that was started, and what is known of its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// The engine's id of the call.
    pub uid: CallUid,
    /// Name of the tool.
    pub tool: String,
    /// What running it twice would do.
    pub effect: Effect,
    /// When it was started; the last time, if it was started again.
    pub started: Timestamp,
    /// How often it was started. More than once only if its effect allows that.
    pub starts: u32,
    /// When and how it ended, once that was committed.
    pub ended: Option<(Timestamp, CallVerdict)>,
}

/// The right to advance one chat. Only [`Store::acquire`] makes one and it cannot be copied: one writer, by type within
/// a process and by fence across them.
#[derive(Debug)]
pub struct Lease {
    chat: ChatId,
    fence: Fence,
    before: Fence,
}

impl Lease {
    /// For implementations of [`Store`]: the lease that was just stored, and the fence of the one granted before it.
    #[must_use]
    pub const fn granted(chat: ChatId, fence: Fence, before: Fence) -> Self {
        Self { chat, fence, before }
    }

    /// The chat it is for.
    #[must_use]
    pub const fn chat(&self) -> ChatId {
        self.chat
    }

    /// The number that stores compare.
    #[must_use]
    pub const fn fence(&self) -> Fence {
        self.fence
    }

    /// Fence of the last lease that was granted before this one. Fences leave numbers out, so this does not follow from
    /// [`Lease::fence`]. An acquisition with a lost answer granted nothing and does not count.
    #[must_use]
    pub const fn before(&self) -> Fence {
        self.before
    }

    /// The right that an attempt gets: enough to append deltas, not to commit.
    #[must_use]
    pub const fn append_right(&self) -> AppendRight {
        AppendRight { chat: self.chat, fence: self.fence }
    }
}

/// The right to append deltas to the journal of one chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendRight {
    /// The chat.
    pub chat: ChatId,
    /// The fence of the lease it came from.
    pub fence: Fence,
}

/// A command on its way in.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The command.
    pub command: Command,
    /// The sender's idempotency key: submitting with it again has no second effect.
    pub key: Option<String>,
    /// When it was sent.
    pub at: Timestamp,
}

/// Receipt of a command that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The chat.
    pub chat: ChatId,
    /// The command's number in its inbox. A queued message is known by it.
    pub seq: InboxSeq,
}

/// Everything a driver needs to continue.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// State of the chat.
    pub chat: Chat,
    /// The transcript from the newest summary on, without its bytes.
    pub messages: Vec<Arc<Message>>,
    /// The journal of the open step.
    pub rows: Vec<JournalRow>,
}

/// Events a subscriber has not seen yet. Whole commits only, because a cursor cannot point into one.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// The cursor behind these events.
    pub cursor: Cursor,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// The store could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no such chat.
    #[error("no such chat")]
    NoSuchChat,
    /// The store cannot be reached or cannot write at the moment.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// Stored data cannot be read: a newer release wrote it, or it is invalid.
    #[error("what is stored cannot be read: {0}")]
    Unreadable(String),
    /// Stored data is damaged. Other chats can still be read.
    #[error("what is stored is damaged: {0}")]
    Damaged(String),
}

/// A command was not accepted. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The chat refuses it in its state.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The idempotency key belongs to another command.
    #[error("this request id was used for something else")]
    Conflict,
    /// Returned by the engine: the command needs the chat's agent, and no agent of this name is configured.
    #[error("no agent is called `{0}`: put it back into the configuration, or begin another chat")]
    NoAgent(String),
    /// Returned by the engine: a summary was requested, and there is nothing to summarise.
    #[error("nothing to summarise: the model has said nothing since the beginning, or since the last summary")]
    NothingToCompact,
    /// The store could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A write did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Another lease of the chat is the newest now.
    #[error("the lease was taken over")]
    Fenced,
    /// The rows do not continue the journal.
    #[error("rows do not continue the journal (expected the next sequence number)")]
    OutOfPlace,
    /// The store cannot write.
    #[error(transparent)]
    Store(#[from] StoreError),
}
