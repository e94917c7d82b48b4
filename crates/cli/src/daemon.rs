//! The daemon of a command: a running one, or one inside the command.
//!
//! A chat is the same wherever it is driven. So a command connects to the daemon of the data directory; if
//! none is running, it starts one inside its own process, which other commands can use too. When such an
//! embedded daemon ends, the next command that used it starts its own; a daemon started with `serve` is
//! waited for.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use everturn::core::ids::ModelId;
use everturn::providers::endpoint::{self, PLAIN_HOSTS};
use everturn::stores::sqlite::OpenError;
use everturn_server::wire::{Chat, Create, Patch};
use everturn_server::{DataDir, ServerLifetime};
use reqwest::Url;
use tokio::time::{Instant, sleep};

use crate::client::{Client, ClientError};
use crate::config::{self, AGENT, Config, Flags, loopback};
use crate::process::logs::Logs;
use crate::server::{ChatStorage, Running};
use crate::workspaces::{agent_in, directory_of};

/// How long another process may take from locking the data directory to listening.
const START_MAX: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Arguments that name the daemon.
#[derive(clap::Args, Debug, Default, Clone)]
pub struct DaemonArgs {
    /// Daemon to connect to, such as http://127.0.0.1:4140 or unix:/run/socket; that of the data directory if
    /// left out. [env: EVERTURN_URL]
    #[arg(long, global = true, value_name = "URL", conflicts_with_all = ["data", "config"])]
    url: Option<Url>,
    /// File with the token for --url; EVERTURN_TOKEN if left out. Not the token itself: other users can see
    /// arguments.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Data directory; `everturn` in the XDG data directory if left out.
    #[arg(long, global = true, value_name = "DIRECTORY")]
    data: Option<PathBuf>,
    /// Configuration file; `everturn/config.toml` in the XDG configuration directory if left out.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl DaemonArgs {
    /// The user's configuration file, which may be missing.
    pub fn config_file(&self) -> Option<PathBuf> {
        config::file_path(self.config.as_deref(), &|name| std::env::var(name).ok())
    }
}

/// Settings of the chat, and of a daemon that this command starts.
#[derive(clap::Args, Debug, Default, Clone)]
pub struct ChatArgs {
    /// Model from the next turn on, as provider/model, instead of the agent's; stored with the chat.
    #[arg(long, value_name = "MODEL")]
    model: Option<ModelId>,
    /// Record the chat's requests to providers on the daemon's machine; stored with the chat.
    #[arg(long)]
    pub debug: bool,
    /// Instructions for the model, if this command starts the daemon.
    #[arg(long, value_name = "TEXT", conflicts_with = "url")]
    system: Option<String>,
    /// Directory that the agent's tools read, change and run commands in, if this command starts the daemon. A chat keeps
    /// its directory.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "url")]
    workspace: Option<PathBuf>,
}

impl ChatArgs {
    /// The model of a new chat, if one was named.
    pub fn model(&self) -> Option<String> {
        self.model.as_ref().map(ToString::to_string)
    }

    /// The workspace, if a running daemon has it.
    async fn kept(
        &self,
        directory: Option<PathBuf>,
        client: &Client,
        data: &DataDir,
    ) -> anyhow::Result<Option<PathBuf>> {
        let Some(directory) = directory else { return Ok(None) };
        let name = agent_in(AGENT, &directory);
        if client.agents().await?.agents.iter().any(|agent| agent.name == name) {
            return Ok(Some(directory));
        }
        if self.workspace.is_some() {
            let data = data.path().display();
            bail!("a daemon runs on {data} and has its own workspaces: choose one of its agents, or other --data");
        }
        Ok(None)
    }

    /// Applies the flags to an existing chat.
    pub async fn choose(&self, client: &Client, chat: Chat) -> Result<Chat, ClientError> {
        let (model, debug) = (self.model().map(Some), self.debug.then_some(true));
        if model.is_none() && debug.is_none() {
            return Ok(chat);
        }
        client.patch(&chat.id, &Patch { model, debug, ..Patch::default() }).await
    }
}

