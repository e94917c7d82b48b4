//! The server's configuration: flags, then the environment, then a file.
//!
//! With three sources it is hard to remember which one won, so every value carries its origin, and
//! `everturn config show` prints it. An unknown key is an error: a misspelt setting is worse than none.

mod bounds;
mod budget;
mod connections;
mod durability;
mod file;
mod habits;
mod hint;
mod money;
mod price;
mod profile;
mod provider;
mod reach;
mod sampling;
mod show;
mod turns;
mod variables;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use everturn::core::ids::ModelId;
use everturn::core::limits::Limits;
use everturn::{Agent, Builder, Drivers};
use everturn_server::{DataDir, ListenAddress, ModelOffer, Network, ServerLimits, Site, in_plain_words};

use budget::Spending;
pub use connections::Connections;
use durability::Drafts;
use file::File;
use hint::with_hint;
use price::{Price, by_model};
use profile::Profile;
use provider::Providers;
pub use reach::Openness;
pub use reach::loopback;
pub use variables::variables_set;

use crate::recording::{Files, Record, Whose};

/// Default time for steps that are nearly done to finish at shutdown.
const DRAIN_SECONDS: u64 = 5;
/// Default lifetime of an event stream.
const STREAM_SECONDS: NonZeroU32 = NonZeroU32::new(60 * 60).unwrap();
/// Name of the agent of chats that name none.
pub const AGENT: &str = "default";
const PORT: u16 = 4140;
/// Flags of `everturn serve` and `everturn config show`.
#[derive(clap::Args, Debug, Default, Clone)]
pub struct Flags {
    /// Configuration file; `everturn/config.toml` in the XDG configuration directory if left out.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on (port 0: a free one), or unix: and the path of a socket. [default:
    /// 127.0.0.1:4140]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<ListenAddress>,
    /// Allow an address that other machines can reach. Needs TLS: --tls-cert and --tls-key, or a --proxy.
    #[arg(long)]
    expose: bool,
    /// TLS certificate and its chain, a PEM file. SIGHUP reloads it.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Key of the TLS certificate, a PEM file.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Address or network of the proxy that terminates TLS, such as 10.1.2.3 or 10.0.0.0/8; repeatable.
    /// Without --tls-cert, requests from all other machines are refused.
    #[arg(long, value_name = "NETWORK")]
    proxy: Vec<Network>,
    /// Further host name that requests may use, such as chat.example.com; repeatable.
    #[arg(long, value_name = "HOST", value_parser = reach::host)]
    host: Vec<String>,
    /// Site whose pages may use the API (CORS), such as https://app.example.com; repeatable.
    #[arg(long, value_name = "SITE")]
    origin: Vec<Site>,
    /// Data directory; `everturn` in the XDG data directory if left out.
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Model of the default agent, as provider/model; chosen by the API keys in the environment if left out.
    #[arg(long, value_name = "MODEL")]
    model: Option<ModelId>,
    /// Instructions for the default agent.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Give every agent of the file the tools and limits of the demo; the tools write lines to this file.
    #[arg(long, value_name = "FILE", hide = true)]
    demo_tools: Option<PathBuf>,
}

impl Flags {
    /// Flags of commands that may start a server in their own process.
    pub fn of(config: Option<PathBuf>, data: Option<PathBuf>, model: Option<ModelId>, system: Option<String>) -> Self {
        Self { config, data, model, system, ..Self::default() }
    }
}

impl Flags {
    /// The side file of the demo's tools, where the daemon of a demo is started.
    pub fn demo_tools(&self) -> Option<&Path> {
        self.demo_tools.as_deref()
    }

