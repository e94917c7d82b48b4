//! The trait, and what goes through it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

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
use crate::heading::{Heading, Query};
use crate::new_chat::{MakeError, New};

/// A place where chats are kept.
///
/// Whatever returns `Ok` is as durable as the store is. Futures may be dropped at any point: then the write has happened
/// whole or not at all, and the next [`Store::load`] says which.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Makes an empty chat of `owner` with an agent. Making the same one again does nothing.
    async fn create(&self, id: ChatId, agent: &str, owner: &str) -> Result<(), StoreError>;

    /// Makes a chat, empty or with what was said in another; or finds the one that was made under the same key of its
    /// owner. What it copies is as much work as what is copied.
    async fn make(&self, new: &New) -> Result<ChatId, MakeError>;

    /// The chat that was made for the same request before, under its key. Makes nothing.
    async fn made(&self, new: &New) -> Result<Option<ChatId>, MakeError>;

    /// Deletes a chat with all that is kept of it. Whoever held it before cannot write any more, and neither can a lease
    /// of its id if that is ever made again.
    async fn delete(&self, lease: Lease) -> Result<(), WriteError>;

    /// What a list says about a chat.
    async fn heading(&self, chat: ChatId) -> Result<Heading, StoreError>;

    /// The chats that fit, those first in which something was said last. No message is read for it.
    async fn headings(&self, query: &Query) -> Result<Vec<Heading>, StoreError>;

    /// Puts a command into the inbox, once per key. It is checked against the chat as it will stand.
    async fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError>;

    /// What was accepted under this request id before.
    async fn receipt(&self, chat: ChatId, key: &str) -> Result<Option<Receipt>, StoreError>;

    /// What became of a command: `None` while the driver has not come to it.
    async fn outcome(&self, chat: ChatId, seq: InboxSeq) -> Result<Option<Result<(), Refusal>>, StoreError>;

    /// Takes the right to write. Whoever held it before cannot write any more. While another process holds the chat and
    /// is alive, it is [`WriteError::Fenced`].
    async fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError>;

    /// Whether this process may still believe that the lease is good, by what it knows itself: nobody is asked. A store
    /// that no other process can use has no reason to doubt it.
    fn holds(&self, _lease: &Lease) -> bool {
        true
    }

    /// Gives the right to write back, so that another process need not wait for this one to be given up. Not doing so,
    /// or failing to, costs that wait and nothing else.
    async fn release(&self, lease: Lease) -> Result<(), StoreError>;

    /// Everything a driver needs to go on. Messages are without their bytes: see [`Store::message`].
    async fn load(&self, lease: &Lease) -> Result<Loaded, WriteError>;

    /// Where the chat stands, and no message or delta: for whoever ends a turn of which those cannot be read.
    async fn state(&self, lease: &Lease) -> Result<Chat, WriteError> {
        Ok(self.load(lease).await?.chat)
    }

    /// Commands the driver has not obeyed yet, oldest first.
    async fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError>;

    /// Chats that do not rest, or have commands to obey, oldest first; without those which another living process holds.
    async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError>;

    /// Adds rows to the journal of the open step. Nobody is shown a delta before this returned.
    async fn append(&self, pen: Pen, rows: Vec<JournalRow>) -> Result<(), WriteError>;

    /// The same for whoever has other things to do: `ack` is told, and this returns once the rows stand in line. Whoever drops the
    /// future before that is told that they are not stored, and cannot know.
    async fn hand_in(&self, pen: Pen, rows: Vec<JournalRow>, ack: Ack) {
        ack.tell(self.append(pen, rows).await);
    }

    /// Writes one change whole. Drafts of steps that are over may be forgotten.
    async fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError>;

    /// Where the chat stands. No message is read for it.
    async fn standing(&self, chat: ChatId) -> Result<Standing, StoreError>;

    /// What happened after `cursor`; a snapshot if there is none, it cannot be used, or more than a page was missed; `None`
    /// if nothing happened. However long the chat is, this is no more than a page and a draft, without bytes.
    async fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> Result<Option<News>, StoreError>;

    /// The same, if it can be told at once: of an answer that is watched as it arrives, with every delta. `None` if it cannot.
    fn at_hand(&self, _chat: ChatId, _cursor: Cursor) -> Option<Option<News>> {
        None
    }

    /// The whole transcript with all its bytes, rewound messages left out. As large as it is: not for answering requests.
    async fn transcript(&self, chat: ChatId) -> Result<Vec<Arc<Message>>, StoreError>;

    /// One message with its bytes; `None` if there is none, or it was rewound.
    async fn message(&self, chat: ChatId, id: MessageId) -> Result<Option<Arc<Message>>, StoreError>;

    /// The same for whoever drives the chat and makes a prompt of it: they do not wait behind those who only ask.
    async fn whole(&self, chat: ChatId, id: MessageId) -> Result<Option<Arc<Message>>, StoreError> {
        self.message(chat, id).await
    }

    /// The newest `len` messages before one of them, or before the end; oldest first, without their bytes. Fewer if they are
    /// long, but one in any case.
    async fn page(&self, chat: ChatId, before: Option<MessageId>, len: usize) -> Result<Vec<Arc<Message>>, StoreError>;

    /// The oldest `len` messages after one of them, oldest first, without their bytes. Fewer if they are long, as above.
    async fn after(&self, chat: ChatId, after: MessageId, len: usize) -> Result<Vec<Arc<Message>>, StoreError>;

    /// Provider calls ever made for the chat, oldest first: `len` of them behind the first `seen`.
    async fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError>;

    /// Every tool call that was ever started, in call order, rewound ones too: what it did, it did.
    async fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError>;

    /// How many chats of an owner do something, or will at once, besides these: they run, are being stopped, or have commands
    /// to obey. Waiting for people is no work. Asked with every message that begins a turn, so nothing else is read.
    async fn working(&self, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, StoreError>;

    /// What all chats of an owner have used on these days, chats that are gone included. Counted with every commit, so it
    /// is cheap to ask and the same for every process.
    async fn used(&self, owner: &str, days: RangeInclusive<Day>) -> Result<BudgetUse, StoreError>;

    /// Whether chats can be read and written now. Cheap, however often it is asked.
    async fn ready(&self) -> Result<(), StoreError>;

    /// Waits for a hint that something was done by another process. One may be lost, which costs a poll and never an
    /// event. For one listener; a store that no other process can use never answers.
    async fn hint(&self) -> Hint {
        std::future::pending().await
    }
}

