//! OpenAI Responses.

pub(super) mod check;
pub(super) mod encode;
pub(super) mod hear;

use serde_json::{Value, json};

/// A response in the background of which nothing was said yet.
pub(in crate::http) fn queued(id: &str, model: &str) -> Value {
    json!({
        "id": id, "object": "response", "created_at": super::CREATED, "status": "queued", "background": true,
        "model": model, "output": [], "error": null, "incomplete_details": null, "usage": null,
        "parallel_tool_calls": true, "tools": [], "tool_choice": "auto",
    })
}
