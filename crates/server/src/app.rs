//! State shared by all requests, and the one way to a chat.
//!
//! The engine is private to this file. Every route gets a chat through [`App::open`], which takes the caller, so no route
//! can forget to check the owner; a chat of another owner is answered like one that does not exist.

pub(crate) mod generations;
pub(crate) mod per_key_limit;
mod turn_admission;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::Request;
use everturn::core::budget::BudgetAccount;
use everturn::core::command::ModelChoice;
use everturn::core::doctor::foreign::{self, Loss};
use everturn::core::ids::{CallUid, ChatId, MessageId, ModelId, Timestamp};
use everturn::core::message::Message;
use everturn::core::prompt::ToolSpec;
use everturn::core::setup::Setup;
use everturn::core::status::Status;
use everturn::core::view::{Cursor, Standing};
use everturn::stores::{
    ChatQuery, Chosen, Fork, Heading, IdempotencyRecord, MessageRange, MessageReader, NewChat, Scope, Store,
    StoreError, StoreExt as _, SubmitError, Token, TokenHash, Tokens,
};
use everturn::{Agent, ChatHandle, CreateError, Engine, Feed, Subscription};
use everturn_understudy::Understudy;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::IdempotencyKey;
use crate::api::wire;
use crate::app::per_key_limit::PerKeyLimit;
use crate::app::turn_admission::{TurnAdmission, TurnTicket};
use crate::auth::access::Caller;
use crate::auth::audit::RecordedAnswers;
use crate::auth::cors::AllowedSites;
use crate::auth::failures::FailedLogins;
use crate::auth::guard::{ClientPeer, Hosts, RequestIds};
use crate::auth::proxies::Network;
use crate::auth::token_watch::TokenWatches;
use crate::entropy;
use crate::fronts::ai_sdk::LeftOut;
use crate::fronts::gateway::{GATEWAY_AGENT, Gateway};
use crate::fronts::{Front, names};
use crate::metrics::meter::ServerMetrics;
use crate::net::serve::Reach;
use crate::net::slow_reader::budget::ResponseBudget;
use crate::page::{PageFile, PageTransport};
use crate::setup::limits::ServerLimits;
use crate::setup::offer::{ModelOffer, ModelPick, instead};

/// The provider that stands in for models.
const STAND_IN: &str = "understudy";

/// The parts that a server is built from.
pub struct ServerParts {
    /// Drives the chats.
    pub engine: Engine,
    /// The store it drives them on.
    pub store: Arc<dyn Store>,
    /// The access tokens.
    pub tokens: Arc<dyn Tokens>,
    /// The metrics that `/metrics` shows.
    pub registry: Registry,
    /// The agent of chats that name none.
    pub agent: String,
    /// The models a chat may be given beside those of the agents.
    pub models: Vec<ModelOffer>,
    /// The MCP servers as they are now.
    pub mcp: McpStates,
    /// The server's limits.
    pub limits: ServerLimits,
    /// Where the tools of agents work, by the agent's name.
    pub workspaces: BTreeMap<String, wire::AgentWorkspace>,
    /// What clients may know and do there; `None` if no agent has a workspace.
    pub workspace_service: Option<Arc<dyn WorkspaceService>>,
    /// The files of the web page; empty if there is none.
    pub page: &'static [PageFile],
    /// Breaks things for show; `None` in a server that does real work.
    pub drill: Option<Drill>,
}

/// Breaks things in front of a person, in a server whose models the stand-in plays.
#[derive(Clone)]
pub struct Drill {
    /// The stand-in, whose streams are cut.
    pub stand_in: Understudy,
    /// Kills this process, if a parent starts another in its place.
    pub kill: Option<fn()>,
}

/// What clients may know and do about the workspace of a chat's agent. An agent without one has no changes and no jobs.
#[async_trait]
pub trait WorkspaceService: Send + Sync {
    /// The changes of files, without the messages before them.
    async fn changes(&self, agent: &str, chat: ChatId) -> Result<Vec<wire::ChangedFile>, Problem>;

