//! The engine: a store, providers, agents, and a driver for every chat that has work.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::budget::{Budget, BudgetAccount};
use everturn_core::change::Change;
use everturn_core::chat::Chat;
use everturn_core::doctor::facts::of_import;
use everturn_core::doctor::{Finding, TranscriptOrigin, repair};
use everturn_core::fact::Fact;
use everturn_core::ids::{ChatId, ModelId, Timestamp, Version};
use everturn_core::message::{Body, Message};
use everturn_core::setup::BadSetup;
use everturn_core::turn_settings::TurnSettings;
use everturn_providers::record::Recorder;
use everturn_providers::{ModelFacts, Provider};
use everturn_stores::{Heading, MakeError, Memory, NewChat, Store, StoreError, StoreExt as _, WriteError};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::admission::budget::{self, Budgets};
use crate::admission::governor::Governors;
use crate::admission::slots::WorkSlots;
use crate::agent::Agent;
use crate::drive::takeover::Takeovers;
use crate::handle::ChatHandle;
use crate::observe::metrics::Metrics;
use crate::process::{DrivenChats, Shared, StopTokens, hints};
use crate::util::clock::{self, Clock};
use crate::util::entropy::Entropy;
use crate::watch::feed::Feed;
use crate::watch::hub::{DeltaLog, SignalHub};

/// Default of [`Builder::chats_max`]: chats that work at once.
pub const CHATS_MAX: usize = 1_000;
/// Chats without a work slot that are loaded at once.
const LOADING_MAX: usize = 32;

/// Where drivers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Drivers {
    /// On tasks of the engine, as soon as a chat has work.
    #[default]
    Spawned,
    /// On tasks of the program, with [`ChatHandle::advance`].
    ByHand,
}

/// Runs chats. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// Puts an engine together.
pub struct Builder {
    store: Arc<dyn Store>,
    providers: BTreeMap<String, Arc<dyn Provider>>,
    agents: BTreeMap<String, Arc<Agent>>,
    agents_elsewhere: fn(&str) -> bool,
    metrics: Metrics,
    seed: Option<u64>,
    origin: Option<Timestamp>,
    wall: fn() -> Timestamp,
    drivers: Drivers,
    chats_max: usize,
    budgets: Budgets,
    recorder: Option<Arc<dyn Recorder>>,
    delta_log: Option<Arc<dyn DeltaLog>>,
}

