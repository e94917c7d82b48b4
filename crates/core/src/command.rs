//! Commands: what clients and programs ask of a chat.
//!
//! Only a chat's driver changes it. Every other part of the program puts a command into the chat's inbox,
//! where it is durable and takes effect once, however often it is sent. The same function checks it twice: on
//! acceptance, so that the sender gets a clear refusal, and when the driver applies it, because the chat may
//! have changed.

use std::sync::Arc;

use crate::chat::{CallState, Chat, OpenCall, QueuedMessage};
use crate::ids::{CallUid, InboxSeq, MessageId, ModelId, StepId, Timestamp};
use crate::limits::Limits;
use crate::message::{Output, Part, SendReceipt};
use crate::status::{self, Status, Verb};

/// Commands: what clients and programs ask of a chat.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Say something.
    Send {
        /// What.
        parts: Arc<[Part]>,
        /// When, if the chat is busy.
        when: Delivery,
    },
    /// Make a queued message the next one.
    Promote(InboxSeq),
    /// Delete a queued message.
    Unqueue(InboxSeq),
    /// Stop the turn and keep what was shown.
    Interrupt,
    /// Answer what the chat waits for, in part or whole.
    Answer(Arc<[CallAnswer]>),
    /// Replace a person's message and everything after it.
    Edit {
        /// The message.
        message: MessageId,
        /// What to say instead.
        parts: Arc<[Part]>,
    },
    /// Summarise the transcript.
    Compact,
    /// Archive the chat.
    Archive,
    /// Restore it from the archive.
    Unarchive,
    /// Change the chat's title.
    Rename(String),
    /// End the grant that was given with this call.
    Revoke(CallUid),
    /// Change several things about the chat, all or none. What is left out stays.
    Patch {
        /// The new title.
        title: Option<String>,
        /// Whether it is archived.
        archived: Option<bool>,
        /// The model to use.
        model: Option<ModelChoice>,
        /// Whether requests and responses of its providers are recorded.
        debug: Option<bool>,
    },
}

/// The model a chat uses first. The agent's fallback models stay behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChoice {
    /// The agent's.
    Agents,
    /// This one.
    Own(ModelId),
}

impl ModelChoice {
    /// The value as the chat stores it.
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
pub struct InboxCommand {
    /// Its number.
    pub seq: InboxSeq,
    /// The step that the sender saw: the one that is open once the inbox before it is applied.
    pub aimed: StepId,
    /// When it was accepted.
    pub at: Timestamp,
    /// The idempotency key of the request.
    pub key: Option<String>,
    /// What is wanted.
    pub command: Command,
}

impl InboxCommand {
    /// The receipt for the message it brings.
    #[must_use]
    pub fn sent(&self) -> SendReceipt {
        SendReceipt { receipt: self.seq, key: self.key.clone() }
    }

    /// The message it will put into the queue, if it does.
    #[must_use]
    pub fn queued(&self) -> Option<QueuedMessage> {
        let Command::Send { parts, when } = &self.command else { return None };
        let (parts, steers) = (parts.clone(), *when == Delivery::Steer);
        Some(QueuedMessage { id: self.seq, at: self.at, parts, steers, key: self.key.clone() })
    }

    /// Whether the turn under way must be stopped to apply it.
    #[must_use]
    pub fn stops(&self, chat: &Chat, is_users: impl Fn(MessageId) -> bool) -> bool {
        let is_late = self.command == Command::Interrupt && is_late(chat, self.aimed);
        self.command.stops_the_turn() && !is_late && check(chat, &self.command, is_users).is_ok()
    }
}

/// Whether a command aimed at this step was meant for an earlier turn than the one under way.
pub(crate) fn is_late(chat: &Chat, aimed: StepId) -> bool {
    chat.turn.as_ref().is_some_and(|turn| turn.first > aimed)
}

/// When a busy chat takes a message up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// After the turn.
    Queue,
    /// At the next step boundary.
    Steer,
    /// Now: interrupt first.
    Now,
}

/// An answer to one call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallAnswer {
    /// Which.
    pub call: CallUid,
    /// What.
    pub what: AnswerContent,
}

impl CallAnswer {
    /// The output of a client's tool.
    #[must_use]
    pub fn output(call: CallUid, text: impl Into<String>) -> Self {
        Self { call, what: AnswerContent::Output(Output::text(text)) }
    }

    /// The failure of a client's tool.
    #[must_use]
    pub fn error(call: CallUid, text: impl Into<String>) -> Self {
        Self { call, what: AnswerContent::Error(Output::text(text)) }
    }

