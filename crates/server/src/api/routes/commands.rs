//! Commands: the queue, interrupt, answers, summaries.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use everturn::core::command::{self, Command};
use everturn::core::ids::InboxSeq;
use everturn::core::status::Status;
use everturn::stores::{Receipt, Scope, SubmitError};
use tokio::time::timeout;

use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::{IdempotencyKey, Json, LargeJson};
use crate::api::wire;
use crate::app::{App, OpenedChat, SharedApp};
use crate::auth::access::{Answering, Caller, Chatting, OwnedChat, PathNumber, Reading};
use crate::auth::audit;

/// Puts a command into a chat's inbox, where it is durable.
pub async fn accepted(chat: &OpenedChat, command: Command, key: Option<String>) -> Result<wire::Accepted, Problem> {
    let Receipt { chat: id, seq } = match chat.handle.submit(command, key).await {
        Ok(receipt) => receipt,
        Err(error) => return Err(with_standing(chat, error.into()).await),
    };
    Ok(wire::Accepted { chat: id.to_string(), id: seq.0 })
}

/// Submits a command and waits until a driver has applied it. It may still be refused then, because the chat may have
/// changed since it was accepted.
pub async fn obeyed(
    app: &App,
    chat: &OpenedChat,
    command: Command,
    key: Option<String>,
) -> Result<wire::Accepted, Problem> {
    let accepted = accepted(chat, command, key).await?;
    done(app, chat, &accepted).await?;
    Ok(accepted)
}

/// Waits until an accepted command has been applied.
async fn done(app: &App, chat: &OpenedChat, accepted: &wire::Accepted) -> Result<(), Problem> {
    let receipt = Receipt { chat: chat.handle.id(), seq: InboxSeq(accepted.id) };
    match timeout(app.limits.outcome_max, chat.handle.outcome(receipt)).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(refusal))) => Err(with_standing(chat, refusal.into()).await),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(late()),
    }
}

/// The command is stored, but no driver has applied it yet: a repeat with the same key gets its outcome.
fn late() -> Problem {
    Problem::new(
        ProblemKind::Unavailable,
        "The request is stored but not applied yet; repeat it with the same Idempotency-Key.",
    )
}

/// Adds the chat to a conflict, so that the client learns the current state.
pub async fn with_standing(chat: &OpenedChat, problem: Problem) -> Problem {
    let is_conflict = problem.kind().status() == StatusCode::CONFLICT;
    if !is_conflict && !matches!(problem.kind(), ProblemKind::QueueFull | ProblemKind::NotFound) {
        return problem;
    }
    match chat.now().await {
        Ok(now) => problem.with_chat(now),
        Err(_) => problem,
    }
}

/// The queued messages, next first.
#[utoipa::path(get, path = "/v1/chats/{id}/queue", operation_id = "listQueue", tag = "queue", params(("id" = String, Path)), security(("token" = [])), responses(
    (status = 200, description = "The queued messages", body = Vec<wire::Queued>),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
))]
pub async fn queue(chat: OwnedChat<Reading>) -> Result<Answer<Vec<wire::Queued>>, Problem> {
    Ok(Answer(chat.now().await?.standing.queue))
}

/// Deletes a queued message.
#[utoipa::path(delete, path = "/v1/chats/{id}/queue/{number}", operation_id = "deleteQueuedMessage", tag = "queue", security(("token" = [])),
    params(("id" = String, Path), ("number" = u64, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "The message is deleted and will not be answered", body = wire::Accepted),
    (status = 404, description = "The message is not queued: it was delivered or deleted", body = wire::ProblemBody),
    (status = 409, description = "The chat's status does not allow it now", body = wire::ProblemBody),
))]
pub async fn unqueue(
    chat: OwnedChat<Chatting>,
    PathNumber(number): PathNumber,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
) -> Result<Answer<wire::Accepted>, Problem> {
    Ok(Answer(obeyed(&app, &chat, Command::Unqueue(InboxSeq(number)), key.0).await?))
}

/// Moves a queued message to the front, to be delivered at the next step boundary.
#[utoipa::path(post, path = "/v1/chats/{id}/queue/{number}/promote", operation_id = "promoteQueuedMessage", tag = "queue", request_body = wire::Nothing, security(("token" = [])),
    params(("id" = String, Path), ("number" = u64, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "The message is next in the queue", body = wire::Accepted),
    (status = 404, description = "The message is not queued: it was delivered or deleted", body = wire::ProblemBody),
    (status = 409, description = "The chat's status does not allow it now", body = wire::ProblemBody),
    (status = 429, description = "The owner has too many running chats", body = wire::ProblemBody),
))]
pub async fn promote(
    chat: OwnedChat<Chatting>,
    PathNumber(number): PathNumber,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
    Json(wire::Nothing {}): Json<wire::Nothing>,
) -> Result<Answer<wire::Accepted>, Problem> {
    let begins = chat.heading.status == Status::Failed; // In other statuses a turn is running, or no message is queued.
    let _ticket = if begins { app.admit_turn(&chat.caller, &chat, &key).await? } else { None };
    Ok(Answer(obeyed(&app, &chat, Command::Promote(InboxSeq(number)), key.0).await?))
}

