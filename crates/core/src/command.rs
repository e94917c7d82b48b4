//! What others want of a chat.
//!
//! Nobody but its driver changes a chat. Everyone else puts a command into its inbox, where it is durable and has one
//! effect, however often it is sent. Whether it fits is asked twice by the same function: when it is accepted, so that
//! the sender hears a plain no, and when the driver gets to it, because the chat may have moved on.

use std::sync::Arc;

use crate::chat::{CallState, Chat, Queued};
use crate::ids::{CallUid, InboxSeq, MessageId, ModelId, StepId, Timestamp};
use crate::limits::Limits;
use crate::message::{Output, Part, Sent};
use crate::status::{self, Status, Verb};

/// What others want of a chat.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Say something.
    Send {
        /// What.
        parts: Arc<[Part]>,
        /// When, if the chat is busy.
        when: When,
    },
    /// Make a queued message the next one.
    Promote(InboxSeq),
    /// Delete a queued message.
    Unqueue(InboxSeq),
    /// Stop the turn and keep what was shown.
    Interrupt,
    /// Answer what the chat waits for, in part or whole.
    Answer(Arc<[Answer]>),
    /// Replace a person's message and everything after it.
    Edit {
        /// The message.
        message: MessageId,
        /// What to say instead.
        parts: Arc<[Part]>,
    },
    /// Summarise the transcript.
    Compact,
    /// Put the chat away.
    Archive,
    /// Take it out again.
    Unarchive,
    /// Call the chat something else.
    Rename(String),
    /// Change several things about the chat, all or none. What is left out stays.
    Patch {
        /// What to call it.
        title: Option<String>,
        /// Whether it is put away.
        archived: Option<bool>,
        /// Which model it asks.
        model: Option<Choice>,
        /// Whether whatever is exchanged with providers for it is recorded.
        debug: Option<bool>,
    },
}

/// Which model a chat asks first. Those its agent falls back to stay behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Its agent's.
    Agents,
    /// This one.
    Own(ModelId),
}

impl Choice {
    /// As a chat keeps it.
    #[must_use]
    pub fn model(self) -> Option<ModelId> {
        match self {
            Self::Agents => None,
            Self::Own(model) => Some(model),
        }
    }
}

/// A command in the inbox.
#[derive(Debug, Clone, PartialEq)]
pub struct Inbound {
    /// Its number.
    pub seq: InboxSeq,
    /// The step that was open when it was accepted, as far as could be foreseen: what the sender was looking at.
    pub aimed: StepId,
    /// When it was accepted.
    pub at: Timestamp,
    /// The sender's name for the request.
    pub key: Option<String>,
    /// What is wanted.
    pub command: Command,
}

impl Inbound {
    /// What a message that it brings is tied to its sender by.
    #[must_use]
    pub fn sent(&self) -> Sent {
        Sent { receipt: self.seq, key: self.key.clone() }
    }

    /// The message it will put into the queue, if it does.
    #[must_use]
    pub fn queued(&self) -> Option<Queued> {
        let Command::Send { parts, when } = &self.command else { return None };
        let (parts, steers) = (parts.clone(), *when == When::Steer);
        Some(Queued { id: self.seq, at: self.at, parts, steers, key: self.key.clone() })
    }
}

/// When a message is to be heard by a busy chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// After the turn.
    Queue,
    /// At the next step boundary.
    Steer,
    /// Now: interrupt first.
    Now,
}

/// An answer to one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Which.
    pub call: CallUid,
    /// What.
    pub what: Answered,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    /// A client tool's result.
    Output(Output),
    /// A client tool's failure.
    Error(Output),
    /// The call may run. Bound to the very input that was shown.
    Approve {
        /// Hash of the input that was shown.
        input_hash: u64,
    },
    /// The call may not run.
    Deny {
        /// What the model is told.
        reason: String,
    },
}

