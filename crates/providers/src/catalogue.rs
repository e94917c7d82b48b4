//! The model catalogue: windows, prices and abilities, as data.
//!
//! Windows, prices and abilities change every month, and a new model should not need a release. So they are
//! in a table (`models.toml`), by provider and by prefix of the model's name; [`Catalogue::with`] adds a
//! table of your own. Values that no table has are unknown and never guessed: an unknown price is no price.

use std::collections::BTreeMap;

use everturn_core::cost::{LongPromptPrice, Micros, Price};
use everturn_core::ids::ModelId;
use everturn_core::limits::Thinking;
use everturn_core::prompt::{Effort, OUTPUT_MAX, TakesSampling, Target, WireFormat};
use everturn_core::recovery::{Capabilities, Echo, Prefill, Reattach};
use serde::Deserialize;

use crate::provider::ModelFacts;

#[cfg(test)]
mod tests;

/// The table this version came with.
const EMBEDDED: &str = include_str!("models.toml");

/// Everything known about providers' models.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    providers: BTreeMap<String, Shelf>,
}

/// A table that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the model table is not right: {0}")]
pub struct BadCatalogue(String);

/// What is known of one provider.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Shelf {
    /// What holds for all its models unless they say otherwise.
    all: Card,
    /// By how a model's name begins.
    models: BTreeMap<String, Card>,
}

/// What is known of a model. Whatever is absent is not known.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Card {
    /// The format it is spoken to in.
    pub wire: Option<WireName>,
    /// Its window, in tokens.
    pub context: Option<u64>,
    /// The most it says at once, in tokens.
    pub output: Option<u32>,
    /// What the field is called that limits this, where servers differ: `max_tokens`, `max_completion_tokens`.
    pub output_name: Option<String>,
    /// What a million tokens cost, in millionths of a US dollar.
    pub price: Option<PriceCard>,
    /// Whether it may think before it speaks.
    pub thinks: Option<bool>,
    /// How it is told how hard to think, in a word of its adapter's: a budget, a level…
    pub effort: Option<String>,
    /// The levels of effort it knows, from least to most, by the names of [`Effort`].
    pub efforts: Option<Vec<String>>,
    /// How it is told not to think, in a word of its adapter's.
    pub effort_off: Option<String>,
    /// How much of its thinking is asked to be shown, in a word of its provider's; absent leaves it to the provider.
    pub shown: Option<String>,
    /// Whether its sealed reasoning is refused once anything before it has changed.
    pub bound: Option<bool>,
    /// Whether it can be made to call a tool.
    pub forced_tools: Option<bool>,
    /// Whether it goes on from an assistant message at the end.
    pub prefill: Option<bool>,
    /// Whether the provider keeps a generation after its stream is lost.
    pub reattach: Option<bool>,
    /// Whether it can answer in the background.
    pub background: Option<bool>,
    /// Whether a request can build upon an earlier response.
    pub chaining: Option<bool>,
    /// Whether it takes its sealed reasoning back.
    pub reasoning: Option<bool>,
    /// Whether, when asked to reason, it refuses a tool loop that does not begin with sealed reasoning.
    pub leading_reasoning: Option<bool>,
    /// Media types a person may show it.
    pub media: Option<Vec<String>>,
    /// Media types a tool may show it.
    pub result_media: Option<Vec<String>>,
    /// The provider's own tools with calls that can be sent back unchanged.
    pub replays: Option<Vec<String>>,
    /// When it takes `temperature`, `top_p` and `top_k`. If absent: a model that thinks takes them when told not to think.
    pub sampling: Option<SamplingWord>,
    /// Whether it takes `top_k`, where servers differ.
    pub top_k: Option<bool>,
}

/// When a model takes `temperature`, `top_p` and `top_k`, as the table names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplingWord {
    /// With every request.
    Always,
    /// Unless the request asks it to think.
    UnlessThinking,
    /// With no request.
    Never,
}

/// The wires, as the table names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireName {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenaiResponses,
    /// OpenAI Chat Completions.
    OpenaiChat,
    /// Gemini `generateContent`.
    Gemini,
}

