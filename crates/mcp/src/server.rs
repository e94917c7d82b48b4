//! One configured server: what is known about it, and its processes.
//!
//! A server starts when it is called, once per owner of chats unless its entry says otherwise. One that dies is started
//! again with growing pauses, and rests after five deaths within ten minutes. One that is not called for a while is
//! stopped.

mod restarts;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime};

use everturn::core::ids::ChatId;
use everturn::{SharedTool, ToolContext};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::config::{ServerConfig, ServerScope};
use crate::connection::{Connection, Greeting, Start, StartFailure, StartFailureKind, ToolChanges};
use crate::definition::ToolDefinition;
use crate::oauth::Logins;
use crate::oauth::bearer::Whose;
use crate::tool::McpTool;
use crate::tool_cache::{KnownTools, ToolCache};
use restarts::Restarts;

/// Calls that run at once in one process of a server.
const CALLS_MAX: usize = 8;

/// On whose behalf a server is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller<'a> {
    /// A chat.
    Chat { owner: &'a str, chat: ChatId },
    /// This program, which reads the list of tools.
    ListsTools,
}

/// What one process or connection of a server is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum InstanceKey {
    Owner(String),
    Chat(ChatId),
    Everybody,
    /// It only lists tools.
    Lists,
}

/// One configured server.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    cache: ToolCache,
    /// The directory that its processes start in if the entry names none.
    directory: PathBuf,
    helper: Option<PathBuf>,
    known: RwLock<Option<Arc<KnownTools>>>,
    findings: Mutex<Findings>,
    instances: Mutex<HashMap<InstanceKey, Arc<Instance>>>,
    logins: Logins,
    /// How far the first contact is.
    contact: watch::Sender<Contact>,
    /// Called when its tools have changed.
    on_change: Box<dyn Fn() + Send + Sync>,
}

/// How far the first contact with a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contact {
    /// None is under way.
    Idle,
    /// Its tools are being learned.
    Learning,
}

/// What was found out about a server lately.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    /// Why it could not be started, if it could not the last time.
    pub(crate) failure: Option<StartFailure>,
    /// Tools of its list that cannot be used, with the reason.
    pub(crate) refused: BTreeMap<String, String>,
    /// When the logins at the server had changed last when it failed.
    logins: Option<SystemTime>,
}

/// The process of a server, or the connection to it, for one owner.
struct Instance {
    slot: tokio::sync::Mutex<Slot>,
    calls: Arc<Semaphore>,
    last_used: Mutex<Instant>,
}

#[derive(Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    restarts: Restarts,
}

/// A connection that may be used for one call.
pub(crate) struct Lent {
    pub(crate) connection: Arc<Connection>,
    instance: Arc<Instance>,
    _call: OwnedSemaphorePermit,
}

/// How many processes or connections a server has, by what they do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Activity {
    pub(crate) started: usize,
    pub(crate) in_use: usize,
    /// How long it rests after failures.
    pub(crate) rests: Option<Duration>,
}

impl<'a> Caller<'a> {
    /// The chat of a call.
    pub(crate) fn of(context: &'a ToolContext) -> Self {
        Self::Chat { owner: &context.owner, chat: context.chat }
    }
}

impl Instance {
    fn new() -> Self {
        let calls = Arc::new(Semaphore::new(CALLS_MAX));
        Self { slot: tokio::sync::Mutex::default(), calls, last_used: Mutex::new(Instant::now()) }
    }

    fn is_in_use(&self) -> bool {
        self.calls.available_permits() < CALLS_MAX
    }

