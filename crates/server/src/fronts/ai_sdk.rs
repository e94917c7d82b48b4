//! The front of the Vercel AI SDK's UI message stream, under `/ai/6` and `/ai/7`.
//!
//! A chat of the client is a chat of ours, found by the client's id. Of the history that a client sends nothing is taken
//! but the last message and the answers in it: the transcript is the server's. Closing a connection changes nothing; the
//! turn goes on, and a client that comes back is told all of it from the turn's first chunk.

mod left_out;
mod load;
mod parts;
mod request;
mod tell;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use everturn::core::blob::Blob;
use everturn::core::chat::CallState;
use everturn::core::command::{AnswerContent, CallAnswer, Command, Delivery};
use everturn::core::ids::{InboxSeq, StepId};
use everturn::core::message::{Body, Message, Output, Part};
use everturn::core::status::Status;
use everturn::stores::{Scope, TokenHash};
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use self::left_out::LeftOut;
use self::request::{Act, Asked, Post, ToolAnswer};
use self::tell::ChunkTeller;
use super::follow::{self, FollowedTurn, WhichTurn, no_such_turn};
use super::names::{self, FrontPath};
use super::stream::{self, FrontFrames, FrontPiece};
use super::turn::TurnProgress;
use super::{Front, FrontRoute};
use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::{BodyPermit, IdempotencyKey, Json, LargeJson, QueryParams};
use crate::api::routes::commands;
use crate::app::{NewChatRequest, OpenedChat, SharedApp};
use crate::auth::access::{Answering, Authorized, Caller, Chatting, Reading};

/// What the client understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    /// Every client of 6.x and 7.x.
    Base,
    /// 7.0.163 and later.
    Newest,
}

/// The routes.
pub(super) fn routes() -> Vec<FrontRoute> {
    let of = |profile: Profile, paths: [&'static str; 4]| {
        let [chat, stream, stop, messages] = paths;
        let post_chat: MethodRouter<SharedApp> = post(move |caller, state, body| send(profile, caller, state, body));
        let get_stream: MethodRouter<SharedApp> = get(move |caller, state, path| resume(profile, caller, state, path));
        [
            FrontRoute::new(Method::POST, chat, post_chat),
            FrontRoute::new(Method::GET, stream, get_stream),
            FrontRoute::new(Method::POST, stop, post(self::stop)),
            FrontRoute::new(Method::GET, messages, get(self::messages)),
        ]
    };
    let six = ["/ai/6/chat", "/ai/6/chat/{id}/stream", "/ai/6/chat/{id}/stop", "/ai/6/chat/{id}/messages"];
    let seven = ["/ai/7/chat", "/ai/7/chat/{id}/stream", "/ai/7/chat/{id}/stop", "/ai/7/chat/{id}/messages"];
    of(Profile::Base, six).into_iter().chain(of(Profile::Newest, seven)).collect()
}

/// Sends, edits, regenerates or answers, and streams the turn.
async fn send(
    profile: Profile,
    caller: Authorized<Answering>,
    State(app): State<SharedApp>,
    LargeJson(post, permit): LargeJson<Post>,
) -> Result<Response, Problem> {
    caller.needs(&[Scope::Read])?; // The answer is a stream of the chat.
    let Asked { chat: name, act, options } = post.read()?;
    if !matches!(act, Act::Answer { .. }) {
        caller.needs(&[Scope::Chat])?;
    }
    let known = app.named(&caller, Front::AiSdk, &name).await?;
    let request = Request { app: app.clone(), caller: (*caller).clone(), _held: permit };
    let (chat, asked) = match (act, known) {
        (Act::Send { id, parts }, known) => {
            let chat = match known {
                Some(chat) => chat,
                None => request.create(&name, options.create(|model| app.pick(model))?).await?,
            };
            let when = options.when();
            let key = names::message_key(Front::AiSdk, &id, "");
            let asked = request.send(&chat, Command::Send { parts, when }, key).await?;
            (chat, asked)
        }
        (Act::Edit { id, parts }, Some(chat)) => {
            let asked = request.edit(&chat, &id, parts, options.when()).await?;
            (chat, asked)
        }
        (Act::Edit { id, parts }, None) => {
            let chat = request.create(&name, options.create(|model| app.pick(model))?).await?;
            let key = names::message_key(Front::AiSdk, &id, "");
            let asked = request.send(&chat, Command::Send { parts, when: options.when() }, key).await?;
            (chat, asked)
        }
        (Act::Regenerate { reply }, Some(chat)) => {
            let asked = request.regenerate(&chat, reply.as_deref()).await?;
            (chat, asked)
        }
        (Act::Answer { reply, answers }, Some(chat)) => {
            let asked = request.answer(&chat, reply.as_deref(), answers).await?;
            (chat, asked)
        }
        (Act::Regenerate { .. } | Act::Answer { .. }, None) => return Err(Problem::not_found()),
    };
    stream_turn(profile, &app, &caller, chat, asked).await
}

