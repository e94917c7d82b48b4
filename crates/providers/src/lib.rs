//! The models' side of Everturn: the [`Provider`] trait, what adapters share, and the adapters.
//!
//! An adapter is thin. It makes JSON of a request, says with an [`http::HttpCall`] where that goes, and reads the answer with
//! a [`wire::Decode`], a pure fold from events to frames. The rest is shared: [`http`] has the only socket, [`endpoint`]
//! the key, [`sse`] cuts bytes into events, [`wire`] finds the end of an answer, [`classify`](mod@classify) says what a
//! failure means, and [`catalogue`] knows the models.

pub mod anthropic;
pub mod catalogue;
pub mod classify;
mod clock;
pub mod endpoint;
pub mod gemini;
pub mod http;
pub mod openai;
pub mod openai_chat;
pub mod openai_responses;
mod provider;
pub mod record;
pub mod sse;
#[cfg(test)]
mod tests;
pub mod wire;

pub use provider::{ApiAddress, Frame, FrameStream, ModelFacts, Provider};
