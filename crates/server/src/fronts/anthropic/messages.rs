//! `POST /anthropic/v1/messages`, and what belongs to it.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use everturn::core::cost::BYTES_PER_TOKEN;
use everturn::core::prompt::WireFormat;
use serde_json::{Value, json};

use super::events::EventWriter;
use super::request;
use crate::api::problem::Problem;
use crate::api::request::LargeJson;
use crate::app::SharedApp;
use crate::app::generations::Generations;
use crate::auth::access::{Authorized, Chatting, Reading};
use crate::fronts::Front;
use crate::fronts::gateway::telling::{Form, tell};
use crate::fronts::gateway::{self, GatewayRequest, Repeat, canonical};

/// How ids of messages begin.
const PREFIX: &str = "msg_";
/// What an image or a document counts as, in bytes of text.
const MEDIA_BYTES: usize = 6_000;

/// Answers a request.
pub(super) async fn create(
    State(app): State<SharedApp>,
    caller: Authorized<Chatting>,
    headers: HeaderMap,
    LargeJson(body, room): LargeJson<Value>,
) -> Result<Response, Problem> {
    let (hash, form) = (canonical::hash(&body), Form::of(&body));
    let asked = request::parse(&body, app.now())?;
    drop((body, room));
    let answerer = Generations(&app).answerer("anthropic", &asked.model)?;
    Generations(&app).refuse_unmet(&answerer, &asked.settings, WireFormat::Anthropic)?;
    let request = GatewayRequest {
        front: Front::Anthropic,
        answerer,
        conversation: asked.conversation,
        settings: asked.settings,
        hash,
        repeat: Repeat::of(&headers),
    };
    let generation = gateway::generation(&app, &caller, request).await?;
    let writer = EventWriter::new(gateway::name_of(PREFIX, &generation), asked.model);
    tell(app, &caller, generation, form, writer).await
}

/// `POST /anthropic/v1/messages/count_tokens`: an estimate, without asking the provider.
pub(super) async fn count_tokens(
    State(app): State<SharedApp>,
    _caller: Authorized<Chatting>,
    LargeJson(body, _room): LargeJson<Value>,
) -> Result<Response, Problem> {
    let mut whole = body;
    if let Value::Object(fields) = &mut whole {
        fields.entry("max_tokens").or_insert_with(|| 1.into());
    }
    request::parse(&whole, app.now())?;
    let bytes: usize = ["system", "messages", "tools"].iter().map(|field| bytes_of(&whole[*field])).sum();
    Ok(axum::Json(json!({"input_tokens": (bytes as u64).div_ceil(BYTES_PER_TOKEN).max(1)})).into_response())
}

/// The bytes of all texts in a value. What is encoded is no text.
fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of).sum(),
        Value::Object(fields) if fields.get("type").is_some_and(|kind| kind == "base64") => MEDIA_BYTES,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + bytes_of(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

/// `GET /anthropic/v1/models`: agents and models that a request may name.
pub(super) async fn models(State(app): State<SharedApp>, _caller: Authorized<Reading>) -> Response {
    let agents = app.agents().into_iter().map(|agent| agent.name);
    let names: Vec<String> = agents.chain(app.models().into_iter().map(|model| model.id)).collect();
    let model =
        |id: &String| json!({"type": "model", "id": id, "display_name": id, "created_at": "1970-01-01T00:00:00Z"});
    let data: Vec<Value> = names.iter().map(model).collect();
    axum::Json(json!({"data": data, "has_more": false, "first_id": names.first(), "last_id": names.last()}))
        .into_response()
}
