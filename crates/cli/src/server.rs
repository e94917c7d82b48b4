//! The server in this process: opens the store, connects providers and agents, and starts listening.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use everturn::core::ids::ModelId;
use everturn::stores::{Durability, Memory, Postgres, Sqlite, Store, Tokens, postgres, sqlite};
use everturn::{Agent, Builder, Engine, Metrics};
use everturn_mcp::McpServers;
use everturn_server::{
    AnnouncedAddress, ConnectedProviders, DataDir, Drill, FirstToken, GATEWAY_AGENT, Instance, ListenerConfig, Reach,
    Server, ServerLifetime, ServerParts, WorkspaceService, connect_providers,
};
use prometheus_client::registry::Registry;

use crate::config::{AGENT, Config, Connections, Exposure, Profile};
use crate::hooks;
use crate::mcp::{self, Starts, Usual};
use crate::output;
use crate::persona_tools;
use crate::process::parent::kill;
use crate::process::{descriptors, private};
use crate::recording::Whose;
use crate::skills;
use crate::sub_agents;
use crate::workspaces::{Workspaces, agent_in};

/// An opened store.
pub struct OpenStore {
    store: Arc<dyn Store>,
    tokens: Arc<dyn Tokens>,
    /// Its description in the banner.
    what: &'static str,
    whose: Whose,
    /// Identity of this server across restarts, where several share a database.
    instance: Option<Instance>,
}

/// Which store to open, with its options.
enum Place {
    Postgres(String, postgres::PostgresOptions),
    Sqlite(sqlite::SqliteOptions),
}

impl Place {
    /// The store that the environment names.
    fn told(
        durability: Durability,
        connections: Connections,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        match (set("DATABASE_URL"), set("DATABASE_LISTEN_URL")) {
            (Some(url), listen_url) => {
                let (connections_max, usual) = (connections.len(), postgres::PostgresOptions::default());
                Ok(Self::Postgres(url, postgres::PostgresOptions { connections_max, durability, listen_url, ..usual }))
            }
            (None, Some(_)) => {
                bail!("DATABASE_LISTEN_URL is set without DATABASE_URL: set DATABASE_URL to the database")
            }
            (None, None) => {
                Ok(Self::Sqlite(sqlite::SqliteOptions { drafts: durability, ..sqlite::SqliteOptions::default() }))
            }
        }
    }
}

/// Opens the store. Only this function knows which kind it is.
async fn open(data: &DataDir, place: Place) -> anyhow::Result<OpenStore> {
    match place {
        Place::Postgres(url, options) => {
            let instance = data.instance();
            let name = instance.as_ref().map(|instance| instance.name().into());
            let opened = Postgres::open(&url, postgres::PostgresOptions { instance: name, ..options }).await;
            let kept = Arc::new(opened.context("the database in DATABASE_URL")?);
            let whose = Whose::Elsewhere(kept.name().await.ok()); // Some do not allow the query.
            Ok(OpenStore { store: kept.clone(), tokens: kept, what: "Postgres, from DATABASE_URL", whose, instance })
        }
        Place::Sqlite(options) => {
            let dir = data.path().to_owned();
            let opened = tokio::task::spawn_blocking(move || Sqlite::open(&dir, &options));
            let kept = Arc::new(opened.await??);
            let (what, whose) = ("SQLite, in the data directory", Whose::Ours);
            Ok(OpenStore { store: kept.clone(), tokens: kept, what, whose, instance: None })
        }
    }
}

/// Where a server in this process stores its chats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatStorage {
    /// In the configured store.
    Configured,
    /// In memory, until the process ends.
    Memory,
}

/// Adds providers to the engine and tools to the agents of the configuration file. The demo's daemon is the
/// only user; nothing else about its server differs.
pub trait Extension: Sync {
    /// Registers further providers.
    fn add_providers(&self, builder: Builder) -> anyhow::Result<Builder>;

    /// Gives an agent of the configuration file further tools.
    fn add_tools(&self, agent: Agent) -> anyhow::Result<Agent>;
}

/// A server in this process.
pub struct Running {
    /// The server.
    pub server: Server,
    pub data: DataDir,
    announced: Option<AnnouncedAddress>,
    pub model: ModelId,
    /// The providers that need a key and have none, and whether that is all of them.
    pub without_key: Vec<String>,
    pub is_keyless: bool,
    pub first_token: FirstToken,
    pub what: &'static str,
    _instance: Option<Instance>,
}

impl Running {
    /// Opens the store and starts a server on these addresses.
    pub async fn start(
        config: &Config,
        at: &[ListenerConfig],
        storage: ChatStorage,
        stay: ServerLifetime,
    ) -> anyhow::Result<Self> {
        let (data, kept) = prepare(config, storage).await?;
        Self::start_on(data, kept, config, at, stay, None).await
    }