/// A connection to a daemon, which may run in this process.
pub struct DaemonConnection {
    pub client: Client,
    /// What is needed to start a daemon in this process, if that is allowed.
    home: Option<Home>,
    own: Option<Running>,
    /// The directory of `--workspace`, which the daemon has.
    directory: Option<PathBuf>,
}

struct Home {
    config: Config,
    data: DataDir,
    /// Whether the daemon seen last was embedded in a command.
    stay: ServerLifetime,
}

/// What to do if no daemon is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfNoDaemon {
    Start,
    /// Start one that answers requests and does not continue unfinished turns: a read-only command should
    /// cost nothing.
    Answer,
    Refuse,
}

impl DaemonArgs {
    /// The configuration of the daemon, unless it is elsewhere.
    pub fn config(&self) -> anyhow::Result<Option<Config>> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let is_told = self.data.is_some() || self.config.is_some();
        if self.url.is_some() || (!is_told && variable("EVERTURN_URL").is_some()) {
            return Ok(None);
        }
        Config::read(&Flags::of_data(self.data.clone(), self.config.clone()), variable).map(Some)
    }

    /// Connects to the daemon, or starts one.
    pub async fn open(&self, own: &ChatArgs, if_none: IfNoDaemon) -> anyhow::Result<DaemonConnection> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let told = self.data.is_some() || self.config.is_some();
        let url = match (&self.url, variable("EVERTURN_URL").filter(|_| !told)) {
            (Some(url), _) => Some(url.clone()),
            (None, Some(text)) => Some(text.parse().context("EVERTURN_URL")?),
            (None, None) => None,
        };
        if let Some(url) = url {
            if own.workspace.is_some() {
                bail!("the daemon in EVERTURN_URL has its own workspaces: choose one of its agents, or name --data");
            }
            if own.system.is_some() {
                bail!("the daemon in EVERTURN_URL has its own --system: choose one of its agents, or name --data");
            }
            refuse_plain(&url, &variable(PLAIN_HOSTS).unwrap_or_default())?;
            let token = self.token(variable)?;
            let client = Client::new(url, token);
            client.reach().await?;
            return Ok(DaemonConnection { client, home: None, own: None, directory: None });
        }
        if self.token_file.is_some() {
            // The daemon of the data directory has its own token file. Another file means another daemon.
            let missing = clap::error::ErrorKind::MissingRequiredArgument;
            let why = "--token-file is for a daemon elsewhere: name it with --url or EVERTURN_URL";
            clap::Command::new("everturn").error(missing, why).exit();
        }
        let flags = Flags::of(self.config.clone(), self.data.clone(), own.model.clone(), own.system.clone());
        let mut config = Config::read(&flags.with_workspace(own.workspace.clone()), variable)?;
        if if_none == IfNoDaemon::Answer {
            config.chats_max.value = Some(0);
            config.forget_workspaces();
        }
        let directory = config.workspace.value.clone();
        let data = DataDir::open(&config.data.value)?;
        if let Some(address) = data.address()? {
            if own.system.is_some() {
                let data = data.path().display();
                bail!("a daemon runs on {data} and has its own --system: choose one of its agents, or other --data");
            }
            let client = Client::of(&data);
            let directory = own.kept(directory, &client, &data).await?;
            let home = Some(Home { config, data, stay: address.stay });
            return Ok(DaemonConnection { client, home, own: None, directory });
        }
        if if_none == IfNoDaemon::Refuse {
            bail!("no daemon runs on {}: start one with `everturn serve`", data.path().display());
        }
        let client = Client::of(&data);
        let home = Some(Home { config, data, stay: ServerLifetime::Embedded });
        let mut connection = DaemonConnection { client, home, own: None, directory };
        connection.settle_in().await?;
        Ok(connection)
    }

    fn token(&self, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<String> {
        if let Some(file) = &self.token_file {
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            return Ok(text.trim().into());
        }
        variable("EVERTURN_TOKEN").context("no token: set EVERTURN_TOKEN, or name a file with --token-file")
    }
}