/// What a million tokens cost, in millionths of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceCard {
    /// Prompt tokens outside the cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Prompt tokens read from the cache; as `input` if absent.
    pub cache_read: Option<u64>,
    /// Prompt tokens written to the cache; as `input` if absent.
    pub cache_write: Option<u64>,
    /// What the whole request costs once its prompt is long.
    pub above: Option<AboveCard>,
}

/// What a million tokens cost when the prompt is longer than `prompt` tokens, in millionths of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AboveCard {
    /// The longest prompt for which this does not hold yet.
    pub prompt: u64,
    /// Prompt tokens outside the cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Prompt tokens read from the cache; as `input` if absent.
    pub cache_read: Option<u64>,
    /// Prompt tokens written to the cache; as `input` if absent.
    pub cache_write: Option<u64>,
}

impl Catalogue {
    /// The table this version came with.
    #[must_use]
    pub fn embedded() -> Self {
        Self::default().with(EMBEDDED).expect("a test reads the embedded table")
    }

    /// This catalogue with another table over it: what that one says about a model replaces what was said, field by
    /// field, and the rest stays.
    ///
    /// # Errors
    /// The text is not TOML, or has an unknown key.
    pub fn with(mut self, toml: &str) -> Result<Self, BadCatalogue> {
        let table: BTreeMap<String, Shelf> =
            toml::from_str(toml).map_err(|error| BadCatalogue(error.message().to_owned()))?;
        for (provider, over) in table {
            let shelf = self.providers.entry(provider).or_default();
            shelf.all = std::mem::take(&mut shelf.all).over(over.all);
            for (model, card) in over.models {
                let under = shelf.models.remove(&model).unwrap_or_default();
                shelf.models.insert(model, under.over(card));
            }
        }
        Ok(self)
    }

    /// This catalogue with another price for models with this name prefix, unless a longer prefix is listed.
    /// Everything else known about them stays.
    #[must_use]
    pub fn priced(mut self, model: &ModelId, price: PriceCard) -> Self {
        let shelf = self.providers.entry(model.provider().to_owned()).or_default();
        let known = shelf.listed(model.name()).cloned().unwrap_or_default();
        shelf.models.insert(model.name().to_owned(), Card { price: Some(price), ..known });
        self
    }

    /// What is known of a model: of the longest beginning of its name that is listed, and of its provider's models in
    /// general.
    #[must_use]
    pub fn card(&self, provider: &str, model: &str) -> Card {
        let Some(shelf) = self.providers.get(provider) else { return Card::default() };
        shelf.all.clone().over(shelf.listed(model).cloned().unwrap_or_default())
    }

    /// The names of all families listed for a provider.
    pub fn families(&self, provider: &str) -> impl Iterator<Item = &str> {
        self.providers.get(provider).into_iter().flat_map(|shelf| shelf.models.keys().map(String::as_str))
    }
}

impl Shelf {
    /// The card of the longest beginning of a name that is listed.
    fn listed(&self, model: &str) -> Option<&Card> {
        let listed = self.models.iter().filter(|(family, _)| model.starts_with(family.as_str()));
        listed.max_by_key(|(family, _)| family.len()).map(|(_, card)| card)
    }
}