    /// Starts a server on an opened store.
    pub async fn start_on(
        data: DataDir,
        OpenStore { store, tokens, what, whose, instance }: OpenStore,
        config: &Config,
        at: &[ListenerConfig],
        stay: ServerLifetime,
        extension: Option<&dyn Extension>,
    ) -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let mut registry = Registry::default();
        let builder = Engine::builder().store(store.clone()).metrics(Metrics::register(&mut registry));
        let ConnectedProviders { mut builder, model, models, without_key, stand_in } =
            connect_providers(builder, &config.wire_limits(), &config.company(), variable)?;
        let is_keyless = model.provider() == "understudy"; // With any key the model would be another one.
        let model = config.model.value.clone().unwrap_or(model);
        config.warnings(&model).iter().for_each(|warning| tracing::warn!("{warning}"));
        let starts = if config.chats_max.value == Some(0) { Starts::WhenCalled } else { Starts::ToLearn };
        let servers = mcp::servers(config, data.path(), starts)?;
        if let Some(extension) = extension {
            builder = extension.add_providers(builder)?;
        }
        let mut workspaces = Workspaces::open(config, data.path()).await?;
        for (name, profile, agent) in agents(config, &model, data.path(), &servers, extension)? {
            let (agent, inside) = placed(config, name, profile, agent, workspaces.as_mut())?;
            builder = builder.agent(name, hooks::equip(name, agent, &config.hooks));
            if let Some((name, agent)) = inside {
                builder = builder.agent(&name, hooks::equip(&name, agent, &config.hooks));
            }
        }
        builder = builder.agent(GATEWAY_AGENT, config.gateway_agent(model.clone())?);
        let engine = config.bounded(builder, data.path(), &whose).start();
        is_provided(&engine, &config.models.value)?;
        let first_token = data.first_token(&*tokens, engine.now()).await?;
        if first_token == FirstToken::Old {
            tracing::error!("{}", no_token(&data)); // Not fatal: other tokens may be valid.
        }
        let models = config.offered(models);
        let limits = config.bounds();
        let states = Arc::new(move || servers.statuses().into_iter().map(mcp::shown).collect());
        let agent = config.workspace.value.as_ref().map_or(AGENT.into(), |directory| agent_in(AGENT, directory));
        let told = workspaces.as_ref().map(|workspaces| workspaces.told.clone()).unwrap_or_default();
        let workspace_service = workspaces.map(|workspaces| Arc::new(workspaces) as Arc<dyn WorkspaceService>);
        // Only a server without keys, which no other machine reaches, breaks things for show.
        let drill = (is_keyless && extension.is_none() && at.iter().all(ListenerConfig::is_loopback))
            .then(|| Drill { stand_in, kill: config.is_restarted.then_some(kill as fn()) });
        let parts = ServerParts {
            engine,
            store,
            tokens,
            registry,
            agent,
            models,
            mcp: states,
            limits,
            workspaces: told,
            workspace_service,
            page: everturn_page::FILES,
            drill,
        };
        let Exposure { proxies, origins, .. } = &config.exposure;
        let (proxies, origins) = (proxies.value.clone(), origins.value.clone());
        let reach = Reach { hosts: config.hosts.value.clone(), proxies, origins };
        let opened = Server::open(parts, at, reach).await.map_err(anyhow::Error::from);
        let server = opened.map_err(|error| anyhow!("{}; try another --listen", output::causes(&error)))?;
        let announced = match server.entrances().iter().find(|entrance| entrance.is_local()) {
            Some(entrance) => data.announce(&entrance.url(), stay).await?,
            None => None, // Cannot happen: there is always an address.
        };
        Ok(Self { server, data, announced, model, without_key, is_keyless, first_token, what, _instance: instance })
    }

    /// Stops the server in good order: running turns are handed over.
    pub async fn stop(self) {
        drop(self.announced);
        self.server.stop().await;
    }

    /// Stops the server, after steps that are nearly done had this time to finish, or at once when `hurry`
    /// completes.
    pub async fn stop_within(self, time: Duration, hurry: impl Future<Output = ()>) {
        drop(self.announced);
        self.server.stop_within(time, hurry).await;
    }
}

