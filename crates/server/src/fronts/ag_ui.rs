//! The front of AG-UI, under `/ag-ui/{agent}`.

use serde_json::json;

use super::FrontRoute;
use crate::api::problem::ToldProblem;

/// The routes.
pub(super) fn routes() -> Vec<FrontRoute> {
    Vec::new()
}

/// A problem for clients of AG-UI, which show the body as it is.
pub(super) fn envelope(told: &ToldProblem) -> String {
    json!({"message": told.detail, "code": told.kind.slug()}).to_string()
}
