//! What the server is told: by flags, by the environment, by a file; in this order.
//!
//! Three places are two too many to remember which one won, so every value knows where it came from, and
//! `everturn config show` says so. A key that nobody knows is an error: a misspelt setting is worse than none.

mod budget;
mod hint;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use everturn::core::budget::Budget;
use everturn::core::cost::Micros;
use everturn::core::ids::ModelId;
use everturn::{Agent, Builder, Drivers};
use everturn_server::DataDir;
use serde::Deserialize;

use budget::Spending;
use hint::with_hint;

use crate::out::println;
use crate::record::{Files, Record};

/// How long an end waits for what may be nearly done, if nobody says otherwise.
const DRAIN_SECONDS: u64 = 5;
/// The agent of chats that name none.
pub const AGENT: &str = "default";
const PORT: u16 = 4140;
/// Variables that hold secrets. Whether they are set is shown, and nothing else.
const SECRETS: [&str; 5] =
    ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];

/// What can be told by flags.
#[derive(clap::Args, Debug, Default, Clone)]
pub struct Flags {
    /// The configuration file; `everturn/config.toml` in the XDG configuration directory if left out.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address to listen on; port 0 takes a free one. [default: 127.0.0.1:4140]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Listen on an address that other machines can reach. There is no TLS: put a proxy that has it in front.
    #[arg(long)]
    pub expose: bool,
    /// A further name that requests may use, such as chat.example.com; may be given several times.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
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
    /// With nothing told but where things are.
    pub fn of_data(data: Option<PathBuf>, config: Option<PathBuf>) -> Self {
        Self { data, config, ..Self::default() }
    }
}

/// The file.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<SocketAddr>,
    hosts: Option<Vec<String>>,
    data: Option<PathBuf>,
    model: Option<String>,
    system: Option<String>,
    chats_max: Option<usize>,
    drain_seconds: Option<u64>,
    record: Option<Record>,
    #[serde(default)]
    agents: BTreeMap<String, Profile>,
    #[serde(default)]
    budget: Spending,
    #[serde(default)]
    owners: BTreeMap<String, Spending>,
}

/// An agent by name.
#[derive(Deserialize, Debug, Default, Clone, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    model: String,
    #[serde(default)]
    fallbacks: Vec<String>,
    system: Option<String>,
    steps_max: Option<u32>,
    turn_minutes_max: Option<u64>,
    turn_tokens_max: Option<u64>,
    turn_cost_max: Option<u64>,
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
    pub listen: Told<SocketAddr>,
    pub hosts: Told<Vec<String>>,
    pub data: Told<PathBuf>,
    /// `None`: as the keys say.
    pub model: Told<Option<ModelId>>,
    pub system: Told<Option<String>>,
    pub agents: BTreeMap<String, Profile>,
    /// How many chats work at once; the engine's own bound if left out.
    pub chats_max: Told<Option<usize>>,
    /// How long an end waits for what may be nearly done.
    pub drain_seconds: Told<u64>,
    /// Which provider calls are recorded.
    pub record: Told<Record>,
    /// What every owner may use who is not named.
    pub budget: Spending,
    /// What these may.
    pub owners: BTreeMap<String, Spending>,
    /// Where the tools of the demo leave lines, if this is its daemon.
    pub demo_tools: Option<PathBuf>,
}

