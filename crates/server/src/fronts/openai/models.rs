//! `GET /openai/v1/models`: agents and models that a request may name.

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use crate::api::problem::Problem;
use crate::app::SharedApp;
use crate::auth::access::{Authorized, Reading};

fn model(id: &str, owner: &str) -> Value {
    json!({"id": id, "object": "model", "created": 0, "owned_by": owner})
}

fn all(app: &SharedApp) -> Vec<Value> {
    let agents = app.agents().into_iter().map(|agent| model(&agent.name, "everturn"));
    let models = app.models().into_iter().map(|known| {
        let owner = known.id.split('/').next().unwrap_or_default().to_owned();
        model(&known.id, &owner)
    });
    agents.chain(models).collect()
}

/// The list.
pub(super) async fn list(State(app): State<SharedApp>, _caller: Authorized<Reading>) -> Response {
    axum::Json(json!({"object": "list", "data": all(&app)})).into_response()
}

/// One of them. Names of models have a slash in them.
pub(super) async fn one(
    State(app): State<SharedApp>,
    _caller: Authorized<Reading>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let found = all(&app).into_iter().find(|model| model["id"] == id.as_str());
    Ok(axum::Json(found.ok_or_else(Problem::not_found)?).into_response())
}
