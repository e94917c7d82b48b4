//! The server's configuration: flags, then the environment, then a file.
//!
//! With three sources it is hard to remember which one won, so every value carries its origin, and
//! `everturn config show` prints it. An unknown key is an error: a misspelt setting is worse than none.

mod agent_options;
mod bounds;
mod budget;
mod connections;
mod durability;
mod file;
mod hint;
mod hook;
mod mcp;
mod money;
mod permissions;
mod price;
mod profile;
mod provider;
mod reach;
mod sampling;
mod sheet;
mod show;
mod turns;
mod variables;
mod workspace;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use everturn::core::ids::ModelId;
use everturn::core::limits::Limits;
use everturn::core::permission::PatternKind;
use everturn::{Agent, Builder, Drivers};
use everturn_server::{DataDir, ListenAddress, ModelOffer, Network, ServerLimits, Site, in_plain_words};
use everturn_tools::Workspace;
use everturn_understudy::{DICE_TOOL, NOTE_TOOL};

use budget::Spending;
pub use connections::Connections;
use durability::Drafts;
use file::File;
use hint::with_hint;
pub use hook::{HookEntry, HookEvent};
use mcp::McpEntries;
use permissions::RuleTools;
use price::{Price, by_model};
pub use profile::Profile;
use provider::Providers;
pub use reach::Exposure;
pub use reach::loopback;
pub use variables::variables_set;
pub use workspace::Sandbox;
use workspace::WorkspaceEntry;

use crate::recording::{Files, Record, Whose};
use crate::skills;
use crate::sub_agents;
use crate::workspaces::directory_of;

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
    /// Directory that the default agent's tools read, change and run commands in.
    #[arg(long, value_name = "DIRECTORY")]
    workspace: Option<PathBuf>,
    /// How far commands of tools must be confined: `best` that the machine can, `full`, or `off`. [default: best]
    #[arg(long, value_name = "HOW")]
    sandbox: Option<Sandbox>,
    /// Give every agent of the file the tools and limits of the demo; the tools write lines to this file.
    #[arg(long, value_name = "FILE", hide = true)]
    demo_tools: Option<PathBuf>,
    /// End with the parent, which starts another server when this one is killed.
    #[arg(long, hide = true)]
    restarted: bool,
}

impl Flags {
    /// Flags of commands that may start a server in their own process.
    pub fn of(config: Option<PathBuf>, data: Option<PathBuf>, model: Option<ModelId>, system: Option<String>) -> Self {
        Self { config, data, model, system, ..Self::default() }
    }

    /// These flags with a workspace.
    #[must_use]
    pub fn with_workspace(self, workspace: Option<PathBuf>) -> Self {
        Self { workspace, ..self }
    }
}

impl Flags {
    /// The side file of the demo's tools, where the daemon of a demo is started.
    pub fn demo_tools(&self) -> Option<&Path> {
        self.demo_tools.as_deref()
    }

