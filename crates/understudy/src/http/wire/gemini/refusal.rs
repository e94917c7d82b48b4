//! How Google says no.

use serde_json::{Value, json};

use super::super::WireRefusal;

pub(in crate::http) fn body(refusal: &WireRefusal) -> Value {
    let mut error = json!({
        "code": refusal.status, "message": refusal.message, "status": refusal.kind.unwrap_or_else(|| name(refusal.status)),
    });
    let mut details = Vec::new();
    if let Some(reason) = refusal.code {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        }));
    }
    if let Some(seconds) = refusal.retry_after {
        details.push(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s")}));
    }
    if !details.is_empty() {
        error["details"] = details.into();
    }
    json!({"error": error})
}

pub(in crate::http) const fn name(status: u16) -> &'static str {
    match status {
        400 | 413 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        503 | 529 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500..=599 => "INTERNAL",
        _ => "UNKNOWN",
    }
}

/// What it says when it has nothing special to say.
pub(in crate::http) const fn words(status: u16) -> &'static str {
    match status {
        400 | 413 => "Request contains an invalid argument.",
        401 => "Request had invalid authentication credentials.",
        403 => "The caller does not have permission",
        404 => "The model is not found for API version v1beta, or is not supported for generateContent.",
        429 => "Resource has been exhausted (e.g. check quota).",
        503 | 529 => "The model is overloaded. Please try again later.",
        _ => {
            "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"
        }
    }
}
