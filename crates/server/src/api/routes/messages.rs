//! Sending, editing and reading messages.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use everturn::core::command::{Command, Delivery};
use everturn::core::ids::MessageId;
use serde::Deserialize;
use utoipa::IntoParams;

use super::commands::{accepted, obeyed};
use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::{IdempotencyKey, LargeJson, QueryParams};
use crate::api::wire;
use crate::app::SharedApp;
use crate::auth::access::{Chatting, OwnedChat, PathNumber, Reading};

/// The most messages on a page.
const PAGE_LEN_MAX: usize = 200;

/// A page of messages.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Messages before this one; the newest if left out.
    before: Option<u64>,
    /// Number of messages: 50 if left out, at most 200; fewer if they are long.
    limit: Option<usize>,
}

/// A page of messages, oldest first.
#[utoipa::path(get, path = "/v1/chats/{id}/messages", operation_id = "listMessages", tag = "messages", params(("id" = String, Path), PageQuery), security(("token" = [])), responses(
    (status = 200, description = "The messages", body = wire::Messages),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 422, description = "A query parameter is not valid", body = wire::ProblemBody),
))]
pub async fn page(
    chat: OwnedChat<Reading>,
    State(app): State<SharedApp>,
    QueryParams(which): QueryParams<PageQuery>,
) -> Result<Answer<wire::Messages>, Problem> {
    let len = which.limit.unwrap_or(50).clamp(1, PAGE_LEN_MAX);
    let messages = app.page(&chat, which.before.map(MessageId), len).await?;
    let first = messages.first().map(|message| message.id);
    let before = match first.filter(|_| messages.len() < len) {
        // A page of long messages is short even if there are more before it.
        Some(first) if app.page(&chat, Some(first), 1).await?.is_empty() => None,
        Some(_) | None => first,
    };
    let before = before.map(|id| id.0);
    Ok(Answer(wire::Messages { messages: messages.iter().map(|message| (&**message).into()).collect(), before }))
}

/// Sends a message.
///
/// The response is sent when the message is stored; the model's answer comes in the stream.
#[utoipa::path(post, path = "/v1/chats/{id}/messages", operation_id = "sendMessage", tag = "messages", request_body = wire::Send, security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 202, description = "The message is stored and will be answered", body = wire::Accepted),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 409, description = "The chat's status does not allow it, or the key was used for another request", body = wire::ProblemBody),
    (status = 413, description = "The message is too long", body = wire::ProblemBody),
    (status = 422, description = "The message is empty or not valid", body = wire::ProblemBody),
    (status = 429, description = "The queue is full, or the owner has too many running chats", body = wire::ProblemBody),
))]
pub async fn send(
    chat: OwnedChat<Chatting>,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
    LargeJson(send, _room): LargeJson<wire::Send>,
) -> Result<(StatusCode, Answer<wire::Accepted>), Problem> {
    let when = send.when.map_or(Delivery::Queue, Delivery::from);
    let parts = send.said().map_err(|why| Problem::new(ProblemKind::Invalid, why))?;
    let _ticket = app.admit_turn(&chat.caller, &chat, &key).await?;
    let receipt = accepted(&chat, Command::Send { parts, when }, key.0).await?;
    Ok((StatusCode::ACCEPTED, Answer(receipt)))
}

/// Replaces a user message, and everything after it.
#[utoipa::path(put, path = "/v1/chats/{id}/messages/{number}", operation_id = "editMessage", tag = "messages", request_body = wire::Edit, security(("token" = [])),
    params(("id" = String, Path), ("number" = u64, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "The message is replaced, and a new turn begins", body = wire::Accepted),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 409, description = "The message cannot be edited now", body = wire::ProblemBody),
    (status = 413, description = "The message is too long", body = wire::ProblemBody),
    (status = 422, description = "The message is empty or not valid", body = wire::ProblemBody),
    (status = 429, description = "The owner has too many running chats", body = wire::ProblemBody),
))]
pub async fn edit(
    chat: OwnedChat<Chatting>,
    PathNumber(number): PathNumber,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
    LargeJson(edit, _room): LargeJson<wire::Edit>,
) -> Result<Answer<wire::Accepted>, Problem> {
    let parts = edit.said().map_err(|why| Problem::new(ProblemKind::Invalid, why))?;
    let _ticket = app.admit_turn(&chat.caller, &chat, &key).await?;
    Ok(Answer(obeyed(&app, &chat, Command::Edit { message: MessageId(number), parts }, key.0).await?))
}