    /// Whether the parent starts another server when this one is killed.
    pub fn is_restarted(&self) -> bool {
        self.restarted
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
pub struct Sourced<T> {
    pub value: T,
    pub origin: Origin,
}

/// The server's complete configuration.
#[derive(Debug)]
pub struct Config {
    /// Whether the parent starts another server when this one is killed.
    pub is_restarted: bool,
    pub listen: Sourced<ListenAddress>,
    pub exposure: Exposure,
    pub hosts: Sourced<Vec<String>>,
    pub data: Sourced<PathBuf>,
    /// `None`: chosen by the API keys.
    pub model: Sourced<Option<ModelId>>,
    /// Models that the default agent falls back to.
    pub fallbacks: Vec<ModelId>,
    /// Models that a chat may choose besides those of the agents; by default those of the providers with a
    /// key.
    pub models: Sourced<Vec<ModelId>>,
    pub system: Sourced<Option<String>>,
    /// The rest of the default agent: its limits, its tools, and its request options.
    pub usual: Profile,
    /// Providers besides the built-in ones.
    pub providers: Providers,
    /// Prices, by prefix of the model's name.
    pub prices: BTreeMap<ModelId, Price>,
    /// Durability of deltas.
    pub durability: Sourced<Drafts>,
    /// Size of the Postgres connection pool.
    pub database_connections: Sourced<Connections>,
    pub agents: BTreeMap<String, Profile>,
    /// MCP servers.
    pub mcp: McpEntries,
    /// Limit of chats that run at once; the engine's default if left out.
    pub chats_max: Sourced<Option<usize>>,
    /// Limit of running chats per owner; the server's default if left out.
    pub running_max: Sourced<Option<usize>>,
    /// Limit of streams per token; the server's default if left out.
    pub streams_max: Sourced<Option<usize>>,
    /// Lifetime of a stream.
    pub stream_seconds_max: Sourced<NonZeroU32>,
    /// Limit of concurrent requests per credential; the engine's default if left out.
    pub requests_max: Sourced<Option<NonZeroU32>>,
    /// Timeout for connecting to a provider; the engine's default if left out.
    pub connect_seconds_max: Sourced<Option<NonZeroU32>>,
    /// Time for steps that are nearly done to finish at shutdown.
    pub drain_seconds: Sourced<u64>,
    /// Which provider calls are recorded.
    pub record: Sourced<Record>,
    /// Directories that agents name.
    /// Commands that run before and after calls and at the end of turns.
    pub hooks: Arc<[HookEntry]>,
    pub workspaces: BTreeMap<String, WorkspaceEntry>,
    /// The directory of a flag or variable; each agent has a copy that works there.
    pub workspace: Sourced<Option<PathBuf>>,
    /// How far commands of tools must be confined.
    pub sandbox: Sourced<Sandbox>,
    /// Budget of owners without an entry in `owners`.
    pub budget: Spending,
    /// Budgets of named owners.
    pub owners: BTreeMap<String, Spending>,
    /// Where the tools of the demo leave lines, if this is its daemon.
    /// The file that was read.
    file: Origin,
}

fn parsed_models(names: &[String]) -> anyhow::Result<Vec<ModelId>> {
    names.iter().map(|name| Ok(name.parse()?)).collect()
}

impl Config {
    /// Merges flags, environment and file. `variable` reads an environment variable.
    pub fn read(flags: &Flags, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let (mut file, path, text) = read_file(flags.config.as_deref(), &set)?;
        let from_file = || Origin::File(path.clone());
        let in_file = || path.display().to_string();
        let usual = settled(&mut file, &path).with_context(in_file)?;
        let listen = file.listen.take().map(|listen| listen.parse()).transpose().with_context(in_file)?;
        let listen = layered("--listen", flags.listen.clone(), "EVERTURN_LISTEN", &set, listen, from_file)?;
        let model = file.model.take().map(|model| model.parse()).transpose().with_context(in_file)?;
        let model = layered("--model", flags.model.clone(), "EVERTURN_MODEL", &set, model, from_file)?;
        let fallbacks = parsed_models(&file.fallbacks).with_context(in_file)?;
        let data = layered("--data", flags.data.clone(), "EVERTURN_DATA", &set, file.data.take(), from_file)?;
        let usual_data = || anyhow::Ok(Sourced { value: DataDir::usual(set)?, origin: Origin::Default });
        let data = data.map_or_else(usual_data, Ok)?;
        let system = layered("--system", flags.system.clone(), "EVERTURN_SYSTEM", &set, file.system.take(), from_file)?;
        let config = Self {
            is_restarted: flags.restarted,
            listen: usually(listen, ListenAddress::Tcp((Ipv4Addr::LOCALHOST, PORT).into())),
            exposure: exposure(flags, &mut file, &set, from_file)?,
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
            mcp: McpEntries {
                own: file.mcp_servers,
                files: file.mcp_config,
                beside: path.parent().unwrap_or(Path::new(".")).to_owned(),
            },
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
            hooks: file.hooks.into(),
            workspaces: file.workspaces,
            workspace: directory(flags, &set)?,
            sandbox: usually(
                layered("--sandbox", flags.sandbox, "EVERTURN_SANDBOX", &set, file.sandbox, from_file)?,
                Sandbox::Best,
            ),
            budget: file.budget,
            owners: file.owners,
            file: from_file(),
        };
        config.with_permissions_checked(&text).with_context(in_file)
    }

    /// Refuses rules that can never match a call, with their line in the text of the file.
    fn with_permissions_checked(self, text: &str) -> anyhow::Result<Self> {
        self.usual.permissions.check(&self.rule_tools(AGENT, &self.usual), text)?;
        for (name, profile) in &self.agents {
            let checked = profile.permissions.check(&self.rule_tools(name, profile), text);
            checked.with_context(|| format!("the agent `{name}`"))?;
        }
        Ok(self)
    }

    /// The tools that permission rules of an agent may name. Those of a workspace are always among them: `--workspace`
    /// gives every agent one.
    fn rule_tools(&self, agent: &str, profile: &Profile) -> RuleTools {
        let mut tools = RuleTools::default();
        for (name, pattern) in Workspace::TOOLS {
            tools.name(name, pattern);
        }
        let own = profile.tools.keys().cloned();
        let asks = profile.may_ask.iter().map(|asked| sub_agents::tool_name(asked));
        let skill = (!profile.skills.is_empty()).then(|| skills::TOOL.to_owned());
        own.chain(asks).chain(skill).for_each(|name| tools.name(name, PatternKind::Nothing));
        match &profile.mcp {
            Some(servers) => servers.iter().for_each(|server| tools.prefix(format!("mcp__{server}__"))),
            None if agent == AGENT => {
                self.mcp.own.keys().for_each(|server| tools.prefix(format!("mcp__{server}__")));
                if !self.mcp.files.is_empty() {
                    tools.prefix("mcp__");
                }
            }
            None => {}
        }
        if !self.mcp.own.is_empty() || !self.mcp.files.is_empty() {
            ["find_tools", "use_tool"].into_iter().for_each(|name| tools.name(name, PatternKind::Nothing));
        }
        if agent == AGENT {
            [DICE_TOOL, NOTE_TOOL].into_iter().for_each(|name| tools.name(name, PatternKind::Nothing));
        }
        tools
    }
}

fn exposure(
    flags: &Flags,
    file: &mut File,
    set: &impl Fn(&str) -> Option<String>,
    from_file: impl Fn() -> Origin + Copy,
) -> anyhow::Result<Exposure> {
    let expose = flags.expose.then_some(true);
    let (cert, key) = (flags.tls_cert.clone(), flags.tls_key.clone());
    Ok(Exposure {
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
    if file.agents.contains_key(AGENT) {
        bail!("`{AGENT}` cannot be an [agents] entry; set `model`, `system`, `tools` … at the top instead");
    }
    hook::check(&file.hooks)?;
    let mut usual = file.take_usual();
    usual.settle(beside)?;
    for (agent, profile) in &mut file.agents {
        profile.settle(beside).with_context(|| format!("the agent `{agent}`"))?;
    }
    for entry in file.workspaces.values_mut() {
        entry.path = beside.join(&entry.path);
    }
    for name in file.agents.values().chain([&usual]).filter_map(|profile| profile.workspace.as_ref()) {
        if !file.workspaces.contains_key(name) {
            let known: Vec<_> = file.workspaces.keys().map(String::as_str).collect();
            bail!("there is no [workspaces.{name}]; the workspaces are: {}", known.join(", "));
        }
    }
    for name in file.agents.values().chain([&usual]).flat_map(|profile| &profile.may_ask) {
        if name != AGENT && !file.agents.contains_key(name) {
            bail!("`may_ask` names `{name}`, which is not an agent: add [agents.{name}]");
        }
    }
    Ok(usual)
}

/// The workspace of the flag or variable, without links where it can be looked up: one directory has one name.
fn directory(flags: &Flags, set: &impl Fn(&str) -> Option<String>) -> anyhow::Result<Sourced<Option<PathBuf>>> {
    let told = layered("--workspace", flags.workspace.clone(), "EVERTURN_WORKSPACE", set, None, || Origin::Default)?;
    let real = |directory: PathBuf| {
        let absolute = std::path::absolute(&directory).unwrap_or_else(|_| directory.clone());
        directory.canonicalize().unwrap_or(absolute)
    };
    Ok(optional(told.map(|Sourced { value, origin }| Sourced { value: real(value), origin })))
}

impl Config {
    /// The engine's builder with the configured limits.
    pub fn bounded(&self, mut builder: Builder, data: &Path, whose: &Whose) -> Builder {
        match self.chats_max.value {
            Some(0) => builder = builder.drivers(Drivers::ByHand), // This process drives no chats.
            Some(len) => builder = builder.chats_max(len),
            None => {}
        }
        // A turn in the directory of another command's `--workspace` is for the next daemon with that.
        builder = builder.agents_elsewhere(|agent| directory_of(agent).is_some()).budget(self.budget.into());
        for (owner, budget) in &self.owners {
            builder = builder.budget_of(owner, (*budget).into());
        }
        builder.recorder(Files::new(data, self.record.value, whose)) // Also if recording is off: existing recordings are deleted with their chat.
    }

    /// Whether tools of an agent work in a directory.
    pub fn has_workspace(&self) -> bool {
        let mut profiles = self.agents.values().chain([&self.usual]);
        self.workspace.value.is_some() || profiles.any(|profile| profile.workspace.is_some())
    }

    /// Leaves all workspaces out, for a process that drives no chats.
    pub fn forget_workspaces(&mut self) {
        self.workspace.value = None;
        self.usual.workspace = None;
        self.agents.values_mut().for_each(|profile| profile.workspace = None);
    }

    /// The directory of the workspace that an agent of the file names.
    pub fn directory(&self, profile: &Profile) -> Option<&Path> {
        Some(&self.workspaces.get(profile.workspace.as_ref()?)?.path)
    }

    /// The default agent, with this model.
    pub fn usual_agent(&self, model: ModelId) -> anyhow::Result<Agent> {
        let fallbacks = self.fallbacks.iter().filter(|fallback| **fallback != model).cloned().collect::<Vec<_>>();
        let mut agent = Agent::new(model);
        agent.models.extend(fallbacks);
        agent.system.extend(self.system.value.clone());
        Ok(self.governed(self.usual.dress(agent)?))
    }

    /// The agent behind requests that name a model: the limits of the default agent, and nothing else of it.
    pub fn gateway_agent(&self, model: ModelId) -> anyhow::Result<Agent> {
        let limits = self.usual_agent(model.clone())?.limits;
        Ok(Agent { models: Vec::new(), limits, ..Agent::new(model) })
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

/// The configuration file: the named one, that of `EVERTURN_CONFIG`, or the default one, which may be missing.
pub fn file_path(named: Option<&Path>, set: &impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |name: &str| set(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = || {
        let directory = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
        Some(directory.join("everturn/config.toml"))
    };
    named.map(Path::to_owned).or_else(|| set("EVERTURN_CONFIG").map(PathBuf::from)).or_else(usual)
}

/// Reads the named file, or the default one if it exists.
fn read_file(named: Option<&Path>, set: &impl Fn(&str) -> Option<String>) -> anyhow::Result<(File, PathBuf, String)> {
    let told = named.map(Path::to_owned).or_else(|| set("EVERTURN_CONFIG").map(PathBuf::from));
    let is_told = told.is_some();
    let Some(path) = file_path(named, set) else { return Ok((File::default(), PathBuf::new(), String::new())) };
    match std::fs::read_to_string(&path) {
        Ok(text) => match toml::from_str(&text) {
            Ok(file) => Ok((file, path, text)),
            Err(error) => {
                let hint = with_hint(error.message()).map(|hint| format!("\n{hint}")).unwrap_or_default();
                bail!("{}: {}{hint}", path.display(), in_plain_words(error.to_string().trim_end()))
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_told => {
            Ok((File::default(), path, String::new()))
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// A value without a flag: from its variable or the file.
fn unflagged<T: FromStr>(
    variable: &'static str,
    set: &impl Fn(&str) -> Option<String>,
    filed: Option<T>,
    from_file: impl Fn() -> Origin,
) -> anyhow::Result<Option<Sourced<T>>>
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
) -> anyhow::Result<Option<Sourced<T>>>
where
    T::Err: Display,
{
    if let Some(value) = flagged {
        return Ok(Some(Sourced { value, origin: Origin::Flag(flag) }));
    }
    if let Some(text) = set(variable) {
        let value = text.parse().map_err(|error| anyhow::anyhow!("{variable}: {error}"))?;
        return Ok(Some(Sourced { value, origin: Origin::Variable(variable) }));
    }
    Ok(filed.map(|value| Sourced { value, origin: from_file() }))
}

/// A list of values from flags, from a comma-separated variable, or from the file.
fn listed<T: FromStr + Clone>(
    flag: &'static str,
    flagged: &[T],
    variable: &'static str,
    set: &impl Fn(&str) -> Option<String>,
    filed: Option<Vec<String>>,
    from_file: impl Fn() -> Origin,
) -> anyhow::Result<Sourced<Vec<T>>>
where
    T::Err: Display,
{
    if !flagged.is_empty() {
        return Ok(Sourced { value: flagged.to_vec(), origin: Origin::Flag(flag) });
    }
    let split = |text: String| text.split(',').map(|each| each.trim().to_owned()).collect::<Vec<_>>();
    let (texts, origin) = match (set(variable), filed) {
        (Some(text), _) => (split(text), Origin::Variable(variable)),
        (None, Some(texts)) => (texts, from_file()),
        (None, None) => (Vec::new(), Origin::Default),
    };
    let parse = |text: &String| text.parse().map_err(|error| anyhow::anyhow!("{origin}: {error}"));
    let value = texts.iter().filter(|text| !text.is_empty()).map(parse).collect::<anyhow::Result<_>>()?;
    Ok(Sourced { value, origin })
}

fn usually<T>(told: Option<Sourced<T>>, usual: T) -> Sourced<T> {
    told.unwrap_or(Sourced { value: usual, origin: Origin::Default })
}

fn optional<T>(told: Option<Sourced<T>>) -> Sourced<Option<T>> {
    match told {
        Some(Sourced { value, origin }) => Sourced { value: Some(value), origin },
        None => Sourced { value: None, origin: Origin::Default },
    }
}

#[cfg(test)]
mod tests;
