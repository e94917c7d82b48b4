//! What the server is told: by flags, by the environment, by a file; in this order.
//!
//! Three places are two too many to remember which one won, so every value knows where it came from, and
//! `everturn config show` says so. A key that nobody knows is an error: a misspelt setting is worse than none.

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
use everturn_server::{Bounds, DataDir, Listen, Network, Offered, Site, in_plain_words};

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

/// How long an end waits for what may be nearly done, if nobody says otherwise.
const DRAIN_SECONDS: u64 = 5;
/// How long a stream lasts.
const STREAM_SECONDS: NonZeroU32 = NonZeroU32::new(60 * 60).unwrap();
/// The agent of chats that name none.
pub const AGENT: &str = "default";
const PORT: u16 = 4140;
/// What can be told by flags.
#[derive(clap::Args, Debug, Default, Clone)]
pub struct Flags {
    /// The configuration file; `everturn/config.toml` in the XDG configuration directory if left out.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address to listen on, port 0 takes a free one; or unix: and the path of a socket. [default: 127.0.0.1:4140]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Listen>,
    /// Listen on an address that other machines can reach. Needs TLS: --tls-cert and --tls-key, or a --proxy that does it.
    #[arg(long)]
    expose: bool,
    /// A file with the certificate for TLS, and those that lead from it to an authority, in PEM. SIGHUP reads it again.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// A file with the key of the certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Where the proxy is that does TLS, such as 10.1.2.3 or 10.0.0.0/8; may be given several times. Without TLS of our
    /// own, no other machine is answered.
    #[arg(long, value_name = "NETWORK")]
    proxy: Vec<Network>,
    /// A further name that requests may use, such as chat.example.com; may be given several times.
    #[arg(long, value_name = "HOST", value_parser = reach::host)]
    host: Vec<String>,
    /// A site whose pages may ask, as browsers write it: https://app.example.com; may be given several times.
    #[arg(long, value_name = "SITE")]
    origin: Vec<Site>,
    /// Where everything is kept; `everturn` in the XDG data directory if left out.
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// The model of the default agent, as provider/model; chosen by the keys in the environment if left out.
    #[arg(long, value_name = "MODEL")]
    model: Option<ModelId>,
    /// Instructions for the default agent.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Give every agent of the file the tools and the bounds of the demo, which leave lines in this file.
    #[arg(long, value_name = "FILE", hide = true)]
    demo_tools: Option<PathBuf>,
}

impl Flags {
    /// What those commands can be told that may run a server of their own.
    pub fn of(config: Option<PathBuf>, data: Option<PathBuf>, model: Option<ModelId>, system: Option<String>) -> Self {
        Self { config, data, model, system, ..Self::default() }
    }
}

impl Flags {
    /// The side file of the demo's tools, where the daemon of a demo is started.
    pub fn demo_tools(&self) -> Option<&Path> {
        self.demo_tools.as_deref()
    }

    /// With nothing told but where things are.
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

/// A value, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<T> {
    pub value: T,
    pub origin: Origin,
}

