//! OpenAI Responses.

pub(super) mod check;
pub(super) mod encode;
pub(super) mod hear;
