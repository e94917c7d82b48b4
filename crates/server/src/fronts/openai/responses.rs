//! Responses, for clients that send the whole conversation each time.

mod events;
mod request;

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use everturn::core::prompt::WireFormat;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::Front;
use super::super::gateway::collect::WholeAnswer;
use super::super::gateway::telling::{AnswerProtocol as _, Form, failed, tell};
use super::super::gateway::{self, GatewayRequest, Generation, Repeat, canonical};
use crate::api::problem::Problem;
use crate::api::request::LargeJson;
use crate::app::generations::Generations;
use crate::app::{OpenedChat, SharedApp};
use crate::auth::access::{Authorized, Caller, Chatting, Reading};
use events::{ResponseHead, ResponseWriter};

/// How ids of responses begin.
const PREFIX: &str = "resp_";

/// How long a look at a response waits for the store to say what there is.
const LOOK_TIME: Duration = Duration::from_millis(200);

/// `POST /openai/v1/responses`.
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
    Generations(&app).refuse_unmet(&answerer, &asked.settings, WireFormat::OpenAiResponses)?;
    let request = GatewayRequest {
        front: Front::OpenAi,
        answerer,
        conversation: asked.conversation,
        settings: asked.settings,
        hash,
        repeat: Repeat::of(&headers),
    };
    let mut generation = gateway::generation(&app, &caller, request).await?;
    let head =
        ResponseHead { custom: asked.custom, is_background: asked.is_background, ..head_of(&generation, asked.model) };
    if asked.is_background && form == Form::Whole {
        return Ok(axum::Json(look(&mut generation, head).await?).into_response());
    }
    tell(app, &caller, generation, form, ResponseWriter::new(head, None)).await
}

fn head_of(generation: &Generation, model: String) -> ResponseHead {
    let id = gateway::name_of(PREFIX, generation);
    let created_at = generation.created.0 / 1000;
    ResponseHead { id, created_at, model, custom: BTreeSet::new(), is_background: false }
}

/// The response as it is now.
async fn look(generation: &mut Generation, head: ResponseHead) -> Result<Value, Problem> {
    let mut writer = ResponseWriter::new(head, None);
    let Ok(news) = timeout(LOOK_TIME, generation.reader.next()).await else { return Ok(writer.so_far(Vec::new())) };
    let news = news?;
    let mut response = writer.so_far(news.pieces);
    if let Some(end) = news.end {
        response = match failed(&end.reason) {
            Some(failure) if matches!(end.reason, gateway::answer::EndReason::Failed(_)) => {
                response["status"] = "failed".into();
                response["error"] =
                    json!({"code": gateway::failure::words(&failure).openai.1, "message": failure.message});
                response
            }
            Some(_stopped) => {
                response["status"] = "cancelled".into();
                response
            }
            None => {
                // Everything is told already: the end alone is new.
                writer.whole(WholeAnswer { blocks: Vec::new(), end })
            }
        };
    }
    Ok(response)
}

/// How a response is to be fetched.
#[derive(Debug, Deserialize)]
pub(super) struct RetrieveResponseQuery {
    #[serde(default)]
    stream: bool,
    starting_after: Option<u64>,
}

/// A generation of the caller's by name, and the model that it is of.
async fn found(app: &SharedApp, caller: &Caller, id: &str) -> Result<(OpenedChat, Generation, String), Problem> {
    let (chat, len) = gateway::named(PREFIX, id).ok_or_else(Problem::not_found)?;
    let opened = app.open(caller, chat).await?;
    let model = opened.handle.standing().await?.model;
    let model = model.map_or_else(|| opened.heading.agent.clone(), |model| model.to_string());
    Ok((opened, gateway::told(app, chat, len, true), model))
}

/// `GET /openai/v1/responses/{id}`: the response as it is now, or its events after a number. On any server, as long as it is
/// kept.
pub(super) async fn retrieve(
    State(app): State<SharedApp>,
    caller: Authorized<Reading>,
    Path(id): Path<String>,
    Query(query): Query<RetrieveResponseQuery>,
) -> Result<Response, Problem> {
    let (_, mut generation, model) = found(&app, &caller, &id).await?;
    let head = head_of(&generation, model);
    if query.stream {
        return tell(app, &caller, generation, Form::Stream, ResponseWriter::new(head, query.starting_after)).await;
    }
    Ok(axum::Json(look(&mut generation, head).await?).into_response())
}

/// `POST /openai/v1/responses/{id}/cancel`: stops a response, and answers when what was said is stored.
pub(super) async fn cancel(
    State(app): State<SharedApp>,
    caller: Authorized<Chatting>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (opened, mut generation, model) = found(&app, &caller, &id).await?;
    opened.handle.interrupt().await?;
    let head = head_of(&generation, model);
    Ok(axum::Json(look(&mut generation, head).await?).into_response())
}

/// `DELETE /openai/v1/responses/{id}`.
pub(super) async fn delete(
    State(app): State<SharedApp>,
    caller: Authorized<Chatting>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let (opened, ..) = found(&app, &caller, &id).await?;
    opened.handle.delete().await?;
    Ok(axum::Json(json!({"id": id, "object": "response.deleted", "deleted": true})).into_response())
}