    /// Undoes the changes of these calls, all or none, and returns what was undone.
    async fn undo(&self, agent: &str, chat: ChatId, calls: &[CallUid]) -> Result<Vec<wire::ChangedFile>, Problem>;

    /// The background jobs of a chat, oldest first.
    async fn jobs(&self, agent: &str, chat: ChatId) -> Result<Vec<wire::JobInfo>, Problem>;

    /// Ends a background job, and returns what became of it; `None` if there is no such job.
    async fn stop_job(&self, agent: &str, chat: ChatId, number: u32) -> Result<Option<wire::JobInfo>, Problem>;
}

/// Tells how the MCP servers of this process are.
pub type McpStates = Arc<dyn Fn() -> Vec<wire::McpServer> + Send + Sync>;

/// State shared by all requests.
pub struct App {
    engine: Engine,
    store: Arc<dyn Store>,
    pub(crate) tokens: Arc<dyn Tokens>,
    pub(crate) registry: Registry,
    pub(crate) agent: String,
    pub(crate) mcp: McpStates,
    models: Vec<ModelOffer>,
    workspaces: BTreeMap<String, wire::AgentWorkspace>,
    pub(crate) workspace_service: Option<Arc<dyn WorkspaceService>>,
    pub(crate) page: &'static [PageFile],
    pub(crate) drill: Option<Drill>,
    pub(crate) limits: ServerLimits,
    pub(crate) hosts: Hosts,
    pub(crate) proxies: Vec<Network>,
    pub(crate) sites: AllowedSites,
    pub(crate) meter: ServerMetrics,
    pub(crate) failures: FailedLogins,
    pub(crate) streams: PerKeyLimit<TokenHash>,
    pub(crate) checks: TokenWatches,
    pub(crate) shutdown: CancellationToken,
    /// Byte budget of large request bodies.
    pub(crate) bodies: Arc<Semaphore>,
    /// Byte budget of large responses.
    pub(crate) answers: ResponseBudget,
    /// Turns that are about to begin, by owner.
    starting: TurnAdmission,
    /// Replies that pages wait for which loaded messages without them.
    pub(crate) left_out: LeftOut,
    /// Answers to calls that are in the audit log already.
    pub(crate) audited: RecordedAnswers,
    /// Work that goes on after its client has disconnected.
    pub(crate) begun: TaskTracker,
    /// Generations that are being told.
    pub(crate) gateway: Gateway,
    /// Ids for requests that come without one.
    pub(crate) request_ids: RequestIds,
}

/// The state of the router.
pub type SharedApp = Arc<App>;

/// A request for a new chat.
pub struct NewChatRequest {
    /// The agent; the default agent if left out.
    pub agent: Option<String>,
    /// The chat's model.
    pub model: ModelPick,
    /// The chat's title.
    pub title: Option<String>,
    /// Whether provider calls of the chat are recorded.
    pub debug: bool,
    /// The chat's own instructions, tools and metadata.
    pub setup: Option<Arc<Setup>>,
    /// The transcript of another program that the chat begins with.
    pub transcript: Option<Value>,
    /// The client's name for the request.
    pub key: Option<String>,
}

/// A request for a fork.
#[derive(Debug)]
pub struct ForkRequest {
    /// The last message to copy.
    pub at: MessageId,
    /// The fork's title; the source's if left out.
    pub title: Option<String>,
    /// The fork's model; the source's if left out.
    pub model: Option<ModelPick>,
    /// The client's name for the request.
    pub key: Option<String>,
}

/// A chat that belongs to the caller.
pub struct OpenedChat {
    /// The engine's handle.
    pub handle: ChatHandle,
    /// The chat's list entry when it was opened.
    pub heading: Heading,
}

