//! What the stand-in says when nobody wrote it a script.

use everturn_core::message::Stop;
use everturn_core::prompt::{PromptPart, Request, Role};

use crate::cue::{Cue, Script, reasoning, script, sealed, stop, text, usage, wait_ms};
use crate::play::Understudy;

/// How long it takes over a word.
const PACE_MS: u64 = 15;

impl Understudy {
    /// One that answers by itself: it says what it is, and what it heard.
    #[must_use]
    pub fn persona() -> Self {
        Self::improvising(answer)
    }
}

fn answer(request: &Request) -> Script {
    let heard = heard(request);
    let words = format!(
        "I am the understudy: I stand in for a model so that everything around it can be tried without a key. \
         You said: {heard}\n\nGive an agent a real model and this chat goes on with it."
    );
    let thought = [reasoning("Nobody gave me a script, so I say who I am."), sealed("understudy")];
    let spoken = words.split_inclusive(' ').flat_map(|word| [text(word), wait_ms(PACE_MS)]).collect::<Vec<Cue>>();
    let tokens = words.split(' ').count() as u64;
    let end = [usage(request.bytes() as u64 / 4, tokens), stop(Stop::End)];
    script(thought.into_iter().chain(spoken).chain(end))
}

/// The newest words of a person.
fn heard(request: &Request) -> String {
    let people = request.entries.iter().rev().filter(|entry| entry.role == Role::User);
    let newest = people.flat_map(|entry| entry.parts.iter().rev()).find_map(|part| match part {
        PromptPart::Text(text) => Some(text.text.trim()),
        _ => None,
    });
    newest.unwrap_or("nothing").into()
}
