//! The bytes of files.
//!
//! They come from users, models and tools, so a browser must never run them as part of this server's origin: they are sent
//! as downloads, with a media type from a short list, in a sandbox.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use everturn::core::blob::Blob;
use everturn::core::ids::MessageId;
use everturn::core::message::{Body, Part};

use crate::api::problem::Problem;
use crate::api::wire;
use crate::app::SharedApp;
use crate::auth::access::{OwnedChat, PathIndex, PathNumber, Reading};

/// Media types that are sent as such. Any other is sent as plain bytes.
const TYPES: [&str; 6] = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/plain"];

/// The bytes of a file in a message, or of a medium in a tool's result.
#[utoipa::path(get, path = "/v1/chats/{id}/messages/{number}/files/{place}", operation_id = "getFile", tag = "messages", security(("token" = [])),
    params(("id" = String, Path), ("number" = u64, Path), ("place" = u64, Path, description = "The position among the parts, or among the media of a result, from 0")), responses(
    (status = 200, description = "The bytes", content_type = "application/octet-stream"),
    (status = 404, description = "There is no such file, or its bytes are not stored any more", body = wire::ProblemBody),
))]
pub async fn file(
    chat: OwnedChat<Reading>,
    PathNumber(number): PathNumber,
    PathIndex(place): PathIndex,
    State(app): State<SharedApp>,
) -> Result<Response, Problem> {
    // All files of a message are read with it, so the budget has to hold all of them. Their sizes are read first.
    let about = app.page(&chat, Some(MessageId(number.saturating_add(1))), 1).await?;
    let about = about.first().filter(|about| about.id == MessageId(number)).ok_or_else(Problem::not_found)?;
    let places = files(&about.body);
    let wanted = places.get(place).copied().flatten().ok_or_else(Problem::not_found)?.1.len();
    let mut room = app.answers.enter(places.iter().flatten().map(|(_, bytes)| bytes.len()).sum())?;
    let message = app.message(&chat, MessageId(number)).await?;
    let found = files(&message.body).get(place).copied().flatten();
    let (media_type, bytes) =
        found.and_then(|(kind, bytes)| Some((kind, bytes.here()?))).ok_or_else(Problem::not_found)?;
    room.shrink(wanted);
    let media_type = TYPES.into_iter().find(|known| *known == media_type).unwrap_or("application/octet-stream");
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
    ];
    Ok(room.until_sent((headers, Bytes::from_owner(bytes.clone())).into_response()))
}

/// The media type and bytes at each position of a message, if it is a file.
fn files(body: &Body) -> Vec<Option<(&str, &Blob)>> {
    match body {
        Body::User(parts) => parts.iter().map(file_of).collect(),
        Body::Reply(reply) => reply.parts.iter().map(file_of).collect(),
        Body::Result(result) => result.output.media.iter().map(|it| Some((&*it.media_type, &it.bytes))).collect(),
        Body::Context(_) | Body::Summary(_) => Vec::new(),
    }
}

fn file_of(part: &Part) -> Option<(&str, &Blob)> {
    match part {
        Part::File(file) => Some((&file.media_type, file.bytes.as_ref()?)),
        _ => None,
    }
}
