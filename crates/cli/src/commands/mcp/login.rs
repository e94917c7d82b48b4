//! `everturn mcp login`: a login at a remote server, with a browser here or on another machine.
//!
//! The browser is sent back to a port of this machine. Where there is no browser, a person opens the address elsewhere and
//! pastes the address that the browser ends at, which cannot be shown there.

use std::io::{self, BufRead as _, Read as _};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use everturn_mcp::{LoginFlow, LoginOptions, Logins, McpServers, ServerConfig};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::output::{self, println};
use crate::terminal::visible;

/// Whose login it is if nothing else is said: that of the chats of this machine's own token.
const OWNER: &str = "local";
/// How long a person may take.
const LOGIN_MAX: Duration = Duration::from_secs(600);
/// How long a browser may take to send its request.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Bytes of a browser's request, or of a pasted line, that are read.
const REQUEST_BYTES_MAX: u64 = 16 * 1024;
/// The path that the browser is sent to.
const PATH: &str = "/callback";
/// The programs that open an address in a browser.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// Arguments of `everturn mcp login`.
#[derive(clap::Args)]
pub struct LoginArgs {
    /// The server's name in the configuration.
    name: String,
    /// Whose chats use the login; those of this machine's own token if left out.
    #[arg(long)]
    owner: Option<String>,
    /// Scopes to ask for, with spaces between, instead of those that the server names.
    #[arg(long)]
    scope: Option<String>,
    /// Open no browser; show the address only.
    #[arg(long)]
    no_browser: bool,
}

impl LoginArgs {
    /// Carries out the login.
    pub async fn run(self, servers: &McpServers, logins: &Logins) -> anyhow::Result<ExitCode> {
        let config = servers.config(&self.name)?;
        let listener = listener(config).await?;
        let redirect = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
        let owner = self.owner.clone().unwrap_or_else(|| OWNER.into());
        let options = LoginOptions { owner, redirect, scope: self.scope.clone() };
        let flow = LoginFlow::begin(config, &options).await.with_context(|| format!("`{}`", self.name))?;
        output::aside("open this address in a browser to log in:");
        println!("{}", visible::line(flow.address.as_str(), usize::MAX));
        output::aside(
            "if the browser is on another machine, it ends at an address that it cannot show: paste that address here",
        );
        if !self.no_browser {
            open(flow.address.as_str());
        }
        let came_back = timeout(LOGIN_MAX, came_back(&listener)).await;
        let came_back = came_back.with_context(|| format!("there was no login within {} s", LOGIN_MAX.as_secs()))??;
        let finished = flow.finish(&came_back.query, logins).await;
        came_back.tell(finished.is_ok()).await;
        finished.with_context(|| format!("`{}`", self.name))?;
        match servers.learn(&self.name).await {
            Ok(status) => println!("logged in at {}: {} tools", self.name, status.tools.len()),
            Err(failure) => {
                let why = visible::line(&failure.reason, 2_000);
                output::aside(format_args!("logged in at {}, but it does not work: {why}", self.name));
                return Ok(ExitCode::from(1));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Carries out `everturn mcp logout`.
pub fn log_out(servers: &McpServers, logins: &Logins, name: &str, owner: Option<&str>) -> anyhow::Result<ExitCode> {
    servers.config(name)?;
    let mut removed = false;
    for login in logins.at(name) {
        if login.owner.is_empty() || login.owner == owner.unwrap_or(OWNER) {
            removed |= logins.remove(name, &login.owner)?;
        }
    }
    println!("{}", if removed { format!("logged out of {name}") } else { format!("there was no login at {name}") });
    Ok(ExitCode::SUCCESS)
}

async fn listener(config: &ServerConfig) -> anyhow::Result<TcpListener> {
    let port = config.redirect_port().unwrap_or(0);
    let bound = TcpListener::bind(("127.0.0.1", port)).await;
    bound.with_context(|| format!("port {port} of this machine, which the browser would be sent to, cannot be used"))
}

/// Opens an address in a browser, if there is one.
fn open(address: &str) {
    for opener in OPENERS {
        let mut command = std::process::Command::new(opener);
        command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if command.spawn().is_ok() {
            return;
        }
    }
}

/// What the browser or a person brought back.
struct CameBack {
    query: String,
    browser: Option<TcpStream>,
}

/// Waits for the browser or for a pasted line.
async fn came_back(listener: &TcpListener) -> anyhow::Result<CameBack> {
    let mut lines = pasted();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (browser, _) = accepted?;
                if let Ok(Ok(Some(found))) = timeout(REQUEST_MAX, callback(browser)).await {
                    return Ok(found);
                }
            }
            // Without standard input nothing can be pasted; the browser may still come.
            Some(line) = lines.recv() => {
                let line = line?;
                if !line.trim().is_empty() {
                    return Ok(CameBack { query: line, browser: None });
                }
            }
        }
    }
}

/// Lines of standard input. A thread of its own reads them, which the end of the command does not wait for.
fn pasted() -> mpsc::Receiver<io::Result<String>> {
    let (lines, received) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().take(REQUEST_BYTES_MAX).lines() {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    received
}

/// The request of a browser that comes back from the login; `None` if it wants something else, such as an icon.
async fn callback(mut browser: TcpStream) -> io::Result<Option<CameBack>> {
    let mut line = String::new();
    BufReader::new((&mut browser).take(REQUEST_BYTES_MAX)).read_line(&mut line).await?;
    let target = line.strip_prefix("GET ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let query = target.strip_prefix(PATH).filter(|rest| rest.starts_with('?'));
    if let Some(query) = query {
        return Ok(Some(CameBack { query: query.into(), browser: Some(browser) }));
    }
    browser.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
    Ok(None)
}

impl CameBack {
    /// Shows in the browser how it went.
    async fn tell(self, done: bool) {
        let Some(mut browser) = self.browser else { return };
        let text =
            if done { "You are logged in. Close this page." } else { "The login failed. The terminal says why." };
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncache-control: no-store";
        let answer = format!("{head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}", text.len());
        let _ = browser.write_all(answer.as_bytes()).await; // The terminal says it too.
        let _ = browser.shutdown().await;
    }
}