/// A turn to stream.
struct AskedTurn {
    which: WhichTurn,
    /// The newest step that the client knows, if it is told the rest only.
    known: Option<StepId>,
    /// Whether the turn had begun before the request.
    is_attached: bool,
}

/// What all acts of a request need.
struct Request {
    app: SharedApp,
    caller: Caller,
    /// Until its content is handed on.
    _held: BodyPermit,
}

impl Request {
    async fn create(&self, name: &str, new: NewChatRequest) -> Result<OpenedChat, Problem> {
        let key = Some(names::chat_key(Front::AiSdk, name));
        match self.app.make(&self.caller, NewChatRequest { key, ..new }).await {
            // Another request has created it meanwhile, with other options.
            Err(problem) if problem.kind() == ProblemKind::KeyReused => {
                self.app.named(&self.caller, Front::AiSdk, name).await?.ok_or(problem)
            }
            made => made,
        }
    }

    /// Submits a command under a key; the turn is that of its receipt.
    async fn send(&self, chat: &OpenedChat, command: Command, key: String) -> Result<AskedTurn, Problem> {
        let key = IdempotencyKey(Some(key));
        let is_attached = self.app.was_accepted(chat, &key).await?;
        let _ticket = self.app.admit_turn(&self.caller, chat, &key).await?;
        let accepted = match command {
            Command::Edit { .. } => commands::obeyed(&self.app, chat, command, key.0).await?,
            _ => commands::accepted(chat, command, key.0).await?,
        };
        Ok(AskedTurn { which: WhichTurn::Receipt(InboxSeq(accepted.id)), known: None, is_attached })
    }

    /// Replaces a user message. A message that the chat does not have is sent; one that is the newest, with the same
    /// content and not failed, is what the client wants to see.
    async fn edit(
        &self,
        chat: &OpenedChat,
        id: &str,
        parts: Arc<[Part]>,
        when: Delivery,
    ) -> Result<AskedTurn, Problem> {
        let standing = chat.handle.standing().await?;
        let is_queued = |key: Option<&str>| names::named_in(key) == Some(id);
        if standing.queue.iter().any(|queued| is_queued(queued.key.as_deref())) {
            let key = names::message_key(Front::AiSdk, id, "");
            return self.send(chat, Command::Send { parts, when }, key).await;
        }
        let is_meant = |message: &Message| is_user(message) && names::message_name(message) == id;
        let Some(found) = follow::find(&self.app, chat, None, is_meant).await? else {
            let key = names::message_key(Front::AiSdk, id, "");
            return self.send(chat, Command::Send { parts, when }, key).await;
        };
        let newest = follow::find(&self.app, chat, None, is_user).await?.map(|message| message.id);
        let digest = digest(&parts);
        let is_same = digest == digest_of(&self.app, chat, &found).await?;
        if is_same && newest == Some(found.id) && standing.status != Status::Failed {
            return Ok(AskedTurn { which: WhichTurn::Message(found.id), known: None, is_attached: true });
        }
        let key = names::message_key(Front::AiSdk, id, &format!("e{}.{digest}", found.id));
        self.send(chat, Command::Edit { message: found.id, parts }, key).await
    }

    /// Asks the model again for a reply.
    async fn regenerate(&self, chat: &OpenedChat, reply: Option<&str>) -> Result<AskedTurn, Problem> {
        let newest = follow::find(&self.app, chat, None, is_user).await?.ok_or_else(no_such_turn)?;
        let wanted = reply.and_then(parts::user_of);
        let user = match wanted.filter(|wanted| *wanted != newest.id) {
            Some(wanted) => {
                let is_meant = |message: &Message| is_user(message) && message.id == wanted;
                follow::find(&self.app, chat, Some(newest.id), is_meant).await?
            }
            None => Some(newest.clone()),
        };
        let under_way = follow::turn_under_way(&self.app, chat).await?;
        let is_newest = user.as_ref().is_none_or(|user| user.id == newest.id);
        if let (Some(which), true) = (under_way, is_newest) {
            return Ok(AskedTurn { which, known: None, is_attached: true }); // A repeat, or a second tab.
        }
        let user = user.ok_or_else(no_such_turn)?;
        let whole = self.app.message(chat, user.id).await?;
        let Body::User(parts) = &whole.body else { return Err(no_such_turn()) };
        let key = names::message_key(Front::AiSdk, &names::message_name(&user), &format!("r{}", user.id));
        self.send(chat, Command::Edit { message: user.id, parts: parts.clone().into() }, key).await
    }

