//! The persona: what the stand-in says without a script.
//!
//! A newcomer without a key should get a chat that feels like one: it thinks, looks something up if there is a tool,
//! uses what it found, shows a scene if it is asked for one, and is honest about what it is. A test wants words it can
//! count instead. Both are parts played from what was [`Heard`], and both go on with a broken answer as a model would,
//! sometimes saying the last words again.

mod coding;
mod drill;
mod input;
mod scenes;
#[cfg(test)]
mod tests;

use std::time::Duration;

use everturn_core::message::Stop;
use serde_json::Value;

use crate::cue::{Cue, Script, call, cut, reasoning, script, sealed, stop, text, usage};
use crate::dice::SeededDice;
use crate::heard::{Heard, OfferedTool};
use crate::play::Understudy;
use scenes::SceneChoice;
pub use scenes::{DICE_TOOL, NOTE_TOOL};

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
/// How many words it says again when it goes on, if it does. Fewer could be the text repeating itself, which
/// cannot be told apart.
const AGAIN: std::ops::Range<u64> = 8..12;
/// The longest quotation, in bytes.
const QUOTE_BYTES_MAX: usize = 300;

impl Understudy {
    /// One that answers by itself: it thinks, tries a tool, and says what it is and what it heard.
    #[must_use]
    pub fn persona() -> Self {
        Self::persona_with(Manner::default())
    }

    /// This persona in another manner.
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
    speak(rest(&whole, heard, manner), heard, manner)
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

/// One answer of the persona: what it thinks and says, and the call that follows.
#[derive(Debug, Clone, Default)]
struct Part {
    thought: String,
    text: String,
    call: Option<(String, Value)>,
    /// How many times slower than usual it is said.
    slower: u32,
    /// The byte of the text at which the stream breaks, the first time it is said.
    breaks_at: Option<usize>,
}

impl Part {
    fn said(thought: &str, text: impl Into<String>) -> Self {
        Self { thought: thought.into(), text: text.into(), slower: 1, ..Self::default() }
    }

    fn calls(text: &str, tool: &str, input: Value) -> Self {
        let thought = format!("There is a tool called {tool}; a real model would use it.");
        Self { call: Some((tool.into(), input)), ..Self::said(&thought, text) }
    }

    /// Plays it, from where it broke off.
    fn play(&self, heard: &Heard, manner: Manner) -> Script {
        let begins = heard.half_said.is_empty();
        let left = rest(&self.text, heard, manner);
        let thought = if begins { think(&self.thought) } else { Vec::new() };
        let manner = Manner { pace: manner.pace * self.slower, ..manner };
        if let Some(at) = self.breaks_at.filter(|_| begins) {
            return script(thought.into_iter().chain(breathing(&self.text[..at], manner)).chain([cut()]));
        }
        let (call, end) = match &self.call {
            Some((tool, input)) => (Some(call(tool, input.clone())), Stop::ToolUse),
            None => (None, Stop::End),
        };
        let spoken = thought.into_iter().chain(breathing(left, manner));
        script(spoken.chain(call).chain([spent(heard, left), stop(end)]))
    }
}

fn answer(heard: &Heard, manner: Manner) -> Script {
    part(heard).play(heard, manner)
}

/// What the persona makes of what it heard. The same for the same words, so that it can go on with what it began.
fn part(heard: &Heard) -> Part {
    if let Some(part) = coding::part(heard) {
        return part;
    }
    if heard.results.is_empty() {
        return match (choose(heard), SceneChoice::of(&heard.words)) {
            (Some(tool), _) => {
                let input = input::plausible(&tool.schema, &heard.words);
                Part::calls(&format!("Let me try {}.", tool.name), &tool.name, input)
            }
            (None, Some(wish)) => wish.scene(heard),
            (None, None) => Part::said("Nobody gave me a script, so I say who I am.", introduction(heard, "")),
        };
    }
    if let Some(said) = scenes::after(&heard.results) {
        return Part::said("Now I can say what came of it.", said);
    }
    let found: String =
        heard.results.iter().map(|told| format!("{} said: {}\n\n", name(&told.tool), quote(&told.text))).collect();
    Part::said("I say what the tools found.", introduction(heard, &found))
}

fn introduction(heard: &Heard, found: &str) -> String {
    let words = if heard.words.is_empty() { "nothing" } else { quote(&heard.words) };
    format!(
        "I am the understudy: I stand in for a model, and understand only a few words. You said: {words}\n\n{found}\
         Say `tour` to see what there is to see. Give an agent a real model, and this chat goes on with it."
    )
}

/// The tool the person spoke of, else the first that is not for a scene.
fn choose(heard: &Heard) -> Option<&OfferedTool> {
    let words = heard.words.to_lowercase();
    let is_for_scene = |tool: &&OfferedTool| [DICE_TOOL, NOTE_TOOL].contains(&tool.name.as_str());
    let mut tools = heard.tools.iter().filter(|tool| !is_for_scene(tool));
    let is_named = |tool: &&OfferedTool| !tool.name.is_empty() && words.contains(&tool.name.to_lowercase());
    let named = tools.clone().find(|tool| is_named(tool) && !coding::is_kept(heard, &tool.name, true));
    // One that is offered only because past calls must have some tool is not to be called.
    named.or_else(|| tools.find(|tool| tool.name != "unavailable" && !coding::is_kept(heard, &tool.name, false)))
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
    let mut dice = SeededDice::about(manner.seed, &heard.half_said);
    let again = match dice.below(8) {
        0..4 => 0,
        4..7 => AGAIN.start + dice.below(AGAIN.end - AGAIN.start),
        _ => return whole,
    };
    let said = whole[..heard.half_said.len()].trim_end();
    let from = said.rmatch_indices(' ').nth((again as usize).saturating_sub(1)).map(|(at, _)| at + 1);
    // Of tables, lists and code it repeats nothing: equal rows could be meant.
    let is_prose = |from: &usize| !said[*from..].contains(['|', '\n', '`']);
    match from.filter(is_prose) {
        Some(from) if again > 0 => &whole[from..],
        _ => left,
    }
}

fn speak(words: &str, heard: &Heard, manner: Manner) -> Script {
    script(paced(words, manner).into_iter().chain([spent(heard, words), stop(Stop::End)]))
}

fn paced(words: &str, manner: Manner) -> Vec<Cue> {
    let spoken = words.split_inclusive(' ').flat_map(|word| [text(word), Cue::Wait(manner.pace)]);
    spoken.filter(|cue| !matches!(cue, Cue::Wait(Duration::ZERO))).collect()
}

/// Words as they would come from a model: some take longer, and sentences and lines end with a rest.
fn breathing(words: &str, manner: Manner) -> Vec<Cue> {
    let mut dice = SeededDice::about(manner.seed, words);
    let spoken = words.split_inclusive([' ', '\n']).flat_map(|word| {
        let paces = match word.trim_end().chars().next_back() {
            Some('.' | '!' | '?' | ':') => 10,
            Some(',' | ';') => 5,
            None => 4,
            Some(_) => 1 + dice.below(3) as u32,
        };
        [text(word), Cue::Wait(manner.pace * paces)]
    });
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
