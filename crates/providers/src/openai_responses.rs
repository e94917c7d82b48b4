//! OpenAI Responses.

mod classify;
mod decode;
#[cfg(test)]
mod tests;