    /// Flags with nothing set but the paths.
    pub fn of_data(data: Option<PathBuf>, config: Option<PathBuf>) -> Self {
        Self { data, config, ..Self::default() }
    }
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Flag(&'static str),
    Variable(&'static str),
    File(PathBuf),
    Default,
}

impl Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => f.write_str(name),
            Self::Variable(name) => f.write_str(name),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<T> {
    pub value: T,
    pub origin: Origin,
}

/// The server's complete configuration.
#[derive(Debug)]
pub struct Config {
    pub listen: Told<ListenAddress>,
    pub openness: Openness,
    pub hosts: Told<Vec<String>>,
    pub data: Told<PathBuf>,
    /// `None`: chosen by the API keys.
    pub model: Told<Option<ModelId>>,
    /// Models that the default agent falls back to.
    pub fallbacks: Vec<ModelId>,
    /// Models that a chat may choose besides those of the agents; by default those of the providers with a
    /// key.
    pub models: Told<Vec<ModelId>>,
    pub system: Told<Option<String>>,
    /// The rest of the default agent: its limits, its tools, and its request options.
    pub usual: Profile,
    /// Providers besides the built-in ones.
    pub providers: Providers,
    /// Prices, by prefix of the model's name.
    pub prices: BTreeMap<ModelId, Price>,
    /// Durability of deltas.
    pub durability: Told<Drafts>,
    /// Size of the Postgres connection pool.
    pub database_connections: Told<Connections>,
    pub agents: BTreeMap<String, Profile>,
    /// Limit of chats that run at once; the engine's default if left out.
    pub chats_max: Told<Option<usize>>,
    /// Limit of running chats per owner; the server's default if left out.
    pub running_max: Told<Option<usize>>,
    /// Limit of streams per token; the server's default if left out.
    pub streams_max: Told<Option<usize>>,
    /// Lifetime of a stream.
    pub stream_seconds_max: Told<NonZeroU32>,
    /// Limit of concurrent requests per credential; the engine's default if left out.
    pub requests_max: Told<Option<NonZeroU32>>,
    /// Timeout for connecting to a provider; the engine's default if left out.
    pub connect_seconds_max: Told<Option<NonZeroU32>>,
    /// Time for steps that are nearly done to finish at shutdown.
    pub drain_seconds: Told<u64>,
    /// Which provider calls are recorded.
    pub record: Told<Record>,
    /// Budget of owners without an entry in `owners`.
    pub budget: Spending,
    /// Budgets of named owners.
    pub owners: BTreeMap<String, Spending>,
    /// Where the tools of the demo leave lines, if this is its daemon.
    /// The file that was read.
    file: Origin,
}

impl Config {
    /// Merges flags, environment and file. `variable` reads an environment variable.
    pub fn read(flags: &Flags, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let (mut file, path) = read_file(flags.config.as_deref(), &set)?;
        let from_file = || Origin::File(path.clone());
        let in_file = || path.display().to_string();
        let usual = settled(&mut file, &path).with_context(in_file)?;
        let listen = file.listen.take().map(|listen| listen.parse()).transpose().with_context(in_file)?;
        let listen = layered("--listen", flags.listen.clone(), "EVERTURN_LISTEN", &set, listen, from_file)?;
        let model = file.model.take().map(|model| model.parse()).transpose().with_context(in_file)?;
        let model = layered("--model", flags.model.clone(), "EVERTURN_MODEL", &set, model, from_file)?;
        let fallbacks =
            file.fallbacks.iter().map(|model| model.parse()).collect::<Result<_, _>>().with_context(in_file)?;
        let data = layered("--data", flags.data.clone(), "EVERTURN_DATA", &set, file.data.take(), from_file)?;
        let data = match data {
            Some(data) => data,
            None => Told { value: DataDir::usual(set)?, origin: Origin::Default },
        };
        let system = layered("--system", flags.system.clone(), "EVERTURN_SYSTEM", &set, file.system.take(), from_file)?;
        if file.agents.contains_key(AGENT) {
            bail!(
                "{}: `{AGENT}` cannot be an [agents] entry; set `model`, `system`, `tools` … at the top instead",
                path.display()
            );
        }
        Ok(Self {
            listen: usually(listen, ListenAddress::Tcp((Ipv4Addr::LOCALHOST, PORT).into())),
            openness: openness(flags, &mut file, &set, from_file)?,
            hosts: reach::hosts(listed("--host", &flags.host, "EVERTURN_HOSTS", &set, file.hosts, from_file)?)?,
            data,
            model: optional(model),
            fallbacks,
            models: listed("", &[], "EVERTURN_MODELS", &set, file.models, from_file)?,
            system: optional(system),
            usual,
            providers: file.providers,
            prices: by_model(&file.prices).with_context(in_file)?,
            durability: usually(unflagged("EVERTURN_DURABILITY", &set, file.durability, from_file)?, Drafts::Process),
            database_connections: usually(
                unflagged("EVERTURN_DATABASE_CONNECTIONS", &set, file.database_connections, from_file)?,
                Connections::default(),
            ),
            agents: file.agents,
            chats_max: optional(unflagged("EVERTURN_CHATS_MAX", &set, file.chats_max, from_file)?),
            running_max: optional(unflagged("EVERTURN_RUNNING_MAX", &set, file.running_max, from_file)?),
            streams_max: optional(unflagged("EVERTURN_STREAMS_MAX", &set, file.streams_max, from_file)?),
            stream_seconds_max: usually(
                unflagged("EVERTURN_STREAM_SECONDS_MAX", &set, file.stream_seconds_max, from_file)?,
                STREAM_SECONDS,
            ),
            requests_max: optional(unflagged("EVERTURN_REQUESTS_MAX", &set, file.requests_max, from_file)?),
            connect_seconds_max: optional(unflagged(
                "EVERTURN_CONNECT_SECONDS_MAX",
                &set,
                file.connect_seconds_max,
                from_file,
            )?),
            drain_seconds: usually(
                unflagged("EVERTURN_DRAIN_SECONDS", &set, file.drain_seconds, from_file)?,
                DRAIN_SECONDS,
            ),
            record: usually(unflagged("EVERTURN_RECORD", &set, file.record, from_file)?, Record::Off),
            budget: file.budget,
            owners: file.owners,
            file: from_file(),
        })
    }
}

fn openness(
    flags: &Flags,
    file: &mut File,
    set: &impl Fn(&str) -> Option<String>,
    from_file: impl Fn() -> Origin + Copy,
) -> anyhow::Result<Openness> {
    let expose = flags.expose.then_some(true);
    let (cert, key) = (flags.tls_cert.clone(), flags.tls_key.clone());
    Ok(Openness {
        expose: usually(layered("--expose", expose, "EVERTURN_EXPOSE", set, file.expose, from_file)?, false),
        tls_cert: optional(layered("--tls-cert", cert, "EVERTURN_TLS_CERT", set, file.tls_cert.take(), from_file)?),
        tls_key: optional(layered("--tls-key", key, "EVERTURN_TLS_KEY", set, file.tls_key.take(), from_file)?),
        proxies: listed("--proxy", &flags.proxy, "EVERTURN_PROXIES", set, file.proxies.take(), from_file)?,
        origins: listed("--origin", &flags.origin, "EVERTURN_ORIGINS", set, file.origins.take(), from_file)?,
    })
}

/// Validates the agents of the file, and returns the default agent's profile.
fn settled(file: &mut File, path: &Path) -> anyhow::Result<Profile> {
    let beside = path.parent().unwrap_or(Path::new("."));
    let mut usual = file.take_usual();
    usual.settle(beside)?;
    for (agent, profile) in &mut file.agents {
        profile.settle(beside).with_context(|| format!("the agent `{agent}`"))?;
    }
    Ok(usual)
}

impl Config {
    /// The engine's builder with the configured limits.
    pub fn bounded(&self, mut builder: Builder, data: &Path, whose: &Whose) -> Builder {
        match self.chats_max.value {
            Some(0) => builder = builder.drivers(Drivers::ByHand), // This process drives no chats.
            Some(len) => builder = builder.chats_max(len),
            None => {}
        }
        builder = builder.budget(self.budget.into());
        for (owner, budget) in &self.owners {
            builder = builder.budget_of(owner, (*budget).into());
        }
        builder.recorder(Files::new(data, self.record.value, whose)) // Also if recording is off: existing recordings are deleted with their chat.
    }

    /// The default agent, with this model.
    pub fn usual_agent(&self, model: ModelId) -> anyhow::Result<Agent> {
        let fallbacks = self.fallbacks.iter().filter(|fallback| **fallback != model).cloned().collect::<Vec<_>>();
        let mut agent = Agent::new(model);
        agent.models.extend(fallbacks);
        agent.system.extend(self.system.value.clone());
        Ok(self.governed(self.usual.dress(agent)?))
    }

    /// An agent of the file.
    pub fn named_agent(&self, name: &str) -> anyhow::Result<Agent> {
        let told = || format!("the agent `{name}`");
        let profile = self.agents.get(name).with_context(told)?;
        Ok(self.governed(profile.agent().with_context(told)?))
    }

    /// The agent with the per-credential limit, which is the same for all agents.
    fn governed(&self, mut agent: Agent) -> Agent {
        if let Some(requests_max) = self.requests_max.value {
            let governor = &mut agent.limits.governor;
            governor.at_once_max = requests_max.get() as usize;
            governor.ramp_max = governor.ramp_max.min(governor.at_once_max);
        }
        agent
    }

    /// Limits of connections to providers, which all agents share: the longest timeouts of any agent.
    pub fn wire_limits(&self) -> Limits {
        let mut limits = Limits::default();
        if let Some(told) = self.connect_seconds_max.value {
            limits.connect_max = Duration::from_secs(told.get().into());
        }
        let told = [&self.usual].into_iter().chain(self.agents.values()).filter_map(|agent| agent.open_seconds_max);
        let open = told.map(|told| Duration::from_secs(told.get().into())).max();
        limits.open_max = limits.open_max.max(open.unwrap_or_default());
        limits
    }

    /// The server's limits, with the configured ones.
    pub fn bounds(&self) -> ServerLimits {
        let usual = ServerLimits::default();
        let (running_max, streams_max) = (self.running_max.value, self.streams_max.value);
        ServerLimits {
            running_max: running_max.unwrap_or(usual.running_max),
            streams_max: streams_max.unwrap_or(usual.streams_max),
            stream_time_max: Duration::from_secs(self.stream_seconds_max.value.get().into()),
            ..usual
        }
    }

    /// The models a chat may choose: the configured list, or `usual`.
    pub fn offered(&self, usual: Vec<ModelOffer>) -> Vec<ModelOffer> {
        match self.models.origin {
            Origin::Default => usual,
            _ => self.models.value.iter().cloned().map(ModelOffer::Model).collect(),
        }
    }

    /// Time for steps that are nearly done to finish at shutdown.
    pub const fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds.value)
    }
}

