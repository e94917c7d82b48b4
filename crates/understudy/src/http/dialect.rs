//! What is spoken on a connection: a wire's usual protocol, or the other way to ask Google.

use everturn_core::prompt::WireFormat;
use serde_json::{Map, Value};

use super::act::{AnswerHeader, Encode};
use super::wire::{self, Checked, EarlierResponse, WireRefusal, interactions, responses};
use crate::heard::Heard;

/// A protocol of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Usual(WireFormat),
    Interactions,
}

impl Dialect {
    /// Refuses what the provider would refuse. `kept` looks a stored response up.
    pub(super) fn check(
        self,
        body: &Map<String, Value>,
        model: &str,
        kept: &dyn Fn(&str) -> Option<EarlierResponse>,
    ) -> Checked {
        match self {
            Self::Usual(wire) => wire::check(wire, body, model, kept),
            Self::Interactions => interactions::check::check(body, &|id| kept(id).is_some()),
        }
    }

    /// What a model hears of a request.
    pub(super) fn hear(self, body: &Value, model: &str) -> Heard {
        match self {
            Self::Usual(wire) => wire::hear(wire, body, model),
            Self::Interactions => {
                let heard = Heard { model: model.into(), bytes: body.to_string().len(), ..Heard::default() };
                interactions::hear::hear(heard, body)
            }
        }
    }

    /// The encoder for the answer to this request.
    pub(super) fn encoder(self, opening: AnswerHeader, body: &Value) -> Box<dyn Encode> {
        match self {
            Self::Usual(wire) => wire::encoder(wire, opening, body),
            Self::Interactions => Box::new(interactions::encode::InteractionsEncoder::new(opening)),
        }
    }

    /// The name of a new response, in the provider's style.
    pub(super) fn response_id(self, number: u64) -> String {
        match self {
            Self::Usual(wire) => wire::response_id(wire, number),
            Self::Interactions => format!("v1_understudy{number:04}"),
        }
    }

    /// How an answer to this request goes on without a listener, if it does.
    pub(super) fn keeps(self, body: &Value) -> Option<BackgroundApi> {
        match self {
            Self::Usual(WireFormat::OpenAiResponses) if body["background"] == true => Some(BackgroundApi::Responses),
            Self::Interactions if body["store"] != false => Some(BackgroundApi::Interactions),
            Self::Usual(_) | Self::Interactions => None,
        }
    }
}

/// The API that keeps a generation, which decides how it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BackgroundApi {
    Responses,
    Interactions,
}

impl BackgroundApi {
    /// Those that a wire has.
    pub(super) fn of(wire: WireFormat) -> Self {
        if wire == WireFormat::Gemini { Self::Interactions } else { Self::Responses }
    }

    /// What there is before anything was said.
    pub(super) fn queued(self, id: &str, model: &str) -> Value {
        match self {
            Self::Responses => responses::queued(id, model),
            Self::Interactions => interactions::queued(id, model),
        }
    }

    /// An event's place among the events.
    pub(super) fn number(self, event: &Value) -> Option<u64> {
        match self {
            Self::Responses => event["sequence_number"].as_u64(),
            Self::Interactions => event["event_id"].as_str().and_then(interactions::number),
        }
    }

    /// Whether nothing comes after this event.
    pub(super) fn is_last(self, event: &Value) -> bool {
        match self {
            Self::Responses => {
                let last = ["response.completed", "response.incomplete", "response.failed", "error"];
                last.iter().any(|kind| event["type"] == *kind)
            }
            Self::Interactions => interactions::is_last(event),
        }
    }

    /// The whole as it stands after these events.
    pub(super) fn now(self, queued: &Value, mut events: impl DoubleEndedIterator<Item = Value>) -> Value {
        match self {
            Self::Responses => {
                let newest = events.rfind(|event| event.get("response").is_some());
                newest.map_or_else(|| queued.clone(), |mut event| event["response"].take())
            }
            Self::Interactions => interactions::now(queued, events),
        }
    }

    pub(super) fn not_found(self, id: &str) -> WireRefusal {
        match self {
            Self::Responses => {
                WireRefusal::new(404, format!("Response with id '{id}' not found.")).coded("response_not_found")
            }
            Self::Interactions => interactions::not_found(id),
        }
    }
}
