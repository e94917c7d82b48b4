//! OpenAI Chat Completions.

mod classify;
mod decode;
#[cfg(test)]
mod tests;

pub use decode::Completions;
