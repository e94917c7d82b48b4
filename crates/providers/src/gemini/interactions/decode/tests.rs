use everturn_core::draft::Draft;
use everturn_core::ids::{StepId, Timestamp};
use everturn_core::message::{Part, Provided};
use expect_test::expect_file;

use super::*;
use crate::tests::cuts;

/// Every fixture, what it decodes to, every way it can be cut, and every event after which it can be found again.
macro_rules! fixtures {
    ($($test:ident: $name:literal,)*) => {$(
        #[test]
        fn $test() {
            let bytes = include_bytes!(concat!("../../../../fixtures/gemini/interactions-", $name, ".sse"));
            let told = cuts::told([bytes.as_slice()], Interaction::new("google"));
            let frames = told.frames.iter().map(|frame| format!("{frame:?}\n"));
            let end = told.end.as_ref().err().map(|error| format!("{error:?}\n"));
            let all: String = frames.chain(end).collect();
            expect_file![concat!("../../../../fixtures/gemini/interactions-", $name, ".frames")].assert_eq(&all);
            cuts::check($name, bytes, || Interaction::new("google"));
            found_again($name, std::str::from_utf8(bytes).unwrap());
        }
    )*};
}

fixtures! {
    thoughts_text_and_citations: "text",
    calls_in_pieces_and_whole: "calls",
    tools_of_the_provider_and_the_unknown: "search",
    a_failed_interaction_is_an_error: "failed",
    an_error_event_is_an_error: "error",
}

/// The draft that frames make. A result that was found again does not know its call any more.
fn draft(frames: &[Frame]) -> (Vec<Part>, String) {
    let mut draft = Draft::new(StepId(1));
    for delta in frames.iter().flat_map(Frame::deltas) {
        draft.push(Timestamp(0), delta).unwrap();
    }
    let parts = draft.parts().iter().cloned().map(|part| match part {
        Part::Provided(provided) => Part::Provided(Provided { uid: None, ..provided }),
        part => part,
    });
    (parts.collect(), format!("{:?} {:?}", draft.usage(), draft.meta()))
}

/// Lost after any event and read on after its cursor, an answer is the same answer.
fn found_again(name: &str, stream: &str) {
    let whole = cuts::told([stream.as_bytes()], Interaction::new("google"));
    let events: Vec<&str> = stream.split_inclusive("\n\n").collect();
    for lost in 1..events.len() {
        let mut frames = cuts::told([events[..lost].concat().as_bytes()], Interaction::new("google")).frames;
        if frames.iter().any(|frame| matches!(frame, Frame::Stop(_))) {
            break;
        }
        let handle = frames.iter().rev().find_map(|frame| match frame.deltas().last() {
            Some(Delta::Handle(handle)) => Some(handle.clone()),
            _ => None,
        });
        let GenerationHandle { id, cursor } = *handle.expect("every event brings a handle");
        assert_eq!(InteractionCursor::of_text(&cursor).event, format!("evt/{lost}=="), "{name}");
        let rest = Interaction::after("google", id, InteractionCursor::of_text(&cursor));
        let rest = cuts::told([events[lost..].concat().as_bytes()], rest);
        frames.extend(rest.frames);
        assert_eq!(draft(&frames), draft(&whole.frames), "{name} lost after event {lost}");
        assert_eq!(frames.last(), whole.frames.last().filter(|_| rest.end.is_ok()).or(frames.last()), "{name} {lost}");
        assert_eq!(rest.end, whole.end, "{name} lost after event {lost}");
    }
}

