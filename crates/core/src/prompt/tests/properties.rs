//! Properties that hold for every transcript.

use proptest::prelude::*;

use super::build::{model, shown, target, told_again};
use super::generate::{broken_off, corrupted, healthy};
use crate::context::CompactionFallback;
use crate::message::{Body, Message, Part};
use crate::prompt::{
    ContinueMode, Effort, Prompt, PromptEntries, PromptEntry, PromptPart, Request, Role, Sampling, TakesSampling,
    Target, UnfinishedAnswer, WireFormat, prepare, validate,
};

/// Each wire's usual model, and one with the opposite abilities.
fn targets() -> Vec<Target> {
    let able = |wire| Target {
        prefill: true,
        leading_reasoning: true,
        reasoning: true,
        replays: vec!["web_search".into(), "look".into()],
        result_media: vec!["image/*".into()],
        takes_sampling: TakesSampling::UnlessReasoning,
        ..target(wire)
    };
    let takes_sampling = TakesSampling::IfNotReasoning;
    let plain = |wire| Target { user_media: vec![], replays: vec![], reasoning: false, takes_sampling, ..target(wire) };
    WireFormat::ALL.iter().flat_map(|wire| [target(*wire), able(*wire), plain(*wire)]).collect()
}

fn request(entries: PromptEntries, target: &Target) -> Request {
    let system = vec![" ".into(), "You are a crab.".into()];
    let effort = Some(Effort::High);
    let stop = vec![" ".into(), "END".into()];
    let sampling = Sampling { temperature: Some(1.7), top_p: Some(0.5), top_k: Some(9), seed: Some(-1), stop };
    Request { system, effort, sampling, ..Request::new(model(target.wire), target, entries) }.fit(target)
}

fn assert_taken(request: &Request, target: &Target) -> Result<(), TestCaseError> {
    let verdict = validate(request, target);
    prop_assert!(verdict.is_ok(), "{:?} refuses {:?}:\n{}", target.wire, verdict, shown(&request.entries));
    Ok(())
}

fn is_prefix(short: &PromptEntries, of: usize, long: &PromptEntries) -> bool {
    of <= long.len() && short.iter().take(of).eq(long.iter().take(of))
}

/// Whether a request may be sent after these messages: every call of the last reply is answered.
fn may_send(messages: &[Message]) -> bool {
    let open = messages.iter().rposition(|message| matches!(message.body, Body::Reply(_))).is_some_and(|at| {
        let Body::Reply(reply) = &messages[at].body else { return false };
        let results = messages[at..].iter().filter(|message| matches!(message.body, Body::Result(_))).count();
        results < reply.calls().count() || at + 1 == messages.len()
    });
    !open && !messages.is_empty()
}

