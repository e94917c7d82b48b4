//! What the stand-in says when nobody wrote it a script.
//!
//! A newcomer without a key should get a chat that feels like one: it thinks, looks something up if there is a tool,
//! uses what it found, answers, and is honest about what it is. A test wants words it can count instead. Both are parts
//! played from what was [`Heard`], and both go on with a broken answer as a model would, sometimes saying the last words
//! again.

mod drill;
mod input;
#[cfg(test)]
mod tests;

use std::time::Duration;

use everturn_core::message::Stop;

use crate::cue::{Cue, Script, call, reasoning, script, sealed, stop, text, usage};
use crate::dice::Dice;
use crate::heard::{Heard, Offered};
use crate::play::Understudy;

/// How a part is played.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// How long it takes over a word.
    pub pace: Duration,
    /// What chance begins with.
    pub seed: u64,
}

impl Default for Manner {
    fn default() -> Self {
        Self { pace: Duration::from_millis(15), seed: 0 }
    }
}

/// The most tokens of a numbered answer.
const TOKENS_MAX: usize = 100_000;
/// How many tokens it has if the prompt names no number.
const TOKENS: usize = 20;
/// How many words it says again when it goes on, if it does. Fewer could be the text repeating itself, and nobody could
/// tell.
const AGAIN: std::ops::Range<u64> = 8..12;
/// The most bytes of somebody else's words it quotes.
const QUOTE_BYTES_MAX: usize = 300;

impl Understudy {
    /// One that answers by itself: it thinks, tries a tool, and says what it is and what it heard.
    #[must_use]
    pub fn persona() -> Self {
        Self::persona_with(Manner::default())
    }

    /// The same, in another manner.
    #[must_use]
    pub fn persona_with(manner: Manner) -> Self {
        Self::hearing(move |heard| answer(heard, manner))
    }

    /// One that answers `t1 t2 t3 …`, so that what is lost, doubled or out of order shows. How many is the first number
    /// in what the person said.
    #[must_use]
    pub fn numbered(manner: Manner) -> Self {
        Self::hearing(move |heard| numbered(heard, manner))
    }

    /// One that says what the prompt orders: thoughts (`r1..r20`), words (`t1..t80`) and calls (`note:7`), in any
    /// sentence, so that everything an answer can hold can be counted.
    #[must_use]
    pub fn drill(manner: Manner) -> Self {
        Self::hearing(move |heard| drill::drill(heard, manner))
    }

    /// One that answers by itself, by the model it is asked for: `numbered…` as [`Understudy::numbered`], `drill…` as
    /// [`Understudy::drill`], any other as [`Understudy::persona`].
    #[must_use]
    pub fn company(manner: Manner) -> Self {
        Self::hearing(move |heard| match &heard.model {
            model if model.starts_with("numbered") => numbered(heard, manner),
            model if model.starts_with("drill") => drill::drill(heard, manner),
            _ => answer(heard, manner),
        })
    }
}

fn numbered(heard: &Heard, manner: Manner) -> Script {
    let whole = tokens(count(&heard.words));
    speak(&[], rest(&whole, heard, manner), heard, manner)
}

/// The numbers from one to `count`, as words.
fn tokens(count: usize) -> String {
    let tokens: Vec<String> = (1..=count).map(|number| format!("t{number}")).collect();
    tokens.join(" ")
}

fn count(words: &str) -> usize {
    let digits = words.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty());
    digits.map_or(TOKENS, |digits| digits.parse().unwrap_or(TOKENS_MAX)).clamp(1, TOKENS_MAX)
}

fn answer(heard: &Heard, manner: Manner) -> Script {
    if heard.results.is_empty()
        && heard.half_said.is_empty()
        && let Some(tool) = choose(heard)
    {
        return try_tool(tool, heard, manner);
    }
    let found: String =
        heard.results.iter().map(|told| format!("{} said: {}\n\n", name(&told.tool), quote(&told.text))).collect();
    let whole = format!(
        "I am the understudy: I stand in for a model so that everything around it can be tried without a key. \
         You said: {}\n\n{found}Give an agent a real model and this chat goes on with it.",
        if heard.words.is_empty() { "nothing" } else { quote(&heard.words) }
    );
    let thought =
        if heard.half_said.is_empty() { think("Nobody gave me a script, so I say who I am.") } else { vec![] };
    speak(&thought, rest(&whole, heard, manner), heard, manner)
}

fn try_tool(tool: &Offered, heard: &Heard, manner: Manner) -> Script {
    let input = input::plausible(&tool.schema, &heard.words);
    let said = format!("Let me try {}.", tool.name);
    let spoken = paced(&said, manner);
    let end = [call(&tool.name, input.clone()), spent(heard, &said), stop(Stop::ToolUse)];
    let thought = think(&format!("There is a tool called {}; a real model would look.", tool.name));
    script(thought.into_iter().chain(spoken).chain(end))
}

/// The tool the person spoke of, else the first.
fn choose(heard: &Heard) -> Option<&Offered> {
    let words = heard.words.to_lowercase();
    let named = heard.tools.iter().find(|tool| !tool.name.is_empty() && words.contains(&tool.name.to_lowercase()));
    // One that is offered only because past calls must have some tool is not to be called.
    named.or_else(|| heard.tools.iter().find(|tool| tool.name != "unavailable"))
}

fn think(thought: &str) -> Vec<Cue> {
    vec![reasoning(thought), sealed("dW5kZXJzdHVkeQ==")]
}

/// What is still to be said of `whole`. One that goes on says, now and then, the last words again, or tells all of it anew.
fn rest<'a>(whole: &'a str, heard: &Heard, manner: Manner) -> &'a str {
    let Some(left) = whole.strip_prefix(heard.half_said.as_str()) else { return whole };
    if heard.half_said.is_empty() {
        return left;
    }
    let mut dice = Dice::about(manner.seed, &heard.half_said);
    let again = match dice.below(8) {
        0..4 => 0,
        4..7 => AGAIN.start + dice.below(AGAIN.end - AGAIN.start),
        _ => return whole,
    };
    let said = whole[..heard.half_said.len()].trim_end();
    let from = said.rmatch_indices(' ').nth((again as usize).saturating_sub(1)).map(|(at, _)| at + 1);
    match (again, from) {
        (0, _) | (_, None) => left,
        (_, Some(from)) => &whole[from..],
    }
}

fn speak(thought: &[Cue], words: &str, heard: &Heard, manner: Manner) -> Script {
    let end = [spent(heard, words), stop(Stop::End)];
    script(thought.iter().cloned().chain(paced(words, manner)).chain(end))
}

fn paced(words: &str, manner: Manner) -> Vec<Cue> {
    let spoken = words.split_inclusive(' ').flat_map(|word| [text(word), Cue::Wait(manner.pace)]);
    spoken.filter(|cue| !matches!(cue, Cue::Wait(Duration::ZERO))).collect()
}

fn spent(heard: &Heard, words: &str) -> Cue {
    usage(heard.bytes as u64 / 4, words.split(' ').count() as u64)
}

fn name(tool: &str) -> &str {
    if tool.is_empty() { "The tool" } else { tool }
}

fn quote(text: &str) -> &str {
    let text = text.trim();
    &text[..text.floor_char_boundary(QUOTE_BYTES_MAX)]
}
