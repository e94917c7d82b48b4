//! Creating, listing, changing, forking and deleting chats.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json as Answer};
use everturn::CreateError;
use everturn::core::command::{self, Command};
use everturn::core::ids::{ChatId, MessageId, Timestamp};
use everturn::stores::{ChatQuery as Wanted, SubAgentChats};
use serde::Deserialize;
use tokio::time::timeout;
use utoipa::IntoParams;

use super::commands::{obeyed, with_standing};
use super::export;
use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::{IdempotencyKey, Json, QueryParams};
use crate::api::wire;
use crate::app::{App, ForkRequest, NewChatRequest as NewChat, OpenedChat, SharedApp};
use crate::auth::access::{Authorized, Chatting, MaybeDeletedChat, OwnedChat, Reading};
use crate::auth::guard::CreatedChat;

/// The most chats on a page.
const PAGE_LEN_MAX: usize = 200;

/// The longest search text.
const TEXT_BYTES_MAX: usize = 400;

/// Filter and page of a list of chats.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ChatFilter {
    /// Archived chats, or those that are not; both if left out.
    archived: Option<bool>,
    /// Chats with this text in their title, ignoring case; or with all of its words, whole, in one message of the user or
    /// the model.
    #[serde(default)]
    text: String,
    /// Whether chats of sub-agents are listed too; no if left out.
    #[serde(default)]
    sub_agents: bool,
    /// Only chats of sub-agents that calls of this chat created.
    parent: Option<String>,
    /// The `after` of the previous page.
    after: Option<String>,
    /// Number of chats: 50 if left out, at most 200.
    limit: Option<usize>,
}

/// The caller's chats, most recently active first.
#[utoipa::path(get, path = "/v1/chats", operation_id = "listChats", tag = "chats", params(ChatFilter), security(("token" = [])), responses(
    (status = 200, description = "A page of chats", body = wire::Chats),
    (status = 422, description = "A query parameter is not valid", body = wire::ProblemBody),
))]
pub async fn list(
    caller: Authorized<Reading>,
    State(app): State<SharedApp>,
    QueryParams(which): QueryParams<ChatFilter>,
) -> Result<Answer<wire::Chats>, Problem> {
    if which.text.len() > TEXT_BYTES_MAX {
        return Err(Problem::new(ProblemKind::Invalid, format!("`text` may have at most {TEXT_BYTES_MAX} bytes.")));
    }
    let len = which.limit.unwrap_or(50).clamp(1, PAGE_LEN_MAX);
    let after = which.after.as_deref().map(place).transpose()?;
    let sub_agents = match which.parent.as_deref().map(str::parse) {
        Some(Ok(parent)) => SubAgentChats::Of(parent),
        Some(Err(_)) => return Err(Problem::new(ProblemKind::Invalid, "`parent` must be the id of a chat.")),
        None if which.sub_agents => SubAgentChats::Listed,
        None => SubAgentChats::LeftOut,
    };
    let wanted = Wanted { archived: which.archived, sub_agents, text: which.text, after, len, ..Wanted::default() };
    let headings = app.list(&caller, wanted).await?;
    Ok(Answer(wire::Chats::page(&headings, len)))
}

pub(super) fn place(text: &str) -> Result<(Timestamp, ChatId), Problem> {
    let bad = || Problem::new(ProblemKind::Invalid, "`after` must be the `after` of the previous page.");
    let (touched, id) = text.split_once('.').ok_or_else(bad)?;
    Ok((Timestamp(touched.parse().map_err(|_| bad())?), id.parse().map_err(|_| bad())?))
}

/// The response with a new chat.
type Created = (StatusCode, Extension<CreatedChat>, Answer<wire::Chat>);