    /// The approval of a call, bound to the input that was shown.
    #[must_use]
    pub const fn approve(ask: &OpenCall) -> Self {
        Self { call: ask.uid, what: AnswerContent::Approve { input_hash: ask.input_hash } }
    }

    /// The approval of a call and of the next ones that the grant covers which was shown with it.
    #[must_use]
    pub fn grant(ask: &OpenCall, by: impl Into<String>, until: Timestamp) -> Self {
        Self { call: ask.uid, what: AnswerContent::Grant { input_hash: ask.input_hash, by: by.into(), until } }
    }

    /// The denial of a call, with the reason for the model.
    #[must_use]
    pub fn deny(call: CallUid, reason: impl Into<String>) -> Self {
        Self { call, what: AnswerContent::Deny { reason: reason.into() } }
    }
}

/// What was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerContent {
    /// A client tool's result.
    Output(Output),
    /// A client tool's failure.
    Error(Output),
    /// The call may run. Bound to the very input that was shown.
    Approve {
        /// Hash of the input that was shown.
        input_hash: u64,
    },
    /// The call may run, and so may the next ones that the grant covers which was shown with it.
    Grant {
        /// Hash of the input that was shown.
        input_hash: u64,
        /// The token that agreed, by name.
        by: String,
        /// When the grant ends, at the latest.
        until: Timestamp,
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
    #[error("a chat that is {0} cannot {1}")]
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
    /// More than a message, an answer or a name may have.
    #[error("{0}")]
    TooLong(Excess),
    /// An answer to a call that waits for none.
    #[error("call {0} waits for no answer")]
    NotAsked(CallUid),
    /// An approval where a result is needed, or the other way round.
    #[error("call {0} waits for another kind of answer")]
    WrongAnswer(CallUid),
    /// One call answered twice in one command.
    #[error("call {0} is answered twice")]
    AnsweredTwice(CallUid),
    /// A grant for a call that can only be allowed once.
    #[error("call {0} can only be allowed once: approve it without a grant")]
    NotGrantable(CallUid),
    /// No such grant: it has ended, or was revoked.
    #[error("no such grant: it has ended or was revoked")]
    NotGranted,
    /// The approval was given for another input.
    #[error("call {0} has another input than the one approved")]
    InputChanged(CallUid),
}

/// Which bound was passed, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Excess {
    /// [`Limits::message_bytes_max`].
    #[error("the text of a message may have at most {0} bytes: send a file, or less at a time")]
    MessageBytes(usize),
    /// [`Limits::parts_len_max`].
    #[error("a message may have at most {0} parts: join texts, or send less at a time")]
    Parts(usize),
    /// [`Limits::tool_output_bytes_max`].
    #[error("the outputs in one request may have at most {0} bytes: send less at a time")]
    AnswerBytes(usize),
    /// The longest title of a chat.
    #[error("a title may have at most {0} bytes: choose a shorter one")]
    TitleBytes(usize),
}

impl Excess {
    const fn max(self) -> usize {
        let (Self::MessageBytes(max) | Self::Parts(max) | Self::AnswerBytes(max) | Self::TitleBytes(max)) = self;
        max
    }
}

impl Command {
    /// The verb of the table.
    #[must_use]
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Send { when: Delivery::Queue, .. } => Verb::Send,
            Self::Send { when: Delivery::Steer, .. } => Verb::Steer,
            Self::Send { when: Delivery::Now, .. } => Verb::SendNow,
            Self::Promote(_) => Verb::Promote,
            Self::Unqueue(_) => Verb::Unqueue,
            Self::Interrupt => Verb::Interrupt,
            Self::Answer(_) => Verb::Answer,
            Self::Edit { .. } => Verb::Edit,
            Self::Compact => Verb::Compact,
            // Every status that takes these verbs takes `Rename` too, and `Rename` covers the other fields.
            Self::Archive | Self::Patch { archived: Some(true), .. } => Verb::Archive,
            Self::Unarchive | Self::Patch { archived: Some(false), .. } => Verb::Unarchive,
            Self::Rename(_) | Self::Revoke(_) | Self::Patch { archived: None, .. } => Verb::Rename,
        }
    }

    /// Whether a chat at rest begins a turn to apply it.
    #[must_use]
    pub const fn begins_a_turn(&self) -> bool {
        match self {
            Self::Send { .. } | Self::Edit { .. } | Self::Promote(_) | Self::Compact => true,
            Self::Unqueue(_) | Self::Interrupt | Self::Answer(_) => false,
            Self::Archive | Self::Unarchive | Self::Rename(_) | Self::Revoke(_) | Self::Patch { .. } => false,
        }
    }

    /// Whether a turn under way must be stopped to apply it.
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
    check(chat, command, is_users)?;
    if let Some(excess) = excess(command, limits) {
        return Err(Refusal::TooLong(excess));
    }
    match command {
        Command::Send { .. } if chat.is_busy() && chat.queue.len() >= limits.queue_len_max => Err(Refusal::QueueFull),
        _ => Ok(()),
    }
}

