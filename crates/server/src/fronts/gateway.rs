//! The durable gateway: requests of clients that keep their conversation themselves.
//!
//! Such a client sends everything with every request. What is durable is the generation: it is the only turn of an internal
//! chat, so a cut connection, a crash and a provider that breaks are what they are for any chat. A client that was cut asks
//! the same again, without a key of any kind; so a generation is found by the hash of its body, told again from its first
//! byte, and paid once.
//!
//! Not every equal request is a repeat: people ask twice, and programs draw several answers to one prompt. [`Repeat`] says
//! which are.

pub(crate) mod answer;
pub(crate) mod canonical;
pub(crate) mod collect;
pub(crate) mod failure;
pub(crate) mod seal;
pub(crate) mod telling;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use everturn::core::chat::TurnFailure;
use everturn::core::error::ErrorKind;
use everturn::core::ids::{ChatId, ModelId, Timestamp};
use everturn::core::message::Body;
use everturn::core::status::Status;
use everturn::core::turn_settings::TurnSettings;
use everturn::stores::Heading;

use super::Front;
use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::KEY;
use crate::app::SharedApp;
use crate::app::generations::Generations;
use crate::auth::access::Caller;
use answer::AnswerReader;

/// The agent of chats that answer requests for a model: it has no instructions, no tools and no model of its own.
pub const GATEWAY_AGENT: &str = "gateway";

/// How long a generation that ended is told again.
const ATTACH_MAX: Duration = Duration::from_mins(10);

/// How long a generation that was delivered whole is told again to a client that names its session: what a proxy took from
/// us may have been cut behind it.
const DELIVERED_GRACE: Duration = Duration::from_secs(30);

/// How many generations of one request are kept at once.
const GENERATIONS_MAX: u32 = 200;

/// Headers in which clients name their session.
const SESSION_HEADERS: [&str; 6] = [
    "session-id",
    "thread-id",
    "x-session-id",
    "x-session-affinity",
    "x-claude-code-session-id",
    "x-openwebui-chat-id",
];

/// The header in which official SDKs count their attempts.
const RETRY_COUNT: &str = "x-stainless-retry-count";

/// What answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answerer {
    /// A model alone.
    Model(ModelId),
    /// An agent, with its instructions and tools.
    Agent(String),
}

/// A request of a client that keeps its conversation itself.
pub(crate) struct GatewayRequest {
    pub front: Front,
    pub answerer: Answerer,
    pub conversation: Vec<Body>,
    pub settings: TurnSettings,
    /// The hash of the body.
    pub hash: [u8; 32],
    pub repeat: Repeat,
}

/// What a request's head says about whether it is a repeat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Repeat {
    /// The sessions that it names.
    sessions: Vec<String>,
    /// The idempotency key.
    key: Option<String>,
    /// Whether the client says that it asks again.
    is_retry: bool,
}

/// A generation that is to be told to a client.
pub(crate) struct Generation {
    pub reader: AnswerReader,
    pub chat: ChatId,
    pub created: Timestamp,
    /// Whether it was there before the request came.
    pub is_attached: bool,
    /// How many messages of conversation stand before the answer.
    pub conversation_len: usize,
    _reading: ReadingMark,
}

/// The generations that are being told, and requests that are looking for theirs.
#[derive(Default)]
pub(crate) struct Gateway {
    reading: Arc<Mutex<HashMap<ChatId, usize>>>,
    /// Equal requests look one after the other.
    looking: [tokio::sync::Mutex<()>; 32],
}

/// A generation is being told as long as this lives.
struct ReadingMark {
    reading: Arc<Mutex<HashMap<ChatId, usize>>>,
    chat: ChatId,
}

impl Repeat {
    /// What this head says.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
        let retries = text(RETRY_COUNT).and_then(|count| count.trim().parse::<u32>().ok());
        Self {
            sessions: SESSION_HEADERS.iter().filter_map(|name| text(name)).collect(),
            key: text(KEY),
            is_retry: retries.is_some_and(|count| count > 0),
        }
    }

    /// Whether a request with this head is told `found`, which was begun for an equal one.
    fn is_of(&self, found: &Heading, has_reader: bool, now: Timestamp) -> bool {
        let age = now.since(found.touched);
        match found.status {
            // A program may draw several answers at once: nothing says that this is the same client.
            Status::Running if has_reader => self.is_retry || self.key.is_some() || !self.sessions.is_empty(),
            Status::Running | Status::Interrupting | Status::Awaiting => true,
            Status::Failed => false,
            Status::Idle if self.key.is_some() => true,
            Status::Idle if age > ATTACH_MAX => false,
            Status::Idle if found.archived => self.is_retry || (!self.sessions.is_empty() && age <= DELIVERED_GRACE),
            Status::Idle => true,
        }
    }
}

