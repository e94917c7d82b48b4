//! What must hold of any bytes a provider might send.
//!
//! One function for the framing and one for each wire: bytes in, a panic if a promise is broken. libFuzzer feeds them with
//! what it finds, `crates/providers/tests/it/replay.rs` with the corpus and with mutations of it, so what was found once
//! stays found on a stable toolchain and without libFuzzer.

use everturn_providers::anthropic::Messages;
use everturn_providers::gemini::{GenerateContent, Interaction};
use everturn_providers::openai_chat::Completions;
use everturn_providers::openai_responses::{ResponseRetention, Responses};

pub mod dice;
pub mod framing;
pub mod mutate;
pub mod wire;

use wire::Ends;

/// Server-sent events.
pub fn sse(bytes: &[u8]) {
    framing::hold(bytes);
}

/// Anthropic Messages.
pub fn anthropic(bytes: &[u8]) {
    wire::hold(bytes, Ends::WithItsStop, || Messages::new("anthropic"));
}

/// OpenAI Responses: not kept, in the background, and taken up in the middle.
pub fn openai_responses(bytes: &[u8]) {
    for keeps in [ResponseRetention::Nothing, ResponseRetention::Generation] {
        wire::hold(bytes, Ends::WithItsStop, || Responses::new("openai", keeps));
    }
    wire::hold(bytes, Ends::WithItsStop, || Responses::resumed("openai", "resp_1", 3));
}

/// OpenAI Chat Completions.
pub fn openai_chat(bytes: &[u8]) {
    wire::hold(bytes, Ends::WithItsReason, || Completions::new("openai"));
}

/// Gemini's `streamGenerateContent`.
pub fn gemini(bytes: &[u8]) {
    wire::hold(bytes, Ends::WithItsStop, || GenerateContent::new("google"));
}

/// Gemini's Interactions.
pub fn interactions(bytes: &[u8]) {
    wire::hold(bytes, Ends::WithItsStop, || Interaction::new("google"));
}
