use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use crate::context::{PromptSize, TokenGauge, size_of_body, size_of_output, size_of_parts};
use crate::ids::{CallUid, StepId, Timestamp};
use crate::message::{
    Body, Call, CallResult, CallVerdict, File, Media, Meta, Output, Part, Provided, Reasoning, RunBy, Seal, Source,
    Summary, SummarySource, Text,
};

fn text(bytes: u64) -> PromptSize {
    PromptSize { text: bytes, ..PromptSize::default() }
}

fn words(words: &str) -> Part {
    Part::Text(Text { text: words.into(), ..Text::default() })
}

fn file(media_type: &str, bytes: Option<usize>) -> Part {
    let bytes = bytes.map(|len| vec![0; len].into());
    Part::File(File { name: "name".into(), media_type: media_type.into(), bytes, meta: Meta::new() })
}

const UID: CallUid = CallUid { step: StepId(1), ordinal: 0 };

fn call(input: &str) -> Part {
    Part::Call(Call {
        uid: UID,
        provider_id: "id".into(),
        tool: "grep".into(),
        input: input.into(),
        whole: true,
        run_by: RunBy::Us,
        at: Timestamp(0),
        meta: Meta::new(),
    })
}

fn reasoning(seal: Option<Seal>) -> Part {
    Part::Reasoning(Reasoning { text: "hmm".into(), seal, ..Reasoning::default() })
}

/// CL48: every kind of part counts with what is sent of it.
#[test]
fn every_part_counts_with_what_is_sent_of_it() {
    let provided =
        Provided { uid: None, tool: "web".into(), output: json!({"a": 1}), at: Timestamp(0), meta: Meta::new() };
    let cases = [
        (words("naïve"), text(6)),
        (reasoning(None), text(0)),
        (reasoning(Some(Seal::Signature("sig".into()))), text(6)),
        (reasoning(Some(Seal::Redacted("blob".into()))), text(4)),
        (call("{\"q\":1}"), text(13)),
        (Part::Provided(provided), text(10)),
        (Part::Source(Source::default()), text(0)),
        (Part::Other(Meta::new()), text(0)),
        (file("text/csv", Some(100)), text(104)),
        (file("image/png", None), text(4)),
        (file("image/png", Some(90_000)), PromptSize { text: 4, media: 90_000, media_tokens: 1_600 }),
        (file("application/pdf", Some(640_000)), PromptSize { text: 4, media: 640_000, media_tokens: 10_000 }),
    ];
    let mut all = PromptSize::default();
    for (part, size) in &cases {
        assert_eq!(size_of_parts(std::slice::from_ref(part)), *size, "{part:?}");
        all = all.plus(*size);
    }
    let parts: Vec<_> = cases.into_iter().map(|(part, _)| part).collect();
    assert_eq!(size_of_parts(&parts), all);
    assert_eq!(all.bytes(), all.text + 730_000);
    assert_eq!(size_of_parts(&[]), PromptSize::default());
}

/// CL49: a result counts with its text, its media, or nothing; an error is text like any other.
#[test]
fn a_result_counts_with_what_the_model_is_shown() {
    let media = Media { media_type: "image/png".into(), bytes: [0; 50].into() };
    let cut = Output { text: "short".into(), full: Some([0; 9_999].into()), ..Output::default() };
    let picture = Output { text: "see".into(), media: vec![media.clone(), media], full: None };
    let cases = [
        (Output::text("hello"), text(5)),
        (Output::text("error: no such file"), text(19)),
        (picture, PromptSize { text: 3, media: 100, media_tokens: 3_200 }),
        (Output::default(), text(0)),
        (cut, text(5)),
    ];
    for (output, size) in cases {
        assert_eq!(size_of_output(&output), size, "{output:?}");
    }
}

/// CL48: messages count with all their parts.
#[test]
fn a_message_counts_with_all_its_parts() {
    let result = CallResult {
        call: UID,
        tool: "grep".into(),
        verdict: CallVerdict::Done,
        output: Output::text("hello"),
        began: None,
        ended: Timestamp(0),
        meta: Meta::new(),
    };
    let summary = Summary {
        text: "so far".into(),
        newest_user: vec![words("do it")],
        source: SummarySource::Automatic,
        tokens_before: 9,
        runtime: Duration::ZERO,
    };
    assert_eq!(size_of_body(&Body::User(vec![words("a"), words("b")])), text(2));
    assert_eq!(size_of_body(&Body::Context("note".into())), text(4));
    assert_eq!(size_of_body(&Body::Result(Box::new(result))), text(9));
    assert_eq!(size_of_body(&Body::Summary(Box::new(summary))), text(11));
}

/// W13: the ratio is three bytes a token until a report teaches a better one.
#[test]
fn the_ratio_is_learnt_from_the_last_report() {
    let mut gauge = TokenGauge::default();
    assert_eq!(gauge.tokens(text(3_000)), 1_000);
    assert_eq!(gauge.tokens(text(1)), 1);
    assert_eq!(gauge.tokens(PromptSize { media_tokens: 1_600, ..text(3_000) }), 2_600);
    gauge.learn(text(40_000), 10_000);
    assert_eq!(gauge.tokens(text(4_000)), 1_000);
    gauge.learn(text(20_000), 8_000);
    assert_eq!(gauge.tokens(text(5_000)), 2_000, "the last one counts");
    gauge.learn(PromptSize { media_tokens: 1_600, media: 500_000, ..text(40_000) }, 11_600);
    assert_eq!(gauge.tokens(text(4_000)), 1_000, "media do not spoil it");
}

/// AW04: absurd reports cannot make the gauge absurd.
#[test]
fn absurd_reports_teach_little() {
    let ratio = |sent, tokens| {
        let mut gauge = TokenGauge::default();
        gauge.learn(text(sent), tokens);
        gauge.tokens(text(6_000))
    };
    assert_eq!(ratio(100_000, 0), 2_000, "nothing counted");
    assert_eq!(ratio(2_047, 2_047), 2_000, "hardly anything sent");
    assert_eq!(ratio(100_000, 1), 1_000, "six bytes a token at most");
    assert_eq!(ratio(100_000, u64::MAX), 6_000, "one byte a token at least");
    assert_eq!(ratio(u64::MAX, 1), 1_000);
}

proptest! {
    #[test]
    fn an_estimate_is_monotone_and_within_the_clamps(
        sent in any::<u64>(), tokens in any::<u64>(), a in any::<u32>(), b in any::<u32>(),
    ) {
        let mut gauge = TokenGauge::default();
        gauge.learn(text(sent), tokens);
        let (small, large) = (u64::from(a.min(b)), u64::from(a.max(b)));
        prop_assert!(gauge.tokens(text(small)) <= gauge.tokens(text(large)));
        prop_assert!(gauge.tokens(text(large)) <= large);
        prop_assert!(gauge.tokens(text(large)) >= large / 6);
    }
}
