//! Answers that break and go on in every way models do, by the ten thousand. What is read in the end is the answer, whole.

use super::super::fence::CodeFence;
use super::super::*;
use super::texts::{PLAIN, REPEATING};

/// How many cases each of the six tests plays: 102,000 together. `EVERTURN_SEAM_CASES`, when this is compiled, sets another
/// number.
fn cases() -> u64 {
    option_env!("EVERTURN_SEAM_CASES").map_or(17_000, |cases| cases.parse().expect("EVERTURN_SEAM_CASES is a number"))
}

/// A small generator of pseudo-random numbers (SplitMix64): the same seed gives the same case.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((x ^ (x >> 31)) % sides as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.roll(of.len())]
    }
}

/// Where a continuation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    GoesOn,
    LastWords,
    Sentence,
    TwoSentences,
    Line,
    Paragraph,
    Anew,
}

const SHAPES: [Shape; 7] =
    [Shape::GoesOn, Shape::LastWords, Shape::Sentence, Shape::TwoSentences, Shape::Line, Shape::Paragraph, Shape::Anew];

/// `t1 t2 t3 …`: loss and doubling show at once.
fn numbered(count: usize) -> String {
    (1..=count).map(|n| format!("t{n}")).collect::<Vec<_>>().join(" ")
}

/// The places between two words, in either of the ways providers divide them.
fn word_cuts(text: &str) -> Vec<usize> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let is_cut = |pair: &&[(usize, char)]| {
        let ((_, a), (_, b)) = (pair[0], pair[1]);
        a.is_whitespace() != b.is_whitespace() || glyph::is_unspaced(b)
    };
    chars.windows(2).filter(is_cut).map(|pair| pair[1].0).collect()
}

/// Where the continuation of `text`, cut at `at`, begins.
fn begins(shape: Shape, text: &str, at: usize, dice: &mut Dice) -> usize {
    let shown = &text[..at];
    let sentences = || shown.match_indices([' ', '\n']).map(|(at, _)| at + 1).filter(|at| is_sentence(&shown[..*at]));
    match shape {
        Shape::GoesOn => at,
        Shape::LastWords => {
            let back = 3 + dice.roll(8);
            let words: Vec<usize> = shown.match_indices(' ').map(|(at, _)| at + 1).collect();
            let from = words.len().checked_sub(back).map_or(0, |index| words[index]);
            // `corrected by` and `port, corrected by hand`: that may be meant.
            let last = |text: &str| text.split_whitespace().next_back().map(str::to_owned);
            if last(&shown[..from]) == last(shown) { at } else { from }
        }
        Shape::Sentence => sentences().next_back().unwrap_or(0),
        Shape::TwoSentences => sentences().rev().nth(1).unwrap_or(0),
        Shape::Line => shown.trim_end().rfind('\n').map_or(0, |at| at + 1),
        Shape::Paragraph => shown.trim_end().rfind("\n\n").map_or(0, |at| at + 2),
        Shape::Anew => 0,
    }
}

fn is_sentence(before: &str) -> bool {
    let before = before.trim_end();
    before.ends_with(['.', '!', '?']) && !before.ends_with(|c: char| c.is_ascii_digit())
}

/// One word of a repeat changed, as a model would say it a second time.
fn changed(text: &str, dice: &mut Dice) -> String {
    const OTHER: [(&str, &str); 14] = [
        (" a ", " one "),
        (" is ", " remains "),
        (" and ", ", and "),
        (" the ", " that "),
        (" not ", " hardly "),
        (" of ", " from "),
        ("\n\n", "\n"),
        (" in ", " inside "),
        (" it ", " this "),
        (" with ", " using "),
        (", ", " "),
        (" to ", " towards "),
        (". ", "! "),
        (" are ", " were "),
    ];
    let (from, to) = *dice.pick(&OTHER);
    let end = text.floor_char_boundary(text.len().saturating_sub(40));
    let places: Vec<usize> = text[..end].match_indices(from).map(|(at, _)| at).collect();
    if places.is_empty() {
        return text.to_owned();
    }
    let at = *dice.pick(&places);
    format!("{}{to}{}", &text[..at], &text[at + from.len()..])
}

/// Streams a continuation in pieces of random size. What was shown of it when it broke off at its end, or ended there.
fn streamed(shown: &str, continuation: &str, breaks: bool, dice: &mut Dice) -> String {
    let mut joiner = Joiner::new(shown);
    let mut text = String::new();
    let mut decided = false;
    let mut rest = continuation;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(1 + dice.roll(12)));
        rest = after;
        if decided {
            text.push_str(piece);
        } else if let Some(joined) = joiner.push(piece) {
            decided = true;
            text.push_str(&joined.text);
        }
    }
    if !decided && !breaks {
        text.push_str(&joiner.finish().text);
    }
    text
}