    fn touch(&self) {
        *locked(&self.last_used) = Instant::now();
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.instance.touch();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    pub(crate) fn new(
        config: ServerConfig,
        cache: ToolCache,
        directory: PathBuf,
        helper: Option<PathBuf>,
        logins: Logins,
        on_change: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let known = cache.read(&config).map(Arc::new);
        Self {
            config,
            cache,
            directory,
            helper,
            known: RwLock::new(known),
            findings: Mutex::default(),
            instances: Mutex::default(),
            logins,
            contact: watch::Sender::new(Contact::Idle),
            on_change: Box::new(on_change),
        }
    }

    /// What is known about its tools.
    pub(crate) fn known(&self) -> Option<Arc<KnownTools>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// See [`Findings`].
    pub(crate) fn findings(&self) -> Findings {
        locked(&self.findings).clone()
    }

    /// Its tools, as far as the configuration wants them.
    pub(crate) fn tools(self: &Arc<Self>) -> Vec<SharedTool> {
        self.definitions().into_iter().map(|tool| self.tool(tool)).collect()
    }

    /// The definitions of its tools, as far as the configuration wants them.
    pub(crate) fn definitions(&self) -> Vec<ToolDefinition> {
        let Some(known) = self.known() else { return Vec::new() };
        known.tools.iter().filter(|tool| self.config.offers(&tool.name)).cloned().collect()
    }

    /// A tool of this definition.
    pub(crate) fn tool(self: &Arc<Self>, definition: ToolDefinition) -> SharedTool {
        Arc::new(McpTool::new(self.clone(), definition))
    }

    /// A connection for a call of this owner's chat. Starts the server if it does not run.
    pub(crate) async fn lend(self: &Arc<Self>, caller: Caller<'_>) -> Result<Lent, StartFailure> {
        let key = self.key(&caller);
        let instance = locked(&self.instances).entry(key).or_insert_with(|| Arc::new(Instance::new())).clone();
        let call = instance.calls.clone().acquire_owned().await;
        let call = call.map_err(|_| StartFailure::new("it was stopped"))?;
        let mut slot = instance.slot.lock().await;
        if let Some(connection) = slot.connection.take() {
            if connection.is_usable() {
                slot.connection = Some(connection.clone());
                drop(slot);
                return Ok(Lent { connection, instance, _call: call });
            }
            slot.restarts.died();
        }
        let connection = Arc::new(self.start(&mut slot.restarts, &caller).await?);
        if let Some(changes) = connection.changes() {
            tokio::spawn(follow(Arc::downgrade(self), Arc::downgrade(&connection), changes));
        }
        slot.connection = Some(connection.clone());
        drop(slot);
        Ok(Lent { connection, instance, _call: call })
    }

    /// Marks the beginning or the end of the first contact.
    pub(crate) fn set_contact(&self, contact: Contact) {
        self.contact.send_replace(contact);
    }

    /// Waits until no first contact is under way.
    pub(crate) async fn met(&self) {
        let mut contact = self.contact.subscribe();
        let _ = contact.wait_for(|contact| *contact == Contact::Idle).await; // The sender lives as long as `self`.
    }

    /// Starts the server once to learn its tools.
    pub(crate) async fn learn(self: &Arc<Self>) -> Result<Arc<KnownTools>, StartFailure> {
        let lent = self.lend(Caller::ListsTools).await?;
        drop(lent);
        let instance = locked(&self.instances).remove(&InstanceKey::Lists);
        drop(instance); // Chats have owners: none would use it.
        self.known().ok_or_else(|| StartFailure::new("it gave no list of tools"))
    }

    /// Which process or connection a caller gets.
    fn key(&self, caller: &Caller<'_>) -> InstanceKey {
        match (caller, self.config.scope) {
            (Caller::ListsTools, _) => InstanceKey::Lists,
            (Caller::Chat { owner, .. }, ServerScope::Owner) => InstanceKey::Owner((*owner).into()),
            (Caller::Chat { chat, .. }, ServerScope::Chat) => InstanceKey::Chat(*chat),
            (Caller::Chat { .. }, ServerScope::Daemon) => InstanceKey::Everybody,
        }
    }

    async fn start(self: &Arc<Self>, restarts: &mut Restarts, caller: &Caller<'_>) -> Result<Connection, StartFailure> {
        restarts.wait().await?;
        std::fs::create_dir_all(&self.directory)
            .map_err(|error| StartFailure::new(format!("{} cannot be made: {error}", self.directory.display())))?;
        let start = Start {
            config: &self.config,
            protocol: self.known().map(|known| known.protocol),
            directory: &self.directory,
            helper: self.helper.as_ref(),
            logins: &self.logins,
            whose: match caller {
                Caller::Chat { owner, .. } => Whose::Owner(self.config.login_owner(owner).into()),
                Caller::ListsTools => Whose::Any,
            },
        };
        let opened = Connection::open(&start).await;
        match opened {
            Ok((connection, greeting)) => {
                tracing::info!(server = self.config.name, "started an MCP server");
                self.greeted(greeting);
                Ok(connection)
            }
            Err(failure) => {
                tracing::warn!(server = self.config.name, reason = failure.reason, "could not start an MCP server");
                if failure.kind == StartFailureKind::Failed {
                    restarts.died();
                }
                self.failed(failure.clone());
                Err(failure)
            }
        }
    }

    /// Remembers that a server wants other credentials.
    pub(crate) fn refused(&self, reason: String) {
        self.failed(StartFailure { reason, kind: StartFailureKind::NeedsLogin });
    }

    fn failed(&self, failure: StartFailure) {
        let logins = self.logins.changed(&self.config.name);
        let mut findings = locked(&self.findings);
        findings.failure = Some(failure);
        findings.logins = logins;
    }

    /// Learns the tools of a server that wanted a login and has one by now.
    pub(crate) fn retry_after_login(self: &Arc<Self>) {
        let findings = self.findings();
        let wanted = findings.failure.is_some_and(|failure| failure.kind == StartFailureKind::NeedsLogin);
        if !wanted || self.logins.changed(&self.config.name) == findings.logins {
            return;
        }
        locked(&self.findings).failure = None;
        if self.known().is_none() && *self.contact.borrow() == Contact::Idle {
            let server = self.clone();
            self.set_contact(Contact::Learning);
            tokio::spawn(async move {
                let _ = server.learn().await; // A failure was logged, and is in the status.
                server.set_contact(Contact::Idle);
            });
        }
    }

    /// Takes over what the server said about its tools.
    fn greeted(&self, Greeting { known, refused }: Greeting) {
        *locked(&self.findings) = Findings { failure: None, refused: refused.into_iter().collect(), logins: None };
        if self.known().is_some_and(|old| *old == known) {
            return;
        }
        if let Err(error) = self.cache.write(&self.config, &known) {
            tracing::warn!(server = self.config.name, %error, "could not store the tools of an MCP server");
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(known));
        (self.on_change)();
    }

    /// Stops processes that were not called for a while.
    pub(crate) fn stop_idle(&self) {
        let idle_max = self.config.idle_max;
        locked(&self.instances).retain(|_, instance| {
            let is_idle = !instance.is_in_use() && locked(&instance.last_used).elapsed() >= idle_max;
            !is_idle || instance.slot.try_lock().map_or(true, |slot| slot.restarts.is_resting())
        });
    }

    /// Stops all of its processes.
    pub(crate) fn stop(&self) {
        locked(&self.instances).clear();
    }

    /// See [`Activity`].
    pub(crate) fn activity(&self) -> Activity {
        let mut activity = Activity::default();
        for instance in locked(&self.instances).values() {
            activity.in_use += usize::from(instance.is_in_use());
            let Ok(slot) = instance.slot.try_lock() else { continue };
            activity.started += usize::from(slot.connection.as_ref().is_some_and(|connection| connection.is_usable()));
            activity.rests = activity.rests.max(slot.restarts.rests());
        }
        activity
    }
}

/// Reads a server's list again whenever it has changed, for as long as the connection lasts.
async fn follow(server: Weak<Server>, connection: Weak<Connection>, mut changes: ToolChanges) {
    while changes.next().await.is_some() {
        let (Some(server), Some(connection)) = (server.upgrade(), connection.upgrade()) else { return };
        match connection.tools(server.config.start_max).await {
            Ok(greeting) => server.greeted(greeting),
            Err(failure) => tracing::warn!(server = server.config.name, %failure, "could not read changed tools"),
        }
    }
}
