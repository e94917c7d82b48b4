use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::delta::ProvidedDelta;

const STEP: StepId = StepId(4);

fn attempt(number: u32, rung: Rung) -> Delta {
    let model = "understudy/one".parse().unwrap();
    Delta::Attempt(Box::new(AttemptBegan { number, model, rung }))
}

fn report(output: u64) -> Delta {
    Delta::Usage(Box::new(UsageReport { output: TokenCount::Known(output), ..UsageReport::default() }))
}

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

fn call(slot: u32, tool: &str) -> Delta {
    let (provider_id, tool) = (String::new(), tool.into());
    Delta::CallBegan(Box::new(CallBegan { slot, provider_id, tool, run_by: RunBy::Us, meta: Meta::new() }))
}

fn input(slot: u32, json: &str) -> Delta {
    Delta::CallInput { slot, json: json.into() }
}

fn fold(deltas: impl IntoIterator<Item = Delta>) -> Draft {
    let mut draft = Draft::new(STEP);
    for (i, delta) in std::iter::once(attempt(1, Rung::First)).chain(deltas).enumerate() {
        draft.push(Timestamp(i as i64 * 10), &delta).unwrap();
    }
    draft
}

fn calls(draft: &Draft) -> Vec<(u16, String, String, bool)> {
    let seen = draft.our_calls().map(|call| (call.uid.ordinal, call.tool.clone(), call.input.clone(), call.whole));
    seen.collect()
}

/// AW01: deltas of one text are one part; an end begins the next; text that never ends is kept all the same.
#[test]
fn text_grows_until_it_ends() {
    let draft = fold([text("Hel"), text("lo"), Delta::Ended, text("again")]);
    let reply = draft.seal(Stop::End, Timestamp(99), None).unwrap();
    let texts: Vec<_> = reply.parts.iter().map(|part| format!("{part:?}").contains("Hello")).collect();
    assert_eq!((reply.parts.len(), texts), (2, vec![true, false]));
    assert_eq!(reply.text(), "Helloagain");
}

/// I18: only what would be kept brings an answer forward, and each attempt has to bring some of its own.
#[test]
fn an_attempt_gets_on_by_what_is_kept() {
    let thought = [Delta::Reasoning("hm".into()), Delta::Sealed(Seal::Signature("sig".into())), Delta::Ended];
    for nothing in [vec![], thought.to_vec(), vec![text(" \n")], vec![call(0, "a"), input(0, "{\"x\":")]] {
        assert!(!fold(nothing.clone()).got_on(), "{nothing:?}");
    }
    let ended = |json: &str| vec![call(0, "a"), input(0, json), Delta::CallEnded { slot: 0 }];
    assert!(!fold(ended("[1]")).got_on(), "it cannot be run");
    for some in [vec![text("Hel")], ended("{}"), vec![found("web_search")]] {
        let mut draft = fold(some.clone());
        assert!(draft.got_on(), "{some:?}");
        draft.push(Timestamp(99), &attempt(2, Rung::Continue)).unwrap();
        assert!(!draft.got_on(), "that was the one before");
    }
}

fn found(tool: &str) -> Delta {
    let output = serde_json::json!([{"title": "Kelp"}]);
    Delta::Provided(Box::new(ProvidedDelta { slot: None, tool: tool.into(), output, meta: Meta::new() }))
}

/// Outcomes of calls that an earlier attempt made find them, in their order; within one attempt a slot says which.
#[test]
fn outcomes_find_the_calls_of_the_attempt_before() {
    let hosted = |slot: u32, tool: &str| {
        let (provider_id, tool) = (format!("srvtoolu_{slot}"), tool.into());
        let call = CallBegan { slot, provider_id, tool, run_by: RunBy::Provider, meta: Meta::new() };
        [Delta::CallBegan(Box::new(call)), Delta::CallEnded { slot }]
    };
    let asked = [hosted(0, "web_search"), hosted(1, "web_fetch"), hosted(2, "web_search")].concat();
    let later = [attempt(2, Rung::Continue), found("web_search"), found("web_search"), found("web_search")];
    let draft = fold([vec![found("web_fetch")], asked, vec![found("web_fetch")], later.to_vec()].concat());
    let ordinal = |part: &Part| match part {
        Part::Provided(provided) => Some(provided.uid.map(|uid| uid.ordinal)),
        _ => None,
    };
    let answered: Vec<_> = draft.parts().iter().filter_map(ordinal).collect();
    assert_eq!(answered, [None, None, Some(0), Some(2), None]);
}

