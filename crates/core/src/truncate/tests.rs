use proptest::prelude::*;

use super::*;
use crate::blob::Blob;

/// CL61: a third of the window at three bytes a token, with a floor, and a default where the window is not known.
#[test]
fn a_result_may_take_a_third_of_the_window() {
    let cases = [
        (None, BUDGET_DEFAULT),
        (Some(0), BUDGET_DEFAULT),
        (Some(1), BUDGET_MIN),
        (Some(8_192), BUDGET_MIN),
        (Some(16_384), BUDGET_MIN),
        (Some(200_000), 199_998),
        (Some(1_048_576), 1_048_575),
        (Some(u64::MAX), usize::MAX),
    ];
    for (window, bytes) in cases {
        assert_eq!(budget(window), bytes, "{window:?}");
    }
}

/// CL62: what fits, fits exactly, or has no budget stays as it is.
#[test]
fn short_output_is_left_alone() {
    let text = "x".repeat(2_000);
    for budget in [0, 2_000, 2_001, usize::MAX] {
        assert!(matches!(truncate(&text, budget), Cow::Borrowed(kept) if kept == text), "{budget}");
    }
}

/// CL62: head and tail stay, two to one, and the marker counts what is missing.
#[test]
fn head_and_tail_are_kept_and_the_rest_is_counted() {
    let text: String = (0..10_000).map(|line| format!("line {line}\n")).collect();
    let cut = truncate(&text, 4_096);
    assert!(cut.len() <= 4_096);
    let (head, rest) = cut.split_once("\n\n[").unwrap();
    let (marker, tail) = rest.split_once("]\n\n").unwrap();
    assert!(text.starts_with(head) && text.ends_with(tail));
    assert_eq!((head.len(), tail.len()), (2_560, 1_280));
    assert!(marker.starts_with(&format!("{} bytes are left out", text.len() - head.len() - tail.len())), "{marker}");
    assert!(marker.len() + 6 <= MARKER_BYTES_MAX);
}

/// An output keeps whole lines, one to two, and one line says which are missing and what to do.
#[test]
fn an_output_keeps_the_lines_of_both_ends() {
    let text: String = (1..=10_000).map(|line| format!("line {line}\n")).collect();
    let cut = output(text.clone().into_bytes(), 48 * 1024, "Look there.").text;
    assert!(cut.len() <= 48 * 1024);
    let (head, rest) = cut.split_once('[').unwrap();
    let (marker, tail) = rest.split_once("]\n").unwrap();
    assert!(text.starts_with(head) && text.ends_with(tail));
    assert!(head.ends_with('\n') && tail.starts_with("line "));
    assert!((16_200..=16_384).contains(&head.len()) && (32_500..=32_768).contains(&tail.len()));
    let missing = text.len() - head.len() - tail.len();
    let first = head.lines().count() + 1;
    let last = 10_000 - tail.lines().count();
    assert_eq!(marker, format!("{missing} bytes are left out here: lines {first} to {last}. Look there."));
    let one_line = output(vec![b'x'; 5_000], 1_024, "Look there.").text;
    let (head, rest) = one_line.split_once("\n[4232 bytes are left out here: lines 1 to 1. Look there.]\n").unwrap();
    assert_eq!((head.len(), rest.len()), (256, 512));
}

/// CL62: a tiny budget cuts hard, on a character.
#[test]
fn a_tiny_budget_keeps_the_beginning_alone() {
    let text = "é".repeat(1_000);
    assert_eq!(truncate(&text, 5), "éé");
    assert_eq!(truncate(&text, 1), "");
    assert_eq!(truncate(&text, 512), "é".repeat(256));
    assert!(truncate(&text, 513).contains("left out"));
}

/// Bytes that are no text are replaced for the model and kept exactly beside it.
#[test]
fn bytes_that_are_no_text_are_kept() {
    let shown = |bytes: &[u8]| {
        let output = output(bytes.to_vec(), 0, ASK_FOR_LESS);
        assert!(output.full.as_ref().is_none_or(|full| *full == Blob::from(bytes)));
        (output.text, output.full.is_some())
    };
    assert_eq!(shown(b""), (String::new(), false));
    assert_eq!(shown("plain, naïve, 日本\u{fffd}".as_bytes()), ("plain, naïve, 日本\u{fffd}".into(), false));
    assert_eq!(shown(b"a\xff\xfeb"), ("a\u{fffd}\u{fffd}b".into(), true));
    assert_eq!(shown(b"cut \xe6\x97"), ("cut \u{fffd}".into(), true));
    assert_eq!(shown(b"a\0b"), ("a␀b".into(), true));
}

/// W19: what is cut is kept whole beside the text.
#[test]
fn truncated_output_keeps_its_full_bytes() {
    let bytes = vec![b'x'; 5_000];
    let cut = output(bytes.clone(), 1_000, ASK_FOR_LESS);
    assert!(cut.text.len() <= 1_000 && cut.text.contains("left out"));
    assert_eq!(cut.full, Some(bytes.clone().into()));
    let whole = output(bytes, 5_000, ASK_FOR_LESS);
    assert_eq!((whole.text.len(), whole.full), (5_000, None));
}

proptest! {
    /// CL62: any bytes, any budget: the text is within it, has no NUL, and nothing is lost beside it.
    #[test]
    fn any_output_is_bounded_and_lossless(bytes in prop::collection::vec(any::<u8>(), 0..3_000), budget in 1..4_000_usize) {
        let output = output(bytes.clone(), budget, ASK_FOR_LESS);
        prop_assert!(output.text.len() <= budget);
        prop_assert!(!output.text.contains('\0'));
        prop_assert_eq!(output.full.unwrap_or_else(|| output.text.into_bytes().into()), Blob::from(bytes));
    }

    #[test]
    fn any_text_is_cut_on_characters(text in "[aé日🦀\n]{0,1500}", budget in 1..4_000_usize) {
        let cut = truncate(&text, budget);
        prop_assert!(cut.len() <= budget);
        if text.len() <= budget {
            prop_assert_eq!(cut.as_ref(), text.as_str());
        }
    }
}