impl Config {
    /// Puts flags over the environment over the file. `variable` looks one up.
    pub fn read(flags: &Flags, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let (file, path) = read_file(flags.config.as_deref(), &set)?;
        let from_file = || Origin::File(path.clone());
        let listen = layered("--listen", flags.listen, "EVERTURN_LISTEN", &set, file.listen, from_file)?;
        let usual = || Told { value: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), origin: Origin::Default };
        let model = file.model.map(|model| model.parse()).transpose().with_context(|| path.display().to_string())?;
        let data = layered("--data", flags.data.clone(), "EVERTURN_DATA", &set, file.data, from_file)?;
        let data = match data {
            Some(data) => data,
            None => Told { value: DataDir::usual(set)?, origin: Origin::Default },
        };
        let hosts = (!flags.host.is_empty()).then(|| flags.host.clone());
        let hosts = match (hosts, file.hosts) {
            (Some(value), _) => Told { value, origin: Origin::Flag("--host") },
            (None, Some(value)) => Told { value, origin: from_file() },
            (None, None) => Told { value: Vec::new(), origin: Origin::Default },
        };
        let system = layered("--system", flags.system.clone(), "EVERTURN_SYSTEM", &set, file.system, from_file)?;
        let model = layered("--model", flags.model.clone(), "EVERTURN_MODEL", &set, model, from_file)?;
        if file.agents.contains_key(AGENT) {
            bail!("{}: the agent `{AGENT}` is told by `model` and `system` at the top", path.display());
        }
        Ok(Self {
            listen: listen.unwrap_or_else(usual),
            hosts,
            data,
            model: optional(model),
            system: optional(system),
            agents: file.agents,
            chats_max: optional(layered("", None, "EVERTURN_CHATS_MAX", &set, file.chats_max, from_file)?),
            drain_seconds: layered("", None, "EVERTURN_DRAIN_SECONDS", &set, file.drain_seconds, from_file)?
                .unwrap_or(Told { value: DRAIN_SECONDS, origin: Origin::Default }),
            record: layered("", None, "EVERTURN_RECORD", &set, file.record, from_file)?
                .unwrap_or(Told { value: Record::Off, origin: Origin::Default }),
            budget: file.budget,
            owners: file.owners,
            demo_tools: flags.demo_tools.clone(),
        })
    }

    /// Says what the server would be told, and by whom. Secrets are not shown.
    pub fn show(&self, variable: impl Fn(&str) -> Option<String>) -> ExitCode {
        let line = |name: &str, value: String, origin: &Origin| println!("{name} = {value}  # {origin}");
        line("listen", format!("{:?}", self.listen.value.to_string()), &self.listen.origin);
        line("hosts", format!("{:?}", self.hosts.value), &self.hosts.origin);
        line("data", format!("{:?}", self.data.value), &self.data.origin);
        match &self.model.value {
            Some(model) => line("model", format!("{:?}", model.to_string()), &self.model.origin),
            None => println!("# model: as the keys in the environment say"),
        }
        if let Some(system) = &self.system.value {
            line("system", format!("{system:?}"), &self.system.origin);
        }
        if let Some(len) = self.chats_max.value {
            line("chats_max", len.to_string(), &self.chats_max.origin);
        }
        line("drain_seconds", self.drain_seconds.value.to_string(), &self.drain_seconds.origin);
        line("record", format!("{:?}", self.record.value.to_string()), &self.record.origin);
        for (name, budget) in [("budget", &self.budget)].into_iter().filter(|(_, told)| **told != Spending::default()) {
            println!("[{name}]  # {:?}", Budget::from(*budget));
        }
        for (owner, budget) in &self.owners {
            println!("[owners.{owner}]  # {:?}", Budget::from(*budget));
        }
        for (name, Profile { model, fallbacks, .. }) in &self.agents {
            println!("[agents.{name}]  # model {model:?}, fallbacks {fallbacks:?}");
        }
        for name in SECRETS {
            let is_set = variable(name).is_some_and(|value| !value.trim().is_empty());
            println!("# {name}: {}", if is_set { "set" } else { "not set" });
        }
        ExitCode::SUCCESS
    }
}

impl Config {
    /// An engine with the bounds that were told.
    pub fn bounded(&self, mut builder: Builder, data: &Path) -> Builder {
        match self.chats_max.value {
            Some(0) => builder = builder.drivers(Drivers::ByHand), // Nobody works.
            Some(len) => builder = builder.chats_max(len),
            None => {}
        }
        builder = builder.budget(self.budget.into());
        for (owner, budget) in &self.owners {
            builder = builder.budget_of(owner, (*budget).into());
        }
        builder.recorder(Files::new(data, self.record.value)) // Also if it is off: what there is goes with its chat.
    }

    /// How long an end waits for what may be nearly done.
    pub const fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds.value)
    }
}

