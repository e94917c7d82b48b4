//! How Anthropic says no.

use serde_json::{Value, json};

use super::super::WireRefusal;

pub(in crate::http) fn body(refusal: &WireRefusal, request_id: &str) -> Value {
    let kind = refusal.kind.unwrap_or_else(|| kind(refusal.status));
    json!({"type": "error", "error": {"type": kind, "message": refusal.message}, "request_id": request_id})
}

pub(in crate::http) const fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        503 | 529 => "overloaded_error",
        500..=599 => "api_error",
        _ => "invalid_request_error",
    }
}

/// What it says when it has nothing special to say.
pub(in crate::http) fn words(kind: &str) -> &'static str {
    match kind {
        "overloaded_error" => "Overloaded",
        "rate_limit_error" => "This request would exceed your organization's rate limit.",
        "authentication_error" => "invalid x-api-key",
        "permission_error" => "Your API key does not have permission to use the specified resource.",
        "not_found_error" => "The requested resource could not be found.",
        "request_too_large" => "Request exceeds the maximum size",
        "invalid_request_error" => "There was an issue with the format or content of your request.",
        "api_error" => "Internal server error",
        _ => "Error",
    }
}
