//! The models' side of Everturn: the [`Provider`] trait, and what adapters share.

pub mod classify;
mod provider;

pub use provider::{Frame, Frames, ModelFacts, Provider};
