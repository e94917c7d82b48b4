//! The fronts of OpenAI's protocols, under `/openai/v1`: Chat Completions and Responses.

use serde_json::json;

use super::FrontRoute;
use crate::api::problem::{ProblemKind, ToldProblem};

/// The routes.
pub(super) fn routes() -> Vec<FrontRoute> {
    Vec::new()
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
