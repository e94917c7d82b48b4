//! Chat Completions.

mod chunks;
pub(crate) mod request;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use everturn::core::prompt::WireFormat;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Front;
use super::super::gateway::telling::{Form, tell};
use super::super::gateway::{self, GatewayRequest, Repeat, canonical};
use crate::api::problem::Problem;
use crate::api::request::LargeJson;
use crate::app::SharedApp;
use crate::app::generations::Generations;
use crate::auth::access::{Authorized, Chatting, Reading};
pub(super) use chunks::error_body;
use chunks::{ChunkWriter, Heading};

/// How ids of completions begin.
const PREFIX: &str = "chatcmpl-";

/// `POST /openai/v1/chat/completions`.
pub(super) async fn create(
    State(app): State<SharedApp>,
    caller: Authorized<Chatting>,
    headers: HeaderMap,
    LargeJson(body, room): LargeJson<Value>,
) -> Result<Response, Problem> {
    let (hash, form) = (canonical::hash(&body), Form::of(&body));
    let asked = request::parse(&body, app.now())?;
    drop((body, room));
    let answerer = Generations(&app).answerer("openai", &asked.model)?;
    Generations(&app).refuse_unmet(&answerer, &asked.settings, WireFormat::OpenAiChat)?;
    let request = GatewayRequest {
        front: Front::OpenAi,
        answerer,
        conversation: asked.conversation,
        settings: asked.settings,
        hash,
        repeat: Repeat::of(&headers),
    };
    let generation = gateway::generation(&app, &caller, request).await?;
    let heading = Heading::of(&generation, asked.model);
    tell(app, &caller, generation, form, ChunkWriter::new(heading, asked.includes_usage)).await
}

/// How a generation is to be fetched.
#[derive(Debug, Deserialize)]
pub(super) struct RetrieveCompletionQuery {
    #[serde(default)]
    stream: bool,
}

/// `GET /openai/v1/chat/completions/{id}`: a generation by name, whole or from its first chunk.
pub(super) async fn retrieve(
    State(app): State<SharedApp>,
    caller: Authorized<Reading>,
    Path(id): Path<String>,
    Query(query): Query<RetrieveCompletionQuery>,
) -> Result<Response, Problem> {
    let (chat, len) = gateway::named(PREFIX, &id).ok_or_else(Problem::not_found)?;
    let opened = app.open(&caller, chat).await?;
    let model = opened.handle.standing().await?.model.map_or(opened.heading.agent, |model| model.to_string());
    let generation = gateway::told(&app, chat, len, true);
    let writer = ChunkWriter::new(Heading::of(&generation, model), true);
    let form = if query.stream { Form::Stream } else { Form::Whole };
    tell(app, &caller, generation, form, writer).await
}

/// `DELETE /openai/v1/chat/completions/{id}`: stops a generation and deletes it.
pub(super) async fn delete(
    State(app): State<SharedApp>,
    caller: Authorized<Chatting>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (chat, _) = gateway::named(PREFIX, &id).ok_or_else(Problem::not_found)?;
    app.open(&caller, chat).await?.handle.delete().await?;
    Ok(axum::Json(json!({"id": id, "object": "chat.completion.deleted", "deleted": true})).into_response())
}
