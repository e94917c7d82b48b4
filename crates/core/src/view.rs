//! A chat as a client sees it.
//!
//! A client folds events; the server folds facts and deltas. Both must arrive at the same picture, whatever was cut on
//! the way. This fold is the client's half, and the events are all a client ever needs. One cursor orders them: it says
//! which commits and which deltas have been seen, so it is valid after any crash and on any replica.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::budget::BudgetUse;
use crate::chat::{AskBelow, Chat, Compacting, OpenCall, QueuedMessage, RetryWait, TurnEnd};
use crate::command::{Command, InboxCommand};
use crate::delta::Delta;
use crate::draft::{Draft, OutOfOrder};
use crate::fact::Totals;
use crate::ids::{InboxSeq, MessageId, ModelId, Seq, StepId, Timestamp, Version};
use crate::message::Message;
use crate::parent::ParentCall;
use crate::permission::Grant;
use crate::setup::Setup;
use crate::status::{Status, Verb};

/// A reader's position in a chat. Opaque to clients; written as text on wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Cursor {
    /// All commits up to this one.
    pub version: Version,
    /// Of this step's draft…
    pub step: StepId,
    /// …all deltas up to this one.
    pub seq: Seq,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}.{:x}", self.version.0, self.step.0, self.seq.0)
    }
}

/// A text that is no cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this server: leave it out to begin with a snapshot")]
pub struct BadCursor;

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let mut numbers = text.split('.').map(|field| match field.as_bytes() {
            [b'0'..=b'9' | b'a'..=b'f', ..] => u64::from_str_radix(field, 16).map_err(|_| BadCursor),
            _ => Err(BadCursor),
        });
        let mut next = || numbers.next().unwrap_or(Err(BadCursor));
        let cursor = Self { version: Version(next()?), step: StepId(next()?), seq: Seq(next()?) };
        numbers.next().is_none().then_some(cursor).ok_or(BadCursor)
    }
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A message was committed. If it is the reply of the draft's step, it stands for the draft.
    Message(Arc<Message>),
    /// The draft grew, or something in it was taken back.
    Delta(JournalRow),
    /// Everything from this message on is gone.
    Rewound(MessageId),
    /// Where the chat stands now.
    Standing(Box<Standing>),
    /// Forget everything: this is how it is. Sent first, and whenever a cursor cannot be used.
    Reset(Box<Snapshot>),
}

/// A numbered delta of a draft, as it is journalled.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalRow {
    /// The step of the draft.
    pub step: StepId,
    /// Its number there.
    pub seq: Seq,
    /// When it came.
    pub at: Timestamp,
    /// What it is.
    pub delta: Arc<Delta>,
}

/// Everything about a chat that is neither message nor draft. Files in the queue are without their bytes.
///
/// A command is accepted before the driver obeys it. Readers see the chat with accepted commands: the message
/// is in the queue, and the chat does not look idle. So a sender finds an accepted message in every later
/// read.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// As of this commit.
    pub version: Version,
    /// The open step: a draft of an earlier one is over.
    pub step: StepId,
    /// What people call it.
    pub title: String,
    /// The model it asks first from its next turn on, if that is not its agent's.
    pub model: Option<ModelId>,
    /// Where it stands.
    pub status: Status,
    /// The newest command that is taken into account here.
    pub received: InboxSeq,
    /// Receipts of accepted messages without a finished turn: those of the turn under way first, then the
    /// queued ones.
    pub unanswered: Vec<InboxSeq>,
    /// Whether it is put away.
    pub archived: bool,
    /// Whether whatever is exchanged with providers for it is recorded.
    pub debug: bool,
    /// Queued messages.
    pub queue: Vec<QueuedMessage>,
    /// Calls that a client or a person can answer now.
    pub asks: Vec<OpenCall>,
    /// Calls of sub-agents that a client or a person can answer, at their chats.
    pub asks_below: Vec<AskBelow>,
    /// Until when they do, at most.
    pub awaits_until: Option<Timestamp>,
    /// Rules that people agreed to when they answered an ask.
    pub grants: Vec<Grant>,
    /// Calls with a running tool that has reported progress.
    pub progress: Vec<OpenCall>,
    /// Why the next attempt waits, and how long.
    pub retry: Option<RetryWait>,
    /// The summary that is being written.
    pub compacting: Option<Compacting>,
    /// How the last turn ended; `None` while one is under way or about to begin.
    pub ended: Option<TurnEnd>,
    /// What it all cost.
    pub totals: Totals,
    /// What the chats of its sub-agents used, as far as it has looked.
    pub delegated: BudgetUse,
    /// The call it was created for, if it is a sub-agent's.
    pub parent: Option<Arc<ParentCall>>,
    /// What it has of its own beside its agent.
    pub setup: Option<Arc<Setup>>,
}

