//! All configured servers, and the tools that agents get of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use everturn::core::chat::Effect;
use everturn::core::prompt::ToolSpec;
use everturn::{Approval, BadTool, LiveToolbox, SharedTool, Toolbox};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{Offering, ServerConfig, Trust};
use crate::connection::{StartFailure, StartFailureKind};
use crate::first_contact::McpHook;
use crate::names::offered_name;
use crate::oauth::Logins;
use crate::search::{FindTools, FoundTool, UseTool};
use crate::server::{Contact, Findings, Server};
use crate::tool_cache::{KnownTools, ToolCache};

/// Servers that are started at once to learn their tools.
const LEARNING_MAX: usize = 4;
/// How much of a request may describe the tools of an agent's servers: about 10,000 tokens, 5 % of a window of 200,000. It does
/// not follow the model, because the tools of a chat should stay the same when another model is chosen.
const OFFERED_BYTES_MAX: usize = 40_000;
/// How often idle processes are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(15);

/// What servers need of the program that starts them.
#[derive(Debug, Clone)]
pub struct McpOptions {
    /// Where tool lists are stored, and where servers without a `cwd` start.
    directory: PathBuf,
    helper: Option<PathBuf>,
}

impl McpOptions {
    /// Options with a directory for stored tool lists. It need not exist. Programs on one machine may share it.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), helper: None }
    }

    /// Uses another executable for supervisors; see [`everturn_tools::ToolCommand::with_helper`].
    #[must_use]
    pub fn with_helper(mut self, executable: impl Into<PathBuf>) -> Self {
        self.helper = Some(executable.into());
        self
    }
}

/// The configured servers. Clones share them. Keep one for as long as agents use the tools: it follows lists that change
/// and stops idle processes.
#[derive(Clone)]
pub struct McpServers {
    all: Arc<All>,
}

struct All {
    servers: BTreeMap<String, Arc<Server>>,
    toolboxes: Mutex<Vec<AgentTools>>,
}

/// The tools of one agent.
struct AgentTools {
    servers: Vec<String>,
    tools: LiveToolbox,
}

/// A server that is not configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no MCP server `{0}`: the configured ones are {1}")]
pub struct NoSuchServer(String, String);

/// How a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// Nothing is known but its configuration.
    Configured,
    /// Its tools are known; it starts when one is called.
    Known,
    /// It runs.
    Started,
    /// It runs, and works on a call.
    InUse,
    /// It wants other credentials.
    NeedsLogin,
    /// It died too often, and is not started again for a while.
    Resting {
        /// For how long.
        time: Duration,
    },
    /// It could not be started the last time.
    Failed,
}

/// What people are told about a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Its command or address, without secrets.
    pub what: String,
    /// How it is.
    pub state: ServerState,
    /// Why it failed, if it did the last time.
    pub reason: Option<String>,
    /// What it said last about itself and its tools.
    pub known: Option<KnownTools>,
    /// Its tools.
    pub tools: Vec<ToolStatus>,
    /// Tools of its list that cannot be used, with the reason.
    pub refused: BTreeMap<String, String>,
}

/// What people are told about a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolStatus {
    /// The server's own name for it.
    pub name: String,
    /// The name that a model sees.
    pub offered: String,
    /// What it does.
    pub description: String,
    /// What running it twice would do.
    pub effect: Effect,
    /// Whether a person decides on each call.
    pub approval: Approval,
    /// Why it is not offered, if it is not.
    pub left_out: Option<String>,
}