/// Plays one answer that breaks up to four times, each continuation in the shape of its turn.
fn play(whole: &str, shapes: &[Shape], light: bool, dice: &mut Dice) -> String {
    let cuts = word_cuts(whole);
    let mut shown = whole[..*dice.pick(&cuts)].to_owned();
    for (index, shape) in shapes.iter().enumerate() {
        let from = begins(*shape, whole, shown.len(), dice);
        let again = whole[from..shown.len()].trim_start();
        let again = if is_plain_repeat(again, &shown) { again } else { "" };
        // Behind a finished sentence one that is like another may well be meant.
        let words = again.split_whitespace().count();
        let is_code = CodeFence::open_at_end(&shown).is_some() && from > 0; // Records of one shape differ in a word.
        let light = light
            && words >= 12
            && !is_code
            && !again.starts_with(char::is_lowercase)
            && !shown.ends_with('\n')
            && shown.trim_end().ends_with(char::is_alphanumeric);
        let again = if light { changed(again, dice) } else { again.to_owned() };
        let continuation = format!("{again}{}", &whole[shown.len()..]);
        let last = index + 1 == shapes.len();
        let until =
            if last { continuation.len() } else { continuation.ceil_char_boundary(dice.roll(continuation.len() + 1)) };
        let more = streamed(&shown, &continuation[..until], !last, dice);
        shown.push_str(&more);
        if !last && !whole.starts_with(&shown) {
            return format!("{shown} [after break {index}, {shape:?}]");
        }
    }
    shown
}

/// Whether this is enough to be taken for a repeat: a word or two may well be meant, lines of code and finished lines more so.
fn is_plain_repeat(again: &str, shown: &str) -> bool {
    let weight = glyph::weigh(again);
    let points_min = match () {
        () if CodeFence::open_at_end(shown).is_some() || again.contains('|') => evidence::SURE_MIN,
        () => evidence::CODE_MIN,
    };
    glyph::is_name(again.trim()) || (weight.words >= 3 && weight.points >= points_min)
}

/// What differs, for people.
fn complain(failures: Vec<String>, cases: u64) {
    let few: Vec<&String> = failures.iter().take(5).collect();
    assert!(failures.is_empty(), "{} of {cases} went wrong:\n{few:#?}", failures.len());
}

fn differs(whole: &str, read: &str, seed: u64, shapes: &[Shape]) -> Option<String> {
    if whole == read {
        return None;
    }
    let same = whole.chars().zip(read.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum::<usize>();
    let from = whole.floor_char_boundary(same.saturating_sub(60));
    let around = |text: &str| text[from..text.ceil_char_boundary((same + 90).min(text.len()))].to_owned();
    Some(format!("seed {seed}, {shapes:?}\n  want …{:?}\n  read …{:?}", around(whole), around(read)))
}

fn run(texts: &[&str], shapes: &[Shape], light: bool, salt: u64) {
    let mut failures = Vec::new();
    for seed in 0..cases() {
        let mut dice = Dice(seed ^ salt);
        let whole = *dice.pick(texts);
        let breaks = 1 + dice.roll(4);
        let shapes: Vec<Shape> = (0..breaks).map(|_| *dice.pick(shapes)).collect();
        let read = play(whole, &shapes, light, &mut dice);
        failures.extend(differs(whole, &read, seed, &shapes));
    }
    complain(failures, cases());
}

#[test]
fn answers_that_break_up_to_four_times_are_read_whole() {
    run(PLAIN, &SHAPES, false, 0x01);
}

#[test]
fn numbered_answers_lose_and_double_nothing() {
    let long = numbered(400);
    run(&[&numbered(9), &numbered(60), &long], &SHAPES, false, 0x02);
}

#[test]
fn repeats_with_small_changes_are_dropped_too() {
    run(&PLAIN[..5], &[Shape::TwoSentences, Shape::Paragraph, Shape::Anew], true, 0x03);
}

#[test]
fn texts_that_repeat_themselves_go_on_untouched() {
    run(REPEATING, &[Shape::GoesOn], false, 0x04);
}

#[test]
fn texts_that_repeat_themselves_may_be_told_anew() {
    run(REPEATING, &[Shape::Anew], false, 0x05);
}

#[test]
fn every_cut_of_every_text_goes_on() {
    for whole in PLAIN.iter().chain(REPEATING) {
        for (cut, _) in whole.char_indices() {
            let (shown, rest) = whole.split_at(cut);
            assert_eq!(
                join(shown, rest).text,
                rest,
                "{:?}",
                &shown[shown.floor_char_boundary(cut.saturating_sub(60))..]
            );
        }
    }
}

#[test]
fn a_repeat_that_ends_before_the_end_of_what_was_shown_adds_nothing() {
    let mut failures = Vec::new();
    for seed in 0..cases() {
        let mut dice = Dice(seed ^ 0x06);
        let whole = *dice.pick(PLAIN);
        let cuts = word_cuts(whole);
        let at = *dice.pick(&cuts);
        let shown = &whole[..at];
        let shape = *dice.pick(&[Shape::TwoSentences, Shape::Paragraph, Shape::Anew]);
        let again = shown[begins(shape, whole, at, &mut dice)..].trim_start();
        // It ends behind a sentence: before a call, or because the model thinks that it has said all.
        let ends: Vec<usize> = again.match_indices(['.', '!', '。']).map(|(at, mark)| at + mark.len()).collect();
        let end = ends.iter().copied().rfind(|end| weighs_enough(&again[..*end]));
        let is_line = shown.rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
        let (Some(end), false) = (end, is_line) else { continue };
        let read = format!("{shown}{}", streamed(shown, &again[..end], false, &mut dice));
        failures.extend(differs(shown, &read, seed, &[shape]));
    }
    complain(failures, cases());
}

fn weighs_enough(text: &str) -> bool {
    let weight = glyph::weigh(text);
    weight.words >= 6 && weight.points >= 24 * glyph::LETTER
}
