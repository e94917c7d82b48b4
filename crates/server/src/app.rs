//! What every request shares, and the one way to a chat.
//!
//! The engine is private to this file. Whoever wants a chat says in whose name ([`App::open`]), so no route can forget
//! to ask, and a chat of somebody else's cannot be told from one that does not exist.

pub(crate) mod counted;
mod turn_admission;

use std::collections::BTreeMap;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use everturn::core::budget::BudgetAccount;
use everturn::core::command::ModelChoice;
use everturn::core::doctor::foreign::{self, Loss};
use everturn::core::ids::{ChatId, MessageId, ModelId, Timestamp};
use everturn::core::message::Message;
use everturn::core::setup::Setup;
use everturn::core::status::Status;
use everturn::core::view::Cursor;
use everturn::stores::{
    ChatQuery, Fork, Heading, IdempotencyRecord, MessageRange, NewChat, Reader, Store, StoreError, StoreExt as _,
    SubmitError, Token, TokenHash, Tokens,
};
use everturn::{ChatHandle, CreateError, Engine, Feed, Subscription};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::api::problem::{Kind, Problem};
use crate::api::request::Key;
use crate::api::wire;
use crate::app::counted::Places;
use crate::app::turn_admission::{Starter, Starting};
use crate::auth::access::Caller;
use crate::auth::audit::Remembered;
use crate::auth::cors::Sites;
use crate::auth::failures::Failures;
use crate::auth::guard::{Hosts, RequestIds};
use crate::auth::proxies::Network;
use crate::auth::token_watch::Checks;
use crate::entropy;
use crate::metrics::meter::Meter;
use crate::net::serve::Reach;
use crate::net::slow_reader::budget::Answers;
use crate::setup::bounds::Bounds;
use crate::setup::offer::{Offered, Pick, instead};

/// What a server is made of.
pub struct Parts {
    /// Drives the chats.
    pub engine: Engine,
    /// The store it drives them on.
    pub store: Arc<dyn Store>,
    /// Who may come in.
    pub tokens: Arc<dyn Tokens>,
    /// What `/metrics` shows.
    pub registry: Registry,
    /// The agent of chats that name none.
    pub agent: String,
    /// The models a chat may be given beside those of the agents.
    pub models: Vec<Offered>,
    /// The server's bounds.
    pub bounds: Bounds,
}

/// What every request shares.
pub struct App {
    engine: Engine,
    store: Arc<dyn Store>,
    pub(crate) tokens: Arc<dyn Tokens>,
    pub(crate) registry: Registry,
    pub(crate) agent: String,
    models: Vec<Offered>,
    pub(crate) bounds: Bounds,
    pub(crate) hosts: Hosts,
    pub(crate) proxies: Vec<Network>,
    pub(crate) sites: Sites,
    pub(crate) meter: Meter,
    pub(crate) failures: Failures,
    pub(crate) streams: Places<TokenHash>,
    pub(crate) checks: Checks,
    pub(crate) shutdown: CancellationToken,
    /// Room for large bodies.
    pub(crate) bodies: Arc<Semaphore>,
    /// Room for large answers.
    pub(crate) answers: Answers,
    /// Turns that are about to begin, by owner.
    starting: Starting,
    /// Answers that were written down.
    pub(crate) audited: Remembered,
    /// What is done to its end.
    pub(crate) begun: TaskTracker,
    /// Names requests whose senders do not.
    pub(crate) request_ids: RequestIds,
}

/// The state of the router.
pub type Shared = Arc<App>;

/// A chat that somebody wants to have made.
pub struct Wanted {
    /// The agent to talk to, if not the one for whoever names none.
    pub agent: Option<String>,
    /// The model to ask.
    pub model: Pick,
    /// What to call it.
    pub title: Option<String>,
    /// Whether it is recorded.
    pub debug: bool,
    /// What it has of its own beside its agent.
    pub setup: Option<Arc<Setup>>,
    /// What it begins with, as another program has it.
    pub transcript: Option<Value>,
    /// The client's name for the request.
    pub key: Option<String>,
}

/// A fork that somebody wants to have made.
#[derive(Debug)]
pub struct Forked {
    /// Up to this message, and with it.
    pub at: MessageId,
    /// What to call it, if not like the other.
    pub title: Option<String>,
    /// Which model it asks, if not the other's.
    pub model: Option<Pick>,
    /// The client's name for the request.
    pub key: Option<String>,
}

/// A chat whose owner asks for it.
pub struct OwnChat {
    /// To talk to.
    pub handle: ChatHandle,
    /// As it stood when it was opened.
    pub heading: Heading,
}

