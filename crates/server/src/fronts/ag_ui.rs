//! The front of AG-UI, under `/ag-ui/{agent}`.
//!
//! A thread of the client is a chat of ours; a run is a turn, or the rest of one behind an answer. Of the messages that a
//! client sends, the last one is taken and the answers to open calls; where the others differ from the transcript, ours
//! are right, and the client gets them as a snapshot.

mod request;
mod snapshot;
mod tell;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use everturn::core::chat::CallState;
use everturn::core::command::{AnswerContent, CallAnswer, Command, Delivery};
use everturn::core::ids::{InboxSeq, StepId};
use everturn::core::message::{Body, Message, Output, Part};
use everturn::stores::{Scope, TokenHash};
use serde::Deserialize;
use serde_json::{Value, json};

use self::request::{Answers, RunInput};
use self::tell::RunTeller;
use super::follow::{self, FollowedTurn, WhichTurn, no_such_turn};
use super::names::{self, FrontPath};
use super::stream::{self, FrontFrames, FrontPiece};
use super::turn::TurnProgress;
use super::{Front, FrontRoute};
use crate::api::problem::{Problem, ProblemKind, ToldProblem};
use crate::api::request::{IdempotencyKey, Json, LargeJson};
use crate::api::routes::commands;
use crate::app::{NewChatRequest, OpenedChat, SharedApp};
use crate::auth::access::{Answering, Authorized, Caller, Chatting};

/// The routes.
pub(super) fn routes() -> Vec<FrontRoute> {
    vec![
        FrontRoute::new(Method::POST, "/ag-ui/{agent}", post(run)),
        FrontRoute::new(Method::POST, "/ag-ui/{agent}/threads/{id}/stop", post(stop)),
    ]
}

/// A problem for clients of AG-UI, which show the body as it is.
pub(super) fn envelope(told: &ToldProblem) -> String {
    json!({"message": told.detail, "code": told.kind.slug()}).to_string()
}

/// Runs an agent: sends, answers or joins, and streams the turn.
async fn run(
    caller: Authorized<Answering>,
    State(app): State<SharedApp>,
    path: FrontPath,
    LargeJson(input, permit): LargeJson<RunInput>,
) -> Result<Response, Problem> {
    caller.needs(&[Scope::Read])?; // The answer is a stream of the chat.
    let name = names::checked("thread", &input.thread_id)?;
    if input.resume.is_empty() {
        caller.needs(&[Scope::Chat])?;
    }
    let known = app.named(&caller, Front::AgUi, name).await?;
    let is_new = known.is_none();
    let chat = match known {
        Some(chat) => chat,
        None => create(&app, &caller, path.get("agent"), &input).await?,
    };
    let tools = app.client_tools(&chat).await?;
    if let Some(unknown) = input.tools.iter().find(|tool| !tools.contains(&tool.name)) {
        let why = format!("The thread has no tool `{}`: its tools are those of its first run.", unknown.name);
        return Err(Problem::new(ProblemKind::Invalid, why).at("tools"));
    }
    let asked = Request { app: app.clone(), caller: (*caller).clone() }.ask(&chat, &input).await?;
    drop(permit);
    if asked.is_attached {
        app.meter.fronts.attached(Front::AgUi);
    }
    let mut teller = RunTeller::new(&input, Arc::new(tools));
    if let Some(known) = asked.known {
        teller.knows(known);
    }
    let needs_snapshot = !is_new && (asked.joins || !snapshot::is_ours(&app, &chat, &input, asked.which).await?);
    let snapshot =
        if needs_snapshot { Some(snapshot::messages(&app, &chat, &input, asked.which).await?) } else { None };
    if snapshot.is_some() {
        teller.knows_nothing();
    }
    let followed = FollowedTurn::new(app.clone(), chat, asked.which);
    let events = Events { followed, teller, snapshot, has_started: false, is_replay: asked.is_attached };
    stream::respond(app.clone(), &caller, Front::AgUi, events)
}

async fn create(app: &SharedApp, caller: &Caller, agent: &str, input: &RunInput) -> Result<OpenedChat, Problem> {
    let name = &input.thread_id;
    let new = NewChatRequest {
        agent: Some(agent.to_owned()),
        model: app.pick(None)?,
        title: None,
        debug: false,
        setup: input.setup()?,
        transcript: None,
        key: Some(names::chat_key(Front::AgUi, name)),
    };
    match app.make(caller, new).await {
        // Another run has created it meanwhile.
        Err(problem) if problem.kind() == ProblemKind::KeyReused => {
            app.named(caller, Front::AgUi, name).await?.ok_or(problem)
        }
        made => made,
    }
}

/// A turn to stream.
struct AskedTurn {
    which: WhichTurn,
    /// The newest step that the client knows, if it is told the rest only.
    known: Option<StepId>,
    is_attached: bool,
    /// Whether the client joins without saying anything.
    joins: bool,
}

struct Request {
    app: SharedApp,
    caller: Caller,
}

impl Request {
    async fn ask(&self, chat: &OpenedChat, input: &RunInput) -> Result<AskedTurn, Problem> {
        match input.answers() {
            Answers::None => {}
            answers => return self.answer(chat, &answers).await,
        }
        let last = input.messages.last().filter(|message| message.role == "user");
        let Some(last) = last else { return self.join(chat).await };
        let id = names::checked("message", &last.id)?;
        let key = IdempotencyKey(Some(names::message_key(Front::AgUi, id, "")));
        let is_attached = self.app.was_accepted(chat, &key).await?;
        let parts: Arc<[Part]> = last.parts()?.into();
        let _ticket = self.app.admit_turn(&self.caller, chat, &key).await?;
        let accepted = commands::accepted(chat, Command::Send { parts, when: Delivery::Queue }, key.0).await?;
        let which = WhichTurn::Receipt(InboxSeq(accepted.id));
        Ok(AskedTurn { which, known: None, is_attached, joins: is_attached })
    }