/// AW05, AW26: interleaved input goes to its own call; order is that of declaration; ids may repeat.
#[test]
fn calls_grow_side_by_side() {
    let draft = fold([
        call(0, "a"),
        call(1, "b"),
        input(1, "{\"y\":"),
        input(0, "{\"x\":"),
        input(1, "2}"),
        input(0, "1}"),
        Delta::CallEnded { slot: 0 },
        Delta::CallEnded { slot: 1 },
    ]);
    let expected = [(0, "a", "{\"x\":1}", true), (1, "b", "{\"y\":2}", true)];
    let expected = expected.map(|(i, tool, json, whole)| (i, tool.to_string(), json.to_string(), whole));
    assert_eq!(calls(&draft), expected);
    assert_eq!(draft.complete_calls().count(), 2);
}

/// AW06: a call with input that ends inside a string, an object or an array was cut, whatever the provider
/// says; its siblings are kept. At the output limit only valid JSON is believed of the last call.
#[test]
fn a_call_that_was_cut_is_not_whole() {
    let ended = |slot| Delta::CallEnded { slot };
    let draft = |last: &str| fold([call(0, "a"), input(0, "{}"), ended(0), call(1, "b"), input(1, last), ended(1)]);
    let whole = |last: &str, stop: Stop| {
        let mut draft = draft(last);
        draft.mend(|_| Some("{}".into()));
        let reply = draft.seal(stop, Timestamp(0), None).unwrap();
        reply.calls().map(|call| call.whole).collect::<Vec<_>>()
    };
    for stop in [Stop::Length, Stop::ToolUse, Stop::End] {
        assert_eq!(whole("{\"path\":\"/notes/projects/old", stop.clone()), [true, false], "{stop:?}");
        assert_eq!(whole("{}", stop.clone()), [true, true], "{stop:?}");
    }
    let unmended = draft("{'a': 1}").seal(Stop::Length, Timestamp(0), None).unwrap();
    assert_eq!(unmended.calls().map(|call| call.whole).collect::<Vec<_>>(), [true, false]);
}