impl App {
    pub(crate) fn new(parts: Parts, hosts: Hosts, reach: Reach) -> Self {
        let Parts { engine, store, tokens, mut registry, agent, models, bounds } = parts;
        let meter = Meter::register(&mut registry);
        let bodies = Arc::new(Semaphore::new(bounds.bodies_bytes_max));
        let answers = Answers::new(bounds.answers_bytes_max);
        Self {
            engine,
            store,
            tokens,
            registry,
            agent,
            models,
            bounds,
            hosts,
            proxies: reach.proxies,
            sites: Sites(reach.origins),
            meter,
            failures: Failures::default(),
            streams: Places::default(),
            checks: Checks::default(),
            shutdown: CancellationToken::new(),
            bodies,
            answers,
            starting: Starting::default(),
            audited: Remembered::default(),
            begun: TaskTracker::new(),
            request_ids: RequestIds::new(),
        }
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    /// Does something to its end, also when whoever asked for it goes away meanwhile: then nobody would go on with a request.
    pub async fn to_the_end<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        match self.begun.spawn(work.in_current_span()).await {
            Ok(done) => done,
            Err(error) => gone(error).await,
        }
    }

    /// A chat, for its owner.
    pub async fn open(&self, caller: &Caller, id: ChatId) -> Result<OwnChat, Problem> {
        let heading = self.store.heading(id).await?;
        if heading.owner != caller.owner() {
            return Err(Problem::not_found());
        }
        Ok(OwnChat { handle: self.engine.chat(id), heading })
    }

    /// A new chat of the caller's; under a request id, the one that was made for it before.
    pub async fn make(&self, caller: &Caller, wanted: Wanted) -> Result<OwnChat, Problem> {
        let Wanted { agent, model, title, debug, setup, transcript, key } = wanted;
        let said = transcript.as_ref().map_or(Ok(Vec::new()), |told| self.said(told))?;
        let transcript = transcript.map(|told| TokenHash::of(&told.to_string()).0);
        let (model, trouble) = model.split();
        let (id, owner, is_titled) = (self.engine.new_id(), caller.owner().into(), title.is_some());
        let (agent, is_named) = (agent.clone().unwrap_or_else(|| self.agent.clone()), agent.is_some());
        let (title, model) = (title.unwrap_or_default(), model.model());
        let is_chosen = model.is_some();
        let fork = None;
        let new = NewChat {
            id,
            agent,
            is_named,
            model,
            is_chosen,
            debug,
            owner,
            title,
            is_titled,
            setup,
            fork,
            transcript,
            key,
        };
        self.made(caller, &new, &said, trouble).await
    }

    /// A chat that is made now; one that cannot be made any more, if it was before.
    async fn made(
        &self,
        caller: &Caller,
        new: &NewChat,
        said: &[Arc<Message>],
        trouble: Option<Problem>,
    ) -> Result<OwnChat, Problem> {
        let made = match trouble {
            Some(trouble) => self.store.created(new).await.map_err(CreateError::from)?.ok_or(trouble)?,
            None if said.is_empty() => self.engine.make(new).await?.id(),
            None => self.engine.make_with(new, said).await?.id(),
        };
        self.open(caller, made).await
    }

    /// What was said in a transcript of another program, all of it.
    fn said(&self, transcript: &Value) -> Result<Vec<Arc<Message>>, Problem> {
        let bad = |why: String| Problem::new(Kind::Invalid, format!("`transcript` cannot be taken over: {why}."));
        let session =
            foreign::read(transcript.to_string().as_bytes(), self.now()).map_err(|why| bad(why.to_string()))?;
        if !session.system.is_empty() {
            return Err(bad("it has instructions, and those are the agent's".into()));
        }
        match session.skipped.iter().find(|skipped| skipped.harm == Loss::Lost) {
            Some(lost) => Err(bad(format!("item {} has something that is not known here, {}", lost.place, lost.what))),
            None => Ok(session.messages),
        }
    }

    /// A new chat that begins with what was said in this one.
    pub async fn fork(&self, caller: &Caller, chat: &OwnChat, forked: Forked) -> Result<OwnChat, Problem> {
        let Heading { agent, title, .. } = &chat.heading;
        let (new, trouble) = self.forked(caller, chat.heading.id, forked);
        let new = NewChat { agent: agent.clone(), ..new };
        let new = if new.is_titled { new } else { NewChat { title: title.clone(), ..new } };
        let standing = chat.handle.standing().await?;
        let new = NewChat { setup: standing.setup, ..new };
        let new = if new.is_chosen { new } else { NewChat { model: standing.model, ..new } };
        self.made(caller, &new, &[], trouble).await
    }

    /// The fork that was made of a chat that is gone by now. Whether it is, or is somebody else's, makes no difference.
    pub async fn fork_again(&self, caller: &Caller, gone: ChatId, forked: Forked) -> Result<OwnChat, Problem> {
        let (new, trouble) = self.forked(caller, gone, forked);
        self.made(caller, &new, &[], Some(trouble.unwrap_or_else(Problem::not_found))).await
    }

