//! Health, metrics, models, usage of an owner, and the OpenAPI document.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;

use crate::api::problem::{Problem, ProblemKind};
use crate::api::wire;
use crate::app::SharedApp;
use crate::auth::access::{Authorized, Measuring, Reading};
use crate::metrics::exposition::MetricsFormat;

/// A caller with the scope to read.
pub type MetricsReader = Authorized<Reading>;

/// Liveness of the process. Needs no token.
#[utoipa::path(get, path = "/healthz", operation_id = "getHealth", tag = "server", responses((status = 200, description = "The process is alive")))]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Readiness: chats can be read and driven. Needs no token, because health checks have none.
#[utoipa::path(get, path = "/readyz", operation_id = "getReadiness", tag = "server", responses(
    (status = 200, description = "The server is ready"),
    (status = 503, description = "The server is not ready", body = wire::ProblemBody),
))]
pub async fn readyz(State(app): State<SharedApp>) -> Result<String, Problem> {
    if app.is_ready().await {
        let confinement = app.confinement().map(|level| format!("confinement {level}\n"));
        return Ok(format!("ready\n{}", confinement.unwrap_or_default()));
    }
    Err(Problem::new(ProblemKind::Unavailable, "The store cannot be read or written, or the server is shutting down."))
}

/// Metrics for Prometheus.
#[utoipa::path(get, path = "/metrics", operation_id = "getMetrics", tag = "server", security(("token" = [])), responses(
    (status = 200, description = "All metrics, in Prometheus' text format, or in OpenMetrics if `Accept` names it", content_type = "text/plain"),
))]
pub async fn metrics(
    _: Authorized<Measuring>,
    State(app): State<SharedApp>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut text = String::new();
    encode(&mut text, &app.registry)
        .map_err(|_| Problem::new(ProblemKind::Internal, "The metrics cannot be written."))?;
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let format = MetricsFormat::wanted(&accept.collect::<Vec<_>>().join(","));
    Ok(([(header::CONTENT_TYPE, format.content_type())], format.of(text)).into_response())
}

/// The agents' models, and those that a chat may choose beside them.
#[utoipa::path(get, path = "/v1/models", operation_id = "listModels", tag = "server", security(("token" = [])), responses(
    (status = 200, description = "The models", body = wire::Models),
))]
pub async fn models(_: Authorized<Reading>, State(app): State<SharedApp>) -> Answer<wire::Models> {
    Answer(wire::Models { models: app.models() })
}

/// The agents, with their models and tools, and where these work.
#[utoipa::path(get, path = "/v1/agents", operation_id = "listAgents", tag = "server", security(("token" = [])), responses(
    (status = 200, description = "The agents", body = wire::AgentsList),
))]
pub async fn agents(_: Authorized<Reading>, State(app): State<SharedApp>) -> Answer<wire::AgentsList> {
    Answer(wire::AgentsList { agents: app.agents() })
}

/// The budget of the caller's owner for all chats, and the usage of today and this month.
#[utoipa::path(get, path = "/v1/usage", operation_id = "getOwnerUsage", tag = "server", security(("token" = [])), responses(
    (status = 200, description = "Usage and limits", body = wire::Account),
))]
pub async fn usage(
    caller: Authorized<Reading>,
    State(app): State<SharedApp>,
) -> Result<Answer<wire::Account>, Problem> {
    Ok(Answer(app.account(&caller).await?.into()))
}

/// This document.
pub async fn document(json: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}
