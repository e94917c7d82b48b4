//! Watching a chat.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::access::{Own, Reading};
use crate::app::Shared;
use crate::body::Query;
use crate::problem::Problem;
use crate::{stream, wire};

/// From where on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct From {
    /// The last `id:` that was received. Left out, or not one of ours, the stream begins with a snapshot.
    after: Option<String>,
}

/// The events of a chat, without end.
///
/// Events are `message`, `delta`, `rewound`, `status` and `reset`, each with one line of JSON. Comments come every 15
/// seconds at least. Whoever is cut comes back with the last `id:` they received, in `Last-Event-ID` or `after`.
#[utoipa::path(get, path = "/v1/chats/{id}/stream", tag = "messages", security(("token" = [])),
    params(("id" = String, Path), From, ("Last-Event-ID" = Option<String>, Header)), responses(
    (status = 200, description = "Server-sent events", content_type = "text/event-stream", body = wire::Event),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 429, description = "The token has too many streams open", body = wire::ProblemBody),
))]
pub async fn stream(
    chat: Own<Reading>,
    State(app): State<Shared>,
    headers: HeaderMap,
    Query(from): Query<From>,
) -> Result<Response, Problem> {
    // A browser that reconnects sends the header, and an address that was made before it knew more.
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty());
    let cursor = header.or(from.after.as_deref()).and_then(|text| text.parse().ok());
    stream::answer(app, &chat.caller, &chat, cursor)
}
