//! Making, finding and naming chats.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use everturn::core::command::Command;
use everturn::core::ids::{ChatId, Timestamp};
use everturn::stores::Query as Wanted;
use serde::Deserialize;
use utoipa::IntoParams;

use super::steering::obeyed;
use crate::access::{Chatting, May, Own, Reading};
use crate::app::Shared;
use crate::body::{Json, Key, Query};
use crate::problem::{Kind, Problem};
use crate::wire;

/// The most chats on a page.
const PAGE_LEN_MAX: usize = 200;

/// Which chats are wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Which {
    /// Put away, or not; both if left out.
    archived: Option<bool>,
    /// With this in their title, in upper or lower case.
    #[serde(default)]
    text: String,
    /// As the page before said.
    after: Option<String>,
    /// So many, 50 if left out, at most 200.
    limit: Option<usize>,
}

/// The caller's chats, those first in which something was said last.
#[utoipa::path(get, path = "/v1/chats", tag = "chats", params(Which), security(("token" = [])), responses(
    (status = 200, description = "A page of chats", body = wire::Chats),
    (status = 422, description = "A condition is wrong", body = wire::ProblemBody),
))]
pub async fn list(
    caller: May<Reading>,
    State(app): State<Shared>,
    Query(which): Query<Which>,
) -> Result<Answer<wire::Chats>, Problem> {
    let len = which.limit.unwrap_or(50).clamp(1, PAGE_LEN_MAX);
    let after = which.after.as_deref().map(place).transpose()?;
    let wanted = Wanted { archived: which.archived, text: which.text, after, len, owner: None };
    let headings = app.list(&caller, wanted).await?;
    let last = headings.last().filter(|_| headings.len() == len);
    let after = last.map(|heading| format!("{}.{}", heading.touched.0, heading.id));
    Ok(Answer(wire::Chats { chats: headings.iter().map(wire::Heading::from).collect(), after }))
}

fn place(text: &str) -> Result<(Timestamp, ChatId), Problem> {
    let bad = || Problem::new(Kind::Invalid, "`after` is what the page before this one said.");
    let (touched, id) = text.split_once('.').ok_or_else(bad)?;
    Ok((Timestamp(touched.parse().map_err(|_| bad())?), id.parse().map_err(|_| bad())?))
}

/// A new chat.
///
/// Under an `Idempotency-Key` it is made once, however often that is asked within a day.
#[utoipa::path(post, path = "/v1/chats", tag = "chats", request_body = wire::Create, security(("token" = [])),
    params(("Idempotency-Key" = Option<String>, Header, description = "The client's name for this request")), responses(
    (status = 201, description = "The chat", body = wire::Chat),
    (status = 409, description = "The key was used for something else", body = wire::ProblemBody),
    (status = 422, description = "There is no such agent, or the title is not one", body = wire::ProblemBody),
))]
pub async fn create(
    caller: May<Chatting>,
    State(app): State<Shared>,
    key: Key,
    Json(new): Json<wire::Create>,
) -> Result<(StatusCode, Answer<wire::Chat>), Problem> {
    let agent = new.agent.as_deref().unwrap_or(&app.agent);
    let handle = app.make(&caller, agent, key.0.as_deref()).await?;
    let chat = app.open(&caller, handle.id()).await?;
    if let Some(title) = new.title {
        obeyed(&app, &chat, Command::Rename(title), key.part("title")).await?;
    }
    Ok((StatusCode::CREATED, Answer(chat.now().await?)))
}

/// A chat, without its messages.
#[utoipa::path(get, path = "/v1/chats/{id}", tag = "chats", params(("id" = String, Path)), security(("token" = [])), responses(
    (status = 200, description = "The chat", body = wire::Chat),
    (status = 404, description = "There is none, or it is somebody else's", body = wire::ProblemBody),
))]
pub async fn get(chat: Own<Reading>) -> Result<Answer<wire::Chat>, Problem> {
    Ok(Answer(chat.now().await?))
}

/// Names a chat, puts it away or takes it out again.
#[utoipa::path(patch, path = "/v1/chats/{id}", tag = "chats", request_body = wire::Patch, security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "The chat as it is now", body = wire::Chat),
    (status = 404, description = "There is none, or it is somebody else's", body = wire::ProblemBody),
    (status = 409, description = "The chat does not take it now", body = wire::ProblemBody),
    (status = 413, description = "The title is too long", body = wire::ProblemBody),
    (status = 422, description = "The request is not valid", body = wire::ProblemBody),
))]
pub async fn patch(
    chat: Own<Chatting>,
    State(app): State<Shared>,
    key: Key,
    Json(patch): Json<wire::Patch>,
) -> Result<Answer<wire::Chat>, Problem> {
    let titled = patch.title.map(Command::Rename);
    let moved = patch.archived.map(|archived| if archived { Command::Archive } else { Command::Unarchive });
    // Put away last, taken out first: a chat that is put away takes no name.
    let mut commands: Vec<Command> = titled.into_iter().chain(moved).collect();
    if matches!(commands.last(), Some(Command::Unarchive)) {
        commands.reverse();
    }
    for (i, command) in commands.into_iter().enumerate() {
        let key = if i == 0 { key.0.clone() } else { key.part("2") };
        obeyed(&app, &chat, command, key).await?;
    }
    Ok(Answer(chat.now().await?))
}

/// Whether each attempt is wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct How {
    /// Whether each provider call is listed.
    #[serde(default)]
    each: bool,
}

/// What a chat has used, and what it cost.
#[utoipa::path(get, path = "/v1/chats/{id}/usage", tag = "chats", params(("id" = String, Path), How), security(("token" = [])), responses(
    (status = 200, description = "Tokens and money", body = wire::Usage),
    (status = 404, description = "There is none, or it is somebody else's", body = wire::ProblemBody),
))]
pub async fn usage(chat: Own<Reading>, Query(how): Query<How>) -> Result<Answer<wire::Usage>, Problem> {
    let mut usage = chat.now().await?.standing.usage;
    if how.each {
        usage.each = chat.handle.attempts().await?.iter().map(wire::Attempt::from).collect();
    }
    Ok(Answer(usage))
}
