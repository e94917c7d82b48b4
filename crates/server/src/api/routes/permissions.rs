//! Open asks over all chats, and the grants of a chat.

use axum::Json as Answer;
use axum::extract::State;
use everturn::core::command::Command;
use serde::Deserialize;
use utoipa::IntoParams;

use super::chats::place;
use super::commands::obeyed;
use crate::api::problem::Problem;
use crate::api::request::{IdempotencyKey, QueryParams};
use crate::api::wire;
use crate::app::SharedApp;
use crate::auth::access::{Approving, Authorized, OwnedChat, PathCall, Reading};
use crate::auth::audit;

/// The most chats on a page of open asks.
const PAGE_LEN_MAX: usize = 200;

/// Page of a list of open asks.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AsksPage {
    /// The `after` of the previous page.
    after: Option<String>,
    /// Number of chats: 50 if left out, at most 200.
    limit: Option<usize>,
}

/// All calls that wait for a client or a person, over the caller's chats; with the scope `admin`, over all chats.
///
/// They are answered at their chat: `POST /v1/chats/{id}/answers`, with a token of its owner.
#[utoipa::path(get, path = "/v1/asks", operation_id = "listAsks", tag = "permissions", params(AsksPage), security(("token" = [])), responses(
    (status = 200, description = "The open calls, by chat", body = wire::OpenAsks),
    (status = 422, description = "A query parameter is not valid", body = wire::ProblemBody),
))]
pub async fn asks(
    caller: Authorized<Reading>,
    State(app): State<SharedApp>,
    QueryParams(page): QueryParams<AsksPage>,
) -> Result<Answer<wire::OpenAsks>, Problem> {
    let len = page.limit.unwrap_or(50).clamp(1, PAGE_LEN_MAX);
    let after = page.after.as_deref().map(place).transpose()?;
    let (awaiting, next) = app.awaiting(&caller, after, len).await?;
    let after = next.map(|(touched, chat)| format!("{}.{chat}", touched.0));
    let is_open = |chat: &wire::ChatAsks| !chat.asks.is_empty(); // Not if they were answered meanwhile.
    let chats = awaiting.iter().map(|(heading, standing)| wire::ChatAsks::new(heading, standing));
    let chats = chats.filter(is_open).collect();
    Ok(Answer(wire::OpenAsks { chats, after }))
}

/// The grants of a chat that have not ended.
#[utoipa::path(get, path = "/v1/chats/{id}/grants", operation_id = "listGrants", tag = "permissions", params(("id" = String, Path)), security(("token" = [])), responses(
    (status = 200, description = "The grants", body = wire::GrantsList),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
))]
pub async fn grants(
    chat: OwnedChat<Reading>,
    State(app): State<SharedApp>,
) -> Result<Answer<wire::GrantsList>, Problem> {
    let now = app.now();
    let standing = chat.handle.standing().await?;
    let grants = standing.grants.iter().filter(|grant| now < grant.until).map(wire::GrantInfo::from).collect();
    Ok(Answer(wire::GrantsList { grants }))
}

/// Revokes a grant. The next call that it covered asks again.
#[utoipa::path(delete, path = "/v1/chats/{id}/grants/{call}", operation_id = "revokeGrant", tag = "permissions", security(("token" = [])),
    params(("id" = String, Path), ("call" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "The grant has ended", body = wire::Accepted),
    (status = 404, description = "There is no such grant: it has ended or was revoked", body = wire::ProblemBody),
    (status = 409, description = "The chat is archived, or the key was used for another request", body = wire::ProblemBody),
))]
pub async fn revoke(
    chat: OwnedChat<Approving>,
    PathCall(call): PathCall,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
) -> Result<Answer<wire::Accepted>, Problem> {
    let accepted = obeyed(&app, &chat, Command::Revoke(call), key.0).await?;
    audit::revoked(chat.caller.token(), chat.handle.id(), call);
    Ok(Answer(accepted))
}