/// Creates a chat.
///
/// Under an `Idempotency-Key` it is created once, however often the request is repeated while the chat exists.
#[utoipa::path(post, path = "/v1/chats", operation_id = "createChat", tag = "chats", request_body = wire::Create, security(("token" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "The client's key for this request")), responses(
    (status = 201, description = "The chat", body = wire::Chat),
    (status = 409, description = "The key was used for another request", body = wire::ProblemBody),
    (status = 422, description = "There is no such agent or model; the title or transcript is not valid; or instructions, tools or metadata exceed their limits", body = wire::ProblemBody),
))]
pub async fn create(
    caller: Authorized<Chatting>,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
    Json(new): Json<wire::Create>,
) -> Result<Created, Problem> {
    let title = new.title.as_deref().map(command::title).transpose()?;
    let model = app.pick(new.model.as_deref())?;
    let setup = new.setup().map_err(CreateError::from)?;
    let wire::Create { agent, debug, transcript, .. } = new;
    let chat = app.make(&caller, NewChat { agent, model, title, debug, setup, transcript, key: key.0 }).await?;
    Ok((StatusCode::CREATED, Extension(CreatedChat(chat.handle.id())), Answer(chat.now().await?)))
}

/// Creates a chat with the messages of this one, up to and including a message.
///
/// Messages keep their numbers. Costs so far stay with this chat. Every call in the copied messages must have its result.
/// Under an `Idempotency-Key` the fork is created once, even if this chat is renamed or deleted before a repeat.
#[utoipa::path(post, path = "/v1/chats/{id}/fork", operation_id = "forkChat", tag = "chats", request_body = wire::Fork, security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 201, description = "The new chat", body = wire::Chat),
    (status = 404, description = "Not found, or it belongs to another owner", body = wire::ProblemBody),
    (status = 409, description = "There is no such message, a call has no result there, or the key was used for another request", body = wire::ProblemBody),
    (status = 413, description = "The title is too long", body = wire::ProblemBody),
    (status = 422, description = "The request is not valid", body = wire::ProblemBody),
))]
pub async fn fork(
    left: MaybeDeletedChat<Chatting>,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
    Json(fork): Json<wire::Fork>,
) -> Result<Created, Problem> {
    let title = fork.title.as_deref().map(command::title).transpose()?;
    let model = fork.model.as_ref().map(|model| app.pick(model.as_deref())).transpose()?;
    let forked = ForkRequest { at: MessageId(fork.at), title, model, key: key.0 };
    let made = match &left.chat {
        Some(chat) => match app.fork(&left.caller, chat, forked).await {
            Ok(made) => made,
            Err(problem) => return Err(with_standing(chat, problem).await),
        },
        None => app.fork_again(&left.caller, left.id, forked).await?,
    };
    Ok((StatusCode::CREATED, Extension(CreatedChat(made.handle.id())), Answer(made.now().await?)))
}

/// Deletes a chat and everything stored of it, for good.
///
/// A running turn is stopped first. The chat's streams end. A repeat under the same `Idempotency-Key` within a week is
/// answered as before.
#[utoipa::path(delete, path = "/v1/chats/{id}", operation_id = "deleteChat", tag = "chats", security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 204, description = "The chat is deleted"),
    (status = 404, description = "Not found, or it belongs to another owner", body = wire::ProblemBody),
    (status = 409, description = "The key was used for another request", body = wire::ProblemBody),
    (status = 503, description = "The chat's turn could not be stopped yet: try again", body = wire::ProblemBody),
))]
pub async fn delete(
    left: MaybeDeletedChat<Chatting>,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
) -> Result<StatusCode, Problem> {
    let MaybeDeletedChat { caller, id, chat } = left;
    let what = format!("delete chat {id}");
    match (chat, &key.0) {
        (Some(chat), Some(key)) => {
            if let Err(problem) = app.asked(&caller, key, &what).await {
                return Err(with_standing(&chat, problem).await);
            }
            match gone(&app, &chat).await {
                Err(problem) if problem.kind() == ProblemKind::NotFound => {} // A concurrent delete was faster: done too.
                deleted => deleted?,
            }
        }
        (Some(chat), None) => gone(&app, &chat).await?,
        (None, Some(key)) => app.asked_before(&caller, key, &what).await?,
        (None, None) => return Err(Problem::not_found()),
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a chat, even if the client disconnects: else the chat might remain with its turn stopped and its queue empty.
async fn gone(app: &App, chat: &OpenedChat) -> Result<(), Problem> {
    let busy = |_| Problem::new(ProblemKind::Unavailable, "The chat's turn could not be stopped yet; try again.");
    let (handle, time_max) = (chat.handle.clone(), app.limits.outcome_max);
    let deleted = app.run_to_completion(async move { timeout(time_max, handle.delete()).await });
    Ok(deleted.await.map_err(busy)??)
}

/// A chat, without its messages.
#[utoipa::path(get, path = "/v1/chats/{id}", operation_id = "getChat", tag = "chats", params(("id" = String, Path)), security(("token" = [])), responses(
    (status = 200, description = "The chat", body = wire::Chat),
    (status = 404, description = "Not found, or it belongs to another owner", body = wire::ProblemBody),
))]
pub async fn get(chat: OwnedChat<Reading>) -> Result<Answer<wire::Chat>, Problem> {
    Ok(Answer(chat.now().await?))
}

