//! An answer made to order, in which everything can be counted.
//!
//! A test that nothing is lost needs answers with everything in them: thoughts, words, calls beside each
//! other, words after their results. The prompt says what to say, in any sentence: `r1..r20` are thoughts,
//! `t1..t80` words, `note:7` is a call of the tool `note` with the number 7. Words that come after the calls
//! are said when these have results.

use everturn_core::message::Stop;
use serde_json::json;

use super::{Manner, rest, spent, think};
use crate::cue::{Cue, Script, call, reasoning, script, stop, text};
use crate::heard::Heard;

/// The most tokens of one span.
const SPAN_MAX: u64 = 100_000;

/// What the prompt asks for.
#[derive(Debug, PartialEq, Eq, Default)]
struct Order {
    thoughts: String,
    before: String,
    calls: Vec<(String, u64)>,
    after: String,
}

impl Order {
    fn read(words: &str) -> Self {
        let mut order = Self::default();
        for word in words.split_whitespace().map(|word| word.trim_end_matches([',', '.', ';'])) {
            if let Some((tool, number)) = word.split_once(':').and_then(|(tool, n)| Some((tool, n.parse().ok()?))) {
                order.calls.push((tool.into(), number));
            } else if let Some(said) = span('r', word) {
                order.thoughts = said;
            } else if let Some(said) = span('t', word) {
                let place = if order.calls.is_empty() { &mut order.before } else { &mut order.after };
                *place = said;
            }
        }
        order
    }
}

/// `t3..t5` as `t3 t4 t5`.
fn span(letter: char, word: &str) -> Option<String> {
    let (from, to) = word.split_once("..")?;
    let number = |end: &str| end.strip_prefix(letter)?.parse::<u64>().ok();
    let (from, to) = (number(from)?, number(to)?);
    let tokens: Vec<String> =
        (from..=to.min(from.saturating_add(SPAN_MAX))).map(|number| format!("{letter}{number}")).collect();
    Some(tokens.join(" "))
}

/// What is still to be said of what was ordered.
pub(super) fn drill(heard: &Heard, manner: Manner) -> Script {
    let order = Order::read(&heard.words);
    // Results come in the order of the calls, so those that are missing are the last ones.
    let calls = order.calls.get(heard.results.len()..).unwrap_or_default();
    if calls.is_empty() {
        let whole = if order.calls.is_empty() { &order.before } else { &order.after };
        let thoughts = if heard.results.is_empty() { order.thoughts.as_str() } else { "" };
        let said = rest(whole, heard, manner);
        return script(spoken(thoughts, said, heard, manner).into_iter().chain([spent(heard, said), stop(Stop::End)]));
    }
    let (thoughts, said) = match heard.results.len() {
        0 => (order.thoughts.as_str(), rest(&order.before, heard, manner)),
        _ => ("", ""),
    };
    let called = calls.iter().flat_map(|(tool, number)| called(tool, *number, manner));
    let end = [spent(heard, said), stop(Stop::ToolUse)];
    script(spoken(thoughts, said, heard, manner).into_iter().chain(called).chain(end))
}

/// Thoughts, if the answer begins here, and words.
fn spoken(thoughts: &str, said: &str, heard: &Heard, manner: Manner) -> Vec<Cue> {
    let mut cues = Vec::new();
    if heard.half_said.is_empty() && !thoughts.is_empty() {
        cues.extend(thoughts.split_inclusive(' ').flat_map(|word| [reasoning(word), Cue::Wait(manner.pace)]));
        cues.extend(think("").pop());
    }
    for word in said.split_inclusive(' ') {
        // In two pieces, so that whatever happens between two events can happen in the middle of a word.
        let middle = word.trim_end().len().saturating_sub(1);
        cues.extend(
            [&word[..middle], &word[middle..]].iter().filter(|piece| !piece.is_empty()).map(|piece| text(*piece)),
        );
        cues.push(Cue::Wait(manner.pace));
    }
    cues
}

/// A call with input that takes as long as a word.
fn called(tool: &str, number: u64, manner: Manner) -> Vec<Cue> {
    let Cue::Say(mut begun) = call(tool, json!({"number": number, "line": format!("line {number} of the drill")}))
    else {
        return Vec::new();
    };
    let rest = begun.split_off(begun.len() / 2);
    vec![Cue::Say(begun), Cue::Wait(manner.pace), Cue::Say(rest), Cue::Wait(manner.pace)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use everturn_core::delta::Delta;
    use everturn_core::seam;

    use super::*;
    use crate::heard::ToolAnswer;

    const QUICK: Manner = Manner { pace: Duration::ZERO, seed: 0 };
    const ORDER: &str = "Think r1..r3, say t1..t12, call note:1, look:2 and note:3, then say t13..t15.";

    /// What a script says, thoughts in brackets.
    fn told(script: &Script) -> String {
        let deltas = script.iter().filter_map(|cue| match cue {
            Cue::Say(deltas) => Some(deltas),
            _ => None,
        });
        let told = deltas.flatten().map(|delta| match delta {
            Delta::Text(text) => text.clone(),
            Delta::Reasoning(text) => format!("({text})"),
            Delta::CallBegan(call) => format!(" {}", call.tool),
            Delta::CallInput { json, .. } => json.clone(),
            _ => String::new(),
        });
        told.collect()
    }

    fn hears(half_said: &str, results: usize) -> Heard {
        let results = vec![ToolAnswer::default(); results];
        Heard { words: ORDER.into(), half_said: half_said.into(), results, ..Heard::default() }
    }

    #[test]
    fn everything_is_said_in_its_step() {
        let first = told(&drill(&hears("", 0), QUICK));
        assert!(first.starts_with("(r1 )(r2 )(r3)t1 t2 t3"), "{first}");
        assert!(first.contains("t12 note{") && first.contains("\"number\":1}") && first.contains("look{"), "{first}");
        assert_eq!(first.matches("note{").count(), 2);
        let rest = told(&drill(&hears("", 1), QUICK));
        assert!(rest.starts_with(" look{") && !rest.contains("\"number\":1}"), "calls that were cut off: {rest}");
        assert_eq!(told(&drill(&hears("", 3), QUICK)), "t13 t14 t15");
    }

    #[test]
    fn a_broken_answer_goes_on_and_its_calls_follow() {
        let whole = "t1 t2 t3 t4 t5 t6 t7 t8 t9 t10 t11 t12";
        for seed in 0..8 {
            for cut in 1..=whole.len() {
                let heard = hears(whole[..cut].trim_end(), 0);
                let said = told(&drill(&heard, Manner { seed, ..QUICK }));
                let (words, calls) = said.split_once(" note{").unwrap();
                assert!(!words.contains("r1") && calls.contains("look{"), "{said}");
                assert_eq!(format!("{}{}", &whole[..cut], seam::join(&whole[..cut], words).text), whole, "{said}");
            }
        }
    }

    #[test]
    fn orders_are_read_from_any_sentence() {
        let order = Order::read("t1..t2 and 7..9 r1 a:b t5..t4");
        assert_eq!(order, Order::default(), "the last span is empty");
        assert_eq!(span('t', "t1..t99999999999").unwrap().split(' ').count() as u64, SPAN_MAX + 1);
    }
}
