//! The engine: a store, some providers, some agents, and a driver for every chat that has work.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everturn_core::budget::{Budget, BudgetAccount};
use everturn_core::doctor::facts::of_import;
use everturn_core::doctor::{Finding, TranscriptOrigin, repair};
use everturn_core::ids::{ChatId, Fence, ModelId, Timestamp, Version};
use everturn_core::message::Message;
use everturn_core::setup::BadSetup;
use everturn_core::view::Cursor;
use everturn_providers::record::Recorder;
use everturn_providers::{ModelFacts, Provider, Server};
use everturn_stores::{MakeError, Memory, NewChat, Store, StoreError, StoreExt as _, WriteError};
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::admission::budget::Budgets;
use crate::admission::governor::Governors;
use crate::admission::slots::Places;
use crate::agent::Agent;
use crate::handle::ChatHandle;
use crate::observe::metrics::Metrics;
use crate::process;
use crate::util::clock::{self, Clock};
use crate::util::entropy::Entropy;
use crate::watch::feed::{Feed, Feeds};
use crate::watch::hub::{DeltaLog, Hub};

/// Chats that work at once, if nobody says otherwise.
pub const CHATS_MAX: usize = 1_000;
/// Chats without a place that are loaded at once.
const OBEYING_MAX: usize = 32;

/// What every driver shares.
pub(crate) struct Ports {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) providers: BTreeMap<String, Arc<dyn Provider>>,
    pub(crate) agents: BTreeMap<String, Arc<Agent>>,
    pub(crate) hub: Hub,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) metrics: Metrics,
    /// Fires when nothing new may begin. What is under way goes on until `shutdown`.
    pub(crate) drain: CancellationToken,
    pub(crate) shutdown: CancellationToken,
    pub(crate) governors: Governors,
    pub(crate) budgets: Budgets,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    /// Chats under way that this process began, or has already counted as taken up, and under which lease.
    pub(crate) known: Mutex<HashMap<ChatId, Fence>>,
    /// Chats that turned out to be damaged, and why.
    pub(crate) damaged: Mutex<HashMap<ChatId, String>>,
    /// Where chats stand in line that were parked here: if one is found there again, nothing was lost meanwhile.
    pub(crate) parked: Mutex<HashMap<ChatId, Cursor>>,
    /// One at a time: chats that their processes may have died of.
    pub(crate) suspects: Arc<Semaphore>,
    /// What the drivers of today halt by: a child of `shutdown`, and a new one after each time this process was lost.
    halt: Mutex<CancellationToken>,
    pub(crate) driven: Mutex<HashSet<ChatId>>,
    /// Chats that cannot be driven here, because what is stored of them cannot be read. Those who wait for one are told.
    pub(crate) unreadable: Mutex<HashMap<ChatId, StoreError>>,
    pub(crate) places: Places,
    /// Bounds how many chats without a place are loaded at once, to do what their inbox says.
    pub(crate) obeying: Arc<Semaphore>,
    /// One at a time: looks for chats that nobody drives.
    pub(crate) looking: Arc<Semaphore>,
    pub(crate) drivers: Drivers,
    tasks: TaskTracker,
    /// Ends [`process::heed_hints`] with the last of us.
    _worker: DropGuard,
}

impl Ports {
    pub(crate) fn halt(&self) -> CancellationToken {
        lock(&self.halt).clone()
    }

    /// Makes every driver stop where it is. Those that begin from now on go on.
    pub(crate) fn halt_all(&self) {
        std::mem::replace(&mut *lock(&self.halt), self.shutdown.child_token()).cancel();
    }

    /// Why nobody here goes on with a chat, if that is so.
    pub(crate) fn gave_up_on(&self, chat: ChatId) -> Option<StoreError> {
        lock(&self.unreadable).get(&chat).cloned()
    }

    pub(crate) fn is_driven(&self, chat: ChatId) -> bool {
        lock(&self.driven).contains(&chat)
    }

