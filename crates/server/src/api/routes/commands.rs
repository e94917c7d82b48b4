//! The queue, stopping, answering, summarising.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use everturn::core::command::{self, Command};
use everturn::core::ids::InboxSeq;
use everturn::core::message::Body;
use everturn::core::status::Status;
use everturn::stores::{Receipt, Scope, SubmitError};
use tokio::time::timeout;

use crate::api::problem::{Kind, Problem};
use crate::api::request::{Json, Key, Laden};
use crate::api::wire;
use crate::app::{App, OwnChat, Shared};
use crate::auth::access::{Answering, Chatting, Number, Own, Reading};
use crate::auth::audit;

/// How many messages are looked at together for something to summarise. Most often the newest is.
const COMPACTED_PAGE_LEN: usize = 20;

/// Puts a command into a chat's inbox. From here on it is kept, whatever happens.
pub async fn accepted(chat: &OwnChat, command: Command, key: Option<String>) -> Result<wire::Accepted, Problem> {
    let Receipt { chat: id, seq } = match chat.handle.submit(command, key).await {
        Ok(receipt) => receipt,
        Err(error) => return Err(with_standing(chat, error.into()).await),
    };
    Ok(wire::Accepted { chat: id.to_string(), id: seq.0 })
}

/// The same, and waits until it has been done: the chat may have moved on since it was accepted.
pub async fn obeyed(
    app: &App,
    chat: &OwnChat,
    command: Command,
    key: Option<String>,
) -> Result<wire::Accepted, Problem> {
    let accepted = accepted(chat, command, key).await?;
    done(app, chat, &accepted).await?;
    Ok(accepted)
}

/// Waits until what was accepted has been done.
async fn done(app: &App, chat: &OwnChat, accepted: &wire::Accepted) -> Result<(), Problem> {
    let receipt = Receipt { chat: chat.handle.id(), seq: InboxSeq(accepted.id) };
    match timeout(app.bounds.outcome_max, chat.handle.outcome(receipt)).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(refusal))) => Err(with_standing(chat, refusal.into()).await),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(late()),
    }
}

/// It is in the inbox, and nobody has come to it: whether it was done shows when it is asked again with the same key.
fn late() -> Problem {
    Problem::new(Kind::Unavailable, "It is kept, but was not done yet; ask again with the same Idempotency-Key.")
}

/// Tells a client that meant another state of the chat what the state is.
pub async fn with_standing(chat: &OwnChat, problem: Problem) -> Problem {
    let is_conflict = problem.kind().status() == StatusCode::CONFLICT;
    if !is_conflict && !matches!(problem.kind(), Kind::QueueFull | Kind::NotFound) {
        return problem;
    }
    match chat.now().await {
        Ok(now) => problem.with_chat(now),
        Err(_) => problem,
    }
}

/// The messages that wait, next first.
#[utoipa::path(get, path = "/v1/chats/{id}/queue", operation_id = "listQueue", tag = "queue", params(("id" = String, Path)), security(("token" = [])), responses(
    (status = 200, description = "Who waits", body = Vec<wire::Queued>),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
))]
pub async fn queue(chat: Own<Reading>) -> Result<Answer<Vec<wire::Queued>>, Problem> {
    Ok(Answer(chat.now().await?.standing.queue))
}

/// Deletes a message that waits.
#[utoipa::path(delete, path = "/v1/chats/{id}/queue/{number}", operation_id = "deleteQueuedMessage", tag = "queue", security(("token" = [])),
    params(("id" = String, Path), ("number" = u64, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "It is gone and will not be heard", body = wire::Accepted),
    (status = 404, description = "It does not wait: it was heard or deleted", body = wire::ProblemBody),
    (status = 409, description = "The chat does not take it now", body = wire::ProblemBody),
))]
pub async fn unqueue(
    chat: Own<Chatting>,
    Number(number): Number,
    State(app): State<Shared>,
    key: Key,
) -> Result<Answer<wire::Accepted>, Problem> {
    Ok(Answer(obeyed(&app, &chat, Command::Unqueue(InboxSeq(number)), key.0).await?))
}

/// Makes a message that waits the next one, at the next step boundary.
#[utoipa::path(post, path = "/v1/chats/{id}/queue/{number}/promote", operation_id = "promoteQueuedMessage", tag = "queue", request_body = wire::Nothing, security(("token" = [])),
    params(("id" = String, Path), ("number" = u64, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "It is next", body = wire::Accepted),
    (status = 404, description = "It does not wait: it was heard or deleted", body = wire::ProblemBody),
    (status = 409, description = "The chat does not take it now", body = wire::ProblemBody),
    (status = 429, description = "Too many chats run", body = wire::ProblemBody),
))]
pub async fn promote(
    chat: Own<Chatting>,
    Number(number): Number,
    State(app): State<Shared>,
    key: Key,
    Json(wire::Nothing {}): Json<wire::Nothing>,
) -> Result<Answer<wire::Accepted>, Problem> {
    let begins = chat.heading.status == Status::Failed; // Elsewhere it waits for a turn, or there is none.
    let _leave = if begins { app.leave(&chat.caller, &chat, &key).await? } else { None };
    Ok(Answer(obeyed(&app, &chat, Command::Promote(InboxSeq(number)), key.0).await?))
}

