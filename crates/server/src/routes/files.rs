//! The bytes of files.
//!
//! They came from people, models and tools, so a browser must never run them as if they were ours: they are something to
//! save, of a type from a short list, in a sandbox.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use everturn::core::ids::MessageId;
use everturn::core::message::{Body, Part};

use crate::access::{Number, Own, Place, Reading};
use crate::app::Shared;
use crate::problem::Problem;
use crate::wire;

/// Types that are told. Anything else is just bytes.
const TYPES: [&str; 6] = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/plain"];

/// The bytes of a file in a message, or of what a tool gave back.
#[utoipa::path(get, path = "/v1/chats/{id}/messages/{number}/files/{place}", tag = "messages", security(("token" = [])),
    params(("id" = String, Path), ("number" = u64, Path), ("place" = u64, Path, description = "Its place among the parts, or among the media of a result, from 0")), responses(
    (status = 200, description = "The bytes", content_type = "application/octet-stream"),
    (status = 404, description = "There is no such file, or its bytes are not kept any more", body = wire::ProblemBody),
))]
pub async fn file(
    chat: Own<Reading>,
    Number(number): Number,
    Place(place): Place,
    State(app): State<Shared>,
) -> Result<Response, Problem> {
    let message = app.message(&chat, MessageId(number)).await?;
    let found = match &message.body {
        Body::User(parts) => file_at(parts, place),
        Body::Reply(reply) => file_at(&reply.parts, place),
        Body::Result(result) => {
            result.output.media.get(place).and_then(|media| Some((&*media.media_type, media.bytes.here()?)))
        }
        Body::Context(_) | Body::Summary(_) => None,
    };
    let (media_type, bytes) = found.ok_or_else(Problem::not_found)?;
    let media_type = TYPES.into_iter().find(|known| *known == media_type).unwrap_or("application/octet-stream");
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'"),
    ];
    Ok((headers, Bytes::from_owner(bytes.clone())).into_response())
}

fn file_at(parts: &[Part], place: usize) -> Option<(&str, &Arc<[u8]>)> {
    match parts.get(place) {
        Some(Part::File(file)) => Some((&file.media_type, file.bytes.as_ref()?.here()?)),
        _ => None,
    }
}
