//! Gemini `generateContent`.

pub(super) mod check;
pub(super) mod encode;
pub(super) mod hear;
pub(super) mod refusal;

use serde_json::Value;

/// A field under its name in JSON or in the protocol: Google takes both.
fn field<'a>(value: &'a Value, camel: &str, snake: &str) -> Option<&'a Value> {
    value.get(camel).or_else(|| value.get(snake)).filter(|value| !value.is_null())
}
