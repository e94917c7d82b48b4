//! Commands that run in the background of a chat.

use axum::Json as Answer;
use axum::extract::State;

use crate::api::problem::Problem;
use crate::api::request::Json;
use crate::api::wire;
use crate::app::SharedApp;
use crate::auth::access::{Chatting, OwnedChat, PathNumber, Reading};
use crate::auth::audit;

/// The background jobs of a chat, with those that ended.
#[utoipa::path(get, path = "/v1/chats/{id}/jobs", operation_id = "listJobs", tag = "workspace", params(("id" = String, Path)), security(("token" = [])), responses(
    (status = 200, description = "The jobs", body = wire::JobsList),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
))]
pub async fn list(chat: OwnedChat<Reading>, State(app): State<SharedApp>) -> Result<Answer<wire::JobsList>, Problem> {
    let jobs = match &app.workspace_service {
        Some(service) => service.jobs(&chat.heading.agent, chat.handle.id()).await?,
        None => Vec::new(),
    };
    Ok(Answer(wire::JobsList { jobs }))
}

/// Ends a background job with everything it started.
#[utoipa::path(post, path = "/v1/chats/{id}/jobs/{number}/stop", operation_id = "stopJob", tag = "workspace", request_body = wire::Nothing, security(("token" = [])),
    params(("id" = String, Path), ("number" = u64, Path)), responses(
    (status = 200, description = "What became of it", body = wire::JobInfo),
    (status = 404, description = "There is no such chat or job", body = wire::ProblemBody),
))]
pub async fn stop(
    chat: OwnedChat<Chatting>,
    PathNumber(number): PathNumber,
    State(app): State<SharedApp>,
    Json(wire::Nothing {}): Json<wire::Nothing>,
) -> Result<Answer<wire::JobInfo>, Problem> {
    let service = app.workspace_service.as_ref().ok_or_else(Problem::not_found)?;
    let number = u32::try_from(number).map_err(|_| Problem::not_found())?;
    let id = chat.handle.id();
    let stopped = service.stop_job(&chat.heading.agent, id, number).await?.ok_or_else(Problem::not_found)?;
    audit::job_stopped(chat.caller.token(), id, number);
    Ok(Answer(stopped))
}