fn texts(entries: &PromptEntries) -> Vec<&str> {
    let parts = entries.iter().flat_map(|entry| &entry.parts);
    let texts = parts.filter_map(|part| match part {
        PromptPart::Text(text) => Some(text.text.as_str()),
        PromptPart::Result(result) => Some(result.text.as_str()),
        _ => None,
    });
    texts.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// CR44, CR45: whatever is stored, what is sent is taken, by every wire, and the guard never has to give up.
    #[test]
    fn any_transcript_prepares_to_a_request_every_target_takes(transcript in corrupted()) {
        for target in targets() {
            assert_taken(&request(prepare(&transcript, &target), &target), &target)?;
        }
    }

    /// Leaving things out to make room leaves a request that is still taken.
    #[test]
    fn a_leaner_request_is_taken_like_the_whole(transcript in corrupted()) {
        for target in targets() {
            for fallback in [CompactionFallback::StrongerSummary, CompactionFallback::DropMedia, CompactionFallback::DropResults] {
                let entries = prepare(&transcript, &target);
                let leaner = entries.leaner(fallback);
                prop_assert_eq!(leaner.len(), entries.len());
                assert_taken(&request(leaner, &target), &target)?;
            }
        }
    }

    /// SA03: one pass is enough: telling a model what it was told changes nothing.
    #[test]
    fn preparing_what_was_prepared_changes_nothing(transcript in corrupted()) {
        for target in targets() {
            let once = prepare(&transcript, &target);
            let twice = prepare(&told_again(&once, &target), &target);
            prop_assert_eq!(shown(&once), shown(&twice));
            prop_assert!(once == twice, "differs in what is not shown");
        }
    }

    #[test]
    fn closed_segments_stay_unchanged_until_a_summary(transcript in corrupted()) {
        for target in targets() {
            let mut prompt = Prompt::new(target);
            for message in &transcript {
                let before = prompt.entries();
                prompt.push(message);
                let after = prompt.entries();
                let anew = matches!(message.body, Body::Summary(_));
                prop_assert!(anew || is_prefix(&before, before.closed_len(), &after));
                prop_assert_eq!(after.bytes(), PromptEntries::from(after.iter().cloned().collect::<Vec<_>>()).bytes());
            }
        }
    }

    #[test]
    fn an_answer_that_broke_off_anywhere_can_be_continued(transcript in corrupted(), parts in broken_off(), wire in 0..4usize) {
        for target in targets() {
            let by = model(WireFormat::ALL[wire]);
            let ways = [
                (ContinueMode::Prefill, None),
                (ContinueMode::Prefill, Some(Effort::Low)),
                (ContinueMode::Instruct, None),
                (ContinueMode::Echo, Some(Effort::Low)),
            ];
            for (how, effort) in ways {
                let request = Request { effort, ..request(prepare(&transcript, &target), &target) };
                let request = request.fit(&target).continuing(&target, UnfinishedAnswer { parts: &parts, by: &by }, how);
                assert_taken(&request, &target)?;
            }
        }
    }

    #[test]
    fn a_chain_that_is_offered_is_taken(transcript in corrupted()) {
        let target = target(WireFormat::OpenAiResponses);
        let mut prompt = Prompt::new(target.clone());
        for message in &transcript {
            prompt.push(message);
            let chain = prompt.chain(&model(target.wire));
            assert_taken(&Request { chain, ..request(prompt.entries(), &target) }, &target)?;
        }
    }

    #[test]
    fn a_healthy_transcript_needs_no_repair_and_loses_nothing(transcript in healthy()) {
        let target = target(WireFormat::Anthropic);
        let mut prompt = Prompt::new(target);
        transcript.iter().for_each(|message| prompt.push(message));
        prop_assert_eq!(prompt.repairs(), &[]);
        let entries = prompt.entries();
        let since = transcript.iter().rposition(|message| matches!(message.body, Body::Summary(_))).unwrap_or(0);
        let sent = texts(&entries);
        let (mut calls, mut seals) = (0, 0);
        for message in &transcript[since..] {
            match &message.body {
                Body::User(parts) => prop_assert!(sent.contains(&crate::message::text_of(parts).as_str())),
                Body::Context(text) => prop_assert!(sent.contains(&text.as_str())),
                Body::Result(result) => prop_assert!(sent.contains(&result.output.text.as_str())),
                Body::Reply(reply) => {
                    calls += reply.calls().count();
                    seals += reply.parts.iter().filter(|part| matches!(part, Part::Reasoning(_))).count();
                    prop_assert!(reply.text().is_empty() || sent.contains(&reply.text().as_str()));
                }
                Body::Summary(_) => {}
            }
        }
        let parts = || entries.iter().flat_map(|entry| &entry.parts);
        prop_assert_eq!(parts().filter(|part| matches!(part, PromptPart::Call(_))).count(), calls);
        prop_assert_eq!(parts().filter(|part| matches!(part, PromptPart::Reasoning(_))).count(), seals);
    }

    /// Not only the closed part: everything sent in one step begins what is sent in the next, so the provider's cache
    /// holds to the last entry. Only words added to the person's last entry may make it longer.
    #[test]
    fn each_request_begins_with_the_one_before(transcript in healthy(), wire in 0..4usize) {
        let mut prompt = Prompt::new(target(WireFormat::ALL[wire]));
        let mut sent: Option<PromptEntries> = None;
        for (at, message) in transcript.iter().enumerate() {
            if matches!(message.body, Body::Summary(_)) {
                sent = None;
            }
            prompt.push(message);
            if !may_send(&transcript[..=at]) {
                continue;
            }
            let next = prompt.entries();
            if let Some(sent) = &sent {
                let whole = sent.len() - 1;
                prop_assert!(is_prefix(sent, whole, &next));
                let (last, again) = (sent.get(whole).unwrap(), next.get(whole).unwrap());
                prop_assert!(again == last || grew(last, again), "{}", shown(&next));
            }
            sent = Some(next);
        }
    }
}

fn grew(last: &PromptEntry, again: &PromptEntry) -> bool {
    last.role == Role::User && again.role == Role::User && again.parts.starts_with(&last.parts)
}

/// The generators must reach what the properties are about; a generator that only makes easy cases proves nothing.
#[test]
fn the_generators_reach_the_hard_cases() {
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut hosted, mut sealed, mut repaired, mut neighbours, mut chained) = (0, 0, 0, 0, 0);
    for _ in 0..400 {
        let transcript = corrupted().new_tree(&mut runner).unwrap().current();
        let mut prompt = Prompt::new(target(WireFormat::Anthropic));
        transcript.iter().for_each(|message| prompt.push(message));
        repaired += usize::from(!prompt.repairs().is_empty());
        let entries = prompt.entries();
        let parts: Vec<_> = entries.iter().flat_map(|entry| &entry.parts).collect();
        hosted += parts.iter().filter(|part| matches!(part, PromptPart::HostedResult(_))).count();
        sealed += parts.iter().filter(|part| matches!(part, PromptPart::Reasoning(_))).count();
        let roles: Vec<_> = entries.iter().map(|entry| entry.role).collect();
        neighbours += roles.windows(2).filter(|pair| pair[0] == pair[1]).count();
        let mut prompt = Prompt::new(target(WireFormat::OpenAiResponses));
        for message in &transcript {
            prompt.push(message);
            chained += usize::from(prompt.chain(&model(WireFormat::OpenAiResponses)).is_some());
        }
    }
    let reached = [hosted, sealed, repaired, neighbours, chained];
    assert!(reached.iter().all(|count| *count >= 8), "{reached:?}");
}