/// Why a command was not taken. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The status does not take the verb.
    #[error("a chat that is {0:?} does not take {1:?}")]
    Status(Status, Verb),
    /// The chat is archived.
    #[error("the chat is archived: unarchive it first")]
    Archived,
    /// The queue has no room.
    #[error("the queue is full: wait for the turn, or delete a queued message")]
    QueueFull,
    /// No such queued message: it ran, or was deleted.
    #[error("no such queued message: it has run or was deleted")]
    NotQueued,
    /// No such message of a person.
    #[error("only a message that a person sent, and that is still in the chat, can be edited")]
    NotEditable,
    /// A message without content.
    #[error("the message is empty")]
    Empty,
    /// More words than a message or an answer may have.
    #[error("too long: send a file, or less at a time")]
    TooLong,
    /// An answer to a call that waits for none.
    #[error("call {0} waits for no answer")]
    NotAsked(CallUid),
    /// An approval where a result is needed, or the other way round.
    #[error("call {0} waits for another kind of answer")]
    WrongAnswer(CallUid),
    /// The same call answered twice in one command.
    #[error("call {0} is answered twice")]
    AnsweredTwice(CallUid),
    /// The approval was given for another input.
    #[error("call {0} has another input than the one approved")]
    InputChanged(CallUid),
}

impl Command {
    /// The verb of the table.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Send { when: When::Queue, .. } => Verb::Send,
            Self::Send { when: When::Steer, .. } => Verb::Steer,
            Self::Send { when: When::Now, .. } => Verb::SendNow,
            Self::Promote(_) => Verb::Promote,
            Self::Unqueue(_) => Verb::Unqueue,
            Self::Interrupt => Verb::Interrupt,
            Self::Answer(_) => Verb::Answer,
            Self::Edit { .. } => Verb::Edit,
            Self::Compact => Verb::Compact,
            // Whatever takes these takes a name too, and whoever takes a name takes the rest.
            Self::Archive | Self::Patch { archived: Some(true), .. } => Verb::Archive,
            Self::Unarchive | Self::Patch { archived: Some(false), .. } => Verb::Unarchive,
            Self::Rename(_) | Self::Patch { archived: None, .. } => Verb::Rename,
        }
    }

    /// Whether a chat at rest begins a turn to obey.
    #[must_use]
    pub const fn begins_a_turn(&self) -> bool {
        match self {
            Self::Send { .. } | Self::Edit { .. } | Self::Promote(_) | Self::Compact => true,
            Self::Unqueue(_) | Self::Interrupt | Self::Answer(_) => false,
            Self::Archive | Self::Unarchive | Self::Rename(_) | Self::Patch { .. } => false,
        }
    }

    /// Whether a turn under way must be dropped to obey.
    #[must_use]
    pub const fn stops_the_turn(&self) -> bool {
        matches!(self.verb(), Verb::Interrupt | Verb::SendNow | Verb::Edit)
    }
}

/// Whether `command` may enter the inbox of `chat`, as it will stand when its turn comes: [`check`], and there is room.
pub fn admit(
    chat: &Chat,
    command: &Command,
    limits: &Limits,
    is_users: impl Fn(MessageId) -> bool,
) -> Result<(), Refusal> {
    match (check(chat, command, is_users), command) {
        // Whoever wants a chat to stop that has stopped is heard: their request id is kept, and nothing else happens.
        (Err(Refusal::Status(Status::Idle | Status::Failed, _) | Refusal::Archived), Command::Interrupt) => {}
        (checked, _) => checked?,
    }
    let too_long = match command {
        Command::Send { parts, .. } | Command::Edit { parts, .. } => words_len(parts) > limits.message_bytes_max,
        Command::Answer(answers) => answers.iter().map(answer_len).sum::<usize>() > limits.tool_output_bytes_max,
        Command::Rename(title) | Command::Patch { title: Some(title), .. } => title.len() > TITLE_BYTES_MAX,
        _ => false,
    };
    match command {
        _ if too_long => Err(Refusal::TooLong),
        Command::Send { .. } if chat.is_busy() && chat.queue.len() >= limits.queue_len_max => Err(Refusal::QueueFull),
        _ => Ok(()),
    }
}

/// A name as a chat is given it.
pub fn title(text: &str) -> Result<String, Refusal> {
    match text.trim() {
        "" => Err(Refusal::Empty),
        _ if text.len() > TITLE_BYTES_MAX => Err(Refusal::TooLong),
        title => Ok(title.into()),
    }
}

/// The longest name a chat may be given.
const TITLE_BYTES_MAX: usize = 400;

