//! What the stand-in can show to a person without a key.
//!
//! No model reads what is said to it. So it recognises a handful of wishes by their words, plays a scene for each, and
//! says which others there are. Only the words of a scene are made up: the tools, approvals, breaks and recoveries
//! around them are real.

use serde_json::{Value, json};

use super::{Part, quote};
use crate::heard::{Heard, ToolAnswer};

/// The tool that a chat with the stand-in may call at once.
pub const DICE_TOOL: &str = "roll_dice";
/// The tool that it may call once a person has allowed it.
pub const NOTE_TOOL: &str = "leave_note";

/// Longer messages are no wishes: a word in them is there by chance.
const WISH_WORDS_MAX: usize = 12;
/// How much slower than usual the slow answer is.
const SLOW: u32 = 5;
/// Where the answer breaks that does so by itself.
const BREAK: char = '‖';
/// The dice that are rolled if the person names no number, and the most.
const DICE: (u64, u64) = (2, 10);

/// What a person may want to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SceneChoice {
    Tour,
    Long,
    Dice,
    Note,
    Break,
    Slow,
}

/// The words that a wish is known by. The first wish that has one of them is meant.
const SIGNS: [(SceneChoice, &[&str]); 6] = [
    (SceneChoice::Note, &["note", "approval", "approvals", "approve", "permission", "ask me"]),
    (SceneChoice::Break, &["break", "breaks", "broken", "fault", "faults", "recover", "recovery", "retry"]),
    (SceneChoice::Slow, &["slow", "slowly", "kill", "crash", "resume"]),
    (SceneChoice::Dice, &["dice", "roll", "tool", "tools"]),
    (SceneChoice::Long, &["long", "longer", "table", "code", "headings", "markdown", "how does it work"]),
    (SceneChoice::Tour, &["tour", "help", "demo", "what can you do", "what can i do", "what is everturn", "show me"]),
];

impl SceneChoice {
    /// The wish in what a person said.
    pub(super) fn of(said: &str) -> Option<Self> {
        let said = said.to_lowercase();
        let words: Vec<&str> = said.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        if words.len() > WISH_WORDS_MAX {
            return None;
        }
        let said = format!(" {} ", words.join(" "));
        let is_meant = |(_, signs): &&(Self, &[&str])| signs.iter().any(|sign| said.contains(&format!(" {sign} ")));
        SIGNS.iter().find(is_meant).map(|(wish, _)| *wish)
    }

    /// The scene for it.
    pub(super) fn scene(self, heard: &Heard) -> Part {
        match self {
            Self::Tour => Part::said("They want to know what there is to see.", tour(heard)),
            Self::Long => {
                Part::said("Something with headings, a table and code.", include_str!("scenes/long.md").trim_end())
            }
            Self::Slow => {
                let scene = Part::said("Slowly, so that there is time.", include_str!("scenes/slow.md").trim_end());
                Part { slower: SLOW, ..scene }
            }
            Self::Break => {
                let text = include_str!("scenes/break.md").trim_end();
                let scene = Part::said("I break off in the middle.", text.replacen(BREAK, "", 1));
                Part { breaks_at: text.find(BREAK), ..scene }
            }
            Self::Dice if heard.offers(DICE_TOOL) => {
                let count = heard.words.split(|c: char| !c.is_ascii_digit()).find_map(|digits| digits.parse().ok());
                let count: u64 = count.unwrap_or(DICE.0).clamp(1, DICE.1);
                Part::calls("I roll the dice.", DICE_TOOL, json!({"count": count, "sides": 6}))
            }
            Self::Note if heard.offers(NOTE_TOOL) => {
                let said = "I would like to write a line into the file `notes.md`. That changes something on this \
                            machine, so it waits for you: allow it or not.";
                Part::calls(said, NOTE_TOOL, json!({"text": note(&heard.words)}))
            }
            Self::Dice | Self::Note => Part::said(
                "There is no tool for that.",
                "I am a stand-in, and the agent of this chat has no tool that I could call for that. The default agent \
                 of a server without a key has two: `everturn serve`, then say `dice` or `note`.",
            ),
        }
    }
}

/// What is written down: what stands behind a colon, else a line that says where it came from.
fn note(words: &str) -> Value {
    match words.split_once(':').map(|(_, text)| text.trim()).filter(|text| !text.is_empty()) {
        Some(text) => json!(quote(text)),
        None => json!("The stand-in was allowed to write this."),
    }
}

/// What is said of the results of these tools; `None` for those of others.
pub(super) fn after(results: &[ToolAnswer]) -> Option<String> {
    let told = results.last()?;
    let answer = quote(&told.text);
    match told.tool.as_str() {
        DICE_TOOL => Some(format!(
            "The dice show **{answer}**. They are real: the tool ran on the server, and its result was stored before I \
             was asked again. A stand-in would not know how to roll anything by itself.\n\nSay `note` for a tool that \
             asks you first."
        )),
        NOTE_TOOL => Some(format!(
            "The tool says: {answer}\n\nNothing ran before you decided. The question is stored like everything else: it \
             survives a restart, and any client of this chat can answer it. Here a stand-in wanted a note; with a real \
             model it might be a deployment.\n\nSay `break` to see an answer break and go on."
        )),
        _ => None,
    }
}

fn tour(heard: &Heard) -> String {
    let row = |say: &str, see: &str, look: &str| format!("| `{say}` | {see} | {look} |\n");
    let mut scenes = row("long", "headings, a table and code", "each word is stored before it is shown");
    if heard.offers(DICE_TOOL) {
        scenes += &row("dice", "a tool call", "the result is stored before I go on");
    }
    if heard.offers(NOTE_TOOL) {
        scenes += &row("note", "a call that asks you first", "it waits, also over a restart");
    }
    if super::coding::is_offered(heard) {
        scenes += &row("look around", "tools that read your workspace", "they see that directory and nothing else");
        scenes += &row("fix the failing test", "a coding session", "files, commands and changes are real");
    }
    scenes += &row("break", "a connection that breaks", "one answer, nothing lost or doubled");
    scenes += &row("slow", "an answer of a minute", "kill the server, and start it again");
    format!(
        "# A tour of Everturn\n\nI am the understudy: I **stand in for a model**, so that you can look around without a \
         key. I understand only a few words, and know a scene for each. Everything around me is the real thing.\n\n\
         | say | you see | what to notice |\n|---|---|---|\n{scenes}\n\
         While I speak you can go on typing: it is queued. You can also stop me, close the window, or pull the plug.\n\n\
         ## When you have seen enough\n\n\
         - `everturn demo` breaks everything for a minute, and proves that nothing was lost.\n\
         - `everturn replay` shows how a chat came about: attempts, breaks, tools, cost.\n\
         - With `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY` set, a real model answers, in this chat too."
    )
}
