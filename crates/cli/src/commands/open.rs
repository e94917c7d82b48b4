//! `everturn open`: open the web page, logged in.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};
use everturn_server::wire::{NewCode, ScopeName};

use crate::daemon::{ChatArgs, DaemonArgs, IfNoDaemon};
use crate::output::{self, println};

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn open
  everturn open --print
  everturn open --scope read --print
  everturn open --url https://chat.example.com --token-file token";

/// Arguments of `everturn open`.
#[derive(clap::Args)]
pub struct Open {
    /// Print the link only. It works once, within a minute.
    #[arg(long)]
    print: bool,
    /// Permission of the session; repeatable. [default: those of the token]
    #[arg(long, value_enum)]
    scope: Vec<super::tokens::Scope>,
    /// Open a session that can neither approve nor deny calls.
    #[arg(long, conflicts_with = "scope")]
    no_approve: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

impl Open {
    /// Makes a link that logs in, and opens it.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let connection = self.daemon.open(&ChatArgs::default(), IfNoDaemon::Refuse).await?;
        let base = connection.client.base();
        if !base.starts_with("http") {
            bail!("the daemon listens on {base}, which browsers cannot open: start it with --listen 127.0.0.1:4140");
        }
        let scopes = self.scopes(&connection.client).await?;
        let code = connection.client.login_code(&NewCode { scopes }).await?;
        let link = format!("{base}{}", code.path);
        if self.print || !has_browser() || !open(&link)? {
            println!("{link}");
            output::aside("the link works once, within a minute");
        }
        connection.leave().await;
        Ok(ExitCode::SUCCESS)
    }

    async fn scopes(&self, client: &crate::client::Client) -> anyhow::Result<Option<Vec<ScopeName>>> {
        if self.no_approve {
            let mut scopes = client.session().await?.scopes;
            scopes.retain(|scope| *scope != ScopeName::Approve);
            return Ok(Some(scopes));
        }
        Ok((!self.scope.is_empty()).then(|| self.scope.iter().copied().map(Into::into).collect()))
    }
}

/// Whether a browser can appear on this machine's screen.
fn has_browser() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Opens a link in the browser; `false` if the system has no program for that. The program is given a private file that
/// leads to the link, because other users can see the arguments of a process.
fn open(link: &str) -> anyhow::Result<bool> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let directory = tempfile::Builder::new().prefix("everturn-open-").tempdir()?.keep();
    let path = directory.join("open.html");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    write!(file, "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={link}\">")
        .context("cannot write the file that leads to the page")?;
    let quiet = Stdio::null;
    let run = Command::new(program).arg(&path).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
    Ok(run.is_ok_and(|status| status.success()))
}
