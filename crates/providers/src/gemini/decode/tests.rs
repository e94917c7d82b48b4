use everturn_core::cost::UsageReport;
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind, Retry};
use everturn_core::ids::{StepId, Timestamp};
use everturn_core::message::Part;
use expect_test::expect_file;

use super::*;
use crate::tests::cuts;

/// Every fixture, what it decodes to, and every way it can be cut.
macro_rules! fixtures {
    ($($test:ident: $name:literal,)*) => {$(
        #[test]
        fn $test() {
            let bytes = include_bytes!(concat!("../../../fixtures/gemini/", $name, ".sse"));
            let told = cuts::told([bytes.as_slice()], GenerateContent::new("google"));
            let frames = told.frames.iter().map(|frame| format!("{frame:?}\n"));
            let end = told.end.as_ref().err().map(|error| format!("{error:?}\n"));
            let all: String = frames.chain(end).collect();
            expect_file![concat!("../../../fixtures/gemini/", $name, ".frames")].assert_eq(&all);
            cuts::check($name, bytes, || GenerateContent::new("google"));
        }
    )*};
}

fixtures! {
    thoughts_and_text_are_told_apart_and_usage_is_the_last_sum: "text",
    calls_come_whole_and_several_at_once: "calls",
    a_signed_text_stays_a_part_of_its_own: "signed-text",
    a_signature_alone_belongs_to_what_came_before: "late-signature",
    grounding_becomes_sources: "grounding",
    tools_of_the_provider_and_ours_in_one_answer: "server-tools",
    code_results_and_images: "code",
    an_unsafe_answer_is_withheld: "safety",
    an_unsafe_question_is_withheld: "blocked",
    a_call_that_could_not_be_written_down_is_tried_again: "malformed-call",
    the_output_limit_ends_an_answer: "max-tokens",
    an_error_in_the_stream_is_classified: "error",
    the_unknown_is_kept_or_passed_over: "unknown",
}

fn told(frames: &[&str]) -> cuts::Decoded {
    let bytes: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    cuts::told([bytes.as_bytes()], GenerateContent::new("google"))
}

/// The draft that an answer makes.
fn draft(frames: &[Frame]) -> Draft {
    let mut draft = Draft::new(StepId(1));
    for frame in frames {
        if let Frame::Delta(delta) = frame {
            draft.push(Timestamp(0), delta).unwrap();
        }
    }
    draft
}

/// Thousands of unknown parts are each kept as they came. The chunk is not parsed again for every one of
/// them: that would take minutes.
#[test]
fn many_unknown_parts_are_kept() {
    let parts: Vec<Value> = (0..12_000).map(|nth| json!({ "hologram": nth })).collect();
    let all = told(&[&json!({"candidates": [{"content": {"parts": parts}}]}).to_string()]);
    let kept: Vec<&Value> = all
        .frames
        .iter()
        .filter_map(|frame| match frame {
            Frame::Delta(Delta::Other(meta)) => meta.get("google"),
            _ => None,
        })
        .collect();
    assert_eq!(kept, parts.iter().collect::<Vec<_>>());
}

/// 3.2: what was streamed as many texts is one part, unless one of them was signed.
#[test]
fn texts_join_and_signed_ones_do_not() {
    let texts = |fixture: &[u8]| -> Vec<(String, bool)> {
        let told = cuts::told([fixture], GenerateContent::new("google"));
        let draft = draft(&told.frames);
        let texts = draft.parts().iter().filter_map(|part| match part {
            Part::Text(text) => Some((text.text.clone(), text.meta.contains_key("google"))),
            _ => None,
        });
        texts.collect()
    };
    let text = include_bytes!("../../../fixtures/gemini/text.sse");
    assert_eq!(texts(text), [("Grüß dich! 👋\nHow can I help?".to_owned(), true)]);
    let signed = include_bytes!("../../../fixtures/gemini/signed-text.sse");
    let parts = [("Hello".to_owned(), true), (", world".to_owned(), false), (".".to_owned(), true)];
    assert_eq!(texts(signed), parts);
}

