//! The fronts of OpenAI's protocols, under `/openai/v1`: Chat Completions and Responses.

mod chat;
mod models;
mod responses;
pub(crate) use chat::request;

use axum::http::Method;
use axum::routing::{delete, get, post};
use serde_json::json;

use super::FrontRoute;
use crate::api::problem::{ProblemKind, ToldProblem};

/// The routes.
pub(super) fn routes() -> Vec<FrontRoute> {
    let completions = "/openai/v1/chat/completions";
    let completion = "/openai/v1/chat/completions/{id}";
    vec![
        FrontRoute::new(Method::POST, completions, post(chat::create)),
        FrontRoute::new(Method::GET, completion, get(chat::retrieve)),
        FrontRoute::new(Method::DELETE, completion, delete(chat::delete)),
        FrontRoute::new(Method::POST, "/openai/v1/responses", post(responses::create)),
        FrontRoute::new(Method::GET, "/openai/v1/responses/{id}", get(responses::retrieve)),
        FrontRoute::new(Method::DELETE, "/openai/v1/responses/{id}", delete(responses::delete)),
        FrontRoute::new(Method::POST, "/openai/v1/responses/{id}/cancel", post(responses::cancel)),
        FrontRoute::new(Method::GET, "/openai/v1/models", get(models::list)),
        FrontRoute::new(Method::GET, "/openai/v1/models/{*id}", get(models::one)),
    ]
}

/// A problem as OpenAI's clients read it: `code`, `type` and `param` from `error` alone.
pub(super) fn envelope(told: &ToldProblem) -> String {
    let kind = match told.kind {
        ProblemKind::Unauthorized => "authentication_error",
        ProblemKind::Scope | ProblemKind::Origin | ProblemKind::Host => "permission_error",
        ProblemKind::TooMany | ProblemKind::QueueFull => "rate_limit_error",
        ProblemKind::Unavailable | ProblemKind::Damaged | ProblemKind::Internal => "server_error",
        _ => "invalid_request_error",
    };
    json!({"error": {"message": told.detail, "type": kind, "code": told.kind.slug(), "param": told.field}}).to_string()
}
