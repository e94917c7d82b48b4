//! Small things that tests need often.

use std::sync::Arc;

use everturn_core::command::{Command, Delivery};
use everturn_core::delta::{AttemptBegan, CallBegan, Delta, Rung};
use everturn_core::draft::Draft;
use everturn_core::ids::{ChatId, StepId, Timestamp};
use everturn_core::message::{Meta, Part, Reply, RunBy, Stop, Text};

use super::model;

/// A chat by number.
#[must_use]
pub const fn chat_id(number: u128) -> ChatId {
    ChatId::new(Timestamp(1), number)
}

/// Some words.
#[must_use]
pub fn words(text: &str) -> Arc<[Part]> {
    Arc::new([Part::Text(Text { text: text.into(), meta: Meta::new() })])
}

/// A message on its way in.
#[must_use]
pub fn send(text: &str, when: Delivery) -> Command {
    Command::Send { parts: words(text), when }
}

/// More words of the model.
#[must_use]
pub fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

/// The first attempt of a step.
#[must_use]
pub fn attempt() -> Delta {
    Delta::Attempt(Box::new(AttemptBegan { number: 1, model: model(), rung: Rung::First }))
}

/// A call of ours, in a slot of its own, that arrives whole.
#[must_use]
pub fn call(slot: u32, tool: &str, input: &str) -> Vec<Delta> {
    let mut deltas = cut_call(slot, tool, input);
    deltas.push(Delta::CallEnded { slot });
    deltas
}

/// A call that is cut before its end.
#[must_use]
pub fn cut_call(slot: u32, tool: &str, input: &str) -> Vec<Delta> {
    let (provider_id, tool) = ("call_0".into(), tool.into());
    let began = CallBegan { slot, provider_id, tool, run_by: RunBy::Us, meta: Meta::new() };
    vec![Delta::CallBegan(Box::new(began)), Delta::CallInput { slot, json: input.into() }]
}

/// What these deltas of one attempt add up to.
#[must_use]
pub fn draft(step: StepId, deltas: &[Delta]) -> Draft {
    let mut draft = Draft::new(step);
    for delta in [&[attempt()], deltas].concat() {
        draft.push(Timestamp(0), &delta).expect("a sample fits");
    }
    draft
}

/// A sealed reply of these deltas.
#[must_use]
pub fn reply(step: StepId, deltas: &[Delta], stop: Stop) -> Reply {
    draft(step, deltas).seal(stop, Timestamp(5), None).expect("an attempt was made")
}