/// Stops the turn and keeps what was shown.
///
/// It is answered when that is stored. A chat that rests already is left as it is. If messages wait in a chat that waits for
/// answers, the next one begins a turn.
#[utoipa::path(post, path = "/v1/chats/{id}/interrupt", operation_id = "interruptChat", tag = "messages", request_body = wire::Nothing, security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "The chat as it is now", body = wire::Chat),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 409, description = "The key was used for something else", body = wire::ProblemBody),
    (status = 429, description = "A message waits whose turn would begin, and too many chats run", body = wire::ProblemBody),
))]
pub async fn interrupt(
    chat: Own<Chatting>,
    State(app): State<Shared>,
    key: Key,
    Json(wire::Nothing {}): Json<wire::Nothing>,
) -> Result<Answer<wire::Chat>, Problem> {
    // Whoever stops a chat that works takes no more than they give back.
    let begins = chat.heading.status == Status::Awaiting && !chat.now().await?.standing.queue.is_empty();
    let _leave = if begins { app.leave(&chat.caller, &chat, &key).await? } else { None };
    let stopped: Result<(), SubmitError> =
        timeout(app.bounds.outcome_max, chat.handle.interrupt_as(key.0)).await.map_err(|_| late())?;
    if let Err(error) = stopped {
        return Err(with_standing(&chat, error.into()).await);
    }
    Ok(Answer(chat.now().await?))
}

/// Answers calls that wait: results of tools that the client runs, and approvals.
///
/// Results take the scope `chat`; allowing and denying takes the scope `approve`, and no other. To see what is asked, and
/// what to approve, takes `read`.
#[utoipa::path(post, path = "/v1/chats/{id}/answers", operation_id = "answerCalls", tag = "messages", request_body = wire::Answers, security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "They were taken", body = wire::Accepted),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 409, description = "A call does not wait for this answer", body = wire::ProblemBody),
    (status = 413, description = "They are too long", body = wire::ProblemBody),
    (status = 422, description = "The request is not valid", body = wire::ProblemBody),
    (status = 429, description = "Too many chats run; the calls go on waiting", body = wire::ProblemBody),
))]
pub async fn answers(
    chat: Own<Answering>,
    State(app): State<Shared>,
    key: Key,
    Laden(answers, room): Laden<wire::Answers>,
) -> Result<Answer<wire::Accepted>, Problem> {
    for answer in &answers.answers {
        chat.caller.needs(&[if answer.approves() { Scope::Approve } else { Scope::Chat }])?;
    }
    let answers: Option<Arc<[_]>> = answers.answers.into_iter().map(wire::Answer::into_core).collect();
    let answers = answers.ok_or_else(|| {
        Problem::new(Kind::Invalid, "A call is named as in the ask, such as 3.0, and a hash by 16 hexadecimal digits.")
    })?;
    let begins = chat.heading.status == Status::Awaiting; // Nowhere else is anything asked.
    let leave = if begins { app.leave(&chat.caller, &chat, &key).await? } else { None };
    let may_look = chat.caller.has(&[Scope::Read, Scope::Chat]);
    let here = app.clone();
    let answered = app.to_the_end(async move {
        let _held = (leave, room);
        answered(&here, &chat, answers, key).await
    });
    let accepted = answered.await.map_err(|problem| if may_look { problem } else { problem.without_chat() })?;
    Ok(Answer(accepted))
}

/// Brings the answers to the chat, and writes down who decided what.
async fn answered(
    app: &App,
    chat: &Own<Answering>,
    answers: Arc<[command::CallAnswer]>,
    key: Key,
) -> Result<wire::Accepted, Problem> {
    let decided = audit::decided(&answers);
    let accepted = accepted(chat, Command::Answer(answers), key.0).await?;
    let done = done(app, chat, &accepted).await;
    let is_refused = |problem: &Problem| problem.kind().status().is_client_error();
    let receipt = Receipt { chat: chat.handle.id(), seq: InboxSeq(accepted.id) };
    // What nobody has come to yet is kept, and will be done without anybody who could write it down.
    if !done.as_ref().is_err_and(is_refused) && app.audited.is_first(receipt) {
        audit::answered(chat.caller.token(), chat.handle.id(), &decided);
    }
    done.map(|()| accepted)
}

/// Summarises what was said so far, for later prompts.
#[utoipa::path(post, path = "/v1/chats/{id}/compact", operation_id = "compactChat", tag = "messages", request_body = wire::Nothing, security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "A summary is being written", body = wire::Accepted),
    (status = 429, description = "Too many chats run", body = wire::ProblemBody),
    (status = 404, description = "There is no such chat", body = wire::ProblemBody),
    (status = 409, description = "The chat does not take it now, or there is nothing to summarise", body = wire::ProblemBody),
))]
pub async fn compact(
    chat: Own<Chatting>,
    State(app): State<Shared>,
    key: Key,
    Json(wire::Nothing {}): Json<wire::Nothing>,
) -> Result<Answer<wire::Accepted>, Problem> {
    let _leave = app.leave(&chat.caller, &chat, &key).await?;
    let is_new = app.has_agent(&chat) && !app.was_accepted(&chat, &key).await?;
    let is_new = is_new && !chat.heading.archived; // That is what is told of an archived chat.
    if is_new && !has_something_to_compact(&app, &chat).await? {
        let why =
            "There is nothing to summarise: the model has said nothing since the beginning, or since the last summary.";
        return Err(with_standing(&chat, Problem::new(Kind::Status, why)).await);
    }
    Ok(Answer(obeyed(&app, &chat, Command::Compact, key.0).await?))
}

/// Whether the model has said anything that no summary stands for. What people said is kept word for word.
async fn has_something_to_compact(app: &App, chat: &OwnChat) -> Result<bool, Problem> {
    let mut before = None;
    loop {
        let page = app.page(chat, before, COMPACTED_PAGE_LEN).await?;
        for message in page.iter().rev() {
            match message.body {
                Body::Reply(_) | Body::Result(_) => return Ok(true),
                Body::Summary(_) => return Ok(false),
                Body::User(_) | Body::Context(_) => {}
            }
        }
        match page.first() {
            Some(first) => before = Some(first.id),
            None => return Ok(false),
        }
    }
}
