//! The server, from the command line.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use everturn::core::ids::{ModelId, Timestamp};
use everturn::stores::{Durability, Memory, Postgres, Sqlite, Store, Tokens, postgres, sqlite};
use everturn::{Engine, Metrics};
use everturn_server::{
    Announced, Brought, DataDir, Entrance, FirstToken, Instance, Listen, Parts, Reach, Server, Stay, Tls, bring,
};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::Level;

use crate::clock;
use crate::config::{AGENT, Config, Connections, Flags, Openness, variables_set};
use crate::demo::backstage;
use crate::descriptors;
use crate::logs::{self, Form, Logs};
use crate::lookout::Lookout;
use crate::out::{self, println};
use crate::private;
use crate::record::Whose;
use crate::scene_tools;
use crate::signals::Ends;

/// What a newcomer can try.
pub const EXAMPLES: &str = "Examples:
  everturn serve
  everturn serve --model anthropic/claude-sonnet-4-5
  everturn serve --listen 127.0.0.1:8080 --data ./data
  everturn serve --listen unix:/run/everturn/socket
  everturn serve --listen 0.0.0.0:443 --expose --tls-cert chain.pem --tls-key key.pem --host chat.example.com";

/// Everything that is kept, wherever that is.
struct Kept {
    store: Arc<dyn Store>,
    tokens: Arc<dyn Tokens>,
    /// What the banner says of it.
    what: &'static str,
    whose: Whose,
    /// What a restart of this server is known by, where several share a database.
    instance: Option<Instance>,
}

/// Where that is, and how it is used.
enum Place {
    Postgres(String, postgres::Options),
    Sqlite(sqlite::Options),
}

impl Place {
    /// As the environment says.
    fn told(
        durability: Durability,
        connections: Connections,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        match (set("DATABASE_URL"), set("DATABASE_LISTEN_URL")) {
            (Some(url), listen_url) => {
                let (connections_max, usual) = (connections.len(), postgres::Options::default());
                Ok(Self::Postgres(url, postgres::Options { connections_max, durability, listen_url, ..usual }))
            }
            (None, Some(_)) => bail!(
                "DATABASE_LISTEN_URL says where to listen, and DATABASE_URL, which says where the database is, is not set"
            ),
            (None, None) => Ok(Self::Sqlite(sqlite::Options { drafts: durability, ..sqlite::Options::default() })),
        }
    }
}

/// Opens the store. The only place that knows which one it is.
async fn open(data: &DataDir, place: Place) -> anyhow::Result<Kept> {
    match place {
        Place::Postgres(url, options) => {
            let instance = data.instance();
            let name = instance.as_ref().map(|instance| instance.name().into());
            let opened = Postgres::open(&url, postgres::Options { instance: name, ..options }).await;
            let kept = Arc::new(opened.context("the database in DATABASE_URL")?);
            let whose = Whose::Elsewhere(kept.name().await.ok()); // Some let nobody ask.
            Ok(Kept { store: kept.clone(), tokens: kept, what: "Postgres, as DATABASE_URL says", whose, instance })
        }
        Place::Sqlite(options) => {
            let dir = data.path().to_owned();
            let opened = tokio::task::spawn_blocking(move || Sqlite::open(&dir, &options));
            let kept = Arc::new(opened.await??);
            let (what, whose) = ("SQLite, in the data directory", Whose::Ours);
            Ok(Kept { store: kept.clone(), tokens: kept, what, whose, instance: None })
        }
    }
}

/// Where a server in this process keeps its chats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// As the configuration says.
    Told,
    /// In memory: they are gone with the process.
    Memory,
}

/// A server in this process.
pub struct Running {
    /// The server.
    pub server: Server,
    data: DataDir,
    announced: Option<Announced>,
    model: ModelId,
    /// The providers that need a key and have none, and whether that is all of them.
    without_key: Vec<String>,
    is_keyless: bool,
    first_token: FirstToken,
    what: &'static str,
    _instance: Option<Instance>,
}

impl Running {
    /// Starts one that listens here. It holds keys, whichever command it is a part of.
    pub async fn start(config: &Config, at: &[Entrance], keeps: Keeps, stay: Stay) -> anyhow::Result<Self> {
        let (data, kept) = prepare(config, keeps).await?;
        Self::start_on(data, kept, config, at, stay).await
    }