/// Reads the named file, or the default one if it exists.
fn read_file(named: Option<&Path>, set: &impl Fn(&str) -> Option<String>) -> anyhow::Result<(File, PathBuf)> {
    let absolute = |name: &str| set(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = || {
        Some(
            absolute("XDG_CONFIG_HOME")
                .or_else(|| Some(absolute("HOME")?.join(".config")))?
                .join("everturn/config.toml"),
        )
    };
    let told = named.map(Path::to_owned).or_else(|| set("EVERTURN_CONFIG").map(PathBuf::from));
    let is_told = told.is_some();
    let Some(path) = told.or_else(usual) else { return Ok((File::default(), PathBuf::new())) };
    match std::fs::read_to_string(&path) {
        Ok(text) => match toml::from_str(&text) {
            Ok(file) => Ok((file, path)),
            Err(error) => {
                let hint = with_hint(error.message()).map(|hint| format!("\n{hint}")).unwrap_or_default();
                bail!("{}: {}{hint}", path.display(), in_plain_words(error.to_string().trim_end()))
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_told => Ok((File::default(), path)),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// A value without a flag: from its variable or the file.
fn unflagged<T: FromStr>(
    variable: &'static str,
    set: &impl Fn(&str) -> Option<String>,
    filed: Option<T>,
    from_file: impl Fn() -> Origin,
) -> anyhow::Result<Option<Told<T>>>
where
    T::Err: Display,
{
    layered("", None, variable, set, filed, from_file)
}

fn layered<T: FromStr>(
    flag: &'static str,
    flagged: Option<T>,
    variable: &'static str,
    set: &impl Fn(&str) -> Option<String>,
    filed: Option<T>,
    from_file: impl Fn() -> Origin,
) -> anyhow::Result<Option<Told<T>>>
where
    T::Err: Display,
{
    if let Some(value) = flagged {
        return Ok(Some(Told { value, origin: Origin::Flag(flag) }));
    }
    if let Some(text) = set(variable) {
        let value = text.parse().map_err(|error| anyhow::anyhow!("{variable}: {error}"))?;
        return Ok(Some(Told { value, origin: Origin::Variable(variable) }));
    }
    Ok(filed.map(|value| Told { value, origin: from_file() }))
}

/// A list of values from flags, from a comma-separated variable, or from the file.
fn listed<T: FromStr + Clone>(
    flag: &'static str,
    flagged: &[T],
    variable: &'static str,
    set: &impl Fn(&str) -> Option<String>,
    filed: Option<Vec<String>>,
    from_file: impl Fn() -> Origin,
) -> anyhow::Result<Told<Vec<T>>>
where
    T::Err: Display,
{
    if !flagged.is_empty() {
        return Ok(Told { value: flagged.to_vec(), origin: Origin::Flag(flag) });
    }
    let split = |text: String| text.split(',').map(|each| each.trim().to_owned()).collect::<Vec<_>>();
    let (texts, origin) = match (set(variable), filed) {
        (Some(text), _) => (split(text), Origin::Variable(variable)),
        (None, Some(texts)) => (texts, from_file()),
        (None, None) => (Vec::new(), Origin::Default),
    };
    let parse = |text: &String| text.parse().map_err(|error| anyhow::anyhow!("{origin}: {error}"));
    let value = texts.iter().filter(|text| !text.is_empty()).map(parse).collect::<anyhow::Result<_>>()?;
    Ok(Told { value, origin })
}

fn usually<T>(told: Option<Told<T>>, usual: T) -> Told<T> {
    told.unwrap_or(Told { value: usual, origin: Origin::Default })
}

fn optional<T>(told: Option<Told<T>>) -> Told<Option<T>> {
    match told {
        Some(Told { value, origin }) => Told { value: Some(value), origin },
        None => Told { value: None, origin: Origin::Default },
    }
}

#[cfg(test)]
mod tests;
