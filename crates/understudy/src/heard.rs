//! The content of a request, independent of its wire format.
//!
//! A model does not see JSON of one provider or structs of ours. It sees instructions, tools, what a person
//! said last, what the tools gave back since, and perhaps the beginning of its own answer. The persona works
//! from this, so it behaves the same in process and on every wire format.

use everturn_core::prompt::{PromptPart, Request, Role};
use serde_json::Value;

#[cfg(test)]
mod tests;

/// What a model understands of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Heard {
    /// The model asked, by the provider's name for it.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The tools it may call.
    pub tools: Vec<OfferedTool>,
    /// What the person said last.
    pub words: String,
    /// What tools gave back since then.
    pub results: Vec<ToolAnswer>,
    /// The beginning of the answer, if it is to be gone on with.
    pub half_said: String,
    /// Roughly how long the request is.
    pub bytes: usize,
}

/// A tool on offer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What its input looks like, as JSON Schema.
    pub schema: Value,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolAnswer {
    /// The tool, as far as the request says.
    pub tool: String,
    /// Its words.
    pub text: String,
}

/// One thing in a conversation, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Utterance {
    User(String),
    Model(String),
    Result(ToolAnswer),
}

/// How a request begins that asks for the rest of an answer, in the words of [`Request::continuing`].
const GO_ON: &str = "Your last message broke off";
/// How the engine tells a model of calls that were cut off. It is no message of the user.
const TAKEN_BACK: &str = "(Cut off and taken back before it ran: ";

impl Heard {
    /// Whether it may call this tool.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        self.tools.iter().any(|offered| offered.name == tool)
    }

    /// Understands a conversation.
    pub(crate) fn conversation(mut self, mut said: Vec<Utterance>) -> Self {
        said.retain_mut(|one| match one {
            Utterance::User(text) => match text.strip_prefix(TAKEN_BACK).and_then(|told| told.split_once(".)")) {
                Some((_, rest)) if rest.trim().is_empty() => false,
                Some((_, rest)) => {
                    *text = rest.into();
                    true
                }
                None => true,
            },
            Utterance::Model(_) | Utterance::Result(_) => true,
        });
        let asked_on = matches!(said.last(), Some(Utterance::User(text)) if text.trim_start().starts_with(GO_ON));
        if asked_on {
            said.pop();
        }
        let begun = said.iter().rposition(|one| !matches!(one, Utterance::Model(_))).map_or(0, |last| last + 1);
        for one in said.drain(begun..) {
            if let Utterance::Model(text) = one {
                self.half_said.push_str(&text);
            }
        }
        let newest = said.iter().rposition(|one| matches!(one, Utterance::User(_)));
        for one in said.drain(newest.unwrap_or(0)..) {
            match one {
                Utterance::User(text) => self.words = text.trim().into(),
                Utterance::Model(_) => {}
                Utterance::Result(told) => self.results.push(told),
            }
        }
        self
    }
}

impl From<&Request> for Heard {
    fn from(request: &Request) -> Self {
        let tools = request.tools.iter().filter(|tool| tool.provider_defined.is_none());
        let offered = tools.map(|tool| OfferedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            schema: tool.input_schema.clone(),
        });
        let heard = Self {
            model: request.model.name().into(),
            system: request.system.join("\n"),
            tools: offered.collect(),
            bytes: request.bytes(),
            ..Self::default()
        };
        let parts = request.entries.iter().flat_map(|entry| entry.parts.iter().map(|part| (entry.role, part)));
        let said = parts.filter_map(|(role, part)| match (role, part) {
            (Role::User, PromptPart::Text(text)) => Some(Utterance::User(text.text.clone())),
            (Role::Assistant, PromptPart::Text(text)) => Some(Utterance::Model(text.text.clone())),
            (_, PromptPart::Result(result)) => {
                Some(Utterance::Result(ToolAnswer { tool: result.tool.clone(), text: result.text.clone() }))
            }
            _ => None,
        });
        heard.conversation(said.collect())
    }
}
