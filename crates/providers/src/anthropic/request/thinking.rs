//! How a model is told how hard to think.
//!
//! Three generations of models want three things: a number of tokens, a level, or nothing since they think anyway and
//! refuse to be told not to. Which is which stands in the catalogue; here are the words.

use everturn_core::prompt::{Effort, Request, ToolChoice};
use serde_json::{Value, json};

use crate::catalogue::Card;

/// What a request says about thinking.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Thought<'a> {
    /// The field `thinking`.
    pub thinking: Option<Value>,
    /// The level of effort.
    pub effort: Option<&'a str>,
    /// The beta that takes.
    pub beta: Option<&'static str>,
}

/// Needed to say what happens to thinking after earlier messages changed.
const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";

/// The least a model can be given to think with.
const BUDGET_MIN: u32 = 1024;

/// What is wanted of the model.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    On(Effort),
    Off,
    AsItLikes,
}

/// What a request says about thinking to a model of which `card` is known.
pub(super) fn of<'a>(request: &Request, card: &'a Card) -> Thought<'a> {
    let forced = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    let wish = match request.effort {
        _ if forced && card.forced_tools != Some(false) => Wish::Off, // The two exclude each other.
        Some(Effort::None) => Wish::Off,
        Some(effort) => Wish::On(effort),
        None => Wish::AsItLikes,
    };
    match card.effort.as_deref() {
        Some("budget") => Thought { thinking: budget(request.max_output, wish), ..Thought::default() },
        Some("adaptive") => adaptive(card, wish),
        _ => Thought::default(),
    }
}

/// A share of what the model may say, since thinking counts towards that.
fn budget(max_output: u32, wish: Wish) -> Option<Value> {
    let Wish::On(effort) = wish else { return None };
    let percent = match effort {
        Effort::None | Effort::Minimal => 0,
        Effort::Low => 20,
        Effort::Medium => 50,
        Effort::High => 80,
        Effort::XHigh | Effort::Max => 90,
    };
    let share = u64::from(max_output) * percent / 100;
    let tokens = u32::try_from(share).unwrap_or(u32::MAX).max(BUDGET_MIN);
    (tokens < max_output).then(|| json!({"type": "enabled", "budget_tokens": tokens}))
}

fn adaptive(card: &Card, wish: Wish) -> Thought<'_> {
    let off = card.effort_off.as_deref().unwrap_or("omit");
    match (wish, off) {
        (Wish::On(effort), _) => Thought { effort: card.level(effort), ..on(card) },
        (Wish::AsItLikes, "omit") | (Wish::Off, "omit") => Thought::default(),
        (Wish::AsItLikes, _) => on(card),
        (Wish::Off, "never") => Thought { effort: card.level(Effort::Minimal), ..on(card) },
        (Wish::Off, kind) => Thought { thinking: Some(json!({ "type": kind })), ..Thought::default() },
    }
}

/// Thinking as the model sees fit, shown as far as it will, and lost rather than refused where it no longer fits: a
/// refusal would come again with every request of the chat.
fn on(card: &Card) -> Thought<'_> {
    let mut thinking = json!({"type": "adaptive"});
    let mut beta = None;
    if let Some(shown) = &card.shown {
        thinking["display"] = shown.as_str().into();
    }
    if card.bound == Some(true) {
        thinking["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
        beta = Some(BINDING_BETA);
    }
    Thought { thinking: Some(thinking), effort: None, beta }
}