    /// Takes up every chat that was left in the middle of something. Who drives one here already is left in peace, unless
    /// there is something to hear.
    pub(crate) async fn resume(self: &Arc<Self>) -> Result<usize, StoreError> {
        let unsettled = self.store.unsettled().await?;
        let wanted = unsettled.iter().filter(|found| found.has_commands || !self.is_driven(found.chat));
        wanted.for_each(|found| self.wake(found.chat));
        Ok(unsettled.len())
    }

    /// Where requests to a model go, if they leave the process.
    pub(crate) fn server_of(&self, model: &ModelId) -> Option<Server> {
        self.providers.get(model.provider())?.server()
    }

    pub(crate) fn agent(&self, name: &str) -> Option<Arc<Agent>> {
        self.agents.get(name).cloned()
    }

    /// Deletes recordings of chats that were deleted elsewhere, or by a process that died of it.
    async fn forget_the_gone(&self) {
        let Some(recorder) = &self.recorder else { return };
        for chat in recorder.kept() {
            if matches!(self.store.heading(chat).await, Err(StoreError::NoSuchChat)) {
                recorder.forget(chat);
            }
        }
    }

    /// Sees to it that somebody drives the chat.
    pub(crate) fn wake(self: &Arc<Self>, chat: ChatId) {
        self.hub.bell(chat).inbox.notify_one();
        if self.drivers == Drivers::Spawned && !self.is_damaged(chat) && lock(&self.driven).insert(chat) {
            lock(&self.unreadable).remove(&chat); // Whether it still is will show.
            self.tasks.spawn(self.clone().drive(chat));
        }
    }

    /// Does something to its end, also when whoever waits for it goes away meanwhile.
    pub(crate) async fn to_the_end<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        match self.tasks.spawn(work.in_current_span()).await.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => resume_unwind(panic),
            Err(Err(_cancelled)) => pending().await, // The runtime stops, and with it whoever waits here.
        }
    }

    /// Does something nobody waits for, except a shutdown.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who runs the drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Drivers {
    /// The engine does, on tasks of its own, as soon as a chat has work.
    #[default]
    Spawned,
    /// The program does, with [`ChatHandle::advance`].
    ByHand,
}

/// Runs chats.
#[derive(Clone)]
pub struct Engine {
    pub(crate) ports: Arc<Ports>,
}

/// An engine being put together.
pub struct Builder {
    store: Arc<dyn Store>,
    providers: BTreeMap<String, Arc<dyn Provider>>,
    agents: BTreeMap<String, Arc<Agent>>,
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
    /// An engine on a store in memory, to be told of its providers and agents.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            store: Arc::new(Memory::new()),
            providers: BTreeMap::new(),
            agents: BTreeMap::new(),
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

    /// Makes a chat with an agent.
    pub async fn create(&self, agent: &str) -> Result<ChatHandle, CreateError> {
        self.create_as(self.new_id(), agent, "").await
    }

    /// Makes a chat of `owner` under this id. Making the same one again does nothing.
    pub async fn create_as(&self, id: ChatId, agent: &str, owner: &str) -> Result<ChatHandle, CreateError> {
        if self.ports.agent(agent).is_none() {
            return Err(CreateError::NoSuchAgent(agent.into()));
        }
        self.ports.store.create(&NewChat::of(id, agent, owner)).await?;
        self.ports.feeds.tell(owner, id);
        Ok(self.chat(id))
    }

    /// Makes a chat, empty or with what was said in another; or finds the one that was made under the same key.
    pub async fn make(&self, new: &NewChat) -> Result<ChatHandle, CreateError> {
        // What was made before is not refused because its agent is gone meanwhile.
        if self.ports.agent(&new.agent).is_none() && self.ports.store.created(new).await?.is_none() {
            return Err(CreateError::NoSuchAgent(new.agent.clone()));
        }
        if let (Some(setup), Some(agent)) = (&new.setup, self.ports.agent(&new.agent)) {
            agent.toolbox.shelf().check(setup)?;
        }
        let id = self.ports.store.create(new).await?;
        self.ports.feeds.tell(&new.owner, id);
        Ok(self.chat(id))
    }