/// Everything the server is told.
#[derive(Debug)]
pub struct Config {
    pub listen: Told<Listen>,
    pub openness: Openness,
    pub hosts: Told<Vec<String>>,
    pub data: Told<PathBuf>,
    /// `None`: as the keys say.
    pub model: Told<Option<ModelId>>,
    /// Those the default agent asks when that one fails.
    pub fallbacks: Vec<ModelId>,
    /// The models a chat may be given beside those of the agents; by default as the keys say.
    pub models: Told<Vec<ModelId>>,
    pub system: Told<Option<String>>,
    /// What the default agent is besides: its bounds, its tools, and how it asks its models.
    pub usual: Profile,
    /// The providers beside the usual ones.
    pub providers: Providers,
    /// What models cost, by how their names begin.
    pub prices: BTreeMap<ModelId, Price>,
    /// What deltas survive.
    pub durability: Told<Drafts>,
    /// How many connections to the database are opened, if there is one.
    pub database_connections: Told<Connections>,
    pub agents: BTreeMap<String, Profile>,
    /// How many chats work at once; the engine's own bound if left out.
    pub chats_max: Told<Option<usize>>,
    /// How many of them may be one owner's; the server's own bound if left out.
    pub running_max: Told<Option<usize>>,
    /// How many streams a token may have; the server's own bound if left out.
    pub streams_max: Told<Option<usize>>,
    /// How long a stream lasts; as the server has it if left out.
    pub stream_seconds_max: Told<NonZeroU32>,
    /// How many requests one credential may have under way; the engine's own bound if left out.
    pub requests_max: Told<Option<NonZeroU32>>,
    /// How long a connection to a provider may take to be made; the engine's own bound if left out.
    pub connect_seconds_max: Told<Option<NonZeroU32>>,
    /// How long an end waits for what may be nearly done.
    pub drain_seconds: Told<u64>,
    /// Which provider calls are recorded.
    pub record: Told<Record>,
    /// What every owner may use who is not named.
    pub budget: Spending,
    /// What these may.
    pub owners: BTreeMap<String, Spending>,
    /// Where the tools of the demo leave lines, if this is its daemon.
    /// What was read.
    file: Origin,
}

impl Config {
    /// Puts flags over the environment over the file. `variable` looks one up.
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
                "{}: the agent `{AGENT}` is told by `model`, `system`, `tools` and the like at the top",
                path.display()
            );
        }
        Ok(Self {
            listen: usually(listen, Listen::Tcp((Ipv4Addr::LOCALHOST, PORT).into())),
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

/// The agents of the file, as far as they can be used; comes back with that of chats that name none.
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
    /// An engine with the bounds that were told.
    pub fn bounded(&self, mut builder: Builder, data: &Path, whose: &Whose) -> Builder {
        match self.chats_max.value {
            Some(0) => builder = builder.drivers(Drivers::ByHand), // Nobody works.
            Some(len) => builder = builder.chats_max(len),
            None => {}
        }
        builder = builder.budget(self.budget.into());
        for (owner, budget) in &self.owners {
            builder = builder.budget_of(owner, (*budget).into());
        }
        builder.recorder(Files::new(data, self.record.value, whose)) // Also if it is off: what there is goes with its chat.
    }

    /// The agent of chats that name none, with this model.
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

    /// An agent with the bound of every credential, which all agents share.
    fn governed(&self, mut agent: Agent) -> Agent {
        if let Some(requests_max) = self.requests_max.value {
            let governor = &mut agent.limits.governor;
            governor.at_once_max = requests_max.get() as usize;
            governor.ramp_max = governor.ramp_max.min(governor.at_once_max);
        }
        agent
    }

    /// The bounds of connections to providers, which all agents share: the most patient one counts.
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

    /// The server's bounds, with those that were told.
    pub fn bounds(&self) -> Bounds {
        let usual = Bounds::default();
        let (running_max, streams_max) = (self.running_max.value, self.streams_max.value);
        Bounds {
            running_max: running_max.unwrap_or(usual.running_max),
            streams_max: streams_max.unwrap_or(usual.streams_max),
            stream_time_max: Duration::from_secs(self.stream_seconds_max.value.get().into()),
            ..usual
        }
    }

    /// The models to choose from, of `usual` if nobody says which.
    pub fn offered(&self, usual: Vec<Offered>) -> Vec<Offered> {
        match self.models.origin {
            Origin::Default => usual,
            _ => self.models.value.iter().cloned().map(Offered::Model).collect(),
        }
    }

    /// How long an end waits for what may be nearly done.
    pub const fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds.value)
    }
}

/// The file that was named, or the usual one if it is there.
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

/// A value that no flag tells.
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

/// The same for a list, in a variable with commas between.
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