impl Profile {
    /// The agent it describes.
    pub fn agent(&self) -> anyhow::Result<Agent> {
        let mut agent = Agent::new(self.model.parse()?);
        for model in &self.fallbacks {
            agent = agent.or(model.parse()?);
        }
        agent.system.extend(self.system.clone());
        let limits = &mut agent.limits;
        limits.steps_max = self.steps_max.unwrap_or(limits.steps_max);
        limits.turn_tokens_max = self.turn_tokens_max.unwrap_or(limits.turn_tokens_max);
        limits.turn_cost_max = self.turn_cost_max.map_or(limits.turn_cost_max, Micros::units);
        let minutes = |minutes: u64| Duration::from_secs(minutes.saturating_mul(60));
        limits.turn_time_max = self.turn_minutes_max.map_or(limits.turn_time_max, minutes);
        Ok(agent)
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
            Err(error) => match with_hint(error.message()) {
                Some(hint) => Err(error).with_context(|| format!("{}: {hint}", path.display())),
                None => Err(error).with_context(|| path.display().to_string()),
            },
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_told => Ok((File::default(), path)),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
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

fn optional<T>(told: Option<Told<T>>) -> Told<Option<T>> {
    match told {
        Some(Told { value, origin }) => Told { value: Some(value), origin },
        None => Told { value: None, origin: Origin::Default },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read from these flags, variables and this file.
    fn read(flags: Flags, variables: &[(&str, &str)], text: &str) -> anyhow::Result<Config> {
        let name = format!("everturn-config-{}-{:p}.toml", std::process::id(), text);
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text)?;
        let flags = Flags { config: Some(path.clone()), ..flags };
        let look =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let config = Config::read(&flags, |name| look(name).or_else(|| (name == "HOME").then(|| "/h".into())));
        std::fs::remove_file(path)?;
        config
    }

    #[test]
    fn flags_beat_variables_beat_the_file_beats_defaults() {
        let text = "listen = \"127.0.0.1:1\"\nmodel = \"a/file\"\ndata = \"/file\"\n";
        let flags = || Flags { model: Some("a/flag".parse().unwrap()), ..Flags::default() };
        let config = read(flags(), &[("EVERTURN_MODEL", "a/variable"), ("EVERTURN_DATA", "/variable")], text).unwrap();
        assert_eq!(
            (config.model.value.unwrap().to_string(), config.model.origin),
            ("a/flag".into(), Origin::Flag("--model"))
        );
        assert_eq!((config.data.value, config.data.origin), ("/variable".into(), Origin::Variable("EVERTURN_DATA")));
        assert_eq!(config.listen.value.port(), 1);
        assert!(matches!(config.listen.origin, Origin::File(_)));
        let config = read(Flags::default(), &[], "").unwrap();
        assert_eq!((config.listen.value.to_string(), config.listen.origin), ("127.0.0.1:4140".into(), Origin::Default));
        assert_eq!(config.data.value, Path::new("/h/.local/share/everturn"));
    }

    #[test]
    fn what_nobody_knows_is_an_error_that_says_what_is_known() {
        for (text, said) in [
            ("modell = \"a/b\"", "unknown field `modell`"),
            ("[agents.x]\nmodel = \"a/b\"\nsteps = 3", "expected one of"),
            ("model = \"nothing\"", "provider/model"),
            ("[agents.default]\nmodel = \"a/b\"", "at the top"),
        ] {
            let error = format!("{:#}", read(Flags::default(), &[], text).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_profile_makes_an_agent() {
        let text = "[agents.careful]\nmodel = \"a/b\"\nfallbacks = [\"c/d\"]\nsystem = \"Be careful.\"\nsteps_max = 3\nturn_cost_max = 2\nturn_minutes_max = 5";
        let config = read(Flags::default(), &[], text).unwrap();
        let agent = config.agents["careful"].agent().unwrap();
        assert_eq!(agent.models.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a/b", "c/d"]);
        assert_eq!((agent.limits.steps_max, agent.limits.turn_cost_max), (3, Micros::units(2)));
        assert_eq!(
            (agent.limits.turn_time_max, agent.system),
            (Duration::from_secs(300), vec!["Be careful.".to_owned()])
        );
    }
}
