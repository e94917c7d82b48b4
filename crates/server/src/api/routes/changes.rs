//! What calls changed in the files of a workspace, and how to undo it.

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::State;
use everturn::core::ids::{CallUid, MessageId};
use everturn::core::message::{Body, Part};
use everturn::core::status::Status;

use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::Json;
use crate::api::wire;
use crate::app::{App, OpenedChat, SharedApp};
use crate::auth::access::{Chatting, OwnedChat, Reading};
use crate::auth::audit;

/// The most calls of one request.
const CALLS_MAX: usize = 1000;
/// Messages that are read at once.
const PAGE_LEN: usize = 200;

/// The files that calls of the chat changed with `write` and `edit`, with diffs. Changes of commands are not among them.
#[utoipa::path(get, path = "/v1/chats/{id}/changes", operation_id = "listChanges", tag = "workspace", params(("id" = String, Path)), security(("token" = [])), responses(
    (status = 200, description = "The changes", body = wire::ChangedFiles),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
))]
pub async fn list(
    chat: OwnedChat<Reading>,
    State(app): State<SharedApp>,
) -> Result<Answer<wire::ChangedFiles>, Problem> {
    let Some(files) = &app.workspace_service else { return Ok(Answer(wire::ChangedFiles { changes: Vec::new() })) };
    let mut changes = files.changes(&chat.heading.agent, chat.handle.id()).await?;
    with_messages(&app, &chat, &mut changes).await?;
    Ok(Answer(wire::ChangedFiles { changes }))
}

/// Gives files the content they had before these calls. Nothing is undone if a file has changed since.
#[utoipa::path(post, path = "/v1/chats/{id}/undo", operation_id = "undoChanges", tag = "workspace", params(("id" = String, Path)), security(("token" = [])), request_body = wire::UndoCalls, responses(
    (status = 200, description = "What was undone; nothing if it was before", body = wire::ChangedFiles),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 409, description = "A turn runs, or a file has changed since", body = wire::ProblemBody),
    (status = 422, description = "A call is not valid", body = wire::ProblemBody),
))]
pub async fn undo(
    chat: OwnedChat<Chatting>,
    State(app): State<SharedApp>,
    Json(wire::UndoCalls { calls }): Json<wire::UndoCalls>,
) -> Result<Answer<wire::ChangedFiles>, Problem> {
    if calls.is_empty() || calls.len() > CALLS_MAX {
        return Err(Problem::new(ProblemKind::Invalid, format!("`calls` has 1 to {CALLS_MAX} entries.")));
    }
    let call = |text: &String| {
        let told = || Problem::new(ProblemKind::Invalid, format!("`{text}` is not a call; one looks like `3.0`."));
        wire::call_uid(text).ok_or_else(told)
    };
    let calls = calls.iter().map(call).collect::<Result<Vec<_>, _>>()?;
    let status = chat.handle.standing().await?.status;
    if !matches!(status, Status::Idle | Status::Failed) {
        return Err(Problem::new(ProblemKind::Status, "A turn runs: interrupt it or wait for its end, then undo."));
    }
    let Some(files) = app.workspace_service.clone() else {
        return Ok(Answer(wire::ChangedFiles { changes: Vec::new() }));
    };
    let (agent, id) = (chat.heading.agent.clone(), chat.handle.id());
    // A client that goes away meanwhile leaves no half of it.
    let changes = app.run_to_completion(async move { files.undo(&agent, id, &calls).await }).await?;
    audit::undone(chat.caller.token(), id, changes.len());
    Ok(Answer(wire::ChangedFiles { changes }))
}

/// Adds the user's message before each call, from the newest message on until all are found.
async fn with_messages(app: &App, chat: &OpenedChat, changes: &mut [wire::ChangedFile]) -> Result<(), Problem> {
    let mut left: BTreeMap<CallUid, Vec<&mut wire::ChangedFile>> = BTreeMap::new();
    for change in changes {
        if let Some(call) = wire::call_uid(&change.call) {
            left.entry(call).or_default().push(change);
        }
    }
    let mut called: Vec<CallUid> = Vec::new();
    let mut before = None;
    while !left.is_empty() && before != Some(MessageId(0)) {
        let page = app.page(chat, before, PAGE_LEN).await?;
        let Some(oldest) = page.first() else { break };
        before = Some(oldest.id);
        for message in page.iter().rev() {
            match &message.body {
                Body::Reply(reply) => called.extend(reply.parts.iter().filter_map(|part| match part {
                    Part::Call(call) => Some(call.uid),
                    _ => None,
                })),
                Body::User(_) => {
                    for change in called.drain(..).filter_map(|call| left.remove(&call)).flatten() {
                        change.message = Some(message.id.0);
                    }
                }
                Body::Context(_) | Body::Result(_) | Body::Summary(_) => {}
            }
        }
    }
    Ok(())
}
