//! Which answers fit.

use std::sync::Arc;

use crate::chat::{AskDetail, CallState, Chat, Effect, OpenCall};
use crate::command::{AnswerContent, CallAnswer, Command, Refusal, check};
use crate::ids::{CallUid, StepId, Timestamp};
use crate::message::Output;
use crate::rehearsal::sample::chat_id;
use crate::status::{Status, Verb};

const HASH: u64 = 77;

const fn uid(ordinal: u16) -> CallUid {
    CallUid { step: StepId(1), ordinal }
}

fn open(ordinal: u16, state: CallState) -> OpenCall {
    OpenCall {
        uid: uid(ordinal),
        tool: "tool".into(),
        input_hash: HASH,
        state,
        input: None,
        ask: None,
        progress: None,
        handle: None,
        delegates: false,
        asks_below: Vec::new(),
    }
}

/// Call 0 is a client's, 1 waits for a person, 2 was approved, 3 runs.
fn awaiting() -> Chat {
    let started = CallState::Started { effect: Effect::Read, at: Timestamp(0) };
    let states = [CallState::AsksClient, CallState::AsksApproval, CallState::Ready, started];
    let calls = states.into_iter().zip(0..).map(|(state, ordinal)| open(ordinal, state)).collect();
    Chat { status: Status::Awaiting, calls, ..Chat::new(chat_id(1), "agent", "") }
}

fn output() -> AnswerContent {
    AnswerContent::Output(Output::text("here"))
}

const fn approve(input_hash: u64) -> AnswerContent {
    AnswerContent::Approve { input_hash }
}

fn deny() -> AnswerContent {
    AnswerContent::Deny { reason: String::new() }
}

fn verdict(answers: Vec<(u16, AnswerContent)>) -> Result<(), Refusal> {
    let answers = answers.into_iter().map(|(ordinal, what)| CallAnswer { call: uid(ordinal), what });
    check(&awaiting(), &Command::Answer(answers.collect()), |_| true)
}

/// CS12: a client gives a result or an error, a person approves or denies; each refusal has its own name.
#[test]
fn an_answer_fits_the_question_or_is_refused_by_name() {
    let error = AnswerContent::Error(Output::text("no"));
    let cases = [
        (vec![(0, output())], Ok(())),
        (vec![(0, error.clone())], Ok(())),
        (vec![(1, approve(HASH))], Ok(())),
        (vec![(1, deny())], Ok(())),
        (vec![(1, deny()), (0, output())], Ok(())),
        (vec![], Err(Refusal::Empty)),
        (vec![(0, approve(HASH))], Err(Refusal::WrongAnswer(uid(0)))),
        (vec![(0, deny())], Err(Refusal::WrongAnswer(uid(0)))),
        (vec![(1, output())], Err(Refusal::WrongAnswer(uid(1)))),
        (vec![(1, error)], Err(Refusal::WrongAnswer(uid(1)))),
        (vec![(1, approve(HASH + 1))], Err(Refusal::InputChanged(uid(1)))),
        (vec![(2, approve(HASH))], Err(Refusal::NotAsked(uid(2)))),
        (vec![(3, output())], Err(Refusal::NotAsked(uid(3)))),
        (vec![(9, output())], Err(Refusal::NotAsked(uid(9)))),
        (vec![(0, output()), (0, output())], Err(Refusal::AnsweredTwice(uid(0)))),
    ];
    for (answers, expected) in cases {
        assert_eq!(verdict(answers.clone()), expected, "{answers:?}");
    }
}

/// CS22: the first answer that does not fit is reported; of one answer, first that it came twice, then that
/// the call does not ask, then its kind. Before any of that, that the chat does not wait at all.
#[test]
fn of_several_errors_the_first_is_reported() {
    let twice = vec![(0, output()), (0, approve(1)), (9, output())];
    assert_eq!(verdict(twice), Err(Refusal::AnsweredTwice(uid(0))));
    let unasked = vec![(9, output()), (0, approve(1)), (1, approve(HASH + 1))];
    assert_eq!(verdict(unasked), Err(Refusal::NotAsked(uid(9))));
    let wrong = vec![(0, approve(1)), (1, approve(HASH + 1))];
    assert_eq!(verdict(wrong), Err(Refusal::WrongAnswer(uid(0))));
    let running = Chat { status: Status::Running, ..awaiting() };
    let nobody_asked = Command::Answer([].into());
    let refusal = Refusal::Status(Status::Running, Verb::Answer);
    assert_eq!(check(&running, &nobody_asked, |_| true), Err(refusal));
}

/// What a client is shown as asked can be answered, and everything else cannot.
#[test]
fn only_a_chat_that_waits_shows_what_it_asks() {
    for status in Status::ALL {
        let chat = Chat { status, ..awaiting() };
        let shown: Vec<_> = chat.asks().map(|open| open.uid.ordinal).collect();
        let expected: &[u16] = if status == Status::Awaiting { &[0, 1] } else { &[] };
        assert_eq!(shown, expected, "{status:?}");
    }
}

/// A grant needs the input that was shown, and a rule that was offered with it.
#[test]
fn a_grant_is_given_where_one_was_offered() {
    let mut chat = awaiting();
    let verdict = |chat: &Chat, input_hash| {
        let what = AnswerContent::Grant { input_hash, by: "laptop".into(), until: Timestamp(9) };
        check(chat, &Command::Answer([CallAnswer { call: uid(1), what }].into()), |_| true)
    };
    assert_eq!(verdict(&chat, HASH), Err(Refusal::NotGrantable(uid(1))));
    chat.calls[1].ask = Some(Arc::new(AskDetail {
        basis: "policy of the tool".into(),
        effect: Effect::Once,
        path: None,
        confinement: None,
        grant: Some("tool".into()),
        terms: "terms".into(),
    }));
    assert_eq!(verdict(&chat, HASH), Ok(()));
    assert_eq!(verdict(&chat, HASH + 1), Err(Refusal::InputChanged(uid(1))));
}