/// What another process did, or what became of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hint {
    /// A chat has news for whoever watches it.
    News(ChatId),
    /// A chat has a command to obey.
    Inbox(ChatId),
    /// Hints may have been lost: look at everything that is watched, and for chats that nobody drives.
    Missed,
    /// Look for chats that nobody drives. Sent now and then, whatever was heard: who dies tells nobody.
    Look,
    /// This process could not say that it is alive when it was time to. It tries again, and others still believe it.
    Late,
    /// This process could not say in time that it is alive. Others may take its chats any moment: stop their tools.
    Lost,
}

/// A chat that somebody has to drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unsettled {
    /// Which.
    pub chat: ChatId,
    /// Whether it has commands that were not obeyed yet. If not, whoever drives it already has nothing to hear.
    pub has_commands: bool,
}

/// A tool call that was started, and what is known of its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// Our name for it.
    pub uid: CallUid,
    /// The tool.
    pub tool: String,
    /// What running it twice would do.
    pub effect: Effect,
    /// When it was started; the last time, if it was started again.
    pub started: Timestamp,
    /// How often it was started. More than once only if that does no harm.
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
    /// For stores: the lease they have just written down, and the fence of the one they gave before it.
    #[must_use]
    pub const fn granted(chat: ChatId, fence: Fence, before: Fence) -> Self {
        Self { chat, fence, before }
    }

    /// Whose.
    #[must_use]
    pub const fn chat(&self) -> ChatId {
        self.chat
    }

    /// The number stores compare.
    #[must_use]
    pub const fn fence(&self) -> Fence {
        self.fence
    }

    /// The fence of the lease before this one: whoever was given that held the chat last. Fences leave numbers out, so this
    /// cannot be told from [`Lease::fence`]. A lease whose giving was tried in vain, and that nobody was given, is none.
    #[must_use]
    pub const fn before(&self) -> Fence {
        self.before
    }

    /// What an attempt may carry away: enough to journal, not to commit.
    #[must_use]
    pub const fn pen(&self) -> Pen {
        Pen { chat: self.chat, fence: self.fence }
    }
}

/// The right to journal deltas of one chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pen {
    /// Whose.
    pub chat: ChatId,
    /// Under which lease.
    pub fence: Fence,
}

/// A command on its way in.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// What is wanted.
    pub command: Command,
    /// The sender's name for this request: the same one again has no second effect.
    pub key: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// That a command was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// By which chat.
    pub chat: ChatId,
    /// Its number there. A message that has to wait is known by it.
    pub seq: InboxSeq,
}

/// Everything a driver needs to go on.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Where the chat stands.
    pub chat: Chat,
    /// The transcript from the newest summary on, without its bytes.
    pub messages: Vec<Arc<Message>>,
    /// The journal of the open step.
    pub rows: Vec<JournalRow>,
}

/// What a subscriber has not seen yet. Whole commits only: nobody can resume from half of one.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// Where to go on from.
    pub cursor: Cursor,
    /// What happened, in order.
    pub events: Vec<Event>,
}

/// The store cannot say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no such chat.
    #[error("no such chat")]
    NoSuchChat,
    /// It cannot be reached or cannot write at the moment.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// What is stored cannot be read: it is of a newer release, or makes no sense.
    #[error("what is stored cannot be read: {0}")]
    Unreadable(String),
    /// What is stored is not what was written. What lies elsewhere can still be read.
    #[error("what is stored is damaged: {0}")]
    Damaged(String),
}

/// A command was not accepted. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The chat does not take it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The same key came with another command before.
    #[error("this request id was used for something else")]
    Conflict,
    /// The engine's own: nobody here is called so, and the command needs whom the chat talks to.
    #[error("no agent is called `{0}`: put it back into the configuration, or begin another chat")]
    NoAgent(String),
    /// The store cannot say.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A write did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Somebody else holds the chat now.
    #[error("the lease was taken over")]
    Fenced,
    /// The rows do not follow what is stored.
    #[error("the journal is at another place")]
    OutOfPlace,
    /// The store cannot write.
    #[error(transparent)]
    Store(#[from] StoreError),
}