    /// Makes a chat in which this was said already, or finds the one that was made under the same key. Messages are numbered
    /// anew. Nothing is asked of a model before the next message.
    ///
    /// What other programs wrote becomes messages by [`everturn_core::doctor::foreign::read`].
    ///
    /// # Errors
    /// Also if a provider would refuse the transcript: [`CreateError::Transcript`] says what is wrong with it.
    /// [`everturn_core::doctor::repair`] mends that.
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
                Err(WriteError::Fenced | WriteError::OutOfPlace) => {} // The same request again is at it too.
            }
        }
    }

    /// Says what was said, unless something was said already.
    async fn import(&self, chat: ChatId, transcript: &[Arc<Message>]) -> Result<(), WriteError> {
        if self.ports.store.standing(chat).await?.version > Version(0) {
            return Ok(()); // It was made before, and its driver is not disturbed.
        }
        let mut lease = self.ports.acquire(chat).await?;
        let loaded = self.ports.store.load(&lease).await?.chat;
        if loaded.version == Version(0) && !transcript.is_empty() {
            self.ports.store.commit(&mut lease, &of_import(transcript)).await?;
        }
        self.ports.store.release(lease).await?;
        self.ports.hub.ring(chat);
        self.ports.feeds.tell(&loaded.owner, chat);
        Ok(())
    }

    /// Hints of what changes in an owner's chats from now on.
    #[must_use]
    pub fn feed(&self, owner: &str) -> Feed {
        self.ports.feeds.listen(owner)
    }

    /// An id that no chat has yet.
    #[must_use]
    pub fn new_id(&self) -> ChatId {
        let chance = (u128::from(self.ports.entropy.next()) << 64) | u128::from(self.ports.entropy.next());
        ChatId::new(self.now(), chance)
    }

    /// What the engine's clock says.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    /// Its agents, by name.
    pub fn agents(&self) -> impl Iterator<Item = (&str, &Agent)> {
        self.ports.agents.iter().map(|(name, agent)| (name.as_str(), &**agent))
    }

    /// The names of its providers.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.ports.providers.keys().map(String::as_str)
    }

    /// What is known about a model, if somebody here provides it.
    #[must_use]
    pub fn facts(&self, model: &ModelId) -> Option<ModelFacts> {
        self.ports.providers.get(model.provider()).map(|provider| provider.facts(model.name()))
    }

    /// What an owner may use in all their chats, and has used by now.
    pub async fn account(&self, owner: &str) -> Result<BudgetAccount, StoreError> {
        self.ports.account(owner).await
    }

    /// A chat that was made before.
    #[must_use]
    pub fn chat(&self, id: ChatId) -> ChatHandle {
        ChatHandle { ports: self.ports.clone(), id }
    }

    /// Takes up every chat that was left in the middle of something. Call it once after a start.
    pub async fn resume(&self) -> Result<usize, StoreError> {
        if self.ports.recorder.is_some() {
            let ports = self.ports.clone();
            // It asks for one chat after the other, and nobody has to wait for it.
            self.ports.spawn(async move {
                ports.drain.run_until_cancelled(ports.forget_the_gone()).await;
            });
        }
        self.ports.resume().await
    }

    /// Stops working and hands everything over: streams are dropped, tools get their grace, and whatever was shown is in
    /// the store. No turn is ended by this; another engine on the same store goes on.
    pub async fn shutdown(&self) {
        self.drain(Duration::ZERO).await;
    }

    /// The same, but whatever is nearly done may come to its end: no step, tool or turn begins any more, and what is
    /// still under way after `grace` is handed over where it is.
    pub async fn drain(&self, grace: Duration) {
        self.ports.drain.cancel();
        self.ports.tasks.close();
        let _ = tokio::time::timeout(grace, self.ports.tasks.wait()).await;
        self.ports.shutdown.cancel();
        self.ports.tasks.wait().await;
    }
}

/// A chat could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// There is no such agent.
    #[error("no agent is called `{0}`")]
    NoSuchAgent(String),
    /// The store cannot take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot have this of its own.
    #[error(transparent)]
    Setup(#[from] BadSetup),
    /// It cannot be made like this.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// It cannot begin with this: a provider would refuse it.
    #[error("the transcript is not one that a provider takes: {}", told(.0))]
    Transcript(Vec<Finding>),
}