    /// Answers the open calls that the client has answers for, and streams the rest of the turn.
    async fn answer(
        &self,
        chat: &OpenedChat,
        reply: Option<&str>,
        given: Vec<ToolAnswer>,
    ) -> Result<AskedTurn, Problem> {
        let standing = chat.handle.standing().await?;
        let mut answers = Vec::new();
        for answer in &given {
            let Some(ask) = standing.asks.iter().find(|ask| ask.uid == answer.call) else { continue };
            let what = match (ask.state, &answer.what) {
                (CallState::AsksApproval, request::Given::Approval { id, approved, reason }) => {
                    self.caller.needs(&[Scope::Approve])?;
                    let shown = ask.input.as_deref().and_then(|input| serde_json::from_str::<Value>(input).ok());
                    let is_as_shown = answer.input.is_none() || answer.input == shown;
                    if *id != names::approval_name(ask) || !is_as_shown {
                        let why =
                            format!("Call {} has another input than the one approved; load the chat again.", ask.uid);
                        return Err(Problem::new(ProblemKind::NotAsked, why));
                    }
                    match approved {
                        true => AnswerContent::Approve { input_hash: ask.input_hash },
                        false => AnswerContent::Deny { reason: reason.clone() },
                    }
                }
                (CallState::AsksClient, request::Given::Output(output)) => {
                    self.caller.needs(&[Scope::Chat])?;
                    AnswerContent::Output(Output::text(parts::text_of_output(output)))
                }
                (CallState::AsksClient, request::Given::Error(why)) => {
                    self.caller.needs(&[Scope::Chat])?;
                    AnswerContent::Error(Output::text(why))
                }
                _ => continue, // It is open, and this part says nothing about it.
            };
            answers.push(CallAnswer { call: ask.uid, what });
        }
        let known = given.iter().map(|answer| answer.call.step).max();
        let is_attached = answers.is_empty();
        if !is_attached {
            let digest = hex(&TokenHash::of(&format!("{answers:?}")));
            let key = IdempotencyKey(Some(names::message_key(Front::AiSdk, "-", &format!("a{digest}"))));
            let _ticket = self.app.admit_turn(&self.caller, chat, &key).await?;
            commands::answered(&self.app, &self.caller, chat, answers.into(), key).await?;
        }
        let which = match reply.and_then(parts::user_of) {
            Some(user) => user,
            None => follow::find(&self.app, chat, None, is_user).await?.ok_or_else(no_such_turn)?.id,
        };
        Ok(AskedTurn { which: WhichTurn::Message(which), known, is_attached })
    }
}

fn is_user(message: &Message) -> bool {
    matches!(message.body, Body::User(_))
}

/// A digest of a user message's content.
fn digest(parts: &[Part]) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => json!([text.text]),
        Part::File(file) => {
            let bytes =
                file.bytes.as_ref().and_then(Blob::here).map(|bytes| hex(&TokenHash::of(&STANDARD.encode(bytes))));
            json!([file.name, file.media_type, bytes])
        }
        _ => Value::Null,
    };
    hex(&TokenHash::of(&Value::Array(parts.iter().map(part).collect()).to_string()))
}

async fn digest_of(app: &SharedApp, chat: &OpenedChat, message: &Message) -> Result<String, Problem> {
    let whole = app.message(chat, message.id).await?;
    match &whole.body {
        Body::User(parts) => Ok(digest(parts)),
        _ => Err(no_such_turn()),
    }
}