    /// The turn under way, or the newest one.
    async fn join(&self, chat: &OpenedChat) -> Result<AskedTurn, Problem> {
        let which = match follow::turn_under_way(&self.app, chat).await? {
            Some(which) => which,
            None => WhichTurn::Message(self.newest(chat).await?.id),
        };
        Ok(AskedTurn { which, known: None, is_attached: true, joins: true })
    }

    async fn newest(&self, chat: &OpenedChat) -> Result<Arc<Message>, Problem> {
        let is_user = |message: &Message| matches!(message.body, Body::User(_));
        follow::find(&self.app, chat, None, is_user).await?.ok_or_else(no_such_turn)
    }

    async fn answer(&self, chat: &OpenedChat, given: &Answers<'_>) -> Result<AskedTurn, Problem> {
        let standing = chat.handle.standing().await?;
        let (mut answers, mut known) = (Vec::new(), None);
        for ask in &standing.asks {
            let what = match (ask.state, given) {
                (CallState::AsksClient, Answers::Results(results)) => {
                    let Some(result) = results.iter().find(|result| result.call() == Some(ask.uid)) else { continue };
                    self.caller.needs(&[Scope::Chat])?;
                    match &result.error {
                        Some(why) => AnswerContent::Error(Output::text(why)),
                        None => AnswerContent::Output(Output::text(result.text())),
                    }
                }
                (CallState::AsksApproval, Answers::Resumes(resumes)) => {
                    let id = names::approval_name(ask);
                    let Some(resume) = resumes.iter().find(|resume| resume.interrupt_id == id) else { continue };
                    self.caller.needs(&[Scope::Approve])?;
                    match resume.reason_to_deny() {
                        None => AnswerContent::Approve { input_hash: ask.input_hash },
                        Some(reason) => AnswerContent::Deny { reason },
                    }
                }
                _ => continue,
            };
            known = known.max(Some(ask.uid.step));
            answers.push(CallAnswer { call: ask.uid, what });
        }
        let user = self.newest(chat).await?;
        if answers.is_empty() {
            if let (Answers::Resumes(_), false) = (given, standing.asks.is_empty()) {
                let why = "The thread waits for other approvals; run it again to see them.";
                return Err(Problem::new(ProblemKind::NotAsked, why).at("resume"));
            }
            return Ok(AskedTurn { joins: true, ..self.join(chat).await? }); // They were answered before.
        }
        let digest: String =
            TokenHash::of(&format!("{answers:?}")).0.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let key = IdempotencyKey(Some(names::message_key(Front::AgUi, "-", &format!("a{digest}"))));
        let _ticket = self.app.admit_turn(&self.caller, chat, &key).await?;
        commands::answered(&self.app, &self.caller, chat, answers.into(), key).await?;
        Ok(AskedTurn { which: WhichTurn::Message(user.id), known, is_attached: false, joins: false })
    }
}

/// The events of a run.
struct Events {
    followed: FollowedTurn,
    teller: RunTeller,
    /// Messages that the client gets before anything else.
    snapshot: Option<Vec<Value>>,
    has_started: bool,
    is_replay: bool,
}

impl FrontFrames for Events {
    async fn next(&mut self) -> FrontPiece {
        if !self.has_started {
            self.has_started = true;
            self.teller.started(self.snapshot.take());
            return FrontPiece::Frame(self.teller.take().into());
        }
        loop {
            if let Err(why) = self.followed.catch_up().await {
                return FrontPiece::Broken(why);
            }
            let Some(progress) = self.followed.progress() else { continue };
            let Some(view) = self.followed.view.as_mut().filter(|_| progress != TurnProgress::Gone) else {
                self.teller.failed("The message was edited or removed elsewhere; run the thread again.");
                return FrontPiece::Last(self.teller.take().into());
            };
            if self.teller.tell(view).is_err() {
                return FrontPiece::Broken("something shown was taken back");
            }
            if let Some(step) = self.teller.newest() {
                view.forget_before(step);
            }
            let is_last = self.teller.end(&progress);
            let bytes = Bytes::from(self.teller.take());
            if std::mem::take(&mut self.is_replay) {
                self.followed.count_replayed(Front::AgUi, bytes.len());
            }
            match (is_last, bytes.is_empty()) {
                (true, _) => return FrontPiece::Last(bytes),
                (false, false) => return FrontPiece::Frame(bytes),
                (false, true) => {}
            }
        }
    }
}

/// The body of a stop, which says nothing that is needed.
#[derive(Deserialize)]
struct Stop {}

/// Stops the turn, and answers when the partial reply is stored.
async fn stop(
    caller: Authorized<Chatting>,
    State(app): State<SharedApp>,
    path: FrontPath,
    Json(Stop {}): Json<Stop>,
) -> Result<Response, Problem> {
    let chat = app.named(&caller, Front::AgUi, path.chat()?).await?.ok_or_else(Problem::not_found)?;
    commands::stopped(&app, &caller, &chat, IdempotencyKey(None)).await?;
    Ok(axum::Json(json!({"success": true})).into_response())
}

/// The names of the tools that clients run.
type Tools = Arc<BTreeSet<String>>;