/// No strict prefix of an object is whole, and what models get wrong is not taken for a cut.
#[test]
fn every_prefix_of_an_input_is_cut() {
    let whole = r#"{"a": "}\"]", "b": [1, {"c\\": null}, "x, y: {"], "d" : {"e":"\\"} , "f": "it's // a /* b"}"#;
    serde_json::from_str::<serde_json::Value>(whole).unwrap();
    for (end, _) in whole.char_indices().skip(1) {
        assert!(cut::is_cut(&whole[..end]), "{}", &whole[..end]);
    }
    let almost = [
        whole,
        "",
        "null",
        "a: 1",
        r#"{"a": 1,}"#,
        r#"{'a': 'b}', c: True}"#,
        "{“a”: “b”}",
        "```json\n{\"a\": 1}\n```",
        r#"{"a": [1, 2}"#,
        r#"{"a": "he said "hi" to me"}"#,
        r#"{"a": "x" "b": "y"}"#,
        "{\"a\": 1 // it's {\n}",
        "{a: http://x.y/z}",
        "{\"a\": \"line\nline\"}",
    ];
    almost.iter().for_each(|input| assert!(!cut::is_cut(input), "{input}"));
    let cut = [r#"{'a': 'b }"#, r#"{"a": "b}"#, r#"{"a": "echo "hi}"#, r#""a": "b"#, r#"{a: [1, 2"#, "{\"a\": 1 /* }"];
    cut.iter().for_each(|input| assert!(cut::is_cut(input), "{input}"));
}

/// MC07: an input that is no object is stored repaired, with what came beside it; cut calls and good ones are left alone.
#[test]
fn inputs_are_mended_in_the_open() {
    let ended = |slot| Delta::CallEnded { slot };
    let mut draft = fold([
        call(0, "a"),
        input(0, "{x}"),
        ended(0),
        call(1, "b"),
        input(1, "{}"),
        ended(1),
        call(2, "c"),
        input(2, "{y}"),
        call(3, "d"),
        input(3, "{z"),
        ended(3),
    ]);
    draft.mend(|_| Some("{\"x\":1}".into()));
    let inputs: Vec<_> =
        draft.our_calls().map(|call| (call.input.as_str(), call.meta.contains_key("everturn"))).collect();
    assert_eq!(inputs, [("{\"x\":1}", true), ("{}", false), ("{y}", false), ("{z", false)]);
}

/// AW07, CL01, CL02, CL04, CR52, CR53: a seal stays whatever comes without one, empty sealed reasoning is kept, empty
/// unsealed is not, and both ends are stamped.
#[test]
fn reasoning_keeps_its_seal_and_its_times() {
    let draft = fold([
        Delta::Reasoning("hm".into()),
        Delta::Sealed(Seal::Signature("sig".into())),
        Delta::Reasoning(String::new()),
        Delta::PartMeta(Box::default()),
        Delta::Ended,
        Delta::Sealed(Seal::Redacted("blob".into())),
        Delta::Ended,
        Delta::Reasoning(String::new()),
    ]);
    let reply = draft.seal(Stop::Interrupted, Timestamp(500), None).unwrap();
    let seen: Vec<_> = reply
        .parts
        .iter()
        .map(|part| match part {
            Part::Reasoning(r) => (r.text.as_str(), r.seal.clone(), r.began.0, r.ended.0),
            other => panic!("{other:?}"),
        })
        .collect();
    let signature = Some(Seal::Signature("sig".into()));
    let redacted = Some(Seal::Redacted("blob".into()));
    assert_eq!(seen, [("hm", signature, 10, 30), ("", redacted, 60, 60)]);

    let open = fold([Delta::Reasoning("still".into())]).seal(Stop::Interrupted, Timestamp(500), None).unwrap();
    assert!(matches!(&open.parts[..], [Part::Reasoning(r)] if r.ended == Timestamp(500)));
}

#[test]
fn metadata_merges_and_is_never_erased() {
    let meta = |key: &str| Box::new(Meta::from([(key.to_string(), serde_json::json!({"k": 1}))]));
    let draft =
        fold([text("x"), Delta::PartMeta(meta("a")), Delta::PartMeta(Box::default()), Delta::PartMeta(meta("b"))]);
    assert!(matches!(&draft.parts()[0], Part::Text(text) if text.meta.len() == 2));
}

/// AW03, CR15: a later report of the same attempt replaces the earlier one, and a new attempt starts without.
#[test]
fn usage_is_the_attempts_newest_report() {
    let mut draft = fold([report(1), report(7), Delta::Usage(Box::default())]);
    assert_eq!(draft.usage().output.known(), Some(7));
    draft.push(Timestamp(0), &attempt(2, Rung::Continue)).unwrap();
    assert_eq!(draft.usage(), UsageReport::default());
}

/// AW11, AW13: a continuation goes on in the same text; a retracted call is gone and its name is remembered.
#[test]
fn a_continued_draft_is_one_text() {
    let draft = fold([
        text("The quick "),
        call(0, "search"),
        input(0, "{\"q"),
        Delta::RetractCall { ordinal: 0 },
        attempt(2, Rung::Continue),
        text("brown fox"),
        call(0, "search"),
        Delta::CallEnded { slot: 0 },
    ]);
    assert_eq!(draft.tail_text(), None);
    assert_eq!(calls(&draft), [(1, "search".into(), String::new(), true)], "a new call, with a name of its own");
    let reply = draft.seal(Stop::ToolUse, Timestamp(0), None).unwrap();
    assert_eq!(
        (reply.parts.len(), reply.text(), reply.retracted.clone()),
        (2, "The quick brown fox".into(), vec!["search".into()])
    );
}

/// AW14: a restart leaves nothing behind but the count.
#[test]
fn a_restart_begins_with_nothing() {
    let draft = fold([text("wrong"), call(0, "a"), Delta::RetractAll, attempt(2, Rung::Restart), text("right")]);
    assert_eq!(draft.seal(Stop::End, Timestamp(0), None).unwrap().text(), "right");
}

#[test]
fn waits_between_attempts_are_not_runtime() {
    let mut draft = Draft::new(STEP);
    for (at, delta) in
        [(1000, attempt(1, Rung::First)), (1200, text("a")), (9000, attempt(2, Rung::Continue)), (9100, text("b"))]
    {
        draft.push(Timestamp(at), &delta).unwrap();
    }
    assert_eq!(draft.runtime(Timestamp(9150)), Duration::from_millis(350));
}

#[test]
fn a_delta_out_of_order_is_refused_and_changes_nothing() {
    let cases = [
        (vec![], input(0, "x"), OutOfOrder::NoSuchCall(0)),
        (vec![call(0, "a"), Delta::CallEnded { slot: 0 }], input(0, "x"), OutOfOrder::NoSuchCall(0)),
        (vec![call(0, "a")], call(0, "b"), OutOfOrder::SlotTaken(0)),
        (vec![call(3, "a"), attempt(2, Rung::Continue)], input(3, "x"), OutOfOrder::NoSuchCall(3)),
        (vec![], Delta::RetractCall { ordinal: 0 }, OutOfOrder::NoSuchOrdinal(0)),
        (vec![], Delta::PartMeta(Box::default()), OutOfOrder::NoPart),
    ];
    for (before, delta, error) in cases {
        let mut draft = fold(before);
        let unchanged = draft.clone();
        assert_eq!(draft.push(Timestamp(0), &delta), Err(error), "{delta:?}");
        assert_eq!(draft, unchanged);
    }
}

#[test]
fn a_draft_without_an_attempt_cannot_be_sealed() {
    assert_eq!(Draft::new(STEP).seal(Stop::End, Timestamp(0), None), None);
}

fn any_delta() -> impl Strategy<Value = Delta> {
    prop_oneof![
        4 => "[a-z ü漢]{0,6}".prop_map(Delta::Text),
        2 => "[a-z]{0,6}".prop_map(Delta::Reasoning),
        1 => "[a-z]{1,4}".prop_map(|sig| Delta::Sealed(Seal::Signature(sig))),
        1 => Just(Delta::Ended),
        1 => (0..3u32).prop_map(|slot| call(slot, "tool")),
        3 => (0..3u32, "[{}a-z\":]{0,5}").prop_map(|(slot, json)| Delta::CallInput { slot, json }),
        1 => (0..3u32).prop_map(|slot| Delta::CallEnded { slot }),
        1 => Just(Delta::Source(Box::default())),
        1 => (0..9u64).prop_map(report),
        1 => (2..5u32).prop_map(|number| attempt(number, Rung::Continue)),
        1 => Just(Delta::RetractAll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A draft is told again from its deltas, and from any batching of them: the same parts, the same bytes.
    #[test]
    fn batching_does_not_matter(deltas in prop::collection::vec(any_delta(), 0..40), cuts in prop::collection::vec(any::<bool>(), 40)) {
        let mut accepted = vec![attempt(1, Rung::First)];
        let mut single = fold([]);
        for delta in deltas {
            if single.push(Timestamp(7), &delta).is_ok() {
                accepted.push(delta);
            }
        }
        let mut batched: Vec<Delta> = Vec::new();
        for (i, delta) in accepted.into_iter().enumerate() {
            let rest = match batched.last_mut() {
                Some(last) if !cuts[i % cuts.len()] => last.absorb(delta),
                _ => Some(delta),
            };
            batched.extend(rest);
        }
        let mut again = Draft::new(STEP);
        for delta in &batched {
            again.push(Timestamp(7), delta).unwrap();
        }
        prop_assert_eq!(again.parts().iter().map(|p| format!("{p:?}")).collect::<String>().replace("Timestamp(7)", ""),
                        single.parts().iter().map(|p| format!("{p:?}")).collect::<String>().replace("Timestamp(7)", ""));
        prop_assert_eq!(again.usage(), single.usage());
        prop_assert_eq!(again.seq(), Seq(batched.len() as u64));
    }
}

/// What is attached weighs, and is not taken for words: those are what an answer is paid by.
#[test]
fn structure_weighs_what_it_takes() {
    let meta = || Box::new(Meta::from([("x".to_owned(), json!([[0, 0], {"a": "bc"}]))]));
    for delta in [Delta::ReplyMeta(meta()), Delta::PartMeta(meta()), Delta::Other(meta())] {
        let draft = fold([text("The"), delta.clone()]);
        assert!(draft.weight() >= 3 + 6 * 64, "{delta:?} weighs {}", draft.weight());
        assert!(draft.bytes() <= 3 + 64, "{delta:?}");
    }
    assert_eq!(fold([text("The"), Delta::ReplyMeta(meta()), Delta::RetractAll]).weight(), 0);
}

/// A generation that continues earlier text is joined to it once, whichever process decides the seam.
#[test]
fn a_continuation_awaits_its_seam() {
    let seam = Delta::Seam(Seam { at: 3, dropped: 0, inserted: 0, unmatched: 0 });
    let awaits = |rung, deltas: &[Delta]| fold([text("The"), attempt(2, rung)].into_iter().chain(deltas.to_vec()));
    for rung in [Rung::Continue, Rung::FallBack] {
        let again = attempt(3, Rung::Reattach);
        assert!(awaits(rung, &[]).awaits_seam());
        assert!(awaits(rung, &[Delta::Reasoning("Hm.".into()), again.clone()]).awaits_seam(), "found again");
        assert!(!awaits(rung, std::slice::from_ref(&seam)).awaits_seam());
        assert!(!awaits(rung, &[seam.clone(), again]).awaits_seam(), "once");
        assert!(!awaits(rung, &[Delta::RetractAll]).awaits_seam(), "nothing is left to join it to");
        assert!(!fold([attempt(2, rung)]).awaits_seam(), "nothing was said before");
    }
    for rung in [Rung::Reattach, Rung::Restart] {
        assert!(!awaits(rung, &[]).awaits_seam());
    }
    assert!(!fold([text("The")]).awaits_seam());
}
