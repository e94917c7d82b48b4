//! The front of Anthropic's Messages, under `/anthropic`; clients append `/v1/messages`.

mod events;
mod messages;
mod request;

use axum::http::Method;
use axum::routing::{get, post};
use serde_json::json;

use super::FrontRoute;
use crate::api::problem::{ProblemKind, ToldProblem};

/// The routes.
pub(super) fn routes() -> Vec<FrontRoute> {
    vec![
        FrontRoute::new(Method::POST, "/anthropic/v1/messages", post(messages::create)),
        FrontRoute::new(Method::POST, "/anthropic/v1/messages/count_tokens", post(messages::count_tokens)),
        FrontRoute::new(Method::GET, "/anthropic/v1/models", get(messages::models)),
    ]
}

/// A problem as Anthropic's clients read it.
pub(super) fn envelope(told: &ToldProblem) -> String {
    let kind = match told.kind {
        ProblemKind::Unauthorized => "authentication_error",
        ProblemKind::Scope | ProblemKind::Origin | ProblemKind::Host => "permission_error",
        ProblemKind::NotFound | ProblemKind::Method => "not_found_error",
        ProblemKind::TooLong => "request_too_large",
        ProblemKind::TooMany | ProblemKind::QueueFull => "rate_limit_error",
        ProblemKind::Unavailable => "overloaded_error",
        ProblemKind::Damaged | ProblemKind::Internal => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": told.detail}}).to_string()
}
