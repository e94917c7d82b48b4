//! What became of a command.

use everturn_core::command;
use everturn_core::limits::Limits;
use serde::{Deserialize, Serialize};

use super::blob::Blobs;
use super::name::{StatusWord, VerbWord};
use super::value::Uid;
use super::{BadShape, envelope};

/// The text of an outcome.
#[must_use]
pub fn write(outcome: Result<(), command::Refusal>) -> String {
    let shape = match outcome {
        Ok(()) => Outcome::Done,
        Err(refusal) => Outcome::Refused(refusal.into()),
    };
    envelope::write(shape, Blobs::default()).json
}

/// Reads what [`write()`] wrote.
pub fn read(text: &str) -> Result<Result<(), command::Refusal>, BadShape> {
    Ok(match envelope::read("outcome", text)? {
        Outcome::Done => Ok(()),
        Outcome::Refused(refusal) => Err(refusal.into()),
    })
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Done,
    Refused(Refusal),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Refusal {
    Status(StatusWord, VerbWord),
    Archived,
    QueueFull,
    NotQueued,
    NotEditable,
    Empty,
    /// As written before the bound was named.
    TooLong,
    Exceeds(Excess, u64),
    NotAsked(Uid),
    WrongAnswer(Uid),
    AnsweredTwice(Uid),
    InputChanged(Uid),
    NotGrantable(Uid),
    NotGranted,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Excess {
    MessageBytes,
    Parts,
    AnswerBytes,
    TitleBytes,
}

impl Excess {
    fn refusal(excess: command::Excess) -> Refusal {
        let (excess, max) = match excess {
            command::Excess::MessageBytes(max) => (Self::MessageBytes, max),
            command::Excess::Parts(max) => (Self::Parts, max),
            command::Excess::AnswerBytes(max) => (Self::AnswerBytes, max),
            command::Excess::TitleBytes(max) => (Self::TitleBytes, max),
        };
        Refusal::Exceeds(excess, max as u64)
    }

    const fn at(self, max: usize) -> command::Excess {
        match self {
            Self::MessageBytes => command::Excess::MessageBytes(max),
            Self::Parts => command::Excess::Parts(max),
            Self::AnswerBytes => command::Excess::AnswerBytes(max),
            Self::TitleBytes => command::Excess::TitleBytes(max),
        }
    }
}

impl From<command::Refusal> for Refusal {
    fn from(refusal: command::Refusal) -> Self {
        match refusal {
            command::Refusal::Status(status, verb) => Self::Status(status.into(), verb.into()),
            command::Refusal::Archived => Self::Archived,
            command::Refusal::QueueFull => Self::QueueFull,
            command::Refusal::NotQueued => Self::NotQueued,
            command::Refusal::NotEditable => Self::NotEditable,
            command::Refusal::Empty => Self::Empty,
            command::Refusal::TooLong(excess) => Excess::refusal(excess),
            command::Refusal::NotAsked(call) => Self::NotAsked(call.into()),
            command::Refusal::WrongAnswer(call) => Self::WrongAnswer(call.into()),
            command::Refusal::AnsweredTwice(call) => Self::AnsweredTwice(call.into()),
            command::Refusal::InputChanged(call) => Self::InputChanged(call.into()),
            command::Refusal::NotGrantable(call) => Self::NotGrantable(call.into()),
            command::Refusal::NotGranted => Self::NotGranted,
        }
    }
}

impl From<Refusal> for command::Refusal {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Status(status, verb) => Self::Status(status.into(), verb.into()),
            Refusal::Archived => Self::Archived,
            Refusal::QueueFull => Self::QueueFull,
            Refusal::NotQueued => Self::NotQueued,
            Refusal::NotEditable => Self::NotEditable,
            Refusal::Empty => Self::Empty,
            Refusal::TooLong => Self::TooLong(command::Excess::MessageBytes(Limits::default().message_bytes_max)),
            Refusal::Exceeds(excess, max) => Self::TooLong(excess.at(max as usize)),
            Refusal::NotAsked(call) => Self::NotAsked(call.into()),
            Refusal::WrongAnswer(call) => Self::WrongAnswer(call.into()),
            Refusal::AnsweredTwice(call) => Self::AnsweredTwice(call.into()),
            Refusal::InputChanged(call) => Self::InputChanged(call.into()),
            Refusal::NotGrantable(call) => Self::NotGrantable(call.into()),
            Refusal::NotGranted => Self::NotGranted,
        }
    }
}
