//! What holds for every transcript.

use std::sync::Arc;

use proptest::prelude::*;

use super::mended;
use crate::doctor::changes::PromptChanges;
use crate::doctor::{CallKnowledge, TranscriptOrigin, repair};
use crate::ids::ChatId;
use crate::message::{Body, Message};
use crate::prompt::tests::build::{model, target};
use crate::prompt::tests::generate::{corrupted, healthy};
use crate::prompt::{Prompt, Repair, RepairKind, Request, Target, WireFormat, prepare, validate};
use crate::rehearsal::{Deed, Dice, Stage, tiny_limits, wish};

/// What preparing still mends, but for the provider's own tools: those stay as they came.
fn mended_each_time(messages: &[Arc<Message>], target: &Target) -> Vec<Repair> {
    let mut prompt = Prompt::new(target.clone());
    messages.iter().for_each(|message| prompt.push(message));
    let all = prompt.repairs().iter().copied().chain(prompt.unanswered());
    all.filter(|repair| repair.kind != RepairKind::HostedTool).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// After a repair, preparing finds nothing to mend on any wire, the request is valid, and a second repair
    /// changes nothing.
    #[test]
    fn a_repaired_transcript_is_healthy(messages in corrupted()) {
        let once = mended(messages);
        let twice = repair(&once.messages, TranscriptOrigin::Foreign);
        prop_assert_eq!(&twice.findings, &[]);
        prop_assert_eq!(twice.kept, once.messages.len());
        prop_assert!(twice.messages.iter().zip(&once.messages).all(|(one, other)| Arc::ptr_eq(one, other)));
        for wire in WireFormat::ALL {
            let target = target(wire);
            prop_assert_eq!(mended_each_time(&once.messages, &target), []);
            let entries = prepare(once.messages.iter().map(|message| &**message), &target);
            let request = Request::new(model(wire), &target, entries).fit(&target);
            prop_assert_eq!(validate(&request, &target), Ok(()));
        }
    }

    /// What preparing mends, the doctor finds.
    #[test]
    fn nothing_is_mended_that_was_not_found(messages in corrupted()) {
        let messages: Vec<Arc<Message>> = messages.into_iter().map(Arc::new).collect();
        let is_found = !repair(&messages, TranscriptOrigin::Foreign).is_healthy();
        for wire in WireFormat::ALL {
            prop_assert!(is_found || mended_each_time(&messages, &target(wire)).is_empty());
        }
    }

    /// A healthy transcript comes back as it is, to the pointer.
    #[test]
    fn a_healthy_transcript_is_left_alone(messages in healthy()) {
        // Preparing puts up with words between results; no driver says any.
        let is_result = |at: usize| messages.get(at).is_some_and(|message| matches!(message.body, Body::Result(_)));
        let is_between = |at: usize| matches!(messages[at].body, Body::User(_)) && is_result(at + 1);
        let messages: Vec<Arc<Message>> = (0..messages.len())
            .filter(|at| !is_between(*at))
            .map(|at| Arc::new(messages[at].clone()))
            .collect();
        let repaired = repair(&messages, TranscriptOrigin::Foreign);
        prop_assert_eq!(&repaired.findings, &[]);
        prop_assert!(repaired.messages.iter().zip(&messages).all(|(one, other)| Arc::ptr_eq(one, other)));
        prop_assert_eq!(repaired.messages.len(), messages.len());
    }

    /// Numbers grow, and those that were there before are not used for anything else.
    #[test]
    fn numbers_are_used_once(messages in corrupted()) {
        let newest = messages.iter().map(|message| message.id).max();
        let repaired = mended(messages);
        let ids: Vec<_> = repaired.messages.iter().map(|message| message.id).collect();
        prop_assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(ids[repaired.kept..].iter().all(|id| Some(*id) > newest));
        prop_assert_eq!(repaired.kept == repaired.messages.len() && repaired.findings.is_empty(), repaired.is_healthy());
    }

    /// Whatever drivers do, they write nothing that the doctor would mend, as long as the chat rests.
    #[test]
    fn drivers_write_healthy_transcripts(numbers in prop::collection::vec(any::<u64>(), 0..60)) {
        let limits = tiny_limits();
        let mut stage = Stage::new(ChatId::from_u128(7));
        for number in numbers {
            let mut dice = Dice::new(number);
            stage.now.0 += 1;
            if dice.below(3) == 0 {
                let command = wish(&stage.chat, &stage.transcript, "words", &mut dice);
                let _ = stage.submit(command, &limits); // A refusal changes nothing.
            } else if let Some(facts) = stage.obey_next() {
                stage.commit(&facts);
            } else {
                match stage.deed(&limits, &mut dice) {
                    Deed::Commit(facts) => stage.commit(&facts),
                    Deed::Journal(deltas) => drop(stage.journal(deltas)),
                    Deed::Rest => {}
                }
            }
            if !stage.chat.is_busy() {
                let repaired = repair(&stage.transcript, TranscriptOrigin::Ours(&|_| CallKnowledge::Nothing));
                prop_assert_eq!(&repaired.findings, &[]);
            }
        }
    }
}

/// What preparing changes is counted, and a plain conversation goes as it is.
#[test]
fn parts_left_out_of_a_request_are_counted() {
    use crate::message::Seal;
    use crate::prompt::tests::build::{calls, file, reply, result, says, signed, thinks, transcript, user};
    let plain = transcript([user("Hi."), reply([says("Hello.")]), user("Bye.")]);
    assert!(PromptChanges::on_all_wires(&plain).iter().all(|(_, changes)| changes.is_none()));
    let rich = transcript([
        crate::message::Body::User(vec![says(" "), file("a.zip", "application/zip", Some(b"zip"))]),
        reply([signed("Hm.", "sig"), thinks("never sealed", None), says("Look."), calls(0, "bad name", "{}")]),
        result(0, "seen"),
        user(" "),
        reply([thinks("", Some(Seal::Redacted("red".into()))), says("Done."), calls(1, "look", "{}")]),
    ]);
    let told: Vec<String> = PromptChanges::on_all_wires(&rich).iter().map(|(_, changes)| changes.to_string()).collect();
    let rest = "1 of media not sent as they are, 1 with another tool name, 1 with nothing to send, 1 mended each time";
    assert_eq!(
        told,
        [
            format!("1 of reasoning not sent, {rest}"),
            format!("3 of reasoning not sent, {rest}"),
            format!("3 of reasoning not sent, {rest}"),
            format!("3 of reasoning not sent, {rest}"),
        ]
    );
}
