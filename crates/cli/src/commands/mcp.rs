//! `everturn mcp`: list MCP servers and their tools, try whether one starts, and log in.

mod login;

use std::process::ExitCode;

use everturn_mcp::Logins;
use everturn_server::DataDir;
use everturn_server::wire::{McpServer, ToolEffect};
use tokio::time::Instant;

use crate::daemon::{ChatArgs, DaemonArgs, IfNoDaemon};
use crate::mcp::{self, Starts};
use crate::output::{self, println};
use crate::render::mcp_state;
use crate::terminal::visible;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn mcp
  everturn mcp tools files
  everturn mcp test files
  everturn mcp login github
  everturn mcp list --json | jq -r 'select(.state == \"failed\").reason'";

/// Characters of a text that are shown in a line.
const CHARS_MAX: usize = 100;
/// Characters of a reason that are shown.
const REASON_CHARS_MAX: usize = 2000;

/// Arguments of `everturn mcp`.
#[derive(clap::Args)]
pub struct Mcp {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Print each server as one line of JSON, as `GET /v1/mcp` shows it.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// List the servers and how they are: those of the running daemon, or what is known without one.
    List,
    /// List the tools of a server, as models see them. Starts it if its tools are unknown.
    Tools {
        /// The server's name in the configuration.
        name: String,
    },
    /// Start or connect to a server and list its tools, to see whether that works.
    Test {
        /// The server's name in the configuration.
        name: String,
    },
    /// Log in at a remote server in a browser. Daemons on this data directory use the login at once.
    Login(login::LoginArgs),
    /// Forget the login at a server.
    Logout {
        /// The server's name in the configuration.
        name: String,
        /// Whose login it is; that of this machine's own chats if left out.
        #[arg(long)]
        owner: Option<String>,
    },
}

impl Mcp {
    /// Carries out the request.
    pub async fn run(mut self) -> anyhow::Result<ExitCode> {
        match self.verb.take().unwrap_or(Verb::List) {
            Verb::List => {
                let all = self.all().await?;
                if all.is_empty() && !self.json {
                    output::aside("no MCP server is configured: see [mcpServers] in docs/mcp.md");
                }
                for server in &all {
                    if self.json { output::json(server)? } else { show(server) }
                }
                Ok(ExitCode::SUCCESS)
            }
            Verb::Tools { name } => self.tools(&name).await,
            Verb::Test { name } => self.test(&name).await,
            Verb::Login(login) => login.run(&self.own()?, &self.logins()?).await,
            Verb::Logout { name, owner } => login::log_out(&self.own()?, &self.logins()?, &name, owner.as_deref()),
        }
    }

    /// The servers of the daemon if one runs, else what is known without starting any.
    async fn all(&self) -> anyhow::Result<Vec<McpServer>> {
        let has_daemon = match self.daemon.config()? {
            Some(config) => DataDir::open(&config.data.value)?.address()?.is_some(),
            None => true,
        };
        if has_daemon {
            let daemon = self.daemon.open(&ChatArgs::default(), IfNoDaemon::Refuse).await?;
            let servers = daemon.client.mcp_servers().await?.servers;
            daemon.leave().await;
            return Ok(servers);
        }
        Ok(self.own()?.statuses().into_iter().map(mcp::shown).collect())
    }

    /// The servers in this process.
    fn own(&self) -> anyhow::Result<everturn_mcp::McpServers> {
        let Some(config) = self.daemon.config()? else {
            anyhow::bail!(
                "--url names a daemon elsewhere, whose servers start there: leave it out, or use `everturn mcp list`"
            )
        };
        mcp::servers(&config, DataDir::open(&config.data.value)?.path(), Starts::WhenCalled)
    }

    /// The logins of this data directory.
    fn logins(&self) -> anyhow::Result<Logins> {
        let Some(config) = self.daemon.config()? else {
            anyhow::bail!("--url names a daemon elsewhere: log in on its machine")
        };
        Ok(Logins::new(mcp::directory(DataDir::open(&config.data.value)?.path())))
    }

    async fn tools(&self, name: &str) -> anyhow::Result<ExitCode> {
        let servers = self.own()?;
        let mut status = servers.status(name)?;
        if status.known.is_none() {
            status = servers.learn(name).await.map_err(|failure| anyhow::anyhow!("`{name}`: {failure}"))?;
        }
        let server = mcp::shown(status);
        match self.json {
            true => output::json(&server)?,
            false => show_tools(&server),
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn test(&self, name: &str) -> anyhow::Result<ExitCode> {
        let servers = self.own()?;
        servers.status(name)?;
        let began = Instant::now();
        let learned = servers.learn(name).await;
        let took = began.elapsed();
        let server = mcp::shown(servers.status(name)?);
        if self.json {
            output::json(&server)?;
        }
        match learned {
            Ok(_) if self.json => {}
            Ok(_) => {
                let who = server.server.as_deref().unwrap_or("a server without a name");
                let protocol = server.protocol.as_deref().unwrap_or("unknown");
                let tools = server.tools.len();
                println!(
                    "{name} works: {}, protocol {protocol}, {tools} tools, started in {:.1} s",
                    visible::line(who, CHARS_MAX),
                    took.as_secs_f64()
                );
            }
            Err(failure) => {
                output::aside(format_args!(
                    "{name} does not work: {}",
                    visible::line(&failure.reason, REASON_CHARS_MAX)
                ));
                return Ok(ExitCode::from(1));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show(server: &McpServer) {
    let state = mcp_state(server);
    let tools = match server.protocol {
        Some(_) => format!("{} tools", server.tools.iter().filter(|tool| tool.left_out.is_none()).count()),
        None => "tools unknown".into(),
    };
    println!("{}  {state}  {tools}  {}", server.name, visible::line(&server.what, CHARS_MAX));
    if let Some(reason) = &server.reason {
        println!("  {}", visible::line(reason, REASON_CHARS_MAX));
    }
}

fn show_tools(server: &McpServer) {
    for tool in &server.tools {
        let effect = match tool.effect {
            ToolEffect::Read => "read",
            ToolEffect::Idempotent => "idempotent",
            ToolEffect::Once => "once",
        };
        let permission = match (&tool.left_out, tool.asks) {
            (Some(why), _) => format!("not offered: {}", visible::line(why, CHARS_MAX)),
            (None, true) => "asks".into(),
            (None, false) => "runs".into(),
        };
        let first = tool.description.lines().next().unwrap_or_default();
        println!("{}  {effect}  {permission}  {}", tool.offered, visible::line(first, CHARS_MAX));
    }
    for (name, why) in &server.refused {
        println!("{}  not usable: {}", visible::line(name, CHARS_MAX), visible::line(why, CHARS_MAX));
    }
}