impl Standing {
    /// Where `chat` stands behind the `pending` commands, which its driver has not obeyed yet.
    #[must_use]
    pub fn of<'a>(chat: &Chat, pending: impl Iterator<Item = &'a InboxCommand> + Clone) -> Self {
        let status = chat.status.shown(pending.clone().any(|inbound| inbound.command.begins_a_turn()));
        let rests = matches!(status, Status::Idle | Status::Failed);
        let queue = queue_behind(chat, pending.clone());
        let edits = pending.clone().filter(|inbound| matches!(inbound.command, Command::Edit { .. }));
        let heard = chat.turn.iter().flat_map(|turn| turn.heard.iter().copied());
        let waiting = queue.iter().map(|queued| queued.id);
        Self {
            version: chat.version,
            step: chat.step,
            title: chat.title.clone(),
            model: chat.model.clone(),
            status,
            received: pending.last().map_or(chat.obeyed, |newest| newest.seq),
            unanswered: heard.chain(waiting).chain(edits.map(|inbound| inbound.seq)).collect(),
            archived: chat.archived,
            debug: chat.debug,
            queue,
            asks: chat.asks().cloned().collect(),
            asks_below: chat.asks_below().collect(),
            grants: chat.grants.clone(),
            progress: chat.calls.iter().filter(|open| open.progress.is_some()).cloned().collect(),
            awaits_until: chat.awaits_until,
            retry: chat.wait.clone(),
            compacting: chat.compacting.clone(),
            ended: chat.ended.clone().filter(|_| rests),
            totals: chat.totals,
            delegated: chat.delegated,
            parent: chat.parent.clone(),
            setup: chat.setup.clone(),
        }
    }
}

/// The queue as it will be once the driver has applied the pending commands.
fn queue_behind<'a>(chat: &Chat, pending: impl Iterator<Item = &'a InboxCommand>) -> Vec<QueuedMessage> {
    let mut queue: Vec<QueuedMessage> = chat.queue.iter().map(QueuedMessage::without_bytes).collect();
    for inbound in pending {
        let Some(queued) = inbound.queued() else { continue };
        let place = if inbound.command.verb() == Verb::SendNow { 0 } else { queue.len() };
        queue.insert(place, queued.without_bytes());
    }
    queue
}

/// A chat whole, or its newest page.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Committed messages, oldest first; the newest page of them.
    pub messages: Vec<Arc<Message>>,
    /// Where it stands.
    pub standing: Standing,
    /// The reply that is arriving.
    pub draft: Option<Draft>,
}

/// The fold of all events a client has received.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct View {
    /// Committed messages.
    pub messages: Vec<Arc<Message>>,
    /// Where the chat stands, once told.
    pub standing: Option<Standing>,
    /// The reply that is arriving.
    pub draft: Option<Draft>,
}

/// Events that do not fit together. Never happens unless some were lost or doubled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFold {
    /// A delta that is not the next one.
    #[error("delta {got} of step {step} came after {after}")]
    Gap {
        /// The step of the draft.
        step: StepId,
        /// The newest one seen.
        after: Seq,
        /// The one that came.
        got: Seq,
    },
    /// A message that is not newer than the last.
    #[error("message {0} came again, or too late")]
    Repeated(MessageId),
    /// A delta that does not fit the draft.
    #[error(transparent)]
    OutOfOrder(#[from] OutOfOrder),
}

impl View {
    /// Takes in an event.
    pub fn fold(&mut self, event: &Event) -> Result<(), BadFold> {
        match event {
            Event::Message(message) => self.message(message),
            Event::Delta(row) => self.delta(row),
            Event::Rewound(from) => {
                self.messages.retain(|message| message.id < *from);
                self.draft = None;
                Ok(())
            }
            Event::Standing(standing) => {
                self.draft.take_if(|draft| draft.step() < standing.step);
                self.standing = Some((**standing).clone());
                Ok(())
            }
            Event::Reset(snapshot) => {
                let Snapshot { messages, standing, draft } = (**snapshot).clone();
                *self = Self { messages, standing: Some(standing), draft };
                Ok(())
            }
        }
    }

    fn message(&mut self, message: &Arc<Message>) -> Result<(), BadFold> {
        if self.messages.last().is_some_and(|last| last.id >= message.id) {
            return Err(BadFold::Repeated(message.id));
        }
        self.messages.push(message.clone());
        Ok(())
    }

    fn delta(&mut self, row: &JournalRow) -> Result<(), BadFold> {
        let draft = match &mut self.draft {
            Some(draft) if draft.step() == row.step => draft,
            stale => stale.insert(Draft::new(row.step)),
        };
        if row.seq != draft.seq().next() {
            return Err(BadFold::Gap { step: row.step, after: draft.seq(), got: row.seq });
        }
        draft.push(row.at, &row.delta)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