impl McpServers {
    /// Takes the servers over. Those whose tools are unknown are started in the background, to learn them.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start(configs: impl IntoIterator<Item = ServerConfig>, options: McpOptions) -> Self {
        let servers = Self::new(configs, options);
        servers.learn_unknown();
        servers
    }

    /// Takes the servers over and starts none.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn new(configs: impl IntoIterator<Item = ServerConfig>, options: McpOptions) -> Self {
        let cache = ToolCache::new(options.directory.join("tools"));
        let logins = Logins::new(&options.directory);
        let all = Arc::new_cyclic(|all: &Weak<All>| {
            let server = |config: ServerConfig| {
                let directory = options.directory.join("servers").join(config.name());
                let all = all.clone();
                let on_change = move || {
                    if let Some(all) = all.upgrade() {
                        all.refill();
                    }
                };
                let name = config.name().to_owned();
                (
                    name,
                    Arc::new(Server::new(
                        config,
                        cache.clone(),
                        directory,
                        options.helper.clone(),
                        logins.clone(),
                        on_change,
                    )),
                )
            };
            All { servers: configs.into_iter().map(server).collect(), toolboxes: Mutex::default() }
        });
        tokio::spawn(sweep(Arc::downgrade(&all)));
        Self { all }
    }

    /// The tools of these servers, for an agent. They follow what the servers list, from one turn to the next.
    ///
    /// # Errors
    /// One of them is not configured.
    pub fn toolbox<Name: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = Name>,
    ) -> Result<LiveToolbox, NoSuchServer> {
        let servers = self.found(names)?;
        let tools = LiveToolbox::by_turn(self.all.tools_of(&servers));
        let mut toolboxes = self.all.toolboxes.lock().unwrap_or_else(PoisonError::into_inner);
        toolboxes.push(AgentTools { servers, tools: tools.clone() });
        Ok(tools)
    }

    /// The tools of these servers as they are known now.
    ///
    /// # Errors
    /// One of them is not configured.
    pub fn tools<Name: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = Name>,
    ) -> Result<Vec<SharedTool>, NoSuchServer> {
        let servers = self.found(names)?;
        let servers = servers.iter().filter_map(|name| self.all.servers.get(name));
        Ok(servers.flat_map(Server::tools).collect())
    }

    /// A hook for an agent with these servers: it waits up to five seconds for a first contact that is under way, and
    /// tells the model once per chat which servers have no tools to offer, and why.
    ///
    /// # Errors
    /// One of them is not configured.
    pub fn hook<Name: AsRef<str>>(&self, names: impl IntoIterator<Item = Name>) -> Result<McpHook, NoSuchServer> {
        let names = self.found(names)?;
        Ok(McpHook::new(names.iter().filter_map(|name| self.all.servers.get(name)).cloned().collect()))
    }

    /// Instructions of these servers for models. Only trusted servers have a say.
    #[must_use]
    pub fn instructions<Name: AsRef<str>>(&self, names: impl IntoIterator<Item = Name>) -> Vec<String> {
        let servers = names.into_iter().filter_map(|name| self.all.servers.get(name.as_ref()));
        let trusted = servers.filter(|server| server.config.trust == Trust::Trusted);
        let told = trusted.filter_map(|server| {
            let text = server.known()?.instructions.clone().filter(|text| !text.trim().is_empty())?;
            Some(format!("About the tools mcp__{}__…:\n{text}", server.config.name))
        });
        told.collect()
    }

    /// Starts a server once, and says what it lists.
    ///
    /// # Errors
    /// It is not configured, or cannot be started.
    pub async fn learn(&self, name: &str) -> Result<ServerStatus, StartFailure> {
        let server = self.find(name).map_err(|error| StartFailure::new(error.to_string()))?;
        server.learn().await?;
        Ok(status(server))
    }

    /// The configuration of a server.
    ///
    /// # Errors
    /// It is not configured.
    pub fn config(&self, name: &str) -> Result<&ServerConfig, NoSuchServer> {
        self.find(name).map(|server| &server.config)
    }

    /// How all servers are, ordered by name.
    #[must_use]
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.all.servers.values().map(status).collect()
    }

    /// How a server is.
    ///
    /// # Errors
    /// It is not configured.
    pub fn status(&self, name: &str) -> Result<ServerStatus, NoSuchServer> {
        self.find(name).map(status)
    }

    /// Ends all processes. A call after that starts its server again.
    pub fn stop(&self) {
        self.all.servers.values().for_each(|server| server.stop());
    }

    fn find(&self, name: &str) -> Result<&Arc<Server>, NoSuchServer> {
        self.all.servers.get(name).ok_or_else(|| {
            let known: Vec<_> = self.all.servers.keys().map(String::as_str).collect();
            NoSuchServer(name.into(), if known.is_empty() { "none".into() } else { known.join(", ") })
        })
    }

    fn found<Name: AsRef<str>>(&self, names: impl IntoIterator<Item = Name>) -> Result<Vec<String>, NoSuchServer> {
        names.into_iter().map(|name| self.find(name.as_ref()).map(|server| server.config.name.clone())).collect()
    }

    fn learn_unknown(&self) {
        let at_once = Arc::new(Semaphore::new(LEARNING_MAX));
        for server in self.all.servers.values().filter(|server| server.known().is_none()) {
            let server = server.clone();
            let at_once = at_once.clone();
            server.set_contact(Contact::Learning);
            tokio::spawn(async move {
                let _place = at_once.acquire_owned().await;
                let _ = server.learn().await; // A failure was logged, and is in the status.
                server.set_contact(Contact::Idle);
            });
        }
    }
}

