//! Event streams: of one chat, and of many.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{OpenApi, RefOr};
use utoipa::{IntoParams, ToSchema};

use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::QueryParams;
use crate::api::{stream, wire};
use crate::app::SharedApp;
use crate::auth::access::{Authorized, OwnedChat, Reading};

/// Adds the schemas of the events' data, which OpenAPI describes as text only.
pub fn describe(document: &mut OpenApi) {
    fn add<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into(), T::schema()));
        T::schemas(schemas);
    }
    let mut schemas = Vec::new();
    add::<wire::Event>(&mut schemas);
    add::<wire::Told>(&mut schemas);
    add::<wire::Listed>(&mut schemas);
    document.components.get_or_insert_default().schemas.extend(schemas);
}

/// Where a stream begins.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ResumeFrom {
    /// The last received `id:`. If left out, or not of this chat, the stream begins with a snapshot.
    after: Option<String>,
}

/// What a stream over many chats contains.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WatchedChats {
    /// The chats to follow in full, at most 32, separated by commas. Each may be followed by `@` and the newest `cursor` of
    /// its events; else it begins with a snapshot.
    #[serde(default)]
    chats: String,
    /// Whether to send the list of chats too; true if left out.
    list: Option<bool>,
}

/// The most chats in one stream.
pub const FOLLOWED_LEN_MAX: usize = 32;

/// The events of many chats, and the list of all, as an endless stream.
///
/// Events of followed chats are those of their own streams, with the chat in `chat`, and where to resume it in `cursor`.
/// `list` is the newest page of the list, and replaces everything sent of the list before; `heading` is a chat that is new
/// or changed, `gone` one that was deleted.
#[utoipa::path(get, path = "/v1/stream", operation_id = "streamChats", tag = "messages", security(("token" = [])), params(WatchedChats), responses(
    (status = 200, description = "Server-sent events; `data` is a `Told`, but a `Chats` for `list`, a `Listed` for `heading`, and only the `chat` for `gone`", content_type = "text/event-stream", body = wire::Lines),
    (status = 422, description = "The parameter `chats` is not valid", body = wire::ProblemBody),
    (status = 429, description = "The token has too many open streams", body = wire::ProblemBody),
))]
pub async fn all(
    caller: Authorized<Reading>,
    State(app): State<SharedApp>,
    QueryParams(these): QueryParams<WatchedChats>,
) -> Result<Response, Problem> {
    let followed = followed(&these.chats).ok_or_else(|| {
        let detail =
            format!("`chats` are at most {FOLLOWED_LEN_MAX} ids with commas between, each with @ and its cursor.");
        Problem::new(ProblemKind::Invalid, detail)
    })?;
    stream::answer_all(app, &caller, followed, these.list.unwrap_or(true)).await
}

fn followed(text: &str) -> Option<stream::Followed> {
    let mut followed = stream::Followed::new();
    for each in text.split(',').filter(|each| !each.is_empty()) {
        let (id, cursor) = each.split_once('@').map_or((each, None), |(id, cursor)| (id, Some(cursor)));
        let id = id.parse().ok()?;
        followed.insert(id, cursor.and_then(|text| wire::cursor::read(id, text)));
    }
    (followed.len() <= FOLLOWED_LEN_MAX).then_some(followed)
}

/// The events of a chat, as an endless stream.
///
/// Events are `message`, `delta`, `rewound`, `status` and `reset`, each with one line of JSON. A stream without events
/// sends a comment every 15 seconds. A client that was cut resumes with the last received `id:`, in `Last-Event-ID` or
/// `after`.
#[utoipa::path(get, path = "/v1/chats/{id}/stream", operation_id = "streamChat", tag = "messages", security(("token" = [])),
    params(("id" = String, Path), ResumeFrom, ("Last-Event-ID" = Option<String>, Header)), responses(
    (status = 200, description = "Server-sent events; `data` is an `Event`", content_type = "text/event-stream", body = wire::Lines),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 429, description = "The token has too many open streams", body = wire::ProblemBody),
))]
pub async fn stream(
    chat: OwnedChat<Reading>,
    State(app): State<SharedApp>,
    headers: HeaderMap,
    QueryParams(from): QueryParams<ResumeFrom>,
) -> Result<Response, Problem> {
    // A browser that reconnects sends the header, and its first URL with an older cursor.
    let header = headers.get("last-event-id").and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty());
    let cursor = header.or(from.after.as_deref()).and_then(|text| wire::cursor::read(chat.handle.id(), text));
    stream::answer(app, &chat.caller, &chat, cursor)
}
