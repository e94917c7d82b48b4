//! Anthropic Messages.

pub(super) mod check;
pub(super) mod encode;
pub(super) mod hear;
pub(super) mod refusal;