    /// The request for a fork, and why it cannot be made with its model now.
    fn forked(
        &self,
        caller: &Caller,
        chat: ChatId,
        Forked { at, title, model, key }: Forked,
    ) -> (NewChat, Option<Problem>) {
        let (id, owner, is_titled) = (self.engine.new_id(), caller.owner().into(), title.is_some());
        let (agent, title) = (String::new(), title.unwrap_or_default());
        let (model, trouble) = model.map(Pick::split).unzip();
        let (is_chosen, model) = (model.is_some(), model.and_then(ModelChoice::model));
        let fork = Some(Fork { chat, at });
        let (is_named, debug) = (false, false); // What was to be seen is in the other one.
        let (setup, transcript) = (None, None);
        let new = NewChat {
            id,
            agent,
            is_named,
            model,
            is_chosen,
            debug,
            owner,
            title,
            is_titled,
            setup,
            fork,
            transcript,
            key,
        };
        (new, trouble.flatten())
    }

    /// The request as it was asked for under this key at first: now, if it never was.
    pub async fn asked(&self, caller: &Caller, key: &str, what: &str) -> Result<IdempotencyRecord, Problem> {
        let salt = entropy::salt().map_err(|_| Problem::new(Kind::Internal, "Nothing can be made here by chance."))?;
        let (owner, request) = (caller.owner().to_owned(), TokenHash::of(what).0);
        let asked = IdempotencyRecord { owner, key: key.into(), request, salt, at: self.now() };
        let kept = self.tokens.remember(&asked).await?;
        if kept.request == request { Ok(kept) } else { Err(SubmitError::Conflict.into()) }
    }

    /// Nothing, if this was asked for under this key before; of something that is gone that is all there is to say.
    pub async fn asked_before(&self, caller: &Caller, key: &str, what: &str) -> Result<(), Problem> {
        match self.tokens.recall(caller.owner(), key).await? {
            Some(asked) if asked.request == TokenHash::of(what).0 => Ok(()),
            Some(_) => Err(SubmitError::Conflict.into()),
            None => Err(Problem::not_found()),
        }
    }

    /// What the list says about a chat, if it is the caller's.
    pub async fn glance(&self, caller: &Caller, id: ChatId) -> Result<Option<Heading>, StoreError> {
        let heading = self.store.heading(id).await?;
        Ok(Some(heading).filter(|heading| heading.owner == caller.owner()))
    }

    /// The events of a chat that was found to be the caller's.
    pub(crate) fn events(&self, id: ChatId, cursor: Option<Cursor>) -> Subscription {
        self.engine.chat(id).events(cursor)
    }

    /// Hints of what changes in the caller's chats.
    pub fn feed(&self, caller: &Caller) -> Feed {
        self.engine.feed(caller.owner())
    }

    /// What the caller may use, and has used by now.
    pub async fn account(&self, caller: &Caller) -> Result<BudgetAccount, StoreError> {
        self.engine.account(caller.owner()).await
    }

    /// Leave to begin a turn in a chat, held until it has begun. One that works already begins nothing, and neither does a
    /// request that was accepted before.
    pub async fn leave(&self, caller: &Caller, chat: &OwnChat, key: &Key) -> Result<Option<Starter>, Problem> {
        if matches!(chat.heading.status, Status::Running | Status::Interrupting) {
            return Ok(None);
        }
        let starter = self.starting.enter(caller.owner(), chat.heading.id);
        let line = starter.line();
        // Asked after the line was looked at: whoever has left it in between works by now, and is among the others.
        let others = self.store.working(caller.owner(), &line).await?;
        if line.len() + others <= self.bounds.running_max {
            return Ok(Some(starter));
        }
        if self.was_accepted(chat, key).await? {
            return Ok(None);
        }
        Err(Problem::new(Kind::TooMany, "Too many of your chats work at once; wait for one, or interrupt one."))
    }

    /// Whether a request under this key was accepted before.
    pub async fn was_accepted(&self, chat: &OwnChat, key: &Key) -> Result<bool, StoreError> {
        match &key.0 {
            Some(key) => Ok(self.store.receipt(chat.heading.id, key).await?.is_some()),
            None => Ok(false),
        }
    }

    /// Whether the chat's agent is here.
    pub fn has_agent(&self, chat: &OwnChat) -> bool {
        self.engine.agents().any(|(name, _)| name == chat.heading.agent)
    }

    /// The caller's chats.
    pub async fn list(&self, caller: &Caller, query: ChatQuery) -> Result<Vec<Heading>, Problem> {
        Ok(self.newest(caller, query).await?)
    }