/// The agents of the configuration, each with its profile, without workspaces.
fn agents<'a>(
    config: &'a Config,
    model: &ModelId,
    data: &Path,
    servers: &McpServers,
    extension: Option<&dyn Extension>,
) -> anyhow::Result<Vec<(&'a str, &'a Profile, Agent)>> {
    let usual = skills::equip(config.usual_agent(model.clone())?, &config.usual)?;
    let mut usual = mcp::equip(usual, servers, config.usual.mcp.as_deref(), Usual::All)?;
    if model.provider() == "understudy" && extension.is_none() {
        usual = persona_tools::equip(usual, data)?;
    }
    let mut agents = vec![(AGENT, &config.usual, usual)];
    for (name, profile) in &config.agents {
        if name == GATEWAY_AGENT {
            bail!("no agent can be called `{GATEWAY_AGENT}`: the server has one of that name; choose another");
        }
        let agent = skills::equip(config.named_agent(name)?, profile)?;
        let mut agent = mcp::equip(agent, servers, profile.mcp.as_deref(), Usual::None)?;
        if let Some(extension) = extension {
            agent = extension.add_tools(agent)?;
        }
        agents.push((name, profile, agent));
    }
    Ok(agents)
}

/// The agent with its sub-agents and the workspace of its profile, and the copy of it that works in the directory of `--workspace`.
fn placed(
    config: &Config,
    name: &str,
    profile: &Profile,
    agent: Agent,
    workspaces: Option<&mut Workspaces>,
) -> anyhow::Result<(Agent, Option<(String, Agent)>)> {
    let plain = sub_agents::equip(agent.clone(), config, profile, None)?;
    let Some(workspaces) = workspaces else { return Ok((plain, None)) };
    let inside = config.workspace.value.as_ref().map(|directory| {
        let name = agent_in(name, directory);
        let agent = sub_agents::equip(agent, config, profile, Some(directory))?;
        let agent = workspaces.equip(&name, agent, directory, profile)?;
        anyhow::Ok((name, agent))
    });
    let inside = inside.transpose()?;
    let agent = match config.directory(profile) {
        Some(directory) => workspaces.equip(name, plain, directory, profile)?,
        None => plain,
    };
    Ok((agent, inside))
}

/// Opens the data directory and the store. No chat runs yet, so a stop meanwhile has nothing to hand over.
pub async fn prepare(config: &Config, storage: ChatStorage) -> anyhow::Result<(DataDir, OpenStore)> {
    private::hide_from_other_processes();
    descriptors::raise();
    let data = DataDir::open(&config.data.value)?;
    let kept = match storage {
        ChatStorage::Configured => {
            let (durability, connections) = (config.durability.value.into(), config.database_connections.value);
            let place = Place::told(durability, connections, |name| std::env::var(name).ok())?;
            open(&data, place).await?
        }
        ChatStorage::Memory => {
            let kept = Arc::new(Memory::new());
            OpenStore { store: kept.clone(), tokens: kept, what: "memory", whose: Whose::Ours, instance: None }
        }
    };
    Ok((data, kept))
}

/// Checks that every model of an agent and of the list of models has a provider.
fn is_provided(engine: &Engine, models: &[ModelId]) -> anyhow::Result<()> {
    let asked = engine.agents().flat_map(|(name, agent)| agent.models.iter().map(move |model| (model, Some(name))));
    for (model, agent) in asked.chain(models.iter().map(|model| (model, None))) {
        if engine.facts(model).is_none() {
            let who = agent.map_or("`models` lists".into(), |name| format!("the agent `{name}` uses"));
            let providers = engine.providers().collect::<Vec<_>>().join(", ");
            bail!("no provider is configured for {model}, which {who}: the providers are {providers}");
        }
    }
    Ok(())
}

/// The log line about a token file whose token is not valid, with advice.
pub fn no_token(data: &DataDir) -> String {
    format!(
        "the token in {} was revoked or has expired: delete the file and restart to create a new one, or \
         put another one there (32 characters or more), in Kubernetes into its secret",
        data.token_file().display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Durability and the address for notifications reach the store, whichever it is.
    #[test]
    fn a_store_gets_its_configured_options() {
        let told = |durability, set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
            Place::told(durability, "7".parse().unwrap(), value)
        };
        let (url, aside) = (("DATABASE_URL", "postgres://db"), ("DATABASE_LISTEN_URL", "postgres://aside"));
        for durability in [Durability::Process, Durability::Full] {
            let Ok(Place::Sqlite(options)) = told(durability, &[("DATABASE_URL", " ")]) else { panic!("a directory") };
            assert_eq!(options.drafts, durability);
            let Ok(Place::Postgres(at, options)) = told(durability, &[url, aside]) else { panic!("a database") };
            assert_eq!((at.as_str(), options.durability), (url.1, durability));
            assert_eq!((options.listen_url.as_deref(), options.connections_max), (Some(aside.1), 7));
        }
        assert!(told(Durability::Full, &[aside]).is_err());
    }
}