    /// The same on what was opened.
    async fn start_on(
        data: DataDir,
        Kept { store, tokens, what, whose, instance }: Kept,
        config: &Config,
        at: &[Entrance],
        stay: Stay,
    ) -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let mut registry = Registry::default();
        let builder = Engine::builder().store(store.clone()).metrics(Metrics::register(&mut registry));
        let Brought { mut builder, model, models, without_key } =
            bring(builder, &config.wire_limits(), &config.company(), variable)?;
        let is_keyless = model.provider() == "understudy"; // Nobody else would be asked.
        let model = config.model.value.clone().unwrap_or(model);
        config.warnings(&model).iter().for_each(|warning| tracing::warn!("{warning}"));
        let mut agent = config.usual_agent(model.clone())?;
        if model.provider() == "understudy" && config.demo_tools.is_none() {
            agent = scene_tools::equip(agent, data.path())?;
        }
        builder = builder.agent(AGENT, agent);
        if config.demo_tools.is_some() {
            backstage::end_with_parent();
            builder = backstage::provide(builder, variable)?;
        }
        for name in config.agents.keys() {
            let mut agent = config.named_agent(name)?;
            if let Some(side_file) = &config.demo_tools {
                agent = backstage::equip(agent, side_file)?;
            }
            builder = builder.agent(name, agent);
        }
        let engine = config.bounded(builder, data.path(), &whose).start();
        is_provided(&engine, &config.models.value)?;
        let first_token = data.first_token(&*tokens, engine.now()).await?;
        if first_token == FirstToken::Old {
            tracing::error!("{}", no_token(&data)); // Others may have good ones, so it is no reason to stay away.
        }
        let (models, bounds) = (config.offered(models), config.bounds());
        let parts = Parts { engine, store, tokens, registry, agent: AGENT.into(), models, bounds };
        let Openness { proxies, origins, .. } = &config.openness;
        let (proxies, origins) = (proxies.value.clone(), origins.value.clone());
        let reach = Reach { hosts: config.hosts.value.clone(), proxies, origins };
        let opened = Server::open(parts, at, reach).await.map_err(anyhow::Error::from);
        let server = opened.map_err(|error| anyhow!("{}; try another --listen", out::causes(&error)))?;
        let announced = match server.entrances().iter().find(|entrance| entrance.is_local()) {
            Some(entrance) => data.announce(&entrance.url(), stay).await?,
            None => None, // There always is one.
        };
        Ok(Self { server, data, announced, model, without_key, is_keyless, first_token, what, _instance: instance })
    }

    /// Ends it in good order: turns under way are handed over.
    pub async fn stop(self) {
        drop(self.announced);
        self.server.stop().await;
    }

    /// The same, after steps that are nearly done had so much time to finish, or until somebody is in a hurry.
    async fn stop_within(self, time: Duration, hurry: impl Future<Output = ()>) {
        drop(self.announced);
        self.server.stop_within(time, hurry).await;
    }
}

/// Opens what a server works on. Nothing works yet, so whoever is told to end meanwhile has nothing to hand over.
async fn prepare(config: &Config, keeps: Keeps) -> anyhow::Result<(DataDir, Kept)> {
    private::hide_from_other_processes();
    descriptors::raise();
    let data = DataDir::open(&config.data.value)?;
    let kept = match keeps {
        Keeps::Told => {
            let (durability, connections) = (config.durability.value.into(), config.database_connections.value);
            let place = Place::told(durability, connections, |name| std::env::var(name).ok())?;
            open(&data, place).await?
        }
        Keeps::Memory => {
            let kept = Arc::new(Memory::new());
            Kept { store: kept.clone(), tokens: kept, what: "memory", whose: Whose::Ours, instance: None }
        }
    };
    Ok((data, kept))
}

/// Sees to it that somebody provides the models that agents ask, and those to choose from.
fn is_provided(engine: &Engine, models: &[ModelId]) -> anyhow::Result<()> {
    let asked = engine.agents().flat_map(|(name, agent)| agent.models.iter().map(move |model| (model, Some(name))));
    for (model, agent) in asked.chain(models.iter().map(|model| (model, None))) {
        if engine.facts(model).is_none() {
            let who = agent.map_or("`models` lists".into(), |name| format!("the agent `{name}` asks"));
            let providers = engine.providers().collect::<Vec<_>>().join(", ");
            bail!("nobody here provides {model}, which {who}: the providers are {providers}");
        }
    }
    Ok(())
}

/// Serves until Ctrl-C or SIGTERM. What it fails with is said as its log is.
pub async fn run(flags: &Flags) -> anyhow::Result<ExitCode> {
    match (serve(flags).await, Form::told(|name| std::env::var(name).ok())) {
        (Err(error), Form::Json) if !out::is_broken_pipe(&error) => {
            logs::line(Level::ERROR, &format!("{error:#}"));
            Ok(ExitCode::from(1))
        }
        (served, _) => served,
    }
}