impl Engine {
    /// An engine on a store in memory, without providers and agents.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            store: Arc::new(Memory::new()),
            providers: BTreeMap::new(),
            agents: BTreeMap::new(),
            agents_elsewhere: |_| false,
            metrics: Metrics::unregistered(),
            seed: None,
            origin: None,
            wall: clock::system,
            drivers: Drivers::Spawned,
            chats_max: CHATS_MAX,
            budgets: Budgets::default(),
            recorder: None,
            delta_log: None,
        }
    }

    pub(crate) const fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Creates a chat with an agent.
    pub async fn create(&self, agent: &str) -> Result<ChatHandle, CreateError> {
        self.create_as(self.new_id(), agent, "").await
    }

    /// Creates a chat of `owner` under this id. Creating the same one again does nothing.
    pub async fn create_as(&self, id: ChatId, agent: &str, owner: &str) -> Result<ChatHandle, CreateError> {
        if self.shared.agent(agent).is_none() {
            return Err(CreateError::NoSuchAgent(agent.into()));
        }
        self.shared.store.create(&NewChat::of(id, agent, owner)).await?;
        self.shared.feeds.tell(owner, id);
        Ok(self.chat(id))
    }

    /// Creates a chat, empty or as a fork of another; or finds the one that was created under the same key.
    pub async fn make(&self, new: &NewChat) -> Result<ChatHandle, CreateError> {
        // A chat that exists is found also after its agent was removed.
        if self.shared.agent(new.agent.value()).is_none() && self.shared.store.created(new).await?.is_none() {
            return Err(CreateError::NoSuchAgent(new.agent.value().clone()));
        }
        if let (Some(setup), Some(agent)) = (&new.setup, self.shared.agent(new.agent.value())) {
            agent.toolbox.shelf().check(setup)?;
        }
        let id = self.shared.store.create(new).await?;
        self.shared.feeds.tell(&new.owner, id);
        Ok(self.chat(id))
    }

    /// Creates a chat with a transcript, or finds the one that was created under the same key. Messages are numbered anew. No
    /// model is asked before the next message.
    ///
    /// [`everturn_core::doctor::foreign::read`] makes messages of the files of other programs.
    ///
    /// # Errors
    /// Also if a provider would refuse the transcript: [`CreateError::Transcript`] says what is wrong with it.
    /// [`everturn_core::doctor::repair`] repairs it.
    pub async fn make_with(&self, new: &NewChat, transcript: &[Arc<Message>]) -> Result<ChatHandle, CreateError> {
        let findings = repair(transcript, TranscriptOrigin::Foreign).findings;
        if !findings.is_empty() {
            return Err(CreateError::Transcript(findings));
        }
        let chat = self.make(new).await?;
        loop {
            match self.import(chat.id(), transcript).await {
                Ok(()) => return Ok(chat),
                Err(WriteError::Store(error)) => return Err(error.into()),
                Err(WriteError::Fenced | WriteError::OutOfPlace) => {} // A repeat of the same request imports it too.
            }
        }
    }

    /// Answers a request of a client that keeps its conversation itself: creates a chat for it, or finds the one that was
    /// created under the same key, with the conversation and one turn. Calls of the client's tools end the turn.
    ///
    /// # Errors
    /// Also if the settings have more than a turn may have.
    pub async fn answer_request(
        &self,
        new: &NewChat,
        conversation: &[Body],
        settings: Arc<TurnSettings>,
    ) -> Result<ChatHandle, CreateError> {
        settings.check().map_err(|bad| CreateError::Settings(bad.to_string()))?;
        let chat = self.make(new).await?;
        let at = self.now();
        loop {
            let facts = |empty: &Chat| {
                let mut change = Change::new(empty, at);
                change.answer_request(conversation, settings.clone());
                change.facts()
            };
            match self.commit_first(chat.id(), facts).await {
                Ok(()) => break,
                Err(WriteError::Store(error)) => return Err(error.into()),
                Err(WriteError::Fenced | WriteError::OutOfPlace) => {} // A repeat of the same request begins it too.
            }
        }
        self.shared.wake(chat.id());
        Ok(chat)
    }

    /// Commits the transcript, unless the chat has one.
    async fn import(&self, chat: ChatId, transcript: &[Arc<Message>]) -> Result<(), WriteError> {
        self.commit_first(chat, |_| if transcript.is_empty() { Vec::new() } else { of_import(transcript) }).await
    }

    /// Makes the first commit of a chat, unless it has one.
    async fn commit_first(&self, chat: ChatId, facts: impl Fn(&Chat) -> Vec<Fact>) -> Result<(), WriteError> {
        if self.shared.store.standing(chat).await?.version > Version(0) {
            return Ok(()); // It was created before, and may have a driver by now.
        }
        let mut lease = self.shared.acquire(chat).await?;
        let loaded = self.shared.store.load(&lease).await?.chat;
        let facts = facts(&loaded);
        if loaded.version == Version(0) && !facts.is_empty() {
            self.shared.store.commit(&mut lease, &facts).await?;
        }
        self.shared.store.release(lease).await?;
        self.shared.signals.ring(chat);
        self.shared.feeds.tell(&loaded.owner, chat);
        Ok(())
    }

    /// Hints of changes in an owner's chats from now on.
    #[must_use]
    pub fn feed(&self, owner: &str) -> Feed {
        self.shared.feeds.listen(owner)
    }

    /// A new chat id.
    #[must_use]
    pub fn new_id(&self) -> ChatId {
        let chance = (u128::from(self.shared.entropy.next()) << 64) | u128::from(self.shared.entropy.next());
        ChatId::new(self.now(), chance)
    }

    /// The time by the engine's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The agents, by name.
    pub fn agents(&self) -> impl Iterator<Item = (&str, &Agent)> {
        self.shared.agents.iter().map(|(name, agent)| (name.as_str(), &**agent))
    }

    /// The names of the providers.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.shared.providers.keys().map(String::as_str)
    }

    /// What is known about a model, if its provider is configured.
    #[must_use]
    pub fn facts(&self, model: &ModelId) -> Option<ModelFacts> {
        self.shared.providers.get(model.provider()).map(|provider| provider.facts(model.name()))
    }

    /// The budget of an owner over all chats, and what is used of it by now.
    pub async fn account(&self, owner: &str) -> Result<BudgetAccount, StoreError> {
        budget::account(&self.shared, owner).await
    }

    /// A handle of a chat that exists.
    #[must_use]
    pub fn chat(&self, id: ChatId) -> ChatHandle {
        ChatHandle { shared: self.shared.clone(), id, known: None }
    }

    /// A handle of a chat with a heading that the caller has read: commands do not read it again.
    #[must_use]
    pub fn chat_with(&self, heading: &Heading) -> ChatHandle {
        let known = Arc::new((heading.owner.clone(), heading.agent.clone()));
        ChatHandle { shared: self.shared.clone(), id: heading.id, known: Some(known) }
    }

    /// Resumes every chat with unfinished work. Call it once after a start.
    pub async fn resume(&self) -> Result<usize, StoreError> {
        if self.shared.recorder.is_some() {
            let shared = self.shared.clone();
            // It looks up one recording after the other; nothing has to wait for it.
            self.shared.spawn(async move {
                shared.stop.drain.run_until_cancelled(shared.delete_orphan_recordings()).await;
            });
        }
        self.shared.resume().await
    }

    /// Stops all work where it is: streams are dropped, tools get their grace period, and everything shown is in the store.
    /// Turns are not ended: another engine on the same store resumes them.
    pub async fn shutdown(&self) {
        self.drain(Duration::ZERO).await;
    }

    /// Shuts down, but lets work under way finish for up to `grace`: no step, tool or turn begins any more, and what is still
    /// under way then is stopped where it is.
    pub async fn drain(&self, grace: Duration) {
        self.shared.stop.drain.cancel();
        self.shared.tasks.close();
        let _ = tokio::time::timeout(grace, self.shared.tasks.wait()).await;
        self.shared.stop.shutdown.cancel();
        self.shared.tasks.wait().await;
        self.shared.hints.wait().await; // It holds the store, which may be opened again after this.
    }
}

