//! Commands made of dice: most fit the chat, some do not.

use std::sync::Arc;

use everturn_core::chat::{CallState, Chat, OpenCall};
use everturn_core::command::{AnswerContent, CallAnswer, Command, Delivery, ModelChoice};
use everturn_core::ids::{CallUid, InboxSeq, MessageId, StepId, Timestamp};
use everturn_core::message::{Body, Message, Meta, Output, Part, Text};

use super::Dice;

/// A command that a client might send to `chat`. A message says `words`.
#[must_use]
pub fn wish(chat: &Chat, transcript: &[Arc<Message>], words: &str, dice: &mut Dice) -> Command {
    let parts: Arc<[Part]> = Arc::new([Part::Text(Text { text: words.into(), meta: Meta::new() })]);
    match dice.below(17) {
        0 | 1 => Command::Send { parts, when: Delivery::Queue },
        2 => Command::Send { parts, when: Delivery::Steer },
        3 => Command::Send { parts, when: Delivery::Now },
        4 => Command::Send { parts: Arc::new([]), when: Delivery::Queue },
        5 => Command::Promote(queued(chat, dice)),
        6 => Command::Unqueue(queued(chat, dice)),
        7 if !chat.grants.is_empty() && dice.below(2) == 0 => Command::Revoke(chat.grants[0].call),
        7 => Command::Interrupt,
        8..=10 => Command::Answer(answers(chat, dice)),
        11 | 12 => Command::Edit { message: message(transcript, dice), parts },
        13 => Command::Compact,
        14 => Command::Archive,
        15 => Command::Unarchive,
        _ if chat.title.len().is_multiple_of(2) => Command::Rename(words.into()),
        _ if chat.newest.0.is_multiple_of(2) => {
            Command::Patch { title: Some(words.into()), archived: Some(!chat.archived), model: None, debug: None }
        }
        _ => Command::Patch { title: None, archived: None, model: Some(choice(chat)), debug: Some(!chat.debug) },
    }
}

/// One model or another, and now and then the agent's.
fn choice(chat: &Chat) -> ModelChoice {
    let name = match chat.version.0 % 3 {
        0 => return ModelChoice::Agents,
        1 => "understudy/one",
        _ => "understudy/another",
    };
    name.parse().map_or(ModelChoice::Agents, ModelChoice::Own)
}

/// Mostly one that waits.
fn queued(chat: &Chat, dice: &mut Dice) -> InboxSeq {
    let ids: Vec<_> = chat.queue.iter().map(|queued| queued.id).collect();
    match dice.below(5) {
        4 => InboxSeq(dice.below(9)),
        _ => dice.pick(&ids).copied().unwrap_or_default(),
    }
}

/// Mostly one that a person sent.
fn message(transcript: &[Arc<Message>], dice: &mut Dice) -> MessageId {
    let users = transcript.iter().filter(|message| matches!(message.body, Body::User(_)));
    let ids: Vec<_> = users.map(|message| message.id).collect();
    match dice.below(5) {
        4 => MessageId(dice.below(9)),
        _ => dice.pick(&ids).copied().unwrap_or_default(),
    }
}

/// Answers to some or all calls that ask; sometimes twice, of the wrong kind, or to a call that does not ask.
fn answers(chat: &Chat, dice: &mut Dice) -> Arc<[CallAnswer]> {
    let all = dice.below(2) == 0;
    let asked = chat.calls.iter().filter(|open| open.state.asks());
    let mut answers: Vec<CallAnswer> = Vec::new();
    for open in asked {
        if all || dice.below(2) == 0 {
            answers.push(CallAnswer { call: open.uid, what: answer(open, dice) });
        }
    }
    match dice.below(8) {
        6 => answers.extend(answers.first().cloned()),
        7 => {
            let call = CallUid { step: StepId(dice.below(3)), ordinal: 0 };
            answers.push(CallAnswer { call, what: AnswerContent::Output(Output::text("unasked")) });
        }
        _ => {}
    }
    answers.into()
}

fn answer(open: &OpenCall, dice: &mut Dice) -> AnswerContent {
    let fits_client = (open.state == CallState::AsksClient) != (dice.below(9) == 8);
    match (fits_client, dice.below(4)) {
        (true, 0 | 1) => AnswerContent::Output(Output::text("done")),
        (true, _) => AnswerContent::Error(Output::text("broken")),
        (false, 0 | 1) => AnswerContent::Approve { input_hash: open.input_hash },
        (false, 2) if dice.below(2) == 0 => {
            AnswerContent::Grant { input_hash: open.input_hash, by: "dice".into(), until: Timestamp(i64::MAX) }
        }
        (false, 2) => AnswerContent::Deny { reason: "no".into() },
        (false, _) => AnswerContent::Approve { input_hash: open.input_hash ^ 1 },
    }
}