fn hex(hash: &TokenHash) -> String {
    hash.0.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

async fn stream_turn(
    profile: Profile,
    app: &SharedApp,
    caller: &Caller,
    chat: OpenedChat,
    asked: AskedTurn,
) -> Result<Response, Problem> {
    let clients = Arc::new(app.client_tools(&chat).await?);
    let mut teller = ChunkTeller::new(profile, clients);
    if let Some(known) = asked.known {
        teller.knows(known);
    }
    if asked.is_attached {
        app.meter.fronts.attached(Front::AiSdk);
    }
    let followed = FollowedTurn::new(app.clone(), chat, asked.which);
    let chunks = Chunks { followed, teller, is_replay: asked.is_attached };
    let mut response = stream::respond(app.clone(), caller, Front::AiSdk, chunks)?;
    response.headers_mut().insert("x-vercel-ai-ui-message-stream", HeaderValue::from_static("v1"));
    Ok(response)
}

/// The chunks of a turn.
struct Chunks {
    followed: FollowedTurn,
    teller: ChunkTeller,
    /// Whether the next chunks were sent to a client before.
    is_replay: bool,
}

impl FrontFrames for Chunks {
    async fn next(&mut self) -> FrontPiece {
        loop {
            if let Err(why) = self.followed.catch_up().await {
                return FrontPiece::Broken(why);
            }
            let Some(progress) = self.followed.progress() else { continue };
            let Some(view) = &mut self.followed.view else {
                self.teller.fail("The message was removed before it was answered.");
                return FrontPiece::Last(self.teller.take().into());
            };
            if progress == TurnProgress::Gone {
                self.teller.fail("The message was edited elsewhere; load the chat again.");
                return FrontPiece::Last(self.teller.take().into());
            }
            if self.teller.tell(view).is_err() {
                return FrontPiece::Broken("something shown was taken back, and the protocol cannot say so");
            }
            if let Some(step) = self.teller.newest() {
                view.forget_before(step);
            }
            let is_last = match &progress {
                TurnProgress::Going | TurnProgress::Gone => false,
                TurnProgress::Asks(asks) => {
                    self.teller.asks(asks);
                    true
                }
                TurnProgress::Over(outcome) => {
                    self.teller.over(outcome);
                    true
                }
            };
            let bytes = Bytes::from(self.teller.take());
            if std::mem::take(&mut self.is_replay) {
                self.followed.count_replayed(Front::AiSdk, bytes.len());
            }
            match (is_last, bytes.is_empty()) {
                (true, _) => return FrontPiece::Last(bytes),
                (false, false) => return FrontPiece::Frame(bytes),
                (false, true) => {}
            }
        }
    }
}

/// The turn under way, from its first chunk; 204 if none is.
async fn resume(
    profile: Profile,
    caller: Authorized<Reading>,
    State(app): State<SharedApp>,
    path: FrontPath,
) -> Result<Response, Problem> {
    let Some(chat) = app.named(&caller, Front::AiSdk, path.chat()?).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response()); // A page asks before it has sent anything.
    };
    let under_way = follow::turn_under_way(&app, &chat).await?;
    match under_way.or_else(|| app.left_out.of(chat.heading.id)) {
        Some(which) => {
            let asked = AskedTurn { which, known: None, is_attached: true };
            stream_turn(profile, &app, &caller, chat, asked).await
        }
        None => Ok(StatusCode::NO_CONTENT.into_response()),
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
    let chat = app.named(&caller, Front::AiSdk, path.chat()?).await?.ok_or_else(Problem::not_found)?;
    commands::stopped(&app, &caller, &chat, IdempotencyKey(None)).await?;
    Ok(axum::Json(json!({"success": true})).into_response())
}

/// Which messages to load.
#[derive(Deserialize)]
struct Which {
    /// Messages before the one with this id; the newest if left out.
    before: Option<String>,
    /// How many turns.
    limit: Option<usize>,
}

/// The messages as the client keeps them, oldest first. The reply of a turn under way is left out: resuming brings it.
async fn messages(
    caller: Authorized<Reading>,
    State(app): State<SharedApp>,
    path: FrontPath,
    QueryParams(which): QueryParams<Which>,
) -> Result<Response, Problem> {
    let chat = app.named(&caller, Front::AiSdk, path.chat()?).await?.ok_or_else(Problem::not_found)?;
    let clients: BTreeSet<String> = app.client_tools(&chat).await?;
    let messages = load::messages(&app, &chat, &clients, which.before.as_deref(), which.limit).await?;
    Ok(axum::Json(Value::Array(messages)).into_response())
}

/// The user message that an id of the client means, if it means one.
fn before_of(message: &Message, id: &str) -> bool {
    is_user(message) && (names::message_name(message) == id || parts::user_of(id) == Some(message.id))
}