    pub(crate) async fn newest(&self, caller: &Caller, query: ChatQuery) -> Result<Vec<Heading>, StoreError> {
        self.store.headings(&ChatQuery { owner: Some(caller.owner().into()), ..query }).await
    }

    /// Whether chats can be read and driven now.
    pub async fn is_ready(&self) -> bool {
        !self.shutdown.is_cancelled() && self.store.ready().await.is_ok()
    }

    /// The token behind a secret, if it is known and good.
    pub async fn token(&self, hash: &TokenHash) -> Result<Option<Token>, StoreError> {
        let token = self.tokens.find(hash).await?;
        Ok(token.filter(|token| token.hash.matches(hash) && token.is_good(self.now())))
    }

    /// The models that agents here talk to, and those a chat may be given beside them.
    pub fn models(&self) -> Vec<wire::Model> {
        let mut models: BTreeMap<&ModelId, Vec<String>> = BTreeMap::new();
        for (name, agent) in self.engine.agents() {
            for model in &agent.models {
                models.entry(model).or_default().push(name.into());
            }
        }
        for model in self.models.iter().filter_map(Offered::named) {
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

    /// The model that is picked for a chat, whether or not it may have it; none is its agent's.
    pub fn pick(&self, model: Option<&str>) -> Result<Pick, Problem> {
        let Some(text) = model else { return Ok(Pick::Offered(ModelChoice::Agents)) };
        let agents = || self.engine.agents().flat_map(|(_, agent)| &agent.models);
        let wanted = text.parse::<ModelId>();
        let known =
            |model: &ModelId| agents().any(|other| other == model) || self.models.iter().any(|it| it.has(model));
        let there = || instead(text, agents(), &self.models);
        match wanted {
            // A model that nobody provides any more is still an agent's, and fails there.
            Ok(model) if known(&model) && self.engine.facts(&model).is_some() => {
                Ok(Pick::Offered(ModelChoice::Own(model)))
            }
            Ok(model) => {
                let why = format!("{model} cannot be chosen here; there are: {}.", there());
                Ok(Pick::Missing(model, Problem::new(Kind::Invalid, why)))
            }
            Err(bad) => Err(Problem::new(Kind::Invalid, format!("{bad}; there are: {}.", there()))),
        }
    }

    /// What was picked for a chat that is there, if it may have it, or was given it under this key before.
    pub async fn choice(&self, chat: &OwnChat, pick: Pick, key: &Key) -> Result<ModelChoice, Problem> {
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
        chat: &OwnChat,
        before: Option<MessageId>,
        len: usize,
    ) -> Result<Vec<Arc<everturn::core::message::Message>>, Problem> {
        Ok(self.store.messages(chat.handle.id(), MessageRange::Before(before, len)).await?)
    }

    /// One message of a chat, with its bytes.
    pub async fn message(
        &self,
        chat: &OwnChat,
        id: everturn::core::ids::MessageId,
    ) -> Result<Arc<everturn::core::message::Message>, Problem> {
        self.store.message(chat.handle.id(), id, Reader::Client).await?.ok_or_else(Problem::not_found)
    }

    /// Provider calls made for a chat, behind the first `seen`.
    pub async fn attempts(
        &self,
        chat: &OwnChat,
        seen: usize,
        len: usize,
    ) -> Result<Vec<everturn::core::fact::AttemptRecord>, Problem> {
        Ok(self.store.attempts(chat.handle.id(), seen, len).await?)
    }

    /// The messages of a chat behind one, oldest first.
    pub async fn after(
        &self,
        chat: &OwnChat,
        after: MessageId,
        len: usize,
    ) -> Result<Vec<Arc<everturn::core::message::Message>>, Problem> {
        Ok(self.store.messages(chat.handle.id(), MessageRange::After(after, len)).await?)
    }
}

/// What becomes of whoever waits for work that has not come to its end. Nobody cancels it but a runtime that ends; that ends
/// whoever waits here as well, so nothing is left to be said.
async fn gone<T>(error: JoinError) -> T {
    match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_cancelled) => pending().await,
    }
}

impl OwnChat {
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

    /// A panic goes on where the work was asked for. Work that a runtime dropped at its end is nobody's panic.
    #[tokio::test]
    async fn work_that_is_dropped_with_its_runtime_panics_nowhere() {
        let broken = tokio::spawn(async { panic!("on purpose") }).await.unwrap_err();
        assert!(AssertUnwindSafe(gone::<()>(broken)).catch_unwind().await.is_err());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let work = runtime.spawn(pending::<()>());
        runtime.shutdown_background();
        let waits = AssertUnwindSafe(gone::<()>(work.await.unwrap_err())).catch_unwind();
        assert!(waits.now_or_never().is_none(), "there is nothing to say, and nobody who hears it");
    }
}