/// P19, P20: an answer is over with a finish reason and with nothing else.
#[test]
fn without_a_finish_reason_there_is_no_answer() {
    let text = r#"{"candidates":[{"content":{"parts":[{"text":"All of it."}]}}]}"#;
    for frames in [&[text][..], &[text, "[DONE]"], &[text, r#"{"candidates":[{"finishReason":""}]}"#], &[]] {
        let error = told(frames).end.unwrap_err();
        assert_eq!((error.kind, error.cause), (ErrorKind::Truncated, Cause::Truncated), "{frames:?}");
    }
    let after = [r#"{"candidates":[{"finishReason":"STOP"}]}"#, text];
    assert_eq!(told(&after).frames, [Frame::Stop(everturn_core::message::Stop::End)], "nothing is read behind it");
}

/// P16: what is not the protocol ends the attempt, and nothing panics.
#[test]
fn nonsense_is_malformed() {
    let deep = format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"new":{}1{}}}]}}}}]}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    for frame in ["{", "[]", "7", r#"{"candidates":7}"#, r#"{"candidates":[{"content":{"parts":[{"text":7}]}}]}"#] {
        let error = told(&[frame]).end.unwrap_err();
        assert_eq!(
            (error.kind, error.retry, error.cause),
            (ErrorKind::Malformed, Retry::Backoff, Cause::Malformed),
            "{frame}"
        );
        assert!(!error.detail.contains('7'), "nothing of the bytes is told");
    }
    let _ = told(&[&deep]);
    let pieces = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","willContinue":true}}]}}]}"#;
    assert_eq!(told(&[pieces]).end.unwrap_err().kind, ErrorKind::Malformed);
}

/// P21: counts that are missing, negative or absurd are unknown, and never mix with those that are known.
#[test]
fn usage_is_known_or_unknown() {
    let usage = |counts: &[&str]| {
        let mut frames: Vec<String> = counts.iter().map(|counts| format!(r#"{{"usageMetadata":{counts}}}"#)).collect();
        frames.push(r#"{"candidates":[{"finishReason":"STOP"}]}"#.into());
        let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
        draft(&told(&frames).frames).usage()
    };
    let known = |input: u64, output: u64, reasoning, cache_read| UsageReport {
        input: input.into(),
        output: output.into(),
        reasoning,
        cache_read,
        ..UsageReport::default()
    };
    let unknown = everturn_core::cost::TokenCount::Unknown;
    assert_eq!(usage(&[]), UsageReport::default());
    assert_eq!(usage(&[r#"{"promptTokenCount":10}"#]), known(10, 0, unknown, unknown), "zero is left out");
    assert_eq!(usage(&[r#"{"promptTokenCount":-10,"candidatesTokenCount":1e30}"#]), UsageReport::default());
    let cached =
        [r#"{"promptTokenCount":10,"cachedContentTokenCount":8}"#, r#"{"promptTokenCount":10,"thoughtsTokenCount":4}"#];
    assert_eq!(usage(&cached), known(2, 4, 4_u64.into(), 8_u64.into()), "what is left out later was said before");
    assert_eq!(usage(&[r#"{"promptTokenCount":3,"cachedContentTokenCount":8}"#]).input, 0_u64.into());
    let tool = r#"{"promptTokenCount":3,"toolUsePromptTokenCount":40,"candidatesTokenCount":2,"thoughtsTokenCount":5}"#;
    assert_eq!(usage(&[tool]), known(43, 7, 5_u64.into(), unknown));
}

/// Frames that bring nothing are pings: the line lives, and that is not progress.
#[test]
fn nothing_new_is_a_ping() {
    for frame in ["{}", r#"{"candidates":[]}"#, r#"{"candidates":[{"content":{"parts":[{"text":""}]}}]}"#] {
        assert_eq!(told(&[frame]).frames, [Frame::Ping], "{frame}");
    }
}
