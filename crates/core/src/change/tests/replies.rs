//! From drafts to the transcript.

use std::time::Duration;

use expect_test::expect;

use super::lines;
use crate::chat::{CallState, TranscriptTail};
use crate::command::Delivery;
use crate::cost::{TokenCount, UsageReport};
use crate::delta::{CallBegan, Delta, ProvidedDelta};
use crate::draft::Draft;
use crate::ids::{StepId, Timestamp};
use crate::message::{Body, Meta, Reply, RunBy, Stop};
use crate::plan::{Next, plan};
use crate::rehearsal::sample::{attempt, call, chat_id, cut_call, draft, reply, send, text};
use crate::rehearsal::{Stage, tiny_limits};

fn asked() -> Stage {
    let mut stage = Stage::new(chat_id(1));
    stage.submit(send("hello", Delivery::Queue), &tiny_limits()).unwrap();
    stage.commit(&stage.obey_next().unwrap());
    stage
}

fn answered(reply: Reply) -> Stage {
    let mut stage = asked();
    stage.commit(&stage.change(|change| change.reply(reply, |_| CallState::Ready)));
    stage
}

fn only_reply(stage: &Stage) -> Reply {
    let replies = stage.transcript.iter().filter_map(|message| match &message.body {
        Body::Reply(reply) => Some((**reply).clone()),
        _ => None,
    });
    let replies: Vec<Reply> = replies.collect();
    assert_eq!(replies.len(), 1);
    replies[0].clone()
}

/// MC01: whatever was said in a step is one reply, in order.
#[test]
fn text_and_reasoning_of_a_step_are_one_reply() {
    let deltas = [Delta::Reasoning("hm".into()), text("Hel"), text("lo"), Delta::Ended, text("again")];
    let stage = answered(reply(StepId(1), &deltas, Stop::End));
    expect![[r#"
        1 user hello
        2 reply End [(hm), Hello, again]
    "#]]
    .assert_eq(&lines(&stage));
    assert_eq!((stage.chat.tail, &stage.chat.calls[..]), (TranscriptTail::Reply, &[][..]));
}

/// MC03, CS18: calls that ran at the provider stay inside the reply and need no result.
#[test]
fn hosted_results_stay_inside_the_reply() {
    let began = CallBegan {
        slot: 0,
        provider_id: "ws_1".into(),
        tool: "web".into(),
        run_by: RunBy::Provider,
        meta: Meta::new(),
    };
    let (output, meta) = (serde_json::json!("rain"), Meta::new());
    let provided = ProvidedDelta { slot: Some(0), tool: "web".into(), output, meta };
    let deltas = [
        Delta::CallBegan(Box::new(began)),
        Delta::CallInput { slot: 0, json: "{}".into() },
        Delta::CallEnded { slot: 0 },
        Delta::Provided(Box::new(provided)),
        text("It rains."),
    ];
    for (cut, stop) in [(5, Stop::End), (2, Stop::Interrupted)] {
        let mut stage = asked();
        let reply = reply(StepId(1), &deltas[..cut], stop.clone());
        stage.commit(&stage.change(|change| match stop {
            Stop::End => change.reply(reply, |_| CallState::Ready),
            _ => change.settle(Some(reply)),
        }));
        assert_eq!((stage.transcript.len(), stage.chat.calls.len()), (2, 0), "{stop:?}");
    }
}

/// MC05: usage stands with the reply it belongs to.
#[test]
fn usage_is_kept_with_its_reply() {
    let report = UsageReport { input: TokenCount::Known(7), output: TokenCount::Known(3), ..UsageReport::default() };
    let stage = answered(reply(StepId(1), &[text("hi"), Delta::Usage(report.into())], Stop::End));
    let usage = only_reply(&stage).usage.unwrap();
    assert_eq!((usage.input, usage.output), (7, 3));
}

/// MC26, AW06: a call that was cut off never runs. It is answered at once, and its whole siblings stay open.
#[test]
fn a_cut_call_is_answered_at_once() {
    let deltas = [call(0, "look", "{}"), cut_call(1, "write", "{\"path\": \"a")].concat();
    let stage = answered(reply(StepId(1), &deltas, Stop::Length));
    expect![[r#"
        1 user hello
        2 reply Length [call 1.0 {}, call 1.1 cut {"path": "a]
        3 result 1.1 Error, not started: This call was cut off before its input was complete. It was not run.
    "#]]
    .assert_eq(&lines(&stage));
    let open: Vec<_> = stage.chat.calls.iter().map(|open| open.uid.ordinal).collect();
    assert_eq!((open, plan(&stage.chat, None, &tiny_limits(), stage.now)), (vec![0], Next::RunCalls));

    let stage = answered(reply(StepId(1), &cut_call(0, "write", "{"), Stop::Length));
    assert_eq!(plan(&stage.chat, None, &tiny_limits(), stage.now), Next::CallModel, "the model is told, and goes on");
}

/// MC20–MC22: the draft an interrupt leaves is put together from its rows, a call's input too, and it carries the time the
/// model streamed.
#[test]
fn an_interrupted_draft_is_kept_as_it_was_shown() {
    let mut stage = asked();
    let deltas = [
        vec![attempt(), text("Let me "), text("look.")],
        cut_call(0, "look", "{\"q\":"),
        vec![Delta::CallInput { slot: 0, json: " \"kelp\"}".into() }, Delta::CallEnded { slot: 0 }, text("And")],
    ]
    .concat();
    for (i, delta) in deltas.into_iter().enumerate() {
        stage.now = Timestamp(i as i64 * 10);
        stage.journal(vec![delta]);
    }
    let mut told_again = Draft::new(StepId(1));
    for row in &stage.rows {
        told_again.push(row.at, &row.delta).unwrap();
    }
    assert_eq!(Some(&told_again), stage.draft.as_ref());
    let reply = told_again.seal(Stop::Interrupted, Timestamp(100), None);
    stage.commit(&stage.change(|change| change.settle(reply)));
    expect![[r#"
        1 user hello
        2 reply Interrupted [Let me look., call 1.0 {"q": "kelp"}, And]
        3 result 1.0 Interrupted, not started: The turn was interrupted before this call could be run. It was not run.
    "#]]
    .assert_eq(&lines(&stage));
    assert_eq!(only_reply(&stage).runtime, Duration::from_millis(100));
    assert_eq!((stage.rows.len(), &stage.draft), (0, &None), "the journal is not needed any more");
}

/// MC23: where no stream was opened, there is no reply and so no runtime.
#[test]
fn without_a_stream_there_is_nothing_to_keep() {
    assert_eq!(Draft::new(StepId(1)).seal(Stop::Interrupted, Timestamp(9), None), None);
    let mut stage = asked();
    stage.commit(&stage.change(|change| change.settle(None)));
    assert_eq!(stage.transcript.len(), 1);
    let silent = draft(StepId(1), &[]).seal(Stop::Interrupted, Timestamp(9), None).unwrap();
    assert!(silent.parts.is_empty(), "nothing visible: the driver keeps none of it");
}
