//! The ways a model is spoken to: each wire with its adapter, and what some wires can do besides.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use everturn::core::limits::Limits;
use everturn::providers::anthropic::Anthropic;
use everturn::providers::catalogue::Catalogue;
use everturn::providers::gemini::Gemini;
use everturn::providers::http::Http;
use everturn::providers::openai_chat::OpenAiChat;
use everturn::providers::openai_responses::OpenAiResponses;
use everturn::{Agent, Background, Builder};
use everturn_understudy::http::KEY;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Anthropic Messages, to a model that has to be told to go on.
    Anthropic,
    /// To a model that goes on from the beginning of its answer.
    Prefill,
    /// OpenAI Responses.
    Responses,
    /// In the background: the provider keeps the generation.
    Kept,
    /// OpenAI Chat Completions.
    Chat,
    /// Gemini.
    Gemini,
}

impl Way {
    pub const ALL: [Self; 6] = [Self::Anthropic, Self::Prefill, Self::Responses, Self::Kept, Self::Chat, Self::Gemini];

    pub const fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic/claude-sonnet-5-5",
            Self::Prefill => "anthropic/claude-haiku-4-5",
            Self::Responses | Self::Kept => "openai/gpt-5.1",
            Self::Chat => "openai/gpt-5-chat",
            Self::Gemini => "google/gemini-2.5-flash",
        }
    }

    /// The model that is asked when the first has failed.
    pub const fn other_model(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic/claude-opus-5-5",
            Self::Prefill => "anthropic/claude-sonnet-4-5",
            Self::Responses | Self::Kept => "openai/gpt-5.4",
            Self::Chat => "openai/gpt-5-chat-latest",
            Self::Gemini => "google/gemini-2.5-pro",
        }
    }

    /// The provider's name in error messages, which snapshots replace by `PROVIDER`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic | Self::Prefill => "Anthropic",
            Self::Responses | Self::Kept | Self::Chat => "OpenAI",
            Self::Gemini => "Google",
        }
    }

    /// Bounds under which its model waits as long as these say: one that thinks is given twice the time.
    pub fn patience(self, limits: &Limits) -> Limits {
        let thinks = self != Self::Chat;
        let given = |time: Duration| if thinks { time / 2 } else { time };
        let (open_max, silence_max) = (given(limits.open_max), given(limits.silence_max));
        Limits { open_max, silence_max, ..limits.clone() }
    }

    /// An agent on a model that is spoken to this way.
    pub fn agent(self, model: &str, limits: Limits) -> Agent {
        let background = if self == Self::Kept { Background::On } else { Background::Off };
        Agent { background, ..Agent::new(model.parse().unwrap()).limits(limits) }
    }

    /// The engine with the real adapter, which finds its provider at `url`.
    pub fn provider(self, builder: Builder, url: &str, http: Http) -> Builder {
        let catalogue = Arc::new(Catalogue::embedded());
        let variable = |name: &str| match name {
            "ANTHROPIC_BASE_URL" => Some(url.to_owned()),
            "OPENAI_BASE_URL" => Some(format!("{url}/v1")),
            "GOOGLE_GEMINI_BASE_URL" => Some(format!("{url}/v1beta")),
            "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" | "GEMINI_API_KEY" => Some(KEY.to_owned()),
            "EVERTURN_PLAIN_HOSTS" => url.strip_prefix("http://").map(str::to_owned),
            _ => None,
        };
        match self {
            Self::Anthropic | Self::Prefill => builder.provider(Anthropic::usual(http, catalogue, variable).unwrap()),
            Self::Responses | Self::Kept => {
                builder.provider(OpenAiResponses::usual(http, catalogue, variable).unwrap())
            }
            Self::Chat => builder.provider(OpenAiChat::usual(http, catalogue, variable).unwrap()),
            Self::Gemini => builder.provider(Gemini::usual(http, variable).unwrap()),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anthropic => "anthropic",
            Self::Prefill => "prefill",
            Self::Responses => "responses",
            Self::Kept => "kept",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        })
    }
}