/// Says something beside the banner, as the log is written.
fn aside(words: &str) {
    match Form::told(|name| std::env::var(name).ok()) {
        Form::Text => out::aside(words),
        Form::Json => logs::line(Level::INFO, words),
    }
}

async fn serve(flags: &Flags) -> anyhow::Result<ExitCode> {
    let config = Config::read(flags, |name| std::env::var(name).ok())?;
    config.refuse_unknown(variables_set())?;
    let entrances = config.entrances()?;
    let logs = Logs::start(DataDir::open(&config.data.value)?.path(), |name| std::env::var(name).ok())?;
    config.openness.warnings(&entrances).iter().for_each(|warning| tracing::warn!("{warning}"));
    let _lookout = Lookout::of_this_runtime();
    let mut ends = Ends::listen()?;
    if let Some(tls) = entrances.iter().find_map(|entrance| entrance.tls.clone()) {
        tokio::spawn(reread(tls, signal(SignalKind::hangup())?));
    }
    let (data, kept) = tokio::select! {
        opened = prepare(&config, Keeps::Told) => opened?,
        () = ends.next() => {
            aside("ending: the store was not open yet, so nothing was begun");
            logs.end().await;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let mut is_told = false;
    let running = tokio::select! {
        biased;
        started = Running::start_on(data, kept, &config, &entrances, Stay::Daemon) => started?,
        () = given_up(&mut ends, &mut is_told, config.drain()) => {
            aside("ending: the start did not come to its end, and was given up");
            logs.end().await;
            return Ok(ExitCode::SUCCESS);
        }
    };
    if !is_told {
        banner(&running);
        println!("Ctrl-C ends it.");
        ends.next().await;
    }
    aside("ending: steps that are nearly done may finish, turns under way are handed over; again to hand over now");
    running.stop_within(config.drain(), ends.next()).await;
    logs.end().await;
    Ok(ExitCode::SUCCESS)
}

/// Waits until nobody waits for a start any more. Told to end, it has as long to come to its end as steps that are nearly done
/// have: a store that answers no more would keep it for longer.
async fn given_up(ends: &mut Ends, is_told: &mut bool, grace: Duration) {
    ends.next().await;
    *is_told = true;
    tokio::select! {
        () = tokio::time::sleep(grace) => {}
        () = ends.next() => {}
    }
}

/// Reads the certificate again whenever it is said to have changed.
async fn reread(tls: Arc<Tls>, mut told: Signal) {
    while told.recv().await.is_some() {
        match tls.reread() {
            Ok(()) => {
                tracing::info!("the certificate was read again");
                tls.warnings(Timestamp(clock::now())).iter().for_each(|warning| tracing::warn!("{warning}"));
            }
            Err(error) => tracing::error!(%error, "the certificate was not read again, the one before still counts"),
        }
    }
}

/// What becomes of a token file that opens nothing, and what to do about it.
fn no_token(data: &DataDir) -> String {
    format!(
        "the token in {} was revoked or has expired, and opens nothing: delete the file and start again, and a new one is made, or \
         put another one there (32 characters or more), in Kubernetes into the secret it comes from",
        data.token_file().display()
    )
}

fn banner(Running { server, data, model, without_key, is_keyless, first_token, what, .. }: &Running) {
    for (entrance, word) in server.entrances().iter().zip(["Everturn listens on", "  and for commands here on"]) {
        let url = match (&entrance.at, &entrance.tls) {
            (Listen::Unix(_), _) => entrance.at.to_string(),
            (Listen::Tcp(address), None) => format!("http://{address}"),
            (Listen::Tcp(address), Some(_)) => format!("https://{address}"),
        };
        println!("{word} {url}");
    }
    println!("  data   {}", data.path().display());
    println!("  store  {what}");
    match first_token {
        FirstToken::Good => println!("  token  in {}", data.token_file().display()),
        FirstToken::Old => println!("  token  none: {}", no_token(data)),
    }
    match model.provider() {
        "understudy" if *is_keyless => {
            println!("  model  {model}: no key is set, so the understudy stands in for a model");
        }
        "understudy" => println!("  model  {model}: the understudy stands in for a model"),
        provider if without_key.iter().any(|name| name == provider) => {
            println!("  model  {model}: but no key for {provider} is set");
        }
        _ => println!("  model  {model}"),
    }
    if server.resumed() > 0 {
        println!("  chats  {} taken up where they were", server.resumed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What deltas survive, and where hints are heard, is told to whichever store it is.
    #[test]
    fn a_store_is_used_as_it_was_told() {
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