impl Gateway {
    fn read(&self, chat: ChatId) -> ReadingMark {
        let reading = self.reading.clone();
        *reading.lock().unwrap_or_else(PoisonError::into_inner).entry(chat).or_default() += 1;
        ReadingMark { reading, chat }
    }

    fn has_reader(&self, chat: ChatId) -> bool {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&chat)
    }
}

impl Drop for ReadingMark {
    fn drop(&mut self) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = reading.get_mut(&self.chat) {
            *count -= 1;
            if *count == 0 {
                reading.remove(&self.chat);
            }
        }
    }
}

/// The generation that answers a request: one that an equal request began, or a new one.
pub(crate) async fn generation(
    app: &SharedApp,
    caller: &Caller,
    request: GatewayRequest,
) -> Result<Generation, Problem> {
    let GatewayRequest { front, answerer, conversation, settings, hash, repeat } = request;
    let (kind, name) = match &answerer {
        Answerer::Model(model) => ("model", model.to_string()),
        Answerer::Agent(agent) => ("agent", agent.clone()),
    };
    let words = [front.label(), kind, &name].map(str::as_bytes).into_iter().chain([&hash[..]]);
    let named = repeat.sessions.iter().chain(&repeat.key).map(String::as_bytes);
    let key = canonical::hash_words(words.chain(named));
    let conversation_len = conversation.len();
    let _turn = app.gateway.looking[usize::from(hash[0]) % app.gateway.looking.len()].lock().await;
    for number in 0..GENERATIONS_MAX {
        let new = Generations(app).request_chat(caller, &answerer, format!("request {key} {number}"));
        let (chat, is_attached) = match Generations(app).found(&new).await? {
            Some(found) if repeat.is_of(&found, app.gateway.has_reader(found.id), app.now()) => (found.id, true),
            Some(_) => continue,
            None => {
                let settings = Arc::new(settings);
                (Generations(app).answer_request(caller, &new, &conversation, settings).await?, false)
            }
        };
        if is_attached {
            app.meter.fronts.attached(front);
            tracing::info!(%chat, front = front.label(), "request attached to the generation of an equal one");
        }
        return Ok(told(app, chat, conversation_len, is_attached));
    }
    let why =
        "This request was made too often within the time its generations are kept; change it, or try again later.";
    Err(Problem::new(ProblemKind::TooMany, why))
}

/// A generation from its first byte.
pub(crate) fn told(app: &SharedApp, chat: ChatId, conversation_len: usize, is_attached: bool) -> Generation {
    Generation {
        reader: AnswerReader::new(app.clone(), chat, conversation_len),
        chat,
        created: chat.made_at(),
        is_attached,
        conversation_len,
        _reading: app.gateway.read(chat),
    }
}

/// Notes that a client has a generation whole: an equal request of a client that does not say that it asks again gets a
/// new one.
pub(crate) fn delivered(app: &SharedApp, chat: ChatId) {
    let archiver = app.clone();
    app.begun.spawn(async move {
        if let Err(error) = Generations(&archiver).mark_delivered(chat).await {
            tracing::warn!(%chat, %error, "delivered generation not marked; an equal request may be told it again");
        }
    });
}

/// The failure of a generation that was stopped.
pub(crate) fn stopped() -> TurnFailure {
    let message = "The generation was stopped before it was done.".into();
    TurnFailure { kind: ErrorKind::Generic, message, detail: String::new(), attempts: 0 }
}

/// The name of a generation for clients. It says all that is needed to find and tell it.
pub(crate) fn name_of(prefix: &str, generation: &Generation) -> String {
    format!("{prefix}{}{:x}", generation.chat, generation.conversation_len)
}

/// The chat and the length of its conversation that a name of [`name_of`] says.
pub(crate) fn named(prefix: &str, name: &str) -> Option<(ChatId, usize)> {
    let rest = name.strip_prefix(prefix)?;
    let (chat, len) = (rest.get(..26)?, rest.get(26..)?);
    Some((chat.parse().ok()?, usize::from_str_radix(len, 16).ok()?))
}
