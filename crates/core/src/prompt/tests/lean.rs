//! What is left out when nothing else makes a request fit.

use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::build::{calls, file, media, model, reply, result, result_with, shown, target, transcript, user};
use super::generate::{corrupted, healthy};
use crate::context::CompactionFallback::{self, CutEarlier, DropEarlier, DropMedia, DropResults, StrongerSummary};
use crate::context::{cut_earlier, spare_bytes};
use crate::ids::MessageId;
use crate::message::{Body, CallVerdict, Message, Output, Part};
use crate::prompt::{
    Effort, Prompt, PromptEntries, PromptEntry, PromptPart, Request, Target, WireFormat, prepare, validate,
};

const STAGES: [CompactionFallback; 3] = [StrongerSummary, DropMedia, DropResults];

/// An image by the person, an image and a long listing by tools, and the newest step with as much again.
fn laden() -> Vec<Message> {
    let listing = "a file\n".repeat(40);
    let shot = || Output { text: "a screen".into(), media: vec![media("image/png", b"pixels")], full: None };
    let seen = Body::User(vec![file("crab.png", "image/png", Some(b"pixels"))]);
    transcript([
        seen,
        reply([calls(0, "look", "{}"), calls(1, "look", "{}")]),
        result_with(0, CallVerdict::Done, shot()),
        result(1, &listing),
        user("And now?"),
        reply([calls(2, "look", "{}"), calls(3, "look", "{}")]),
        result_with(2, CallVerdict::Done, shot()),
        result(3, &listing),
    ])
}

fn check(stage: CompactionFallback, sent: Expect) {
    let lean = prepare(&laden(), &target(WireFormat::Anthropic)).leaner(stage);
    sent.assert_eq(&shown(&lean).replace(&"a file\\n".repeat(40), "…"));
}

#[test]
fn a_stronger_summary_leaves_nothing_out_of_a_request() {
    let whole = prepare(&laden(), &target(WireFormat::Anthropic));
    assert!(whole.leaner(StrongerSummary) == whole);
}

