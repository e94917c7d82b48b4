//! A command, as it waits in the inbox.

use std::borrow::Cow;

use everturn_core::command;
use everturn_core::ids::{InboxSeq, MessageId, ModelId, Timestamp};
use serde::{Deserialize, Serialize};

use super::blob::{BlobId, Blobs, Bytes};
use super::name::WhenWord;
use super::output::Output;
use super::part::Parts;
use super::value::{AsText, Uid};
use super::{BadShape, Shape, Stored, Written, envelope};

/// The text of a command. Equal commands have equal texts.
#[must_use]
pub fn write(command: &command::Command) -> Written {
    let mut blobs = Blobs::default();
    let shape = Command(Wish::of(command, &mut blobs));
    envelope::write(shape, blobs)
}

/// Reads what [`write()`] wrote.
pub fn parse(text: &str) -> Result<Stored<Command<'static>>, BadShape> {
    envelope::stored("command", text)
}

/// Whether a chat at rest begins a turn with the command of this text. Its bytes are not needed for that.
pub(crate) fn begins_a_turn(text: &str) -> Result<bool, BadShape> {
    let Stored(Command(wish)) = parse(text)?;
    Ok(match wish {
        Wish::Send { .. } | Wish::Edit { .. } | Wish::Promote(_) | Wish::Compact => true,
        Wish::Unqueue(_) | Wish::Interrupt | Wish::Answer(_) => false,
        Wish::Archive | Wish::Unarchive | Wish::Rename(_) | Wish::Revoke(_) | Wish::Patch { .. } => false,
    })
}