impl DaemonConnection {
    /// A daemon in this process that stores nothing.
    pub async fn ephemeral(daemon: &DaemonArgs, own: &ChatArgs) -> anyhow::Result<(Self, tempfile::TempDir)> {
        let room =
            tempfile::Builder::new().prefix("everturn-").tempdir().context("could not create a temporary directory")?;
        let path = room.path().join("data");
        let flags = Flags::of(daemon.config.clone(), Some(path), own.model.clone(), own.system.clone());
        let flags = flags.with_workspace(own.workspace.clone());
        let config = Config::read(&flags, |name| std::env::var(name).ok())?;
        let directory = config.workspace.value.clone();
        let running = Running::start(&config, &[loopback()], ChatStorage::Memory, ServerLifetime::Embedded).await?;
        let data = DataDir::open(&config.data.value)?;
        Ok((Self { client: Client::of(&data), home: None, own: Some(running), directory }, room))
    }

    /// The agent of a new chat: the named one or the default one, in the directory of `--workspace` if there is one.
    pub fn agent(&self, named: Option<&str>) -> Option<String> {
        match &self.directory {
            Some(directory) => Some(agent_in(named.unwrap_or(AGENT), directory)),
            None => named.map(Into::into),
        }
    }

    /// Refuses to continue a chat in another directory than its own.
    pub fn is_of_workspace(&self, chat: &Chat) -> anyhow::Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        match directory_of(&chat.agent) {
            Some(its) if its == directory => Ok(()),
            Some(its) => bail!("chat {} works in {}: name that as --workspace", chat.id, its.display()),
            None => bail!("chat {} was begun without --workspace: leave it out, or begin another chat", chat.id),
        }
    }

    /// Whether the daemon is this process.
    pub const fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Starts a daemon in this process if the embedded one of another command has ended.
    pub async fn settle_in(&mut self) -> anyhow::Result<()> {
        let Some(Home { config, data, stay }) = self.home.as_mut().filter(|_| self.own.is_none()) else {
            return Ok(());
        };
        if *stay == ServerLifetime::Daemon {
            return Ok(()); // A daemon started with `serve` comes back.
        }
        let until = Instant::now() + START_MAX;
        loop {
            if let Some(address) = data.address()? {
                *stay = address.stay; // Another command was faster.
                return Ok(());
            }
            match Running::start(config, &[loopback()], ChatStorage::Configured, ServerLifetime::Embedded).await {
                Ok(running) => {
                    Logs::audit(data.path())?;
                    self.own = Some(running);
                    return Ok(());
                }
                // Another process is starting or stopping.
                Err(error) if is_in_use(&error) && Instant::now() < until => sleep(LOOK_EVERY).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates a chat, also if the daemon was embedded in another command and ends just now.
    pub async fn create(&mut self, new: &Create) -> anyhow::Result<Chat> {
        loop {
            self.settle_in().await?;
            match self.client.create(new).await {
                Err(ClientError::NoDaemon(_))
                    if self.home.as_ref().is_some_and(|home| home.stay == ServerLifetime::Embedded) => {}
                made => return Ok(made?),
            }
        }
    }

    /// Stops a daemon in this process in good order.
    pub async fn leave(self) {
        if let Some(running) = self.own {
            running.stop().await;
        }
    }
}

/// Refuses a URL to which the token would travel unencrypted.
fn refuse_plain(url: &Url, trusted: &str) -> anyhow::Result<()> {
    if !endpoint::may_carry_secrets(url, trusted) {
        let host = endpoint::host(url);
        bail!(
            "http://{host} is not on this machine, so the token would travel unencrypted: use https, or list {host} in \
             {PLAIN_HOSTS} if the way there is to be trusted"
        );
    }
    Ok(())
}

fn is_in_use(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(OpenError::InUse { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_never_travel_unencrypted() {
        let is_refused = |url: &str| refuse_plain(&url.parse().unwrap(), "proxy.corp, 10.1.2.3:8080").is_err();
        for url in
            ["http://127.0.0.2:4140", "http://[::1]:4140", "http://localhost", "https://x.example", "unix:/run/s"]
        {
            assert!(!is_refused(url), "{url}");
        }
        for url in ["http://PROXY.corp", "http://10.1.2.3:8080/x"] {
            assert!(!is_refused(url), "{url}");
        }
        for url in ["http://x.example", "http://10.1.2.3", "http://proxy.corp:81", "http://localhost.example"] {
            assert!(is_refused(url), "{url}");
        }
    }
}
