//! The ways in which sessions were broken, each named after what people reported.

use super::talk::{Called, Dice, Said, Talk, Thought};

/// What a signature was cut to.
pub const CUT_SIGNATURE: &str = "Y3V0LW9mZi1pbi10aGUtbWlkZGxlLW9mLWEtcmVhbC1vbmU";

/// A way to break a session.
pub struct Shape {
    pub name: &'static str,
    /// Whether Anthropic refuses it as it is. Where not, another wire does, or the model is misled.
    pub is_refused: bool,
    /// Whether there is something to mend, as opposed to something that is not sent.
    pub found: Found,
    pub make: fn(&mut Talk, &mut Dice),
}

/// In which formats there is something to mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    Everywhere,
    /// Where reading does not settle it.
    Somewhere,
    Nowhere,
}

const fn refused(name: &'static str, make: fn(&mut Talk, &mut Dice)) -> Shape {
    Shape { name, is_refused: true, found: Found::Everywhere, make }
}

/// A shape that only some notice.
const fn quiet(name: &'static str, make: fn(&mut Talk, &mut Dice)) -> Shape {
    Shape { name, is_refused: false, found: Found::Nowhere, make }
}

/// All of them.
pub const SHAPES: &[Shape] = &[
    refused("a crash in the middle of a tool", |talk, dice| {
        let at = talk.a_result(dice);
        talk.0.remove(at);
    }),
    refused("a step without any result", |talk, dice| {
        let at = talk.a_step(dice);
        let end = talk.0.iter().skip(at + 1).position(|said| !matches!(said, Said::Result { .. }));
        talk.0.drain(at + 1..end.map_or(talk.0.len(), |end| at + 1 + end));
    }),
    refused("a last step that was cut by a crash", |talk, dice| {
        let at = talk.a_step(dice);
        talk.0.truncate(at + 1);
    }),
    refused("a result whose call was pruned", |talk, dice| {
        let at = talk.a_step(dice);
        talk.0.remove(at);
    }),
    refused("half of the calls pruned", |talk, dice| {
        let at = talk.a_step(dice);
        if let Said::Reply { calls, .. } = &mut talk.0[at] {
            calls.remove(0);
        }
    }),
    refused("an approval that wrote only the output", |talk, dice| {
        let at = talk.a_step(dice);
        talk.0.insert(at, Said::Result { id: "toolu_approved".into(), text: "approved".into() });
    }),
    refused("turns that were written into each other", |talk, dice| {
        let at = talk.a_step(dice);
        talk.0.insert(at + 1, Said::User("Are you there?".into()));
        talk.0.insert(at + 2, Said::Reply { thoughts: Vec::new(), text: "Yes.".into(), calls: Vec::new() });
    }),
    refused("a result in another turn", |talk, dice| {
        let at = talk.a_result(dice);
        let result = talk.0.remove(at);
        talk.say("Next.");
        talk.0.push(result);
    }),
    refused("a result before its call", |talk, dice| {
        let at = talk.a_result(dice);
        let result = talk.0.remove(at);
        talk.0.insert(0, result);
    }),
    refused("a result that was written twice", |talk, dice| {
        let at = talk.a_result(dice);
        let again = talk.0[at].clone();
        talk.0.insert(at, again);
    }),
    refused("a retry that wrote another result", |talk, dice| {
        let at = talk.a_result(dice);
        let Said::Result { id, .. } = talk.0[at].clone() else { return };
        talk.0.insert(at + 1, Said::Result { id, text: "something else".into() });
    }),
    refused("compaction that removed the call", |talk, dice| {
        let at = talk.a_step(dice);
        let Said::Reply { calls, .. } = talk.0[at].clone() else { return };
        talk.0.truncate(at);
        talk.0.push(Said::Summary("So far: questions.".into()));
        talk.0.push(Said::Result { id: calls[0].id.clone(), text: "late".into() });
        talk.say("Go on.");
    }),
    refused("half a call with control characters", |talk, dice| {
        let at = talk.a_step(dice);
        if let Said::Reply { calls, .. } = &mut talk.0[at] {
            calls[0].input = "{\"text\": \"a\u{7}b\u{1b}".into();
        }
    }),
    refused("a call with raw control characters", |talk, dice| {
        let at = talk.a_step(dice);
        if let Said::Reply { calls, .. } = &mut talk.0[at] {
            calls[0].input = "{\"text\": \"line\nfeed\u{2}\"}".into();
        }
    }),
    refused("salvage of an incomplete response", |talk, dice| {
        let at = talk.a_step(dice);
        if let Said::Reply { calls, .. } = &mut talk.0[at] {
            calls.push(Called { id: "toolu_half".into(), input: "{\"path\": \"/tm".into() });
        }
    }),
    refused("many orphans at once", |talk, _| {
        let mut number = 0;
        talk.0.retain(|said| {
            number += usize::from(matches!(said, Said::Result { .. }));
            !matches!(said, Said::Result { .. }) || number % 2 == 0
        });
    }),
    refused("results in a heap at the end", |talk, _| {
        let is_result = |said: &Said| matches!(said, Said::Result { .. });
        let results: Vec<Said> = talk.0.iter().filter(|said| is_result(said)).cloned().collect();
        talk.0.retain(|said| !is_result(said));
        talk.0.extend(results);
    }),
    quiet("thinking that was never signed", |talk, dice| {
        let at = talk.a_step(dice);
        if let Said::Reply { thoughts, .. } = &mut talk.0[at] {
            thoughts[0].signature.clear();
        }
    }),
    quiet("an empty message", |talk, dice| {
        let at = talk.one(dice, |said| matches!(said, Said::User(_)));
        talk.0.insert(at, Said::User(String::new()));
        talk.0.insert(at + 1, Said::Reply { thoughts: Vec::new(), text: " ".into(), calls: Vec::new() });
    }),
    quiet("a session that begins with the model", |talk, _| {
        talk.0.remove(0);
    }),
    Shape {
        name: "an id that was used for two calls",
        is_refused: true,
        found: Found::Somewhere,
        make: |talk, dice| {
            let at = talk.a_step(dice);
            if let Said::Reply { calls, .. } = &mut talk.0[at] {
                let again = calls[0].clone();
                calls.push(Called { input: "{\"n\":9}".into(), ..again });
            }
        },
    },
    refused("a truncated signature and an orphan", |talk, dice| {
        let at = talk.a_step(dice);
        if let Said::Reply { thoughts, calls, .. } = &mut talk.0[at] {
            thoughts[0].signature = CUT_SIGNATURE.into();
            calls.push(Called { id: "toolu_cut".into(), input: "{}".into() });
        }
    }),
    refused("a thousand copies and an orphan", |talk, dice| {
        let at = talk.a_step(dice);
        if let Said::Reply { thoughts, calls, .. } = &mut talk.0[at] {
            let copies: Vec<Thought> = (0..1_000).map(|_| thoughts[0].clone()).collect();
            thoughts.extend(copies);
            calls.push(Called { id: "toolu_copy".into(), input: "{}".into() });
        }
    }),
];