impl All {
    fn tools_of(&self, servers: &[String]) -> Toolbox {
        let servers: Vec<_> = servers.iter().filter_map(|name| self.servers.get(name)).collect();
        let specs = |server: &&Arc<Server>| {
            let name = server.config.name.clone();
            server.definitions().into_iter().map(move |tool| tool.spec(&name))
        };
        let are_few = servers.iter().flat_map(specs).map(|spec| spec_bytes(&spec)).sum::<usize>() <= OFFERED_BYTES_MAX;
        let mut tools = Toolbox::new();
        let mut searched = Vec::new();
        let mut found = Vec::new();
        for server in servers {
            let is_offered = are_few || server.config.offering == Offering::Always;
            for definition in server.definitions() {
                let spec = definition.spec(&server.config.name);
                let title = definition.title.clone();
                let tool = server.tool(definition);
                match if is_offered { tools.add_shared(tool) } else { tools.add_unoffered_shared(tool) } {
                    Err(bad) => left_out(&bad),
                    Ok(()) if is_offered => {}
                    Ok(()) => found.push(FoundTool { spec, title }),
                }
            }
            if !is_offered {
                searched.push(server.config.name.clone());
            }
        }
        if !searched.is_empty() {
            let added = tools.add(FindTools::new(searched, found)).and_then(|()| tools.add(UseTool));
            added.unwrap_or_else(|bad| left_out(&bad));
        }
        tools
    }

    /// Gives agents the tools as they are known now.
    fn refill(&self) {
        for agent in self.toolboxes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let now = self.tools_of(&agent.servers);
            agent.tools.change(|tools| *tools = now);
        }
    }
}

fn left_out(bad: &BadTool) {
    tracing::warn!(%bad, "a tool of an MCP server is left out");
}

/// How much of a request describes a tool.
fn spec_bytes(spec: &ToolSpec) -> usize {
    spec.name.len() + spec.description.len() + spec.input_schema.to_string().len()
}

/// Stops idle processes and tries servers that people have logged in at, until the servers are dropped.
async fn sweep(all: Weak<All>) {
    let mut ticks = interval(SWEEP_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(all) = all.upgrade() else { return };
        for server in all.servers.values() {
            server.stop_idle();
            server.retry_after_login();
        }
    }
}

fn status(server: &Arc<Server>) -> ServerStatus {
    server.retry_after_login();
    let known = server.known();
    let Findings { failure, refused, .. } = server.findings();
    let activity = server.activity();
    let state = match (&activity, &failure, &known) {
        (activity, _, _) if activity.in_use > 0 => ServerState::InUse,
        (activity, _, _) if activity.started > 0 => ServerState::Started,
        (_, Some(failure), _) if failure.kind == StartFailureKind::NeedsLogin => ServerState::NeedsLogin,
        (activity, _, _) if activity.rests.is_some() => {
            ServerState::Resting { time: activity.rests.unwrap_or_default() }
        }
        (_, Some(_), _) => ServerState::Failed,
        (_, None, Some(_)) => ServerState::Known,
        (_, None, None) => ServerState::Configured,
    };
    let config = &server.config;
    let mut tools: Vec<ToolStatus> = Vec::new();
    for tool in known.iter().flat_map(|known| &known.tools) {
        let policy = tool.policy(config);
        let left_out = match (config.offers(&tool.name), Toolbox::check(&tool.spec(&config.name))) {
            (false, _) => Some("left out by the configuration".into()),
            (true, Ok(())) => None,
            (true, Err(BadTool::Schema(_, why))) => Some(format!("its input schema is not a JSON schema: {why}")),
            (true, Err(BadTool::NotOfferable(_, why))) => Some(why.to_string()),
        };
        tools.push(ToolStatus {
            name: tool.name.clone(),
            offered: offered_name(&config.name, &tool.name),
            description: tool.description.clone(),
            effect: policy.effect,
            approval: policy.approval,
            left_out,
        });
    }
    ServerStatus {
        name: config.name.clone(),
        what: config.what(),
        state,
        reason: failure.map(|failure| failure.reason),
        known: known.map(|known| KnownTools::clone(&known)),
        tools,
        refused,
    }
}
