//! The four wires, from the provider's side of them.
//!
//! Each has an encoder (what is said → its events), checks (what it refuses in a request, and in which words), an ear
//! (its request → what a model hears), and the shape of its errors. All are written from what the providers document
//! and answer, not from our adapters: the two sides must agree on the wire, and on nothing else.

pub(super) mod anthropic;
pub(super) mod chat;
pub(super) mod gemini;
pub(super) mod interactions;
pub(super) mod openai;
pub(super) mod responses;

use everturn_core::error::ErrorKind;
use everturn_core::message::Stop;
use everturn_core::prompt::WireFormat;
use serde_json::{Map, Value};

use super::act::{AnswerHeader, Encode};
use crate::heard::Heard;

/// When every response was made, in Unix seconds: the stand-in has no clock.
pub(super) const CREATED: u64 = 1_767_225_600;

/// A request the provider does not answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct WireRefusal {
    pub status: u16,
    pub message: String,
    /// The provider's name for the kind of error, where the status alone does not give it.
    pub kind: Option<&'static str>,
    pub code: Option<&'static str>,
    pub param: Option<String>,
    /// Seconds to wait.
    pub retry_after: Option<u64>,
}

impl WireRefusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), ..Self::default() }
    }

    /// This refusal, about one parameter.
    pub(super) fn about(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// This refusal, with a code.
    pub(super) fn coded(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }
}

/// What checks give back.
pub(super) type Checked = Result<(), WireRefusal>;

/// A request is refused with this message, as a bad one.
pub(super) fn refuse(message: impl Into<String>) -> Checked {
    Err(WireRefusal::new(400, message))
}

/// What a provider remembers of its own answers, for checks that need it.
#[derive(Debug, Clone, Default)]
pub(super) struct EarlierResponse {
    /// The calls of a response that can be built upon.
    pub calls: Vec<String>,
}

/// Refuses what the provider would refuse. `kept` looks a stored response up.
pub(super) fn check(
    wire: WireFormat,
    body: &Map<String, Value>,
    model: &str,
    kept: &dyn Fn(&str) -> Option<EarlierResponse>,
) -> Checked {
    match wire {
        WireFormat::Anthropic => anthropic::check::check(body),
        WireFormat::OpenAiResponses => responses::check::check(body, kept),
        WireFormat::OpenAiChat => chat::check::check(body),
        WireFormat::Gemini => gemini::check::check(body, model),
    }
}

/// What a model hears of a request.
pub(super) fn hear(wire: WireFormat, body: &Value, model: &str) -> Heard {
    let heard = Heard { model: model.into(), bytes: body.to_string().len(), ..Heard::default() };
    match wire {
        WireFormat::Anthropic => anthropic::hear::hear(heard, body),
        WireFormat::OpenAiResponses => responses::hear::hear(heard, body),
        WireFormat::OpenAiChat => chat::hear::hear(heard, body),
        WireFormat::Gemini => gemini::hear::hear(heard, body),
    }
}

/// The encoder for the answer to this request.
pub(super) fn encoder(wire: WireFormat, opening: AnswerHeader, body: &Value) -> Box<dyn Encode> {
    match wire {
        WireFormat::Anthropic => Box::new(anthropic::encode::AnthropicEncoder::new(opening)),
        WireFormat::OpenAiResponses => {
            let echoed =
                ["background", "store", "previous_response_id", "instructions", "tools", "tool_choice", "metadata"];
            let echo = echoed.iter().filter_map(|key| Some(((*key).to_string(), body.get(*key)?.clone()))).collect();
            let included = body["include"].as_array().into_iter().flatten();
            let shows_sealed = included.into_iter().any(|what| what == "reasoning.encrypted_content");
            Box::new(responses::encode::ResponsesEncoder::new(opening, echo, shows_sealed))
        }
        WireFormat::OpenAiChat => {
            // Requests without streaming always get the usage.
            let tells_usage = body["stream_options"]["include_usage"] == true || body["stream"] != true;
            Box::new(chat::encode::ChatEncoder::new(opening, tells_usage))
        }
        WireFormat::Gemini => Box::new(gemini::encode::GeminiEncoder::new(opening)),
    }
}