#[test]
fn media_go_first_but_never_those_of_the_newest_step() {
    check(
        DropMedia,
        expect![[r#"
        user
          "[An attachment was left out here to make room.]"
        assistant
          call_1 look {}
          call_2 look {}
        tool
          call_1 look gave "a screen\n[An attachment was left out here to make room.]"
          call_2 look gave "…"
        user
          "And now?"
        assistant
          call_3 look {}
          call_4 look {}
        tool
          call_3 look gave "a screen" image/png
          call_4 look gave "…"
    "#]],
    );
}

#[test]
fn then_old_results_go_and_their_calls_stay_answered() {
    check(
        DropResults,
        expect![[r#"
        user
          "[An attachment was left out here to make room.]"
        assistant
          call_1 look {}
          call_2 look {}
        tool
          call_1 look gave "a screen\n[An attachment was left out here to make room.]"
          call_2 look gave "[This result was left out to make room. Call the tool again if you need it.]"
        user
          "And now?"
        assistant
          call_3 look {}
          call_4 look {}
        tool
          call_3 look gave "a screen" image/png
          call_4 look gave "…"
    "#]],
    );
}

#[test]
fn cutting_spares_nothing() {
    let mut bodies: Vec<Body> = laden().into_iter().map(|message| message.body).collect();
    let long = "0123456789".repeat(200);
    bodies.push(result(3, "once more"));
    bodies.insert(0, user(&long));
    bodies.insert(1, reply([super::build::says(&long)]));
    let whole = prepare(&transcript(bodies), &target(WireFormat::Anthropic));
    let cut = whole.cut(1024);
    let texts: Vec<usize> = cut.iter().flat_map(|entry| &entry.parts).map(text_len).collect();
    expect!["[886, 886, 47, 0, 0, 56, 280, 8, 0, 0, 56, 280]"].assert_eq(&format!("{texts:?}"));
    assert!(cut.iter().flat_map(|entry| &entry.parts).all(|part| part.media_bytes() == 0), "media go with it");
}

fn text_len(part: &PromptPart) -> usize {
    match part {
        PromptPart::Text(text) => text.text.len(),
        PromptPart::Result(result) => result.text.len(),
        _ => 0,
    }
}

/// A transcript with its texts made long.
fn lengthened(mut messages: Vec<Message>) -> Vec<Message> {
    for message in &mut messages {
        match &mut message.body {
            Body::Result(result) => result.output.text = result.output.text.repeat(600),
            Body::User(parts) => parts.iter_mut().for_each(|part| {
                if let Part::Text(text) = part {
                    text.text = text.text.repeat(600);
                }
            }),
            _ => {}
        }
    }
    messages
}

/// Each wire's usual model, and one that also takes media from tools.
fn targets() -> impl Iterator<Item = Target> {
    let shown = |wire| Target { result_media: vec!["image/*".into()], leading_reasoning: true, ..target(wire) };
    WireFormat::ALL.into_iter().flat_map(move |wire| [target(wire), shown(wire)])
}

fn assert_taken(entries: &PromptEntries, target: &Target) -> Result<(), TestCaseError> {
    let request = Request { effort: Some(Effort::High), ..Request::new(model(target.wire), target, entries.clone()) };
    let verdict = validate(&request.fit(target), target);
    prop_assert!(verdict.is_ok(), "{:?} refuses {:?}:\n{}", target.wire, verdict, shown(entries));
    Ok(())
}

fn assert_same_shape(lean: &PromptEntries, whole: &PromptEntries) -> Result<(), TestCaseError> {
    let shape =
        |entries: &PromptEntries| entries.iter().map(|entry| (entry.role, entry.parts.len())).collect::<Vec<_>>();
    prop_assert_eq!(shape(lean), shape(whole), "calls keep their results, entries their places");
    prop_assert!(lean.bytes() <= whole.bytes(), "{} > {}", lean.bytes(), whole.bytes());
    Ok(())
}

fn old(entries: &PromptEntries) -> impl Iterator<Item = &PromptEntry> {
    entries.iter().rev().skip(2)
}

fn gain(entries: &PromptEntries, stage: CompactionFallback) -> usize {
    let weigh: fn(&PromptPart) -> usize = match stage {
        StrongerSummary => |_| 0,
        DropMedia => PromptPart::media_bytes,
        DropResults | CutEarlier | DropEarlier => |part| part.media_bytes() + part.result_bytes(),
    };
    old(entries).flat_map(|entry| &entry.parts).map(weigh).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// W18: whatever is left out of whatever transcript, every wire still takes the request.
    #[test]
    fn every_wire_format_takes_lean_entries(transcript in corrupted().prop_map(lengthened)) {
        for target in targets() {
            let whole = prepare(&transcript, &target);
            for stage in STAGES {
                let lean = whole.leaner(stage);
                assert_taken(&lean, &target)?;
                assert_same_shape(&lean, &whole)?;
                prop_assert!(lean.iter().rev().take(2).eq(whole.iter().rev().take(2)), "the newest step is whole");
                prop_assert!(lean.leaner(stage) == lean, "once is enough");
                prop_assert_eq!(lean != whole, gain(&whole, stage) > 0, "what is promised to help helps");
            }
            prop_assert!(whole.leaner(DropMedia).leaner(DropResults) == whole.leaner(DropResults), "stage by stage");
        }
    }

    #[test]
    fn every_wire_format_takes_cut_entries(transcript in corrupted().prop_map(lengthened), bytes in 600..3000usize) {
        for target in targets() {
            let whole = prepare(&transcript, &target);
            let cut = whole.cut(bytes);
            assert_taken(&cut, &target)?;
            assert_same_shape(&cut, &whole)?;
            prop_assert!(cut.cut(bytes) == cut, "once is enough");
        }
    }

    /// Whatever was said in earlier turns and is cut, and whatever is not shown any more, every wire takes what is left.
    #[test]
    fn earlier_turns_may_be_cut_and_unseen(transcript in corrupted().prop_map(lengthened), upto in 0..12_u64) {
        let upto = MessageId(upto);
        let messages: Vec<_> = transcript.into_iter().map(Arc::new).collect();
        for target in targets() {
            for messages in [&messages, &cut_earlier(&messages, upto, spare_bytes(None))] {
                let mut prompt = Prompt::unseeing(target.clone(), upto);
                messages.iter().for_each(|message| prompt.push(message));
                assert_taken(&prompt.entries(), &target)?;
            }
        }
    }

    /// A chain names a place among the entries: leaving out must not move it.
    #[test]
    fn a_healthy_transcript_keeps_every_call_and_answer(transcript in healthy().prop_map(lengthened)) {
        let target = target(WireFormat::Anthropic);
        let whole = prepare(&transcript, &target);
        let ids = |entries: &PromptEntries| entries.iter().flat_map(|entry| &entry.parts).filter_map(|part| match part {
            PromptPart::Call(call) => Some((call.id.clone(), call.input.clone())),
            PromptPart::Result(result) => Some((result.id.clone(), serde_json::Map::new())),
            _ => None,
        }).collect::<Vec<_>>();
        prop_assert_eq!(ids(&whole.leaner(DropResults)), ids(&whole));
        prop_assert_eq!(ids(&whole.cut(1024)), ids(&whole));
    }
}