fn told(findings: &[Finding]) -> String {
    let told: Vec<String> = findings.iter().take(5).map(ToString::to_string).collect();
    match findings.len() - told.len() {
        0 => told.join("; "),
        more => format!("{}; and {more} more", told.join("; ")),
    }
}

impl Builder {
    /// Keeps chats in another store. Give the same one to two engines to hand chats over.
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

    /// Counts into these metrics.
    #[must_use]
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Draws the same chances every time.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Counts time from here instead of reading the machine's clock.
    #[must_use]
    pub const fn starting_at(mut self, origin: Timestamp) -> Self {
        self.origin = Some(origin);
        self
    }

    /// Reads wall time from here instead of from the machine's clock. It may jump.
    #[must_use]
    pub const fn wall_clock(mut self, wall: fn() -> Timestamp) -> Self {
        (self.wall, self.origin) = (wall, None);
        self
    }

    /// Says who runs the drivers.
    #[must_use]
    pub const fn drivers(mut self, drivers: Drivers) -> Self {
        self.drivers = drivers;
        self
    }

    /// Lets so many chats work at once; 1,000 if left out. The others wait in line, fairly between their owners. A chat
    /// that rests, waits for its time to retry or for an answer does not count.
    #[must_use]
    pub const fn chats_max(mut self, len: usize) -> Self {
        self.chats_max = len;
        self
    }

    /// Bounds what every owner may use who has no budget of their own.
    #[must_use]
    pub const fn budget(mut self, budget: Budget) -> Self {
        self.budgets.usual = budget;
        self
    }

    /// Bounds what one owner may use.
    #[must_use]
    pub fn budget_of(mut self, owner: impl Into<String>, budget: Budget) -> Self {
        self.budgets.owners.insert(owner.into(), budget);
        self
    }

    /// Has whatever is exchanged with providers recorded, as far as the recorder wants it.
    #[must_use]
    pub fn recorder(mut self, recorder: impl Recorder) -> Self {
        self.recorder = Some(Arc::new(recorder));
        self
    }

    /// Has every delta told to a log, once it is stored.
    #[must_use]
    pub fn delta_log(mut self, log: impl DeltaLog) -> Self {
        self.delta_log = Some(Arc::new(log));
        self
    }

    /// Starts it. Needs a tokio runtime with time.
    #[must_use]
    pub fn start(self) -> Engine {
        let Self {
            store,
            providers,
            agents,
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
        let (shutdown, worker) = (CancellationToken::new(), CancellationToken::new());
        let ports = Ports {
            store,
            providers,
            agents,
            hub: Hub::new(delta_log),
            feeds: Arc::default(),
            clock: origin.map_or_else(|| Clock::reading(wall), Clock::starting_at),
            entropy: seed.map_or_else(Entropy::system, Entropy::seeded),
            places: Places::new(
                match drivers {
                    Drivers::Spawned => chats_max,
                    Drivers::ByHand => Semaphore::MAX_PERMITS, // Whoever drives decides how many.
                },
                metrics.clone(),
            ),
            obeying: Arc::new(Semaphore::new(OBEYING_MAX)),
            looking: Arc::new(Semaphore::new(1)),
            metrics,
            halt: Mutex::new(shutdown.child_token()),
            drain: shutdown.child_token(),
            shutdown,
            governors: Governors::default(),
            budgets,
            recorder,
            known: Mutex::default(),
            damaged: Mutex::default(),
            parked: Mutex::default(),
            suspects: Arc::new(Semaphore::new(1)),
            driven: Mutex::default(),
            unreadable: Mutex::default(),
            drivers,
            tasks: TaskTracker::new(),
            _worker: worker.clone().drop_guard(),
        };
        let ports = Arc::new(ports);
        if origin.is_none() {
            tokio::spawn(clock::watch(ports.clock, worker.clone()));
        }
        tokio::spawn(process::heed_hints(ports.store.clone(), Arc::downgrade(&ports), worker));
        Engine { ports }
    }
}