/// Input that comes whole and then again is taken once, also by a reader that resumed in between.
#[test]
fn input_that_is_whole_stays_whole() {
    let step = |kind: &str, index: u32, body: &str, id: u32| {
        format!("data: {{\"index\":{index},{body}\"event_type\":\"{kind}\",\"event_id\":\"evt/{id}==\"}}\n\n")
    };
    let call = r#""step":{"type":"function_call","id":"c","name":"search","arguments":{"q":"kelp"}},"#;
    let again = r#""delta":{"type":"arguments_delta","arguments":{"q":"kelp"}},"#;
    let stream = [
        r#"data: {"interaction":{"id":"v1"},"event_type":"interaction.created","event_id":"evt/1=="}"#.to_owned()
            + "\n\n",
        step("step.start", 0, call, 2),
        step("step.delta", 0, again, 3),
        step("step.stop", 0, "", 4),
        r#"data: {"interaction":{"id":"v1","status":"requires_action"},"event_type":"interaction.completed"}"#
            .to_owned()
            + "\n\n",
    ];
    let whole = draft(&cuts::told([stream.concat().as_bytes()], Interaction::new("google")).frames);
    assert!(matches!(&whole.0[..], [Part::Call(call)] if call.input == r#"{"q":"kelp"}"# && call.whole), "{whole:?}");
    found_again("input told twice", &stream.concat());
}

/// The deltas of an event and the handle behind it are one frame: they cannot be stored apart.
#[test]
fn a_handle_comes_with_what_it_covers() {
    let stream = include_str!("../../../../fixtures/gemini/interactions-calls.sse");
    let (before_the_end, _) = stream.split_once("event: interaction.completed").unwrap();
    let frames = cuts::told([before_the_end.as_bytes()], Interaction::new("google")).frames;
    assert!(frames.len() > 5);
    for frame in frames.iter().filter(|frame| **frame != Frame::Ping) {
        let Frame::Together(deltas) = frame else { panic!("{frame:?} without a handle") };
        assert!(matches!(deltas.last(), Some(Delta::Handle(_))), "{deltas:?}");
    }
}

/// P20: only the completed interaction is over, whatever its status was before.
#[test]
fn without_completion_there_is_no_answer() {
    let stream = include_str!("../../../../fixtures/gemini/interactions-calls.sse");
    let cut: String = stream.split_inclusive("\n\n").filter(|event| !event.contains("interaction.completed")).collect();
    let told = cuts::told([cut.as_bytes()], Interaction::new("google"));
    assert_eq!(told.end.unwrap_err().cause, Cause::Truncated);
}

#[test]
fn every_status_at_the_end_is_decided() {
    let told = |status: &str, called| {
        let cursor = InteractionCursor { called, ..InteractionCursor::default() };
        let stop = Interaction::after("google", "v1".into(), cursor).stop(status);
        stop.map_err(|error| (error.kind, error.retry, error.cause))
    };
    assert_eq!(told("completed", false), Ok(Stop::End));
    assert_eq!(told("completed", true), Ok(Stop::ToolUse));
    assert_eq!(told("requires_action", true), Ok(Stop::ToolUse));
    for full in ["incomplete", "requires_continuation", "budget_exceeded"] {
        assert_eq!(told(full, false), Ok(Stop::Length));
    }
    assert_eq!(told("failed", false), Err((ErrorKind::Truncated, Retry::Backoff, Cause::ErrorFinish)));
    for odd in ["cancelled", "in_progress", "", "new"] {
        assert_eq!(told(odd, false), Err((ErrorKind::Truncated, Retry::Once, Cause::ErrorFinish)), "{odd}");
    }
}

/// The first event names the model, so an attempt that breaks later has it too; the last event repeats it for a reader
/// that re-attached.
#[test]
fn the_model_that_answered_is_in_the_metadata() {
    let stream = include_str!("../../../../fixtures/gemini/interactions-text.sse");
    let (first, rest) = stream.split_once("\n\n").unwrap();
    let model = |bytes: &str, decoder: Interaction| {
        let frames = cuts::told([format!("{bytes}\n\n").as_bytes()], decoder).frames;
        let metas = frames.iter().flat_map(Frame::deltas).filter_map(|delta| match delta {
            Delta::ReplyMeta(meta) => Some(meta["google"]["model"].clone()),
            _ => None,
        });
        metas.collect::<Vec<_>>()
    };
    let resumed = || Interaction::after("google", "v1_ChdyZDZs".into(), InteractionCursor::default());
    assert_eq!(model(first, Interaction::new("google")), ["gemini-3-flash-preview"], "it is sent at once");
    assert_eq!(model(stream, Interaction::new("google")), ["gemini-3-flash-preview"], "and only once");
    assert_eq!(model(rest, resumed()), ["gemini-3-flash-preview"], "and again after re-attaching");
}
