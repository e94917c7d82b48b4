//! A generation in the background, lost after any event and found again.

use everturn_core::delta::Delta;
use everturn_core::draft::Draft;
use everturn_core::ids::Timestamp;
use everturn_core::message::Stop;

use super::super::decode::{ResponseRetention, Responses};
use crate::provider::Frame;
use crate::tests::cuts::{Decoded, told};
use crate::tests::snapshot::draft;

const BACKGROUND: &str = include_str!("../../../fixtures/openai_responses/background.sse");

fn events() -> Vec<&'static str> {
    BACKGROUND.split_inclusive("\n\n").collect()
}

fn number(event: &str) -> u64 {
    let (_, rest) = event.rsplit_once("\"sequence_number\":").unwrap();
    rest.trim_end().trim_end_matches('}').parse().unwrap()
}

fn push(draft: &mut Draft, told: &Decoded) {
    for delta in told.frames.iter().flat_map(Frame::deltas) {
        draft.push(Timestamp(0), delta).unwrap_or_else(|error| panic!("{error}: {delta:?}"));
    }
}

/// Lost after `head` events and taken up again with what `rest` gives for the cursor.
fn lost_and_found(head: usize, rest: impl Fn(u64) -> Vec<&'static str>) {
    let whole = told([BACKGROUND.as_bytes()], Responses::new("openai", ResponseRetention::Generation));
    let expected = draft(&whole.frames);
    let begun = told(
        events()[..head].iter().map(|event| event.as_bytes()),
        Responses::new("openai", ResponseRetention::Generation),
    );
    let mut draft = draft(&begun.frames);
    let Some(handle) = draft.handle().cloned() else { return assert_eq!(head, 0) };
    let cursor: u64 = handle.cursor.parse().unwrap();
    let resumed = Responses::resumed("openai", &handle.id, cursor);
    let found = told(rest(cursor).into_iter().map(str::as_bytes), resumed);
    push(&mut draft, &found);
    assert_eq!(draft.parts(), expected.parts(), "lost after {head} events");
    assert_eq!((draft.usage(), draft.handle()), (expected.usage(), expected.handle()));
    assert_eq!(found.frames.last(), Some(&Frame::Stop(Stop::ToolUse)));
    assert_eq!(found.end, Ok(()));
}

#[test]
fn a_generation_is_taken_up_after_any_event() {
    for head in 0..events().len() {
        lost_and_found(head, |cursor| events().into_iter().filter(|event| number(event) > cursor).collect());
    }
}

/// Some servers begin at the beginning whatever they are asked.
#[test]
fn repeated_events_are_not_decoded_twice() {
    for head in 0..events().len() {
        lost_and_found(head, |_| events());
    }
}

/// Lost twice, after any two events.
#[test]
fn a_generation_is_taken_up_again_and_again() {
    let expected =
        draft(&told([BACKGROUND.as_bytes()], Responses::new("openai", ResponseRetention::Generation)).frames);
    let len = events().len();
    for first in 1..len {
        for second in first..len {
            let mut draft = Draft::new(expected.step());
            draft.push(Timestamp(0), &Delta::Attempt(Box::new(expected.current().unwrap().clone()))).unwrap();
            let mut decoder = Responses::new("openai", ResponseRetention::Generation);
            let mut from = 0;
            for to in [first, second, len] {
                let rest = events().into_iter().take(to).filter(|event| from == 0 || number(event) > from);
                let part: Vec<&[u8]> = rest.map(str::as_bytes).collect();
                push(&mut draft, &told(part, decoder));
                let handle = draft.handle().unwrap().clone();
                from = handle.cursor.parse().unwrap();
                decoder = Responses::resumed("openai", &handle.id, from);
            }
            assert_eq!(draft.parts(), expected.parts(), "lost after {first} and {second} events");
        }
    }
}

/// The deltas of an event and the handle behind it are one frame: they cannot be stored apart.
#[test]
fn a_handle_comes_with_what_it_covers() {
    let whole = told([BACKGROUND.as_bytes()], Responses::new("openai", ResponseRetention::Generation));
    let (end, said) = whole.frames.split_last().unwrap();
    assert_eq!(end, &Frame::Stop(Stop::ToolUse));
    // A reader that missed the end gets the whole terminal event again.
    let marked = said.iter().rposition(|frame| matches!(frame, Frame::Together(_))).unwrap();
    for frame in &said[..=marked] {
        match frame {
            Frame::Together(deltas) => {
                let (handle, covered) = deltas.split_last().unwrap();
                assert!(matches!(handle, Delta::Handle(_)) && !covered.is_empty(), "{deltas:?}");
                assert!(covered.iter().all(|delta| !matches!(delta, Delta::Handle(_))), "{deltas:?}");
            }
            Frame::Ping => {}
            Frame::Delta(_) | Frame::Stop(_) => panic!("{frame:?} without a handle"),
        }
    }
}