/// The length of all text, files apart.
fn words_len(parts: &[Part]) -> usize {
    let len = |part: &Part| if let Part::Text(text) = part { text.text.len() } else { 0 };
    parts.iter().map(len).sum()
}

fn answer_len(answer: &Answer) -> usize {
    match &answer.what {
        Answered::Output(output) | Answered::Error(output) => {
            let media = output.media.iter().map(|media| media.bytes.len());
            output.text.len() + output.full.as_ref().map_or(0, |full| full.len()) + media.sum::<usize>()
        }
        Answered::Deny { reason } => reason.len(),
        Answered::Approve { .. } => 0,
    }
}

/// Whether `chat` takes a command that has waited in its inbox. An interrupt is for the turn its sender saw: one that
/// comes after that turn ended does not stop the next.
pub fn check_inbound(chat: &Chat, inbound: &Inbound, is_users: impl Fn(MessageId) -> bool) -> Result<(), Refusal> {
    let Inbound { aimed, command, .. } = inbound;
    let is_late = chat.turn.as_ref().is_some_and(|turn| turn.first > *aimed);
    match command {
        Command::Interrupt if is_late => Err(Refusal::Status(Status::Idle, Verb::Interrupt)),
        _ => check(chat, command, is_users),
    }
}

/// Whether `chat` takes `command`. `is_users` says whether a message is one that a person sent.
pub fn check(chat: &Chat, command: &Command, is_users: impl Fn(MessageId) -> bool) -> Result<(), Refusal> {
    let verb = command.verb();
    if chat.archived && !status::archived_takes(verb) {
        return Err(Refusal::Archived);
    }
    if status::next(chat.status, verb).is_none() {
        return Err(Refusal::Status(chat.status, verb));
    }
    let is_queued = |id: &InboxSeq| chat.queue.iter().any(|queued| queued.id == *id);
    match command {
        Command::Send { parts, .. } | Command::Edit { parts, .. } if is_empty(parts) => Err(Refusal::Empty),
        Command::Edit { message, .. } if !is_users(*message) => Err(Refusal::NotEditable),
        Command::Promote(id) | Command::Unqueue(id) if !is_queued(id) => Err(Refusal::NotQueued),
        Command::Answer(answers) => check_answers(chat, answers),
        Command::Rename(title) | Command::Patch { title: Some(title), .. } if title.trim().is_empty() => {
            Err(Refusal::Empty)
        }
        Command::Send { .. }
        | Command::Edit { .. }
        | Command::Promote(_)
        | Command::Unqueue(_)
        | Command::Interrupt
        | Command::Compact
        | Command::Archive
        | Command::Unarchive
        | Command::Rename(_)
        | Command::Patch { .. } => Ok(()),
    }
}

fn check_answers(chat: &Chat, answers: &[Answer]) -> Result<(), Refusal> {
    if answers.is_empty() {
        return Err(Refusal::Empty);
    }
    for (i, Answer { call, what }) in answers.iter().enumerate() {
        if answers[..i].iter().any(|earlier| earlier.call == *call) {
            return Err(Refusal::AnsweredTwice(*call));
        }
        let open = chat.calls.iter().find(|open| open.uid == *call).ok_or(Refusal::NotAsked(*call))?;
        match (&open.state, what) {
            (CallState::AsksClient, Answered::Output(_) | Answered::Error(_)) => {}
            (CallState::AsksApproval, Answered::Deny { .. }) => {}
            (CallState::AsksApproval, Answered::Approve { input_hash }) if *input_hash == open.input_hash => {}
            (CallState::AsksApproval, Answered::Approve { .. }) => return Err(Refusal::InputChanged(*call)),
            (CallState::AsksClient | CallState::AsksApproval, _) => return Err(Refusal::WrongAnswer(*call)),
            (CallState::Ready | CallState::Approved | CallState::Started { .. }, _) => {
                return Err(Refusal::NotAsked(*call));
            }
        }
    }
    Ok(())
}

fn is_empty(parts: &[Part]) -> bool {
    parts.iter().all(|part| matches!(part, Part::Text(text) if text.text.trim().is_empty()))
}

#[cfg(test)]
mod tests;