/// Changes a chat's title, model, recording, or whether it is archived: all fields of the request, or none.
///
/// A new model is used from the next turn on; a running turn keeps the one it began with.
#[utoipa::path(patch, path = "/v1/chats/{id}", operation_id = "updateChat", tag = "chats", request_body = wire::Patch, security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "The chat as it is now", body = wire::Chat),
    (status = 404, description = "Not found, or it belongs to another owner", body = wire::ProblemBody),
    (status = 409, description = "The chat's status does not allow it now", body = wire::ProblemBody),
    (status = 413, description = "The title is too long", body = wire::ProblemBody),
    (status = 422, description = "The request is not valid, or there is no such model", body = wire::ProblemBody),
))]
pub async fn patch(
    chat: OwnedChat<Chatting>,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
    Json(patch): Json<wire::Patch>,
) -> Result<Answer<wire::Chat>, Problem> {
    let model = match patch.model {
        Some(model) => Some(app.choice(&chat, app.pick(model.as_deref())?, &key).await?),
        None => None,
    };
    let command = match (patch.title, patch.archived, model, patch.debug) {
        (None, None, None, None) if key.0.is_none() => None, // Nothing to change, and no key to record.
        (Some(title), None, None, None) => Some(Command::Rename(title)),
        (None, Some(true), None, None) => Some(Command::Archive),
        (None, Some(false), None, None) => Some(Command::Unarchive),
        (title, archived, model, debug) => Some(Command::Patch { title, archived, model, debug }),
    };
    if let Some(command) = command {
        obeyed(&app, &chat, command, key.0).await?;
    }
    Ok(Answer(chat.now().await?))
}

/// Options of the usage.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsageOptions {
    /// Whether each provider call is listed.
    #[serde(default)]
    each: bool,
}

/// The chat's usage and cost.
///
/// With `each`, the list of provider calls is streamed, and counts as one of the token's streams.
#[utoipa::path(get, path = "/v1/chats/{id}/usage", operation_id = "getChatUsage", tag = "chats", params(("id" = String, Path), UsageOptions), security(("token" = [])), responses(
    (status = 200, description = "Steps, time, tokens and money", body = wire::Usage),
    (status = 404, description = "Not found, or it belongs to another owner", body = wire::ProblemBody),
    (status = 429, description = "The token has too many open streams", body = wire::ProblemBody),
))]
pub async fn usage(
    chat: OwnedChat<Reading>,
    State(app): State<SharedApp>,
    QueryParams(how): QueryParams<UsageOptions>,
) -> Result<Response, Problem> {
    let usage = chat.now().await?.standing.usage;
    if how.each { export::usage(app, chat, &usage) } else { Ok(Answer(usage).into_response()) }
}
