//! The table says what is right; the properties say what never happens.

mod examples;
mod generated;
mod texts;

use super::repeat::{Inside, Overlap, overlap};
use super::*;
use examples::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::cell::Cell;

fn all_examples() -> impl Iterator<Item = &'static Example> {
    [PROSE, REPETITIONS, NUMBERS, LISTS, TABLES, JSON, CODE, FENCES, SCRIPTS].into_iter().flatten()
}

/// As a stream would have it. The second value is how many bytes had arrived at the decision.
fn stream<'a>(shown: &str, deltas: impl IntoIterator<Item = &'a str>) -> (Joined, usize) {
    let mut joiner = Joiner::new(shown);
    let mut read = 0;
    let mut deltas = deltas.into_iter();
    let mut decided = None;
    for delta in deltas.by_ref() {
        read += delta.len();
        decided = joiner.push(delta);
        if decided.is_some() {
            break;
        }
    }
    let mut joined = decided.unwrap_or_else(|| joiner.finish());
    joined.text.extend(deltas);
    (joined, read)
}

/// One character at a time.
fn letters(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(|_: char| true)
}

#[test]
fn every_example_reads_as_it_should() {
    let wrong: Vec<String> = all_examples()
        .filter_map(|(name, shown, continuation, whole)| {
            let read = format!("{shown}{}", join(shown, continuation).text);
            (read != *whole).then(|| format!("{name}\n  want {whole:?}\n  got  {read:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(all_examples().count() >= 70);
}

#[test]
fn examples_do_not_depend_on_where_the_stream_was_cut() {
    for (name, shown, continuation, _) in all_examples() {
        let whole = join(shown, continuation);
        assert_eq!(stream(shown, letters(continuation)).0, whole, "{name}, letter by letter");
        for (cut, _) in continuation.char_indices() {
            let (one, two) = continuation.split_at(cut);
            assert_eq!(stream(shown, [one, two]).0, whole, "{name}, cut at byte {cut}");
        }
    }
}

#[test]
fn text_far_away_makes_no_difference() {
    let far = "It was a dark and stormy night.\n".repeat(100);
    for (name, shown, continuation, whole) in [LISTS, TABLES, JSON, SCRIPTS].into_iter().flatten() {
        let read = format!("{far}{shown}{}", join(&format!("{far}{shown}"), continuation).text);
        // What was said is all there was: begun anew, which is evidence of its own.
        if !whole.starts_with(continuation) {
            assert_eq!(read, format!("{far}{whole}"), "{name}");
        }
    }
}

#[test]
fn the_seam_is_recorded() {
    let joined = join("See the quick bro", "brown fox.");
    assert_eq!(joined, Joined { text: "wn fox.".into(), seam: Seam { at: 17, dropped: 3, inserted: 0, unmatched: 0 } });
    let joined = join("Here:", "```rust\nfn");
    assert_eq!(
        joined,
        Joined { text: "\n```rust\nfn".into(), seam: Seam { at: 5, dropped: 0, inserted: 1, unmatched: 0 } }
    );
}

#[test]
fn without_a_repeat_little_is_held_back() {
    let shown = "The tide pools at low water hold more than a visitor expects: anemones, chitons, and";
    for continuation in [" the occasional octopus.", "\n\nThe end.", " chromodorids of all colours.", "roid algae."] {
        let (joined, read) = stream(shown, letters(continuation));
        assert_eq!(joined.text, continuation);
        assert!(read <= 24, "{continuation:?} was held back for {read} bytes");
    }
}

#[test]
fn after_the_decision_text_passes_unchanged() {
    let mut joiner = Joiner::new("See the quick bro");
    assert_eq!(joiner.push("bro"), None);
    assert_eq!(joiner.push("wn fox").map(|joined| joined.text), Some("wn fox".into()));
    assert_eq!(joiner.push("bro").map(|joined| joined.text), Some("bro".into()));
    assert_eq!(joiner.finish().text, "");
}

#[test]
fn a_fence_opened_long_ago_is_remembered() {
    let shown = format!("```rust\n{}", "let x = call();\n".repeat(1000));
    let joined = join(&shown, "```rust\nlet y = other();\n```\n");
    assert_eq!(joined.text, "let y = other();\n```\n");
    let closed = format!("{shown}```\nSo much for that.\n\n");
    assert_eq!(join(&closed, "```rust\nlet y = other();\n").seam.dropped, 0);
}

#[test]
fn hostile_text_is_neither_dropped_nor_hoarded() {
    for unit in ["a", " ", "\n", "`", "#", "ab", "é", "👨\u{200d}", "\u{301}", "🇫", "- ", "(", "\"", "0"] {
        let shown = unit.repeat(5000);
        let continuation = unit.repeat(5000);
        let (joined, read) = stream(&shown, letters(&continuation));
        assert!(read < HEAD_BYTES_MAX + 8, "{unit:?} was held back for {read} bytes");
        assert_eq!(joined, join(&shown, &continuation), "{unit:?}");
        let kept = joined.text.len() + joined.seam.dropped;
        assert_eq!(kept, continuation.len() + joined.seam.inserted, "{unit:?}");
    }
}

/// Blank text decides nothing, however much of it comes: only the bound on held text ends the wait. Without the bound a
/// stream of spaces is held for ever.
#[test]
fn an_undecided_head_is_held_up_to_its_bound() {
    let shown = "The tide pools at low water hold more than a visitor expects: anemones, chitons, and";
    for unit in [" ", "\n", " \n"] {
        let endless = unit.repeat(20_000);
        let (joined, read) = stream(shown, letters(&endless));
        assert!(read >= HEAD_BYTES_MAX, "{unit:?} was decided after {read} bytes, not by the bound");
        assert!(read <= HEAD_BYTES_MAX + shown.len(), "{unit:?} was held back for {read} bytes");
        assert_eq!(joined.text.len() + joined.seam.dropped, endless.len() + joined.seam.inserted, "{unit:?}");
    }
}

/// A byte that counts how often it is compared.
struct Counted<'a>(u8, &'a Cell<usize>);

impl PartialEq for Counted<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.1.set(self.1.get() + 1);
        self.0 == other.0
    }
}

#[test]
fn finding_an_overlap_is_linear_work() {
    let hostile: [fn(usize) -> u8; 4] = [
        |_| b'a',
        |at| if at % 2 == 0 { b'a' } else { b'b' },
        |at| if at % 512 == 511 { b'b' } else { b'a' },
        |at| if at.is_power_of_two() { b'b' } else { b'a' },
    ];
    for tail in hostile {
        for head in hostile {
            let compared = Cell::new(0);
            let tail: Vec<_> = (0..HEAD_BYTES_MAX).map(|at| Counted(tail(at), &compared)).collect();
            let head: Vec<_> = (0..HEAD_BYTES_MAX).map(|at| Counted(head(at), &compared)).collect();
            overlap(&tail, &head);
            assert!(compared.get() <= 3 * (tail.len() + head.len()), "{} comparisons", compared.get());
        }
    }
}

#[test]
fn looking_letter_by_letter_is_linear_work() {
    let looks = std::iter::successors(Some(1), |len| (*len < HEAD_BYTES_MAX).then(|| next_look(*len)));
    let work: usize = looks.sum();
    assert!(work <= 6 * HEAD_BYTES_MAX, "{work} bytes looked at");
}

/// The definition, word for word.
fn overlap_by_definition(tail: &[u8], head: &[u8]) -> (Overlap, Inside) {
    let len = (0..=head.len().min(tail.len())).rev().find(|len| tail.ends_with(&head[..*len])).unwrap_or(0);
    let repeats = |period: &usize| head[..len].iter().zip(&head[*period..len]).all(|(a, b)| a == b);
    let period = (1..=len).find(repeats).unwrap_or(0);
    let ends = (0..tail.len()).any(|end| tail[..end].ends_with(head));
    (Overlap { len, period }, if ends { Inside::Yes } else { Inside::No })
}

/// Pieces of everything the rules look at, in any order.
fn soup() -> impl Strategy<Value = String> {
    const PIECES: &str = "the ¦quick¦bro¦ha¦ ¦\n¦\n\n¦    ¦```¦```rust\n¦~~~¦- ¦3. ¦## ¦| a ¦|¦\"b¦\"¦: ¦, ¦12¦(¦<¦}¦é¦\
        e\u{301}¦\u{301}¦漢字¦かな¦👨\u{200d}👩¦\u{200d}¦🇫¦❤¦\u{fe0f}¦**¦`";
    let pieces: Vec<&str> = PIECES.split('¦').collect();
    prop::collection::vec(prop::sample::select(pieces), 0..14).prop_map(|pieces| pieces.concat())
}

/// What was shown, and a continuation that may repeat the end of it.
fn seams() -> impl Strategy<Value = (String, String)> {
    (soup(), soup(), any::<prop::sample::Index>(), any::<bool>()).prop_map(|(shown, rest, from, repeats)| {
        let from = shown.floor_char_boundary(from.index(shown.len() + 1));
        let continuation = if repeats { format!("{}{rest}", &shown[from..]) } else { rest };
        (shown, continuation)
    })
}

/// What stands behind the fence line a text begins with.
fn after_fence(text: &str) -> &str {
    let line = text.trim_start();
    if line.starts_with("```") || line.starts_with("~~~") {
        line.split_once('\n').map_or("", |(_, rest)| rest)
    } else {
        text
    }
}

/// Words of which none is like another, as prose and as lines. Three of them are at least `SURE_MIN`.
fn distinct_words(separator: &'static str) -> impl Strategy<Value = Vec<String>> {
    let words: Vec<String> = ('a'..='t').map(|c| format!("{c}{}{separator}", "uvwxyz".repeat(2))).collect();
    Just(words).prop_shuffle()
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 400, failure_persistence: None, rng_seed: RngSeed::Fixed(0x5EA3), ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn joining_does_not_depend_on_where_the_stream_was_cut(
        (shown, continuation) in seams(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> =
            cuts.iter().map(|cut| continuation.floor_char_boundary(cut.index(continuation.len() + 1))).collect();
        cuts.extend([0, continuation.len()]);
        cuts.sort_unstable();
        let deltas = cuts.windows(2).map(|cut| &continuation[cut[0]..cut[1]]);
        let whole = join(&shown, &continuation);
        prop_assert_eq!(&stream(&shown, deltas).0, &whole);
        prop_assert_eq!(&stream(&shown, letters(&continuation)).0, &whole);
    }

    #[test]
    fn a_seam_drops_only_repeats_of_shown_text((shown, continuation) in seams()) {
        let Joined { text, seam } = join(&shown, &continuation);
        prop_assert_eq!(seam.at, shown.len());
        prop_assert_eq!(&text[seam.inserted..], &continuation[seam.dropped..]);
        prop_assert!(matches!(&text[..seam.inserted], "" | "\n"));
        let dropped = &continuation[..seam.dropped];
        let was_shown = |part: &str| shown.trim_end().ends_with(part.trim());
        prop_assert!(was_shown(dropped) || was_shown(after_fence(dropped)), "dropped {dropped:?}");
    }

    #[test]
    fn the_rest_never_begins_inside_a_glyph_unless_shown_ended_there((shown, continuation) in seams()) {
        let Joined { text, seam } = join(&shown, &continuation);
        if seam.dropped > 0 && text.starts_with(glyph::extends) {
            prop_assert!(shown.ends_with(continuation[..seam.dropped].trim_start()));
        }
    }

    #[test]
    fn text_without_a_common_letter_is_never_dropped(shown in "[a-m,. 0-4\n]{0,60}", continuation in "[n-zA-Z;:5-9]{0,60}") {
        let joined = join(&shown, &continuation);
        prop_assert_eq!(joined.seam.dropped, 0);
        prop_assert_eq!(joined.text, continuation);
    }

    #[test]
    fn a_text_without_repetition_goes_on_untouched(words in distinct_words(" "), at in any::<prop::sample::Index>()) {
        let text = words.concat();
        let (shown, rest) = text.split_at(at.index(text.len()));
        prop_assert_eq!(join(shown, rest).text, rest);
    }

    #[test]
    fn a_long_repeat_is_always_found(
        lines in any::<bool>(),
        (prose, code) in (distinct_words(" "), distinct_words("();\n")),
        at in any::<prop::sample::Index>(),
        back in any::<prop::sample::Index>(),
    ) {
        let words = if lines { code } else { prose };
        let text = words.concat();
        // From the beginning of a word two whole words are enough, from the middle of one four.
        let width = words[0].len();
        let at = 5 * width + at.index(text.len() - 5 * width);
        let from = back.index(at - 5 * width + 1);
        let (shown, rest) = text.split_at(at);
        prop_assert_eq!(join(shown, &text[from..]).text, rest, "from {}", from);
        let from = (at / width - 2) * width;
        prop_assert_eq!(join(shown, &text[from..]).text, rest, "two words, from {}", from);
    }

    #[test]
    fn a_word_begun_again_is_always_found(words in distinct_words(" "), at in any::<prop::sample::Index>()) {
        let text = words.concat();
        let at = at.index(text.len());
        let from = at - at % words[0].len();
        let (shown, rest) = text.split_at(at);
        let begun = &text[from..at];
        if begun.len() >= 3 && !begun.ends_with(' ') {
            prop_assert_eq!(join(shown, &text[from..]).text, rest);
        }
    }

    #[test]
    fn overlaps_are_as_defined(tail in "[ab]{0,12}", head in "[ab]{0,12}") {
        prop_assert_eq!(
            overlap(tail.as_bytes(), head.as_bytes()),
            overlap_by_definition(tail.as_bytes(), head.as_bytes()),
            "{} and {}", tail, head
        );
    }
}