/// Stops the turn and keeps the part of the answer that was shown.
///
/// The response is sent when that is stored. A chat without a turn stays as it is. If a chat that waits for answers has
/// queued messages, the next one begins a turn.
#[utoipa::path(post, path = "/v1/chats/{id}/interrupt", operation_id = "interruptChat", tag = "messages", request_body = wire::Nothing, security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "The chat as it is now", body = wire::Chat),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 409, description = "The key was used for another request", body = wire::ProblemBody),
    (status = 429, description = "A queued message would begin a turn, and the owner has too many running chats", body = wire::ProblemBody),
))]
pub async fn interrupt(
    chat: OwnedChat<Chatting>,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
    Json(wire::Nothing {}): Json<wire::Nothing>,
) -> Result<Answer<wire::Chat>, Problem> {
    stopped(&app, &chat.caller, &chat, key).await?;
    Ok(Answer(chat.now().await?))
}

/// Interrupts a chat, and waits until what was shown is stored.
pub async fn stopped(app: &App, caller: &Caller, chat: &OpenedChat, key: IdempotencyKey) -> Result<(), Problem> {
    // Interrupting a running chat frees one turn before the next begins, so it needs no admission.
    let begins = chat.heading.status == Status::Awaiting && !chat.now().await?.standing.queue.is_empty();
    let _ticket = if begins { app.admit_turn(caller, chat, &key).await? } else { None };
    let stopped: Result<(), SubmitError> =
        timeout(app.limits.outcome_max, chat.handle.interrupt_as(key.0)).await.map_err(|_| late())?;
    match stopped {
        Ok(()) => Ok(()),
        Err(error) => Err(with_standing(chat, error.into()).await),
    }
}

/// Answers open calls: results of client tools, and approvals.
///
/// Results need the scope `chat`; approving, granting and denying needs the scope `approve`, and no other. Reading the open calls
/// needs `read`.
#[utoipa::path(post, path = "/v1/chats/{id}/answers", operation_id = "answerCalls", tag = "messages", request_body = wire::Answers, security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "The answers are accepted", body = wire::Accepted),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 409, description = "A call does not wait for this answer", body = wire::ProblemBody),
    (status = 413, description = "The answers are too long", body = wire::ProblemBody),
    (status = 422, description = "The request is not valid", body = wire::ProblemBody),
    (status = 429, description = "The owner has too many running chats; the calls stay open", body = wire::ProblemBody),
))]
pub async fn answers(
    chat: OwnedChat<Answering>,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
    LargeJson(answers, permit): LargeJson<wire::Answers>,
) -> Result<Answer<wire::Accepted>, Problem> {
    for answer in &answers.answers {
        chat.caller.needs(&[if answer.approves() { Scope::Approve } else { Scope::Chat }])?;
    }
    let by = &chat.caller.token().name;
    let answers: Option<Arc<[_]>> = answers.answers.into_iter().map(|answer| answer.into_core(by)).collect();
    let answers = answers.ok_or_else(|| {
        Problem::new(
            ProblemKind::Invalid,
            "`call` must be the id of an open call, such as 3.0, and `input_hash` 16 hexadecimal digits.",
        )
    })?;
    let begins = chat.heading.status == Status::Awaiting; // Only then calls are open.
    let ticket = if begins { app.admit_turn(&chat.caller, &chat, &key).await? } else { None };
    let may_look = chat.caller.has(&[Scope::Read, Scope::Chat]);
    let here = app.clone();
    let answered = app.run_to_completion(async move {
        let _held = (ticket, permit);
        answered(&here, &chat.caller, &chat, answers, key).await
    });
    let accepted = answered.await.map_err(|problem| if may_look { problem } else { problem.without_chat() })?;
    Ok(Answer(accepted))
}

/// Submits the answers, and writes the decisions to the audit log.
pub async fn answered(
    app: &App,
    caller: &Caller,
    chat: &OpenedChat,
    answers: Arc<[command::CallAnswer]>,
    key: IdempotencyKey,
) -> Result<wire::Accepted, Problem> {
    let decided = audit::decided(&answers);
    let accepted = accepted(chat, Command::Answer(answers), key.0).await?;
    let done = done(app, chat, &accepted).await;
    let is_refused = |problem: &Problem| problem.kind().status().is_client_error();
    let receipt = Receipt { chat: chat.handle.id(), seq: InboxSeq(accepted.id) };
    // A stored answer that is not applied yet is audited now: it will be applied without this request.
    if !done.as_ref().is_err_and(is_refused) && app.audited.is_first(receipt) {
        audit::answered(caller.token(), chat.handle.id(), &decided);
    }
    done.map(|()| accepted)
}

/// Summarises the messages so far, for later prompts.
#[utoipa::path(post, path = "/v1/chats/{id}/compact", operation_id = "compactChat", tag = "messages", request_body = wire::Nothing, security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "A summary is being written", body = wire::Accepted),
    (status = 429, description = "The owner has too many running chats", body = wire::ProblemBody),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 409, description = "The chat's status does not allow it now, or there is nothing to summarise", body = wire::ProblemBody),
))]
pub async fn compact(
    chat: OwnedChat<Chatting>,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
    Json(wire::Nothing {}): Json<wire::Nothing>,
) -> Result<Answer<wire::Accepted>, Problem> {
    let _ticket = app.admit_turn(&chat.caller, &chat, &key).await?;
    let is_new = app.has_agent(&chat) && !app.was_accepted(&chat, &key).await?;
    let is_new = is_new && !chat.heading.archived; // An archived chat is refused for that reason instead.
    if is_new && !chat.handle.has_something_to_compact().await? {
        let why =
            "There is nothing to summarise: the model has said nothing since the beginning, or since the last summary.";
        return Err(with_standing(&chat, Problem::new(ProblemKind::Status, why)).await);
    }
    Ok(Answer(obeyed(&app, &chat, Command::Compact, key.0).await?))
}