/// The mirror of a command.
#[derive(Serialize, Deserialize)]
pub struct Command<'a>(Wish<'a>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wish<'a> {
    Send {
        parts: Parts<'a>,
        when: WhenWord,
    },
    Promote(u64),
    Unqueue(u64),
    Interrupt,
    Answer(Vec<Answer<'a>>),
    Edit {
        message: u64,
        parts: Parts<'a>,
    },
    Compact,
    Archive,
    Unarchive,
    Rename(Cow<'a, str>),
    Revoke(Uid),
    Patch {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<Cow<'a, str>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        archived: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<Choice>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        debug: Option<bool>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Choice {
    Agents,
    Own(AsText<ModelId>),
}

#[derive(Serialize, Deserialize)]
struct Answer<'a> {
    call: Uid,
    what: Answered<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answered<'a> {
    Output(Output<'a>),
    Error(Output<'a>),
    Approve { input_hash: u64 },
    Grant { input_hash: u64, by: Cow<'a, str>, until: i64 },
    Deny { reason: Cow<'a, str> },
}

impl<'a> Wish<'a> {
    fn of(command: &'a command::Command, blobs: &mut Blobs) -> Self {
        match command {
            command::Command::Send { parts, when } => {
                Self::Send { parts: Parts::of(parts, blobs), when: (*when).into() }
            }
            command::Command::Promote(id) => Self::Promote(id.0),
            command::Command::Unqueue(id) => Self::Unqueue(id.0),
            command::Command::Interrupt => Self::Interrupt,
            command::Command::Answer(answers) => {
                Self::Answer(answers.iter().map(|answer| Answer::of(answer, blobs)).collect())
            }
            command::Command::Edit { message, parts } => {
                Self::Edit { message: message.0, parts: Parts::of(parts, blobs) }
            }
            command::Command::Compact => Self::Compact,
            command::Command::Archive => Self::Archive,
            command::Command::Unarchive => Self::Unarchive,
            command::Command::Rename(title) => Self::Rename(title.into()),
            command::Command::Revoke(call) => Self::Revoke((*call).into()),
            command::Command::Patch { title, archived, model, debug } => Self::Patch {
                title: title.as_ref().map(Cow::from),
                archived: *archived,
                model: model.as_ref().map(Choice::from),
                debug: *debug,
            },
        }
    }
}

impl Shape for Command<'_> {
    type Core = command::Command;

    fn wants(&self, wanted: &mut Vec<BlobId>) {
        match &self.0 {
            Wish::Send { parts, .. } | Wish::Edit { parts, .. } => parts.wants(wanted),
            Wish::Answer(answers) => answers.iter().for_each(|answer| answer.what.wants(wanted)),
            Wish::Promote(_) | Wish::Unqueue(_) | Wish::Interrupt | Wish::Revoke(_) => {}
            Wish::Compact | Wish::Archive | Wish::Unarchive | Wish::Rename(_) | Wish::Patch { .. } => {}
        }
    }

    fn build(self, bytes: &Bytes) -> Result<command::Command, BadShape> {
        Ok(match self.0 {
            Wish::Send { parts, when } => command::Command::Send { parts: parts.build(bytes)?, when: when.into() },
            Wish::Promote(id) => command::Command::Promote(InboxSeq(id)),
            Wish::Unqueue(id) => command::Command::Unqueue(InboxSeq(id)),
            Wish::Interrupt => command::Command::Interrupt,
            Wish::Answer(answers) => {
                let answers = answers.into_iter().map(|answer| answer.build(bytes));
                command::Command::Answer(answers.collect::<Result<_, _>>()?)
            }
            Wish::Edit { message, parts } => {
                command::Command::Edit { message: MessageId(message), parts: parts.build(bytes)? }
            }
            Wish::Compact => command::Command::Compact,
            Wish::Archive => command::Command::Archive,
            Wish::Unarchive => command::Command::Unarchive,
            Wish::Rename(title) => command::Command::Rename(title.into_owned()),
            Wish::Revoke(call) => command::Command::Revoke(call.into()),
            Wish::Patch { title, archived, model, debug } => {
                let (title, model) = (title.map(Cow::into_owned), model.map(Into::into));
                command::Command::Patch { title, archived, model, debug }
            }
        })
    }
}

impl From<&command::ModelChoice> for Choice {
    fn from(choice: &command::ModelChoice) -> Self {
        match choice {
            command::ModelChoice::Agents => Self::Agents,
            command::ModelChoice::Own(model) => Self::Own(AsText(model.clone())),
        }
    }
}

impl From<Choice> for command::ModelChoice {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Agents => Self::Agents,
            Choice::Own(model) => Self::Own(model.0),
        }
    }
}

impl<'a> Answer<'a> {
    fn of(command::CallAnswer { call, what }: &'a command::CallAnswer, blobs: &mut Blobs) -> Self {
        let what = match what {
            command::AnswerContent::Output(output) => Answered::Output(Output::of(output, blobs)),
            command::AnswerContent::Error(output) => Answered::Error(Output::of(output, blobs)),
            command::AnswerContent::Approve { input_hash } => Answered::Approve { input_hash: *input_hash },
            command::AnswerContent::Grant { input_hash, by, until } => {
                Answered::Grant { input_hash: *input_hash, by: by.into(), until: until.0 }
            }
            command::AnswerContent::Deny { reason } => Answered::Deny { reason: reason.into() },
        };
        Self { call: (*call).into(), what }
    }

    fn build(self, bytes: &Bytes) -> Result<command::CallAnswer, BadShape> {
        let what = match self.what {
            Answered::Output(output) => command::AnswerContent::Output(output.build(bytes)?),
            Answered::Error(output) => command::AnswerContent::Error(output.build(bytes)?),
            Answered::Approve { input_hash } => command::AnswerContent::Approve { input_hash },
            Answered::Grant { input_hash, by, until } => {
                command::AnswerContent::Grant { input_hash, by: by.into_owned(), until: Timestamp(until) }
            }
            Answered::Deny { reason } => command::AnswerContent::Deny { reason: reason.into_owned() },
        };
        Ok(command::CallAnswer { call: self.call.into(), what })
    }
}

impl Answered<'_> {
    fn wants(&self, wanted: &mut Vec<BlobId>) {
        match self {
            Self::Output(output) | Self::Error(output) => output.wants(wanted),
            Self::Approve { .. } | Self::Grant { .. } | Self::Deny { .. } => {}
        }
    }
}