/// The body of an error, in the provider's shape.
pub(super) fn error_body(wire: WireFormat, refusal: &WireRefusal, request_id: &str) -> Value {
    match wire {
        WireFormat::Anthropic => anthropic::refusal::body(refusal, request_id),
        WireFormat::OpenAiResponses | WireFormat::OpenAiChat => openai::body(refusal),
        WireFormat::Gemini => gemini::refusal::body(refusal),
    }
}

/// What a provider says with a status when it has nothing special to say.
pub(super) fn words(wire: WireFormat, status: u16) -> &'static str {
    match wire {
        WireFormat::Anthropic => anthropic::refusal::words(anthropic::refusal::kind(status)),
        WireFormat::OpenAiResponses | WireFormat::OpenAiChat => openai::words(status),
        WireFormat::Gemini => gemini::refusal::words(status),
    }
}

/// The refusal as this wire tells of a kind of trouble that its status does not show.
pub(super) fn kinded(wire: WireFormat, kind: ErrorKind, refusal: WireRefusal) -> WireRefusal {
    let is_openai = matches!(wire, WireFormat::OpenAiResponses | WireFormat::OpenAiChat);
    match kind {
        ErrorKind::UsageLimit if is_openai => {
            WireRefusal { kind: Some("insufficient_quota"), ..refusal.coded("insufficient_quota") }
        }
        ErrorKind::ContextFull if is_openai => WireRefusal { status: 400, ..refusal.coded("context_length_exceeded") },
        ErrorKind::ContextFull => WireRefusal {
            status: 400,
            message: match wire {
                WireFormat::Anthropic => "prompt is too long: 200001 tokens > 200000 maximum".into(),
                _ => "The input token count exceeds the maximum number of tokens allowed (1048576).".into(),
            },
            ..refusal
        },
        ErrorKind::ChainBroken if is_openai => {
            refusal.about("previous_response_id").coded("previous_response_not_found")
        }
        ErrorKind::ContentFilter if is_openai => refusal.coded("content_policy_violation"),
        _ => refusal,
    }
}

/// The name of a new response, in the provider's style.
pub(super) fn response_id(wire: WireFormat, number: u64) -> String {
    match wire {
        WireFormat::Anthropic => format!("msg_understudy{number:04}"),
        WireFormat::OpenAiResponses => format!("resp_understudy{number:04}"),
        WireFormat::OpenAiChat => format!("chatcmpl-understudy{number:04}"),
        WireFormat::Gemini => format!("understudy{number:04}"),
    }
}

/// The id a call was given, else one of its place.
fn id_or(given: &str, prefix: &str, place: u64) -> String {
    if given.is_empty() { format!("{prefix}_{place}") } else { given.into() }
}

fn filtered_detail(stop: &Stop) -> Option<(&str, &str)> {
    match stop {
        Stop::Filtered { category, detail } => Some((category, detail)),
        Stop::End | Stop::ToolUse | Stop::Length | Stop::Interrupted | Stop::Broken => None,
    }
}

/// All texts of a content that is either words or a list of parts with words.
fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Whether `id` is not empty and made of letters, digits, `_` and `-`.
fn is_plain(id: &str, len_max: usize) -> bool {
    !id.is_empty()
        && id.len() <= len_max
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let three = |piece: &[u8]| {
        let bits = piece.iter().chain([0, 0].iter()).take(3).fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let letter = |at: usize| char::from(LETTERS[(bits >> (18 - 6 * at)) as usize & 63]);
        (0..4).map(|at| if at > piece.len() { '=' } else { letter(at) }).collect::<String>()
    };
    bytes.chunks(3).map(three).collect()
}

/// Whether bytes can be read from this, in either alphabet.
fn is_base64(text: &str) -> bool {
    let bare = text.trim_end_matches('=');
    text.len() - bare.len() <= 2
        && bare.len() % 4 != 1
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte))
}

#[cfg(test)]
mod tests;