/// The bound that `command` passes, if it passes one.
fn excess(command: &Command, limits: &Limits) -> Option<Excess> {
    let (len, excess) = match command {
        Command::Send { parts, .. } | Command::Edit { parts, .. } if parts.len() > limits.parts_len_max => {
            return Some(Excess::Parts(limits.parts_len_max));
        }
        Command::Send { parts, .. } | Command::Edit { parts, .. } => {
            (words_len(parts), Excess::MessageBytes(limits.message_bytes_max))
        }
        Command::Answer(answers) => {
            (answers.iter().map(answer_len).sum(), Excess::AnswerBytes(limits.tool_output_bytes_max))
        }
        Command::Rename(title) | Command::Patch { title: Some(title), .. } => {
            (title.len(), Excess::TitleBytes(TITLE_BYTES_MAX))
        }
        _ => return None,
    };
    (len > excess.max()).then_some(excess)
}

/// A title, trimmed and checked.
pub fn title(text: &str) -> Result<String, Refusal> {
    match text.trim() {
        "" => Err(Refusal::Empty),
        _ if text.len() > TITLE_BYTES_MAX => Err(Refusal::TooLong(Excess::TitleBytes(TITLE_BYTES_MAX))),
        title => Ok(title.into()),
    }
}

/// The longest title, in bytes.
const TITLE_BYTES_MAX: usize = 400;

/// The length of all text, files apart.
fn words_len(parts: &[Part]) -> usize {
    let len = |part: &Part| if let Part::Text(text) = part { text.text.len() } else { 0 };
    parts.iter().map(len).sum()
}

fn answer_len(answer: &CallAnswer) -> usize {
    match &answer.what {
        AnswerContent::Output(output) | AnswerContent::Error(output) => {
            let media = output.media.iter().map(|media| media.bytes.len());
            output.text.len() + output.full.as_ref().map_or(0, |full| full.len()) + media.sum::<usize>()
        }
        AnswerContent::Deny { reason } => reason.len(),
        AnswerContent::Approve { .. } | AnswerContent::Grant { .. } => 0,
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
        Command::Revoke(call) if !chat.grants.iter().any(|grant| grant.call == *call) => Err(Refusal::NotGranted),
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
        | Command::Revoke(_)
        | Command::Patch { .. } => Ok(()),
    }
}

fn check_answers(chat: &Chat, answers: &[CallAnswer]) -> Result<(), Refusal> {
    if answers.is_empty() {
        return Err(Refusal::Empty);
    }
    for (i, CallAnswer { call, what }) in answers.iter().enumerate() {
        if answers[..i].iter().any(|earlier| earlier.call == *call) {
            return Err(Refusal::AnsweredTwice(*call));
        }
        let open = chat.calls.iter().find(|open| open.uid == *call).ok_or(Refusal::NotAsked(*call))?;
        match (&open.state, what) {
            (CallState::AsksClient, AnswerContent::Output(_) | AnswerContent::Error(_)) => {}
            (CallState::AsksApproval, AnswerContent::Deny { .. }) => {}
            (CallState::AsksApproval, AnswerContent::Approve { input_hash }) if *input_hash == open.input_hash => {}
            (CallState::AsksApproval, AnswerContent::Grant { input_hash, .. }) if *input_hash == open.input_hash => {
                open.ask.as_ref().and_then(|ask| ask.grant.as_ref()).ok_or(Refusal::NotGrantable(*call))?;
            }
            (CallState::AsksApproval, AnswerContent::Approve { .. } | AnswerContent::Grant { .. }) => {
                return Err(Refusal::InputChanged(*call));
            }
            (CallState::AsksClient | CallState::AsksApproval, _) => return Err(Refusal::WrongAnswer(*call)),
            (CallState::Ready | CallState::Approved | CallState::Started { .. } | CallState::Rests { .. }, _) => {
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