impl App {
    pub(crate) fn new(parts: ServerParts, hosts: Hosts, reach: Reach) -> Self {
        let ServerParts {
            engine,
            store,
            tokens,
            mut registry,
            agent,
            models,
            mcp,
            limits,
            workspaces,
            workspace_service,
            page,
            drill,
        } = parts;
        let meter = ServerMetrics::register(&mut registry);
        let bodies = Arc::new(Semaphore::new(limits.bodies_bytes_max));
        let answers = ResponseBudget::new(limits.answers_bytes_max);
        Self {
            engine,
            store,
            tokens,
            registry,
            agent,
            mcp,
            models,
            workspaces,
            workspace_service,
            page,
            drill,
            limits,
            hosts,
            proxies: reach.proxies,
            sites: AllowedSites(reach.origins),
            meter,
            failures: FailedLogins::default(),
            streams: PerKeyLimit::default(),
            checks: TokenWatches::default(),
            shutdown: CancellationToken::new(),
            bodies,
            answers,
            starting: TurnAdmission::default(),
            left_out: LeftOut::default(),
            audited: RecordedAnswers::default(),
            begun: TaskTracker::new(),
            gateway: Gateway::default(),
            request_ids: RequestIds::new(),
        }
    }

    /// The engine's wall clock.
    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    /// Runs work to its end, even if the client disconnects meanwhile: hyper then drops the request's future.
    pub async fn run_to_completion<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        match self.begun.spawn(work.in_current_span()).await {
            Ok(done) => done,
            Err(error) => gone(error).await,
        }
    }

    /// The caller's chat; `not-found` if it belongs to another owner.
    pub async fn open(&self, caller: &Caller, id: ChatId) -> Result<OpenedChat, Problem> {
        let heading = self.store.heading(id).await?;
        if heading.owner != caller.owner() {
            return Err(Problem::not_found());
        }
        Ok(OpenedChat { handle: self.engine.chat_with(&heading), heading })
    }

    /// The caller's chat that clients of a front call `name`: the one that was created under this name, or else the one
    /// with this id. Creates nothing.
    pub async fn named(&self, caller: &Caller, front: Front, name: &str) -> Result<Option<OpenedChat>, Problem> {
        let keyed = self.store.keyed(caller.owner(), &names::chat_key(front, name)).await?;
        let Some(id) = keyed.or_else(|| name.parse().ok()) else { return Ok(None) };
        match self.open(caller, id).await {
            Ok(chat) => Ok(Some(chat)),
            Err(problem) if problem.kind() == ProblemKind::NotFound => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// The names of the tools of a chat that its clients run.
    pub async fn client_tools(&self, chat: &OpenedChat) -> Result<BTreeSet<String>, StoreError> {
        let setup = chat.handle.standing().await?.setup;
        let own = setup.iter().flat_map(|setup| &setup.tools).map(|tool| tool.name.clone());
        let agent = self.engine.agents().find(|(name, _)| *name == chat.heading.agent);
        Ok(own.chain(agent.into_iter().flat_map(|(_, agent)| agent.client_tools())).collect())
    }

    /// A new chat of the caller; under an idempotency key, the chat that was created for it before.
    pub async fn make(&self, caller: &Caller, wanted: NewChatRequest) -> Result<OpenedChat, Problem> {
        let NewChatRequest { agent, model, title, debug, setup, transcript, key } = wanted;
        let said = transcript.as_ref().map_or(Ok(Vec::new()), |told| self.said(told))?;
        let transcript = transcript.map(|told| TokenHash::of(&told.to_string()).0);
        let (model, trouble) = model.split();
        let new = NewChat {
            agent: Chosen::of(agent, self.agent.clone()),
            model: Chosen::of(model.model().map(Some), None),
            title: Chosen::of(title, String::new()),
            debug,
            setup,
            transcript,
            key,
            ..NewChat::of(self.engine.new_id(), "", caller.owner())
        };
        self.made(caller, &new, &said, trouble).await
    }

    /// Creates the chat. With `trouble`, only finds the one that was created before under the same key.
    async fn made(
        &self,
        caller: &Caller,
        new: &NewChat,
        said: &[Arc<Message>],
        trouble: Option<Problem>,
    ) -> Result<OpenedChat, Problem> {
        let made = match trouble {
            Some(trouble) => self.store.created(new).await.map_err(CreateError::from)?.ok_or(trouble)?,
            None if said.is_empty() => self.engine.make(new).await?.id(),
            None => self.engine.make_with(new, said).await?.id(),
        };
        self.open(caller, made).await
    }

    /// The messages in a transcript of another program; an error if any of them would be lost.
    fn said(&self, transcript: &Value) -> Result<Vec<Arc<Message>>, Problem> {
        let bad = |why: String| Problem::new(ProblemKind::Invalid, format!("`transcript` cannot be imported: {why}."));
        let session =
            foreign::read(transcript.to_string().as_bytes(), self.now()).map_err(|why| bad(why.to_string()))?;
        if !session.system.is_empty() {
            return Err(bad("it has a system prompt; instructions belong to the agent".into()));
        }
        match session.skipped.iter().find(|skipped| skipped.harm == Loss::Lost) {
            Some(lost) => Err(bad(format!("item {} has unsupported content, {}", lost.place, lost.what))),
            None => Ok(session.messages),
        }
    }

    /// A new chat that begins with the messages of this one.
    pub async fn fork(&self, caller: &Caller, chat: &OpenedChat, forked: ForkRequest) -> Result<OpenedChat, Problem> {
        let (new, trouble) = self.forked(caller, chat.heading.id, forked);
        let standing = chat.handle.standing().await?;
        let new = NewChat {
            agent: new.agent.or(chat.heading.agent.clone()),
            title: new.title.or(chat.heading.title.clone()),
            model: new.model.or(standing.model),
            setup: standing.setup,
            ..new
        };
        self.made(caller, &new, &[], trouble).await
    }

    /// The fork that was created under the same key from a chat that is deleted by now. A chat of another owner gets the
    /// same answer.
    pub async fn fork_again(&self, caller: &Caller, gone: ChatId, forked: ForkRequest) -> Result<OpenedChat, Problem> {
        let (new, trouble) = self.forked(caller, gone, forked);
        self.made(caller, &new, &[], Some(trouble.unwrap_or_else(Problem::not_found))).await
    }

    /// The fork to create, without what it has from its source, and the problem if its model is not offered. A fork is
    /// not recorded: the record to look at is the source's.
    fn forked(&self, caller: &Caller, chat: ChatId, forked: ForkRequest) -> (NewChat, Option<Problem>) {
        let ForkRequest { at, title, model, key } = forked;
        let (model, trouble) = model.map(ModelPick::split).unzip();
        let new = NewChat {
            agent: Chosen::ByDefault(String::new()),
            model: Chosen::of(model.map(ModelChoice::model), None),
            title: Chosen::of(title, String::new()),
            fork: Some(Fork { chat, at }),
            key,
            ..NewChat::of(self.engine.new_id(), "", caller.owner())
        };
        (new, trouble.flatten())
    }

    /// The idempotency record of this key: the stored one, or a new one. A conflict if the stored request differs.
    pub async fn asked(&self, caller: &Caller, key: &str, what: &str) -> Result<IdempotencyRecord, Problem> {
        let salt = entropy::salt()
            .map_err(|_| Problem::new(ProblemKind::Internal, "The system's random number generator failed."))?;
        let (owner, request) = (caller.owner().to_owned(), TokenHash::of(what).0);
        let asked = IdempotencyRecord { owner, key: key.into(), request, salt, at: self.now() };
        let kept = self.tokens.remember(&asked).await?;
        if kept.request == request { Ok(kept) } else { Err(SubmitError::Conflict.into()) }
    }

    /// Ok if the same request came under this key before, which is all that is known of a deleted chat.
    pub async fn asked_before(&self, caller: &Caller, key: &str, what: &str) -> Result<(), Problem> {
        match self.tokens.recall(caller.owner(), key).await? {
            Some(asked) if asked.request == TokenHash::of(what).0 => Ok(()),
            Some(_) => Err(SubmitError::Conflict.into()),
            None => Err(Problem::not_found()),
        }
    }

    /// The chat's list entry, if it is the caller's.
    pub async fn heading_of(&self, caller: &Caller, id: ChatId) -> Result<Option<Heading>, StoreError> {
        let heading = self.store.heading(id).await?;
        Ok(Some(heading).filter(|heading| heading.owner == caller.owner() && !heading.internal))
    }

    /// The events of a chat. The caller has checked the owner.
    pub(crate) fn events(&self, id: ChatId, cursor: Option<Cursor>) -> Subscription {
        self.engine.chat(id).events(cursor)
    }

    /// Notifications of changes in the caller's chats.
    pub fn feed(&self, caller: &Caller) -> Feed {
        self.engine.feed(caller.owner())
    }

    /// The caller's budget, and what is spent of it.
    pub async fn account(&self, caller: &Caller) -> Result<BudgetAccount, StoreError> {
        self.engine.account(caller.owner()).await
    }

    /// Reserves one of the owner's concurrent turns until the turn has begun. `None` if the request begins no turn: the
    /// chat is running already, or the request was accepted before.
    pub async fn admit_turn(
        &self,
        caller: &Caller,
        chat: &OpenedChat,
        key: &IdempotencyKey,
    ) -> Result<Option<TurnTicket>, Problem> {
        if matches!(chat.heading.status, Status::Running | Status::Interrupting) {
            return Ok(None);
        }
        let starter = self.starting.enter(caller.owner(), chat.heading.id);
        let line = starter.line();
        // Counted after the line was read: a chat that left the line in between is running by now, and counts here.
        let others = self.store.working(caller.owner(), &line).await?;
        if line.len() + others <= self.limits.running_max {
            return Ok(Some(starter));
        }
        if self.was_accepted(chat, key).await? {
            return Ok(None);
        }
        Err(Problem::new(
            ProblemKind::TooMany,
            "Too many of your chats are running; wait until one is done, or interrupt one.",
        ))
    }

    /// Whether a request under this key was accepted before.
    pub async fn was_accepted(&self, chat: &OpenedChat, key: &IdempotencyKey) -> Result<bool, StoreError> {
        match &key.0 {
            Some(key) => Ok(self.store.receipt(chat.heading.id, key).await?.is_some()),
            None => Ok(false),
        }
    }

    /// Whether the chat's agent is configured.
    pub fn has_agent(&self, chat: &OpenedChat) -> bool {
        self.engine.agents().any(|(name, _)| name == chat.heading.agent)
    }

    /// The caller's chats.
    pub async fn list(&self, caller: &Caller, query: ChatQuery) -> Result<Vec<Heading>, Problem> {
        Ok(self.newest(caller, query).await?)
    }

    pub(crate) async fn newest(&self, caller: &Caller, query: ChatQuery) -> Result<Vec<Heading>, StoreError> {
        self.store.headings(&ChatQuery { owner: Some(caller.owner().into()), internal: Some(false), ..query }).await
    }

    /// A page of chats that wait for answers: the caller's, or with the scope `admin` those of every owner. Of each, where
    /// it stands; and where the next page begins. Chats that cannot be read are left out.
    pub async fn awaiting(
        &self,
        caller: &Caller,
        after: Option<(Timestamp, ChatId)>,
        len: usize,
    ) -> Result<(Vec<(Heading, Standing)>, Option<(Timestamp, ChatId)>), StoreError> {
        let owner = (!caller.has(&[Scope::Admin])).then(|| caller.owner().to_owned());
        let internal = Some(false);
        let query = ChatQuery { owner, internal, status: Some(Status::Awaiting), after, len, ..ChatQuery::default() };
        let headings = self.store.headings(&query).await?;
        let next = headings.last().filter(|_| headings.len() == len).map(Heading::place);
        let mut chats = Vec::new();
        for heading in headings {
            match self.store.standing(heading.id).await {
                Ok(standing) => chats.push((heading, standing)),
                Err(StoreError::NoSuchChat) => {} // Deleted meanwhile.
                Err(error @ (StoreError::Damaged(_) | StoreError::Unreadable(_))) => {
                    tracing::error!(chat = %heading.id, %error, "chat damaged: its asks are not listed; restore a backup");
                }
                Err(error) => return Err(error),
            }
        }
        Ok((chats, next))
    }

    /// Whether chats can be read and driven now.
    pub async fn is_ready(&self) -> bool {
        !self.shutdown.is_cancelled() && self.store.ready().await.is_ok()
    }

    /// The token with this hash, if it exists and is valid, and so is the token that it was made from.
    pub async fn token(&self, hash: &TokenHash) -> Result<Option<Token>, StoreError> {
        let found = self.good_token(hash).await?;
        match found.as_ref().and_then(|token| token.kind.parent()) {
            Some(parent) if self.good_token(parent).await?.is_none() => Ok(None),
            _ => Ok(found),
        }
    }

    async fn good_token(&self, hash: &TokenHash) -> Result<Option<Token>, StoreError> {
        let token = self.tokens.find(hash).await?;
        Ok(token.filter(|token| token.hash.matches(hash) && token.is_good(self.now())))
    }

    /// Whether the stand-in plays the model of the default agent.
    pub fn has_stand_in(&self) -> bool {
        let mut agents = self.engine.agents();
        let agent = agents.find(|(name, _)| *name == self.agent);
        agent.is_some_and(|(_, agent)| agent.models.first().is_some_and(|model| model.provider() == STAND_IN))
    }

    /// How a request reached the server: a configured proxy has ended TLS.
    pub fn transport(&self, request: &Request) -> PageTransport {
        match request.extensions().get::<ClientPeer>() {
            Some(peer) if peer.is_over_tls(&self.proxies) => PageTransport::Tls,
            _ => PageTransport::Plain,
        }
    }

    /// The agents' models, and those that a chat may choose beside them.
    pub fn models(&self) -> Vec<wire::Model> {
        let mut models: BTreeMap<&ModelId, Vec<String>> = BTreeMap::new();
        for (name, agent) in self.engine.agents() {
            for model in &agent.models {
                models.entry(model).or_default().push(name.into());
            }
        }
        for model in self.models.iter().filter_map(ModelOffer::named) {
            models.entry(model).or_default();
        }
        let model = |(model, agents): (&ModelId, Vec<String>)| {
            let facts = self.engine.facts(model);
            let context_limit = facts.as_ref().and_then(|facts| facts.context_limit);
            wire::Model {
                id: model.to_string(),
                agents,
                context_limit,
                output_max: facts.map(|facts| facts.output_max),
            }
        };
        models.into_iter().map(model).collect()
    }

    /// The agents, by name.
    pub fn agents(&self) -> Vec<wire::AgentInfo> {
        let tool = |agent: &Agent, spec: &ToolSpec| wire::AgentTool {
            name: spec.name.clone(),
            description: spec.description.clone(),
            effect: agent.effect_of(&spec.name).map(wire::ToolEffect::from),
        };
        let info = |(name, agent): (&str, &Agent)| wire::AgentInfo {
            name: name.into(),
            models: agent.models.iter().map(ToString::to_string).collect(),
            tools: agent.offered().iter().map(|spec| tool(agent, spec)).collect(),
            workspace: self.workspaces.get(name).cloned(),
        };
        self.engine.agents().filter(|(name, _)| *name != GATEWAY_AGENT).map(info).collect()
    }

    /// How far commands of tools are confined, if an agent has a workspace.
    pub fn confinement(&self) -> Option<&str> {
        self.workspaces.values().next().map(|workspace| workspace.confinement.as_str())
    }

    /// The model that a request names, offered or not; without a name, the agent's own.
    pub fn pick(&self, model: Option<&str>) -> Result<ModelPick, Problem> {
        let Some(text) = model else { return Ok(ModelPick::Allowed(ModelChoice::Agents)) };
        let agents = || self.engine.agents().flat_map(|(_, agent)| &agent.models);
        let wanted = text.parse::<ModelId>();
        let known =
            |model: &ModelId| agents().any(|other| other == model) || self.models.iter().any(|it| it.has(model));
        let there = || instead(text, agents(), &self.models);
        match wanted {
            // An agent may name a model that no provider has any more; a chat cannot choose it.
            Ok(model) if known(&model) && self.engine.facts(&model).is_some() => {
                Ok(ModelPick::Allowed(ModelChoice::Own(model)))
            }
            Ok(model) => {
                let why = format!("The model {model} is not offered; choose one of: {}.", there());
                Ok(ModelPick::Missing(model, Problem::new(ProblemKind::Invalid, why)))
            }
            Err(bad) => Err(Problem::new(ProblemKind::Invalid, format!("{bad}; choose one of: {}.", there()))),
        }
    }

    /// The model for an existing chat, if it is offered, or was accepted under this key before.
    pub async fn choice(
        &self,
        chat: &OpenedChat,
        pick: ModelPick,
        key: &IdempotencyKey,
    ) -> Result<ModelChoice, Problem> {
        match (pick.split(), &key.0) {
            ((choice, None), _) => Ok(choice),
            ((choice, Some(_)), Some(key)) if self.store.receipt(chat.heading.id, key).await?.is_some() => Ok(choice),
            ((_, Some(trouble)), _) => Err(trouble),
        }
    }

    pub(crate) async fn halt(&self, grace: Duration) {
        self.engine.drain(grace).await;
    }

    pub(crate) async fn resume(&self) -> Result<usize, StoreError> {
        self.engine.resume().await
    }

    /// A page of a chat.
    pub async fn page(
        &self,
        chat: &OpenedChat,
        before: Option<MessageId>,
        len: usize,
    ) -> Result<Vec<Arc<everturn::core::message::Message>>, Problem> {
        Ok(self.store.messages(chat.handle.id(), MessageRange::Before(before, len)).await?)
    }

    /// One message of a chat, with its bytes.
    pub async fn message(
        &self,
        chat: &OpenedChat,
        id: everturn::core::ids::MessageId,
    ) -> Result<Arc<everturn::core::message::Message>, Problem> {
        self.store.message(chat.handle.id(), id, MessageReader::Client).await?.ok_or_else(Problem::not_found)
    }

    /// Provider calls made for a chat, after the first `seen`.
    pub async fn attempts(
        &self,
        chat: &OpenedChat,
        seen: usize,
        len: usize,
    ) -> Result<Vec<everturn::core::fact::AttemptRecord>, Problem> {
        Ok(self.store.attempts(chat.handle.id(), seen, len).await?)
    }

    /// The messages of a chat after one, oldest first.
    pub async fn after(
        &self,
        chat: &OpenedChat,
        after: MessageId,
        len: usize,
    ) -> Result<Vec<Arc<everturn::core::message::Message>>, Problem> {
        Ok(self.store.messages(chat.handle.id(), MessageRange::After(after, len)).await?)
    }
}

/// Handles work that did not finish. A panic goes on in the request. Cancellation happens only at the end of the runtime,
/// which ends the waiting request too, so there is nothing to answer.
async fn gone<T>(error: JoinError) -> T {
    match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_cancelled) => pending().await,
    }
}

impl OpenedChat {
    /// The chat as it stands now.
    pub async fn now(&self) -> Result<wire::Chat, Problem> {
        Ok(wire::Chat::new(&self.heading, &self.handle.standing().await?))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures_util::FutureExt as _;

    use super::*;

    /// A panic goes on in the request that started the work. Work that the runtime dropped at its end panics nowhere.
    #[tokio::test]
    async fn work_that_is_dropped_with_its_runtime_panics_nowhere() {
        let broken = tokio::spawn(async { panic!("on purpose") }).await.unwrap_err();
        assert!(AssertUnwindSafe(gone::<()>(broken)).catch_unwind().await.is_err());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let work = runtime.spawn(pending::<()>());
        runtime.shutdown_background();
        let waits = AssertUnwindSafe(gone::<()>(work.await.unwrap_err())).catch_unwind();
        assert!(waits.now_or_never().is_none(), "it waits for the end of its own runtime");
    }
}