/// Why a chat could not be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// There is no such agent.
    #[error("no agent is called `{0}`")]
    NoSuchAgent(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The settings of the request are not possible.
    #[error("{0}")]
    Settings(String),
    /// The chat's own instructions or tools are not possible.
    #[error(transparent)]
    Setup(#[from] BadSetup),
    /// The request is not possible: its key was used before, or a transcript cannot be forked there.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// A provider would refuse the transcript.
    #[error("the transcript is not one that a provider takes: {}", listed(.0))]
    Transcript(Vec<Finding>),
}

fn listed(findings: &[Finding]) -> String {
    let shown: Vec<String> = findings.iter().take(5).map(ToString::to_string).collect();
    match findings.len() - shown.len() {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}

impl Builder {
    /// Stores chats elsewhere than in memory. Two engines on the same store can take over each other's chats.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// Adds a provider under its own name.
    #[must_use]
    pub fn provider(mut self, provider: impl Provider) -> Self {
        self.providers.insert(provider.name().to_string(), Arc::new(provider));
        self
    }

    /// Adds an agent.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>, agent: Agent) -> Self {
        self.agents.insert(name.into(), Arc::new(agent));
        self
    }

    /// Sets the metrics to count into.
    #[must_use]
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Seeds the randomness, for tests.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Counts time from `origin` instead of reading the machine's clock.
    #[must_use]
    pub const fn starting_at(mut self, origin: Timestamp) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Reads wall time from a function instead of the machine's clock. It may jump.
    #[must_use]
    pub const fn wall_clock(mut self, wall: fn() -> Timestamp) -> Self {
        (self.wall, self.origin) = (wall, None);
        self
    }

    /// Says which agents other processes have. A turn of such an agent, if this process lacks it, stays as it is until a
    /// process with the agent takes it up; a turn of any other agent that is missing ends with an error.
    #[must_use]
    pub const fn agents_elsewhere(mut self, is_elsewhere: fn(&str) -> bool) -> Self {
        self.agents_elsewhere = is_elsewhere;
        self
    }

    /// Sets where drivers run.
    #[must_use]
    pub const fn drivers(mut self, drivers: Drivers) -> Self {
        self.drivers = drivers;
        self
    }

    /// Limits how many chats work at once; 1,000 by default. The others wait in line, fairly between their owners. A chat
    /// that rests, waits for its next retry or for an answer does not count.
    #[must_use]
    pub const fn chats_max(mut self, len: usize) -> Self {
        self.chats_max = len;
        self
    }

    /// Sets the budget of every owner without one of their own.
    #[must_use]
    pub const fn budget(mut self, budget: Budget) -> Self {
        self.budgets.usual = budget;
        self
    }

    /// Sets the budget of one owner.
    #[must_use]
    pub fn budget_of(mut self, owner: impl Into<String>, budget: Budget) -> Self {
        self.budgets.owners.insert(owner.into(), budget);
        self
    }

    /// Records exchanges with providers, as far as the recorder wants them.
    #[must_use]
    pub fn recorder(mut self, recorder: impl Recorder) -> Self {
        self.recorder = Some(Arc::new(recorder));
        self
    }

    /// Passes every delta to a log, once it is stored.
    #[must_use]
    pub fn delta_log(mut self, log: impl DeltaLog) -> Self {
        self.delta_log = Some(Arc::new(log));
        self
    }

    /// Starts the engine. Needs a tokio runtime with time.
    #[must_use]
    pub fn start(self) -> Engine {
        let Self {
            store,
            providers,
            agents,
            agents_elsewhere,
            metrics,
            seed,
            origin,
            wall,
            drivers,
            chats_max,
            budgets,
            recorder,
            delta_log,
        } = self;
        let stop = StopTokens::new();
        let gone = stop.shutdown.child_token();
        let slots_len = match drivers {
            Drivers::Spawned => chats_max,
            Drivers::ByHand => Semaphore::MAX_PERMITS, // The program decides how many it drives.
        };
        let shared = Arc::new(Shared {
            store,
            providers,
            agents,
            agents_elsewhere,
            signals: SignalHub::new(delta_log),
            feeds: Arc::default(),
            clock: origin.map_or_else(|| Clock::reading(wall), Clock::starting_at),
            entropy: seed.map_or_else(Entropy::system, Entropy::seeded),
            slots: WorkSlots::new(slots_len, metrics.clone()),
            loading: Arc::new(Semaphore::new(LOADING_MAX)),
            scanning: Arc::new(Semaphore::new(1)),
            orphans: Arc::new(Semaphore::new(1)),
            metrics,
            stop,
            governors: Governors::default(),
            budgets,
            recorder,
            takeovers: Takeovers::default(),
            driven: DrivenChats::default(),
            drivers,
            tasks: TaskTracker::new(),
            hints: TaskTracker::new(),
            _hints: gone.clone().drop_guard(),
        });
        if origin.is_none() {
            tokio::spawn(clock::watch(shared.clock, gone.clone()));
        }
        shared.hints.spawn(hints::follow(shared.store.clone(), Arc::downgrade(&shared), gone));
        shared.hints.close();
        Engine { shared }
    }
}