impl Card {
    /// What `other` says, and this where it says nothing.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        Self {
            wire: other.wire.or(self.wire),
            context: other.context.or(self.context),
            output: other.output.or(self.output),
            output_name: other.output_name.or(self.output_name),
            price: other.price.or(self.price),
            thinks: other.thinks.or(self.thinks),
            effort: other.effort.or(self.effort),
            efforts: other.efforts.or(self.efforts),
            effort_off: other.effort_off.or(self.effort_off),
            shown: other.shown.or(self.shown),
            bound: other.bound.or(self.bound),
            forced_tools: other.forced_tools.or(self.forced_tools),
            prefill: other.prefill.or(self.prefill),
            reattach: other.reattach.or(self.reattach),
            background: other.background.or(self.background),
            chaining: other.chaining.or(self.chaining),
            reasoning: other.reasoning.or(self.reasoning),
            leading_reasoning: other.leading_reasoning.or(self.leading_reasoning),
            media: other.media.or(self.media),
            result_media: other.result_media.or(self.result_media),
            replays: other.replays.or(self.replays),
            sampling: other.sampling.or(self.sampling),
            top_k: other.top_k.or(self.top_k),
        }
    }

    /// The level of effort to ask for when `effort` is wanted: that one if the model knows it, else the next it knows,
    /// upwards first. None if it knows none, or if not to think is what is wanted.
    #[must_use]
    pub fn level(&self, effort: Effort) -> Option<&str> {
        let known = self.efforts.as_deref().unwrap_or_default();
        let level = |name: &&String| Effort::ALL.iter().copied().find(|effort| label(*effort) == name.as_str());
        if effort == Effort::None {
            return None;
        }
        let at_least = known.iter().find(|name| level(name).is_some_and(|level| level >= effort));
        at_least.or(known.last()).map(String::as_str)
    }

    /// When it takes `temperature`, `top_p` and `top_k`. Models that think have no words to pick, and refuse these.
    fn takes_sampling(&self) -> TakesSampling {
        let can_rest = || self.efforts.as_deref().unwrap_or_default().iter().any(|name| name == label(Effort::None));
        match self.sampling {
            Some(SamplingWord::Always) => TakesSampling::Always,
            Some(SamplingWord::UnlessThinking) => TakesSampling::UnlessReasoning,
            Some(SamplingWord::Never) => TakesSampling::Never,
            None if self.thinks != Some(true) => TakesSampling::Always,
            None if can_rest() => TakesSampling::IfNotReasoning,
            None => TakesSampling::Never,
        }
    }

    /// The facts in the shape the engine uses. `wire` is the adapter's wire format, for a model without one
    /// in its card.
    #[must_use]
    pub fn facts(&self, provider: &str, wire: WireFormat) -> ModelFacts {
        let wire = self.wire.map_or(wire, WireFormat::from);
        let usual = Target::new(wire, provider);
        let target = Target {
            prefill: self.prefill.unwrap_or(usual.prefill),
            background: self.background.unwrap_or(usual.background),
            reasoning: self.reasoning.unwrap_or(usual.reasoning),
            leading_reasoning: self.leading_reasoning.unwrap_or(usual.leading_reasoning),
            user_media: self.media.clone().unwrap_or(usual.user_media),
            result_media: self.result_media.clone().unwrap_or(usual.result_media),
            replays: self.replays.clone().unwrap_or(usual.replays),
            takes_sampling: self.takes_sampling(),
            takes_top_k: self.top_k.unwrap_or(usual.takes_top_k),
            // OpenAI's models that think refuse stop sequences.
            takes_stop: usual.takes_stop && !(wire == WireFormat::OpenAiChat && self.thinks == Some(true)),
            ..usual
        };
        ModelFacts {
            can: Capabilities {
                reattach: if self.reattach == Some(true) { Reattach::Yes } else { Reattach::No },
                prefill: if target.prefill { Prefill::Yes } else { Prefill::No },
                echo: Echo::No, // That is up to the draft.
            },
            target,
            thinks: if self.thinks == Some(true) { Thinking::Yes } else { Thinking::No },
            context_limit: self.context,
            output_max: self.output.unwrap_or(OUTPUT_MAX),
            price: self.price.map(Price::from),
        }
    }
}

/// An effort, as the table names it.
#[must_use]
pub const fn label(effort: Effort) -> &'static str {
    match effort {
        Effort::None => "none",
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::XHigh => "xhigh",
        Effort::Max => "max",
    }
}

impl From<WireName> for WireFormat {
    fn from(name: WireName) -> Self {
        match name {
            WireName::Anthropic => Self::Anthropic,
            WireName::OpenaiResponses => Self::OpenAiResponses,
            WireName::OpenaiChat => Self::OpenAiChat,
            WireName::Gemini => Self::Gemini,
        }
    }
}

impl From<PriceCard> for Price {
    fn from(card: PriceCard) -> Self {
        Self {
            input: Micros(card.input),
            output: Micros(card.output),
            cache_read: Micros(card.cache_read.unwrap_or(card.input)),
            cache_write: Micros(card.cache_write.unwrap_or(card.input)),
            above: card.above.map(LongPromptPrice::from),
        }
    }
}

impl From<AboveCard> for LongPromptPrice {
    fn from(card: AboveCard) -> Self {
        Self {
            prompt: card.prompt,
            input: Micros(card.input),
            output: Micros(card.output),
            cache_read: Micros(card.cache_read.unwrap_or(card.input)),
            cache_write: Micros(card.cache_write.unwrap_or(card.input)),
        }
    }
}
